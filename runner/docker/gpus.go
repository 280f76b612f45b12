package docker

import (
	"context"
	"sync"

	"bench/runner"
	"bench/runner/job"
)

// takeGPU gives the batch a GPU if it may have one and the engine has any, and
// waits for one if all are in use.
func (e *executor) takeGPU(ctx context.Context, b job.Batch, image string) ([]string, error) {
	if b.Device == "cpu" || e.o.Limits.GPU == "none" {
		if b.Device == "cuda" {
			return nil, &runner.PreconditionError{What: "the batch asks for a GPU and the limits allow none", Hint: "leave out one of the two"}
		}
		return nil, nil
	}
	all, err := e.engine.GPUs(ctx, image)
	if err != nil {
		return nil, precondition(err, e.o.BuildHint)
	}
	if len(all) == 0 {
		if b.Device == "cuda" {
			return nil, &runner.PreconditionError{What: "the Docker engine on " + e.engine.Info().Name + " has no GPUs for containers",
				Hint: "install NVIDIA's container toolkit there, or leave out --device cuda"}
		}
		return nil, nil
	}
	var uuids []string
	for _, g := range all {
		uuids = append(uuids, g.UUID)
	}
	one, err := e.gpus.take(ctx, uuids)
	if err != nil {
		return nil, err
	}
	return []string{one}, nil
}

// ledger says which GPUs the batches of this executor hold. Docker itself
// gives the same one to any number of containers.
type ledger struct {
	mu    sync.Mutex
	taken map[string]int
	freed chan struct{} // closed when one is freed; nil: nobody waits
}

// take waits until one of uuids is free and takes the first that is.
func (l *ledger) take(ctx context.Context, uuids []string) (string, error) {
	for {
		l.mu.Lock()
		for _, u := range uuids {
			if l.taken[u] == 0 {
				l.taken[u] = 1
				l.mu.Unlock()
				return u, nil
			}
		}
		if l.freed == nil {
			l.freed = make(chan struct{})
		}
		freed := l.freed
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-freed:
		}
	}
}

// note books GPUs that a batch holds already.
func (l *ledger) note(uuids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range uuids {
		l.taken[u]++
	}
}

func (l *ledger) free(uuids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range uuids {
		l.taken[u]--
	}
	if l.freed != nil && len(uuids) > 0 {
		close(l.freed)
		l.freed = nil
	}
}
