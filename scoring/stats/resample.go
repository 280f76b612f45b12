package stats

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// Resampling says how to draw.
type Resampling struct {
	Resamples int
	Seed      uint64
	Workers   int // at least 1 is used; the result does not depend on it
	// Stop ends the work when it is closed: the result is ErrStopped. Nil: never.
	Stop <-chan struct{}
}

// ErrStopped says that resampling was ended before its time.
var ErrStopped = errors.New("stats: stopped")

// splitMix is the generator SplitMix64 (Steele, Lea, Flood 2014): small, fast,
// and able to start anywhere, so that each resample has a stream of its own and
// it does not matter who draws it, and when.
type splitMix struct{ state uint64 }

func (g *splitMix) next() uint64 {
	g.state += 0x9e3779b97f4a7c15
	return mix(g.state)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws from 0 … n−1. The largest difference of two chances is n·2⁻³².
func (g *splitMix) below(n int) int {
	return int((g.next() & math.MaxUint32) * uint64(n) >> 32)
}

// stream is the generator of resample r.
func stream(seed uint64, r int) splitMix {
	return splitMix{mix(seed ^ mix(uint64(r)+0x632be59bd9b4e019))}
}

// Draw fills rows with resample r of len(rows) items, as Items.Bootstrap draws it.
func Draw(seed uint64, r int, rows []int) {
	g, n := stream(seed, r), uint64(len(rows))
	for i := 0; i+1 < len(rows); i += 2 {
		x := g.next()
		rows[i], rows[i+1] = int((x&math.MaxUint32)*n>>32), int((x>>32)*n>>32)
	}
	if n%2 == 1 {
		rows[n-1] = int((g.next() & math.MaxUint32) * n >> 32)
	}
}

// each calls do(r) for every resample, on o.Workers goroutines, each with a do of
// its own, until one of them fails.
func each(o Resampling, worker func() (do func(r int) error)) error {
	const chunk = 64
	var next atomic.Int64
	var once sync.Once
	var failed error
	fail := func(err error) {
		once.Do(func() { failed = err })
		next.Store(int64(o.Resamples)) // nobody begins another chunk
	}
	work := func() {
		do := worker()
		for {
			from := int(next.Add(chunk)) - chunk
			if from >= o.Resamples {
				return
			}
			select {
			case <-o.Stop:
				fail(ErrStopped)
				return
			default:
			}
			for r := from; r < min(from+chunk, o.Resamples); r++ {
				if err := do(r); err != nil {
					fail(err)
					return
				}
			}
		}
	}
	if o.Workers <= 1 {
		work()
		return failed
	}
	var wg sync.WaitGroup
	for range o.Workers {
		wg.Go(work)
	}
	wg.Wait()
	return failed
}

// Quantile is the q-quantile of sorted values, with linear interpolation between
// them (numpy's default). sorted must not be empty.
func Quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Percentiles returns the 95 % percentile interval of resampled values and the
// two-sided p-value of the hypothesis that their centre is 0,
//
//	min(1, 2·min(1 + #{x ≤ 0}, 1 + #{x ≥ 0}) / (B + 1))
//
// The values are left as they are; there must be one at least.
func Percentiles(x []float64) (lo, hi, p float64) {
	s := slices.Sorted(slices.Values(x))
	below, above := 0, 0
	for _, v := range s {
		if v <= 0 {
			below++
		}
		if v >= 0 {
			above++
		}
	}
	p = min(1, 2*float64(1+min(below, above))/float64(len(s)+1))
	return Quantile(s, 0.5-Level/2), Quantile(s, 0.5+Level/2), p
}

// PairedBootstrap compares two resampled scores of the same items, resample by
// resample: the interval of a − b and its p-value; see Percentiles.
func PairedBootstrap(a, b []float64) (lo, hi, p float64) {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return Percentiles(d)
}
