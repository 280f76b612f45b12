package runnertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/runner/runnertest/stub"
)

// long is a time in which any case is over: a batch that lingers as long is
// meant to be stopped.
const long = 10 * time.Minute

func endsWell(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 2, stub.Script{})
	h := r.start(r.f.Open(r.T), b, d)
	r.want(r.wait(h), 0, 0)
	r.complete(b, d)
	if w := h.Where(); w.Executor == "" || w.Host == "" {
		r.Errorf("Where does not name the executor and the host: %+v", w)
	}
	r.want(r.wait(h), 0, 0) // waiting for an ended batch returns the same
	r.stop(h)               // and stopping it changes nothing
	r.want(r.wait(h), 0, 0)
}

func startTwice(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 2, stub.Script{Pause: 700 * time.Millisecond})
	e := r.f.Open(r.T)
	// At the same time, then once more.
	handles := make([]runner.Handle, 4)
	errs := make([]error, len(handles))
	var wg sync.WaitGroup
	for i := range len(handles) - 1 {
		wg.Go(func() { handles[i], errs[i] = e.Start(r.ctx, b, d) })
	}
	wg.Wait()
	handles[3], errs[3] = e.Start(r.ctx, b, d)
	if err := errors.Join(errs...); err != nil {
		r.Fatalf("Start: %v", err)
	}
	for _, h := range handles {
		r.want(r.wait(h), 0, 0)
	}
	r.complete(b, d)
	starts := r.starts(d)
	for _, j := range b.Jobs {
		if starts[j.ID] != 1 {
			r.Errorf("job %s was started %d times", j.ID.Short(), starts[j.ID])
		}
	}
}

func startAfterEnd(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 1, stub.Script{})
	e := r.f.Open(r.T)
	r.want(r.wait(r.start(e, b, d)), 0, 0)
	before, err := os.Stat(outcomePath(d, b.Jobs[0]))
	if err != nil {
		r.Fatal(err)
	}
	r.want(r.wait(r.start(e, b, d)), 0, 0)
	after, err := os.Stat(outcomePath(d, b.Jobs[0]))
	if err != nil {
		r.Fatal(err)
	}
	if !os.SameFile(before, after) {
		r.Error("the second start did the job again")
	}
}

func unknownBatch(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 1, stub.Script{})
	if h, err := r.f.Open(r.T).Attach(r.ctx, b, d); !errors.Is(err, runner.ErrNotFound) {
		r.Errorf("Attach to a batch that was never started: %v, %v; want runner.ErrNotFound", h, err)
	}
	// Another batch in the same folder is not this one.
	e := r.f.Open(r.T)
	r.want(r.wait(r.start(e, b, d)), 0, 0)
	other := b
	other.ID = job.BatchID([]job.ID{"other"})
	if h, err := e.Attach(r.ctx, other, d); !errors.Is(err, runner.ErrNotFound) {
		r.Errorf("Attach to another batch's id: %v, %v; want runner.ErrNotFound", h, err)
	}
}

func attachSame(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 2, stub.Script{Pause: 500 * time.Millisecond})
	e := r.f.Open(r.T)
	r.start(e, b, d)
	r.want(r.wait(r.attach(e, b, d)), 0, 0)
	r.complete(b, d)
}

func attachOther(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 2, stub.Script{Pause: time.Second + r.f.Latency})
	h := r.start(r.f.Open(r.T), b, d)
	r.appears(d, b.Jobs[0])
	other := r.attach(r.f.Open(r.T), b, d)
	if got, want := fmt.Sprint(other.Where()), fmt.Sprint(h.Where()); got != want {
		r.Errorf("Where after Attach is %s, was %s", got, want)
	}
	if done(d, b.Jobs[1]) {
		r.Error("Attach waited for the end")
	}
	again := r.start(r.f.Open(r.T), b, d) // Start attaches as well
	r.want(r.wait(other), 0, 0)
	r.want(r.wait(again), 0, 0)
	r.complete(b, d)
	for id, n := range r.starts(d) {
		if n != 1 {
			r.Errorf("job %s was started %d times", id.Short(), n)
		}
	}
}

func attachEnded(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 1, stub.Script{Code: job.ExitAgain})
	r.want(r.wait(r.start(r.f.Open(r.T), b, d)), job.ExitAgain, 0)
	r.want(r.wait(r.attach(r.f.Open(r.T), b, d)), job.ExitAgain, 0)
	r.complete(b, d)
}

func stopTwice(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 2, stub.Script{Pause: long})
	e := r.f.Open(r.T)
	h := r.start(e, b, d)
	r.appears(d, b.Jobs[0])
	r.stop(h)
	r.stop(h)
	if x := r.wait(h); !x.Stopped || x.TimedOut || x.OOMKilled {
		r.Errorf("exit after Stop is %+v, want Stopped", x)
	}
	r.stop(h)
	if !done(d, b.Jobs[0]) || done(d, b.Jobs[1]) {
		r.Error("a stopped batch keeps the outcomes it has, and gets no more")
	}
}

func stopDeaf(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 1, stub.Script{IgnoreTERM: true, Linger: long})
	h := r.start(r.f.Open(r.T), b, d)
	r.appears(d, b.Jobs[0])
	r.stop(h)
	if x := r.wait(h); !x.Stopped {
		r.Errorf("exit after Stop is %+v, want Stopped", x)
	}
}

func stopOther(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 1, stub.Script{Linger: long})
	h := r.start(r.f.Open(r.T), b, d)
	r.appears(d, b.Jobs[0])
	r.stop(r.attach(r.f.Open(r.T), b, d))
	if x := r.wait(h); !x.Stopped {
		r.Errorf("exit after Stop by another is %+v, want Stopped", x)
	}
}

