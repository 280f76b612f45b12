package leaderboard

import (
	"slices"

	"bench/scoring/stats"
)

// How ranks are given.
const (
	RanksIntervals = "intervals" // the ranks that Holm-corrected comparisons do not rule out
	RanksEuroEval  = "euroeval"  // all of the rules of the successor's board; see denseRanks
)

// used are the scores of a cell that are averaged: of the ranked metric, all
// that there are. The successor's board leaves negative ones out, and so they are
// with its ranks, unless there are no others.
func (b *builder) used(d Cell, metric string) []float64 {
	var x []float64
	negative := 0
	for _, v := range d.Scores[metric] {
		if v.Undefined == "" {
			x = append(x, v.X)
			if v.X < 0 {
				negative++
			}
		}
	}
	if b.o.Ranks == RanksEuroEval && negative < len(x) {
		x = slices.DeleteFunc(x, func(v float64) bool { return v < 0 })
	}
	return x
}

// denseRanks ranks models as the successor's board does: in the order of their
// medians each one joins the group of the one before it, and shares its rank,
// unless it is worse than the group's first model in at least 97.5 % of the
// replicates (the 2.5th percentile of the differences is above 0); then it founds
// a group, with the next rank. Groups so depend on who is first in them: two
// models of different ranks need not differ.
func denseRanks(medians []float64, replicates [][]float64, higher bool) []stats.Ranks {
	order := make([]int, len(medians))
	for i := range order {
		order[i] = i
	}
	sign := 1.0 // of worse less better
	if higher {
		sign = -1
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch d := sign * (medians[i] - medians[j]); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
	out := make([]stats.Ranks, len(medians))
	rank, anchor := 0, 0
	for k, i := range order {
		if k > 0 {
			worse := make([]float64, len(replicates[i]))
			for at := range worse {
				worse[at] = sign * (replicates[i][at] - replicates[anchor][at])
			}
			slices.Sort(worse)
			if stats.Quantile(worse, 0.5-stats.Level/2) > 0 {
				rank, anchor = rank+1, i
			}
		} else {
			rank, anchor = 1, i
		}
		out[i] = stats.Ranks{Lo: rank, Hi: rank}
	}
	return out
}
