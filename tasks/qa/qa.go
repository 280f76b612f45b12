// Package qa is the task of answering a question with a span of a text, or with
// nothing when the text does not say.
package qa

import (
	"encoding/json"

	"bench/datasets"
	"bench/scoring"
	"bench/scoring/metrics"
	"bench/scoring/stats"
	"bench/tasks"
)

// Task implements tasks.Task.
type Task struct{}

// New returns the task.
func New() Task { return Task{} }

// Info implements tasks.Task.
func (Task) Info() tasks.Info {
	return tasks.Info{
		Name:    "qa",
		Version: 1,
		Head:    tasks.HeadQuestions,
		Metrics: []scoring.Metric{
			{Name: "em", Lo: 0, Hi: 1, Scale: 100, ZeroIsChance: true},
			{Name: "f1", Lo: 0, Hi: 1, Scale: 100, ZeroIsChance: true},
		},
	}
}

// Labels implements tasks.Task: there are none.
func (Task) Labels(datasets.Meta) []string { return nil }

// prediction is {"id", "text", "score"}; score is optional.
type prediction struct {
	ID    string   `json:"id"`
	Text  *string  `json:"text"`
	Score *float64 `json:"score"`
}

// Score implements tasks.Task: means over the rows of the sample, or, with
// Rules.CollapseIDs, over its distinct rows.
func (t Task) Score(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, rows []int, r tasks.Rules) (scoring.Scores, error) {
	s, err := t.Prepare(meta, test, pred, r)
	if err != nil {
		return nil, err
	}
	return s.Sample(rows)
}

// Prepare implements tasks.Task.
func (Task) Prepare(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, r tasks.Rules) (tasks.Sampler, error) {
	if err := tasks.CheckRows(test, pred); err != nil {
		return nil, err
	}
	s := &sampler{collapse: r.CollapseIDs, em: make([]float64, len(test)), f1: make([]float64, len(test))}
	for i, row := range test {
		if row.Answers == nil {
			return nil, &tasks.GoldError{Dataset: meta.Name, ID: row.ID, Problem: "no answers"}
		}
		var p prediction
		if err := tasks.Decode(row, pred[i], &p, &p.ID); err != nil {
			return nil, err
		}
		if p.Text == nil {
			return nil, &tasks.PredictionError{ID: row.ID, Problem: "no text"}
		}
		s.em[i], s.f1[i] = metrics.Answers(row.Answers.Text, *p.Text)
	}
	return s, nil
}

type sampler struct {
	collapse bool
	em, f1   []float64
}

// Sample implements tasks.Sampler. Sums run over the rows of the test split in
// its order, so that the order of a sample cannot change the last digit.
func (s *sampler) Sample(rows []int) (scoring.Scores, error) {
	times := make([]int, len(s.em))
	if err := tasks.Each(rows, len(s.em), func(i int) { times[i]++ }); err != nil {
		return nil, err
	}
	em, f1, n := 0.0, 0.0, 0
	for i, k := range times {
		if s.collapse {
			k = min(k, 1)
		}
		em += float64(k) * s.em[i]
		f1 += float64(k) * s.f1[i]
		n += k
	}
	if n == 0 {
		return tasks.NoRows("em", "f1"), nil
	}
	return scoring.Scores{"em": scoring.Num(em / float64(n)), "f1": scoring.Num(f1 / float64(n))}, nil
}

// Counts implements tasks.Sampler: the shares of exact or partial matches.
func (s *sampler) Counts(metric string) (tasks.Counts, bool) {
	x := map[string][]float64{"em": s.em, "f1": s.f1}[metric]
	if x == nil || s.collapse {
		return tasks.Counts{}, false
	}
	return tasks.Counts{
		Fields: 1,
		Of:     func(row, _ int) uint64 { return share(metric, x[row]) },
		Score: func(rows int, sums []uint64) scoring.Value {
			if rows == 0 {
				return tasks.NoRows(metric)[metric]
			}
			sum := float64(sums[0])
			if metric == "f1" {
				sum = stats.FractionOf(sums[0])
			}
			return scoring.Num(sum / float64(rows))
		},
	}, true
}

// share is what one row adds to a sum: 0 or 1 of exact matches.
func share(metric string, x float64) uint64 {
	if metric == "em" {
		return uint64(x)
	}
	return stats.Fraction(x)
}
