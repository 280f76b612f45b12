package stats_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bench/scoring/metrics"
	"bench/scoring/stats"
)

// entities are n sentences with entity counts, drawn from a seed.
func entities(t testing.TB, n int, seed uint64, skill float64) *stats.Items {
	t.Helper()
	g := rand.New(rand.NewPCG(seed, 1))
	counts := make([]metrics.Entities, n)
	for i := range counts {
		for range g.IntN(4) {
			counts[i].Gold++
			if g.Float64() < skill {
				counts[i].Correct++
				counts[i].Pred++
			} else if g.IntN(2) == 0 {
				counts[i].Pred++
			}
		}
	}
	it, err := stats.NewItems(n, 3, func(i, f int) uint64 {
		return uint64([]int{counts[i].Gold, counts[i].Pred, counts[i].Correct}[f])
	}, func(s []uint64) float64 {
		return metrics.Entities{Gold: int(s[0]), Pred: int(s[1]), Correct: int(s[2])}.F1().X
	})
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// answers are n items that are right or wrong: for accuracy.
func answers(t testing.TB, right []bool) *stats.Items {
	t.Helper()
	n := len(right)
	it, err := stats.NewItems(n, 1, func(i, _ int) uint64 {
		if right[i] {
			return 1
		}
		return 0
	}, func(s []uint64) float64 { return float64(s[0]) / float64(n) })
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// correlation is the MCC of n items in k classes, by the counts that it needs.
func correlation(t testing.TB, n, k int, seed uint64) *stats.Items {
	t.Helper()
	g := rand.New(rand.NewPCG(seed, 2))
	gold, pred := make([]int, n), make([]int, n)
	for i := range gold {
		gold[i] = g.IntN(k)
		if pred[i] = gold[i]; g.IntN(3) == 0 {
			pred[i] = g.IntN(k)
		}
	}
	is := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	// Fields: correct, then gold and predicted items of each class but the last.
	it, err := stats.NewItems(n, 1+2*(k-1), func(i, f int) uint64 {
		switch {
		case f == 0:
			return is(gold[i] == pred[i])
		case f < k:
			return is(gold[i] == f-1)
		}
		return is(pred[i] == f-k)
	}, func(s []uint64) float64 {
		total, correct := float64(n), float64(s[0])
		lastGold, lastPred := total, total
		cov, vg, vp := correct*total, total*total, total*total
		for c := range k - 1 {
			a, b := float64(s[1+c]), float64(s[k+c])
			lastGold, lastPred = lastGold-a, lastPred-b
			cov, vg, vp = cov-a*b, vg-a*a, vp-b*b
		}
		cov, vg, vp = cov-lastGold*lastPred, vg-lastGold*lastGold, vp-lastPred*lastPred
		if vg == 0 || vp == 0 {
			return 0
		}
		return cov / math.Sqrt(vg*vp)
	})
	if err != nil {
		t.Fatal(err)
	}
	c := metrics.NewConfusion(k)
	for i := range gold {
		c.Add(gold[i], pred[i])
	}
	if want := c.MCC().X; math.Abs(it.Score(nil)-want) > 1e-12 {
		t.Fatalf("MCC %v, want %v", it.Score(nil), want)
	}
	return it
}

func TestWorkersDoNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		it := entities(t, rapid.IntRange(1, 300).Draw(rt, "items"), rapid.Uint64().Draw(rt, "data"), .6)
		o := stats.Resampling{Resamples: rapid.IntRange(1, 200).Draw(rt, "resamples"), Seed: rapid.Uint64().Draw(rt, "seed"), Workers: 1}
		one := it.Bootstrap(o)
		o.Workers = rapid.IntRange(2, 9).Draw(rt, "workers")
		if !slices.Equal(one, it.Bootstrap(o)) {
			t.Fatal("another number of workers, other values")
		}
		// The same resamples, drawn one by one.
		rows := make([]int, it.N())
		for r := range one {
			stats.Draw(o.Seed, r, rows)
			if got := it.Score(rows); got != one[r] {
				t.Fatalf("resample %d: %v and %v", r, one[r], got)
			}
		}
	})
}

