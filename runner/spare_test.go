package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"bench/datasets"
	"bench/runner/job"
)

// A batch gets the data folder of the one before it. What that one's program
// changed there is not passed on, and nothing is left at the end.
func TestBatchesHandOnTheirData(t *testing.T) {
	tamper := map[int]func(data string) error{
		2: func(data string) error { return os.Remove(filepath.Join(data, "one", "train.jsonl")) },
		4: func(data string) error { return os.RemoveAll(filepath.Join(data, "two")) },
		6: func(data string) error {
			file := filepath.Join(data, "two", "val.jsonl")
			text, err := os.ReadFile(file)
			if err == nil {
				if err = os.Remove(file); err == nil {
					err = os.WriteFile(file, text, 0o666) // the same for now, but no link
				}
			}
			return err
		},
	}
	n := 0
	mark := func(data string, n int) string { return filepath.Join(data, fmt.Sprint("seen by ", n)) }
	w := newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		n++
		data := filepath.Join(d.In(), "data")
		_, err := os.Stat(mark(data, n-1))
		if same := err == nil; same != (n > 1 && tamper[n-1] == nil) {
			t.Errorf("batch %d has the folder of the one before: %v", n, same)
		}
		if err := os.WriteFile(mark(data, n), nil, 0o666); err != nil {
			return job.Exit{}, err
		}
		for _, set := range []string{"one", "two"} {
			for _, split := range datasets.Splits {
				if info, err := os.Stat(filepath.Join(data, set, string(split)+".jsonl")); err != nil || info.Size() == 0 {
					t.Errorf("batch %d: %v", n, err)
				}
			}
		}
		x, err := succeed(s, b, d)
		if f := tamper[n]; f != nil && err == nil {
			err = f(data)
		}
		return x, err
	})
	r := w.runner()
	r.Slots = 1
	if rep, err := r.Run(t.Context(), w.request(8)); err != nil || rep.Failed != 0 || n != 8 {
		t.Errorf("%d batches, %+v, %v", n, rep, err)
	}
	w.noBatchesLeft()
	left, err := filepath.Glob(filepath.Join(w.home, "inputs", "spare-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
