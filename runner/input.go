package runner

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"bench/datasets"
	"bench/internal/atomicfile"
	"bench/runner/job"
)

// writeInput writes the in/ folder of a batch: the rows of its data sets, those
// of the test split without gold, and batch.json last. Nothing is synced: after
// a crash of the machine the batch is made anew or found on another one.
func (h home) writeInput(d job.Dir, b job.Batch, data map[string]*datasets.Dataset) error {
	reused := h.reuse(d, data)
	for name, set := range data {
		if reused {
			break
		}
		dir := filepath.Join(dataDir(d), name)
		err := h.show(set, dir)
		if errors.Is(err, fs.ErrNotExist) { // gc took the files away just now
			if err = os.RemoveAll(dir); err == nil {
				err = h.show(set, dir)
			}
		}
		if err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.In(), "batch.json"), append(text, '\n'), 0o644)
}

// show puts the files of a data set into dir.
func (h home) show(set *datasets.Dataset, dir string) error {
	from, err := h.input(set)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, split := range datasets.Splits {
		file := string(split) + ".jsonl"
		if err := linkOrCopy(filepath.Join(from, file), filepath.Join(dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// input returns HOME/inputs/DIGEST, which holds the rows of a data set as
// trainers see them. It is made once; batches have links to its files.
func (h home) input(set *datasets.Dataset) (string, error) {
	dir := filepath.Join(h.inputs(), set.Digest)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(h.inputs(), 0o777); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(h.inputs(), ".part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	for _, split := range datasets.Splits {
		rows, err := set.Rows(split)
		if err != nil {
			return "", err
		}
		if split == datasets.Test {
			blind := make([]datasets.Row, len(rows))
			for i, r := range rows {
				blind[i] = r.Blind()
			}
			rows = blind
		}
		// Synced, unlike the batch: this is taken for good as soon as it is there.
		err = atomicfile.Write(filepath.Join(part, string(split)+".jsonl"), func(w io.Writer) error {
			return datasets.WriteRows(w, set.Kind, rows)
		})
		if err != nil {
			return "", err
		}
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(part, dir); err != nil {
		atomicfile.Fresh(h.inputs())
		if _, there := os.Stat(dir); there == nil { // another one was faster
			return dir, nil
		}
		return "", err
	}
	return dir, atomicfile.SyncDir(h.inputs())
}

// linkOrCopy shows a file under another name, as a copy where there are no links.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// testIDs returns the ids of the test rows that a batch was given, in order. It
// is for batches of other requests, whose data sets are not at hand.
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