func cancelledWait(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 2, stub.Script{Pause: 1500*time.Millisecond + r.f.Latency})
	h := r.start(r.f.Open(r.T), b, d)
	r.appears(d, b.Jobs[0])
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if x, err := h.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("Wait with an ended context: %+v, %v; want the context's error", x, err)
	}
	if took := time.Since(begin); took > time.Second {
		r.Errorf("Wait took %v to see that its context ended", took)
	}
	r.want(r.wait(h), 0, 0)
	r.complete(b, d)
}

func twoWaits(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 2, stub.Script{Pause: 300 * time.Millisecond, Code: 7})
	h := r.start(r.f.Open(r.T), b, d)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if x, err := h.Wait(r.ctx); err != nil || x.Code != 7 {
				r.Errorf("Wait: %+v, %v; want exit code 7", x, err)
			}
		})
	}
	wg.Wait()
}

func exitCodes(r *run) {
	for _, code := range []int{1, job.ExitInput, job.ExitTrainer, job.ExitAgain} {
		d := r.dir(fmt.Sprint("code", code))
		b := r.batch(d, 1, stub.Script{Code: code})
		r.want(r.wait(r.start(r.f.Open(r.T), b, d)), code, 0)
		r.complete(b, d)
	}
}

func exitCodeAfterAttach(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 1, stub.Script{Linger: time.Second, Code: job.ExitTrainer})
	r.start(r.f.Open(r.T), b, d)
	h := r.attach(r.f.Open(r.T), b, d)
	r.want(r.wait(h), job.ExitTrainer, 0)
}

func signals(r *run) {
	for _, signal := range []int{2, 9, 15} {
		d := r.dir(fmt.Sprint("signal", signal))
		b := r.batch(d, 1, stub.Script{Signal: signal})
		r.want(r.wait(r.start(r.f.Open(r.T), b, d)), -1, signal)
		r.complete(b, d)
	}
}

func endOfLog(r *run) {
	const lines = 20_000
	d := r.dir("batch")
	b := r.batch(d, 1, stub.Script{LogLines: lines, Code: 3})
	r.want(r.wait(r.start(r.f.Open(r.T), b, d)), 3, 0)
	log := strings.TrimSuffix(r.log(d), "\n") // engines that keep lines end the last one too
	if !strings.HasSuffix(log, fmt.Sprintf("line %d\n%s", lines-1, stub.LastLine)) {
		r.Errorf("the log ends with %q", log[max(0, len(log)-60):])
	}
	if n := strings.Count(log, "\nline "); n != lines {
		r.Errorf("%d of %d lines are in the log", n, lines)
	}
	events, err := os.ReadFile(d.Events())
	if err != nil {
		r.Fatal(err)
	}
	if n := strings.Count(string(events), `"warn"`); n != lines {
		r.Errorf("%d of %d events arrived", n, lines)
	}
}

func resultsEarly(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 2, stub.Script{Pause: long})
	h := r.start(r.f.Open(r.T), b, d)
	r.appears(d, b.Jobs[0])
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	if x, err := h.Wait(ctx); err == nil {
		r.Errorf("the batch ended (%+v) before its second job", x)
	}
	if _, err := os.Stat(filepath.Join(d.Out(), string(b.Jobs[0].ID), "predictions.jsonl")); err != nil {
		r.Error("an outcome came before its predictions:", err)
	}
}

func notAgain(r *run) {
	d := r.dir("batch")
	b := r.batch(d, 2, stub.Script{})
	mark := []byte(`{"mark":"written by the test"}`)
	if err := os.MkdirAll(filepath.Dir(outcomePath(d, b.Jobs[0])), 0o777); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(outcomePath(d, b.Jobs[0]), mark, 0o666); err != nil {
		r.Fatal(err)
	}
	r.want(r.wait(r.start(r.f.Open(r.T), b, d)), 0, 0)
	if got, err := os.ReadFile(outcomePath(d, b.Jobs[0])); err != nil || string(got) != string(mark) {
		r.Errorf("the outcome that was there is now %q, %v", got, err)
	}
	if !done(d, b.Jobs[1]) {
		r.Error("the other job was not done")
	}
	if n := r.starts(d)[b.Jobs[0].ID]; n != 0 {
		r.Errorf("a finished job was started %d times", n)
	}
}

func twoBatches(r *run) {
	d1, d2 := r.dir("one"), r.dir("two")
	b1 := r.batch(d1, 1, stub.Script{Linger: long})
	b2 := r.batch(d2, 1, stub.Script{Linger: long})
	e := r.f.Open(r.T)
	h1 := r.start(e, b1, d1)
	h2 := r.start(e, b2, d2)
	r.appears(d1, b1.Jobs[0])
	r.appears(d2, b2.Jobs[0])
	r.stop(h1)
	if x := r.wait(h1); !x.Stopped {
		r.Errorf("first batch: %+v, want Stopped", x)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 300*time.Millisecond)
	defer cancel()
	if x, err := h2.Wait(ctx); err == nil {
		r.Errorf("stopping the first batch ended the second: %+v", x)
	}
}

func oddPaths(r *run) {
	d := r.dir("blåbær og \"fløde\" $HOME %s 'ð'\t🫐")
	b := r.batch(d, 1, stub.Script{LogLines: 1})
	h := r.start(r.f.Open(r.T), b, d)
	r.want(r.wait(h), 0, 0)
	r.complete(b, d)
	if !strings.HasSuffix(strings.TrimSuffix(r.log(d), "\n"), stub.LastLine) {
		r.Error("the log is not complete")
	}
}
