package runner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bench/internal/atomicfile"
	"bench/internal/hostile"
	"bench/runner/job"
	"bench/scoring/results"
)

// fresh makes the next look at a batch's files see all that was written to them,
// though it be on another machine.
func (w *watch) fresh() {
	out := w.claim.dir.Out()
	atomicfile.Fresh(string(w.claim.dir), out)
	for _, id := range w.rest() {
		w.store.Fresh(id)
		atomicfile.Fresh(filepath.Join(out, string(id)))
	}
}

// harvest stores every job whose outcome has appeared since the last look, and
// reports them when they are on disk.
func (w *watch) harvest(report func(ended)) error {
	if w.old && !w.looked {
		w.fresh()
	}
	var all []ended
	stored := false
	for _, j := range w.claim.batch.Jobs {
		if _, again := w.lost[j.ID]; again || w.seen[j.ID] {
			continue
		}
		b, err := hostile.ReadFile(w.claim.dir.Out(), filepath.Join(string(j.ID), "outcome.json"), job.MaxOutcome)
		absent := errors.Is(err, fs.ErrNotExist)
		if w.old && (!absent || !w.looked) {
			// A bench that was killed may have stored it, but not given up the batch.
			o, before, err := w.store.Outcome(j.ID)
			if err != nil {
				return err
			}
			if before && o.State == job.OK {
				w.ended(j.ID)
				w.account(o.Finished)
				w.device = o.Device
				all = append(all, ended{job: j.ID, outcome: o, before: true})
				continue
			}
		}
		if absent {
			continue
		}
		var lines []json.RawMessage
		var t job.TrainerOutcome
		if err == nil {
			t, err = parseOutcome(b, j.ID)
		}
		if err == nil && t.State == job.OK {
			lines, err = w.predictions(j)
		}
		if err != nil {
			t = job.TrainerOutcome{Version: job.ProtocolVersion, Job: j.ID, State: job.Failed, Failure: job.FailureOutput, Message: fmt.Sprintf("%s: %v", filepath.Join(w.claim.dir.Out(), string(j.ID)), err)}
		}
		if t.Failure.Retryable() && w.lost != nil {
			w.lost[j.ID], w.lostOutcome[j.ID] = t.Message, w.outcome(t)
			w.account(w.lostOutcome[j.ID].Finished)
			continue
		}
		e, err := w.save(j.ID, w.outcome(t), lines)
		if err != nil {
			return err
		}
		stored = true
		all = append(all, e)
	}
	w.looked = true
	return w.report(all, stored, report)
}

// report reports jobs, once they are on disk.
func (w *watch) report(all []ended, sync bool, report func(ended)) error {
	if sync {
		if err := w.store.Sync(); err != nil {
			return err
		}
	}
	for _, e := range all {
		report(e)
	}
	return nil
}

func parseOutcome(b []byte, id job.ID) (job.TrainerOutcome, error) {
	var t job.TrainerOutcome
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, fmt.Errorf("outcome.json: %w", err)
	}
	switch {
	case t.Version != job.ProtocolVersion:
		return t, fmt.Errorf("outcome.json: trainer protocol %d, this bench speaks %d", t.Version, job.ProtocolVersion)
	case t.Job != id:
		return t, fmt.Errorf("outcome.json: is of job %.64q", t.Job)
	case t.State != job.OK && t.State != job.Failed:
		return t, fmt.Errorf("outcome.json: unknown state %.64q", t.State)
	case t.State == job.Failed && !t.Failure.Known():
		return t, fmt.Errorf("outcome.json: unknown failure %.64q", t.Failure)
	case t.State == job.OK && t.Failure != "":
		return t, fmt.Errorf("outcome.json: ok and failed (%.64q) at once", t.Failure)
	case t.Energy != nil && !t.Energy.Valid():
		return t, fmt.Errorf("outcome.json: %g joules of %.64q cannot be", t.Energy.Joules, t.Energy.Source)
	}
	return t, nil
}

