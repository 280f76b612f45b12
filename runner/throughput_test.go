package runner

import (
	"bytes"
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

	"golang.org/x/sync/errgroup"
)

// idle is an executor whose trainings cost nothing: a batch has ended, with
// the predictions of every job, when it has started.
type idle struct{}

func (idle) Start(_ context.Context, b job.Batch, d job.Dir) (Handle, error) {
	for _, j := range b.Jobs {
		if err := pretend(j.ID, filepath.Join(d.In(), "data", j.Dataset, "test.jsonl"), filepath.Join(d.Out(), string(j.ID))); err != nil {
			return nil, err
		}
	}
	return idle{}, nil
}

// pretend is a training that costs nothing: it reads the test rows and writes
// what a trainer writes into dir, which it makes.
func pretend(id job.ID, rows, dir string) error {
	test, err := os.ReadFile(rows)
	if err != nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(string(test)) {
		var row struct{ ID string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			return err
		}
		fmt.Fprintf(&out, "{\"id\":%q,\"label\":\"positive\",\"scores\":{\"negative\":0,\"neutral\":0,\"positive\":1}}\n", row.ID)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "predictions.jsonl"), []byte(out.String()), 0o666); err != nil {
		return err
	}
	o, err := json.Marshal(job.TrainerOutcome{Version: job.ProtocolVersion, Job: id, State: job.OK, Steps: 100})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "outcome.json"), o, 0o666)
}

func (idle) Attach(context.Context, job.Batch, job.Dir) (Handle, error) { return nil, ErrNotFound }
func (idle) DiesWithThisMachine()                                       {}
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

// BenchmarkPlainLoop is what BenchmarkSweep is held against: two loops, one for
// each core, over the same 24,000 jobs. Each writes what a trainer writes, reads
// it, scores it and puts it where it belongs, and removes what the trainer
// wrote. There is no queue, no claim, no check, nothing is synced, and what is
// cut off when the program dies is lost.
func BenchmarkPlainLoop(b *testing.B) {
	for range b.N {
		b.StopTimer()
		r, req := large(b)
		x := r.newRun(req)
		if err := x.plan(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		var loops errgroup.Group
		for w := range 2 {
			loops.Go(func() error {
				for i := w; i < len(x.order); i += 2 {
					if err := plainly(x, x.order[i]); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := loops.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N)/24000, "ms/job")
}

func plainly(x *run, p *planned) error {
	out := filepath.Join(x.Home, "batches", string(p.id))
	if err := pretend(p.id, filepath.Join(x.Home, "datasets", p.spec.Dataset, "test.jsonl"), out); err != nil {
		return err
	}
	predictions, err := os.ReadFile(filepath.Join(out, "predictions.jsonl"))
	if err != nil {
		return err
	}
	outcome, err := os.ReadFile(filepath.Join(out, "outcome.json"))
	if err != nil {
		return err
	}
	if err := p.cell.tests.get(); err != nil {
		return err
	}
	var lines []json.RawMessage
	for line := range bytes.Lines(predictions) {
		lines = append(lines, line)
	}
	if _, err := x.score(p, lines); err != nil {
		return err
	}
	spec, err := json.Marshal(p.spec)
	if err != nil {
		return err
	}
	dir := x.store.Dir(p.id)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"spec.json": spec, "predictions.jsonl": predictions, "outcome.json": outcome} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			return err
		}
	}
	return os.RemoveAll(out)
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
