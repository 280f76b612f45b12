package runner

import (
	"encoding/json"

	"bench/datasets"
	"bench/datasets/split"
	"bench/runner/job"
	"bench/scoring"
	"bench/tasks"
)

// score scores the predictions of one replicate on its bootstrap sample.
func (x *run) score(p *planned, lines []json.RawMessage) (scoring.Scores, error) {
	test, err := p.cell.data.Rows(datasets.Test)
	if err != nil {
		return nil, err
	}
	rows := Sample(p.cell.data.Kind, test, p.at)
	return p.cell.task.Score(p.cell.data.Meta, test, lines, rows, tasks.Rules(x.req.Protocol.Scoring))
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
