package kept

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bench/runner"
	"bench/runner/job"

	"github.com/gofrs/flock"
)

// LockPoll is how often a lock is tried that another process holds.
const LockPoll = 50 * time.Millisecond

// Folder is where the processes that start, watch over and stop one batch leave
// word for each other, in the batch's folder. One of them at a time starts it,
// one at a time watches over it, and the watcher writes down how it ended. What
// is written down is of one start, run, of the batch.
type Folder string

// Stop says why a batch was stopped: written before it is, so that whoever sees
// its end knows.
type Stop struct {
	Run    string `json:"run"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

type ended struct {
	Run  string   `json:"run"`
	Exit job.Exit `json:"exit"`
}

func (f Folder) file(name string) string { return filepath.Join(string(f), name) }

// LockStart waits until no other process starts the batch. The folder is made if
// it is not there.
func (f Folder) LockStart(ctx context.Context) (*flock.Flock, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(f.file("start.lock"))
	_, err := lock.TryLockContext(ctx, LockPoll)
	return lock, err
}

// Watch makes this process the watcher of a batch that runs, when there is no
// other. If another one has seen the batch through by then, the lock is nil, and
// exit is what it wrote down.
func (f Folder) Watch(run string) (lock *flock.Flock, exit *job.Exit, err error) {
	lock = flock.New(f.file("lock"))
	for {
		// Before the lock, whose file is made anew where the folder is being
		// thrown away.
		if exit, err := f.Exit(run); exit != nil || err != nil {
			return nil, exit, err
		}
		got, err := lock.TryLock()
		exit, rerr := f.Exit(run)
		switch {
		case exit != nil, rerr != nil, err != nil && !os.IsNotExist(err):
			if got {
				lock.Unlock()
			}
			return nil, exit, errors.Join(err, rerr)
		case got:
			return lock, nil, nil
		case os.IsNotExist(err):
			return nil, nil, errors.New("its folder is gone")
		}
		time.Sleep(LockPoll)
	}
}

// Exit returns how the start ended, if a watcher has written it down; else nil.
func (f Folder) Exit(run string) (*job.Exit, error) {
	var x ended
	err := ReadJSON(f.file("exit.json"), &x)
	if errors.Is(err, fs.ErrNotExist) || err == nil && x.Run != run {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &x.Exit, nil
}

// SetExit writes down how the start ended.
func (f Folder) SetExit(run string, x job.Exit) error {
	return WriteJSON(f.file("exit.json"), ended{run, x})
}

// Stop returns why the start was stopped; nil if it was not.
func (f Folder) Stop(run string) (*Stop, error) {
	var s Stop
	err := ReadJSON(f.file("stop.json"), &s)
	if errors.Is(err, fs.ErrNotExist) || err == nil && s.Run != run {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// SetStop writes down that the start is being stopped.
func (f Folder) SetStop(s Stop) error { return WriteJSON(f.file("stop.json"), s) }

// Clear removes what is written down.
func (f Folder) Clear() error {
	return errors.Join(Remove(f.file("exit.json")), Remove(f.file("stop.json")))
}

// Batches are the batches that an executor watches over, by their handles. The
// zero value is ready, and safe for concurrent use.
type Batches[H Handle] struct {
	mu      sync.Mutex
	handles map[string]H
}

// Handle is a batch of an executor whose batches are watched over.
type Handle interface {
	comparable
	runner.Handle
	Over() bool                // see End
	Set(x job.Exit, err error) // see End
	// Watch sees the batch through. watching is the watcher's lock, if it is held
	// already.
	Watch(ctx context.Context, watching *flock.Flock) (job.Exit, error)
}

func key(b job.Batch, d job.Dir) string { return string(b.ID) + " " + string(d) }

// Get returns the handle of a batch that is watched over, the zero H if it is not.
func (s *Batches[H]) Get(b job.Batch, d job.Dir) H {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handles[key(b, d)]
}

// Follow watches over a batch until it has ended.
func (s *Batches[H]) Follow(b job.Batch, d job.Dir, h H, watching *flock.Flock) {
	s.mu.Lock()
	if s.handles == nil {
		s.handles = map[string]H{}
	}
	s.handles[key(b, d)] = h
	s.mu.Unlock()
	go func() {
		// Not the context of Start or Wait: those end the waiting only.
		x, err := h.Watch(context.Background(), watching)
		s.mu.Lock()
		if s.handles[key(b, d)] == h {
			delete(s.handles, key(b, d))
		}
		s.mu.Unlock()
		h.Set(x, err)
	}()
}

// Start is Executor.Start: it attaches to the batch if it runs, and else launches
// and follows it. Only one process at a time does either.
func (s *Batches[H]) Start(ctx context.Context, f Folder, b job.Batch, d job.Dir, attach, launch func() (H, error)) (h H, err error) {
	starting, err := f.LockStart(ctx)
	if err != nil {
		return h, err
	}
	defer starting.Unlock()
	if h, err := attach(); err == nil && !h.Over() {
		return h, nil
	} else if err != nil && !errors.Is(err, runner.ErrNotFound) {
		return h, err
	}
	// Whoever watched over an earlier start may still be cleaning up.
	watching := flock.New(f.file("lock"))
	if _, err := watching.TryLockContext(ctx, LockPoll); err != nil {
		return h, err
	}
	if h, err = launch(); err != nil {
		watching.Unlock()
		return h, err
	}
	s.Follow(b, d, h, watching)
	return h, nil
}

// ReadRecord reads a batch's executor.json into a record. The error is
// runner.ErrNotFound if there is none.
func ReadRecord(b job.Batch, d job.Dir, record any) error {
	err := ReadJSON(d.Executor(), record)
	if errors.Is(err, fs.ErrNotExist) {
		err = runner.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("batch %s: %w", b.ID.Short(), err)
	}
	return nil
}
