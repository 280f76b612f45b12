package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"bench/runner/job"
	"bench/scoring/results"
)

const (
	maxEventLine = 1 << 20
	logTailBytes = 256 << 10
)

// pollEvery is how often a running batch's out folder is looked at.
const pollEvery = 200 * time.Millisecond

// watch follows one batch.
type watch struct {
	*run
	claim   *claim
	where   Where
	begun   time.Time
	seen    map[job.ID]bool // jobs that have ended and are stored
	started map[job.ID]time.Time
	current job.ID // the job that the trainer said it works on
	// lost holds what the trainer said of jobs that its surroundings made fail, a
	// lost GPU or a full disk, and that get another try. nil: they get none.
	lost        map[job.ID]string
	said        bool                   // that it is late
	spoke       bool                   // the trainer: it said something that trainers say
	lostOutcome map[job.ID]job.Outcome // of these, when the trainer wrote one
	replacing   []results.Loss         // outcomes of earlier attempts that were replaced
	accounted   time.Time              // see since
	device      string                 // that a job of the batch ran on; "": none has ended
	old         bool                   // an earlier bench started the batch, and may have stored some of its jobs
	looked      bool                   // harvest has looked for these
	ids         map[string][]string
	offset      int64 // into the events
}

// supervise runs one batch to its end and reports every job of it.
func (x *run) supervise(ctx context.Context, c *claim, h Handle, reports chan<- ended) {
	w := &watch{run: x, claim: c, begun: time.Now(), old: h != nil}
	if c.attempt < maxAttempts {
		w.lost, w.lostOutcome = map[job.ID]string{}, map[job.ID]job.Outcome{}
	}
	if h != nil {
		if at, _ := c.begun(); !at.IsZero() {
			w.begun = steady(at)
		}
	}
	end := w.follow(ctx, h, func(e ended) { e.batch = c.batch.ID; reports <- e })
	end.lost = append(end.lost, w.replacing...)
	end.batch, end.executor, end.model = c.batch.ID, c.executor, c.batch.Model.Key()
	x.emit(Event{Type: "end", Batch: c.batch.ID, Model: c.batch.Model.ID})
	reports <- end
}

func (w *watch) follow(ctx context.Context, h Handle, report func(ended)) ended {
	c := w.claim
	attached := h != nil
	if !attached {
		e, err := w.Executor(c.executor)
		if err == nil {
			if err := c.starting(w.begun, e); err != nil {
				return ended{requeue: w.rest(), err: errors.Join(err, c.drop())}
			}
			h, err = e.Start(ctx, c.batch, c.dir)
		}
		if err != nil {
			var p *PreconditionError
			if ctx.Err() != nil || errors.As(err, &p) {
				return ended{requeue: w.rest(), err: errors.Join(err, c.drop())}
			}
			return w.finish(job.Exit{}, fmt.Errorf("start: %w", err), report)
		}
	}
	w.where = h.Where()
	if !attached {
		w.begun = time.Now() // before, it may have waited for a GPU
		if err := c.start(w.begun, w.where); err != nil {
			c.release()
			return ended{requeue: w.rest(), err: err}
		}
		where := w.where
		w.emit(Event{Type: "start", Batch: c.batch.ID, Model: c.batch.Model.ID, Attempt: c.attempt, Where: &where, Total: len(c.batch.Jobs)})
	}

	type waited struct {
		exit job.Exit
		err  error
	}
	done := make(chan waited, 1)
	go func() {
		exit, err := h.Wait(ctx)
		done <- waited{exit, err}
	}()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.whereabouts(h)
			w.events()
			if err := w.harvest(report); err != nil {
				c.release()
				return ended{requeue: w.rest(), err: err}
			}
			w.watchTime()
		case r := <-done:
			w.whereabouts(h)
			w.fresh()
			w.events()
			if err := w.harvest(report); err != nil {
				c.release()
				return ended{requeue: w.rest(), err: err}
			}
			if ctx.Err() != nil {
				// The folder stays: whoever comes next attaches to the batch.
				c.release()
				return ended{requeue: w.rest()}
			}
			var p *PreconditionError
			if errors.As(r.err, &p) { // the same for every batch: found out where it ran
				return ended{requeue: w.rest(), err: errors.Join(r.err, c.drop())}
			}
			if r.err == nil {
				if err := w.noTrainer(r.exit); err != nil {
					return ended{requeue: w.rest(), err: errors.Join(err, c.drop())}
				}
			}
			return w.finish(r.exit, r.err, report)
		}
	}
}

// watchTime tells, once, that the batch runs far longer than expected.
func (w *watch) watchTime() {
	ran := time.Since(w.begun)
	if times := late(ran, w.claim.expected); times > 0 && !w.said {
		w.said = true
		b := w.claim.batch
		w.emit(Event{Type: "warning", Batch: b.ID, Model: b.Model.ID, Message: fmt.Sprintf("a batch on %s runs for %v, %.1f times as long as expected", w.where.Host, ran.Round(time.Second), times)})
	}
}

// whereabouts notes the host of a batch that a cluster has placed by now.
func (w *watch) whereabouts(h Handle) {
	if now := h.Where(); now.Host != "" && now.Host != w.where.Host {
		w.where = now
		if !w.old { // before, it was in the cluster's queue
			w.begun = time.Now()
		}
		w.claim.start(w.begun, now) // for whoever takes the batch over, if it can be written
	}
}

