// Package ner is the task of finding named entities: one BIO tag for each word.
package ner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"bench/datasets"
	"bench/scoring"
	"bench/scoring/metrics"
	"bench/tasks"
)

// misc is the type that catches what is none of the others.
const misc = "MISC"

// standard lists the entity types of the reference system, in its order.
var standard = []string{"LOC", "ORG", "PER", misc}

// Task implements tasks.Task.
type Task struct{}

// New returns the task.
func New() Task { return Task{} }

// Info implements tasks.Task.
func (Task) Info() tasks.Info {
	return tasks.Info{
		Name:    "ner",
		Version: 1,
		Head:    tasks.HeadTokens,
		Labels:  labels(standard),
		Metrics: []scoring.Metric{
			{Name: "micro_f1", Lo: 0, Hi: 1, Scale: 100, ZeroIsChance: true},
			{Name: "micro_f1_no_misc", Lo: 0, Hi: 1, Scale: 100, ZeroIsChance: true},
		},
	}
}

// Labels implements tasks.Task: O, then B- and I- of each entity type. A data
// set whose types are all standard ones has LOC, ORG, PER, MISC, even if it
// lacks MISC. Another has its own types only: standard ones first, in standard
// order, the others sorted by bytes.
func (Task) Labels(meta datasets.Meta) []string {
	own := tasks.CountedLabels(meta)
	others := slices.DeleteFunc(slices.Clone(own), func(t string) bool { return slices.Contains(standard, t) })
	if len(others) == 0 {
		return labels(standard)
	}
	types := slices.DeleteFunc(slices.Clone(standard), func(t string) bool { return !slices.Contains(own, t) })
	return labels(append(types, others...))
}

func labels(types []string) []string {
	out := []string{"O"}
	for _, t := range types {
		out = append(out, "B-"+t, "I-"+t)
	}
	return out
}

// prediction is {"id", "labels": [one per word]}; null is a word that
// truncation cut off.
type prediction struct {
	ID     string    `json:"id"`
	Labels []*string `json:"labels"`
}

// Score implements tasks.Task.
//
// As in the reference system, a predicted tag of a type that the data set does
// not have becomes B-MISC or I-MISC if the training split has entities of type
// MISC (meta.Counts), else O; and without MISC in training, predicted MISC tags
// become O too. A word that truncation cut off is O, or, with
// Rules.DropTruncated, taken out of gold and prediction. micro_f1_no_misc reads
// MISC as O in both.
func (t Task) Score(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, rows []int, r tasks.Rules) (scoring.Scores, error) {
	s, err := t.Prepare(meta, test, pred, r)
	if err != nil {
		return nil, err
	}
	return s.Sample(rows)
}

// Prepare implements tasks.Task.
func (t Task) Prepare(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, r tasks.Rules) (tasks.Sampler, error) {
	if err := tasks.CheckRows(test, pred); err != nil {
		return nil, err
	}
	set := newTagSet(t.Labels(meta), trainHasMISC(meta))
	s := make(sampler, len(test))
	for i, row := range test {
		gold, err := set.gold(meta.Name, row)
		if err != nil {
			return nil, err
		}
		var p prediction
		if err := tasks.Decode(row, pred[i], &p, &p.ID); err != nil {
			return nil, err
		}
		if p.Labels == nil {
			return nil, &tasks.PredictionError{ID: row.ID, Problem: "no labels"}
		}
		if len(p.Labels) != len(row.Tokens) {
			return nil, &tasks.PredictionError{ID: row.ID, Problem: fmt.Sprintf("%d labels for %d words", len(p.Labels), len(row.Tokens))}
		}
		kept := gold[:0]
		guess := make([]metrics.Tag, 0, len(gold))
		for j, label := range p.Labels {
			tag := metrics.Outside
			switch {
			case label != nil:
				var ok bool
				if tag, ok = set.predicted(*label); !ok {
					return nil, &tasks.PredictionError{ID: row.ID, Problem: fmt.Sprintf("label %q of word %d is neither O nor B- or I- and a type", *label, j)}
				}
			case r.DropTruncated:
				continue
			}
			kept = append(kept, gold[j])
			guess = append(guess, tag)
		}
		s[i].all = metrics.CountEntities(kept, guess, 0)
		s[i].noMISC = s[i].all
		if set.misc != 0 {
			s[i].noMISC = metrics.CountEntities(kept, guess, set.misc)
		}
	}
	return s, nil
}

