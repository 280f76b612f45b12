package runner

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bench/runner/job"
	"bench/scoring/results"
	"bench/tasks/all"
)

// fails makes an executor's batches fail n times, each time with what the trainer
// says of its first job, and succeed then, ten minutes a job.
func fails(n int32, o job.TrainerOutcome, exit job.Exit) func(*scripted, job.Batch, job.Dir) (job.Exit, error) {
	var starts atomic.Int32
	return func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		if starts.Add(1) > n {
			return spending(s, b, d)
		}
		say(d, "start", b.Jobs[0].ID)
		if o.State != "" {
			finish(d, b.Jobs[0], o)
		}
		return exit, nil
	}
}

// spent is what a plan of the request says was spent, and the part that was lost.
func (w *world) spent(req Request) (sum, lost results.Usage) {
	w.t.Helper()
	r := &Runner{Home: w.home, Tasks: all.Lookup, Results: results.Open(w.home), OnEvent: func(Event) {}}
	jobs, err := r.Plan(req)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range jobs {
		if j.Done {
			sum.Add(Usage(j.Outcome))
		}
		sum.Add(j.Lost)
		lost.Add(j.Lost)
	}
	return sum, lost
}

func (w *world) losses() []results.Loss {
	w.t.Helper()
	list, err := results.OpenLosses(w.home).Read()
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*math.Max(1, math.Abs(b)) }

// What a lost GPU had done by then is counted as the trainer measured it, in this
// run and in the plan of the next one; the outcome and the record are those of the
// attempt that counts.
func TestLostAttemptsAreCounted(t *testing.T) {
	lost := job.TrainerOutcome{State: job.Failed, Failure: job.FailureInfra, Message: "the GPU is gone", Device: "cuda",
		Seconds: map[string]float64{"train": 1800}, Energy: &job.Energy{Joules: 360_000, Source: job.EnergyNVML}}
	w := newWorld(t, fails(2, lost, job.Exit{Code: job.ExitAgain}))
	w.exec.gpus = []string{"GPU-0"}
	rep := w.must(w.request(1))
	// Beside the 1,800 s no more than the moments that this test takes.
	if g := rep.Lost.GPUSeconds; g < 3600 || g > 3610 || rep.Used.GPUSeconds != 1200 || !near(rep.Spent.GPUSeconds, g+1200) {
		t.Errorf("lost %+v, used %+v, spent %+v", rep.Lost, rep.Used, rep.Spent)
	}
	if j := rep.Lost.Joules - rep.Lost.EstimatedJoules; j != 720_000 {
		t.Errorf("%v joules were measured, want 720000", j)
	}
	if r := rep.Records[0]; r.Replicates[0].Attempt != 3 || r.GPUSeconds != 600 {
		t.Errorf("the record is not that of the last attempt: %+v", r)
	}
	if n := w.events("lost"); n < 2 {
		t.Errorf("%d events", n)
	}
	sum, part := w.spent(w.request(1))
	if !near(sum.GPUSeconds, rep.Spent.GPUSeconds) || !near(part.Joules, rep.Lost.Joules) {
		t.Errorf("the next plan: %+v, lost %+v", sum, part)
	}
	if next := w.must(w.request(1)); next.Lost != (results.Usage{}) || !near(next.Spent.GPUSeconds, rep.Spent.GPUSeconds) {
		t.Errorf("the next run: %+v", next)
	}
}

// A trainer that was killed had its GPU until then, since the job before it ended.
func TestKilledAttemptIsCounted(t *testing.T) {
	const pause = 700 * time.Millisecond
	var starts atomic.Int32
	w := newWorld(t, func(s *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		if starts.Add(1) > 1 {
			return spending(s, b, d)
		}
		time.Sleep(pause)
		finish(d, b.Jobs[0], job.TrainerOutcome{State: job.OK, Device: "cuda", Seconds: map[string]float64{"train": pause.Seconds()}})
		say(d, "start", b.Jobs[1].ID)
		time.Sleep(pause)
		return job.Exit{Code: -1, Signal: 9}, nil
	})
	w.exec.gpus = []string{"GPU-0", "GPU-1"}
	req := w.request(1)
	req.BatchBy = "model"
	rep := w.must(req)
	list := w.losses()
	if len(list) != 1 || list[0].Dataset != "two" || list[0].Batch == "" || !strings.Contains(list[0].Why, "killed by signal 9") {
		t.Fatalf("%+v", list)
	}
	wall := list[0].Usage.WallSeconds
	if wall < .4 || wall > 5 || !near(rep.Lost.GPUSeconds, 2*wall) || !near(rep.Lost.Joules, 250*2*wall) || !near(rep.Lost.EstimatedSeconds, 2*wall) {
		t.Errorf("lost %+v by %+v", rep.Lost, list[0])
	}
}

