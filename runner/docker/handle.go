package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"bench/containers"
	"bench/internal/atomicfile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"

	"github.com/gofrs/flock"
)

// handle is a batch, running or ended.
type handle struct {
	e *executor
	d job.Dir
	b job.Batch
	r record
	c *containers.Container // nil if it has ended

	out  outbox
	hint chan struct{} // told when a job seems to be done

	// Wait's error is one of the engine's if it was away for too long; the
	// container may run on, and Attach finds it.
	*kept.End
}

// The reasons to stop a container.
const (
	byHandle = "stop"
	byTime   = "time"
	bySpace  = "space"
)

func (h *handle) Where() runner.Where { return h.r.Where }

// recorded looks whether somebody has seen the batch through.
func (h *handle) recorded() (bool, error) {
	x, err := own(h.d).Exit(h.r.Run)
	if err != nil {
		return false, fmt.Errorf("batch %s: %w", h.b.ID.Short(), err)
	}
	if x != nil {
		h.Set(*x, nil)
	}
	return x != nil, nil
}

// Stop implements runner.Handle.
func (h *handle) Stop(ctx context.Context) error {
	if h.Over() {
		return nil
	}
	return h.stop(ctx, byHandle, "")
}

func (h *handle) stop(ctx context.Context, reason, detail string) error {
	switch st, err := h.c.Inspect(ctx); {
	case containers.IsKind(err, containers.Gone) || err == nil && st.Ended():
		return nil
	case err != nil:
		return fmt.Errorf("batch %s cannot be stopped: %w", h.b.ID.Short(), err)
	}
	err := own(h.d).SetStop(kept.Stop{Run: h.r.Run, Reason: reason, Detail: detail})
	grace := h.e.o.Grace
	if reason == bySpace {
		grace = 0 // it would go on writing
	}
	if err == nil {
		err = h.c.Stop(ctx, grace)
	}
	if err != nil {
		return fmt.Errorf("batch %s cannot be stopped: %w", h.b.ID.Short(), err)
	}
	return nil
}

// How often a running batch is looked at.
const (
	collectEvery = 200 * time.Millisecond
	measureEvery = 2 * time.Second
)

// age is how long ago the program began, by the engine's clock: that of this
// machine may be another one, or have been set meanwhile.
func (h *handle) age(ctx context.Context, started time.Time) time.Duration {
	if started.IsZero() {
		return 0
	}
	now, err := h.e.engine.Clock(ctx)
	if err != nil {
		now = time.Now()
	}
	return max(0, now.Sub(started))
}

// Watch implements kept.Handle: it copies the log, moves finished jobs out of
// the scratch folder, keeps the limits, writes down how the batch ended, and
// removes the container. Only one watcher in all processes does it at a time;
// the others wait for what it writes down, or take its place.
func (h *handle) Watch(ctx context.Context, watching *flock.Flock) (job.Exit, error) {
	if watching == nil {
		lock, exit, err := own(h.d).Watch(h.r.Run)
		if err != nil {
			return job.Exit{}, fmt.Errorf("batch %s: %w", h.b.ID.Short(), err)
		}
		if exit != nil {
			h.e.freeGPU(h.r.Run, h.r.Where.GPUs)
			return *exit, nil
		}
		watching = lock
	}
	defer watching.Unlock()
	exit, err := h.watch(ctx)
	if err == nil {
		h.e.freeGPU(h.r.Run, h.r.Where.GPUs)
	}
	return exit, err
}

