// Package datasets knows corpora: where their bytes are, how they become
// uniform data sets, and how those are stored. It knows rows, not what a task
// makes of them.
//
// A uniform data set is a folder with train.jsonl, val.jsonl, test.jsonl and
// dataset.json. Its digest names its rows: equal digests mean equal rows.
package datasets

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"bench/internal/atomicfile"
)

// Schema is the version of the layout of dataset.json.
const Schema = 1

// Meta is the content of dataset.json.
type Meta struct {
	Schema    int              `json:"schema"`
	Name      string           `json:"name"`
	Kind      Kind             `json:"task"`
	Languages []string         `json:"languages"` // BCP 47
	Licence   string           `json:"licence"`
	Citation  string           `json:"citation"`
	Homepage  string           `json:"homepage,omitempty"`
	Recipe    RecipeVersion    `json:"recipe"`
	Sources   []SourceRecord   `json:"sources"`
	Seed      uint64           `json:"seed"` // of the sampling of splits
	Counts    map[Split]Counts `json:"counts"`
	Partial   *Partial         `json:"partial,omitempty"`
	Division  *Division        `json:"division,omitempty"` // of a data set that is another one, divided anew
	Notes     []string         `json:"notes,omitempty"`
	Digest    string           `json:"digest"` // see Digest
}

// RecipeVersion says which rules made the rows.
type RecipeVersion struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// Definition is a digest of what a user's catalogue says about the data set;
	// "" for data sets that the program defines.
	Definition string `json:"definition,omitempty"`
}

// SourceRecord is one file that went into a data set.
type SourceRecord struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Note   string `json:"note,omitempty"`
}

// Counts describes one split.
type Counts struct {
	Rows   int            `json:"rows"`
	Labels map[string]int `json:"labels,omitempty"` // classes; NER: entities by type
}

// Partial marks a data set that was built although a source could not be had.
// Its scores must never be ranked with those of the full data set.
type Partial struct {
	Missing []string `json:"missing"` // URLs
	// Scale is the share of the full number of base rows that was left, in (0, 1].
	Scale float64 `json:"scale"`
}

// Division says how a data set was made from another one by dividing its rows
// anew.
type Division struct {
	Of       string `json:"of"`
	OfDigest string `json:"of_digest"`
	Kind     string `json:"kind"` // standard, tune, resplit, random
	K        int    `json:"k,omitempty"`
	Fold     int    `json:"fold,omitempty"`
	Seed     uint32 `json:"seed,omitempty"`
	Parts    []Part `json:"parts"`
}

// Part is one part of a division.
type Part struct {
	Name string `json:"name"`
	// Role is the split that the part is here, or "" for one that this data set
	// leaves out.
	Role   Split  `json:"role,omitempty"`
	Rows   int    `json:"rows"`
	Digest string `json:"digest"` // SHA-256 of the rows in canonical form, each with a line end
}

// Dataset is a uniform data set on disk.
type Dataset struct {
	Meta
	Dir string

	mu   sync.Mutex
	rows map[Split][]Row
}

// ErrNotBuilt says that a folder holds no data set.
var ErrNotBuilt = errors.New("data set is not built")

// Open reads dataset.json of the data set in dir. Rows are read when asked for.
// It returns an error that wraps ErrNotBuilt when there is no data set.
func Open(dir string) (*Dataset, error) {
	path := filepath.Join(dir, "dataset.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNotBuilt)
	}
	if err != nil {
		return nil, err
	}
	d := &Dataset{Dir: dir}
	if err := strict(b, &d.Meta); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if d.Schema != Schema {
		return nil, fmt.Errorf("%s: schema %d, this bench reads %d", path, d.Schema, Schema)
	}
	return d, nil
}

// Rows returns the rows of one split, in file order. The slice is shared: do
// not change it. Errors name file and line.
func (d *Dataset) Rows(s Split) ([]Row, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, ok := d.rows[s]; ok {
		return r, nil
	}
	f, err := os.Open(d.Path(s))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := ReadRows(f, d.Path(s), d.Kind)
	if err != nil {
		return nil, err
	}
	if d.rows == nil {
		d.rows = map[Split][]Row{}
	}
	d.rows[s] = rows
	return rows, nil
}

// Path returns the file of one split.
func (d *Dataset) Path(s Split) string { return filepath.Join(d.Dir, string(s)+".jsonl") }

