package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"bench/datasets"
	"bench/internal/atomicfile"
	"bench/runner/job"
	"bench/runner/schedule"
	"bench/scoring"
	"bench/scoring/results"
	"bench/tasks"

	"golang.org/x/sync/errgroup"
)

// Model is one model of a run.
type Model struct {
	ID       string // as named by the user, without @revision
	Revision string // commit of the Hub, or content digest
	Kind     string // hub, local, fresh, baseline
	// Licence for the record, as its card names it; "": not known.
	Licence string
	Fresh   string // see job.Model
	// RemoteCode allows code of the model's repository to run.
	RemoteCode bool
	// Trainer is the digest of the program that will train it.
	Trainer string
	// Executor names the executor for it; see Runner.Executor.
	Executor string
	// Priority: models of a higher one are trained first.
	Priority int
	// Snapshot makes the model's files available on this machine and returns
	// their folder. It is called once, and only when there is something to
	// train. nil: there are no files.
	Snapshot func(context.Context) (string, error)

	proven bool          // a job of it has ended well
	spent  results.Usage // by jobs of this request
}

// Request is what a run is asked for.
type Request struct {
	Models   []*Model
	Datasets []*datasets.Dataset
	Protocol job.Protocol
	Seeds    int // replicates i = 0 … Seeds−1, with seeds job.FirstSeed + i
	// BatchBy groups jobs into batches: model, seed (one model and one seed: the default), job.
	BatchBy string
	Device  string // auto, cpu, cuda
	Threads int    // for each batch; 0: all
	// Retry runs jobs again that failed for good.
	Retry bool
	// Skip says which models are not wanted on which data sets. nil: all are.
	Skip func(model, dataset string) bool
	// Budget bounds what all jobs of the request may take together, those that
	// ended in earlier runs included, and ModelBudget what those of each model
	// may; Rates say what usage costs. What is beyond is not started.
	Budget, ModelBudget Budget
	Rates               results.Rates
}

// Runner runs requests. All fields must be set, but those that say what 0 is.
type Runner struct {
	Home    string
	Version string // of bench, for records
	Tasks   func(name string) (tasks.Task, error)
	// Executor returns an executor by name. It is called when it is needed first.
	Executor func(name string) (Executor, error)
	Slots    int // batches at a time
	// WattsPerGPU is taken for the power of a GPU whose energy could not be
	// measured; 0: results.WattsPerGPU.
	WattsPerGPU float64
	Results     *results.Log
	// OnEvent is called for everything that happens, one call at a time.
	OnEvent func(Event)

	events sync.Mutex
}

// Event is something that happened. Its JSON form is a line of bench run --json.
type Event struct {
	Type    string         `json:"type"` // plan, attach, start, progress, job, lost, end, record, warning
	Time    time.Time      `json:"time"`
	Model   string         `json:"model,omitempty"`
	Dataset string         `json:"dataset,omitempty"`
	Seed    int            `json:"seed,omitempty"`
	Job     job.ID         `json:"job,omitempty"`
	Batch   job.ID         `json:"batch,omitempty"`
	Attempt int            `json:"attempt,omitempty"`
	Where   *Where         `json:"where,omitempty"`
	State   job.State      `json:"state,omitempty"`
	Failure job.Failure    `json:"failure,omitempty"`
	Message string         `json:"message,omitempty"`
	Step    int            `json:"step,omitempty"`
	Loss    *float64       `json:"loss,omitempty"`
	Seconds float64        `json:"seconds,omitempty"`
	Scores  scoring.Scores `json:"scores,omitempty"`
	Done    int            `json:"done,omitempty"`  // jobs of this run that have ended
	Total   int            `json:"total,omitempty"` // jobs of this run
	Log     string         `json:"log,omitempty"`   // file
	// Used is what was used: of a job by the attempt that counts, of a lost attempt
	// by that, of the plan by all jobs of the request so far.
	Used *results.Usage `json:"used,omitempty"`
	// Left is what the jobs of this run that have not ended will take of one slot, in
	// seconds; 0: it is not known.
	Left   float64         `json:"left,omitempty"`
	Record *results.Record `json:"record,omitempty"`
}

// Report is the result of a run.
type Report struct {
	Total    int // jobs asked for
	Ran      int // ended in this run, ok or failed
	Cached   int // ended before
	Failed   int // of Total
	Attached int // batches taken over from an earlier bench
	Records  []results.Record
	// ModelErrors tells of models whose files could not be had.
	ModelErrors []error
	// Used is what the jobs that ended in this run took, failed ones too; Lost what
	// attempts took beside that were cut off, or whose outcome was replaced.
	Used, Lost results.Usage
	// Spent is what all jobs of the request took, in earlier runs and in lost
	// attempts too.
	Spent results.Usage
	// Failures holds the outcomes of all failed jobs, in the order of the plan.
	Failures []FailedJob
}

// FailedJob is a job that ended without predictions.
type FailedJob struct {
	Spec    job.Spec
	Outcome job.Outcome
	// Unstarted: its model is one of ModelErrors. Nothing of it is stored.
	Unstarted bool
}

