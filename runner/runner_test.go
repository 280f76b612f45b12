package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/datasets"
	"bench/runner/job"
	"bench/scoring/results"
	"bench/tasks/all"
)

// scripted is an executor whose batches do what a test says. It keeps batches
// alive across Runners, as a container engine does.
type scripted struct {
	mu      sync.Mutex
	act     func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error)
	refuse  error // returned by Start
	blind   int   // so many times, Attach finds nothing
	running map[job.ID]*scriptedHandle
	started []job.ID // jobs, in the order of their batches' starts
	gpus    []string // given to each batch
}

type scriptedHandle struct {
	done chan struct{}
	exit job.Exit
	err  error
	gpus []string
}

func (s *scripted) Start(_ context.Context, b job.Batch, d job.Dir) (Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	if s.running == nil {
		s.running = map[job.ID]*scriptedHandle{}
	}
	h := &scriptedHandle{done: make(chan struct{}), gpus: s.gpus}
	s.running[b.ID] = h
	for _, j := range b.Jobs {
		s.started = append(s.started, j.ID)
	}
	go func() {
		h.exit, h.err = s.act(s, b, d)
		close(h.done)
	}()
	return h, nil
}

func (s *scripted) Attach(_ context.Context, b job.Batch, _ job.Dir) (Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind > 0 {
		s.blind--
		return nil, ErrNotFound
	}
	if h, ok := s.running[b.ID]; ok {
		return h, nil
	}
	return nil, ErrNotFound
}

func (h *scriptedHandle) Wait(ctx context.Context) (job.Exit, error) {
	select {
	case <-h.done:
		return h.exit, h.err
	case <-ctx.Done():
		return job.Exit{}, ctx.Err()
	}
}

func (h *scriptedHandle) Stop(context.Context) error { return nil }
func (h *scriptedHandle) Where() Where {
	return Where{Executor: "scripted", Host: "here", GPUs: h.gpus}
}

// say appends an event, as a trainer does on stdout.
func say(d job.Dir, event string, id job.ID) {
	f, err := os.OpenFile(d.Events(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, "{\"event\":%q,\"job\":%q}\n", event, id)
}

// finish writes what a trainer writes for one job. Every prediction is "positive".
func finish(d job.Dir, j job.Job, o job.TrainerOutcome) {
	b, err := os.ReadFile(filepath.Join(d.In(), "data", j.Dataset, "test.jsonl"))
	if err != nil {
		panic(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		var row struct {
			ID    string
			Label *string
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			panic(err)
		}
		if row.Label != nil {
			panic("a test row shows its gold label to the trainer")
		}
		fmt.Fprintf(&out, "{\"id\":%q,\"label\":\"positive\",\"scores\":{\"negative\":0,\"neutral\":0,\"positive\":1}}\n", row.ID)
	}
	put(d, j.ID, "predictions.jsonl", out.String())
	o.Version, o.Job = job.ProtocolVersion, j.ID
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	put(d, j.ID, "outcome.json", string(text))
}

func put(d job.Dir, id job.ID, name, text string) {
	dir := filepath.Join(d.Out(), string(id))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".part"), []byte(text), 0o666); err != nil {
		panic(err)
	}
	if err := os.Rename(filepath.Join(dir, name+".part"), filepath.Join(dir, name)); err != nil {
		panic(err)
	}
}

// succeed finishes all jobs of a batch.
func succeed(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
	for _, j := range b.Jobs {
		say(d, "start", j.ID)
		finish(d, j, job.TrainerOutcome{State: job.OK, Steps: 3})
	}
	return job.Exit{}, nil
}

// bench is one test's world.
type world struct {
	t    *testing.T
	home string
	exec *scripted
	sets []*datasets.Dataset
	mu   sync.Mutex
	seen []Event
}

