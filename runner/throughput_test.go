package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bench/datasets"
	"bench/runner/job"
	"bench/scoring/results"
	"bench/tasks/all"
)

// idle is an executor whose trainings cost nothing: a batch has ended, with
// the predictions of every job, when it has started.
type idle struct{}

func (idle) Start(_ context.Context, b job.Batch, d job.Dir) (Handle, error) {
	for _, j := range b.Jobs {
		test, err := os.ReadFile(filepath.Join(d.In(), "data", j.Dataset, "test.jsonl"))
		if err != nil {
			return nil, err
		}
		var out strings.Builder
		for line := range strings.Lines(string(test)) {
			var row struct{ ID string }
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "{\"id\":%q,\"label\":\"positive\",\"scores\":{\"negative\":0,\"neutral\":0,\"positive\":1}}\n", row.ID)
		}
		dir := filepath.Join(d.Out(), string(j.ID))
		if err := os.Mkdir(dir, 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "predictions.jsonl"), []byte(out.String()), 0o666); err != nil {
			return nil, err
		}
		o, err := json.Marshal(job.TrainerOutcome{Version: job.ProtocolVersion, Job: j.ID, State: job.OK, Steps: 100})
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "outcome.json"), o, 0o666); err != nil {
			return nil, err
		}
	}
	return idle{}, nil
}

func (idle) Attach(context.Context, job.Batch, job.Dir) (Handle, error) { return nil, ErrNotFound }
func (idle) Wait(context.Context) (job.Exit, error)                     { return job.Exit{}, nil }
func (idle) Stop(context.Context) error                                 { return nil }
func (idle) Where() Where                                               { return Where{Executor: "idle", Host: "here"} }

// large is a sweep over 120 models and 20 data sets, ten seeds each: 24,000
// jobs in 1,200 batches. The data sets have 32 rows a split, since it is the
// runner that is measured.
func large(b *testing.B) (*Runner, Request) {
	home := b.TempDir()
	p, err := job.NewProtocol("paper", nil)
	if err != nil {
		b.Fatal(err)
	}
	req := Request{Protocol: p, Seeds: 10}
	for i := range 20 {
		var rows []datasets.Row
		for k := range 32 {
			rows = append(rows, datasets.Row{ID: fmt.Sprint(k), Text: fmt.Sprintf("sætning %d af %d", k, i), Label: []string{"positive", "negative", "neutral"}[k%3]})
		}
		d, err := datasets.Write(filepath.Join(home, "datasets", fmt.Sprintf("set-%d", i)), datasets.Meta{Name: fmt.Sprintf("set-%d", i), Kind: datasets.Sentiment, Languages: []string{"da"}},
			map[datasets.Split][]datasets.Row{datasets.Train: rows, datasets.Val: rows, datasets.Test: rows})
		if err != nil {
			b.Fatal(err)
		}
		req.Datasets = append(req.Datasets, d)
	}
	for i := range 120 {
		req.Models = append(req.Models, &Model{ID: fmt.Sprintf("model-%d", i), Revision: "r", Kind: "local", Trainer: "t", Executor: "idle"})
	}
	e := idle{}
	return &Runner{
		Home: home, Version: "test", Tasks: all.Lookup, Slots: 16, Results: results.Open(home),
		Executor: func(string) (Executor, error) { return e, nil }, OnEvent: func(Event) {},
	}, req
}

func sweep(b *testing.B, r *Runner, req Request, ran int) {
	rep, err := r.Run(b.Context(), req)
	if err != nil || rep.Ran != ran || rep.Failed != 0 || len(rep.Records) != len(req.Models)*len(req.Datasets) {
		b.Fatalf("ran %d, failed %d, %d records: %v", rep.Ran, rep.Failed, len(rep.Records), err)
	}
}

// BenchmarkSweep measures 24,000 jobs that do nothing: plan, batches with their
// data, predictions taken in and scored, everything stored and recorded.
func BenchmarkSweep(b *testing.B) {
	for range b.N {
		r, req := large(b)
		sweep(b, r, req, 24000)
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N)/24000, "ms/job")
	b.ReportMetric(peakMB(b), "peak-MB")
}

// BenchmarkFinishedSweep measures a sweep of 24,000 jobs that finds all done.
func BenchmarkFinishedSweep(b *testing.B) {
	r, req := large(b)
	sweep(b, r, req, 24000)
	b.ResetTimer()
	for range b.N {
		sweep(b, r, req, 0)
	}
}

// peakMB is the most memory that this process has held, where the system says.
func peakMB(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("the system does not say how much memory was used:", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kB, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kB / 1024
}
