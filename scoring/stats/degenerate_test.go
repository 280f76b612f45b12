package stats_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bench/scoring/stats"
)

// TestComparisonProperties: whatever the predictions are, also with one seed, two
// items, or runs that are all the same, every number is finite and in its range,
// and models with equal predictions are not told apart.
func TestComparisonProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 25).Draw(rt, "items")
		kA, kB := rapid.IntRange(1, 4).Draw(rt, "seeds of A"), rapid.IntRange(1, 4).Draw(rt, "seeds of B")
		right := rapid.SliceOfN(rapid.Bool(), n, n)
		if rapid.Bool().Draw(rt, "constant") {
			same := rapid.Bool().Draw(rt, "right")
			right = rapid.Just(slices.Repeat([]bool{same}, n))
		}
		var runs stats.ItemRuns
		var flat []bool
		for range kA + kB {
			r := right.Draw(rt, "run")
			runs, flat = append(runs, answers(t, r)), append(flat, r...)
		}
		o := stats.Resampling{Resamples: 50, Seed: rapid.Uint64().Draw(rt, "seed"), Workers: 2}
		c, err := stats.Compare(runs, kA, kB, n, o)
		if err != nil {
			rt.Fatal(err)
		}
		half, known := c.HalfWidth()
		for what, x := range map[string]float64{
			"difference": c.Mean, "error": c.SE, "df": c.DF, "low": c.Lo, "high": c.Hi, "half-width": half,
			"items": c.PairedVar, "A": c.A.Mean, "B": c.B.Mean, "items of A": c.A.ItemVar, "items of B": c.B.ItemVar,
		} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				rt.Fatalf("%s is %v", what, x)
			}
		}
		if math.Abs(c.Mean-(c.A.Mean-c.B.Mean)) > 1e-15 || c.SE < 0 || c.PairedVar < 0 || c.Lo > c.Hi || half < 0 || !known {
			rt.Fatalf("%+v", c)
		}
		for _, p := range []float64{c.P(), c.PBootstrap} {
			if p < 0 || p > 1 {
				rt.Fatalf("p is %v", p)
			}
		}
		if lo, hi := c.A.ItemInterval(); lo > hi || lo < 0 || hi > 1 {
			rt.Fatalf("interval over items %v … %v", lo, hi)
		}
		if plan := c.PlanFor(); plan.Seeds < 0 || plan.Items < 0 {
			rt.Fatalf("%+v", plan)
		}
		back, err := stats.Compare(slices.Concat(runs[kA:], runs[:kA]), kB, kA, n, o)
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.Equal(c.A.Scores, c.B.Scores) && (back.PBootstrap != c.PBootstrap || math.Abs(back.Lo+c.Hi) > 1e-12 || math.Abs(back.Hi+c.Lo) > 1e-12 || back.Mean != -c.Mean) {
			rt.Fatalf("A − B is %v … %v, p %v; B − A is %v … %v, p %v", c.Lo, c.Hi, c.PBootstrap, back.Lo, back.Hi, back.PBootstrap)
		}
		if kA == kB {
			p, err := stats.Randomise(stats.ItemPool{Items: answers(t, flat)}, kA, n, o)
			if err != nil || p <= 0 || p > 1 {
				rt.Fatalf("randomisation: p %v, %v", p, err)
			}
			// By rows it is the same as by sums, and B − A the same as A − B.
			q, err := stats.Randomise(byRows{stats.ItemPool{Items: answers(t, slices.Concat(flat[kA*n:], flat[:kA*n]))}}, kA, n, o)
			if err != nil || !slices.Equal(c.A.Scores, c.B.Scores) && q != p {
				rt.Fatalf("randomisation the other way round and by rows: p %v, not %v (%v)", q, p, err)
			}
		}
		self, err := stats.Compare(slices.Concat(runs[:kA], runs[:kA]), kA, kA, n, o)
		if err != nil || self.Mean != 0 || self.P() != 1 || self.PBootstrap <= .05 {
			rt.Fatalf("a model and itself: %+v %v", self, err)
		}
	})
}

// byRows hides from Randomise that its metric is a function of sums.
type byRows struct{ stats.Pool }

// TestStop: who stops the work gets no half result.
func TestStop(t *testing.T) {
	good := answers(t, []bool{true, false, true, true})
	stop := make(chan struct{})
	close(stop)
	o := stats.Resampling{Resamples: 1000, Workers: 2, Stop: stop}
	if _, err := stats.Compare(stats.ItemRuns{good, good}, 1, 1, 4, o); !errors.Is(err, stats.ErrStopped) {
		t.Errorf("comparison: %v", err)
	}
	if _, err := stats.Randomise(stats.ItemPool{Items: good}, 1, 2, o); !errors.Is(err, stats.ErrStopped) {
		t.Errorf("randomisation: %v", err)
	}
	if got, want := good.Bootstrap(o), good.Bootstrap(stats.Resampling{Resamples: 1000, Workers: 2}); !slices.Equal(got, want) {
		t.Error("a bootstrap is stopped half-way")
	}
}

// TestNoScore: what cannot be scored is an error, never a NaN.
func TestNoScore(t *testing.T) {
	nan, err := stats.NewItems(4, 1, func(int, int) uint64 { return 1 }, func([]uint64) float64 { return math.NaN() })
	if err != nil {
		t.Fatal(err)
	}
	good := answers(t, []bool{true, false, true, true})
	o := stats.Resampling{Resamples: 10, Workers: 2}
	for what, try := range map[string]func() error{
		"NaN of A":     func() error { _, err := stats.Compare(stats.ItemRuns{nan, good}, 1, 1, 4, o); return err },
		"NaN of B":     func() error { _, err := stats.Compare(stats.ItemRuns{good, nan}, 1, 1, 4, o); return err },
		"NaN in pool":  func() error { _, err := stats.Randomise(stats.ItemPool{Items: nan}, 1, 2, o); return err },
		"no items":     func() error { _, err := stats.Compare(stats.ItemRuns{good, good}, 1, 1, 0, o); return err },
		"one item":     func() error { _, err := stats.Compare(stats.ItemRuns{good, good}, 1, 1, 1, o); return err },
		"no seed of B": func() error { _, err := stats.Compare(stats.ItemRuns{good}, 1, 0, 4, o); return err },
		"no resamples": func() error {
			_, err := stats.Randomise(stats.ItemPool{Items: good}, 1, 2, stats.Resampling{})
			return err
		},
	} {
		if err := try(); err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCorrectionProperties: Holm's p lies between p and Bonferroni's, keeps the
// order of the p-values, and neither depends on the order of the tests.
func TestCorrectionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 20).Draw(t, "p")
		holm, bonferroni := stats.Holm(p), stats.Bonferroni(p)
		for i := range p {
			if !(p[i] <= holm[i] && holm[i] <= bonferroni[i] && bonferroni[i] <= 1) {
				t.Fatalf("p %v, Holm %v, Bonferroni %v", p[i], holm[i], bonferroni[i])
			}
			for j := range p {
				if p[i] < p[j] && holm[i] > holm[j] {
					t.Fatalf("p %v before %v, Holm %v before %v", p[i], p[j], holm[i], holm[j])
				}
			}
		}
		back := slices.Clone(p)
		slices.Reverse(back)
		again := stats.Holm(back)
		slices.Reverse(again)
		if !slices.Equal(again, holm) {
			t.Fatalf("%v and, the other way round, %v", holm, again)
		}
	})
}
