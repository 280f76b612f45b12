// Package all lists the tasks there are. A new task is a folder beside this one
// and a line in All.
package all

import (
	"errors"
	"fmt"
	"strings"

	"bench/tasks"
	"bench/tasks/acceptability"
	"bench/tasks/ner"
	"bench/tasks/qa"
	"bench/tasks/sentiment"
	"bench/tasks/speed"
)

// ErrUnknown is wrapped by the error of Lookup.
var ErrUnknown = errors.New("unknown task")

// All returns all tasks in the order in which they are shown.
func All() []tasks.Task {
	return []tasks.Task{ner.New(), sentiment.New(), acceptability.New(), qa.New(), speed.New()}
}

// Lookup returns the task with this name. The error of an unknown one wraps
// ErrUnknown and lists the names there are.
func Lookup(name string) (tasks.Task, error) {
	var names []string
	for _, t := range All() {
		if t.Info().Name == name {
			return t, nil
		}
		names = append(names, t.Info().Name)
	}
	return nil, fmt.Errorf("%w %q: there are %s", ErrUnknown, name, strings.Join(names, ", "))
}