// predictions reads the predictions of a job and puts them into the order of
// the test rows.
func (w *watch) predictions(j job.Job) ([]json.RawMessage, error) {
	i := slices.IndexFunc(w.claim.batch.Datasets, func(d job.Dataset) bool { return d.Name == j.Dataset })
	if i < 0 {
		return nil, fmt.Errorf("batch has no data set %s", j.Dataset)
	}
	if p := w.jobs[j.ID]; p != nil && w.ids[j.Dataset] == nil {
		if err := p.cell.tests.get(); err != nil {
			return nil, err
		}
		w.note(j.Dataset, p.cell.tests.ids)
	}
	if w.ids[j.Dataset] == nil {
		ids, err := testIDs(w.claim.dir, w.claim.batch.Datasets[i])
		if err != nil {
			return nil, err
		}
		w.note(j.Dataset, ids)
	}
	f, err := hostile.Open(w.claim.dir.Out(), filepath.Join(string(j.ID), "predictions.jsonl"), job.MaxPredictions)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return job.ReadPredictions(f, "predictions.jsonl", w.ids[j.Dataset])
}

// note keeps the ids of the test rows of a data set.
func (w *watch) note(dataset string, ids []string) {
	if w.ids == nil {
		w.ids = map[string][]string{}
	}
	w.ids[dataset] = ids
}

// outcome adds to a trainer's words what the runner knows.
func (w *watch) outcome(t job.TrainerOutcome) job.Outcome {
	started := w.since()
	if s := w.started[t.Job]; s.After(started) {
		started = s
	}
	now := time.Now()
	if started.IsZero() { // of a batch that was found ended
		started = now
	}
	started = now.Add(-max(0, now.Sub(started))) // on the wall, too, if the clock was set meanwhile
	o := job.Outcome{
		TrainerOutcome: t, Attempt: max(1, w.claim.attempt), Executor: w.where.Executor, Host: w.where.Host, Image: w.where.Image,
		GPUs: w.where.GPUs, GPUShare: w.where.GPUShare, Started: instant(started), Finished: instant(now), Bench: w.Version,
	}
	o.Account(cmp.Or(w.WattsPerGPU, results.WattsPerGPU))
	return o
}

// save stores an ended job and returns what there is to report, with its scores if
// it is of this run. Predictions that cannot be scored make it a failed job.
func (w *watch) save(id job.ID, o job.Outcome, lines []json.RawMessage) (ended, error) {
	spec := w.claim.specs[id]
	e := ended{job: id}
	if p := w.jobs[id]; p != nil && o.State == job.OK {
		scores, err := w.score(p, lines)
		if err != nil {
			o.State, o.Failure, o.Message = job.Failed, job.FailureOutput, err.Error()
		}
		e.scores = scores
	}
	if o.Executor == "" {
		o.Executor = w.claim.executor
	}
	replaced, err := w.replaced(spec, w.begun)
	if err == nil {
		err = results.OpenLosses(w.Home).Append(replaced)
	}
	if err != nil {
		return ended{}, err
	}
	w.replacing = append(w.replacing, replaced...)
	if err := w.store.Save(spec, o, lines, tail(w.claim.dir.Log(), logTailBytes)); err != nil {
		return ended{}, err
	}
	w.ended(id)
	w.account(o.Finished)
	w.device = cmp.Or(o.Device, w.device)
	e.outcome = o
	return e, nil
}

// ended notes that a job has an outcome in the store.
func (w *watch) ended(id job.ID) {
	if w.seen == nil {
		w.seen = map[job.ID]bool{}
	}
	w.seen[id] = true
}

// tail returns the last n bytes of a file, from the beginning of a line; nil if
// there is no file.
func tail(path string, n int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	from := max(0, info.Size()-n)
	b := make([]byte, info.Size()-from)
	k, _ := f.ReadAt(b, from)
	b = b[:k]
	if from > 0 {
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			b = b[i+1:]
		}
	}
	return b
}
