package leaderboard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"bench/scoring"
	"bench/scoring/stats"
)

// languagesOf are the languages of the board under which a column counts.
func (b *builder) languagesOf(c Column) []string {
	asked := boardLanguages(b.o.Languages)
	return slices.DeleteFunc(boardLanguages(c.Languages), func(l string) bool { return len(asked) > 0 && !slices.Contains(asked, l) })
}

// weights are what each data set counts in the mean over languages of the means
// over tasks of the means over data sets, of the languages and tasks that in
// takes. They add up to 1. nil: there is no data set.
func (b *builder) weights(in func(language, task string) bool) []float64 {
	cells := map[string]map[string][]int{} // language → task → columns
	for i, c := range b.cols {
		for _, l := range b.languagesOf(c) {
			if !in(l, c.Task) {
				continue
			}
			if cells[l] == nil {
				cells[l] = map[string][]int{}
			}
			cells[l][c.Task] = append(cells[l][c.Task], i)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	w := make([]float64, len(b.cols))
	for _, l := range order(keys(cells)) {
		for _, t := range sorted(cells[l]) {
			for _, i := range cells[l][t] {
				w[i] += 1 / float64(len(cells)*len(cells[l])*len(cells[l][t]))
			}
		}
	}
	return w
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

func sorted[V any](m map[string]V) []string {
	out := keys(m)
	slices.Sort(out)
	return out
}

// group is one aggregate of the board.
type group struct {
	name    string
	weights []float64
}

// aggregate computes all aggregates and ranks the models.
func (b *builder) aggregate(board *Board) {
	var languages, tasks, cells []group
	seen := map[string]bool{}
	add := func(list *[]group, name string, in func(l, t string) bool) {
		if !seen[name] {
			seen[name] = true
			*list = append(*list, group{name, b.weights(in)})
		}
	}
	for _, c := range b.cols {
		add(&tasks, c.Task, func(_, t string) bool { return t == c.Task })
		for _, l := range b.languagesOf(c) {
			add(&languages, l, func(m, _ string) bool { return m == l })
			add(&cells, l+"/"+c.Task, func(m, t string) bool { return m == l && t == c.Task })
		}
	}
	overall := group{"overall", b.weights(func(string, string) bool { return true })}
	transform := b.scale(board)
	overallRivals, having := &rivals{}, map[string]*rivals{}
	for _, rows := range [][]Row{board.Models, board.Unranked} {
		for i := range rows {
			r := &rows[i]
			parts := b.parts(*r, transform)
			var e stats.Estimate
			r.Overall, e = b.agg(overall, parts)
			var replicates map[string][]float64
			if b.o.Errors == ErrorsBootstrap && len(r.Missing) == 0 {
				replicates = b.bootstrap(*r, transform)
				resampled(&r.Overall, replicates["overall"])
			}
			if len(r.Missing) == 0 {
				overallRivals.add(e, r.Overall, replicates["overall"], func(ranks *stats.Ranks) { r.Rank = ranks })
			}
			for _, of := range []struct {
				groups []group
				to     *map[string]Agg
			}{{languages, &r.ByLanguage}, {tasks, &r.ByTask}, {cells, &r.ByCell}} {
				*of.to = map[string]Agg{}
				for _, g := range of.groups {
					a, e := b.agg(g, parts)
					resampled(&a, replicates[g.name])
					(*of.to)[g.name] = a
					if a.Value.Undefined == "" {
						if having[g.name] == nil {
							having[g.name] = &rivals{}
						}
						having[g.name].add(e, a, replicates[g.name], func(r *stats.Ranks) { a.Rank = r; (*of.to)[g.name] = a })
					}
				}
			}
		}
	}
	higher := board.Score == ScoreMean
	overallRivals.rank(board.Ranks, higher)
	for _, r := range having {
		r.rank(board.Ranks, higher)
	}
	slices.SortStableFunc(board.Models, func(a, c Row) int {
		by := cmp.Compare(c.Overall.Value.X, a.Overall.Value.X)
		if !higher {
			by = -by
		}
		return cmp.Or(by, strings.Compare(a.Model, c.Model), strings.Compare(a.Protocol, c.Protocol), strings.Compare(a.Revision, c.Revision))
	})
	for i := range board.Models {
		board.Models[i].Position = i + 1
	}
}

// rivals are the models with a value of one aggregate. With the successor's
// ranks they are those that have its replicates, the ones with all data sets.
type rivals struct {
	estimates  []stats.Estimate
	set        []func(*stats.Ranks)
	bootstraps []int // which of them have replicates
	medians    []float64
	replicates [][]float64
}

func (r *rivals) add(e stats.Estimate, a Agg, replicates []float64, set func(*stats.Ranks)) {
	if len(replicates) > 0 {
		r.bootstraps = append(r.bootstraps, len(r.set))
		r.medians, r.replicates = append(r.medians, a.Value.X), append(r.replicates, replicates)
	}
	r.estimates, r.set = append(r.estimates, e), append(r.set, set)
}

func (r *rivals) rank(by string, higher bool) {
	if by == RanksEuroEval {
		for k, ranks := range denseRanks(r.medians, r.replicates, higher) {
			r.set[r.bootstraps[k]](&ranks)
		}
		return
	}
	ranks := stats.RankIntervals(r.estimates, higher)
	for i, set := range r.set {
		set(&ranks[i])
	}
}

// linear is x → add + times·x.
type linear struct{ add, times float64 }

// scale says, for each column, how scores become what is aggregated: not at
// all, or to the successor's rank scores
//
//	1 + (best − x) / s
//
// over the models that are ranked, with best the highest mean and s the
// population standard deviation of all seeds of all models, 1 if it is 0.
func (b *builder) scale(board *Board) []linear {
	out := make([]linear, len(b.cols))
	for i, c := range b.cols {
		out[i] = linear{0, 1}
		if board.Score == ScoreMean || len(board.Models) == 0 {
			continue
		}
		var means, all []float64
		for _, r := range board.Models {
			x := b.used(r.Datasets[c.Name], b.tasks[c.Task].Metrics[0].Name)
			means, all = append(means, stats.Mean(x)), append(all, x...)
		}
		s := stats.PopulationSD(all)
		if s == 0 {
			s = 1
		}
		out[i] = linear{1 + slices.Max(means)/s, -1 / s}
	}
	return out
}

// part is a row's score on one data set.
type part struct {
	stats.Estimate
	half   scoring.Value // half-width as the reference has it
	median float64
}

// parts are a row's scores in the order of the columns, nil where there is none.
func (b *builder) parts(r Row, transform []linear) []*part {
	parts := make([]*part, len(b.cols))
	for i, c := range b.cols {
		if slices.Contains(r.Missing, c.Name) {
			continue
		}
		d, t := r.Datasets[c.Name], transform[i]
		p := part{d.primary, d.halfZ, t.add + t.times*d.median}
		if b.o.Ranks == RanksEuroEval {
			x := b.used(d, b.tasks[c.Task].Metrics[0].Name)
			p.Estimate, p.median = stats.Of(x), t.add+t.times*stats.Median(x)
		}
		p.Mean, p.SE = t.add+t.times*p.Mean, math.Abs(t.times)*p.SE
		if p.half.Undefined == "" {
			p.half.X *= math.Abs(t.times)
		}
		parts[i] = &p
	}
	return parts
}

func (b *builder) agg(g group, parts []*part) (Agg, stats.Estimate) {
	var w []float64
	var e []stats.Estimate
	missing := 0
	half, median := scoring.Num(0), 0.0
	for i, x := range g.weights {
		p := parts[i]
		switch {
		case x == 0:
			continue
		case p == nil:
			missing++
			continue
		case p.half.Undefined != "":
			half = p.half
		case half.Undefined == "":
			half.X += x * p.half.X
		}
		w, e = append(w, x), append(e, p.Estimate)
		median += x * p.median
	}
	if missing > 0 {
		none := scoring.Value{Undefined: fmt.Sprintf("%d of %d data sets are missing", missing, missing+len(w))}
		return Agg{Value: none, HalfWidth: none, SE: none, Median: none}, stats.Estimate{}
	}
	sum := stats.Combine(w, e)
	a := Agg{Value: scoring.Num(sum.Mean), SE: scoring.Num(sum.SE), DF: sum.DF, HalfWidth: half, Median: scoring.Num(median)}
	if sum.DF == 0 {
		a.SE = scoring.Value{Undefined: "one replicate has no spread"}
	}
	if b.o.Errors == ErrorsPropagated {
		if h, ok := sum.HalfWidth(); ok {
			a.HalfWidth = scoring.Num(h)
		} else {
			a.HalfWidth = a.SE
		}
	}
	return a, sum
}

// Weights are what each column counts in the overall score: the mean over
// languages of the means over tasks of the means over data sets. They add up to 1.
func Weights(cols []Column) []float64 {
	return (&builder{cols: cols}).weights(func(string, string) bool { return true })
}
