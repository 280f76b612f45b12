package scandiqa

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// store is an append-only file of JSON lines: what services answered. A line
// that was cut off when a process died is removed when the file is opened; it is
// the last one. One process has a store at a time.
type store struct {
	path string
	mu   sync.Mutex
	file *os.File
	size int64 // of the whole lines
	lock *flock.Flock
}

// openStore opens the store at path, makes it if there is none, waits for other
// processes that have it, saying so, and calls load with each line.
func openStore(ctx context.Context, path string, log func(string, ...any), load func(line []byte) error) (s *store, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	lock := flock.New(path + ".lock")
	if free, err := lock.TryLock(); err == nil && !free {
		log("waiting for another build, which uses %s", path)
	}
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer func() {
		if err != nil {
			lock.Unlock()
		}
	}()
	whole, err := loadLines(path, load)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(whole); err != nil {
		f.Close()
		return nil, err
	}
	return &store{path: path, file: f, size: whole, lock: lock}, nil
}

// loadLines calls load with each whole line and returns where the last one ends.
func loadLines(path string, load func([]byte) error) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	in, whole := bufio.NewReaderSize(f, 1<<18), int64(0)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return whole, nil // the rest, if any, was cut off
		}
		if err != nil {
			return 0, err
		}
		if err := load(line); err != nil {
			return 0, &Error{
				Kind: BadState, Where: fmt.Sprintf("%s:%d", path, n), Detail: fmt.Sprintf("the line is damaged: %v", err),
				Advice: "remove this line: what it held is asked for again, everything else is kept", Err: err,
			}
		}
		whole += int64(len(line))
	}
}

// add appends records and makes them durable: they were paid for.
func (s *store) add(records ...any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, r := range records {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, err := s.file.WriteAt(b.Bytes(), s.size); err != nil {
		if n > 0 { // half a line must not be in the way of the next one
			err = errors.Join(err, s.file.Truncate(s.size))
		}
		return err
	}
	s.size += int64(b.Len())
	return s.file.Sync()
}

// Close gives the store back.
func (s *store) Close() error { return errors.Join(s.file.Close(), s.lock.Unlock()) }