func newWorld(t *testing.T, act func(*scripted, job.Batch, job.Dir) (job.Exit, error)) *world {
	w := &world{t: t, home: t.TempDir(), exec: &scripted{act: act}}
	for _, name := range []string{"one", "two"} {
		var rows []datasets.Row
		for i := range 12 {
			rows = append(rows, datasets.Row{ID: fmt.Sprint(i), Text: fmt.Sprintf("sætning %d", i), Label: []string{"positive", "negative", "neutral"}[i%3]})
		}
		d, err := datasets.Write(filepath.Join(w.home, "datasets", name), datasets.Meta{Name: name, Kind: datasets.Sentiment, Languages: []string{"da"}},
			map[datasets.Split][]datasets.Row{datasets.Train: rows, datasets.Val: rows, datasets.Test: rows})
		if err != nil {
			t.Fatal(err)
		}
		w.sets = append(w.sets, d)
	}
	return w
}

func (w *world) request(seeds int) Request {
	p, err := job.NewProtocol("paper", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return Request{Models: []*Model{{ID: "m", Revision: "r", Kind: "local", Trainer: "t", Executor: "scripted"}}, Datasets: w.sets, Protocol: p, Seeds: seeds}
}

func (w *world) run(ctx context.Context, req Request) (Report, error) {
	r := &Runner{
		Home: w.home, Version: "test", Tasks: all.Lookup, Slots: 2, Results: results.Open(w.home),
		Executor: func(string) (Executor, error) { return w.exec, nil },
		OnEvent: func(e Event) {
			w.mu.Lock()
			w.seen = append(w.seen, e)
			w.mu.Unlock()
		},
	}
	return r.Run(ctx, req)
}

func (w *world) must(req Request) Report {
	w.t.Helper()
	rep, err := w.run(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return rep
}

// noBatchesLeft checks that every batch's folder is gone.
func (w *world) noBatchesLeft() {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.home, "batches"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			w.t.Errorf("batch folder %s is left", e.Name())
		}
	}
}

