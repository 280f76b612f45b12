package kept

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"

	"github.com/gofrs/flock"
)

// While one start has the lock, another waits; one that gives up gets an error.
func TestLockStart(t *testing.T) {
	own := Folder(filepath.Join(t.TempDir(), "not", "there"))
	first, err := own.LockStart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*LockPoll)
	defer cancel()
	if _, err := own.LockStart(ctx); err == nil {
		t.Error("two starts at once")
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := own.LockStart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again.Unlock()
}

// What is written down of one start does not count for another.
func TestFolderWords(t *testing.T) {
	own := Folder(t.TempDir())
	if err := errors.Join(own.SetExit("one", job.Exit{Code: 3}), own.SetStop(Stop{"one", "time", "late"})); err != nil {
		t.Fatal(err)
	}
	for run, want := range map[string]bool{"one": true, "two": false} {
		x, err := own.Exit(run)
		if err != nil || (x != nil) != want || want && x.Code != 3 {
			t.Errorf("exit of %s: %+v, %v", run, x, err)
		}
		s, err := own.Stop(run)
		if err != nil || (s != nil) != want || want && *s != (Stop{"one", "time", "late"}) {
			t.Errorf("stop of %s: %+v, %v", run, s, err)
		}
	}
	if err := os.WriteFile(filepath.Join(string(own), "exit.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if x, err := own.Exit("one"); x != nil || err == nil {
		t.Errorf("a torn file: %+v, %v", x, err)
	}
	if err := errors.Join(own.Clear(), own.Clear()); err != nil {
		t.Error(err)
	}
	if x, err := own.Exit("one"); x != nil || err != nil {
		t.Errorf("cleared: %+v, %v", x, err)
	}
}

// A watcher that ends without a word is replaced, one that leaves its word is
// not; a folder that is gone has no watcher.
func TestWatch(t *testing.T) {
	own := Folder(t.TempDir())
	first, exit, err := own.Watch("run")
	if first == nil || exit != nil || err != nil {
		t.Fatal(first, exit, err)
	}
	time.AfterFunc(2*LockPoll, func() { first.Unlock() })
	second, exit, err := own.Watch("run")
	if second == nil || exit != nil || err != nil {
		t.Fatal(second, exit, err)
	}
	time.AfterFunc(2*LockPoll, func() {
		own.SetExit("run", job.Exit{Code: 7})
		second.Unlock()
	})
	third, exit, err := own.Watch("run")
	if third != nil || exit == nil || exit.Code != 7 || err != nil {
		t.Error(third, exit, err)
	}
	if err := os.RemoveAll(string(own)); err != nil {
		t.Fatal(err)
	}
	if lock, exit, err := own.Watch("run"); lock != nil || exit != nil || err == nil {
		t.Error(lock, exit, err)
	}
}

// scripted is a handle whose batch ends when the test says so.
type scripted struct {
	*End
	runner.Handle
	over chan job.Exit
}

func (s *scripted) Wait(ctx context.Context) (job.Exit, error) { return s.End.Wait(ctx) }

func (s *scripted) Watch(_ context.Context, watching *flock.Flock) (job.Exit, error) {
	defer watching.Unlock()
	return <-s.over, nil
}

// A batch is launched once, by whoever comes first, and again when it has ended.
func TestBatches(t *testing.T) {
	d, b := job.Dir(t.TempDir()), job.Batch{ID: "0123456789abcdef"}
	var all Batches[*scripted]
	launched := 0
	start := func(attached error) (*scripted, error) {
		return all.Start(t.Context(), Folder(filepath.Join(string(d), "own")), b, d, func() (*scripted, error) {
			if h := all.Get(b, d); h != nil {
				return h, nil
			}
			return nil, attached
		}, func() (*scripted, error) {
			launched++
			return &scripted{End: NewEnd(), over: make(chan job.Exit)}, nil
		})
	}
	var wait sync.WaitGroup
	handles := make([]*scripted, 3)
	for i := range handles {
		wait.Go(func() {
			var err error
			if handles[i], err = start(runner.ErrNotFound); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if launched != 1 || handles[0] != handles[1] || handles[1] != handles[2] {
		t.Fatalf("launched %d times: %v", launched, handles)
	}
	handles[0].over <- job.Exit{Code: 5}
	if x, err := handles[1].Wait(t.Context()); x.Code != 5 || err != nil || all.Get(b, d) != nil {
		t.Errorf("%+v, %v", x, err)
	}
	again, err := start(runner.ErrNotFound)
	if err != nil || again == handles[0] || launched != 2 {
		t.Errorf("not started again: %v", err)
	}
	again.over <- job.Exit{}
	again.Wait(t.Context())
	broken := errors.New("broken")
	if _, err := start(broken); !errors.Is(err, broken) || launched != 2 {
		t.Errorf("%v, launched %d times", err, launched)
	}
}

func TestReadRecord(t *testing.T) {
	d, b := job.Dir(t.TempDir()), job.Batch{ID: "0123456789abcdef"}
	var got struct{ A int }
	if err := ReadRecord(b, d, &got); !errors.Is(err, runner.ErrNotFound) {
		t.Error(err)
	}
	if err := WriteJSON(d.Executor(), map[string]int{"A": 3}); err != nil {
		t.Fatal(err)
	}
	if err := ReadRecord(b, d, &got); err != nil || got.A != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