// trainHasMISC says whether the training split has entities of type MISC. Of a
// data set whose training split was not counted it is assumed.
func trainHasMISC(meta datasets.Meta) bool {
	train, counted := meta.Counts[datasets.Train]
	return !counted || train.Labels[misc] > 0
}

// tagSet turns labels into tags.
type tagSet struct {
	tags      map[string]metrics.Tag
	misc      int  // type number of MISC, 0 if the data set has no such type
	trainMISC bool // the training split has MISC
}

func newTagSet(labels []string, trainMISC bool) tagSet {
	s := tagSet{tags: make(map[string]metrics.Tag, len(labels)), trainMISC: trainMISC}
	for k, l := range labels {
		s.tags[l] = metrics.Tag(k)
	}
	s.misc = s.tags["B-"+misc].Type()
	return s
}

func (s tagSet) gold(dataset string, row datasets.Row) ([]metrics.Tag, error) {
	if row.Labels == nil || len(row.Labels) != len(row.Tokens) {
		return nil, &tasks.GoldError{Dataset: dataset, ID: row.ID, Problem: fmt.Sprintf("%d labels for %d words", len(row.Labels), len(row.Tokens))}
	}
	out := make([]metrics.Tag, len(row.Labels))
	for j, label := range row.Labels {
		tag, ok := s.tags[label]
		if !ok {
			return nil, &tasks.GoldError{Dataset: dataset, ID: row.ID, Problem: fmt.Sprintf("label %q of word %d is none of the data set's", label, j)}
		}
		out[j] = tag
	}
	return out, nil
}

// predicted returns the tag that a predicted label stands for, and false if it
// is no BIO label at all.
func (s tagSet) predicted(label string) (metrics.Tag, bool) {
	tag, known := s.tags[label]
	if known && (tag.Type() != s.misc || s.trainMISC) {
		return tag, true
	}
	begin, inside := len(label) > 2 && strings.HasPrefix(label, "B-"), len(label) > 2 && strings.HasPrefix(label, "I-")
	switch {
	case !s.trainMISC || s.misc == 0:
		return metrics.Outside, known || begin || inside
	case begin:
		return s.tags["B-"+misc], true
	case inside:
		return s.tags["I-"+misc], true
	}
	return metrics.Outside, false
}

// sampler holds the counts of each row.
type sampler []struct{ all, noMISC metrics.Entities }

// Sample implements tasks.Sampler.
func (s sampler) Sample(rows []int) (scoring.Scores, error) {
	var all, noMISC metrics.Entities
	n := 0
	if err := tasks.Each(rows, len(s), func(i int) {
		all.Add(s[i].all)
		noMISC.Add(s[i].noMISC)
		n++
	}); err != nil {
		return nil, err
	}
	if n == 0 {
		return tasks.NoRows("micro_f1", "micro_f1_no_misc"), nil
	}
	return scoring.Scores{"micro_f1": all.F1(), "micro_f1_no_misc": noMISC.F1()}, nil
}

// Counts implements tasks.Sampler: gold, predicted and correct entities.
func (s sampler) Counts(metric string) (tasks.Counts, bool) {
	var of func(row int) metrics.Entities
	switch metric {
	case "micro_f1":
		of = func(row int) metrics.Entities { return s[row].all }
	case "micro_f1_no_misc":
		of = func(row int) metrics.Entities { return s[row].noMISC }
	default:
		return tasks.Counts{}, false
	}
	return tasks.Counts{
		Fields: 3,
		Of: func(row, field int) uint64 {
			e := of(row)
			return uint64([...]int{e.Gold, e.Pred, e.Correct}[field])
		},
		Score: func(rows int, sums []uint64) scoring.Value {
			if rows == 0 {
				return tasks.NoRows(metric)[metric]
			}
			return metrics.Entities{Gold: int(sums[0]), Pred: int(sums[1]), Correct: int(sums[2])}.F1()
		},
	}, true
}
