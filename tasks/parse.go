package tasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"bench/datasets"
	"bench/scoring"
)

// PredictionError says that the prediction of one row is not what the trainer
// protocol asks for: the fault is the trainer's.
type PredictionError struct {
	ID      string // of the row
	Problem string
}

func (e *PredictionError) Error() string {
	return fmt.Sprintf("prediction of row %q: %s", e.ID, e.Problem)
}

// GoldError says that a test row cannot be scored against: the fault is the
// data set's.
type GoldError struct {
	Dataset, ID string
	Problem     string
}

func (e *GoldError) Error() string {
	return fmt.Sprintf("data set %s: gold of test row %q: %s", e.Dataset, e.ID, e.Problem)
}

// Decode reads the prediction line of row into v, strictly: a line that is not
// one JSON object with fields of v only, or whose id is not the row's, is a
// *PredictionError. id points to the field of v that takes the id.
func Decode(row datasets.Row, line json.RawMessage, v any, id *string) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &PredictionError{row.ID, fmt.Sprintf("%v: %s", err, abridge(line))}
	}
	if len(bytes.TrimSpace(line[d.InputOffset():])) > 0 {
		return &PredictionError{row.ID, "more than one JSON value: " + abridge(line)}
	}
	if *id != row.ID {
		return &PredictionError{row.ID, "it has the id " + abridge([]byte(*id))}
	}
	return nil
}

// abridge keeps hostile output short and printable.
func abridge(b []byte) string {
	const most = 80
	if len(b) > most {
		return fmt.Sprintf("%q…", b[:most])
	}
	return fmt.Sprintf("%q", b)
}

// CheckRows makes sure that there is one prediction for each test row.
func CheckRows(test []datasets.Row, pred []json.RawMessage) error {
	if len(test) != len(pred) {
		return fmt.Errorf("%d predictions for %d test rows", len(pred), len(test))
	}
	return nil
}

// Each calls f with every index of a sample, in order: those in rows, or
// 0 … n−1 if rows is nil. An index outside of [0, n) is an error.
func Each(rows []int, n int, f func(i int)) error {
	if rows == nil {
		for i := range n {
			f(i)
		}
		return nil
	}
	for _, i := range rows {
		if i < 0 || i >= n {
			return fmt.Errorf("sample holds row %d of a test split of %d rows", i, n)
		}
		f(i)
	}
	return nil
}

// CountedLabels returns the labels that occur in any split of a data set
// according to meta.Counts, sorted.
func CountedLabels(meta datasets.Meta) []string {
	seen := map[string]bool{}
	for _, c := range meta.Counts {
		for l, n := range c.Labels {
			if n > 0 {
				seen[l] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// NoRows returns Undefined scores: those of a sample without rows.
func NoRows(metrics ...string) scoring.Scores {
	s := scoring.Scores{}
	for _, m := range metrics {
		s[m] = scoring.Value{Undefined: "no rows to score"}
	}
	return s
}
