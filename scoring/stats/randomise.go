package stats

import (
	"fmt"
	"math"
	"slices"
)

// Pool scores any mixture of predictions of several runs: row run·n + i is the
// prediction of a run for item i.
type Pool interface {
	Score(rows []int) (float64, error)
}

// ItemPool is a pool whose metric is a function of sums.
type ItemPool struct{ *Items }

// Score implements Pool. A score that is not a number is an error.
func (p ItemPool) Score(rows []int) (float64, error) { return number(p.Items.Score(rows)) }

// Randomise tests whether two models are the same by approximate randomisation
// (Noreen 1989): 2k runs on n items, the first k of model A. Under the hypothesis
// it makes no difference which runs are whose, nor on which items the runs of A
// and of B are exchanged. Both are drawn, and p is
//
//	(1 + #{|f·d_runs + d_items| ≥ |observed d|}) / (B + 1)
//
// with d the difference of the means of both sides, d_runs after the runs were
// dealt out anew, d_items after the exchange on half of the items. (To exchange
// items between runs that were dealt out anew would not do: it blends the runs,
// and the spread between them is lost.) What makes runs differ on single items
// is in both; the factor f = √max(0, 1 − i/(s_A² + s_B²)) takes it out of
// d_runs, i being estimated from d_items as in Hierarchy. With one run each
// there is nothing to deal, and p is about the items alone. To exchange A and B
// changes nothing.
func Randomise(p Pool, k, n int, o Resampling) (float64, error) {
	if k < 1 || n < 1 || o.Resamples < 1 {
		return 0, fmt.Errorf("stats: %d runs, %d items and %d resamples are too few", k, n, o.Resamples)
	}
	scores, rows := make([]float64, 2*k), make([]int, n)
	for run := range scores {
		for i := range rows {
			rows[i] = run*n + i
		}
		x, err := p.Score(rows)
		if err != nil {
			return 0, err
		}
		scores[run] = x
	}
	sides := [2]int{0, k} // where the runs of both sides begin
	if slices.Compare(scores[k:], scores[:k]) > 0 {
		sides = [2]int{k, 0}
		scores = slices.Concat(scores[k:], scores[:k])
	}
	observed := Mean(scores[:k]) - Mean(scores[k:])
	runs, items := make([]float64, o.Resamples), make([][]float64, o.Resamples) // items: of each pair of runs
	counts, adds := p.(ItemPool)
	var totals [][]uint64 // of each run
	if adds {
		totals = counts.totals(2*k, n)
	}
	err := each(o, func() func(int) error {
		rows, swapped, dealt := make([]int, n), make([]uint64, n), make([]float64, 2*k)
		return func(at int) (err error) {
			g := stream(o.Seed, at)
			coins := uint64(0)
			for i := range swapped {
				if i%64 == 0 {
					coins = g.next()
				}
				swapped[i] = -(coins & 1) // all bits or none
				coins >>= 1
			}
			d := make([]float64, k)
			for j := range d {
				one, other := (sides[0]+j)*n, (sides[1]+j)*n
				if adds {
					d[j], err = counts.exchanged(totals, one, other, swapped)
				} else {
					d[j], err = exchanged(p, one, other, swapped, rows)
				}
				if err != nil {
					return err
				}
			}
			items[at] = d
			copy(dealt, scores)
			for i := len(dealt) - 1; i > 0; i-- {
				j := g.below(i + 1)
				dealt[i], dealt[j] = dealt[j], dealt[i]
			}
			runs[at] = Mean(dealt[:k]) - Mean(dealt[k:])
			return nil
		}
	})
	if err != nil {
		return 0, err
	}
	f := runShare(scores, items, k)
	count := 1
	for at, d := range items {
		// Sums in another order differ in their last digits.
		if math.Abs(f*runs[at]+Mean(d)) >= math.Abs(observed)-1e-12 {
			count++
		}
	}
	return float64(count) / float64(o.Resamples+1), nil
}

// exchanged returns the difference of the scores of two runs, whose rows begin at
// one and at other, after exchanging the items in swapped. rows is for its use.
func exchanged(p Pool, one, other int, swapped []uint64, rows []int) (float64, error) {
	d := 0.0
	for _, side := range []struct {
		here, there int
		sign        float64
	}{{one, other, 1}, {other, one, -1}} {
		for i := range rows {
			rows[i] = side.here + i
			if swapped[i] != 0 {
				rows[i] = side.there + i
			}
		}
		x, err := p.Score(rows)
		if err != nil {
			return 0, err
		}
		d += side.sign * x
	}
	return d, nil
}

// totals are the sums of the words of each of the runs.
func (p ItemPool) totals(runs, n int) [][]uint64 {
	out := make([][]uint64, runs)
	for r := range out {
		out[r] = make([]uint64, len(p.words))
		for w, values := range p.words {
			for _, v := range values[r*n : (r+1)*n] {
				out[r][w] += v
			}
		}
	}
	return out
}

// exchanged is the same by sums: what is moved from one run to the other is
// added there and taken away here. Fields that lie side by side in a word borrow
// from each other on the way, but not in the end, since no sum is below 0.
func (p ItemPool) exchanged(totals [][]uint64, one, other int, swapped []uint64) (float64, error) {
	n := len(swapped)
	here, there := slices.Clone(totals[one/n]), slices.Clone(totals[other/n])
	for w, values := range p.words {
		a, b := values[one:one+n], values[other:other+n]
		moved := uint64(0)
		for i, mask := range swapped {
			moved += (b[i] - a[i]) & mask
		}
		here[w] += moved
		there[w] -= moved
	}
	fields := make([]uint64, len(p.at))
	x, err := number(p.finish(here, fields))
	if err != nil {
		return 0, err
	}
	y, err := number(p.finish(there, fields))
	return x - y, err
}

// runShare is the factor f of Randomise.
func runShare(scores []float64, items [][]float64, k int) float64 {
	if k < 2 || len(items) < 2 {
		return 0
	}
	all := variance(scores[:k]) + variance(scores[k:])
	if all == 0 {
		return 0
	}
	single, means := 0.0, make([]float64, len(items))
	for j := range k {
		x := make([]float64, len(items))
		for at, d := range items {
			x[at] = d[j]
		}
		single += variance(x) / float64(k)
	}
	for at, d := range items {
		means[at] = Mean(d)
	}
	crossed := max(0, (single-variance(means))*float64(k)/float64(k-1))
	return math.Sqrt(max(0, 1-crossed/all))
}