// A limit counts what was lost: a machine that loses its GPU again and again does
// not spend more than was allowed.
func TestBudgetCountsLosses(t *testing.T) {
	lost := job.TrainerOutcome{State: job.Failed, Failure: job.FailureInfra, Device: "cuda", Seconds: map[string]float64{"train": 1800}}
	w := newWorld(t, fails(1, lost, job.Exit{Code: job.ExitAgain}))
	req := w.request(1)
	req.Budget = Budget{GPUHours: .4}
	rep, err := w.run(t.Context(), req)
	var over *BudgetError
	if !errors.As(err, &over) || !strings.Contains(over.Error(), "0.5 of 0.4 GPU hours are used") || rep.Ran != 0 || over.Jobs != 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	w.noBatchesLeft()
	if again, err := w.run(t.Context(), req); !errors.As(err, &over) || len(w.exec.started) != 2 {
		t.Errorf("the next run: %+v, %v", again, err)
	}
}

// An outcome that another one replaces was spent before, too; until then it counts
// as it is.
func TestReplacedOutcomeIsCounted(t *testing.T) {
	fail := job.TrainerOutcome{State: job.Failed, Failure: job.FailureOOM, Device: "cuda", Seconds: map[string]float64{"train": 60}}
	w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		for _, j := range b.Jobs {
			finish(d, j, fail)
		}
		return job.Exit{}, nil
	})
	req := w.request(1)
	w.must(req)
	if sum, lost := w.spent(req); sum.GPUSeconds != 120 || lost.GPUSeconds != 120 || len(w.losses()) != 0 {
		t.Errorf("before: %+v, lost %+v, %+v", sum, lost, w.losses())
	}
	w.exec.act = spending
	rep := w.must(req)
	if rep.Used.GPUSeconds != 1200 || rep.Spent.GPUSeconds != 1320 || rep.Lost != (results.Usage{}) {
		t.Errorf("%+v", rep)
	}
	if sum, lost := w.spent(req); sum.GPUSeconds != 1320 || lost.GPUSeconds != 120 {
		t.Errorf("after: %+v, lost %+v", sum, lost)
	}
	// Twice in the file is once in the sum, and a torn line does no harm.
	if err := results.OpenLosses(w.home).Append(w.losses()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(results.OpenLosses(w.home).Path(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"schema":1,"job":"`)
	f.Close()
	if sum, _ := w.spent(req); sum.GPUSeconds != 1320 {
		t.Errorf("twice: %+v", sum)
	}
}

// A batch that ended while nobody watched took its place to its last sign of life,
// and is counted once, whoever finds it; that of bench gc too.
func TestLossOfADeadBench(t *testing.T) {
	for _, gc := range []bool{false, true} {
		begun := make(chan struct{})
		gate := make(chan struct{})
		w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
			say(d, "start", b.Jobs[0].ID)
			time.Sleep(300 * time.Millisecond)
			say(d, "step", b.Jobs[0].ID)
			close(begun)
			<-gate
			return job.Exit{}, nil
		})
		w.exec.gpus = []string{"GPU-0"}
		req := w.request(1)
		req.BatchBy = "model"
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-begun; cancel() }()
		if _, err := w.run(ctx, req); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		close(gate)
		time.Sleep(time.Second)
		w.exec = &scripted{act: spending} // the machine was restarted
		if gc {
			if _, err := Sweep(t.Context(), w.home, func(string) (Executor, error) { return w.exec, nil }); err != nil {
				t.Fatal(err)
			}
		}
		rep := w.must(req)
		list := w.losses()
		if len(list) != 1 || list[0].Usage.GPUSeconds < .25 || list[0].Usage.GPUSeconds > .9 {
			t.Errorf("gc %v: %+v", gc, list)
		}
		if !near(rep.Spent.GPUSeconds, 1200+list[0].Usage.GPUSeconds) {
			t.Errorf("gc %v: spent %+v", gc, rep.Spent)
		}
	}
}

// Of a batch that was refused as a whole the time counts once, not once for each
// of its jobs.
func TestRefusedBatchCountsOnce(t *testing.T) {
	w := newWorld(t, func(*scripted, job.Batch, job.Dir) (job.Exit, error) {
		time.Sleep(500 * time.Millisecond)
		return job.Exit{Code: job.ExitInput}, nil
	})
	w.exec.gpus = []string{"GPU-0"}
	req := w.request(2)
	req.BatchBy = "model"
	if rep := w.must(req); rep.Failed != 4 || rep.Used.GPUSeconds < .4 || rep.Used.GPUSeconds > 1.5 {
		t.Errorf("%+v", rep)
	}
}

// Times from files are counted on without the clock on the wall, and none lies ahead.
func TestSteady(t *testing.T) {
	for _, ago := range []time.Duration{0, time.Hour, -time.Hour, 50 * 365 * 24 * time.Hour} {
		now := time.Now()
		at := steady(now.Round(0).Add(-ago))
		if got := now.Sub(at).Round(time.Second); got != max(0, ago) || !strings.Contains(at.String(), " m=") {
			t.Errorf("%v ago became %v ago, %v", ago, got, at)
		}
	}
}
