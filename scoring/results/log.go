package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"bench/internal/atomicfile"
)

// Log is a file of records, one JSON object a line. Any number of goroutines
// and processes may append and read at once. What is in it stays in it.
type Log struct{ path string }

// Open returns the log of a home folder: HOME/results/results.jsonl. It need
// not exist yet.
func Open(home string) *Log { return At(filepath.Join(home, "results", "results.jsonl")) }

// At returns the log in a file of any name.
func At(path string) *Log { return &Log{path: path} }

// Path returns the log's file.
func (l *Log) Path() string { return l.path }

// Append adds r with one write and returns when it is on disk. Schema is filled
// in, the time is kept in UTC to the second. If the last line is torn (a
// program was killed or the disk was full), r starts a new line; the torn one
// stays and is reported by All. When writing fails, what was written of r is
// taken off again.
func (l *Log) Append(r Record) error { return l.AppendAll([]Record{r}) }

// AppendAll is Append for many records, with one write: all of them are added,
// or none.
func (l *Log) AppendAll(rs []Record) error {
	_, _, err := l.AppendNew(rs, math.MaxInt64, nil)
	return err
}

// AppendNew is AppendAll of those records that no other process has added: it leaves
// out each r for which says(old, r), old being some record behind the first since
// bytes of the log. It returns those it added, and the size of the log now.
func (l *Log) AppendNew(rs []Record, since int64, says func(old, r Record) bool) (added []Record, size int64, err error) {
	if len(rs) == 0 {
		return nil, since, nil
	}
	what := fmt.Sprintf("record of %s on %s is", rs[0].Model.ID, rs[0].Dataset.Name)
	if len(rs) > 1 {
		what = fmt.Sprintf("%d records are", len(rs))
	}
	lines := map[int][]byte{}
	for i, r := range rs {
		if lines[i], err = r.line(); err != nil {
			return nil, 0, fmt.Errorf("record of %s on %s is not written: %w", r.Model.ID, r.Dataset.Name, err)
		}
	}
	size, err = appendMade(l.path, what, func(f *os.File, size int64) ([]byte, error) {
		if since < size {
			others, err := io.ReadAll(io.NewSectionReader(f, since, size-since))
			if err != nil {
				return nil, err
			}
			for text := range bytes.Lines(others) {
				if old, err := parse(bytes.TrimSpace(text)); err == nil {
					maps.DeleteFunc(lines, func(i int, _ []byte) bool { return says(old, rs[i]) })
				}
			}
		}
		var all []byte
		for i, r := range rs {
			if line, ok := lines[i]; ok {
				added, all = append(added, r), append(all, line...)
			}
		}
		return all, nil
	})
	if err != nil {
		return nil, 0, err
	}
	return added, size, nil
}

// appendLines adds whole lines to a file with one write, and returns when they
// are on disk. what says what they are, for errors.
func appendLines(path, what string, lines []byte) error {
	_, err := appendMade(path, what, func(*os.File, int64) ([]byte, error) { return lines, nil })
	return err
}

// appendMade is appendLines of lines that are made when no other process can add
// any. It returns the size of the file then.
func appendMade(path, what string, made func(f *os.File, size int64) ([]byte, error)) (end int64, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, err
	}
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o666))
	if err := lock.Lock(); err != nil {
		return 0, fmt.Errorf("%s: cannot be locked: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, torn, err := tail(f)
	if err != nil {
		return 0, err
	}
	lines, err := made(f, size)
	if err != nil || len(lines) == 0 {
		return size, err
	}
	if torn {
		lines = append([]byte{'\n'}, lines...)
	}
	_, err = f.Write(lines)
	if err == nil {
		err = f.Sync() // where NFS says that the server's disk is full
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("%s: %s not written: %w", path, what, err), f.Truncate(size))
	}
	if size == 0 {
		err = atomicfile.SyncDir(dir) // the file itself may be new
	}
	return size + int64(len(lines)), err
}

// tail returns the size of f and whether its last line lacks its end.
func tail(f *os.File) (size int64, torn bool, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, false, err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil {
		return 0, false, err
	}
	return info.Size(), last[0] != '\n', nil
}

// TornError is a warning: a line of the log is not whole, because a program was
// killed or a disk was full while it was written. Its record is lost; all
// others are not.
type TornError struct {
	File string
	Line int // from 1
	Last bool
	Text string // its beginning
}

func (e *TornError) Error() string {
	where := "in the middle of the log"
	if e.Last {
		where = "the last one"
	}
	return fmt.Sprintf("%s:%d: torn line (%s): %q", e.File, e.Line, where, e.Text)
}

// LineError says that a whole line of the log is not a record that this version
// can read.
type LineError struct {
	File string
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// All returns the records in the order of the file, as it was when the loop
// began. With a line that holds none an error comes instead, and the loop goes
// on: a *TornError, which is a warning, or a *LineError. Any other error ends
// it. A log that does not exist yet is empty.
func (l *Log) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f, err := os.Open(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer f.Close()
		size, err := l.settled(f)
		if err != nil {
			yield(Record{}, err)
			return
		}
		in := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 64<<10)
		for n := 1; ; n++ {
			line, err := in.ReadBytes('\n')
			if err != nil && err != io.EOF {
				yield(Record{}, fmt.Errorf("%s:%d: %w", l.path, n, err))
				return
			}
			if text := bytes.TrimSpace(line); len(text) > 0 && !yield(l.record(text, n, err == io.EOF)) {
				return
			}
			if err == io.EOF {
				return
			}
		}
	}
}

// settled returns the size of the log at a moment when nobody writes.
func (l *Log) settled(f *os.File) (int64, error) {
	lock := flock.New(l.path, flock.SetFlag(os.O_RDONLY))
	if lock.RLock() == nil {
		defer lock.Unlock()
	}
	// A file system without locks still can be read; at worst the line that is
	// being written looks torn.
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (l *Log) record(text []byte, n int, unended bool) (Record, error) {
	r, err := parse(text)
	switch {
	case err == nil:
		return r, nil
	case !json.Valid(text):
		return Record{}, &TornError{File: l.path, Line: n, Last: unended, Text: string(text[:min(60, len(text))])}
	}
	return Record{}, &LineError{l.path, n, err}
}

// Read returns all records. Torn lines are warnings; the first line that this
// version cannot read otherwise is an error.
func (l *Log) Read() (records []Record, warnings []error, err error) {
	for r, err := range l.All() {
		var torn *TornError
		switch {
		case err == nil:
			records = append(records, r)
		case errors.As(err, &torn):
			warnings = append(warnings, err)
		default:
			return nil, warnings, err
		}
	}
	return records, warnings, nil
}
