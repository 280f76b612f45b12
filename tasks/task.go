// Package tasks gives data sets their meaning: what a trainer is told, what a
// prediction must look like, and how it is scored. One folder a task.
package tasks

import (
	"encoding/json"

	"bench/datasets"
	"bench/scoring"
)

// Info describes a task.
type Info struct {
	Name    string           // also the datasets.Kind of its rows
	Version int              // part of every job id: raise it when scores of equal predictions change
	Head    string           // token-classification, sequence-classification, question-answering, speed
	Labels  []string         // in the order of the head's outputs
	Metrics []scoring.Metric // the first is the leaderboard's
}

// Rules are the quirks of a reference system that scoring can be asked to keep.
// The zero value is the correct reading.
type Rules struct {
	CollapseIDs   bool // QA: score the distinct questions of a sample only
	DropTruncated bool // NER: leave out words that truncation cut off, instead of scoring them as O
}

// Task is one kind of problem.
type Task interface {
	Info() Info
	// Score scores predictions. pred[i] is the prediction line of test[i], as
	// runner/job reads it: the ids are aligned already. rows are indices into
	// test, with repetitions (a bootstrap sample); nil means all rows once.
	// hasMISC and the like are taken from meta. A prediction that is not of the
	// task's form is an error that names the row's id.
	Score(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, rows []int, r Rules) (scoring.Scores, error)
}
