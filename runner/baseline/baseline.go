// Package baseline trains small models inside the process of bench, without
// Python, container or network: what any model must beat, and what shows that
// everything around the training works.
//
//   - majority: no learning at all, the best constant answer
//   - ngram: logistic regression over hashed n-grams, for every task
//   - tagger: averaged structured perceptron with Viterbi decoding, for NER
//   - window: windows of the context by TF-IDF, then ranked spans, for QA
//
// It keeps to the trainer protocol (docs/trainer-protocol.md): a batch's in
// folder is read, and its out folder, log and events are written as by any
// other trainer. The same seed gives the same bytes of predictions, whatever
// else is in the batch and however many threads there are.
package baseline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"

	"bench/runner"
	"bench/runner/job"
)

// Prefix is what ids of baseline models begin with.
const Prefix = "baseline:"

// algorithm is one kind of baseline.
type algorithm struct {
	name string
	// version is part of every job id: raise it whenever predictions change.
	version int
	run     func(context.Context, *problem) (*result, error)
}

func builtin() []algorithm {
	return []algorithm{
		{"majority", 1, majority},
		{"ngram", 1, ngram},
		{"tagger", 1, tagger},
		{"window", 1, window},
	}
}

// Names lists the baselines, without the prefix.
func Names() []string {
	var names []string
	for _, a := range builtin() {
		names = append(names, a.name)
	}
	return names
}

// Digest names the algorithm behind a baseline and its version, for job ids.
// name is one of Names; Digest panics otherwise.
func Digest(name string) string {
	for _, a := range builtin() {
		if a.name == name {
			sum := sha256.Sum256(fmt.Appendf(nil, "bench baseline %s %d", a.name, a.version))
			return hex.EncodeToString(sum[:])
		}
	}
	panic(fmt.Sprintf("baseline: there is no %q", name))
}

// Options configures the executor. The zero value is fine.
type Options struct {
	// Host is what records call this machine; empty: the host name.
	Host string
}

// New returns an executor that runs batches of baselines in this process. They
// end with the process: what is renamed in the out folder counts.
func New(o Options) runner.Executor {
	if o.Host == "" {
		o.Host, _ = os.Hostname()
	}
	if o.Host == "" {
		o.Host = "localhost"
	}
	return &executor{host: o.Host, algorithms: builtin(), running: map[job.ID]*handle{}}
}

type executor struct {
	host       string
	algorithms []algorithm

	mu      sync.Mutex
	running map[job.ID]*handle
}

// Start implements runner.Executor. The batch goes on when ctx ends.
func (e *executor) Start(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if h, ok := e.running[b.ID]; ok {
		return h, nil
	}
	t, err := open(d, e.algorithms)
	if err != nil {
		return nil, fmt.Errorf("baseline: batch %s: %w", b.ID.Short(), err)
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	h := &handle{host: e.host, stop: stop, done: make(chan struct{})}
	e.running[b.ID] = h
	go func() {
		x := t.run(work)
		stop(nil)
		e.mu.Lock()
		delete(e.running, b.ID)
		e.mu.Unlock()
		h.exit = x
		close(h.done)
	}()
	return h, nil
}

// DiesWithThisMachine implements runner.Local.
func (e *executor) DiesWithThisMachine() {}

// Attach implements runner.Executor: it finds what runs in this process.
func (e *executor) Attach(_ context.Context, b job.Batch, _ job.Dir) (runner.Handle, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h, ok := e.running[b.ID]; ok {
		return h, nil
	}
	return nil, fmt.Errorf("baseline: batch %s: %w", b.ID.Short(), runner.ErrNotFound)
}

// handle is a batch that runs or has run.
type handle struct {
	host string
	stop context.CancelCauseFunc
	done chan struct{} // closed when exit is set
	exit job.Exit
}

// Wait implements runner.Handle.
func (h *handle) Wait(ctx context.Context) (job.Exit, error) {
	select {
	case <-h.done:
		return h.exit, nil
	default:
	}
	select {
	case <-h.done:
		return h.exit, nil
	case <-ctx.Done():
		return job.Exit{}, ctx.Err()
	}
}

// Stop implements runner.Handle. It returns when the work has ended.
func (h *handle) Stop(ctx context.Context) error {
	h.stop(errStopped)
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Where implements runner.Handle.
func (h *handle) Where() runner.Where { return runner.Where{Executor: "baseline", Host: h.host} }

// find returns the algorithm behind a model's id.
func find(all []algorithm, id string) (algorithm, error) {
	name, ok := strings.CutPrefix(id, Prefix)
	var names []string
	for _, a := range all {
		if ok && a.name == name {
			return a, nil
		}
		names = append(names, Prefix+a.name)
	}
	return algorithm{}, fmt.Errorf("there is no model %q here; there are %s", id, strings.Join(names, ", "))
}
