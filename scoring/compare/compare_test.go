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

// of estimates the first k runs and the others.
func of(t testing.TB, r stats.ItemRuns, k int, o stats.Resampling) [2]*stats.Hierarchy {
	t.Helper()
	var out [2]*stats.Hierarchy
	for side, runs := range []stats.ItemRuns{r[:k], r[k:]} {
		var err error
		if out[side], err = stats.NewHierarchy(runs, len(runs), runs[0].N(), o); err != nil {
			t.Fatal(err)
		}
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
		{Dataset: "clear", Task: "ner", Metric: "m", Weight: .5, Scale: 100, Of: of(t, clear, 2, o)},
		{Dataset: "near", Task: "ner", Metric: "m", Weight: .25, Scale: 100, Of: of(t, near, 2, o)},
		{Dataset: "scores", Task: "qa", Metric: "m", Weight: .25, Scale: 100, A: []float64{.1, .2, .3, .25}, B: []float64{.6, .7, .65, .62}, Why: "imported"},
	}
	r, err := compare.Models(in, compare.Bootstrap, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Better+r.Worse+r.Open != 3 {
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
	one := []compare.Input{{Dataset: "one", Scale: 1, Weight: 1, Of: of(t, runs(t, every(400, 10, 9), every(400, 10, 5)), 1, o)}}
	if r, err := compare.Models(one, compare.Student, o); err != nil || r.Results[0].Better != "a" {
		t.Errorf("%+v %v", r, err)
	}
	alone := []compare.Input{{Dataset: "alone", Scale: 1, Weight: 1, A: []float64{.1}, B: []float64{.9}}}
	if r, err := compare.Models(alone, compare.Bootstrap, o); err != nil || r.Results[0].Better != "" || r.Results[0].Known {
		t.Errorf("one score each: %+v %v", r, err)
	}
}

// TestCorrect: several comparisons are corrected together.
func TestCorrect(t *testing.T) {
	o := stats.Resampling{Resamples: 500, Seed: 1, Workers: 2}
	var reports []*compare.Report
	for i := range 12 {
		// A is better by two items of a hundred: hardly.
		pair := of(t, runs(t, every(400, 100, 62+i%2), every(400, 100, 62), every(400, 100, 56), every(400, 100, 57)), 2, o)
		r, err := compare.Models([]compare.Input{{Dataset: "d", Scale: 100, Weight: 1, Of: pair}}, compare.Student, o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Better != 1 || r.Overall.Better != "a" {
			t.Fatalf("alone: %+v", r)
		}
		reports = append(reports, r)
	}
	compare.Correct(reports...)
	for _, r := range reports {
		one, all := r.Results[0], r.Overall
		if one.Bonferroni != math.Min(1, 12*one.P) || all.Bonferroni != math.Min(1, 12*all.P) || one.Holm < one.P || r.Better+r.Worse+r.Open != 1 {
			t.Errorf("%+v", r)
		}
		if (one.Better == "a") != (one.Holm <= compare.Alpha) {
			t.Errorf("%+v", one)
		}
	}
}

// BenchmarkModels compares two models with ten seeds each on a data set of 2,048
// items, with 10,000 resamples.
func BenchmarkModels(b *testing.B) {
	const k, n = 10, 2048
	var all stats.ItemRuns
	count := func(i int) uint64 { return uint64(i*i%7) % 2 }
	for run := range 2 * k {
		it, err := stats.NewItems(n, 3, func(i, f int) uint64 { return count(i + f*run) }, func(s []uint64) float64 { return float64(s[0]) / float64(1+s[1]+s[2]) })
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, it)
	}
	pool, err := stats.NewItems(2*k*n, 3, func(i, f int) uint64 { return count(i%n + f*(i/n)) }, func(s []uint64) float64 { return float64(s[0]) / float64(1+s[1]+s[2]) })
	if err != nil {
		b.Fatal(err)
	}
	for _, method := range compare.Methods {
		b.Run(method, func(b *testing.B) {
			o := stats.Resampling{Resamples: 10000, Seed: 1, Workers: runtime.GOMAXPROCS(0)}
			for b.Loop() {
				in := []compare.Input{{Dataset: "d", Scale: 100, Weight: 1, Of: of(b, all, k, o), Pool: func() (stats.Pool, error) { return stats.ItemPool{Items: pool}, nil }}}
				if _, err := compare.Models(in, method, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
