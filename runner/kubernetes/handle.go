package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"bench/internal/atomicfile"
	"bench/internal/hostile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"

	"github.com/gofrs/flock"
)

// handle is a batch, running or ended.
type handle struct {
	e *Executor
	c *cluster
	d job.Dir
	b job.Batch

	mu sync.Mutex
	r  record

	why string // it waits, as far as was told

	// Wait's error is a *runner.PreconditionError if the batch can never run as
	// things are, and its Job is removed then. Else it is one of the cluster if
	// that was away for too long; the Job may run on, and Attach finds it.
	*kept.End
}

func (h *handle) Where() runner.Where {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.r.Where
}

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

// Stop implements runner.Handle. It waits until nothing of the batch runs.
func (h *handle) Stop(ctx context.Context) error {
	if h.Over() {
		return nil
	}
	fail := func(err error) error { return fmt.Errorf("batch %s cannot be stopped: %w", h.b.ID.Short(), err) }
	v, err := h.c.view(ctx, h.r.Job, h.r.Run)
	if err != nil {
		return fail(h.c.precondition(err))
	}
	if v.phase == ended || v.phase == gone {
		return nil
	}
	if err := h.stop(ctx, ""); err != nil {
		return fail(h.c.precondition(err))
	}
	ctx, cancel := context.WithTimeout(ctx, h.e.o.Grace+h.e.o.NodePatience)
	defer cancel()
	for {
		v, err := h.c.view(ctx, h.r.Job, h.r.Run)
		if err != nil {
			return fail(h.c.precondition(err))
		}
		if v.phase == gone || v.phase == lost {
			return nil
		}
	}
}

// stop removes the Job, which stays until its pods have ended.
func (h *handle) stop(ctx context.Context, detail string) error {
	if err := own(h.d).SetStop(kept.Stop{Run: h.r.Run, Detail: detail}); err != nil {
		return err
	}
	return h.c.delete(ctx, h.r.Job, h.r.Run, "Foreground")
}

// save writes the record.
func (h *handle) save() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return kept.WriteJSON(h.d.Executor(), h.r)
}

const (
	// measureEvery is how often the size of the out folder is looked at.
	measureEvery = 5 * time.Second
	// settle is how long the outcomes of a batch that ended well may take to
	// show themselves here: network file systems are late.
	settle = 10 * time.Second
	// explainAfter is how long a batch may wait before somebody is told why.
	explainAfter = 20 * time.Second
)

// Watch implements kept.Handle: it copies the log, takes finished jobs out of
// the volume, keeps the limits, writes down how the batch ended, and removes the
// Job. Only one watcher in all processes does it at a time; the others wait for
// what it writes down, or take its place.
func (h *handle) Watch(ctx context.Context, watching *flock.Flock) (job.Exit, error) {
	if watching == nil {
		lock, exit, err := own(h.d).Watch(h.r.Run)
		if err != nil {
			return job.Exit{}, fmt.Errorf("batch %s: %w", h.b.ID.Short(), err)
		}
		if exit != nil {
			return *exit, nil
		}
		watching = lock
	}
	defer watching.Unlock()

	var log *copier
	defer func() { log.stop() }()
	seen, measured := time.Now(), time.Now() // when the cluster answered last, when the folder was measured
	begun := time.Now()
	var asked time.Time
	for {
		v, err := h.c.view(ctx, h.r.Job, h.r.Run)
		if err != nil {
			if !passes(err) || time.Since(seen) > h.e.o.Patience {
				return job.Exit{}, h.c.precondition(err)
			}
			time.Sleep(h.c.poll)
			continue
		}
		seen = time.Now()
		if err := h.note(v); err != nil {
			return job.Exit{}, err
		}
		if (v.phase == running || v.phase == ended) && v.pod != "" && (log == nil || log.pod != v.pod) {
			log.stop()
			if log, err = h.copyLog(v.pod); err != nil {
				return job.Exit{}, err
			}
		}
		switch v.phase {
		case running:
			begun = time.Now()
			h.waiting("")
			if err := h.collect(ctx, false); err != nil {
				return job.Exit{}, err
			}
			if time.Since(measured) > measureEvery {
				measured = time.Now()
				used, entries, err := h.c.volume.usage(ctx, h.r.Folder+"/out")
				if err == nil && (used > h.e.o.OutBytes || entries >= kept.MaxEntries) {
					h.stop(ctx, fmt.Sprintf("it wrote %d MiB in %d files; %d MiB in %d files are allowed", used>>20, entries, h.e.o.OutBytes>>20, kept.MaxEntries))
				}
			}
		case waiting:
			if err := h.waits(ctx, v, begun, &asked); err != nil {
				return job.Exit{}, err
			}
		case stuck:
			if err := h.giveUp(ctx); err != nil {
				return job.Exit{}, err
			}
			return job.Exit{}, v.trouble
		case gone, ended, lost:
			h.waiting("")
			// The log first, then the jobs, then the news.
			log.finish(ctx, v.phase == ended)
			for end := time.Now().Add(settle); ; {
				if err := h.collect(ctx, true); err != nil {
					return job.Exit{}, err
				}
				if v.phase != ended || v.exit.Code != 0 || h.complete() || time.Now().After(end) {
					break
				}
				time.Sleep(h.c.poll)
			}
			return h.conclude(ctx, v)
		}
	}
}

// note keeps what has come to be known of where the batch runs. Nothing is
// taken out of the volume before that.
func (h *handle) note(v view) error {
	if v.node == "" || v.node == h.r.Node {
		return nil
	}
	h.mu.Lock()
	h.r.Node = v.node
	h.r.Where.Host = h.c.host() + "/" + v.node
	h.mu.Unlock()
	return h.save()
}