// maxAttempts bounds how often a job is started when it fails for reasons that
// lie outside of it (job.Failure.Retryable).
const maxAttempts = 3

// tickEvery is how long a new record waits for others that are appended with it,
// and how often the executors are asked for room.
const tickEvery = 500 * time.Millisecond

// run is the state of one Run. Only the goroutine of Run touches it.
type run struct {
	*Runner
	req   Request
	store job.Store
	home  home
	cells []*cell
	jobs  map[job.ID]*planned
	order []*planned                          // as planned, seed by seed within a model
	ended int                                 // jobs of order that are done
	used  results.Usage                       // by jobs that ended in this run
	log   map[results.Identity]results.Record // newest records; nil: not read yet
	spent results.Usage                       // by all jobs of the request
	// wasted is the part of spent that was lost in this run; losses are those that
	// are in spent.
	wasted results.Usage
	losses map[results.LossKey]bool
	left   float64 // see Event.Left
	dispatch
	estimates schedule.Estimates
	stopped   []error  // *BudgetError
	trainers  sync.Map // images that hold a trainer, as has been seen
	// unwritten are records that flush has still to append.
	unwritten []results.Record
	logSize   int64 // of the log, as far as this run has looked at it
}

func (r *Runner) newRun(req Request) *run {
	disk := &atomicfile.Group{Dir: r.Home}
	return &run{Runner: r, req: req, store: job.Store{Home: r.Home, Disk: disk}, home: newHome(r.Home, disk), jobs: map[job.ID]*planned{}, losses: map[results.LossKey]bool{}}
}

// planned is one job of the request.
type planned struct {
	spec    job.Spec
	id      job.ID
	order   int  // place in run.order
	stopped bool // not to be started
	model   *Model
	cell    *cell
	at      int // replicate
	done    bool
	outcome *job.Outcome
	scores  scoring.Scores // nil: not scored in this run
	attempt int
	ran     bool
	unsaved bool          // ended only as far as this run is concerned
	lost    results.Usage // by attempts without a result
}

// cell is one model on one data set.
type cell struct {
	model *Model
	data  *datasets.Dataset
	tests *tests // of data, shared by all models
	task  tasks.Task
	jobs  []*planned
	left  int // jobs that have not ended
	// record is the one in the log, or on its way there; nil: not made in this run.
	record *results.Record
}

// Run sees every job of req through and returns when all have ended. A failed
// job is part of the report, not an error. Errors are: a precondition that is
// not met (*PreconditionError), ctx cancelled (batches may go on where their
// executor lets them; the same Run later takes them over), and what keeps the
// runner from storing results.
func (r *Runner) Run(ctx context.Context, req Request) (Report, error) {
	x := r.newRun(req)
	defer x.home.dropSpares()
	if err := x.plan(); err != nil {
		return Report{}, err
	}
	if err := x.room(); err != nil {
		return Report{}, err
	}
	report := Report{Total: len(x.order), Cached: x.ended}
	before := x.spent
	x.expect()
	x.emit(Event{Type: "plan", Done: report.Cached, Total: report.Total, Used: &before, Left: x.left})
	err := x.loop(ctx, &report)
	for _, c := range x.cells {
		if c.left > 0 || slices.ContainsFunc(c.jobs, func(p *planned) bool { return p.unsaved }) {
			continue
		}
		rec, rerr := x.record(c)
		if rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		report.Records = append(report.Records, rec)
	}
	err = errors.Join(err, x.flush())
	report.Used, report.Lost, report.Spent = x.used, x.wasted, x.spent
	for _, p := range x.order {
		if p.ran {
			report.Ran++
		}
		if p.done && p.outcome.State != job.OK {
			report.Failed++
			report.Failures = append(report.Failures, FailedJob{p.spec, *p.outcome, p.unsaved})
		}
	}
	return report, err
}

// plan lists the jobs, seed by seed within a model, so that an interrupted run
// has the same seeds of all data sets; and looks up which are done.
func (x *run) plan() error {
	if x.req.Seeds < 1 {
		return fmt.Errorf("a run needs at least one seed, not %d", x.req.Seeds)
	}
	tested := map[*datasets.Dataset]*tests{}
	for _, d := range x.req.Datasets {
		tested[d] = &tests{data: d}
	}
	for _, m := range x.req.Models {
		m.proven, m.spent = false, results.Usage{}
		var cells []*cell
		for _, d := range x.req.Datasets {
			if x.req.Skip != nil && x.req.Skip(m.ID, d.Name) {
				continue
			}
			t, err := x.Tasks(string(d.Kind))
			if err != nil {
				return fmt.Errorf("data set %s: %w", d.Name, err)
			}
			cells = append(cells, &cell{model: m, data: d, tests: tested[d], task: t})
		}
		for i := range x.req.Seeds {
			for _, c := range cells {
				spec := job.Spec{
					Schema: job.SpecSchema, Task: c.task.Info().Name, TaskVersion: c.task.Info().Version,
					Dataset: c.data.Name, DatasetDigest: c.data.Digest, Model: m.ID, ModelRevision: m.Revision,
					Protocol: x.req.Protocol.Name, Hyperparameters: x.req.Protocol.Hyperparameters,
					Trainer: m.Trainer, RemoteCode: m.RemoteCode, Seed: job.FirstSeed + i,
				}
				id := spec.ID()
				if _, ok := x.jobs[id]; ok {
					return fmt.Errorf("%s on %s is asked for twice", m.ID, c.data.Name)
				}
				p := &planned{spec: spec, id: id, order: len(x.order), model: m, cell: c, at: i}
				c.left++
				c.jobs = append(c.jobs, p)
				x.jobs[id] = p
				x.order = append(x.order, p)
			}
		}
		x.cells = append(x.cells, cells...)
	}
	return x.lookUp()
}

