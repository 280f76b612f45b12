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
	image   string   // that batches run in
}

type scriptedHandle struct {
	done chan struct{}
	exit job.Exit
	err  error
	gpus []string
	img  string
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
	h := &scriptedHandle{done: make(chan struct{}), gpus: s.gpus, img: s.image}
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
	return Where{Executor: "scripted", Host: "here", GPUs: h.gpus, Image: h.img}
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

func (w *world) runner() *Runner {
	return &Runner{
		Home: w.home, Version: "test", Tasks: all.Lookup, Slots: 2, Results: results.Open(w.home),
		Executor: func(string) (Executor, error) { return w.exec, nil },
		OnEvent: func(e Event) {
			w.mu.Lock()
			w.seen = append(w.seen, e)
			w.mu.Unlock()
		},
	}
}

func (w *world) run(ctx context.Context, req Request) (Report, error) {
	return w.runner().Run(ctx, req)
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
