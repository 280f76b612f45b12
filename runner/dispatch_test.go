package runner

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"bench/runner/job"
	"bench/runner/schedule"
	"bench/scoring/results"
)

// spending is succeed with a GPU that every job holds for ten minutes.
func spending(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
	for _, j := range b.Jobs {
		finish(d, j, job.TrainerOutcome{State: job.OK, Steps: 3, Device: "cuda", Seconds: map[string]float64{"train": 600}})
	}
	return job.Exit{}, nil
}

func (w *world) two() Request {
	req := w.request(3)
	other := *req.Models[0]
	other.ID = "n"
	req.Models = append(req.Models, &other)
	return req
}

// When the budget is used up nothing more starts, what was done is recorded, and
// the next run with a larger one goes on.
func TestBudget(t *testing.T) {
	w := newWorld(t, spending)
	req := w.request(6) // 12 jobs of 10 minutes, in 6 batches of 20
	req.Budget = Budget{GPUHours: 1}
	rep, err := w.run(t.Context(), req)
	var over *BudgetError
	if !errors.As(err, &over) || !strings.Contains(over.Error(), "of 1 GPU hours are used") {
		t.Fatalf("error %v", err)
	}
	// Two batches at a time: the hour is full after three, when another one may run.
	if rep.Ran < 6 || rep.Ran > 8 || over.Jobs != 12-rep.Ran || len(rep.Records) != 0 {
		t.Errorf("%d jobs ran, %d were stopped: %v", rep.Ran, over.Jobs, err)
	}
	w.noBatchesLeft()
	if again, err := w.run(t.Context(), req); !errors.As(err, &over) || again.Ran != 0 {
		t.Errorf("what was spent before is not counted: %d ran, %v", again.Ran, err)
	}
	req.Budget = Budget{}
	if last := w.must(req); last.Ran != 12-rep.Ran || len(last.Records) != 2 {
		t.Errorf("without a budget: %+v", last)
	}
}

// A model that has used what it may does not keep others from theirs.
func TestModelBudget(t *testing.T) {
	w := newWorld(t, spending)
	req := w.two()
	req.ModelBudget = Budget{Price: 2.5}
	req.Rates = results.Rates{PricePerGPUHour: 10} // 1.67 a job
	rep, err := w.run(t.Context(), req)
	var over *BudgetError
	for _, m := range []string{"m", "n"} {
		if !errors.As(err, &over) || !regexp.MustCompile(m+`: (3\.333|5|6\.667) of 2.5 are spent`).MatchString(err.Error()) {
			t.Errorf("error %v", err)
		}
	}
	// Two jobs of each reach the bound; what runs on the other slot by then goes on.
	if rep.Ran < 4 || rep.Ran > 8 {
		t.Errorf("%d jobs ran", rep.Ran)
	}
}

// A model that cannot do a task is started to find that out by as many batches as
// would wait for nothing else (two slots), not once for each of ten seeds; it is asked again only when that is wanted.
func TestUnsupportedIsDecidedOnce(t *testing.T) {
	tried := 0
	var mu sync.Mutex
	w := newWorld(t, func(_ *scripted, b job.Batch, d job.Dir) (job.Exit, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, j := range b.Jobs {
			if j.Dataset == "two" {
				tried++
				finish(d, j, job.TrainerOutcome{State: job.Failed, Failure: job.FailureUnsupported, Message: "no head"})
				continue
			}
			finish(d, j, job.TrainerOutcome{State: job.OK, Steps: 3})
		}
		return job.Exit{}, nil
	})
	rep := w.must(w.request(10))
	if tried > 2 || rep.Failed != 10 || rep.Ran != 20 {
		t.Errorf("tried %d times; %d failed, %d ran", tried, rep.Failed, rep.Ran)
	}
	for _, f := range rep.Failures {
		if f.Outcome.Failure != job.FailureUnsupported || !strings.HasPrefix(f.Outcome.Message, "no head") {
			t.Errorf("%+v", f)
		}
	}
	if len(rep.Records) != 2 || len(rep.Records[1].Failures) != 10 {
		t.Errorf("records %+v", rep.Records)
	}
	if again := w.must(w.request(10)); again.Ran != 0 || tried > 2 {
		t.Errorf("a second run tried it again: %d", tried)
	}
	req := w.request(10)
	req.Retry = true
	before := tried
	if w.must(req); tried == before || tried > before+2 {
		t.Errorf("with Retry it was tried %d times more, want one or two", tried-before)
	}
}

// What one seed decides for the others is told of when it is on disk, and not
// when the disk has refused it: then the next run decides anew.
func TestDecidedSeedsAreToldOfWhenTheyAreOnDisk(t *testing.T) {
	w := newWorld(t, succeed)
	x := w.runner().newRun(w.request(3))
	if err := x.plan(); err != nil {
		t.Fatal(err)
	}
	first := x.order[0]
	o := job.Outcome{TrainerOutcome: job.TrainerOutcome{Job: first.id, State: job.Failed, Failure: job.FailureUnsupported, Message: "no head"}}
	x.book(ended{job: first.id, outcome: o})
	x.dispatch = dispatch{queues: map[string]*schedule.Queue{}}
	x.store.Disk.Dir = filepath.Join(w.home, "unplugged") // no Sync can succeed
	if err := x.decided(first, o, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error %v", err)
	}
	if x.ended != 1 || w.events("job") != 1 {
		t.Errorf("%d jobs have ended and %d were told of, want the first alone", x.ended, w.events("job"))
	}
	x.store.Disk.Dir = w.home
	if err := x.decided(first, o, nil); err != nil || x.ended != 3 || w.events("job") != 3 {
		t.Errorf("with a disk: %d jobs have ended, %d were told of: %v", x.ended, w.events("job"), err)
	}
	for _, p := range first.cell.jobs[1:] {
		if kept, there, err := x.store.Outcome(p.id); err != nil || !there || kept.Message != "no head (found out with seed 4242)" {
			t.Errorf("%s: %+v, %v, %v", p.id.Short(), kept, there, err)
		}
	}
}

// Models of a higher priority are trained first.
func TestOrder(t *testing.T) {
	w := newWorld(t, succeed)
	req := w.two()
	req.Models[1].Priority = 1
	r := w.runner()
	r.Slots = 1 // two batches may pass each other between the queue and the executor
	if _, err := r.Run(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	var models []string
	for _, id := range w.exec.started {
		s, err := job.Store{Home: w.home}.Spec(id)
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, s.Model)
	}
	if first := slices.Index(models, "m"); first != 6 || len(models) != 12 || slices.Contains(models[first:], "n") {
		t.Errorf("started in the order %v", models)
	}
}
