// Package speed is the task of measuring how fast a model reads.
package speed

import (
	"encoding/json"
	"math"

	"bench/datasets"
	"bench/scoring"
	"bench/tasks"
)

// Task implements tasks.Task. A test row is a text to time a model on; nothing
// is learnt.
type Task struct{}

// New returns the task.
func New() Task { return Task{} }

// Info implements tasks.Task.
func (Task) Info() tasks.Info {
	return tasks.Info{
		Name:    "speed",
		Version: 1,
		Head:    tasks.HeadSpeed,
		Metrics: []scoring.Metric{
			{Name: "inferences_per_second", Lo: 0, Hi: math.Inf(1), Scale: 1},
			{Name: "tokens_per_second", Lo: 0, Hi: math.Inf(1), Scale: 1},
		},
	}
}

// Labels implements tasks.Task: there are none.
func (Task) Labels(datasets.Meta) []string { return nil }

// prediction is {"id", "inferences_per_second", "tokens_per_second"}.
type prediction struct {
	ID         string   `json:"id"`
	Inferences *float64 `json:"inferences_per_second"`
	Tokens     *float64 `json:"tokens_per_second"`
}

// Score implements tasks.Task: the mean over the rows of what was measured.
func (t Task) Score(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, rows []int, r tasks.Rules) (scoring.Scores, error) {
	s, err := t.Prepare(meta, test, pred, r)
	if err != nil {
		return nil, err
	}
	return s.Sample(rows)
}

// Prepare implements tasks.Task.
func (Task) Prepare(_ datasets.Meta, test []datasets.Row, pred []json.RawMessage, _ tasks.Rules) (tasks.Sampler, error) {
	if err := tasks.CheckRows(test, pred); err != nil {
		return nil, err
	}
	s := &sampler{inferences: make([]float64, len(test)), tokens: make([]float64, len(test))}
	for i, row := range test {
		var p prediction
		if err := tasks.Decode(row, pred[i], &p, &p.ID); err != nil {
			return nil, err
		}
		if p.Inferences == nil || *p.Inferences <= 0 {
			return nil, &tasks.PredictionError{ID: row.ID, Problem: "inferences_per_second must be a number > 0"}
		}
		if p.Tokens == nil || *p.Tokens < 0 {
			return nil, &tasks.PredictionError{ID: row.ID, Problem: "tokens_per_second must be a number ≥ 0"}
		}
		s.inferences[i], s.tokens[i] = *p.Inferences, *p.Tokens
	}
	return s, nil
}

type sampler struct{ inferences, tokens []float64 }

// Sample implements tasks.Sampler.
func (s *sampler) Sample(rows []int) (scoring.Scores, error) {
	times := make([]int, len(s.tokens))
	if err := tasks.Each(rows, len(s.tokens), func(i int) { times[i]++ }); err != nil {
		return nil, err
	}
	inferences, tokens, n := 0.0, 0.0, 0
	for i, k := range times {
		inferences += float64(k) * s.inferences[i]
		tokens += float64(k) * s.tokens[i]
		n += k
	}
	if n == 0 {
		return tasks.NoRows("inferences_per_second", "tokens_per_second"), nil
	}
	return scoring.Scores{
		"inferences_per_second": scoring.Num(inferences / float64(n)),
		"tokens_per_second":     scoring.Num(tokens / float64(n)),
	}, nil
}

// Counts implements tasks.Sampler: a speed is no count.
func (*sampler) Counts(string) (tasks.Counts, bool) { return tasks.Counts{}, false }
