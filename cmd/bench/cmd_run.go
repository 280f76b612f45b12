package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bench/datasets"
	"bench/internal/ui"
	"bench/runner"
	"bench/runner/job"
	"bench/scoring"
	"bench/scoring/results"
	"bench/tasks/all"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// runOptions are the flags of bench run.
type runOptions struct {
	selection
	seeds      int
	executor   string
	protocol   string
	set        []string
	batch      string
	device     string
	threads    int
	slots      int
	hosts      hostList
	image      string
	python     string
	memory     string
	gpus       gpuOptions
	cost       costOptions
	timeout    time.Duration
	patience   time.Duration
	slurm      slurmOptions
	kubernetes *kubernetesOptions // nil: not given
	remoteCode bool
	partial    bool
	retry      bool
	metrics    string // address of --metrics
	journal    string // first part of the journal's name; "": run
	// skip says which models are not wanted on which data sets; nil: all are.
	skip func(model, dataset string) bool
	// of is what is said of single models, by name.
	of                  map[string]modelOptions
	budget, modelBudget runner.Budget
	sweep               *sweep // that the run is; nil: it is none
}

// runsCode says whether code of any model's repository may run.
func (o runOptions) runsCode() bool {
	for _, m := range o.of {
		if m.remoteCode != nil && *m.remoteCode {
			return true
		}
	}
	return o.remoteCode
}

func newRun(a *app) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run MODEL…",
		Short: "Fine-tune models on data sets and record how good they are",
		Long: `Fine-tune models on data sets, once for each seed, and record how good they are.

A model is org/name[@revision] of the Hugging Face Hub, a folder (./my-model),
baseline:NAME (majority, ngram, tagger, window: no Python, no container), or
fresh:NAME (tiny, xlmr-base, electra-small: random weights).

What has been trained before is not trained again. An interrupted run is taken
up by the same command.`,
		Example: `  bench run baseline:ngram --suite sample
  bench run fresh:tiny --suite sample --protocol smoke
  bench run org/model --dataset scala-da,dane --seeds 3`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.run(c.Context(), args, o) },
	}
	o.addFlags(c.Flags())
	return c
}

// addFlags adds what every command that trains can be told.
func (o *runOptions) addFlags(f *pflag.FlagSet) {
	o.selection.addFlags(f)
	f.IntVar(&o.seeds, "seeds", job.DefaultSeeds, "seeds for each data set")
	f.StringVar(&o.executor, "executor", "auto", "where models train: auto, docker, process (no sandbox), slurm, kubernetes")
	f.StringVar(&o.protocol, "protocol", "paper", "hyper-parameters and scoring rules: "+protocolNames())
	f.StringArrayVar(&o.set, "set", nil, "override one hyper-parameter, key=value (repeatable)")
	f.StringVar(&o.batch, "batch", "seed", "what one container or process runs: one model's jobs (model), those of one seed (seed), one job (job)")
	f.StringVar(&o.device, "device", "auto", "auto, cpu, cuda")
	f.IntVar(&o.threads, "threads", 0, "CPU threads of each batch (0: all there are, shared by --slots)")
	f.IntVar(&o.slots, "slots", 0, "batches at a time, on each host (0: one for each GPU; one without GPUs; slurm and kubernetes: 100)")
	f.Var(&o.hosts, "host", hostUsage)
	f.StringVar(&o.image, "image", "", "container image with a trainer (default: the one that bench image build makes); for slurm a file (.sif, .sqsh, .tar)")
	f.StringVar(&o.python, "python", "", "Python with torch and transformers for --executor process or slurm (default: an environment of its own)")
	o.gpus.addFlags(f)
	o.cost.addFlags(f)
	f.StringVar(&o.memory, "memory", "", "memory limit of each batch, such as 8g")
	f.DurationVar(&o.timeout, "timeout", 0, "time limit of each batch, such as 6h (0: none)")
	f.DurationVar(&o.patience, "patience", 0, "how long a host that does not answer is waited for before its batches start elsewhere (0: 5m, or 15m as long as no host answers)")
	f.BoolVar(&o.remoteCode, "allow-remote-code", false, "let code from the models' repositories run (in containers only)")
	o.slurm.addFlags(f)
	addKubernetes(f, &o.kubernetes)
	f.BoolVar(&o.partial, "partial", false, "build data sets also where a source cannot be had, smaller, and mark them")
	addMetrics(f, &o.metrics)
	f.BoolVar(&o.retry, "retry", false, "run failed jobs again that failed for good")
}

