package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Runs scores resamples of the predictions of several runs (seeds) on the items
// of one test split.
type Runs interface {
	// Score scores one run on the items with these indices; nil: on all items
	// once. It may be called by several goroutines at once.
	Score(run int, rows []int) (float64, error)
}

// ItemRuns are runs whose metric is a function of sums.
type ItemRuns []*Items

// Score implements Runs. A score that is not a number is an error.
func (r ItemRuns) Score(run int, rows []int) (float64, error) { return number(r[run].Score(rows)) }

func number(x float64) (float64, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("stats: the score of a resample is %v", x)
	}
	return x, nil
}

// Hierarchy is what repeated runs on one test split tell of a model's score:
// how much of its error comes from the training (another seed) and how much
// from the test split (other items).
type Hierarchy struct {
	// Estimate is the mean over the runs of the score on all items, with the
	// error that both sources make together:
	//
	//	SE² = s²/k + max(0, V − i/k),  i = max(0, (W − V)·k/(k−1))
	//
	// k runs, s² the sample variance of their scores; V is the bootstrap
	// variance, over items, of the mean of the runs, W the mean of the bootstrap
	// variances of single runs, so that i is the part in which runs differ on
	// items. It is in s² already and must not be counted twice. This is the
	// analysis of variance of two crossed random factors. Its degrees of freedom
	// are Satterthwaite's. With one run only the items' error is known.
	Estimate
	Runs      int       `json:"runs"`
	Items     int       `json:"items"`
	Scores    []float64 `json:"scores"`   // of each run, on all items
	SeedVar   float64   `json:"seed_var"` // s²
	ItemVar   float64   `json:"item_var"` // max(0, V − i/k)
	Crossed   float64   `json:"crossed"`  // i
	resampled []float64 // means over runs on each resample
	seed      uint64    // of the resamples
}

// NewHierarchy estimates the score of k runs on n items.
func NewHierarchy(r Runs, k, n int, o Resampling) (*Hierarchy, error) {
	if k < 1 || n < 2 || o.Resamples < 2 {
		return nil, fmt.Errorf("stats: %d runs, %d items and %d resamples are too few", k, n, o.Resamples)
	}
	h := &Hierarchy{Runs: k, Items: n, resampled: make([]float64, o.Resamples), seed: o.Seed}
	for run := range k {
		x, err := r.Score(run, nil)
		if err != nil {
			return nil, err
		}
		h.Scores = append(h.Scores, x)
	}
	single := make([][]float64, k)
	for run := range single {
		single[run] = make([]float64, o.Resamples)
	}
	err := each(o, func() func(int) error {
		rows := make([]int, n)
		return func(at int) error {
			Draw(o.Seed, at, rows)
			sum := 0.0
			for run := range k {
				x, err := r.Score(run, rows)
				if err != nil {
					return err
				}
				single[run][at] = x
				sum += x
			}
			h.resampled[at] = sum / float64(k)
			return nil
		}
	})
	if err != nil {
		return nil, err
	}
	h.Mean = Mean(h.Scores)
	v := variance(h.resampled)
	w := 0.0
	for _, x := range single {
		w += variance(x) / float64(k)
	}
	h.ItemVar = v
	if k > 1 {
		h.SeedVar = variance(h.Scores)
		h.Crossed = max(0, (w-v)*float64(k)/float64(k-1))
		h.ItemVar = max(0, v-h.Crossed/float64(k))
	}
	h.SE, h.DF = twoSources(h.SeedVar/float64(k), k-1, h.ItemVar, n-1)
	return h, nil
}

// ItemInterval is the 95 % percentile interval of the mean over the runs, over
// items alone: what another test split would give to these very runs.
func (h *Hierarchy) ItemInterval() (lo, hi float64) {
	lo, hi, _ = Percentiles(h.resampled)
	return lo, hi
}

func variance(x []float64) float64 {
	s := SD(x)
	return s * s
}

// twoSources adds variances with their degrees of freedom.
func twoSources(seeds float64, seedDF int, items float64, itemDF int) (se, df float64) {
	sum := Combine([]float64{1, 1}, []Estimate{
		{SE: math.Sqrt(seeds), DF: float64(max(1, seedDF))}, {SE: math.Sqrt(items), DF: float64(itemDF)},
	})
	return sum.SE, sum.DF
}