// waits says why a batch waits, and gives up after StartTimeout.
func (h *handle) waits(ctx context.Context, v view, begun time.Time, asked *time.Time) error {
	waited := time.Since(begun)
	if !v.since.IsZero() && h.r.Node == "" {
		waited = max(waited, time.Since(v.since))
	}
	why := v.why
	if waited > explainAfter && time.Since(*asked) > explainAfter {
		*asked = time.Now()
		if why == "" {
			said, err := h.c.events(ctx, cmp.Or(v.pod, h.r.Job))
			if err == nil && len(said) > 0 {
				why = said[len(said)-1]
			}
		}
		if why != "" {
			h.e.notice("Kubernetes: batches wait: " + why)
			h.waiting(why)
		}
	}
	if limit := h.e.o.StartTimeout; limit > 0 && waited > limit {
		if err := h.giveUp(ctx); err != nil {
			return err
		}
		return &runner.PreconditionError{What: fmt.Sprintf("a batch has not started in Kubernetes within %v", limit), Hint: "wait longer (start_timeout), or ask for less: memory, gpu_resource, node_selector", Err: errors.New(cmp.Or(why, "the cluster does not say why"))}
	}
	return nil
}

// waiting notes for bench status what the batch waits for; "": nothing. It is
// news for people, and nothing rests on it.
func (h *handle) waiting(why string) {
	if why == h.why {
		return
	}
	h.why = why
	if why == "" {
		_ = kept.Remove(h.d.Waiting())
		return
	}
	_ = atomicfile.WriteBytes(h.d.Waiting(), []byte(why))
}

// giveUp removes a batch that never ran.
func (h *handle) giveUp(ctx context.Context) error {
	return errors.Join(h.c.delete(ctx, h.r.Job, h.r.Run, "Background"), h.clean(ctx), kept.Remove(h.d.Executor()))
}

// complete says whether every job has its outcome.
func (h *handle) complete() bool {
	for _, j := range h.b.Jobs {
		if _, err := os.Lstat(filepath.Join(h.d.Out(), string(j.ID), kept.Outcome)); err != nil {
			return false
		}
	}
	return true
}

// conclude writes down how the batch ended and removes what is left of it.
func (h *handle) conclude(ctx context.Context, v view) (job.Exit, error) {
	exit := v.exit
	if v.phase == gone {
		exit = job.Exit{Code: -1, Signal: int(syscall.SIGKILL), Stopped: true, Detail: "its Job was removed by somebody else"}
	}
	stop, err := own(h.d).Stop(h.r.Run)
	if err != nil {
		return job.Exit{}, err
	}
	if stop != nil && v.phase != lost {
		exit.Stopped, exit.TimedOut, exit.OOMKilled, exit.Detail = true, false, false, stop.Detail
	}
	if err := own(h.d).SetExit(h.r.Run, exit); err != nil {
		return job.Exit{}, err
	}
	// From here on nothing can be lost. What is not removed now is removed by
	// the next Start of the batch, by GC, or by the cluster after keepEnded.
	if err := h.c.delete(ctx, h.r.Job, h.r.Run, "Background"); err == nil && v.phase != lost {
		h.cleanScratch(ctx)
	}
	return exit, nil
}

// clean removes what only a running batch needs.
func (h *handle) clean(ctx context.Context) error {
	return errors.Join(h.cleanLocal(), h.cleanScratch(ctx))
}

func (h *handle) cleanLocal() error {
	return errors.Join(own(h.d).Clear(), hostile.RemoveAll(fetched(h.d)))
}

func (h *handle) cleanScratch(ctx context.Context) error {
	return errors.Join(hostile.RemoveAll(fetched(h.d)), h.c.volume.remove(ctx, h.r.Folder))
}

// collect moves the jobs that are finished from the volume to Dir.Out, as far
// as they are what a trainer may write. At the end of the batch, final, a job
// whose files are not gets the outcome "output". An error is one of this
// machine's disk.
func (h *handle) collect(ctx context.Context, final bool) error {
	var rest []job.ID
	for _, j := range h.b.Jobs {
		if _, err := os.Lstat(filepath.Join(h.d.Out(), string(j.ID), kept.Outcome)); err != nil {
			rest = append(rest, j.ID)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	from, err := h.c.volume.results(ctx, h.r.Folder+"/out", rest, fetched(h.d), final)
	if err != nil {
		if !final { // there is a next time
			return nil
		}
		return fmt.Errorf("batch %s: its results cannot be fetched: %w", h.b.ID.Short(), err)
	}
	for _, id := range rest {
		if err := h.take(from, id, final); err != nil {
			return fmt.Errorf("batch %s: %w", h.b.ID.Short(), err)
		}
	}
	return nil
}

// take takes one job, if it is there.
func (h *handle) take(from string, id job.ID, final bool) error {
	to := filepath.Join(h.d.Out(), string(id))
	outcome, err := hostile.ReadFile(from, filepath.Join(string(id), kept.Outcome), job.MaxOutcome)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = copyOut(from, filepath.Join(string(id), kept.Predictions), filepath.Join(to, kept.Predictions))
		if local, ok := errors.AsType[kept.LocalError](err); ok {
			return local.Err
		}
	}
	if err != nil {
		if !final {
			return nil
		}
		outcome, err = kept.Refused(id, err)
		if err != nil {
			return err
		}
	}
	return atomicfile.WriteBytes(filepath.Join(to, kept.Outcome), outcome)
}

// copyOut copies a file that may be missing out of the volume.
func copyOut(from, name, to string) error {
	f, err := hostile.Open(from, name, job.MaxPredictions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return kept.Take(f, to)
}
