package tasks

import (
	"math"

	"bench/scoring"
	"bench/scoring/stats"
)

// Counts are what a metric counts of each row. The metric is a function of
// their sums over a sample, the same that Sample gives: to the last bit where
// things are counted, to 2⁻⁴⁰ where shares of rows add up.
type Counts struct {
	Fields int                                         // counts of one row
	Of     func(row, field int) uint64                 // a count of a row of the test split
	Score  func(rows int, sums []uint64) scoring.Value // of the sums over so many rows
}

// Items packs the counts of these rows of the test split for resampling: item i
// is row rows[i]. The score of a sample, of as many items, that has none is NaN.
func (c Counts) Items(rows []int) (*stats.Items, error) { return Pool([]Counts{c}, rows) }

// Pool packs the counts of several runs on the same rows: item run·n + i is row
// rows[i] of a run, and a sample holds n of all the items. The runs are of one
// task and data set, so that their counts mean the same.
func Pool(runs []Counts, rows []int) (*stats.Items, error) {
	n := len(rows)
	count := func(item, field int) uint64 { return runs[item/n].Of(rows[item%n], field) }
	return stats.NewItems(len(runs)*n, runs[0].Fields, count, func(sums []uint64) float64 {
		v := runs[0].Score(n, sums)
		if v.Undefined != "" {
			return math.NaN()
		}
		return v.X
	})
}