// watch is Watch by the one who holds the lock.
func (h *handle) watch(ctx context.Context) (job.Exit, error) {
	st, err := h.c.Inspect(ctx)
	if err != nil && !containers.IsKind(err, containers.Unreachable) && !containers.IsKind(err, containers.Gone) {
		return job.Exit{}, err
	}
	var deadline <-chan time.Time
	if h.e.o.Limits.Time > 0 {
		timer := time.NewTimer(h.e.o.Limits.Time - h.age(ctx, st.Started))
		defer timer.Stop()
		deadline = timer.C
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logged := make(chan error, 1)
	go func() { logged <- h.copyLog(ctx) }()
	type waited struct {
		exit containers.Exit
		err  error
	}
	over := make(chan waited, 1)
	go func() {
		x, err := h.c.Wait(ctx)
		over <- waited{x, err}
	}()
	lookEvery, measureEvery := h.out.pace()
	look, measure := time.NewTicker(lookEvery), time.NewTicker(measureEvery)
	defer look.Stop()
	defer measure.Stop()
	// Stopping takes as long as the grace, and must not keep the rest waiting.
	stopping, atWork := make(chan error, 1), false
	stop := func(reason, detail string) {
		if !atWork {
			atWork = true
			go func() { stopping <- h.stop(ctx, reason, detail) }()
		}
	}
	// Collecting and measuring may take long where they go through the engine.
	collected, collecting := make(chan error, 1), false
	collect := func() {
		if !collecting {
			collecting = true
			go func() { collected <- h.collect(ctx, false) }()
		}
	}
	type amount struct {
		used    int64
		entries int
		err     error
	}
	measured, measuring := make(chan amount, 1), false
	for {
		select {
		case <-look.C:
			collect()
		case <-h.hint:
			collect()
		case err := <-collected:
			if collecting = false; err != nil {
				h.abandon(cancel, logged)
				return job.Exit{}, err
			}
		case <-measure.C:
			if !measuring {
				measuring = true
				go func() {
					used, entries, err := h.out.used(ctx)
					measured <- amount{used, entries, err}
				}()
			}
		case m := <-measured:
			measuring = false
			if m.err == nil && (m.used > h.e.o.OutBytes || m.entries >= kept.MaxEntries) {
				wrote, allowed := fmt.Sprintf("%d MiB", m.used>>20), fmt.Sprintf("%d MiB", h.e.o.OutBytes>>20)
				if m.entries > 0 {
					wrote, allowed = fmt.Sprintf("%s in %d files", wrote, m.entries), fmt.Sprintf("%s in %d files", allowed, kept.MaxEntries)
				}
				stop(bySpace, fmt.Sprintf("it wrote %s; %s are allowed", wrote, allowed))
			}
		case <-deadline:
			stop(byTime, fmt.Sprintf("the limit is %v", h.e.o.Limits.Time))
			deadline = time.After(time.Second) // again, if the engine is away
		case <-stopping:
			atWork = false
		case w := <-over:
			if w.err != nil && !containers.IsKind(w.err, containers.Gone) {
				h.abandon(cancel, logged)
				return job.Exit{}, w.err
			}
			// The log first, then the jobs, then the news.
			if err := <-logged; err != nil && !containers.IsKind(err, containers.Gone) {
				return job.Exit{}, err
			}
			if collecting {
				if err := <-collected; err != nil {
					return job.Exit{}, err
				}
			}
			if err := h.e.engine.Persist(ctx, func() error { return h.collect(ctx, true) }); err != nil {
				return job.Exit{}, err
			}
			return h.conclude(ctx, w.exit, containers.IsKind(w.err, containers.Gone))
		}
	}
}

func (h *handle) abandon(cancel func(), logged <-chan error) {
	cancel()
	<-logged
}

// conclude writes down how the batch ended and removes what is left of it.
func (h *handle) conclude(ctx context.Context, x containers.Exit, gone bool) (job.Exit, error) {
	exit := job.Exit{Code: x.Code, OOMKilled: x.OOMKilled, Detail: x.Error}
	// The init process reports a signal N as 128 + N.
	if n := x.Code - 128; n > 0 && n <= 64 {
		exit.Code, exit.Signal = -1, n
	}
	s, err := own(h.d).Stop(h.r.Run)
	if err != nil {
		return job.Exit{}, err
	}
	switch {
	case s != nil:
		exit.Stopped, exit.TimedOut, exit.Detail = true, s.Reason == byTime, s.Detail
	case gone:
		exit = job.Exit{Code: -1, Signal: int(syscall.SIGKILL), Stopped: true, Detail: "its container was removed by somebody else"}
	case x.EngineLost && !x.OOMKilled && (exit.Signal == int(syscall.SIGKILL) || exit.Signal == int(syscall.SIGTERM)):
		exit.Stopped, exit.Detail = true, "the Docker engine was restarted, and took its containers along"
	}
	if err := own(h.d).SetExit(h.r.Run, exit); err != nil {
		return job.Exit{}, err
	}
	// From here on nothing can be lost. A container that the engine does not
	// remove now is removed by the next Start of the batch, or by GC.
	if err := h.c.Remove(ctx); err == nil {
		h.cleanScratch(ctx)
	}
	return exit, nil
}

// copyLog copies what the program printed since its start, from the beginning:
// over what an earlier watcher copied, which was the same.
func (h *handle) copyLog(ctx context.Context) error {
	events, err := kept.OpenLog(h.d.Events(), h.r.EventsFrom, kept.MaxLog)
	if err != nil {
		return err
	}
	defer events.Close()
	log, err := kept.OpenLog(h.d.Log(), h.r.LogFrom, kept.MaxLog)
	if err != nil {
		return err
	}
	defer log.Close()
	return h.c.Logs(ctx, spotter{events, h.hint}, log)
}

// collect moves the jobs that are finished from the scratch folder to Dir.Out,
// as far as they are what a trainer may write. At the end of the batch, final,
// a job whose files are not gets the outcome "output". An error is one of this
// machine's disk or, at the end, one of the engine's.
func (h *handle) collect(ctx context.Context, final bool) error {
	for _, j := range h.b.Jobs {
		to := filepath.Join(h.d.Out(), string(j.ID))
		if _, err := os.Lstat(filepath.Join(to, kept.Outcome)); err == nil {
			continue
		}
		outcome, err := h.read(ctx, filepath.Join(string(j.ID), kept.Outcome))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = h.take(ctx, filepath.Join(string(j.ID), kept.Predictions), filepath.Join(to, kept.Predictions))
			if local, ok := errors.AsType[kept.LocalError](err); ok {
				return fmt.Errorf("batch %s: %w", h.b.ID.Short(), local.Err)
			}
		}
		if err != nil && engineError(err) {
			if !final {
				return nil // the next look may tell
			}
			return fmt.Errorf("batch %s: %w", h.b.ID.Short(), err)
		}
		if err != nil {
			if !final {
				continue
			}
			outcome, err = kept.Refused(j.ID, err)
			if err != nil {
				return err
			}
		}
		if err := atomicfile.WriteBytes(filepath.Join(to, kept.Outcome), outcome); err != nil {
			return fmt.Errorf("batch %s: %w", h.b.ID.Short(), err)
		}
	}
	return nil
}

// read returns the content of an outcome in the out folder.
func (h *handle) read(ctx context.Context, name string) ([]byte, error) {
	f, err := h.out.open(ctx, name, job.MaxOutcome)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// take copies a file that may be missing out of the out folder.
func (h *handle) take(ctx context.Context, name, to string) error {
	f, err := h.out.open(ctx, name, job.MaxPredictions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return kept.Take(f, to)
}