// noTrainer returns a *PreconditionError if the batch's image holds no trainer, as
// far as can be seen: its program ended by itself, with a code that trainers do not
// have or without doing its work, before it had said or written a thing that
// trainers do, and so did all others of this image in this run. The other jobs
// would fare no better.
func (w *watch) noTrainer(x job.Exit) error {
	if w.spoke || len(w.seen)+len(w.lost) > 0 {
		w.heard()
	}
	if _, works := w.trainers.Load(w.where.Image); works || w.where.Image == "" {
		return nil
	}
	switch {
	case x.Stopped, x.TimedOut, x.OOMKilled, x.Signal != 0:
		return nil
	case x.Code == job.ExitInput, x.Code == job.ExitTrainer, x.Code == job.ExitAgain:
		return nil
	}
	said := "it said nothing"
	if lines := strings.Split(strings.TrimSpace(string(tail(w.claim.dir.Log(), 2<<10))), "\n"); lines[0] != "" {
		said = "the last it said:\n" + strings.Join(lines[max(0, len(lines)-3):], "\n")
	}
	return &PreconditionError{
		What: fmt.Sprintf("image %s holds no trainer, or one that does not work: its program ended with exit code %d before it began with any job", w.where.Image, x.Code),
		Hint: "name an image whose entrypoint is a trainer (docs/trainer-protocol.md), such as the one that bench image build makes",
		Err:  errors.New(said),
	}
}

// heard notes that the batch's image holds a trainer.
func (w *watch) heard() {
	w.spoke = true
	w.trainers.Store(w.where.Image, true)
}

// finish says of every job without an outcome what became of it.
func (w *watch) finish(exit job.Exit, unknown error, report func(ended)) ended {
	rest := w.rest()
	end := ended{}
	if len(rest) > 0 {
		failure, message := explain(exit, unknown)
		// The trainer works through its jobs in order. The one it was at, or the
		// first that never began, bears the failure; those after it get another
		// chance, so that one bad job does not take the others along.
		// When a job has said what it was, none of the others does.
		blame := slices.DeleteFunc(slices.Clone(rest), func(id job.ID) bool { _, ok := w.lost[id]; return ok })
		switch {
		case len(w.lost) > 0 && exit.Code == job.ExitAgain:
			blame, message = nil, w.whyLost()
		case slices.Contains(blame, w.current):
			blame = []job.ID{w.current}
		case exit.Code != job.ExitInput && len(w.started) > 0:
			blame = blame[:min(1, len(blame))]
		}
		for _, id := range rest {
			if !slices.Contains(blame, id) {
				end.requeue = append(end.requeue, id)
				continue
			}
			if failure.Retryable() && w.claim.attempt < maxAttempts {
				end.requeue = append(end.requeue, id)
				continue
			}
			o := w.outcome(job.TrainerOutcome{Version: job.ProtocolVersion, Job: id, State: job.Failed, Failure: failure, Message: message})
			e, err := w.save(id, o, nil)
			if err == nil {
				err = w.report([]ended{e}, true, report)
			}
			if err != nil {
				w.claim.release()
				return ended{requeue: w.rest(), err: err}
			}
		}
		if failure.Retryable() || len(w.lost) > 0 {
			end.lost = w.cutOff(time.Now(), message)
			if err := results.OpenLosses(w.Home).Append(end.lost); err != nil {
				w.claim.release()
				return ended{requeue: w.rest(), err: err}
			}
		}
		if len(end.requeue) > 0 && failure.Retryable() {
			w.emit(Event{Type: "warning", Batch: w.claim.batch.ID, Model: w.claim.batch.Model.ID, Message: message + "; trying again"})
		}
	}
	end.err = w.claim.drop()
	return end
}

// whyLost is what the trainer said of the first of the lost jobs.
func (w *watch) whyLost() string {
	for _, j := range w.claim.batch.Jobs {
		if why, ok := w.lost[j.ID]; ok {
			return why
		}
	}
	return ""
}

// explain turns the end of a trainer that left jobs undone into a failure.
func explain(exit job.Exit, unknown error) (job.Failure, string) {
	with := func(s string) string {
		if exit.Detail != "" {
			return s + ": " + exit.Detail
		}
		return s
	}
	switch {
	case unknown != nil:
		return job.FailureInfra, "it could not be told how the trainer ended: " + unknown.Error()
	case exit.TimedOut:
		return job.FailureTimeout, with("the batch ran past its time limit")
	case exit.OOMKilled:
		return job.FailureOOM, with("killed for using more memory than it may")
	case exit.Stopped:
		return job.FailureInfra, with("stopped from outside")
	case exit.Signal != 0:
		return job.FailureInfra, with(fmt.Sprintf("the trainer was killed by signal %d (%s)", exit.Signal, syscall.Signal(exit.Signal)))
	case exit.Code == job.ExitInput:
		return job.FailureInput, with("the trainer refused its input (exit 65)")
	case exit.Code == job.ExitAgain:
		return job.FailureInfra, with("the trainer asked to be started again (exit 75)")
	case exit.Code == job.ExitOK:
		return job.FailureTrainer, with("the trainer ended without an outcome for this job, although it reported success")
	}
	return job.FailureTrainer, with(fmt.Sprintf("the trainer ended with exit code %d and without an outcome for this job", exit.Code))
}

// rest lists the jobs of the batch without an outcome, in the batch's order.
func (w *watch) rest() []job.ID {
	var rest []job.ID
	for _, j := range w.claim.batch.Jobs {
		if !w.seen[j.ID] {
			rest = append(rest, j.ID)
		}
	}
	return rest
}