func (w *world) logLines() int {
	b, err := os.ReadFile(results.Open(w.home).Path())
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

func TestRunRecordsAndThenDoesNothing(t *testing.T) {
	w := newWorld(t, succeed)
	rep := w.must(w.request(3))
	if rep.Total != 6 || rep.Ran != 6 || rep.Cached != 0 || rep.Failed != 0 || len(rep.Records) != 2 {
		t.Fatalf("%+v", rep)
	}
	if len(w.exec.running) != 3 {
		t.Errorf("%d batches, want one for each seed", len(w.exec.running))
	}
	w.noBatchesLeft()
	again := w.must(w.request(3))
	if again.Ran != 0 || again.Cached != 6 || len(again.Records) != 2 || len(w.exec.started) != 6 {
		t.Errorf("the second run: %+v", again)
	}
	if n := w.logLines(); n != 2 {
		t.Errorf("%d records in the log, want 2", n)
	}
	// Fewer seeds are covered by the record there is; more run what is missing.
	if few := w.must(w.request(2)); few.Ran != 0 || w.logLines() != 2 {
		t.Errorf("two seeds after three: %+v", few)
	}
	if more := w.must(w.request(5)); more.Ran != 4 || more.Cached != 6 || len(more.Records[0].Replicates) != 5 {
		t.Errorf("five seeds after three: %+v", more)
	}
}

// Predictions that a disk has spoilt are named, with the way out, which works.
func TestSpoiltPredictionsAreNamed(t *testing.T) {
	w := newWorld(t, succeed)
	w.must(w.request(2))
	id := w.exec.started[0]
	dir := job.Store{Home: w.home}.Dir(id)
	if err := os.WriteFile(filepath.Join(dir, "predictions.jsonl.zst"), []byte("no zstd"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(results.Open(w.home).Path()); err != nil { // so that they are needed
		t.Fatal(err)
	}
	_, err := w.run(t.Context(), w.request(2))
	var p *PreconditionError
	if !errors.As(err, &p) || !strings.Contains(p.Hint, "rm -r "+dir) || !strings.Contains(p.What, "m on one, seed 4242") {
		t.Fatalf("%v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if rep := w.must(w.request(2)); rep.Ran != 1 || len(rep.Records) != 2 {
		t.Errorf("after following the hint: %+v", rep)
	}
}

func TestOneHyperparameterRunsExactlyWhatItMust(t *testing.T) {
	w := newWorld(t, succeed)
	w.must(w.request(2))
	req := w.request(2)
	var err error
	if req.Protocol, err = job.NewProtocol("paper", []string{"learning_rate=1e-3"}); err != nil {
		t.Fatal(err)
	}
	rep := w.must(req)
	if rep.Ran != 4 || rep.Records[0].Protocol != "paper{learning_rate=0.001}" {
		t.Errorf("%+v", rep)
	}
}

func TestFailedJobsDoNotStopTheOthers(t *testing.T) {
	w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		for _, j := range b.Jobs {
			o := job.TrainerOutcome{State: job.OK}
			if j.Dataset == "one" && j.Seed == job.FirstSeed+1 {
				o = job.TrainerOutcome{State: job.Failed, Failure: job.FailureNaN, Message: "the loss is not finite"}
			}
			finish(d, j, o)
		}
		return job.Exit{}, nil
	})
	rep := w.must(w.request(3))
	if rep.Failed != 1 || rep.Ran != 6 || len(rep.Records) != 2 || len(rep.Failures) != 1 || rep.Failures[0].Outcome.Failure != job.FailureNaN {
		t.Fatalf("%+v", rep)
	}
	if r := rep.Records[0]; len(r.Replicates) != 2 || len(r.Failures) != 1 || r.Failures[0].Seed != job.FirstSeed+1 {
		t.Errorf("record %+v", r)
	}
	// A NaN is the job's own doing: it stands, unless asked for.
	if again := w.must(w.request(3)); again.Ran != 0 || again.Failed != 1 {
		t.Errorf("second run: %+v", again)
	}
	req := w.request(3)
	req.Retry = true
	if again := w.must(req); again.Ran != 1 {
		t.Errorf("with Retry: %+v", again)
	}
}

// A trainer that dies takes one job with it. The finished one is kept, those
// that had not begun get another start.
func TestDeadTrainerCostsOneJob(t *testing.T) {
	for name, c := range map[string]struct {
		exit job.Exit
		want job.Failure
	}{
		"out of memory": {job.Exit{Code: 137, OOMKilled: true}, job.FailureOOM},
		"fault":         {job.Exit{Code: job.ExitTrainer}, job.FailureTrainer},
		"time limit":    {job.Exit{Code: -1, Signal: 9, TimedOut: true}, job.FailureTimeout},
		"silent":        {job.Exit{}, job.FailureTrainer},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
				for _, j := range b.Jobs {
					say(d, "start", j.ID)
					if j.Dataset == "one" && j.Seed == job.FirstSeed+1 {
						return c.exit, nil
					}
					finish(d, j, job.TrainerOutcome{State: job.OK})
				}
				return job.Exit{}, nil
			})
			req := w.request(3)
			req.BatchBy = "model"
			rep := w.must(req)
			if rep.Ran != 6 || rep.Failed != 1 || rep.Failures[0].Outcome.Failure != c.want {
				t.Errorf("%+v", rep)
			}
			if len(w.exec.running) != 2 {
				t.Errorf("%d batches, want the first and one for the rest", len(w.exec.running))
			}
			w.noBatchesLeft()
		})
	}
}

func TestBadInputBlamesTheWholeBatch(t *testing.T) {
	w := newWorld(t, func(*scripted, job.Batch, job.Dir) (job.Exit, error) { return job.Exit{Code: job.ExitInput}, nil })
	rep := w.must(w.request(2))
	if rep.Failed != 4 || len(w.exec.running) != 2 || rep.Failures[0].Outcome.Failure != job.FailureInput {
		t.Errorf("%d batches, %+v", len(w.exec.running), rep)
	}
}

