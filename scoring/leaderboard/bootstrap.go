package leaderboard

import (
	"math"
	"math/rand/v2"
	"slices"

	"bench/scoring"
	"bench/scoring/stats"
)

// The successor draws 100 replicates; ten times as many make its intervals
// steadier.
const (
	replicates    = 1000
	bootstrapSeed = 42
)

// bootstrap resamples a row as the successor of the reference system does: in
// each replicate the data sets of each language and task are drawn anew, with
// repetitions, and of each drawn data set the seeds' scores; then all is
// averaged as ever. It returns the replicates of every aggregate by its name. All
// rows have the same data sets drawn, and those with equally many seeds the same
// seeds.
func (b *builder) bootstrap(r Row, transform []linear) map[string][]float64 {
	scores := make([][]float64, len(b.cols))
	cells := map[string]map[string][]int{} // language → task → columns
	for i, c := range b.cols {
		for _, x := range b.used(r.Datasets[c.Name], b.tasks[c.Task].Metrics[0].Name) {
			scores[i] = append(scores[i], transform[i].add+transform[i].times*x)
		}
		for _, l := range b.languagesOf(c) {
			if cells[l] == nil {
				cells[l] = map[string][]int{}
			}
			cells[l][c.Task] = append(cells[l][c.Task], i)
		}
	}
	languages := order(keys(cells))
	out := map[string][]float64{}
	for at := range replicates {
		sets := rand.New(rand.NewPCG(bootstrapSeed, uint64(at)))
		seeds, drawn := rand.NewPCG(0, 0), uint64(0)
		g := rand.New(seeds)
		byTask := map[string][]float64{}
		overall := 0.0
		for _, l := range languages {
			language := 0.0
			for _, t := range sorted(cells[l]) {
				cell := 0.0
				for range cells[l][t] {
					x := scores[cells[l][t][sets.IntN(len(cells[l][t]))]]
					seeds.Seed(bootstrapSeed+1+drawn, uint64(at))
					drawn++
					sum := 0.0
					for range x {
						sum += x[g.IntN(len(x))]
					}
					cell += sum / float64(len(x)) / float64(len(cells[l][t]))
				}
				out[l+"/"+t] = append(out[l+"/"+t], cell)
				byTask[t] = append(byTask[t], cell)
				language += cell / float64(len(cells[l]))
			}
			out[l] = append(out[l], language)
			overall += language / float64(len(languages))
		}
		for t, x := range byTask {
			out[t] = append(out[t], stats.Mean(x))
		}
		out["overall"] = append(out["overall"], overall)
	}
	return out
}

// resampled puts the median and the upper half of the percentile interval of
// replicates into a. Without replicates a stays as it is.
func resampled(a *Agg, x []float64) {
	if len(x) == 0 {
		return
	}
	s := slices.Sorted(slices.Values(x))
	median := stats.Quantile(s, 0.5)
	a.Value = scoring.Num(median)
	a.HalfWidth = scoring.Num(math.Max(0, stats.Quantile(s, 0.5+stats.Level/2)-median))
	a.SE, a.DF = scoring.Num(stats.SD(x)), 0
}
