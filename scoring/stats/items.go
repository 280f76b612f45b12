package stats

import (
	"fmt"
	"math"
	"math/bits"
)

// Items are what a metric counts of each item of a test split: entities found,
// cells of a confusion table, shares of words. A metric is a function of their
// sums, so that a resample is scored by adding up.
//
// Counts are packed side by side into words as wide as their greatest sum asks
// for, so that one addition counts several of them.
type Items struct {
	n     int
	words [][]uint64 // [word][item]
	at    []packed
	score func(sums []uint64) float64
}

// packed says where a count lies.
type packed struct {
	word, shift int
	mask        uint64
}

// NewItems takes n items with count(item, field) ≥ 0, and the metric: a function
// of the fields' sums. A sum over n items must be below 2⁶⁴.
func NewItems(n, fields int, count func(item, field int) uint64, score func(sums []uint64) float64) (*Items, error) {
	it := &Items{n: n, score: score}
	free := 0 // bits of the last word
	for f := range fields {
		most := uint64(0)
		for i := range n {
			most = max(most, count(i, f))
		}
		hi, lo := bits.Mul64(most, uint64(n))
		if hi > 0 {
			return nil, fmt.Errorf("stats: count %d is up to %d, which %d items can add up to 2⁶⁴ or more", f, most, n)
		}
		width := max(1, bits.Len64(lo))
		if width > free {
			it.words = append(it.words, make([]uint64, n))
			free = 64
		}
		p := packed{len(it.words) - 1, 64 - free, 1<<width - 1}
		for i := range n {
			it.words[p.word][i] |= count(i, f) << p.shift
		}
		free -= width
		it.at = append(it.at, p)
	}
	return it, nil
}

// Fraction turns a share in [0, 1] into a count of 2⁻⁴⁰, so that shares add up
// without a rounding; sums are turned back by FractionOf.
func Fraction(x float64) uint64 { return uint64(math.Round(x * (1 << 40))) }

// FractionOf is the inverse of Fraction.
func FractionOf(sum uint64) float64 { return float64(sum) / (1 << 40) }

// N returns the number of items.
func (it *Items) N() int { return it.n }

// Score scores the items with these indices, with repetitions; nil: all once.
// rows must not hold more than N indices.
func (it *Items) Score(rows []int) float64 {
	sums := make([]uint64, len(it.words))
	for w, values := range it.words {
		s := uint64(0)
		if rows == nil {
			for _, v := range values {
				s += v
			}
		}
		for _, i := range rows {
			s += values[i]
		}
		sums[w] = s
	}
	return it.finish(sums, make([]uint64, len(it.at)))
}

// finish unpacks sums into fields and scores them.
func (it *Items) finish(sums, fields []uint64) float64 {
	for f, p := range it.at {
		fields[f] = sums[p.word] >> p.shift & p.mask
	}
	return it.score(fields)
}

// Bootstrap scores o.Resamples resamples of N items. Resample r of N items is
// the same for all Items and for Draw: the differences of two Items' scores are
// a paired bootstrap. The result depends on o.Seed alone, not on o.Workers.
// o.Stop is not heeded.
func (it *Items) Bootstrap(o Resampling) []float64 {
	out := make([]float64, o.Resamples)
	o.Stop = nil
	each(o, func() func(int) error { // nothing can fail
		sums, fields := make([]uint64, len(it.words)), make([]uint64, len(it.at))
		return func(r int) error {
			for w, values := range it.words {
				sums[w] = resampledSum(values, stream(o.Seed, r))
			}
			out[r] = it.finish(sums, fields)
			return nil
		}
	})
	return out
}

// resampledSum adds up len(values) draws from values.
func resampledSum(values []uint64, g splitMix) uint64 {
	n := uint64(len(values))
	s := uint64(0)
	for range len(values) / 2 {
		x := g.next()
		s += values[(x&math.MaxUint32)*n>>32] + values[(x>>32)*n>>32]
	}
	if n%2 == 1 {
		s += values[(g.next()&math.MaxUint32)*n>>32]
	}
	return s
}
