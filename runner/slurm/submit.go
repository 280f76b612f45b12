package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// enter hands in the batch as a task of a job array.
func (h *handle) enter(ctx context.Context, options []string, held *os.File) (string, error) {
	folder, _ := h.at.site.folder(h)
	a, index := h.at.arrays.join(options, folder, held, func(ctx context.Context, a *array) (string, error) {
		o := order{name: a.name, options: append(slices.Clone(options), fmt.Sprintf("--array=0-%d", len(a.folders)-1)), script: a.script(), tasks: len(a.folders)}
		return h.e.submit(ctx, h.at, o, a.held...)
	})
	h.r.Array, h.r.Task = a.name, index
	err := h.save()
	a.saving.Done()
	id, waitErr := a.wait(ctx, index)
	return id, errors.Join(err, waitErr)
}

// submit hands in a job, and tries again while Slurm cannot be reached. Slurm
// may have taken a job although sbatch failed: it is looked for first.
func (e *Executor) submit(ctx context.Context, at *station, o order, held ...*os.File) (string, error) {
	end := time.Now().Add(e.o.Patience)
	poll := e.o.Poll
	o.options = append(o.options, "--job-name="+o.name)
	for pause, said, unknown := poll/4, false, false; ; pause = min(2*pause, 4*poll) {
		var err error
		if !unknown {
			var text string
			if text, err = at.site.submit(ctx, o, held); err == nil {
				return jobID(text)
			}
			if ctx.Err() == nil && !transient(err) {
				return "", at.precondition(err)
			}
		}
		// Also when the context has ended: this one must not be forgotten.
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		ids, lookErr := at.site.find(look, o)
		cancel()
		unknown = lookErr != nil
		switch {
		case lookErr == nil && len(ids) > 0:
			return ids[0], nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case time.Now().After(end):
			return "", at.precondition(errors.Join(err, lookErr))
		}
		if why := cmp.Or(err, lookErr); !said && why != nil {
			e.o.Notice(fmt.Sprintf("a batch cannot be submitted now (%v); trying again for %v", why, e.o.Patience))
			said = true
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// waitLock takes the lock that is the file at path. It is handed on to sbatch,
// and goes with the last process that has it.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		switch err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil, errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK): // a file system without locks
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
