package compare_test

import (
	"math"
	"runtime"
	"testing"

	"bench/scoring/compare"
	"bench/scoring/stats"
)

func runs(t *testing.T, right ...[]bool) stats.ItemRuns {
	t.Helper()
	var out stats.ItemRuns
	for _, r := range right {
		it, err := stats.NewItems(len(r), 1, func(i, _ int) uint64 {
			if r[i] {
				return 1
			}
			return 0
		}, func(s []uint64) float64 { return float64(s[0]) / float64(len(r)) })
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, it)
	}
	return out
}

// every makes n items of which those with i%m < k are right.
func every(n, m, k int) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = i%m < k
	}
	return out
}

func TestModels(t *testing.T) {
	clear := runs(t, every(400, 10, 9), every(400, 10, 8), every(400, 10, 5), every(400, 10, 6))
	near := runs(t, every(400, 10, 7), every(400, 10, 8), every(400, 10, 7), every(400, 10, 8))
	o := stats.Resampling{Resamples: 500, Seed: 1, Workers: 2}
	in := []compare.Input{
		{Dataset: "clear", Task: "ner", Metric: "m", Weight: .5, Scale: 100, Runs: clear, SeedsA: 2, SeedsB: 2, Items: 400},
		{Dataset: "near", Task: "ner", Metric: "m", Weight: .25, Scale: 100, Runs: near, SeedsA: 2, SeedsB: 2, Items: 400},
		{Dataset: "scores", Task: "qa", Metric: "m", Weight: .25, Scale: 100, A: []float64{.1, .2, .3, .25}, B: []float64{.6, .7, .65, .62}, Why: "imported"},
	}
	told := 0
	r, err := compare.Models(in, compare.Bootstrap, o, func(compare.Result) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	if told != 3 || r.Better+r.Worse+r.Open != 3 {
		t.Errorf("%+v", r)
	}
	c, n, s := r.Results[0], r.Results[1], r.Results[2]
	if math.Abs(c.Difference-30) > 1e-9 || c.Basis != "predictions" || c.Better != "a" || c.Lo <= 0 {
		t.Errorf("clear: %+v", c)
	}
	if c.HalfA == nil || *c.HalfA <= 0 || s.HalfB == nil {
		t.Errorf("no intervals of the models: %+v", c)
	}
	if n.Difference != 0 || n.P != 1 || n.Better != "" {
		t.Errorf("near: %+v", n)
	}
	if s.Better != "b" || s.Basis != "scores" || s.Items != 0 || s.Holm > .01 || s.Needed.Seeds == 0 {
		t.Errorf("scores: %+v", s)
	}
	if want := .5*c.Difference + .25*n.Difference + .25*s.Difference; math.Abs(r.Overall.Difference-want) > 1e-9 || math.Abs(r.Overall.A-r.Overall.B-want) > 1e-9 {
		t.Errorf("overall: %+v", r.Overall)
	}
	for _, x := range r.Results {
		if x.Holm < x.P || x.Bonferroni < x.Holm {
			t.Errorf("%s: p %v, Holm %v, Bonferroni %v", x.Dataset, x.P, x.Holm, x.Bonferroni)
		}
	}
	// One seed each: nothing is known of other seeds, but of other items.
	one := []compare.Input{{Dataset: "one", Scale: 1, Weight: 1, Runs: runs(t, every(400, 10, 9), every(400, 10, 5)), SeedsA: 1, SeedsB: 1, Items: 400}}
	if r, err := compare.Models(one, compare.Student, o, nil); err != nil || r.Results[0].Better != "a" {
		t.Errorf("%+v %v", r, err)
	}
	alone := []compare.Input{{Dataset: "alone", Scale: 1, Weight: 1, A: []float64{.1}, B: []float64{.9}}}
	if r, err := compare.Models(alone, compare.Bootstrap, o, nil); err != nil || r.Results[0].Better != "" || r.Results[0].Known {
		t.Errorf("one score each: %+v %v", r, err)
	}
}

// BenchmarkModels compares two models with ten seeds each on a data set of 2,048
// items, with 10,000 resamples.
func BenchmarkModels(b *testing.B) {
	const k, n = 10, 2048
	var of stats.ItemRuns
	count := func(i int) uint64 { return uint64(i*i%7) % 2 }
	for run := range 2 * k {
		it, err := stats.NewItems(n, 3, func(i, f int) uint64 { return count(i + f*run) }, func(s []uint64) float64 { return float64(s[0]) / float64(1+s[1]+s[2]) })
		if err != nil {
			b.Fatal(err)
		}
		of = append(of, it)
	}
	pool, err := stats.NewItems(2*k*n, 3, func(i, f int) uint64 { return count(i%n + f*(i/n)) }, func(s []uint64) float64 { return float64(s[0]) / float64(1+s[1]+s[2]) })
	if err != nil {
		b.Fatal(err)
	}
	for _, method := range compare.Methods {
		b.Run(method, func(b *testing.B) {
			in := []compare.Input{{Dataset: "d", Scale: 100, Weight: 1, Runs: of, SeedsA: k, SeedsB: k, Items: n, Pool: func() (stats.Pool, error) { return stats.ItemPool{Items: pool}, nil }}}
			for b.Loop() {
				if _, err := compare.Models(in, method, stats.Resampling{Resamples: 10000, Seed: 1, Workers: runtime.GOMAXPROCS(0)}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
