package runner

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"bench/runner/job"
	"bench/scoring/results"
	"bench/tasks/all"
)

// Interrupted, a run leaves its batches to run on; the next run attaches to
// them and starts nothing twice.
func TestInterruptedRunIsTakenOver(t *testing.T) {
	gate := make(chan struct{})
	var once sync.Once
	begun := make(chan struct{})
	w := newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		finish(d, b.Jobs[0], job.TrainerOutcome{State: job.OK})
		once.Do(func() { close(begun) })
		<-gate
		return succeed(s, b, d)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		time.Sleep(2 * pollEvery) // the first job is stored while the batch runs
		cancel()
	}()
	rep, err := w.run(ctx, w.request(2))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if rep.Ran == 0 || rep.Ran == 4 {
		t.Errorf("%d jobs ended before the interruption", rep.Ran)
	}
	stored := w.outcomes()
	close(gate)
	rep = w.must(w.request(2))
	after := w.outcomes()
	for path, text := range stored {
		if after[path] != text {
			t.Errorf("%s was written anew:\n%s\nbefore:\n%s", path, after[path], text)
		}
	}
	if n := w.events("job"); n != 4 || len(after) != 4 {
		t.Errorf("%d jobs were reported, %d are stored, of 4", n, len(after))
	}
	if rep.Attached != 2 || rep.Failed != 0 || len(rep.Records) != 2 || len(w.exec.started) != 4 {
		t.Errorf("%d jobs started, %+v", len(w.exec.started), rep)
	}
	w.noBatchesLeft()
}

// cutShort cancels a run when it has started its batch, and returns what it left.
func (w *world) cutShort() *claim {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	go func() {
		for w.events("start") == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := w.run(ctx, w.request(1)); !errors.Is(err, context.Canceled) {
		w.t.Fatal(err)
	}
	claims, _, err := homeAt(w.home).scan()
	if err != nil || len(claims) != 1 {
		w.t.Fatalf("%v, %v", claims, err)
	}
	return claims[0]
}

// A bench that died while it started a batch may have started it: the next one
// does not take the first "no" for an answer.
func TestBatchThatWasBeingStartedIsLookedFor(t *testing.T) {
	gate := make(chan struct{})
	w := newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		<-gate
		return succeed(s, b, d)
	})
	left := w.cutShort()
	if err := left.start(time.Now(), Where{}); err != nil { // as if it had died within Start
		t.Fatal(err)
	}
	left.release()
	w.exec.blind = 3
	close(gate)
	if rep := w.must(w.request(1)); rep.Attached != 1 || rep.Failed != 0 || len(w.exec.started) != 2 {
		t.Errorf("%d jobs started, %+v", len(w.exec.started), rep)
	}
}

// A batch that ended unwatched keeps when and where it began.
func TestCollectedOutcomeSaysWhere(t *testing.T) {
	w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		<-t.Context().Done() // killed with its bench
		return job.Exit{}, nil
	})
	left := w.cutShort()
	finish(left.dir, left.batch.Jobs[0], job.TrainerOutcome{State: job.OK})
	left.release()
	time.Sleep(20 * time.Millisecond)
	w.exec = &scripted{act: succeed}
	if rep := w.must(w.request(1)); rep.Ran != 2 || w.events("job") != 2 {
		t.Errorf("%d events, %+v", w.events("job"), rep)
	}
	o, ok, err := job.Store{Home: w.home}.Outcome(left.batch.Jobs[0].ID)
	if !ok || err != nil || o.Host != "here" || o.Executor != "scripted" || !o.Started.Before(o.Finished) {
		t.Errorf("%+v, %v", o, err)
	}
}

// An executor that cannot be asked about a batch stops the run that needs the
// batch's jobs, and no other one.
func TestUnknowableBatchIsLeftAlone(t *testing.T) {
	w := newWorld(t, succeed)
	other := w.request(1)
	other.Models = []*Model{{ID: "other", Revision: "r", Trainer: "t", Executor: "gone"}}
	gone := errors.New("no engine answers")
	b, specs := aBatch(job.Spec{Model: "m"}.ID())
	r := &Runner{Home: w.home, Tasks: all.Lookup, Results: results.Open(w.home), OnEvent: func(Event) {},
		Executor: func(name string) (Executor, error) {
			if name == "gone" {
				return nil, gone
			}
			return w.exec, nil
		}}
	c, err := homeAt(w.home).create(b, specs, "gone", 1, 0, nothing)
	if err != nil {
		t.Fatal(err)
	}
	c.release()
	if rep, err := r.Run(t.Context(), w.request(1)); err != nil || rep.Ran != 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	if _, err := os.Stat(manifestPath(c.dir)); err != nil {
		t.Errorf("the batch nobody could tell about is gone: %v", err)
	}
	x := &run{Runner: r, req: other, jobs: map[job.ID]*planned{}}
	if err := x.plan(); err != nil {
		t.Fatal(err)
	}
	var mine []job.ID
	for id, p := range x.jobs {
		mine, specs[id] = append(mine, id), p.spec
	}
	b.ID = job.BatchID(mine)
	if c, err = (homeAt(w.home)).create(b, specs, "gone", 1, 0, nothing); err != nil {
		t.Fatal(err)
	}
	c.release()
	if _, err := r.Run(t.Context(), other); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

// A batch whose executor knows it no more is collected: what had finished is
// kept, the rest runs again.
func TestLostBatchIsCollected(t *testing.T) {
	gate := make(chan struct{})
	begun := make(chan struct{})
	var once sync.Once
	w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		finish(d, b.Jobs[0], job.TrainerOutcome{State: job.OK})
		once.Do(func() { close(begun) })
		<-gate
		return job.Exit{}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, err := w.run(ctx, w.request(1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(gate)
	w.exec = &scripted{act: succeed} // the machine was restarted
	rep := w.must(w.request(1))
	if len(w.exec.started) != 1 || rep.Failed != 0 || len(rep.Records) != 2 {
		t.Errorf("%d jobs started, %+v", len(w.exec.started), rep)
	}
}

// Two processes on one home share the work: no job runs twice.
func TestTwoRunnersShareAHome(t *testing.T) {
	w := newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		time.Sleep(20 * time.Millisecond)
		return succeed(s, b, d)
	})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			rep, err := w.run(t.Context(), w.request(4))
			if err != nil || rep.Failed != 0 || len(rep.Records) != 2 {
				t.Errorf("%+v, %v", rep, err)
			}
		})
	}
	wg.Wait()
	count := map[job.ID]int{}
	for _, id := range w.exec.started {
		count[id]++
	}
	for id, n := range count {
		if n > 1 {
			t.Errorf("job %s ran %d times", id.Short(), n)
		}
	}
	if len(count) != 8 {
		t.Errorf("%d jobs ran, want 8", len(count))
	}
	w.noBatchesLeft()
}
