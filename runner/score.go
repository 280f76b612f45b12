package runner

import (
	"encoding/json"
	"sync"

	"bench/datasets"
	"bench/datasets/split"
	"bench/runner/job"
	"bench/scoring"
	"bench/tasks"
)

// tests is the test split of a data set, as far as scoring needs it again and
// again: for each model, and for each seed.
type tests struct {
	data *datasets.Dataset
	load sync.Once
	err  error
	rows []datasets.Row
	ids  []string

	mu      sync.Mutex
	samples map[int][]int // by replicate
}

func (t *tests) get() error {
	t.load.Do(func() {
		if t.rows, t.err = t.data.Rows(datasets.Test); t.err != nil {
			return
		}
		t.ids = make([]string, len(t.rows))
		for i, r := range t.rows {
			t.ids[i] = r.ID
		}
	})
	return t.err
}

func (t *tests) sample(i int) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows, ok := t.samples[i]
	if !ok {
		rows = Sample(t.data.Kind, t.rows, i)
		if t.samples == nil {
			t.samples = map[int][]int{}
		}
		t.samples[i] = rows
	}
	return rows
}

// score scores the predictions of one replicate on its bootstrap sample.
func (x *run) score(p *planned, lines []json.RawMessage) (scoring.Scores, error) {
	t := p.cell.tests
	if err := t.get(); err != nil {
		return nil, err
	}
	return p.cell.task.Score(p.cell.data.Meta, t.rows, lines, t.sample(p.at), tasks.Rules(x.req.Protocol.Scoring))
}

// Sample returns the test rows on which replicate i is scored: row i of
//
//	numpy.random.default_rng(4242).integers(0, n, (replicates, n))
//
// over the n rows that are not empty, which is how the reference system draws
// them: the sample depends on n and i alone, so that all models are scored on
// the same rows. A speed measurement is not sampled: nil, all rows once.
func Sample(k datasets.Kind, test []datasets.Row, i int) []int {
	if k == datasets.Speed {
		return nil
	}
	full := Scored(k, test)
	rows := split.BootstrapRow(job.FirstSeed, len(full), i)
	for at, row := range rows {
		rows[at] = full[row]
	}
	return rows
}

// Scored are the places of the test rows that scores are about: those that are
// not empty.
func Scored(k datasets.Kind, test []datasets.Row) []int {
	var full []int
	for at, r := range test {
		empty := k != datasets.QA && r.Text == ""
		if k == datasets.NER {
			empty = len(r.Tokens) == 0
		}
		if !empty {
			full = append(full, at)
		}
	}
	return full
}