// Comparison is what the predictions of two models on the same items tell of
// the difference of their scores.
type Comparison struct {
	A, B *Hierarchy `json:"-"`
	// Estimate of the difference A − B: as Hierarchy's, with the items' error
	// taken from the paired differences, which is smaller the more the models
	// err on the same items. Its P and HalfWidth are those of Student's t.
	Estimate
	// Lo, Hi and PBootstrap come from the paired bootstrap over items and seeds:
	// resample r draws the items once for both models and the seeds of each
	// model on their own,
	//
	//	M_A(r) − M_B(r) + √(k/(k−1))·(D_A(r) − D_B(r))
	//
	// M the mean over all runs on the drawn items, D that of the drawn runs less
	// that of all runs, on all items; the factor makes up for the k−1.
	Lo         float64 `json:"lo"`
	Hi         float64 `json:"hi"`
	PBootstrap float64 `json:"p_bootstrap"`
	PairedVar  float64 `json:"paired_var"` // of the difference, from the items alone
}

// Compare compares the first kA runs with the kB runs after them, on n items.
func Compare(r Runs, kA, kB, n int, o Resampling) (*Comparison, error) {
	a, err := NewHierarchy(r, kA, n, o)
	if err != nil {
		return nil, err
	}
	b, err := NewHierarchy(shifted{r, kA}, kB, n, o)
	if err != nil {
		return nil, err
	}
	return Versus(a, b)
}

// Versus compares two models that were estimated on the same items, by the same
// resamples: who compares many models estimates each of them once.
func Versus(a, b *Hierarchy) (*Comparison, error) {
	if a.Items != b.Items || len(a.resampled) != len(b.resampled) || a.seed != b.seed {
		return nil, fmt.Errorf("stats: %d resamples of %d items cannot be paired with %d of %d, or of another seed", len(a.resampled), a.Items, len(b.resampled), b.Items)
	}
	c := &Comparison{A: a, B: b}
	c.Mean = a.Mean - b.Mean
	items := make([]float64, len(a.resampled))
	both := make([]float64, len(a.resampled))
	first, second, sign := a, b, 1.0
	if slices.Compare(b.Scores, a.Scores) > 0 { // so that B − A is drawn as A − B is
		first, second, sign = b, a, -1
	}
	for at := range items {
		items[at] = a.resampled[at] - b.resampled[at]
		g := stream(^a.seed, at) // the seeds' draws are not those of the items
		both[at] = items[at] + sign*(drawnRuns(&g, first)-drawnRuns(&g, second))
	}
	kA, kB := float64(a.Runs), float64(b.Runs)
	c.PairedVar = max(0, variance(items)-a.Crossed/kA-b.Crossed/kB)
	sum := Combine([]float64{1, 1, 1}, []Estimate{
		{SE: math.Sqrt(a.SeedVar / kA), DF: max(1, kA-1)},
		{SE: math.Sqrt(b.SeedVar / kB), DF: max(1, kB-1)},
		{SE: math.Sqrt(c.PairedVar), DF: float64(a.Items - 1)},
	})
	c.SE, c.DF = sum.SE, sum.DF
	c.Lo, c.Hi, c.PBootstrap = Percentiles(both)
	return c, nil
}

// drawnRuns is how far the mean of k drawn runs lies from that of all k.
func drawnRuns(g *splitMix, h *Hierarchy) float64 {
	if h.Runs < 2 {
		return 0
	}
	sum := 0.0
	for range h.Runs {
		sum += h.Scores[g.below(h.Runs)]
	}
	k := float64(h.Runs)
	return math.Sqrt(k/(k-1)) * (sum/k - h.Mean)
}

// shifted are the runs from a number on.
type shifted struct {
	Runs
	by int
}

func (s shifted) Score(run int, rows []int) (float64, error) { return s.Runs.Score(run+s.by, rows) }

// Plan is what would be needed to tell two models apart in four cases of five:
// the number of seeds with these items, and of items with these seeds. 0: no
// number is enough, because the other source alone makes too large an error.
type Plan struct {
	Seeds int `json:"seeds"`
	Items int `json:"items"`
}

// PlanFor says what a difference as large as the observed one needs, if it is
// the true one: an error of |difference| / (z₀.₉₇₅ + z₀.₈).
func (c *Comparison) PlanFor() Plan {
	z := distuv.UnitNormal.Quantile(0.5+Level/2) + distuv.UnitNormal.Quantile(0.8)
	target := c.Mean * c.Mean / (z * z)
	seeds := c.A.SeedVar + c.B.SeedVar
	perRun := c.A.SeedVar/float64(c.A.Runs) + c.B.SeedVar/float64(c.B.Runs)
	var p Plan
	const most = 1e9
	if left := target - c.PairedVar; left > 0 {
		p.Seeds = max(2, int(math.Ceil(min(most, seeds/left))))
	}
	if left := target - perRun; left > 0 {
		p.Items = max(1, int(math.Ceil(min(most, c.PairedVar*float64(c.A.Items)/left))))
	}
	return p
}
