package scandeval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"bench/scoring/results"
)

// Problem is a line, or a part of one, that gave no record.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
	Why  string `json:"why"`
}

func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Why) }

// Report counts what was in the files. Each line is in exactly one of Blank,
// Torn and Unreadable, or gave records; each record is in exactly one of New
// and Duplicates.
type Report struct {
	Files      int            `json:"files"`
	Lines      int            `json:"lines"`
	Blank      int            `json:"blank"`
	Torn       []Problem      `json:"torn"`       // no whole JSON: a program was killed while it wrote
	Unreadable []Problem      `json:"unreadable"` // JSON, but not a record of a known layout
	Records    int            `json:"records"`
	New        int            `json:"new"`
	Duplicates []Problem      `json:"duplicates"` // equal to the last digit to an earlier one
	Repeats    []Problem      `json:"repeats"`    // new, but of the same model, data set and protocol as another one
	NaN        int            `json:"nan"`        // values; kept as undefined
	Odd        []Problem      `json:"odd"`        // new, with something that does not fit
	Layouts    map[string]int `json:"layouts"`
	Protocols  map[string]int `json:"protocols"`
	Datasets   map[string]int `json:"unknown_datasets"` // kept
	Tasks      map[string]int `json:"unknown_tasks"`    // kept
}

// Importer reads files and keeps what is new in them.
type Importer struct {
	// Known says whether bench has a data set of this name.
	Known func(dataset string) bool

	seen  map[string]bool
	about map[results.Identity]bool
	out   Report
	recs  []results.Record
}

// NewImporter starts with the records that are there already.
func NewImporter(there []results.Record, known func(string) bool) (*Importer, error) {
	im := &Importer{Known: known, seen: map[string]bool{}, about: map[results.Identity]bool{}}
	im.out = Report{
		Torn: []Problem{}, Unreadable: []Problem{}, Duplicates: []Problem{}, Repeats: []Problem{}, Odd: []Problem{},
		Layouts: map[string]int{}, Protocols: map[string]int{}, Datasets: map[string]int{}, Tasks: map[string]int{},
	}
	for _, r := range there {
		f, err := r.Fingerprint()
		if err != nil {
			return nil, err
		}
		im.seen[f], im.about[r.Identity()] = true, true
	}
	return im, nil
}

// Records returns what is new, in the order of the files.
func (im *Importer) Records() []results.Record { return im.recs }

// Report returns the counts so far.
func (im *Importer) Report() Report { return im.out }

// Read takes one file. Only a file that cannot be read is an error: what is
// wrong with lines is in the report.
func (im *Importer) Read(name string, r io.Reader) error {
	im.out.Files++
	in := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if len(line) > 0 {
			im.line(name, n, line)
		}
		if err == io.EOF {
			return nil
		}
	}
}

func (im *Importer) line(name string, n int, line []byte) {
	im.out.Lines++
	text := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")))
	if len(text) == 0 {
		im.out.Blank++
		return
	}
	text, nan := mend(text)
	// A program that was killed leaves no line end, so that two records may stand
	// on one line.
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var one json.RawMessage
		err := d.Decode(&one)
		if err == io.EOF {
			break
		}
		if err != nil {
			im.out.Torn = append(im.out.Torn, Problem{name, n, fmt.Sprintf("torn line: %v: %.60q", err, text)})
			break
		}
		rec, notes, err := Parse(one)
		if err != nil {
			im.out.Unreadable = append(im.out.Unreadable, Problem{name, n, fmt.Sprintf("not a record: %v", flat(err))})
			continue
		}
		im.add(Problem{File: name, Line: n}, rec, notes)
	}
	im.out.NaN += nan
}

func flat(err error) error {
	return errors.New(string(bytes.ReplaceAll([]byte(err.Error()), []byte("\n"), []byte("; "))))
}

func (im *Importer) add(at Problem, rec results.Record, notes []string) {
	im.out.Records++
	what := fmt.Sprintf("%s on %s, protocol %s", rec.Model.ID, rec.Dataset.Name, rec.Protocol)
	print, err := rec.Fingerprint()
	if err != nil { // Parse has validated it
		im.out.Unreadable = append(im.out.Unreadable, Problem{at.File, at.Line, flat(err).Error()})
		return
	}
	if im.seen[print] {
		at.Why = "already there: " + what
		im.out.Duplicates = append(im.out.Duplicates, at)
		return
	}
	im.seen[print] = true
	if im.about[rec.Identity()] {
		at.Why = "a further record of " + what
		im.out.Repeats = append(im.out.Repeats, at)
	}
	im.about[rec.Identity()] = true
	for _, note := range notes {
		im.out.Odd = append(im.out.Odd, Problem{at.File, at.Line, what + ": " + note})
	}
	im.out.New++
	im.out.Protocols[rec.Protocol]++
	layout := "bench"
	if rec.Imported != nil {
		layout = rec.Imported.Format
	}
	im.out.Layouts[layout]++
	if im.Known != nil && !im.Known(rec.Dataset.Name) {
		im.out.Datasets[rec.Dataset.Name]++
	}
	if !slices.ContainsFunc(known, func(t task) bool { return t.ours == rec.Dataset.Task }) {
		im.out.Tasks[rec.Dataset.Task]++
	}
	im.recs = append(im.recs, rec)
}