// ReadRows reads rows of kind k up to the end of r. name is used in errors.
// Doubled ids are an error.
func ReadRows(r io.Reader, name string, k Kind) ([]Row, error) {
	var rows []Row
	seen := map[string]int{}
	in := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return rows, nil
		}
		if err == io.EOF {
			return nil, fmt.Errorf("%s:%d: torn line: no newline at the end of the file", name, n)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		row, err := ParseRow(bytes.TrimSuffix(line, []byte("\n")), k)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if first, ok := seen[row.ID]; ok {
			return nil, fmt.Errorf("%s:%d: id %q is taken by line %d", name, n, row.ID, first)
		}
		seen[row.ID] = n
		rows = append(rows, row)
	}
}

// WriteRows writes rows in canonical form, one a line.
func WriteRows(w io.Writer, k Kind, rows []Row) error {
	var buf []byte
	for i, r := range rows {
		var err error
		if buf, err = r.AppendJSON(buf[:0], k); err != nil {
			return fmt.Errorf("row %d (%s): %w", i+1, r.ID, err)
		}
		if _, err := w.Write(append(buf, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// Digest names the rows of a data set:
//
//	SHA-256("bench dataset 1\n" kind "\n" ["partial\n"] { split " " rows "\n" {row "\n"} })
//
// over train, val and test, in hexadecimal, rows in canonical form. A partial
// build has another digest than a full one even where the rows are the same.
func Digest(k Kind, rows map[Split][]Row, partial bool) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "bench dataset 1\n%s\n", k)
	if partial {
		fmt.Fprint(h, "partial\n")
	}
	for _, s := range Splits {
		fmt.Fprintf(h, "%s %d\n", s, len(rows[s]))
		if err := WriteRows(h, k, rows[s]); err != nil {
			return "", fmt.Errorf("%s: %w", s, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Write stores a data set in dir: the rows first, dataset.json last, so that a
// folder with dataset.json is whole. It fills in Schema, Counts and Digest.
func Write(dir string, m Meta, rows map[Split][]Row) (*Dataset, error) {
	var err error
	m.Schema = Schema
	m.Counts = map[Split]Counts{}
	for _, s := range Splits {
		m.Counts[s] = count(m.Kind, rows[s])
	}
	if m.Digest, err = Digest(m.Kind, rows, m.Partial != nil); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(dir, "dataset.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, s := range Splits {
		path := filepath.Join(dir, string(s)+".jsonl")
		if err := atomicfile.Write(path, func(w io.Writer) error { return WriteRows(w, m.Kind, rows[s]) }); err != nil {
			return nil, err
		}
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, "dataset.json"), append(b, '\n')); err != nil {
		return nil, err
	}
	return &Dataset{Meta: m, Dir: dir, rows: rows}, nil
}

// Verify reads all rows again and compares them with the recorded digest.
func (d *Dataset) Verify() error {
	rows := map[Split][]Row{}
	for _, s := range Splits {
		r, err := (&Dataset{Meta: d.Meta, Dir: d.Dir}).Rows(s)
		if err != nil {
			return err
		}
		rows[s] = r
	}
	got, err := Digest(d.Kind, rows, d.Partial != nil)
	if err != nil {
		return err
	}
	if got != d.Meta.Digest {
		return &DigestError{Dataset: d.Name, Want: d.Meta.Digest, Got: got}
	}
	return nil
}

// DigestError says that rows are not those that were recorded.
type DigestError struct{ Dataset, Want, Got string }

func (e *DigestError) Error() string {
	return fmt.Sprintf("data set %s: rows have digest %.12s…, dataset.json says %.12s…: the files were changed after the build", e.Dataset, e.Got, e.Want)
}

// Hint says what a person can do.
func (e *DigestError) Hint() string { return "build it again: bench data build " + e.Dataset }

func count(k Kind, rows []Row) Counts {
	c := Counts{Rows: len(rows)}
	add := func(label string) {
		if c.Labels == nil {
			c.Labels = map[string]int{}
		}
		c.Labels[label]++
	}
	for _, r := range rows {
		switch {
		case k == NER:
			for _, l := range r.Labels {
				if len(l) > 2 && l[0] == 'B' {
					add(l[2:])
				}
			}
		case k == QA && r.Answers != nil:
			if len(r.Answers.Text) == 0 {
				add("unanswerable")
			} else {
				add("answerable")
			}
		case r.Label != "":
			add(r.Label)
		}
	}
	return c
}
