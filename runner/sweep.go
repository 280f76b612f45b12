package runner

import (
	"context"
	"errors"
	"fmt"

	"bench/runner/job"
	"bench/scoring/results"
)

// Swept tells what Sweep did.
type Swept struct {
	Batches int // stopped and removed
	Kept    int // jobs of them that had ended, and are stored now
	Busy    int // jobs of batches that a running bench watches over; left alone
}

// Sweep ends all batches of a home that no running bench watches over. What of
// them has finished is stored.
func Sweep(ctx context.Context, path string, executor func(name string) (Executor, error)) (Swept, error) {
	r := &Runner{Home: path, Executor: executor, OnEvent: func(Event) {}}
	x := r.newRun(Request{})
	claims, foreign, err := x.home.scan()
	if err != nil {
		return Swept{}, err
	}
	swept := Swept{Busy: len(foreign)}
	var errs []error
	for _, c := range claims {
		if err := x.stop(ctx, c, &swept); err != nil {
			c.release()
			errs = append(errs, fmt.Errorf("batch %s: %w", c.batch.ID.Short(), err))
		}
	}
	if len(errs) == 0 && swept.Busy == 0 {
		// Inputs are made again when they are needed. A bench that begins just now has all or none.
		gone, err := x.home.setAside(job.Dir(x.home.inputs()))
		errs = append(errs, err, discard(gone, 0), x.store.Clean())
	}
	return swept, errors.Join(errs...)
}

func (x *run) stop(ctx context.Context, c *claim, swept *Swept) error {
	e, err := x.Executor(c.executor)
	if err != nil {
		return err
	}
	h, err := e.Attach(ctx, c.batch, c.dir)
	switch {
	case err == nil:
		if err := h.Stop(ctx); err != nil {
			return err
		}
		if _, err := h.Wait(ctx); err != nil {
			return err
		}
	case !errors.Is(err, ErrNotFound):
		return err
	}
	w := &watch{run: x, claim: c, old: true}
	w.begun, w.where = c.begun()
	if err := w.harvest(func(ended) { swept.Kept++ }); err != nil {
		return err
	}
	if err := results.OpenLosses(x.Home).Append(w.cutOff(lastSign(c), "the batch was ended by bench gc")); err != nil {
		return err
	}
	swept.Batches++
	return c.drop()
}