func protocolNames() string {
	var names []string
	for _, p := range job.Protocols() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

func (o runOptions) validate() error {
	var errs []error
	choice := func(flag, value string, choices ...string) {
		if !slices.Contains(choices, value) {
			errs = append(errs, usage("bench run --help", "--%s %s: choose one of %s", flag, value, strings.Join(choices, ", ")))
		}
	}
	choice("executor", o.executor, "auto", "baseline", "docker", "process", "slurm", "kubernetes")
	choice("batch", o.batch, "seed", "model", "job")
	choice("device", o.device, "auto", "cpu", "cuda")
	if err := o.picking.validate(); err != nil {
		errs = append(errs, err)
	}
	if o.seeds < 1 {
		errs = append(errs, usage("", "--seeds %d: at least one is needed", o.seeds))
	}
	if o.patience < 0 {
		errs = append(errs, usage("such as 2m", "--patience cannot be negative"))
	}
	if o.threads < 0 || o.slots < 0 {
		errs = append(errs, usage("", "--threads and --slots cannot be negative"))
	}
	if o.runsCode() && o.executor == "process" {
		errs = append(errs, usage("use --executor docker", "--allow-remote-code: code from a model's repository is not run outside of a container"))
	}
	if o.image != "" && o.executor == "process" {
		errs = append(errs, usage("", "--image is for --executor docker"))
	}
	if o.python != "" && o.executor == "docker" {
		errs = append(errs, usage("", "--python is for --executor process"))
	}
	errs = append(errs, o.slurm.validate(o)...)
	if err := o.cost.validate(); err != nil {
		errs = append(errs, err)
	}
	if _, err := o.sharing(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.kubernetes.validate(o)...)
	if _, err := parseBytes(o.memory); err != nil {
		errs = append(errs, usage("such as 800m or 16g", "--memory: %w", err))
	}
	return errors.Join(errs...)
}

// prepared is a run that has everything but its start.
type prepared struct {
	*kit
	runner  *runner.Runner
	request runner.Request
}

// prepare makes sure of everything that a run needs before it starts: data sets
// are built, names of models looked up, engines asked for their GPUs.
func (a *app) prepare(ctx context.Context, names []string, o runOptions) (_ *prepared, err error) {
	protocol, err := job.NewProtocol(o.protocol, o.set)
	if err := errors.Join(o.validate(), err); err != nil {
		return nil, err
	}
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	memory, _ := parseBytes(o.memory)
	gpus, _ := o.sharing()
	k := &kit{
		app: a, home: home, hosts: o.hosts, slots: o.slots, gpus: gpus, image: o.image, python: o.python, slurmOptions: o.slurm, kubernetesOptions: o.kubernetes, patience: o.patience,
		limits: runner.Limits{CPUs: float64(o.threads), MemoryBytes: memory, Time: o.timeout},
		log:    func(format string, args ...any) { fmt.Fprintf(a.stderr, "bench: "+format+"\n", args...) },
	}
	if o.device == "cpu" {
		k.limits.GPU = "none"
	}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	sets, err := k.data(ctx, o.selection, o.partial)
	if err != nil {
		return nil, err
	}
	if o.shared() && slices.ContainsFunc(sets, func(d *datasets.Dataset) bool { return d.Kind == datasets.Speed }) {
		return nil, usage("run the task speed by itself, without slots_per_gpu", "speed is measured, and batches are to share GPUs: the times would be those of a busy machine")
	}
	models, err := k.models(ctx, names, o)
	if err != nil {
		return nil, err
	}
	slots, err := k.slotsFor(ctx, models, o)
	if err != nil {
		return nil, err
	}
	return &prepared{
		kit: k,
		runner: &runner.Runner{
			Home: home, Version: version(), Tasks: all.Lookup, Executor: k.executor, Slots: slots, Results: results.Open(home), WattsPerGPU: o.cost.watts,
		},
		request: runner.Request{
			Models: models, Datasets: sets, Protocol: protocol, Seeds: o.seeds, BatchBy: o.batch, Device: o.device, Threads: o.threads, Retry: o.retry, Skip: o.skip,
			Budget: o.budget, ModelBudget: o.modelBudget, Rates: o.cost.rates(),
		},
	}, nil
}

func (a *app) run(ctx context.Context, names []string, o runOptions) error {
	p, err := a.prepare(ctx, names, o)
	if err != nil {
		return err
	}
	defer p.close()
	sets, r := p.request.Datasets, p.runner
	screen := newScreen(a.stdout, a.stderr, a.json, func(dataset string) (scoring.Metric, bool) {
		for _, d := range sets {
			if d.Name == dataset {
				if t, err := all.Lookup(string(d.Kind)); err == nil {
					return t.Info().Metrics[0], true
				}
			}
		}
		return scoring.Metric{}, false
	})
	record, err := openJournal(p.home, cmp.Or(o.journal, "run"), os.Args[1:])
	if err != nil {
		screen.say("note: this run keeps no log: %v", err)
	}
	numbers := newGauges(func() int {
		if hosts := p.pool(); hosts != nil { // they come and go
			return hosts.Room()
		}
		return r.Slots
	})
	if o.metrics != "" {
		at, stop, err := serveMetrics(o.metrics, numbers)
		if err != nil {
			screen.close()
			return errors.Join(err, record.close(runner.Report{}, err))
		}
		defer stop()
		screen.say("metrics are at http://%s/metrics", at)
	}
	p.log = func(format string, args ...any) {
		screen.say(format, args...)
		record.notice(fmt.Sprintf(format, args...))
	}
	var far *progress
	if o.sweep != nil {
		far = newProgress(o.sweep, p.home)
	}
	r.OnEvent = func(e runner.Event) {
		far.event(e)
		record.event(e)
		numbers.event(e)
		screen.event(e)
	}
	unfollow := p.follow(ctx, o.sweep)
	rep, err := r.Run(ctx, p.request)
	unfollow()
	far.close(rep, err)
	screen.close()
	a.conclude(rep, sets, p.request.Protocol, o.cost, r)
	if jerr := record.close(rep, err); jerr != nil {
		fmt.Fprintf(a.stderr, "bench: note: the log of this run is not whole: %v\n", jerr)
	}
	if record != nil {
		fmt.Fprintf(a.stderr, "bench: the log of this run is %s\n", record.path)
	}
	if err != nil {
		return err
	}
	return verdict(rep)
}

// conclude prints the table of a run on stdout and what else there is to say
// on stderr.
func (a *app) conclude(rep runner.Report, sets []*datasets.Dataset, p job.Protocol, cost costOptions, r *runner.Runner) {
	used, lost := cost.rates().Cost(rep.Used), cost.rates().Cost(rep.Lost)
	if a.json {
		json.NewEncoder(a.stdout).Encode(map[string]any{
			"type": "summary", "time": time.Now().UTC().Truncate(time.Millisecond), "jobs": rep.Total, "ran": rep.Ran, "cached": rep.Cached, "failed": rep.Failed, "records": len(rep.Records),
			"wall_seconds": rep.Used.WallSeconds, "gpu_hours": used.GPUHours, "kwh": used.KWh, "estimated_gpu_hours": rep.Used.EstimatedSeconds / 3600, "co2e_kg": used.CO2eKg, "price": used.Price,
			"lost_wall_seconds": rep.Lost.WallSeconds, "lost_gpu_hours": lost.GPUHours, "lost_kwh": lost.KWh, "lost_co2e_kg": lost.CO2eKg, "lost_price": lost.Price,
		})
	} else if len(rep.Records) > 0 {
		fmt.Fprintf(a.stdout, "protocol %s, mean ± 95 %% interval (Student's t over the seeds)\n\n", p.Name)
		fmt.Fprint(a.stdout, table(rep.Records))
	}
	for _, rec := range rep.Records {
		for _, w := range warningsOf(rec) {
			fmt.Fprintf(a.stderr, "bench: note: %s on %s: %s\n", rec.Model.ID, rec.Dataset.Name, w)
		}
	}
	for _, d := range sets {
		if d.Partial != nil {
			fmt.Fprintf(a.stderr, "bench: note: %s is partial (%d source files are missing): its scores are marked, and not comparable with those of the full data set\n", d.Name, len(d.Partial.Missing))
		}
	}
	store := job.Store{Home: r.Home}
	failures := slices.DeleteFunc(slices.Clone(rep.Failures), func(f runner.FailedJob) bool { return f.Unstarted })
	for i, f := range failures {
		if i == 5 {
			fmt.Fprintf(a.stderr, "bench: error: … and %d more failed jobs\n", len(failures)-i)
			break
		}
		fmt.Fprintf(a.stderr, "bench: error: %s on %s, seed %d: %s: %s\n", f.Spec.Model, f.Spec.Dataset, f.Spec.Seed, f.Outcome.Failure, plain(f.Outcome.Message))
		if i == 0 {
			logTail(a.stderr, filepath.Join(store.Dir(f.Spec.ID()), "trainer.log"))
		}
		if h := remedy(f.Outcome); h != "" && (i == 0 || failures[i-1].Outcome.Failure != f.Outcome.Failure) {
			fmt.Fprintln(a.stderr, "bench: hint:", h)
		}
	}
	if rep.Failed < rep.Total { // else verdict returns them
		explain(errors.Join(rep.ModelErrors...), a.stderr)
	}
	if rep.Ran == 0 && rep.Total > 0 && rep.Cached == rep.Total {
		fmt.Fprintf(a.stderr, "bench: nothing to do: all %d jobs had ended before\n", rep.Total)
	}
	if rep.Ran > 0 {
		fmt.Fprintf(a.stderr, "bench: this run used %s\n", cost.usedLine(rep.Used))
	}
	if rep.Lost.GPUSeconds > 0 {
		fmt.Fprintf(a.stderr, "bench: attempts that were lost, and tried again, used %s beside that\n", cost.usedLine(rep.Lost))
	}
	if len(rep.Records) > 0 {
		fmt.Fprintf(a.stderr, "bench: records are in %s\n", r.Results.Path())
	}
}

// verdict turns a finished run into an exit code.
func verdict(rep runner.Report) error {
	switch {
	case rep.Failed == 0:
		return nil
	case len(rep.ModelErrors) > 0 && rep.Failed == rep.Total:
		return errors.Join(rep.ModelErrors...)
	case rep.Failed == rep.Total:
		return codeError(exitFailed)
	}
	return codeError(exitSomeFailed)
}

// table shows one row for each record: all metrics of its task side by side.
func table(records []results.Record) string {
	header := []string{"model", "task", "data set", "score", "", "seeds", "failed"}
	var rows [][]string
	for _, rec := range records {
		t, err := all.Lookup(rec.Dataset.Task)
		if err != nil {
			continue
		}
		var cells []string
		for _, m := range t.Info().Metrics {
			cells = append(cells, m.Name+" "+showSummary(rec.Summary[m.Name]))
		}
		for len(cells) < 2 {
			cells = append(cells, "")
		}
		name := rec.Dataset.Name
		if rec.Dataset.Partial {
			name += " (partial)"
		}
		rows = append(rows, []string{
			rec.Model.ID, rec.Dataset.Task, name, cells[0], cells[1], fmt.Sprint(len(rec.Replicates)), fmt.Sprint(len(rec.Failures)),
		})
	}
	return ui.Table(header, rows)
}

// showSummary is "71.30 ± 1.20".
func showSummary(s results.Summary) string {
	if s.Mean.Undefined != "" {
		return "—"
	}
	mean := fmt.Sprintf("%.2f", s.Mean.X)
	if s.HalfWidthT.Undefined != "" {
		return mean
	}
	return fmt.Sprintf("%s ± %.2f", mean, s.HalfWidthT.X)
}

// warningsOf lists the warnings of a record, each once, in the order of its metrics.
func warningsOf(rec results.Record) []string {
	var out []string
	t, err := all.Lookup(rec.Dataset.Task)
	if err != nil {
		return nil
	}
	for _, m := range t.Info().Metrics {
		for _, w := range rec.Summary[m.Name].Warnings {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// remedy says what can be done about a failed job.
func remedy(o job.Outcome) string {
	switch o.Failure {
	case job.FailureOOM:
		return "give it more memory (--memory), or fewer batches at a time (--slots 1)"
	case job.FailureNaN:
		return "the model diverges in fp32 too; a lower rate may help: --set learning_rate=1e-5 (another protocol, not ranked with this one)"
	case job.FailureTimeout:
		return "raise --timeout"
	case job.FailureInput:
		return "check the model's files and the data set, then run the same command again"
	case job.FailureTrainer:
		return "a fault of the trainer: the log has the traceback; please report it"
	case job.FailureInfra:
		return "run the same command again: finished seeds are kept"
	}
	return ""
}
