package baseline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"bench/datasets"
	"bench/internal/atomicfile"
	"bench/runner/job"
)

// errStopped is the cause with which Handle.Stop cancels the work.
var errStopped = errors.New("stopped")

// unsupportedError says that a baseline cannot do a task.
type unsupportedError struct{ what string }

func (e *unsupportedError) Error() string { return e.what }

// inputError says that rows cannot be used.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// nanError says that a loss is no number.
type nanError struct{ what string }

func (e *nanError) Error() string { return e.what }

// trainer runs one batch, as a trainer of the protocol would.
type trainer struct {
	dir        job.Dir
	algorithms []algorithm
	log        *os.File

	mu     sync.Mutex // guards events, data and code
	events *os.File
	data   map[string]*rows
	code   int
}

// rows are the splits of one data set, read once for all jobs of a batch.
type rows struct {
	once   sync.Once
	splits map[datasets.Split][]datasets.Row
	err    error
}

func open(d job.Dir, algorithms []algorithm) (*trainer, error) {
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		return nil, err
	}
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE
	log, err := os.OpenFile(d.Log(), flags, 0o644)
	if err != nil {
		return nil, err
	}
	events, err := os.OpenFile(d.Events(), flags, 0o644)
	if err != nil {
		log.Close()
		return nil, err
	}
	return &trainer{dir: d, algorithms: algorithms, log: log, events: events, data: map[string]*rows{}}, nil
}

// run does all jobs of the batch that are not done yet, as many at a time as
// there are threads, and says how it ended.
func (t *trainer) run(ctx context.Context) job.Exit {
	defer t.log.Close()
	defer t.events.Close()
	b, err := readBatch(filepath.Join(t.dir.In(), "batch.json"))
	var a algorithm
	if err == nil {
		a, err = find(t.algorithms, b.Model.ID)
	}
	if err != nil {
		t.logf("bad input: %v", err)
		return job.Exit{Code: job.ExitInput, Detail: err.Error()}
	}
	workers := runtime.GOMAXPROCS(0)
	if b.Threads > 0 {
		workers = min(workers, b.Threads)
	}
	queue := make(chan job.Job)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for j := range queue {
				t.job(ctx, a, b, j)
			}
		})
	}
feed:
	for _, j := range b.Jobs {
		select {
		case queue <- j:
		case <-ctx.Done():
			break feed
		}
	}
	close(queue)
	wg.Wait()
	if ctx.Err() != nil {
		t.logf("stopped")
		return job.Exit{Code: -1, Stopped: true, Detail: "stopped"}
	}
	return job.Exit{Code: t.code}
}

func readBatch(path string) (job.Batch, error) {
	var b job.Batch
	text, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return b, fmt.Errorf("%s: %w", path, err)
	}
	if b.Version != job.ProtocolVersion {
		return b, fmt.Errorf("%s: protocol %d, this trainer knows %d", path, b.Version, job.ProtocolVersion)
	}
	for _, j := range b.Jobs {
		if j.ID == "" || filepath.Base(string(j.ID)) != string(j.ID) {
			return b, fmt.Errorf("%s: job id %q", path, j.ID)
		}
		if !slices.ContainsFunc(b.Datasets, func(d job.Dataset) bool { return d.Name == j.Dataset }) {
			return b, fmt.Errorf("%s: job %s is on data set %q, which is not in the batch", path, j.ID.Short(), j.Dataset)
		}
	}
	return b, nil
}

