package runner

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"bench/runner/job"
	"bench/runner/schedule"
	"bench/scoring"
	"bench/scoring/results"
)

// ended is what a batch's goroutine reports to the loop.
type ended struct {
	batch   job.ID
	job     job.ID // "": the batch itself has ended
	outcome job.Outcome
	scores  scoring.Scores
	before  bool     // the job was stored by an earlier bench already
	requeue []job.ID // at the batch's end: jobs that were not run
	err     error    // fatal for the run
	lost    []results.Loss

	executor, model string // at the batch's end: of the batch
}

func (x *run) loop(ctx context.Context, report *Report) error {
	if err := x.store.Make(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reports := make(chan ended)
	running := 0
	inBatch := map[job.ID]bool{}
	waitedFor := 0 // jobs of other processes, as last said
	var fatal error
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()

	launch := func(c *claim, h Handle) {
		running++
		x.running[c.executor]++
		if h != nil {
			x.queue(c.executor).Started(c.batch.Model.Key())
		}
		for id := range c.specs {
			inBatch[id] = true
		}
		go x.supervise(ctx, c, h, reports)
	}

	for {
		// Take over what an earlier bench left, then start what is missing.
		mine, foreign, err := x.home.scan()
		if err != nil {
			fatal = err
			break
		}
		x.dispatch = dispatch{queues: map[string]*schedule.Queue{}, running: map[string]int{}}
		for _, c := range mine {
			h, err := x.takeOver(ctx, c)
			if err != nil {
				fatal = errors.Join(fatal, err)
			}
			if h != nil {
				report.Attached++
				launch(c, h)
			}
		}
		var missing []*planned
		theirs := 0
		for _, p := range x.order {
			switch {
			case p.done || p.stopped || inBatch[p.id]:
			case foreign[p.id] != "":
				theirs++
			default:
				missing = append(missing, p)
			}
		}
		x.wait(missing)
		for fatal == nil && ctx.Err() == nil {
			// There is room for the batch before its folder is made.
			var jobs []*planned
			if jobs, fatal = x.next(); jobs != nil {
				c, err := x.claim(ctx, x.batch(jobs[0].model, jobs))
				if err == nil {
					launch(c, nil)
					continue
				}
				x.notStarted(jobs)
				if errors.Is(err, errClaimed) {
					theirs += len(jobs)
					continue
				}
				var broken *modelError
				if errors.As(err, &broken) && ctx.Err() == nil {
					x.giveUp(broken, report, inBatch)
					continue
				}
				fatal = err
			}
			if fatal != nil || running == 0 {
				break
			}
			select {
			case <-tick.C:
				fatal = x.flush()
			case e := <-reports:
				if err := x.take(e, &running, inBatch); err != nil {
					fatal = err
				}
			case <-ctx.Done():
			}
		}
		if fatal != nil || ctx.Err() != nil {
			break
		}
		if theirs == 0 {
			break
		}
		if theirs != waitedFor {
			waitedFor = theirs
			x.emit(Event{Type: "warning", Message: fmt.Sprintf("%d jobs are run by another bench process on this HOME; waiting for it", theirs)})
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		if err := x.reload(); err != nil {
			fatal = err
			break
		}
	}
	// On a fatal error no new batch starts; those that run may end, unless the
	// user does not want to wait either.
	if fatal != nil && errors.Is(fatal, syscall.ENOSPC) {
		cancel(fatal)
	}
	for running > 0 {
		if err := x.take(<-reports, &running, inBatch); err != nil && fatal == nil {
			fatal = err
		}
	}
	if fatal != nil {
		if errors.Is(fatal, syscall.ENOSPC) {
			fatal = &PreconditionError{What: "no space left on the disk of " + x.Home, Hint: "make room, then run the same command again: finished seeds are kept", Err: fatal}
		}
		return fatal
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(x.stopped...)
}

// take books what a batch reports, and lets jobs wait that are to start again.
func (x *run) take(e ended, running *int, inBatch map[job.ID]bool) error {
	if e.job != "" {
		delete(inBatch, e.job)
		x.book(e)
		if p := x.jobs[e.job]; p != nil {
			return x.decided(p, e.outcome, inBatch)
		}
		return nil
	}
	*running--
	x.running[e.executor]--
	x.queue(e.executor).Ended(e.model)
	x.lose(e.lost, true)
	var again []*planned
	for _, id := range e.requeue {
		delete(inBatch, id)
		if p := x.jobs[id]; p != nil && !p.done {
			again = append(again, p)
		}
	}
	x.wait(again)
	return e.err
}

// book takes note of one job that has ended.
func (x *run) book(e ended) {
	p := x.jobs[e.job]
	if p == nil { // of a batch that was taken over, not of this request
		return
	}
	if e.before {
		x.found(p, e.outcome)
		return
	}
	if x.left = max(0, x.left-x.cost(p)); x.ended+1 == len(x.order) {
		x.left = 0
	}
	x.end(p)
	p.ran, p.outcome, p.scores = true, &e.outcome, e.scores
	x.used.Add(Usage(e.outcome))
	x.spend(p, e.outcome)
	x.learn(p, e.outcome)
	o := e.outcome
	used := Usage(o)
	x.emit(Event{
		Type: "job", Model: p.spec.Model, Dataset: p.spec.Dataset, Seed: p.spec.Seed, Job: e.job, Batch: e.batch, Attempt: o.Attempt,
		State: o.State, Failure: o.Failure, Message: o.Message, Step: o.Steps, Scores: e.scores, Seconds: o.Finished.Sub(o.Started).Seconds(),
		Done: x.ended, Total: len(x.order), Log: x.store.Dir(e.job) + "/trainer.log",
		Where: &Where{Executor: o.Executor, Host: o.Host, Image: o.Image, GPUs: o.GPUs, GPUShare: o.GPUShare}, Used: &used, Left: x.left,
	})
	if p.cell.left == 0 {
		x.record(p.cell) // an error comes again, and is told of, at the end of the run
	}
}

// end notes that a job is done.
func (x *run) end(p *planned) {
	if !p.done {
		p.done = true
		p.cell.left--
		x.ended++
	}
}

// reload looks up again which jobs have ended, after another process ran some.
func (x *run) reload() error {
	if err := x.flush(); err != nil { // what is not in the log yet must be found there
		return err
	}
	x.log = nil // it may have recorded them, too
	return x.lookUp()
}

// found books a job that turned out to have been stored by another bench.
func (x *run) found(p *planned, o job.Outcome) {
	if !p.done {
		x.end(p)
		p.outcome = &o
		x.spend(p, o)
		x.learn(p, o)
	}
}

// modelError says that a model's files cannot be had.
type modelError struct {
	model *Model
	err   error
}

func (e *modelError) Error() string { return e.model.ID + ": " + e.err.Error() }
func (e *modelError) Unwrap() error { return e.err }

// giveUp ends all jobs of a model whose files cannot be had, without keeping
// that: the next run tries again.
func (x *run) giveUp(e *modelError, report *Report, inBatch map[job.ID]bool) {
	report.ModelErrors = append(report.ModelErrors, e)
	x.queue(e.model.Executor).Remove(func(j schedule.Job) bool { return x.order[j.ID].model == e.model })
	for _, p := range x.order {
		if p.model != e.model || p.done || inBatch[p.id] {
			continue
		}
		x.end(p)
		p.unsaved = true
		p.outcome = &job.Outcome{TrainerOutcome: job.TrainerOutcome{Job: p.id, State: job.Failed, Failure: job.FailureInput, Message: e.err.Error()}}
	}
}
