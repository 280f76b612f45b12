package runner

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"bench/internal/hostile"
	"bench/runner/job"
	"bench/scoring/results"
)

// Bounds on what a trainer may write: it may be running somebody else's code.
const (
	maxOutcomeBytes     = 8 << 20
	maxPredictionsBytes = 512 << 20
	maxEventLine        = 1 << 20
	logTailBytes        = 256 << 10
)

// pollEvery is how often a running batch's out folder is looked at.
const pollEvery = 200 * time.Millisecond

// takeOver collects what a batch of an earlier bench has finished and attaches
// to it if it still runs. A nil handle means that it has ended; its folder is
// gone then. One that cannot be told about is an error if this run needs its
// jobs, and left alone if not.
func (x *run) takeOver(ctx context.Context, c *claim) (Handle, error) {
	e, err := x.Executor(c.executor)
	if err == nil {
		var h Handle
		if h, err = attach(ctx, e, c); err == nil {
			where := h.Where()
			x.emit(Event{Type: "attach", Batch: c.batch.ID, Model: c.batch.Model.ID, Attempt: c.attempt, Where: &where, Total: len(c.batch.Jobs), Message: "goes on since an earlier bench"})
			return h, nil
		}
	}
	if !errors.Is(err, ErrNotFound) {
		// Not knowing whether it runs, neither start it again nor throw it away.
		c.release()
		err = fmt.Errorf("batch %s of an earlier run: %w", c.batch.ID.Short(), err)
		for id := range c.specs {
			if x.jobs[id] != nil {
				return nil, err
			}
		}
		x.emit(Event{Type: "warning", Batch: c.batch.ID, Model: c.batch.Model.ID, Message: err.Error() + "; it is left as it is"})
		return nil, nil
	}
	w := &watch{run: x, claim: c, old: true}
	w.begun, w.where = c.begun()
	err = w.harvest(func(e ended) {
		if !x.again(e.outcome) {
			e.batch = c.batch.ID
			x.book(e)
		}
	})
	if err == nil {
		lost := append(w.replacing, w.cutOff(lastSign(c), "the batch had ended when it was looked for")...)
		if err = results.OpenLosses(x.Home).Append(lost); err == nil {
			x.lose(lost, true)
		}
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return nil, c.drop()
}

// startGrace is how long a batch that an earlier bench was starting when it died
// is looked for: what it started may not have shown itself yet.
const startGrace = 2 * time.Second

func attach(ctx context.Context, e Executor, c *claim) (Handle, error) {
	at, where := c.begun()
	starting := !at.IsZero() && where.Executor == ""
	for end := time.Now().Add(startGrace); ; {
		h, err := e.Attach(ctx, c.batch, c.dir)
		if !errors.Is(err, ErrNotFound) || !starting || time.Now().After(end) {
			return h, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

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
			w.begun = at
		}
	}
	end := w.follow(ctx, h, func(e ended) { e.batch = c.batch.ID; reports <- e })
	end.lost = append(end.lost, w.replacing...)
	end.batch, end.executor, end.model = c.batch.ID, c.executor, c.batch.Model.ID+"@"+c.batch.Model.Revision
	x.emit(Event{Type: "end", Batch: c.batch.ID, Model: c.batch.Model.ID})
	reports <- end
}

func (w *watch) follow(ctx context.Context, h Handle, report func(ended)) ended {
	c := w.claim
	attached := h != nil
	if !attached {
		e, err := w.Executor(c.executor)
		if err == nil {
			err = c.start(w.begun, Where{})
		}
		if err == nil {
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
		case r := <-done:
			w.whereabouts(h)
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
			return w.finish(r.exit, r.err, report)
		}
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

// harvest stores every job whose outcome has appeared since the last look, and
// reports them when they are on disk.
func (w *watch) harvest(report func(ended)) error {
	var all []ended
	stored := false
	for _, j := range w.claim.batch.Jobs {
		if _, again := w.lost[j.ID]; again || w.seen[j.ID] {
			continue
		}
		b, err := hostile.ReadFile(w.claim.dir.Out(), filepath.Join(string(j.ID), "outcome.json"), maxOutcomeBytes)
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
	f, err := hostile.Open(w.claim.dir.Out(), filepath.Join(string(j.ID), "predictions.jsonl"), maxPredictionsBytes)
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

// trainerEvent is a line of a trainer's stdout, as far as it is looked at.
type trainerEvent struct {
	Event   string   `json:"event"`
	Job     job.ID   `json:"job"`
	Step    int      `json:"step"`
	Loss    *float64 `json:"loss"`
	Message string   `json:"message"`
}

// events reads what the trainer said since the last look. It is for the screen
// and for knowing which job was being worked on; nothing that counts rests on it.
func (w *watch) events() {
	f, err := os.Open(w.claim.dir.Events())
	if err != nil {
		return
	}
	defer f.Close()
	if _, err := f.Seek(w.offset, io.SeekStart); err != nil {
		return
	}
	began := time.Now()
	if w.old && w.offset == 0 { // all that was said while nobody watched
		began = time.Time{}
	}
	in := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil { // a line without its end is read again at the next look
			if errors.Is(err, bufio.ErrBufferFull) {
				w.offset += int64(len(line))
			}
			return
		}
		w.offset += int64(len(line))
		var e trainerEvent
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		spec, known := w.claim.specs[e.Job]
		out := Event{Batch: w.claim.batch.ID, Model: w.claim.batch.Model.ID, Dataset: spec.Dataset, Seed: spec.Seed, Job: e.Job}
		switch {
		case e.Event == "start" && known:
			if w.started == nil {
				w.started = map[job.ID]time.Time{}
			}
			w.current = e.Job
			w.started[e.Job] = began
		case e.Event == "eval" && known:
			out.Type, out.Step, out.Loss = "progress", e.Step, e.Loss
			w.emit(out)
		case e.Event == "warn":
			if !known {
				out.Job = ""
			}
			out.Type, out.Message = "warning", e.Message
			w.emit(out)
		}
	}
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
