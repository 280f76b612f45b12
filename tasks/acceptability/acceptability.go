// Package acceptability is the task of telling whether a sentence is correct or
// was corrupted (ScaLA).
package acceptability

import "bench/tasks/classification"

// New returns the task. Its labels are those of the reference system, in its
// order; a data set may bring others.
func New() classification.Task {
	return classification.Task{Name: "acceptability", Version: 1, Standard: []string{"incorrect", "correct"}}
}
