package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"bench/datasets"
	"bench/runner/job"
	"bench/scoring"
	"bench/scoring/results"
)

// record makes the record of a cell all of whose jobs have ended. flush
// appends it to the log, unless the newest record there already says the same, or
// says it of more seeds.
func (x *run) record(c *cell) (results.Record, error) {
	if c.record != nil {
		return *c.record, nil
	}
	known, err := x.known(c)
	if err != nil {
		return results.Record{}, err
	}
	if known != nil && covers(*known, c) {
		c.settle(known)
		return *known, nil
	}
	rec := results.Record{
		Bench: x.Version, Protocol: x.req.Protocol.Name, Trainer: c.model.Trainer, RemoteCode: c.model.RemoteCode,
		Model: results.Model{ID: c.model.ID, Revision: c.model.Revision, Kind: c.model.Kind, Licence: c.model.Licence},
		Dataset: results.Dataset{
			Name: c.data.Name, Digest: c.data.Digest, Task: c.task.Info().Name, TaskVersion: c.task.Info().Version,
			Languages: c.data.Languages, TestRows: c.data.Counts[datasets.Test].Rows, Partial: c.data.Partial != nil, Notes: c.data.Notes,
		},
	}
	if known != nil && rec.Model.Licence == "" { // without a network nobody tells it
		rec.Model.Licence = known.Model.Licence
	}
	if rec.Hyperparameters, err = json.Marshal(x.req.Protocol.Hyperparameters); err != nil {
		return rec, err
	}
	var versions []map[string]string
	var finished time.Time
	for _, p := range c.jobs {
		if finished.Before(p.outcome.Finished) {
			finished = p.outcome.Finished
		}
		if p.outcome.State == job.OK && p.scores == nil {
			if err := x.rescore(p); err != nil {
				return rec, err
			}
		}
		o := *p.outcome
		if o.State != job.OK {
			rec.Failures = append(rec.Failures, results.Failure{Seed: p.spec.Seed, Job: string(p.id), Failure: string(o.Failure), Message: o.Message})
			continue
		}
		versions = append(versions, o.Versions)
		if o.Parameters > 0 {
			rec.Model.Parameters, rec.Model.MaxLength, rec.Model.Vocabulary = o.Parameters, o.MaxLength, o.Vocabulary
		}
		rec.Replicates = append(rec.Replicates, replicate(p, o))
	}
	rec.Finished = finished.UTC()
	rec.Versions = results.MergeVersions(versions...)
	rec.Summarize(c.task.Info().Metrics)
	rec.Schema = results.Schema // as in the log
	x.log[rec.Identity()] = rec
	c.settle(&rec)
	x.unwritten = append(x.unwritten, rec)
	return rec, nil
}

// Usage is what a job took.
func Usage(o job.Outcome) results.Usage {
	s := seconds(o)
	wall := s.Total()
	if wall == 0 {
		wall = max(0, o.Finished.Sub(o.Started).Seconds())
	}
	return results.NewUsage(wall, o.GPUSeconds(), (*results.Energy)(o.Energy))
}

func seconds(o job.Outcome) results.Seconds {
	return results.Seconds{Load: o.Seconds["load"], Tokenize: o.Seconds["tokenize"], Train: o.Seconds["train"], Predict: o.Seconds["predict"]}
}

// settle notes the cell's record and lets go of what only that is made of: of
// 24,000 jobs it is too much to keep.
func (c *cell) settle(rec *results.Record) {
	c.record = rec
	for _, p := range c.jobs {
		p.scores = nil
		if p.outcome.State == job.OK {
			p.outcome = recorded
		}
	}
}

// recorded is what is left of outcomes that a record holds.
var recorded = &job.Outcome{TrainerOutcome: job.TrainerOutcome{State: job.OK}}

// flush appends the records made since the last time to the log. They are made
// of stored jobs: those that are lost with a killed bench are made again.
func (x *run) flush() error {
	// Of two processes that end the last jobs of a cell together one records it.
	added, size, err := x.Results.AppendNew(x.unwritten, x.logSize, says)
	if err != nil {
		return err
	}
	x.logSize = size
	for _, rec := range added {
		x.emit(Event{Type: "record", Model: rec.Model.ID, Dataset: rec.Dataset.Name, Record: &rec})
	}
	x.unwritten = nil
	return nil
}