// job does one job and writes its outcome, unless the work is stopped.
func (t *trainer) job(ctx context.Context, a algorithm, b job.Batch, j job.Job) {
	dir := filepath.Join(t.dir.Out(), string(j.ID))
	if _, err := os.Stat(filepath.Join(dir, "outcome.json")); err == nil {
		t.logf("job %s is done already", j.ID.Short())
		return
	}
	if ctx.Err() != nil {
		return
	}
	set := b.Datasets[slices.IndexFunc(b.Datasets, func(d job.Dataset) bool { return d.Name == j.Dataset })]
	t.logf("job %s: %s on %s, seed %d", j.ID.Short(), b.Model.ID, set.Name, j.Seed)
	t.emit("start", map[string]any{"job": j.ID, "dataset": j.Dataset, "seed": j.Seed})

	o := job.TrainerOutcome{
		Version: job.ProtocolVersion, Job: j.ID, State: job.OK, ValidationLosses: [][2]float64{},
		MicroBatch: 1, Accumulation: 1, Precision: "fp32", Seconds: map[string]float64{}, PeakMemoryMB: map[string]float64{},
		Device: "cpu", DeviceName: runtime.GOARCH, Threads: 1,
		Versions: map[string]string{"go": runtime.Version(), a.name: fmt.Sprint(a.version)},
	}
	r, err := t.solve(ctx, a, set, j, &o)
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, "predictions.jsonl"), r.write)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		o.State, o.Message = job.Failed, fmt.Sprintf("%s on %s, seed %d: %v", b.Model.ID, set.Name, j.Seed, err)
		o.Failure = failure(err)
		t.logf("job %s failed (%s): %s", j.ID.Short(), o.Failure, o.Message)
		if o.Failure == job.FailureTrainer {
			t.exitWith(job.ExitTrainer)
		}
	}
	text, err := json.MarshalIndent(o, "", "  ")
	if err == nil {
		err = atomicfile.WriteBytes(filepath.Join(dir, "outcome.json"), append(text, '\n'))
	}
	if err != nil { // no outcome, so the job is not done: it may be tried again
		t.logf("job %s: its outcome cannot be written: %v", j.ID.Short(), err)
		t.exitWith(job.ExitAgain)
		return
	}
	t.emit("job-done", map[string]any{"job": j.ID, "state": o.State, "failure": o.Failure})
}

// failure tells the kind of a failure by the error's type.
func failure(err error) job.Failure {
	if _, ok := errors.AsType[*unsupportedError](err); ok {
		return job.FailureUnsupported
	}
	if _, ok := errors.AsType[*inputError](err); ok {
		return job.FailureInput
	}
	if _, ok := errors.AsType[*nanError](err); ok {
		return job.FailureNaN
	}
	if _, ok := errors.AsType[*os.PathError](err); ok { // of writing: disk full, folder gone
		return job.FailureInfra
	}
	if _, ok := errors.AsType[*os.LinkError](err); ok {
		return job.FailureInfra
	}
	return job.FailureTrainer
}

// solve reads the rows, trains and predicts. A panic becomes an error.
func (t *trainer) solve(ctx context.Context, a algorithm, set job.Dataset, j job.Job, o *job.TrainerOutcome) (r *result, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.logf("panic: %v\n%s", p, debug.Stack())
			err = fmt.Errorf("fault in baseline %s: %v", a.name, p)
		}
	}()
	begun := time.Now()
	data, err := t.read(set)
	if err != nil {
		return nil, err
	}
	o.Seconds["load"] = time.Since(begun).Seconds()
	p := &problem{
		head: set.Head, labels: set.Labels, seed: j.Seed, batch: t,
		train: data[datasets.Train], val: data[datasets.Val], test: data[datasets.Test],
		outcome: o, phase: time.Now(),
	}
	r, err = a.run(ctx, p)
	if err != nil {
		return nil, err
	}
	p.endPhase("predict")
	return r, nil
}

// read reads the rows of a data set, once for all jobs.
func (t *trainer) read(set job.Dataset) (map[datasets.Split][]datasets.Row, error) {
	t.mu.Lock()
	r, ok := t.data[set.Name]
	if !ok {
		r = &rows{}
		t.data[set.Name] = r
	}
	t.mu.Unlock()
	r.once.Do(func() {
		r.splits = map[datasets.Split][]datasets.Row{}
		for _, s := range datasets.Splits {
			path := filepath.Join(t.dir.In(), filepath.FromSlash(set.Dir), string(s)+".jsonl")
			f, err := os.Open(path)
			if err != nil {
				r.err = &inputError{err}
				return
			}
			got, err := datasets.ReadRows(f, path, datasets.Kind(set.Task))
			f.Close()
			if err != nil {
				r.err = &inputError{err}
				return
			}
			if len(got) == 0 && s == datasets.Train {
				r.err = &inputError{fmt.Errorf("%s: no rows to train on", path)}
				return
			}
			r.splits[s] = got
		}
	})
	return r.splits, r.err
}

func (t *trainer) exitWith(code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.code = max(t.code, code)
}

// emit writes one event. Events are for those who watch; an event that cannot
// be written changes nothing.
func (t *trainer) emit(event string, fields map[string]any) {
	fields["event"] = event
	line, err := json.Marshal(fields)
	if err != nil {
		t.logf("event %s: %v", event, err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events.Write(append(line, '\n'))
}

func (t *trainer) logf(format string, args ...any) {
	fmt.Fprintf(t.log, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
