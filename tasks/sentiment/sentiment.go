// Package sentiment is the task of telling whether a text is negative, neutral
// or positive.
package sentiment

import "bench/tasks/classification"

// New returns the task. Its labels are those of the reference system, in its
// order; a data set may bring others.
func New() classification.Task {
	return classification.Task{Name: "sentiment", Version: 1, Standard: []string{"negative", "neutral", "positive"}}
}
