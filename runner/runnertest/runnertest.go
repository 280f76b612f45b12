// Package runnertest holds what every executor is tested with: the contract of
// runner.Executor as a suite of tests, and batches for a stub trainer.
package runnertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bench/internal/atomicfile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/runnertest/stub"
)

// Factory makes what the suite needs of one executor.
type Factory struct {
	// Open returns a new executor. The suite calls it again to play a bench
	// that died and was started anew: the values must share nothing in memory.
	Open func(t *testing.T) runner.Executor
	// Prepare fills the in folder of d with a batch of that many jobs that
	// behaves as s says. A reason other than "" says that the executor cannot
	// make such a batch; the case is skipped. WriteBatch is a Prepare for
	// executors that run package stub.
	Prepare func(t *testing.T, d job.Dir, jobs int, s stub.Script) (b job.Batch, reason string)
	// Outlives: a batch goes on when its executor is forgotten, and another
	// executor value can attach to it.
	Outlives bool
	// Dir makes the folder of a batch; base is a name that must be part of
	// its path. Nil: a folder of t.TempDir.
	Dir func(t *testing.T, base string) job.Dir
	// Only names the cases to run; nil: all.
	Only []string
	// Timeout bounds one case; 0: a minute.
	Timeout time.Duration
	// Latency is how late results may show themselves, beyond a second. Batches
	// that are to be met at work take that much longer.
	Latency time.Duration
}

// WriteBatch writes in/batch.json and in/script.json of d: a batch with that
// many jobs, and ids that no other call makes.
func WriteBatch(t testing.TB, d job.Dir, jobs int, s stub.Script) job.Batch {
	t.Helper()
	b := job.Batch{
		Version:         job.ProtocolVersion,
		Model:           job.Model{ID: "stub"},
		Hyperparameters: job.Protocols()[0].Hyperparameters,
		Datasets: []job.Dataset{{Name: "none", Task: "acceptability", Head: "sequence-classification",
			Labels: []string{"incorrect", "correct"}, Languages: []string{"da"}, Dir: "data/none"}},
		Device: "cpu", Threads: 1,
	}
	var ids []job.ID
	for i := range jobs {
		sum := sha256.Sum256([]byte(rand.Text()))
		id := job.ID(hex.EncodeToString(sum[:]))
		ids = append(ids, id)
		b.Jobs = append(b.Jobs, job.Job{ID: id, Dataset: "none", Seed: job.FirstSeed + i})
	}
	b.ID = job.BatchID(ids)
	writeJSON(t, filepath.Join(d.In(), "batch.json"), b)
	writeJSON(t, filepath.Join(d.In(), stub.ScriptFile), s)
	if err := os.MkdirAll(filepath.Join(d.In(), "data", "none"), 0o777); err != nil {
		t.Fatal(err)
	}
	return b
}

func writeJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = atomicfile.WriteBytes(path, b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestExecutor runs the suite.
func TestExecutor(t *testing.T, f Factory) {
	if f.Timeout == 0 {
		f.Timeout = time.Minute
	}
	for _, c := range cases {
		if f.Only != nil && !slices.Contains(f.Only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if c.outlives && !f.Outlives {
				t.Skip("batches of this executor end with the process")
			}
			ctx, cancel := context.WithTimeout(t.Context(), f.Timeout)
			defer cancel()
			c.run(&run{T: t, f: f, ctx: ctx})
		})
	}
}

var cases = []struct {
	name     string
	outlives bool // needs Factory.Outlives
	run      func(*run)
}{
	{"ends well", false, endsWell},
	{"start is idempotent", false, startTwice},
	{"start again after the end", false, startAfterEnd},
	{"unknown batch", false, unknownBatch},
	{"attach within the process", false, attachSame},
	{"attach after bench died", true, attachOther},
	{"attach to a batch that ended unnoticed", true, attachEnded},
	{"stop twice", false, stopTwice},
	{"stop a deaf trainer", false, stopDeaf},
	{"stop from another bench", true, stopOther},
	{"cancelled wait", false, cancelledWait},
	{"two waits", false, twoWaits},
	{"exit codes", false, exitCodes},
	{"exit code after attach", true, exitCodeAfterAttach},
	{"signals", false, signals},
	{"end of the log", false, endOfLog},
	{"results appear early", false, resultsEarly},
	{"finished jobs are not done again", false, notAgain},
	{"two batches at once", false, twoBatches},
	{"unicode and blanks in paths", false, oddPaths},
}