func TestInfraIsTriedThreeTimes(t *testing.T) {
	var mu sync.Mutex
	tries := map[job.ID]int{}
	w := newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		mu.Lock()
		tries[b.Jobs[0].ID]++
		n := tries[b.Jobs[0].ID]
		mu.Unlock()
		if n < 3 {
			return job.Exit{Code: -1, Signal: 9}, nil
		}
		return succeed(s, b, d)
	})
	rep := w.must(w.request(1))
	if rep.Failed != 0 || rep.Records[0].Replicates[0].Attempt != 3 {
		t.Errorf("%+v", rep)
	}

	never := newWorld(t, func(*scripted, job.Batch, job.Dir) (job.Exit, error) {
		return job.Exit{}, errors.New("the engine does not answer")
	})
	rep = never.must(never.request(1))
	if rep.Failed != 2 || rep.Failures[0].Outcome.Failure != job.FailureInfra || len(never.exec.started) != 6 {
		t.Errorf("%d starts, %+v", len(never.exec.started), rep)
	}
	// What lay outside of the job is tried again by the next run.
	never.exec.act = succeed
	if rep = never.must(never.request(1)); rep.Ran != 2 || rep.Failed != 0 {
		t.Errorf("next run: %+v", rep)
	}
}

// A trainer that loses its GPU says so in the outcome of the job at hand and
// asks to be started again: none of its jobs bears that.
func TestLostDeviceIsTriedAgain(t *testing.T) {
	var mu sync.Mutex
	starts := 0
	lose := func(until int) *world {
		starts = 0
		return newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
			mu.Lock()
			starts++
			n := starts
			mu.Unlock()
			if n > until {
				return succeed(s, b, d)
			}
			say(d, "start", b.Jobs[0].ID)
			finish(d, b.Jobs[0], job.TrainerOutcome{State: job.Failed, Failure: job.FailureInfra, Message: "the device does not answer any more", Device: "cuda"})
			return job.Exit{Code: job.ExitAgain}, nil
		})
	}
	w := lose(2)
	rep := w.must(w.request(1))
	if rep.Failed != 0 || len(rep.Records) != 2 || rep.Records[0].Replicates[0].Attempt != 3 || starts != 3 {
		t.Errorf("lost twice: %d starts, %+v", starts, rep)
	}
	said := 0
	for _, e := range w.seen {
		if e.Type == "warning" && strings.Contains(e.Message, "does not answer any more; trying again") {
			said++
		}
	}
	if said != 2 {
		t.Errorf("%d warnings, want 2", said)
	}
	w = lose(1000)
	rep = w.must(w.request(1))
	if rep.Failed != 2 || rep.Failures[0].Outcome.Failure != job.FailureInfra || rep.Failures[0].Outcome.Message != "the device does not answer any more" {
		t.Errorf("lost for good: %d starts, %+v", starts, rep)
	}
	if o := rep.Failures[0].Outcome; o.Energy == nil || o.Energy.Source != job.EnergyEstimate {
		t.Errorf("energy of a job that failed on a GPU: %+v", o.Energy)
	}
	w.noBatchesLeft()
}

