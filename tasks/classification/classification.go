// Package classification is what the tasks that give each text one label have
// in common.
package classification

import (
	"encoding/json"
	"fmt"
	"slices"

	"bench/datasets"
	"bench/scoring"
	"bench/scoring/metrics"
	"bench/tasks"
)

// Task is a classification of texts with the labels of Standard, or with those
// that a user's data set brings.
type Task struct {
	Name     string
	Version  int
	Standard []string // in the order of the head's outputs
}

// Info implements tasks.Task.
func (t Task) Info() tasks.Info {
	return tasks.Info{
		Name:    t.Name,
		Version: t.Version,
		Head:    tasks.HeadSequence,
		Labels:  slices.Clone(t.Standard),
		Metrics: []scoring.Metric{
			{Name: "mcc", Lo: -1, Hi: 1, Scale: 100, ZeroIsChance: true},
			{Name: "macro_f1", Lo: 0, Hi: 1, Scale: 100},
		},
	}
}

// Labels implements tasks.Task: Standard, or, if the data set has another
// label, its own labels sorted by bytes.
func (t Task) Labels(meta datasets.Meta) []string {
	own := tasks.CountedLabels(meta)
	for _, l := range own {
		if !slices.Contains(t.Standard, l) {
			return own
		}
	}
	return slices.Clone(t.Standard)
}

// prediction is {"id", "label", "scores": {label: logit}}; scores are optional.
type prediction struct {
	ID     string             `json:"id"`
	Label  *string            `json:"label"`
	Scores map[string]float64 `json:"scores"`
}

// Score implements tasks.Task.
func (t Task) Score(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, rows []int, r tasks.Rules) (scoring.Scores, error) {
	s, err := t.Prepare(meta, test, pred, r)
	if err != nil {
		return nil, err
	}
	return s.Sample(rows)
}

// Prepare implements tasks.Task.
func (t Task) Prepare(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, _ tasks.Rules) (tasks.Sampler, error) {
	if err := tasks.CheckRows(test, pred); err != nil {
		return nil, err
	}
	labels := t.Labels(meta)
	class := make(map[string]int, len(labels))
	for k, l := range labels {
		class[l] = k
	}
	s := &sampler{classes: len(labels), gold: make([]int, len(test)), pred: make([]int, len(test))}
	for i, row := range test {
		var ok bool
		if s.gold[i], ok = class[row.Label]; !ok {
			return nil, &tasks.GoldError{Dataset: meta.Name, ID: row.ID, Problem: fmt.Sprintf("label %q is not one of %q", row.Label, labels)}
		}
		var p prediction
		if err := tasks.Decode(row, pred[i], &p, &p.ID); err != nil {
			return nil, err
		}
		if p.Label == nil {
			return nil, &tasks.PredictionError{ID: row.ID, Problem: "no label"}
		}
		if s.pred[i], ok = class[*p.Label]; !ok {
			return nil, &tasks.PredictionError{ID: row.ID, Problem: fmt.Sprintf("label %q is not one of %q", *p.Label, labels)}
		}
		for l := range p.Scores {
			if _, ok := class[l]; !ok {
				return nil, &tasks.PredictionError{ID: row.ID, Problem: fmt.Sprintf("a score for label %q, which is not one of %q", l, labels)}
			}
		}
	}
	return s, nil
}

type sampler struct {
	classes    int
	gold, pred []int
}

// Sample implements tasks.Sampler.
func (s *sampler) Sample(rows []int) (scoring.Scores, error) {
	c := metrics.NewConfusion(s.classes)
	if err := tasks.Each(rows, len(s.gold), func(i int) { c.Add(s.gold[i], s.pred[i]) }); err != nil {
		return nil, err
	}
	return scoring.Scores{"mcc": c.MCC(), "macro_f1": c.MacroF1()}, nil
}

// Counts implements tasks.Sampler. MCC needs the correct rows and those of each
// gold and predicted class but the last; macro-F1 the correct rows of each class
// too.
func (s *sampler) Counts(metric string) (tasks.Counts, bool) {
	k := s.classes
	correct := k // fields for correct rows
	switch metric {
	case "mcc":
		correct = 1
	case "macro_f1":
	default:
		return tasks.Counts{}, false
	}
	of := func(row, field int) uint64 {
		gold, pred := s.gold[row], s.pred[row]
		var is bool
		switch rest := field - correct; {
		case rest < 0:
			is = gold == pred && (correct == 1 || gold == field)
		case rest < k-1:
			is = gold == rest
		default:
			is = pred == rest-(k-1)
		}
		if is {
			return 1
		}
		return 0
	}
	score := func(rows int, sums []uint64) scoring.Value {
		margins := make([]int, 2*k)
		gold, pred := margins[:k], margins[k:]
		gold[k-1], pred[k-1] = rows, rows
		for c := range k - 1 {
			gold[c], pred[c] = int(sums[correct+c]), int(sums[correct+k-1+c])
			gold[k-1] -= gold[c]
			pred[k-1] -= pred[c]
		}
		if correct == 1 {
			return metrics.MCC(int(sums[0]), gold, pred)
		}
		hits := make([]int, k)
		for c := range hits {
			hits[c] = int(sums[c])
		}
		return metrics.MacroF1(hits, gold, pred)
	}
	return tasks.Counts{Fields: correct + 2*(k-1), Of: of, Score: score}, true
}
