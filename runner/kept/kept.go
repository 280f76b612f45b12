// Package kept holds what executors have in common: small files that they keep in
// a batch's folder, how a batch's end is waited for, logs of a bounded length, and
// how results are taken in that an untrusted program wrote.
package kept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"bench/internal/atomicfile"
	"bench/runner/job"
)

// ReadJSON reads a file that WriteJSON wrote. A missing one is fs.ErrNotExist.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// WriteJSON replaces a file, whole or not at all.
func WriteJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, append(b, '\n'))
}

// Remove removes a file, if it is there.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Size returns how long a file is; 0 if it is not there.
func Size(path string) int64 {
	if i, err := os.Stat(path); err == nil {
		return i.Size()
	}
	return 0
}

// Absolute is the folder d, whatever the working folder becomes.
func Absolute(d job.Dir) (job.Dir, error) {
	abs, err := filepath.Abs(string(d))
	return job.Dir(abs), err
}

// LocalError is an error of writing what is taken in, not of what was read.
type LocalError struct{ Err error }

func (e LocalError) Error() string { return e.Err.Error() }
func (e LocalError) Unwrap() error { return e.Err }

// Take writes what f holds to a file, whole or not at all, and closes f. An error
// of writing is a LocalError, any other is f's.
func Take(f io.ReadCloser, to string) error {
	defer f.Close()
	var unreadable error
	err := atomicfile.Write(to, func(w io.Writer) error {
		_, err := io.Copy(w, source{f, &unreadable})
		return err
	})
	if unreadable != nil {
		return unreadable
	}
	if err != nil {
		return LocalError{err}
	}
	return nil
}

// source remembers the error of its reader.
type source struct {
	io.Reader
	err *error
}

func (s source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		*s.err = err
	}
	return n, err
}

// Refused is the outcome of a job whose files are not what a trainer may write.
func Refused(id job.ID, why error) ([]byte, error) {
	return json.Marshal(job.TrainerOutcome{Version: job.ProtocolVersion, Job: id, State: job.Failed, Failure: job.FailureOutput,
		Message: "what the trainer wrote is not taken in: " + why.Error()})
}

// End is how a batch ends, for any number of goroutines that wait for it.
type End struct {
	once sync.Once
	done chan struct{}
	exit job.Exit
	err  error
}

// NewEnd is the end of a batch that has not ended yet.
func NewEnd() *End { return &End{done: make(chan struct{})} }

// Set says how the batch ended. The first time counts.
func (e *End) Set(exit job.Exit, err error) {
	e.once.Do(func() {
		e.exit, e.err = exit, err
		close(e.done)
	})
}

// Done is closed when the batch has ended.
func (e *End) Done() <-chan struct{} { return e.done }

// Over says whether the batch has ended.
func (e *End) Over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// Wait returns how the batch ended, or the cause of ctx's end. An end that is
// there already is returned whatever ctx says.
func (e *End) Wait(ctx context.Context) (job.Exit, error) {
	if e.Over() {
		return e.exit, e.err
	}
	select {
	case <-e.done:
		return e.exit, e.err
	case <-ctx.Done():
		return job.Exit{}, context.Cause(ctx)
	}
}

// Log writes to a file up to a number of bytes, says that there was more, and
// drops the rest.
type Log struct {
	f    *os.File
	left int
}

// OpenLog opens a log, made if it is not there, to write up to max bytes from an
// offset on.
func OpenLog(path string, offset int64, max int) (*Log, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return &Log{f, max}, nil
}

// Write implements io.Writer. Once the log is full it does nothing.
func (l *Log) Write(p []byte) (int, error) {
	if len(p) > l.left {
		if l.left > 0 {
			if _, err := l.f.WriteString("\nbench: the rest is left out: it printed too much\n"); err != nil {
				return 0, err
			}
			l.left = 0
		}
		return len(p), nil
	}
	l.left -= len(p)
	return l.f.Write(p)
}

// Close closes the file.
func (l *Log) Close() error { return l.f.Close() }
