package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bench/scoring/stats"
)

// Expected values: scipy 1.17.1: r = ttest_ind([1, 2, 4, 8], [3, 3, 5, 9, 11],
// equal_var=False): p, r.df and r.confidence_interval().
func TestWelch(t *testing.T) {
	d := stats.Difference(stats.Of([]float64{1, 2, 4, 8}), stats.Of([]float64{3, 3, 5, 9, 11}))
	half, ok := d.HalfWidth()
	for name, c := range map[string][2]float64{
		"statistic": {d.Mean / d.SE, -1.091768124161581}, "p": {d.P(), 0.3113960465839033}, "df": {d.DF, 6.936933004820616},
		"low": {d.Mean - half, -7.766168839184311}, "high": {d.Mean + half, 2.8661688391843105},
	} {
		if !ok || math.Abs(c[0]-c[1]) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, c[0], c[1])
		}
	}
}

func TestUnknownError(t *testing.T) {
	one, ten := stats.Of([]float64{3}), stats.Of([]float64{1, 2, 3})
	sum := stats.Combine([]float64{.5, .5}, []stats.Estimate{one, ten})
	if _, ok := sum.HalfWidth(); ok || sum.Mean != 2.5 || sum.P() != 1 {
		t.Errorf("%+v", sum)
	}
	if sum := stats.Combine([]float64{0, 1}, []stats.Estimate{one, ten}); sum != ten {
		t.Errorf("a part without a weight counts: %+v", sum)
	}
	if c := stats.Of([]float64{2, 2, 2}); c.P() != 0 || c.DF != 2 {
		t.Errorf("constant scores: %+v", c)
	}
}

// By hand: Holm (1979): sorted .005, .01, .03, .04 times 4, 3, 2, 1, made monotone.
func TestHolm(t *testing.T) {
	p := []float64{.01, .04, .03, .005}
	for i, want := range []float64{.03, .06, .06, .02} {
		if got := stats.Holm(p)[i]; math.Abs(got-want) > 1e-15 {
			t.Errorf("Holm %d: %v, want %v", i, got, want)
		}
	}
	if got := stats.Bonferroni(p); !slices.Equal(got, []float64{.04, .16, .12, .02}) {
		t.Errorf("Bonferroni: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 12).Draw(t, "p")
		h, b := stats.Holm(p), stats.Bonferroni(p)
		for i := range p {
			if h[i] < p[i] || h[i] > b[i] || h[i] > 1 {
				t.Fatalf("p %v, Holm %v, Bonferroni %v", p[i], h[i], b[i])
			}
			for j := range p {
				if p[i] < p[j] && h[i] > h[j] {
					t.Fatal("Holm changes the order")
				}
			}
		}
	})
}

func TestRankIntervals(t *testing.T) {
	at := func(m float64) stats.Estimate { return stats.Estimate{Mean: m, SE: 1, DF: 20} }
	got := stats.RankIntervals([]stats.Estimate{at(50), at(80), at(50.5), at(20), {Mean: 99}}, true)
	// The last one has no error: nothing can be said of it.
	if want := []stats.Ranks{{2, 4}, {1, 2}, {2, 4}, {4, 5}, {1, 5}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := stats.RankIntervals([]stats.Estimate{at(1), at(30)}, false); !slices.Equal(got, []stats.Ranks{{1, 1}, {2, 2}}) {
		t.Errorf("the lower, the better: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		var e []stats.Estimate
		for range rapid.IntRange(1, 12).Draw(t, "models") {
			e = append(e, stats.Estimate{Mean: rapid.Float64Range(0, 9).Draw(t, "mean"), SE: rapid.Float64Range(.1, 2).Draw(t, "se"), DF: 9})
		}
		r := stats.RankIntervals(e, true)
		for i := range e {
			better := 0
			for j := range e {
				if e[j].Mean > e[i].Mean {
					better++
				}
			}
			if r[i].Lo < 1 || r[i].Hi > len(e) || r[i].Lo > better+1 || r[i].Hi < better+1 {
				t.Fatalf("%v has %d better ones and the ranks %v", e[i], better, r[i])
			}
		}
	})
}

// What is concluded from t alone is what all p-values say.
func TestRankIntervalsByP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e []stats.Estimate
		for range rapid.IntRange(1, 9).Draw(t, "models") {
			e = append(e, stats.Estimate{Mean: rapid.Float64Range(0, 15).Draw(t, "mean"), SE: rapid.Float64Range(0, 2).Draw(t, "se"), DF: rapid.SampledFrom([]float64{0, 1, 4, 9, 9.1, 30, 200}).Draw(t, "df")})
		}
		for i, got := range stats.RankIntervals(e, true) {
			var p []float64
			for j := range e {
				if j != i {
					p = append(p, stats.Difference(e[i], e[j]).P())
				}
			}
			want := stats.Ranks{Lo: 1, Hi: len(e)}
			for k, v := range stats.Holm(p) {
				j := k
				if k >= i {
					j++
				}
				if v < 0.05 && e[j].Mean > e[i].Mean {
					want.Lo++
				} else if v < 0.05 {
					want.Hi--
				}
			}
			if got != want {
				t.Fatalf("%d of %v: %v, want %v", i, e, got, want)
			}
		}
	})
}

// TestRankCoverage: the interval of every model holds its true rank in 95 % of
// experiments at least.
func TestRankCoverage(t *testing.T) {
	truth := []float64{50, 51, 53, 56, 60}
	rng := rand.New(rand.NewPCG(9, 9))
	const experiments = 2000
	missed := 0
	for range experiments {
		var e []stats.Estimate
		for _, m := range truth {
			x := make([]float64, 10)
			for i := range x {
				x[i] = m + 3*rng.NormFloat64()
			}
			e = append(e, stats.Of(x))
		}
		r := stats.RankIntervals(e, true)
		for i := range truth {
			if rank := len(truth) - i; r[i].Lo > rank || r[i].Hi < rank {
				missed++
				break
			}
		}
	}
	t.Logf("at least one of five intervals misses in %d of %d experiments", missed, experiments)
	if missed > experiments*len(truth)*5/100 {
		t.Errorf("%d of %d", missed, experiments)
	}
}
