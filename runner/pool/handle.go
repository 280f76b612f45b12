package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"bench/runner"
	"bench/runner/job"
)

// handle gives the slot back when the batch has ended.
type handle struct {
	runner.Handle
	p    *Pool
	h    *host
	d    job.Dir
	once sync.Once
}

// Wait implements runner.Handle. When it could not be told how the batch ended,
// the host is left alone for a while.
func (x *handle) Wait(ctx context.Context) (job.Exit, error) {
	exit, err := x.Handle.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		return exit, err // the batch goes on, and keeps its slot
	}
	x.once.Do(func() {
		if err != nil {
			x.p.failed(x.h, err)
		}
		x.p.release(x.d)
	})
	if err != nil {
		err = fmt.Errorf("host %s: %w", x.h.Name, err)
	}
	return exit, err
}

// away is a batch on a host that does not answer.
type away struct {
	p   *Pool
	h   *host
	b   job.Batch
	d   job.Dir
	why error
}

func (a *away) Where() runner.Where { return runner.Where{Host: a.h.Name} }

// back waits until the host answers, for as long as the pool's patience lasts.
// It returns nil when the host knows nothing of the batch.
func (a *away) back(ctx context.Context) (runner.Handle, error) {
	end := time.Now().Add(a.p.o.Patience)
	for pause := a.p.o.Rest / 10; ; pause = min(2*pause, a.p.o.Rest) {
		e, err := a.p.open(ctx, a.h)
		if err == nil {
			var found runner.Handle
			found, err = e.Attach(ctx, a.b, a.d)
			if err == nil {
				return found, nil
			}
			if errors.Is(err, runner.ErrNotFound) {
				return nil, nil
			}
		}
		a.why = err
		if time.Now().After(end) {
			return nil, fmt.Errorf("it has not answered for %v: %w", a.p.o.Patience, a.why)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (a *away) Wait(ctx context.Context) (job.Exit, error) {
	found, err := a.back(ctx)
	if err != nil {
		return job.Exit{}, err
	}
	if found == nil {
		return job.Exit{}, errors.New("the batch was gone when the host came back")
	}
	return found.Wait(ctx)
}

func (a *away) Stop(ctx context.Context) error {
	found, err := a.back(ctx)
	if err != nil || found == nil {
		return err
	}
	return found.Stop(ctx)
}
