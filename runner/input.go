package runner

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"bench/datasets"
	"bench/runner/job"
)

// writeInput writes the in/ folder of a batch: the rows of its data sets, those
// of the test split without gold, and batch.json last. Nothing is synced: after
// a crash of the machine the batch is not running either, and is made anew.
func writeInput(d job.Dir, b job.Batch, data map[string]*datasets.Dataset) error {
	for name, set := range data {
		dir := filepath.Join(d.In(), "data", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, split := range datasets.Splits {
			rows, err := set.Rows(split)
			if err != nil {
				return err
			}
			if split == datasets.Test {
				blind := make([]datasets.Row, len(rows))
				for i, r := range rows {
					blind[i] = r.Blind()
				}
				rows = blind
			}
			if err := writeRows(filepath.Join(dir, string(split)+".jsonl"), set.Kind, rows); err != nil {
				return err
			}
		}
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.In(), "batch.json"), append(text, '\n'), 0o644)
}

func writeRows(path string, k datasets.Kind, rows []datasets.Row) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = datasets.WriteRows(w, k, rows)
	if err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// testIDs returns the ids of the test rows that a batch was given, in order.
func testIDs(d job.Dir, ds job.Dataset) ([]string, error) {
	path := filepath.Join(d.In(), ds.Dir, string(datasets.Test)+".jsonl")
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := datasets.ReadRows(f, path, datasets.Kind(ds.Task))
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids, nil
}