// TestBootstrapError: the resamples' spread of a mean is that of theory,
// √(p(1−p)/n), and the draws are uniform.
func TestBootstrapError(t *testing.T) {
	right := make([]bool, 400)
	for i := range right {
		right[i] = i%4 != 0
	}
	x := answers(t, right).Bootstrap(stats.Resampling{Resamples: 20000, Seed: 7})
	if got, want := stats.SD(x), math.Sqrt(.75*.25/400); math.Abs(got/want-1) > .02 {
		t.Errorf("SD %v, want %v", got, want)
	}
	if got := stats.Mean(x); math.Abs(got-.75) > .001 {
		t.Errorf("mean %v", got)
	}
	seen, rows := make([]int, 31), make([]int, 31)
	for r := range 10000 {
		stats.Draw(1, r, rows)
		for _, i := range rows {
			seen[i]++
		}
	}
	chi := 0.0
	for _, n := range seen {
		chi += float64(n-10000) * float64(n-10000) / 10000
	}
	if chi > 60 { // 30 degrees of freedom: p < 0.001 above 59.7
		t.Errorf("χ² of the draws is %.1f: %v", chi, seen)
	}
}

func TestItems(t *testing.T) {
	if _, err := stats.NewItems(4, 1, func(int, int) uint64 { return 1 << 63 }, nil); err == nil {
		t.Error("a sum beyond 64 bits is no error")
	}
	// Two words: three fields of 40 bits.
	it, err := stats.NewItems(2, 3, func(i, f int) uint64 { return stats.Fraction(float64(i+f) / 4) }, func(s []uint64) float64 {
		return stats.FractionOf(s[0]) + 10*stats.FractionOf(s[1]) + 100*stats.FractionOf(s[2])
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := it.Score(nil); got != .25+10*.75+100*1.25 {
		t.Errorf("%v", got)
	}
}

// Expected values: numpy 1.26: numpy.quantile([1, 2, 4, 8], [.025, .5, .975]).
func TestQuantile(t *testing.T) {
	for q, want := range map[float64]float64{.025: 1.075, .5: 3, .975: 7.7, 1: 8, 0: 1} {
		if got := stats.Quantile([]float64{1, 2, 4, 8}, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}

func TestPercentiles(t *testing.T) {
	if _, _, p := stats.Percentiles([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}); p != .2 {
		t.Errorf("p %v, want 2·1/10", p)
	}
	if _, _, p := stats.Percentiles([]float64{0, 0, 0}); p != 1 {
		t.Errorf("p %v of equal models", p)
	}
}

// crossed simulates k runs on n items whose chances of success vary with the
// item, the run, and both; truth is the mean over all runs and items.
func crossed(g *rand.Rand, base, itemSD, runSD float64, k int, items []float64) [][]bool {
	out := make([][]bool, k)
	for run := range out {
		shift := runSD * g.NormFloat64()
		out[run] = make([]bool, len(items))
		for i, easy := range items {
			out[run][i] = g.Float64() < sigmoid(base+itemSD*easy+shift)
		}
	}
	return out
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// expected is the mean of sigmoid(base + N(0, sd²)).
func expected(base, sd float64) float64 {
	sum, weight := 0.0, 0.0
	for z := -8.0; z <= 8; z += .001 {
		w := math.Exp(-z * z / 2)
		sum, weight = sum+w*sigmoid(base+sd*z), weight+w
	}
	return sum / weight
}

// TestCoverage: over simulated experiments with ten seeds and a known truth, a
// 95 % interval must hold it in 93.5 to 96.5 % of cases. docs/statistics.md has
// the numbers.
func TestCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation of some seconds")
	}
	const experiments, k, n = 4000, 10, 200
	check := func(name string, covered int, honest bool) {
		t.Helper()
		share := float64(covered) / experiments
		t.Logf("%-36s %.2f %%", name, 100*share)
		if honest && (share < .935 || share > .965) {
			t.Errorf("%s covers %.2f %%", name, 100*share)
		}
	}
	within := func(e stats.Estimate, truth float64) bool {
		h, ok := e.HalfWidth()
		return ok && math.Abs(e.Mean-truth) <= h
	}
	// Ten independent scores: what an interval of seeds alone promises.
	g := rand.New(rand.NewPCG(1, 1))
	tCover, zCover := 0, 0
	for range experiments {
		x := make([]float64, k)
		for i := range x {
			x[i] = 60 + 3*g.NormFloat64()
		}
		e := stats.Of(x)
		if within(e, 60) {
			tCover++
		}
		if math.Abs(e.Mean-60) <= stats.Z*e.SE {
			zCover++
		}
	}
	check("seeds only, Student's t", tCover, true)
	check("seeds only, 1.96 SE", zCover, false)

	// Aggregates of data sets of unequal spread.
	aggregate := 0
	for range experiments {
		var parts []stats.Estimate
		weights := []float64{.25, .25, .125, .125, .25}
		for d := range weights {
			x := make([]float64, k)
			for i := range x {
				x[i] = 50 + float64(1+2*d)*g.NormFloat64()
			}
			parts = append(parts, stats.Of(x))
		}
		if within(stats.Combine(weights, parts), 50) {
			aggregate++
		}
	}
	check("aggregate, propagated", aggregate, true)

	// Runs × items with a shared test split.
	o := stats.Resampling{Resamples: 200, Seed: 5}
	hier, seeds, paired, pairedBoot, unpaired, welch := 0, 0, 0, 0, 0, 0
	// An item is as hard for both models, 1.2, and harder for one of them, 0.9.
	truthA, truthB := expected(.6, math.Sqrt(1.2*1.2+.9*.9+.3*.3)), expected(.3, math.Sqrt(1.2*1.2+.9*.9+.4*.4))
	const few = experiments / 2 // of these, each with two models
	for e := range few {
		itemsA, itemsB := make([]float64, n), make([]float64, n)
		for i := range itemsA {
			both := 1.2 * g.NormFloat64()
			itemsA[i], itemsB[i] = both+.9*g.NormFloat64(), both+.9*g.NormFloat64()
		}
		var runs stats.ItemRuns
		for _, right := range append(crossed(g, .6, 1, .3, k, itemsA), crossed(g, .3, 1, .4, k, itemsB)...) {
			runs = append(runs, answers(t, right))
		}
		o.Seed = uint64(e)
		c, err := stats.Compare(runs, k, k, n, o)
		if err != nil {
			t.Fatal(err)
		}
		count := func(to *int, ok bool) {
			if ok {
				*to += experiments / few
			}
		}
		count(&hier, within(c.A.Estimate, truthA))
		count(&seeds, within(stats.Of(c.A.Scores), truthA))
		count(&paired, within(c.Estimate, truthA-truthB))
		count(&pairedBoot, c.Lo <= truthA-truthB && truthA-truthB <= c.Hi)
		count(&welch, within(stats.Difference(stats.Of(c.A.Scores), stats.Of(c.B.Scores)), truthA-truthB))
		count(&unpaired, within(stats.Difference(c.A.Estimate, c.B.Estimate), truthA-truthB))
	}
	check("runs × items, hierarchical", hier, true)
	check("runs × items, t over seeds alone", seeds, false)
	check("difference, hierarchical and paired", paired, true)
	check("difference, paired bootstrap", pairedBoot, false)
	check("difference, Welch's t of seeds", welch, false)
	check("difference, hierarchical, not paired", unpaired, false)
}

type broken struct{}

func (broken) Score(int, []int) (float64, error) { return 0, errors.New("no score") }

func TestCompareFails(t *testing.T) {
	if _, err := stats.Compare(broken{}, 2, 2, 10, stats.Resampling{Resamples: 10}); err == nil {
		t.Error("no error")
	}
	if _, err := stats.NewHierarchy(stats.ItemRuns{}, 0, 10, stats.Resampling{Resamples: 10}); err == nil {
		t.Error("no runs, no error")
	}
}

// TestNull: of equal models a test at 5 % finds a difference in about 5 % of cases.
func TestNull(t *testing.T) {
	const experiments, k, n = 400, 5, 100
	g := rand.New(rand.NewPCG(3, 3))
	bootstrap, random, student := 0, 0, 0
	for e := range experiments {
		items := make([]float64, n)
		for i := range items {
			items[i] = g.NormFloat64()
		}
		all := crossed(g, .5, 1.5, .2, 2*k, items)
		var runs stats.ItemRuns
		var flat []bool
		for _, right := range all {
			runs, flat = append(runs, answers(t, right)), append(flat, right...)
		}
		pool, err := stats.NewItems(len(flat), 1, func(i, _ int) uint64 {
			if flat[i] {
				return 1
			}
			return 0
		}, func(s []uint64) float64 { return float64(s[0]) / n })
		if err != nil {
			t.Fatal(err)
		}
		o := stats.Resampling{Resamples: 199, Seed: uint64(e), Workers: 2}
		c, err := stats.Compare(runs, k, k, n, o)
		if err != nil {
			t.Fatal(err)
		}
		p, err := stats.Randomise(stats.ItemPool{pool}, k, n, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			p  float64
			to *int
		}{{c.PBootstrap, &bootstrap}, {p, &random}, {c.P(), &student}} {
			if x.p <= .05 {
				*x.to++
			}
		}
	}
	t.Logf("of %d: bootstrap %d, randomisation %d, hierarchical t %d", experiments, bootstrap, random, student)
	if random < 4 {
		t.Errorf("randomisation finds a difference in %d of %d cases only: it is too careful", random, experiments)
	}
	for name, hits := range map[string]int{"bootstrap": bootstrap, "randomisation": random, "hierarchical t": student} {
		if hits > experiments/10 { // 5 % is 20; 40 would come about once in 50,000 times
			t.Errorf("%s finds a difference between equal models in %d of %d cases", name, hits, experiments)
		}
	}
}

// TestComparison: a clear difference is found by all, A − B is −(B − A), and the
// plan asks for less when the difference is larger.
func TestComparison(t *testing.T) {
	g := rand.New(rand.NewPCG(4, 4))
	items := make([]float64, 500)
	for i := range items {
		items[i] = g.NormFloat64()
	}
	var ab, ba stats.ItemRuns
	a, b := crossed(g, 1, 1.5, .1, 6, items), crossed(g, .5, 1.5, .1, 6, items)
	for _, right := range slices.Concat(a, b) {
		ab = append(ab, answers(t, right))
	}
	ba = append(slices.Clone(ab[6:]), ab[:6]...)
	o := stats.Resampling{Resamples: 500, Seed: 1, Workers: runtime.NumCPU()}
	c, err := stats.Compare(ab, 6, 6, 500, o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := stats.Compare(ba, 6, 6, 500, o)
	if err != nil {
		t.Fatal(err)
	}
	if c.PBootstrap > .01 || c.P() > .01 || c.Lo <= 0 {
		t.Errorf("%+v", c)
	}
	if c.Mean != -d.Mean || math.Abs(c.SE-d.SE) > 1e-15 {
		t.Errorf("%v ± %v and %v ± %v", c.Mean, c.SE, d.Mean, d.SE)
	}
	if v := stats.Difference(c.A.Estimate, c.B.Estimate).SE; v <= c.SE {
		t.Errorf("pairing does not help: %v, %v", c.SE, v)
	}
	near := *c
	near.Mean /= 2
	if p, q := c.PlanFor(), near.PlanFor(); p.Seeds == 0 || q.Seeds != 0 && q.Seeds <= p.Seeds {
		t.Errorf("plans %+v, of half the difference %+v", p, q)
	}
}

func BenchmarkMicroF1(b *testing.B) {
	it := entities(b, 2048, 1, .7)
	for b.Loop() {
		it.Bootstrap(stats.Resampling{Resamples: 10000, Seed: 1, Workers: 1})
	}
}

func BenchmarkMCC(b *testing.B) {
	for _, k := range []int{2, 3} {
		b.Run(map[int]string{2: "2classes", 3: "3classes"}[k], func(b *testing.B) {
			it := correlation(b, 2048, k, 1)
			for b.Loop() {
				it.Bootstrap(stats.Resampling{Resamples: 10000, Seed: 1, Workers: 1})
			}
		})
	}
}

// BenchmarkAllPairs compares 113 models on 14 data sets of 2,048 sentences, each
// with each, with 1,000 resamples: by one run each over items, and by ten runs
// each over items and seeds, as bench compare does.
func BenchmarkAllPairs(b *testing.B) {
	const models, sets, n = 113, 14, 2048
	o := stats.Resampling{Resamples: 1000, Seed: 1, Workers: runtime.NumCPU()}
	run := func(b *testing.B, seed int, m int) *stats.Items {
		return entities(b, n, uint64(seed), .3+float64(m)/300)
	}
	b.Run("1run", func(b *testing.B) {
		for b.Loop() {
			for d := range sets {
				scores := make([][]float64, models)
				for m := range scores {
					scores[m] = run(b, d*models+m, m).Bootstrap(o)
				}
				for i := range scores {
					for j := range i {
						stats.PairedBootstrap(scores[i], scores[j])
					}
				}
			}
		}
	})
	b.Run("10runs", func(b *testing.B) {
		const k = 10
		for b.Loop() {
			for d := range sets {
				of := make([]*stats.Hierarchy, models)
				for m := range of {
					var runs stats.ItemRuns
					for r := range k {
						runs = append(runs, run(b, (d*models+m)*k+r, m))
					}
					var err error
					if of[m], err = stats.NewHierarchy(runs, k, n, o); err != nil {
						b.Fatal(err)
					}
				}
				for i := range of {
					for j := range i {
						if _, err := stats.Versus(of[i], of[j]); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		}
	})
}
