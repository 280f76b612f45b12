package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/datasets"
	"bench/runner/job"
	"bench/scoring/results"
)

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
	dir := job.Store{Home: w.home}.Dir(w.exec.started[0])
	var spec job.Spec // of one seed or the other: batches start side by side
	if text, err := os.ReadFile(filepath.Join(dir, "spec.json")); err != nil || json.Unmarshal(text, &spec) != nil {
		t.Fatalf("spec.json: %v: %s", err, text)
	}
	if err := os.WriteFile(filepath.Join(dir, "predictions.jsonl.zst"), []byte("no zstd"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(results.Open(w.home).Path()); err != nil { // so that they are needed
		t.Fatal(err)
	}
	_, err := w.run(t.Context(), w.request(2))
	var p *PreconditionError
	if !errors.As(err, &p) || !strings.Contains(p.Hint, "rm -r "+dir) || !strings.Contains(p.What, fmt.Sprintf("m on one, seed %d", spec.Seed)) {
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
