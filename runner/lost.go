package runner

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"bench/runner/job"
	"bench/scoring/results"
)

// What was spent on a job is what its outcome says, and what earlier attempts took
// that were cut off or whose outcome was replaced: results.Loss, in
// HOME/results/lost.jsonl. They are written before what tells of them is removed.

// since is from when on the time of a batch is not accounted for yet: it ended a
// job last, or else it began.
func (w *watch) since() time.Time {
	if w.accounted.After(w.begun) {
		return w.accounted
	}
	return w.begun
}

// account notes that the time of the batch until then is some job's.
func (w *watch) account(until time.Time) {
	if until = steady(until); until.After(w.accounted) {
		w.accounted = until
	}
}

// steady is a time of the clock on the wall on the one that is never set: what is
// counted from it does not change when somebody sets the first. A time to come, of
// a clock that was set back, is now.
func steady(at time.Time) time.Time {
	now := time.Now()
	return now.Add(min(0, at.Sub(now)))
}

// cutOff is what a batch that has left jobs undone took for nothing until then,
// and what the trainer said of those that it lost. nil: nothing.
func (w *watch) cutOff(until time.Time, why string) (list []results.Loss) {
	for _, j := range w.claim.batch.Jobs {
		if o, ok := w.lostOutcome[j.ID]; ok {
			list = append(list, loss(w.claim.specs[j.ID], o, w.claim.batch.ID, o.Message))
		}
	}
	rest := w.rest()
	if len(rest) == 0 || w.where.Executor == "" || w.since().IsZero() || !until.After(w.since()) {
		return list
	}
	id := rest[0]
	for _, other := range rest {
		if other == w.current {
			id = other
		}
	}
	t := job.TrainerOutcome{Job: id, Device: w.device}
	if d := w.claim.batch.Device; d != "auto" {
		t.Device = cmp.Or(t.Device, d)
	}
	o := w.outcome(t)
	o.Started, o.Finished, o.Energy = instant(until.Add(-until.Sub(w.since()))), instant(until), nil
	o.Account(cmp.Or(w.WattsPerGPU, results.WattsPerGPU))
	return append(list, loss(w.claim.specs[id], o, w.claim.batch.ID, why))
}

// replaced is what the stored outcome of a job took that is about to be replaced;
// nil: there is none, or it is of the same attempt.
func (x *run) replaced(spec job.Spec, begun time.Time) ([]results.Loss, error) {
	old, ended, err := x.store.Outcome(spec.ID())
	if err != nil || !ended || !old.Started.Before(instant(begun)) || Usage(old) == (results.Usage{}) {
		return nil, err
	}
	return []results.Loss{superseded(spec, old)}, nil
}

// superseded is the loss that an outcome becomes when it is replaced.
func superseded(spec job.Spec, old job.Outcome) results.Loss {
	return loss(spec, old, "", fmt.Sprintf("it ended with %s, and was tried again", old.Failure))
}

func loss(spec job.Spec, o job.Outcome, batch job.ID, why string) results.Loss {
	return results.Loss{
		Job: string(spec.ID()), Model: spec.Model, Dataset: spec.Dataset, Seed: spec.Seed, Attempt: o.Attempt, Batch: string(batch),
		Executor: o.Executor, Host: o.Host, GPUs: o.GPUs, GPUShare: o.GPUShare, Started: o.Started, Ended: o.Finished, Usage: Usage(o), Why: why,
	}
}

// lose books losses, each once.
func (x *run) lose(list []results.Loss, now bool) {
	for _, l := range list {
		p := x.jobs[job.ID(l.Job)]
		if p == nil || x.losses[l.Key()] {
			continue
		}
		x.losses[l.Key()] = true
		p.lost.Add(l.Usage)
		p.model.spent.Add(l.Usage)
		x.spent.Add(l.Usage)
		if now {
			x.wasted.Add(l.Usage)
			x.emit(Event{
				Type: "lost", Model: l.Model, Dataset: l.Dataset, Seed: l.Seed, Job: p.id, Batch: job.ID(l.Batch), Attempt: l.Attempt, Message: l.Why, Used: &l.Usage,
				Where: &Where{Executor: l.Executor, Host: l.Host, GPUs: l.GPUs, GPUShare: l.GPUShare},
			})
		}
	}
}

// lostBefore books what is in the home's list of losses and not counted yet: what
// earlier runs wrote there, and other processes.
func (x *run) lostBefore() error {
	list, err := results.OpenLosses(x.Home).Read()
	if err != nil {
		return err
	}
	for _, l := range list {
		// One whose bench was killed before it could replace the outcome.
		if p := x.jobs[job.ID(l.Job)]; p != nil && p.done && l.Batch == "" && p.outcome.Started.Equal(l.Started) {
			continue
		}
		x.lose([]results.Loss{l}, false)
	}
	return nil
}

// lastSign is when a batch that was found ended last gave a sign of life.
func lastSign(c *claim) (at time.Time) {
	paths := []string{c.dir.Log(), c.dir.Events(), c.dir.Out()}
	for _, j := range c.batch.Jobs {
		paths = append(paths, filepath.Join(c.dir.Out(), string(j.ID), "outcome.json"))
	}
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	// A file from before the clock was set back gives no sign of what is to come.
	if now := time.Now(); at.After(now) {
		return now
	}
	return at
}

// instant is a time as outcomes have it.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
