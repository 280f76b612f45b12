// Package runner sees planned jobs through to recorded scores: it makes the
// batches, hands them to an executor, takes in what came out, scores it and
// appends the record. It does not know how anything is trained.
package runner

import (
	"context"
	"errors"
	"time"

	"bench/runner/job"
)

// Executor starts batches somewhere. An error means that it could not be told
// what happens; a training that failed is not an error.
type Executor interface {
	// Start launches the batch whose in/ folder is ready in d. It is
	// idempotent on b.ID: a batch that runs already is attached to.
	Start(ctx context.Context, b job.Batch, d job.Dir) (Handle, error)
	// Attach finds a batch that an earlier process started. It returns an
	// error that wraps ErrNotFound when nothing runs, or ran unnoticed, under
	// b.ID.
	Attach(ctx context.Context, b job.Batch, d job.Dir) (Handle, error)
}

// Placer is an Executor that spreads batches over places that may come and go.
type Placer interface {
	// Room returns how many batches can run at a time, as of now.
	Room() int
	// Near says whether a place with room for a batch has the files of this
	// model, ID@revision.
	Near(model string) bool
}

// Local is an Executor whose batches end when this machine loses its power, so
// that nothing needs to find them afterwards.
type Local interface{ DiesWithThisMachine() }

// Handle is a started batch. It outlives the process that started it if the
// executor can do that.
type Handle interface {
	// Wait blocks until the program of the batch has ended and its log and its
	// out folder are complete in the batch's Dir. Cancelling ctx ends the
	// waiting, not the batch. Jobs that finish earlier appear in Dir.Out as
	// they finish.
	Wait(ctx context.Context) (job.Exit, error)
	// Stop ends the batch. Stopping an ended one is not an error.
	Stop(ctx context.Context) error
	// Where describes the place for records: host, device, image. Its host may
	// be a whole cluster at first, and change once, before any job appears in
	// Dir.Out.
	Where() Where
}

// Where says where a batch ran.
type Where struct {
	Executor string   `json:"executor"`        // baseline, process, docker
	Host     string   `json:"host"`            // as the user or the engine calls it
	Image    string   `json:"image,omitempty"` // digest of the container's image
	GPUs     []string `json:"gpus,omitempty"`  // UUIDs given to it; empty: CPU
	// GPUShare is which part of each of them it was given; 0: all.
	GPUShare float64 `json:"gpu_share,omitempty"`
}

// Limits bound one batch.
type Limits struct {
	CPUs        float64       // 0: what the host has
	MemoryBytes int64         // 0: executor's default
	Time        time.Duration // 0: none
	GPU         string        // auto, none
}

// ErrNotFound says that an executor knows nothing of a batch.
var ErrNotFound = errors.New("batch is not running")

// BusyError says that a place is in use by others for now. Another one may be
// free, and this one later.
type BusyError struct{ What string }

func (e *BusyError) Error() string { return e.What }

// PreconditionError says that the executor cannot run anything here, and what
// the user can do about it. Command exit code 4.
type PreconditionError struct {
	What string // one sentence
	Hint string // a command or an action
	Err  error  // cause; may be nil
}

func (e *PreconditionError) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

func (e *PreconditionError) Unwrap() error { return e.Err }