func replicate(p *planned, o job.Outcome) results.Replicate {
	return results.Replicate{
		Seed: p.spec.Seed, Job: string(p.id), Scores: p.scores, Steps: o.Steps, BestStep: o.BestStep,
		MicroBatch: o.MicroBatch, Accumulation: o.Accumulation, Precision: o.Precision, Device: o.Device, DeviceName: o.DeviceName,
		Executor: o.Executor, Host: o.Host, Image: o.Image, GPUs: len(o.GPUs), GPUShare: o.GPUShare, Attempt: o.Attempt,
		Seconds: seconds(o), Energy: (*results.Energy)(o.Energy),
		PeakMemoryMB: results.Memory{Host: o.PeakMemoryMB["host"], Device: o.PeakMemoryMB["device"]},
	}
}

// rescore scores the stored predictions of a job that ended in an earlier run.
func (x *run) rescore(p *planned) error {
	if err := p.cell.tests.get(); err != nil {
		return err
	}
	var scores scoring.Scores
	lines, err := x.store.Predictions(p.id, p.cell.tests.ids)
	if err == nil {
		scores, err = x.score(p, lines)
	}
	if err != nil {
		return &PreconditionError{
			What: fmt.Sprintf("%s on %s, seed %d: its stored predictions cannot be scored", p.spec.Model, p.spec.Dataset, p.spec.Seed),
			Hint: fmt.Sprintf("rm -r %s, then run the same command again: only this seed is trained anew", x.store.Dir(p.id)), Err: err,
		}
	}
	p.scores = scores
	return nil
}

// known returns the newest record of a cell's identity, or nil. The log is read
// once for a run: what other processes append meanwhile is looked at by flush.
func (x *run) known(c *cell) (*results.Record, error) {
	if x.log == nil {
		if info, err := os.Stat(x.Results.Path()); err == nil {
			x.logSize = info.Size()
		}
		records, warnings, err := x.Results.Read()
		if err != nil {
			return nil, err
		}
		for _, w := range warnings {
			x.emit(Event{Type: "warning", Message: w.Error()})
		}
		kept, _ := results.Newest(records)
		x.log = map[results.Identity]results.Record{}
		for _, r := range kept {
			x.log[r.Identity()] = r
		}
	}
	hyper, err := json.Marshal(x.req.Protocol.Hyperparameters)
	if err != nil {
		return nil, err
	}
	id := results.Record{
		Protocol: x.req.Protocol.Name, Hyperparameters: hyper, Trainer: c.model.Trainer, RemoteCode: c.model.RemoteCode,
		Model:   results.Model{ID: c.model.ID, Revision: c.model.Revision},
		Dataset: results.Dataset{Name: c.data.Name, Digest: c.data.Digest, Task: c.task.Info().Name, TaskVersion: c.task.Info().Version},
	}.Identity()
	if r, ok := x.log[id]; ok {
		return &r, nil
	}
	return nil, nil
}

// says says whether old holds every job that r does, in the same state.
func says(old, r results.Record) bool {
	if old.Identity() != r.Identity() {
		return false
	}
	for _, p := range r.Replicates {
		if !slices.ContainsFunc(old.Replicates, func(q results.Replicate) bool { return q.Job == p.Job }) {
			return false
		}
	}
	for _, p := range r.Failures {
		if !slices.ContainsFunc(old.Failures, func(q results.Failure) bool { return q.Job == p.Job && q.Failure == p.Failure }) {
			return false
		}
	}
	return true
}

// covers says whether r holds every job of c in the state it is in.
func covers(r results.Record, c *cell) bool {
	for _, p := range c.jobs {
		id := string(p.id)
		ok := slices.ContainsFunc(r.Replicates, func(q results.Replicate) bool { return q.Job == id })
		if p.outcome.State != job.OK {
			ok = slices.ContainsFunc(r.Failures, func(f results.Failure) bool { return f.Job == id && f.Failure == string(p.outcome.Failure) })
		}
		if !ok {
			return false
		}
	}
	return true
}
