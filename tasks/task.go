// Package tasks gives data sets their meaning: what a trainer is told, what a
// prediction must look like, and how it is scored. One folder a task; the list
// of all of them is in tasks/all.
package tasks

import (
	"encoding/json"

	"bench/datasets"
	"bench/scoring"
)

// The heads of models, by the names that trainers know (docs/trainer-protocol.md).
const (
	HeadTokens    = "token-classification"
	HeadSequence  = "sequence-classification"
	HeadQuestions = "question-answering"
	HeadSpeed     = "speed"
)

// Info describes a task.
type Info struct {
	Name    string           // also the datasets.Kind of its rows
	Version int              // part of every job id: raise it when scores of equal predictions change
	Head    string           // token-classification, sequence-classification, question-answering, speed
	Labels  []string         // the standard ones, in the order of the head's outputs; see Task.Labels
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

	// Labels returns the labels of one data set, in the order of the head's
	// outputs: the standard ones, in the standard order, if the data set has no
	// others (even if it lacks some); else the data set's own, in an order that
	// depends on nothing but which they are. They are read from meta.Counts.
	Labels(meta datasets.Meta) []string

	// Score scores predictions. pred[i] is the prediction line of test[i], as
	// runner/job reads it: the ids are aligned already. rows are indices into
	// test, with repetitions (a bootstrap sample); nil means all rows once.
	// What else there is to know, such as whether training had MISC entities, is
	// taken from meta. A prediction that is not of the
	// task's form is an error that names the row's id (*PredictionError), even
	// if rows does not hold it; a test row without usable gold is a *GoldError.
	//
	// Score is Prepare and one Sample.
	Score(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, rows []int, r Rules) (scoring.Scores, error)

	// Prepare reads all predictions once, for those who score many samples.
	Prepare(meta datasets.Meta, test []datasets.Row, pred []json.RawMessage, r Rules) (Sampler, error)
}

// Sampler scores samples of one test split. It may be used by several
// goroutines at once.
type Sampler interface {
	// Sample scores the rows with these indices, with repetitions; nil means all
	// rows once. The order of rows does not matter. An index outside of the test
	// split is an error. A sample without rows has Undefined scores.
	Sample(rows []int) (scoring.Scores, error)

	// Counts says how a metric follows from what is counted of each row, for
	// those who score thousands of samples. ok is false if it does not: a speed,
	// a metric that the task does not have, or rules by which a row that was
	// drawn twice counts once.
	Counts(metric string) (c Counts, ok bool)
}
