package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bench/runner/job"
)

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

// An image that holds no trainer is told at once and for all jobs; one that was
// seen to hold one fails job by job.
func TestNoTrainer(t *testing.T) {
	broken := true
	w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		if broken {
			os.WriteFile(d.Log(), []byte("unknown option: --batch\n"), 0o666)
			return job.Exit{Code: 2}, nil
		}
		say(d, "start", b.Jobs[0].ID)
		return job.Exit{Code: 2}, nil
	})
	w.exec.image = "sha256:5b0e"
	rep, err := w.run(t.Context(), w.request(3))
	if p, ok := errors.AsType[*PreconditionError](err); !ok || !strings.Contains(p.Error(), "sha256:5b0e holds no trainer") || !strings.Contains(p.Error(), "unknown option: --batch") || p.Hint == "" {
		t.Errorf("%v", err)
	}
	if rep.Ran != 0 || len(w.exec.started) > 4 {
		t.Errorf("%d jobs were started; %+v", len(w.exec.started), rep)
	}
	broken = false
	if rep := w.must(w.request(3)); rep.Ran != 6 || rep.Failed != 6 || rep.Failures[0].Outcome.Failure != job.FailureTrainer {
		t.Errorf("a trainer that fails: %+v", rep)
	}
}
