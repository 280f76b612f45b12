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
// Torn and Unreadable, or gave records, alone or with its neighbours; each record is in exactly one of New
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
// wrong with lines is in the report. A file none of whose lines is a record is
// tried as a whole: people paste records with line breaks in them, or as a list.
func (im *Importer) Read(name string, r io.Reader) error {
	im.out.Files++
	in := bufio.NewReaderSize(r, 1<<20)
	if beginsList(in) {
		file, err := io.ReadAll(in)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		before := im.out
		for line := range bytes.Lines(file) {
			im.out.Lines++
			if len(trimmed(line)) == 0 {
				im.out.Blank++
			}
		}
		if im.whole(name, file, before) {
			return nil
		}
		im.out = before
		in.Reset(bytes.NewReader(file))
	}
	before := im.out
	var file bytes.Buffer // until there is a record
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if len(line) > 0 {
			im.line(name, n, line)
		}
		if im.out.Records == before.Records && file.Len() < largest {
			file.Write(line)
		}
		if err == io.EOF {
			break
		}
	}
	if im.out.Records == before.Records && file.Len() < largest {
		im.whole(name, file.Bytes(), before)
	}
	return nil
}

// largest is the size of a file that is no longer tried as a whole.
const largest = 1 << 28

// trimmed is a text without the blanks around it and the mark of a UTF-8 file.
func trimmed(text []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
}

// beginsList looks whether the first thing in a file is a bracket.
func beginsList(in *bufio.Reader) bool {
	head, _ := in.Peek(1 << 12) // less, if the file is shorter
	head = trimmed(head)
	return len(head) > 0 && head[0] == '['
}

// whole reads a file in which no line is a record as a stream of values. If
// there is a record in it, what was said of the lines since before is taken back,
// and the answer is yes.
func (im *Importer) whole(name string, file []byte, before Report) bool {
	text, nan := mend(bytes.TrimPrefix(file, []byte("\xef\xbb\xbf")))
	type entry struct {
		line  int
		rec   results.Record
		notes []string
		err   error
	}
	var entries []entry
	var torn error
	found := false
	d := json.NewDecoder(bytes.NewReader(text))
	line, at := 1, 0
	for {
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			if err != io.EOF {
				torn = err
			}
			break
		}
		start := int(d.InputOffset()) - len(one)
		line, at = line+bytes.Count(text[at:start], []byte("\n")), start
		list := []json.RawMessage{one}
		if one[0] == '[' {
			list = nil
			json.Unmarshal(one, &list) // the decoder has read it: it is a list
		}
		for _, o := range list {
			e := entry{line: line}
			e.rec, e.notes, e.err = Parse(o)
			found = found || e.err == nil
			entries = append(entries, e)
		}
	}
	if !found {
		return false
	}
	im.out.Torn, im.out.Unreadable, im.out.NaN = before.Torn, before.Unreadable, before.NaN+nan
	for _, e := range entries {
		if e.err != nil {
			im.out.Unreadable = append(im.out.Unreadable, Problem{name, e.line, fmt.Sprintf("not a record: %v", flat(e.err))})
			continue
		}
		im.add(Problem{File: name, Line: e.line}, e.rec, e.notes)
	}
	if torn != nil {
		im.out.Torn = append(im.out.Torn, Problem{name, line, fmt.Sprintf("torn after the record that begins here: %v", torn)})
	}
	return true
}

func (im *Importer) line(name string, n int, line []byte) {
	im.out.Lines++
	text := trimmed(line)
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