// run is one case under test.
type run struct {
	*testing.T
	f   Factory
	ctx context.Context
}

func (r *run) dir(base string) job.Dir {
	r.Helper()
	if r.f.Dir != nil {
		return r.f.Dir(r.T, base)
	}
	d := job.Dir(filepath.Join(r.TempDir(), base))
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		r.Fatal(err)
	}
	return d
}

// batch makes a batch, or skips the case.
func (r *run) batch(d job.Dir, jobs int, s stub.Script) job.Batch {
	r.Helper()
	b, reason := r.f.Prepare(r.T, d, jobs, s)
	if reason != "" {
		r.Skip(reason)
	}
	return b
}

// start starts b and sees to it that nothing is left of it after the case.
func (r *run) start(e runner.Executor, b job.Batch, d job.Dir) runner.Handle {
	r.Helper()
	h, err := e.Start(r.ctx, b, d)
	if err != nil {
		r.Fatalf("Start: %v", err)
	}
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := h.Stop(ctx); err != nil {
			r.Errorf("Stop at the end of the case: %v", err)
		}
		if _, err := h.Wait(ctx); err != nil {
			r.Errorf("Wait at the end of the case: %v", err)
		}
	})
	return h
}

func (r *run) attach(e runner.Executor, b job.Batch, d job.Dir) runner.Handle {
	r.Helper()
	h, err := e.Attach(r.ctx, b, d)
	if err != nil {
		r.Fatalf("Attach: %v", err)
	}
	return h
}

func (r *run) wait(h runner.Handle) job.Exit {
	r.Helper()
	x, err := h.Wait(r.ctx)
	if err != nil {
		r.Fatalf("Wait: %v", err)
	}
	return x
}

func (r *run) stop(h runner.Handle) {
	r.Helper()
	if err := h.Stop(r.ctx); err != nil {
		r.Fatalf("Stop: %v", err)
	}
}

// want compares exits in what is the same everywhere.
func (r *run) want(got job.Exit, code, signal int) {
	r.Helper()
	if got.Code != code || got.Signal != signal || got.Stopped || got.TimedOut || got.OOMKilled {
		r.Errorf("exit is %+v, want code %d, signal %d and nothing else", got, code, signal)
	}
}

func outcomePath(d job.Dir, j job.Job) string {
	return filepath.Join(d.Out(), string(j.ID), "outcome.json")
}

func done(d job.Dir, j job.Job) bool {
	_, err := os.Stat(outcomePath(d, j))
	return err == nil
}

// appears waits for the outcome of j.
func (r *run) appears(d job.Dir, j job.Job) {
	r.Helper()
	for !done(d, j) {
		select {
		case <-r.ctx.Done():
			r.Fatalf("no outcome of job %s: %v; log: %s", j.ID.Short(), r.ctx.Err(), r.log(d))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// complete checks that every job of b has its outcome and predictions.
func (r *run) complete(b job.Batch, d job.Dir) {
	r.Helper()
	for _, j := range b.Jobs {
		for _, name := range []string{"outcome.json", "predictions.jsonl"} {
			if fi, err := os.Stat(filepath.Join(d.Out(), string(j.ID), name)); err != nil || fi.Size() == 0 {
				r.Errorf("job %s has no %s: %v", j.ID.Short(), name, err)
			}
		}
	}
}

func (r *run) log(d job.Dir) string {
	r.Helper()
	b, err := os.ReadFile(d.Log())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Fatal(err)
	}
	return string(b)
}

// starts counts the start events of each job.
func (r *run) starts(d job.Dir) map[job.ID]int {
	r.Helper()
	b, err := os.ReadFile(d.Events())
	if err != nil {
		r.Fatal(err)
	}
	n := map[job.ID]int{}
	for line := range bytes.Lines(b) {
		var e struct {
			Event string `json:"event"`
			Job   job.ID `json:"job"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			r.Fatalf("event %q: %v", strings.TrimSpace(string(line)), err)
		}
		if e.Event == "start" {
			n[e.Job]++
		}
	}
	return n
}