// lookUp finds out which jobs have ended that were not known to.
func (x *run) lookUp() error {
	type found struct {
		outcome job.Outcome
		ended   bool
	}
	all := make([]found, len(x.order))
	var group errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() error {
			for i := w; i < len(x.order); i += workers {
				if x.order[i].done {
					continue
				}
				o, ended, err := x.store.Outcome(x.order[i].id)
				if err != nil {
					return err
				}
				all[i] = found{o, ended && !x.again(o)}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, f := range all {
		p := x.order[i]
		if f.ended {
			x.found(p, f.outcome)
		} else if f.outcome.State == job.Failed {
			x.lose([]results.Loss{superseded(p.spec, f.outcome)}, false) // when it is replaced; it is spent
		}
	}
	return x.lostBefore()
}

// again says whether a job that has ended is to run once more. What the job
// itself determines is final; memory, disk and engines can be another matter
// next time.
func (x *run) again(o job.Outcome) bool {
	switch {
	case o.State == job.OK:
		return false
	case x.req.Retry:
		return true
	}
	return o.Failure != job.FailureNaN && o.Failure != job.FailureUnsupported
}

// batch is a batch of jobs of one model.
func (x *run) batch(m *Model, jobs []*planned) job.Batch {
	b := job.Batch{
		Version:         job.ProtocolVersion,
		Model:           job.Model{ID: m.ID, Revision: m.Revision, Fresh: m.Fresh, RemoteCode: m.RemoteCode},
		Hyperparameters: x.req.Protocol.Hyperparameters, Device: x.req.Device, Threads: x.req.Threads,
	}
	var ids []job.ID
	for _, p := range jobs {
		ids = append(ids, p.id)
		b.Jobs = append(b.Jobs, job.Job{ID: p.id, Dataset: p.spec.Dataset, Seed: p.spec.Seed})
		if slices.ContainsFunc(b.Datasets, func(d job.Dataset) bool { return d.Name == p.spec.Dataset }) {
			continue
		}
		b.Datasets = append(b.Datasets, job.Dataset{
			Name: p.cell.data.Name, Task: p.spec.Task, Head: p.cell.task.Info().Head, Labels: list(p.cell.task.Labels(p.cell.data.Meta)),
			Languages: list(p.cell.data.Languages), Dir: "data/" + p.cell.data.Name,
		})
	}
	b.ID = job.BatchID(ids)
	return b
}

// list makes an absent list an empty one: the protocol has lists, not null.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// claim makes the folder of a batch, ready to be started.
func (x *run) claim(ctx context.Context, b job.Batch) (*claim, error) {
	specs := map[job.ID]job.Spec{}
	attempt := 0
	var m *Model
	data := map[string]*datasets.Dataset{}
	for _, j := range b.Jobs {
		p := x.jobs[j.ID]
		p.attempt++
		attempt = max(attempt, p.attempt)
		specs[j.ID], m, data[j.Dataset] = p.spec, p.model, p.cell.data
	}
	if m.Snapshot != nil {
		path, err := m.Snapshot(ctx)
		if err != nil {
			return nil, &modelError{m, err}
		}
		b.Model.Path = path
	}
	expected := 0.0
	for _, j := range b.Jobs {
		expected += x.cost(x.jobs[j.ID])
	}
	c, err := x.home.create(b, specs, m.Executor, attempt, expected, func(d job.Dir) error {
		if err := x.missing(specs); err != nil {
			return err
		}
		return x.home.writeInput(d, b, data)
	})
	if err == nil {
		c.data = data
	}
	return c, err
}

// missing returns errClaimed if one of the jobs has ended since it was looked
// up: another process may have run it and given up its claim meanwhile. It is
// to be called with the claim in hand, since outcomes are stored before claims
// are given up.
func (x *run) missing(specs map[job.ID]job.Spec) error {
	for id := range specs {
		x.store.Fresh(id)
		o, ended, err := x.store.Outcome(id)
		if err != nil {
			return err
		}
		if ended && !x.again(o) {
			return fmt.Errorf("job %s %w", id.Short(), errClaimed)
		}
	}
	return nil
}

func (x *run) emit(e Event) {
	x.events.Lock()
	defer x.events.Unlock()
	e.Time = time.Now().UTC().Truncate(time.Millisecond)
	x.OnEvent(e)
}