func TestBadPredictionsAreAFailure(t *testing.T) {
	for name, spoil := range map[string]func(job.Dir, job.Job){
		"a row is missing": func(d job.Dir, j job.Job) {
			put(d, j.ID, "predictions.jsonl", "{\"id\":\"0\",\"label\":\"positive\"}\n")
		},
		"an unknown label":     func(d job.Dir, j job.Job) { replace(d, j, `"label":"positive"`, `"label":"great"`) },
		"not JSON":             func(d job.Dir, j job.Job) { put(d, j.ID, "predictions.jsonl", "garbage\n") },
		"a link out of OUT":    func(d job.Dir, j job.Job) { link(d, j, "/etc/passwd") },
		"another job's words":  func(d job.Dir, j job.Job) { put(d, j.ID, "outcome.json", `{"protocol":1,"job":"x","state":"ok"}`) },
		"an outcome of itself": func(d job.Dir, j job.Job) { put(d, j.ID, "outcome.json", `{"protocol":1,"state":"splendid"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
				for _, j := range b.Jobs {
					// The spoilt outcome must not be seen whole before it is spoilt.
					hidden := job.Dir(string(d) + "/../.spoil-" + string(j.ID))
					os.MkdirAll(hidden.Out(), 0o777)
					os.Symlink(filepath.Join(string(d), "in"), hidden.In())
					finish(hidden, j, job.TrainerOutcome{State: job.OK})
					if j.Dataset == "two" {
						spoil(hidden, j)
					}
					if err := os.Rename(filepath.Join(hidden.Out(), string(j.ID)), filepath.Join(d.Out(), string(j.ID))); err != nil {
						panic(err)
					}
					os.RemoveAll(string(hidden))
				}
				return job.Exit{}, nil
			})
			rep := w.must(w.request(1))
			if rep.Failed != 1 || rep.Failures[0].Outcome.Failure != job.FailureOutput || rep.Failures[0].Spec.Dataset != "two" {
				t.Errorf("%+v", rep)
			}
		})
	}
}

func replace(d job.Dir, j job.Job, from, to string) {
	path := filepath.Join(d.Out(), string(j.ID), "predictions.jsonl")
	b, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	put(d, j.ID, "predictions.jsonl", strings.Replace(string(b), from, to, 1))
}

func link(d job.Dir, j job.Job, to string) {
	path := filepath.Join(d.Out(), string(j.ID), "predictions.jsonl")
	os.Remove(path)
	if err := os.Symlink(to, path); err != nil {
		panic(err)
	}
}

// Interrupted, a run leaves its batches to run on; the next run attaches to
// them and starts nothing twice.
func TestInterruptedRunIsTakenOver(t *testing.T) {
	gate := make(chan struct{})
	var once sync.Once
	begun := make(chan struct{})
	w := newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		finish(d, b.Jobs[0], job.TrainerOutcome{State: job.OK})
		once.Do(func() { close(begun) })
		<-gate
		return succeed(s, b, d)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		time.Sleep(2 * pollEvery) // the first job is stored while the batch runs
		cancel()
	}()
	rep, err := w.run(ctx, w.request(2))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if rep.Ran == 0 || rep.Ran == 4 {
		t.Errorf("%d jobs ended before the interruption", rep.Ran)
	}
	stored := w.outcomes()
	close(gate)
	rep = w.must(w.request(2))
	after := w.outcomes()
	for path, text := range stored {
		if after[path] != text {
			t.Errorf("%s was written anew:\n%s\nbefore:\n%s", path, after[path], text)
		}
	}
	if n := w.events("job"); n != 4 || len(after) != 4 {
		t.Errorf("%d jobs were reported, %d are stored, of 4", n, len(after))
	}
	if rep.Attached != 2 || rep.Failed != 0 || len(rep.Records) != 2 || len(w.exec.started) != 4 {
		t.Errorf("%d jobs started, %+v", len(w.exec.started), rep)
	}
	w.noBatchesLeft()
}

// outcomes returns the stored outcomes by their paths.
func (w *world) outcomes() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(w.home, "jobs", "*", "*", "outcome.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			w.t.Fatal(err)
		}
		out[p] = string(b)
	}
	return out
}

// events counts the events of a type.
func (w *world) events(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.seen {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// A bench that died while it started a batch may have started it: the next one
// does not take the first "no" for an answer.
func TestBatchThatWasBeingStartedIsLookedFor(t *testing.T) {
	gate := make(chan struct{})
	w := newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		<-gate
		return succeed(s, b, d)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for w.events("start") == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := w.run(ctx, w.request(1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	claims, _, err := homeAt(w.home).scan()
	if err != nil || len(claims) != 1 {
		t.Fatalf("%v, %v", claims, err)
	}
	if err := claims[0].start(time.Now(), Where{}); err != nil { // as if it had died within Start
		t.Fatal(err)
	}
	claims[0].release()
	w.exec.blind = 3
	close(gate)
	if rep := w.must(w.request(1)); rep.Attached != 1 || rep.Failed != 0 || len(w.exec.started) != 2 {
		t.Errorf("%d jobs started, %+v", len(w.exec.started), rep)
	}
}

// A batch that ended unwatched keeps when and where it began.
func TestCollectedOutcomeSaysWhere(t *testing.T) {
	w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		<-t.Context().Done() // killed with its bench
		return job.Exit{}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for w.events("start") == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := w.run(ctx, w.request(1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	claims, _, err := homeAt(w.home).scan()
	if err != nil || len(claims) != 1 {
		t.Fatalf("%v, %v", claims, err)
	}
	finish(claims[0].dir, claims[0].batch.Jobs[0], job.TrainerOutcome{State: job.OK})
	claims[0].release()
	time.Sleep(20 * time.Millisecond)
	w.exec = &scripted{act: succeed}
	if rep := w.must(w.request(1)); rep.Ran != 2 || w.events("job") != 2 {
		t.Errorf("%d events, %+v", w.events("job"), rep)
	}
	o, ok, err := job.Store{Home: w.home}.Outcome(claims[0].batch.Jobs[0].ID)
	if !ok || err != nil || o.Host != "here" || o.Executor != "scripted" || !o.Started.Before(o.Finished) {
		t.Errorf("%+v, %v", o, err)
	}
}

// An executor that cannot be asked about a batch stops the run that needs the
// batch's jobs, and no other one.
func TestUnknowableBatchIsLeftAlone(t *testing.T) {
	w := newWorld(t, succeed)
	other := w.request(1)
	other.Models = []*Model{{ID: "other", Revision: "r", Trainer: "t", Executor: "gone"}}
	gone := errors.New("no engine answers")
	b, specs := aBatch(job.Spec{Model: "m"}.ID())
	r := &Runner{Home: w.home, Tasks: all.Lookup, Results: results.Open(w.home), OnEvent: func(Event) {},
		Executor: func(name string) (Executor, error) {
			if name == "gone" {
				return nil, gone
			}
			return w.exec, nil
		}}
	c, err := homeAt(w.home).create(b, specs, "gone", 1, nothing)
	if err != nil {
		t.Fatal(err)
	}
	c.release()
	if rep, err := r.Run(t.Context(), w.request(1)); err != nil || rep.Ran != 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	if _, err := os.Stat(manifestPath(c.dir)); err != nil {
		t.Errorf("the batch nobody could tell about is gone: %v", err)
	}
	x := &run{Runner: r, req: other, jobs: map[job.ID]*planned{}}
	if err := x.plan(); err != nil {
		t.Fatal(err)
	}
	var mine []job.ID
	for id, p := range x.jobs {
		mine, specs[id] = append(mine, id), p.spec
	}
	b.ID = job.BatchID(mine)
	if c, err = (homeAt(w.home)).create(b, specs, "gone", 1, nothing); err != nil {
		t.Fatal(err)
	}
	c.release()
	if _, err := r.Run(t.Context(), other); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

// A batch whose executor knows it no more is collected: what had finished is
// kept, the rest runs again.
func TestLostBatchIsCollected(t *testing.T) {
	gate := make(chan struct{})
	begun := make(chan struct{})
	var once sync.Once
	w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		finish(d, b.Jobs[0], job.TrainerOutcome{State: job.OK})
		once.Do(func() { close(begun) })
		<-gate
		return job.Exit{}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, err := w.run(ctx, w.request(1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(gate)
	w.exec = &scripted{act: succeed} // the machine was restarted
	rep := w.must(w.request(1))
	if len(w.exec.started) != 1 || rep.Failed != 0 || len(rep.Records) != 2 {
		t.Errorf("%d jobs started, %+v", len(w.exec.started), rep)
	}
}

func TestPreconditionEndsTheRun(t *testing.T) {
	w := newWorld(t, succeed)
	w.exec.refuse = &PreconditionError{What: "no engine", Hint: "start one"}
	_, err := w.run(t.Context(), w.request(2))
	var p *PreconditionError
	if !errors.As(err, &p) {
		t.Fatalf("got %v", err)
	}
	w.noBatchesLeft()
	w.exec.refuse = nil
	if rep := w.must(w.request(2)); rep.Ran != 4 {
		t.Errorf("%+v", rep)
	}
}

func TestModelThatCannotBeHadLeavesTheOthers(t *testing.T) {
	w := newWorld(t, succeed)
	req := w.request(2)
	gated := errors.New("the repository is gated")
	req.Models = append([]*Model{{ID: "gated", Revision: "r", Trainer: "t", Executor: "scripted",
		Snapshot: func(context.Context) (string, error) { return "", gated }}}, req.Models...)
	rep := w.must(req)
	if rep.Failed != 4 || len(rep.ModelErrors) != 1 || !errors.Is(rep.ModelErrors[0], gated) || len(rep.Records) != 2 || !rep.Failures[0].Unstarted {
		t.Errorf("%+v", rep)
	}
	if w.logLines() != 2 {
		t.Error("a model that was never run is in the log")
	}
}

// Two processes on one home share the work: no job runs twice.
func TestTwoRunnersShareAHome(t *testing.T) {
	w := newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		time.Sleep(20 * time.Millisecond)
		return succeed(s, b, d)
	})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			rep, err := w.run(t.Context(), w.request(4))
			if err != nil || rep.Failed != 0 || len(rep.Records) != 2 {
				t.Errorf("%+v, %v", rep, err)
			}
		})
	}
	wg.Wait()
	count := map[job.ID]int{}
	for _, id := range w.exec.started {
		count[id]++
	}
	for id, n := range count {
		if n > 1 {
			t.Errorf("job %s ran %d times", id.Short(), n)
		}
	}
	if len(count) != 8 {
		t.Errorf("%d jobs ran, want 8", len(count))
	}
	w.noBatchesLeft()
}

func TestSweepKeepsWhatFinished(t *testing.T) {
	gate := make(chan struct{})
	begun := make(chan struct{})
	w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		finish(d, b.Jobs[0], job.TrainerOutcome{State: job.OK})
		close(begun)
		<-gate
		return job.Exit{Stopped: true}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, err := w.run(ctx, w.request(1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(gate)
	swept, err := Sweep(t.Context(), w.home, func(string) (Executor, error) { return w.exec, nil })
	if err != nil || swept.Batches != 1 {
		t.Fatalf("%+v, %v", swept, err)
	}
	w.noBatchesLeft()
	w.exec = &scripted{act: succeed}
	if rep := w.must(w.request(1)); rep.Cached != 1 || rep.Ran != 1 {
		t.Errorf("%+v", rep)
	}
}

func TestSampleDrawsOverRowsThatAreNotEmpty(t *testing.T) {
	// numpy.random.default_rng(4242).integers(0, 1024, (10, 1024))[0][:5] → 486 801 876 687 105
	rows := make([]datasets.Row, 1025)
	for i := range rows {
		rows[i] = datasets.Row{ID: fmt.Sprint(i), Text: "x"}
	}
	rows[500].Text = ""
	got := Sample(datasets.Sentiment, rows, 0)
	want := []int{486, 802, 877, 688, 105} // those from 500 on are one further
	for i, w := range want {
		if got[i] != w {
			t.Errorf("draw %d is row %d, want %d", i, got[i], w)
		}
	}
	if len(got) != 1024 {
		t.Errorf("%d draws, want 1024", len(got))
	}
	if Sample(datasets.Speed, rows, 0) != nil {
		t.Error("speed is sampled")
	}
}
