package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bench/scoring/results"
)

// takeOver collects what a batch of an earlier bench has finished and attaches
// to it if it still runs. A nil handle means that it has ended; its folder is
// gone then. One that cannot be told about is an error if this run needs its
// jobs, and left alone if not.
func (x *run) takeOver(ctx context.Context, c *claim) (Handle, error) {
	e, err := x.Executor(c.executor)
	if err == nil {
		var h Handle
		if h, err = attach(ctx, e, c); err == nil {
			where := h.Where()
			x.emit(Event{Type: "attach", Batch: c.batch.ID, Model: c.batch.Model.ID, Attempt: c.attempt, Where: &where, Total: len(c.batch.Jobs), Message: "goes on since an earlier bench"})
			return h, nil
		}
	}
	if !errors.Is(err, ErrNotFound) {
		// Not knowing whether it runs, neither start it again nor throw it away.
		c.release()
		err = fmt.Errorf("batch %s of an earlier run: %w", c.batch.ID.Short(), err)
		for id := range c.specs {
			if x.jobs[id] != nil {
				return nil, err
			}
		}
		x.emit(Event{Type: "warning", Batch: c.batch.ID, Model: c.batch.Model.ID, Message: err.Error() + "; it is left as it is"})
		return nil, nil
	}
	w := &watch{run: x, claim: c, old: true}
	w.begun, w.where = c.begun()
	err = w.harvest(func(e ended) {
		if !x.again(e.outcome) {
			e.batch = c.batch.ID
			x.book(e)
		}
	})
	if err == nil {
		lost := append(w.replacing, w.cutOff(lastSign(c), "the batch had ended when it was looked for")...)
		if err = results.OpenLosses(x.Home).Append(lost); err == nil {
			x.lose(lost, true)
		}
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return nil, c.drop()
}

// startGrace is how long a batch that an earlier bench was starting when it died
// is looked for: what it started may not have shown itself yet.
const startGrace = 2 * time.Second

func attach(ctx context.Context, e Executor, c *claim) (Handle, error) {
	at, where := c.begun()
	starting := !at.IsZero() && where.Executor == ""
	for end := time.Now().Add(startGrace); ; {
		h, err := e.Attach(ctx, c.batch, c.dir)
		if !errors.Is(err, ErrNotFound) || !starting || time.Now().After(end) {
			return h, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
