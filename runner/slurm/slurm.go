// Package slurm runs trainers as jobs of a Slurm cluster: one sbatch for one
// batch. The cluster's scheduler decides where and when; bench waits.
//
// The folder of a batch must lie on a file system that the cluster's nodes see
// under the same name, as the home folders of clusters do. Nothing else leads
// from a node to bench: no port, no agent. The batch script writes a result
// file when the trainer has ended, and that is the best witness; Slurm is asked
// for what the script could not tell: that it was killed, and why.
//
// A batch is submitted under a name that is written down first. So it is found
// again when bench dies at any instant, and a batch is never submitted twice.
package slurm

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bench/internal/hostile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

// Name is what records call this executor.
const Name = "slurm"

// Options of an executor.
type Options struct {
	// Site is where the cluster is reached.
	Site Site
	// Partition and Account are those of sbatch; empty: the site's defaults.
	Partition, Account string
	// Extra are further options of sbatch, a word each, such as --qos=high or
	// --gpus=a100:1. They come after those that follow from Limits, and so win.
	Extra []string
	// Limits of each batch, as requests: CPUs, memory and time are what Slurm
	// is asked for and enforces; 0 leaves each to the partition's default. Time is rounded up to minutes.
	Limits   runner.Limits
	OutBytes int64 // what a batch may write to its out folder; 0: 4 GiB
	// Array is how many batches may be handed in by one call of sbatch, as a job
	// array; below 2: each is a job of its own.
	Array int

	// Program makes what runs on the nodes. It is called when the first batch
	// starts; nil: batches can be attached to and stopped only.
	Program func(context.Context) (Program, error)

	// Poll is the time between two questions to Slurm, for all batches
	// together; 0: 10 s. The batches' files are looked at more often.
	Poll time.Duration
	// Patience is how long a submission is tried again when the controller does
	// not answer, or takes no more jobs of this user; 0: 15 min.
	Patience time.Duration
	// Notice is told, in a sentence, of what a person may want to know. May be nil.
	Notice func(string)
}

// Program is what a batch runs on its node: a trainer as a plain process of the
// job, or a container.
type Program struct {
	// Python and Trainer run the trainer as a process of the job:
	//	Python -m bench_trainer --batch IN/batch.json --out OUT
	// with Trainer as PYTHONPATH. Both are paths that the nodes see.
	Python, Trainer string
	// Command, if set, is used instead of Python -m bench_trainer.
	Command []string
	// Env holds further variables of the process, NAME=value.
	Env []string

	// Image, if its File is set, is run instead, in a container. Its entrypoint
	// is the trainer. A node that has none of its container programs does not
	// run the batch.
	Image Image
}

// New returns an executor. It asks Slurm nothing; see Executor.Check.
func New(o Options) *Executor {
	o.Poll = cmp.Or(o.Poll, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 15*time.Minute)
	o.OutBytes = cmp.Or(o.OutBytes, kept.MaxOut)
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	return &Executor{o: o, stations: map[Site]*station{}}
}

// Executor implements runner.Executor.
type Executor struct {
	o Options

	mu       sync.Mutex
	stations map[Site]*station

	asking sync.Mutex
	place  *place // nil: not asked yet

	making  sync.Mutex
	program *Program // nil: not made yet
}

// place is what Check found out about the cluster.
type place struct {
	host string // CLUSTER/PARTITION
	gpus bool   // the partition has nodes with GPUs
}

// Check finds out whether batches can be submitted: that Slurm answers and has
// the partition. What else is wrong, sbatch says of the first batch. The error is a
// *runner.PreconditionError, but for ctx's own.
func (e *Executor) Check(ctx context.Context) error {
	_, err := e.look(ctx)
	return err
}

// Describe says, in a line for people, what there is for batches: the cluster,
// the partition, its nodes and GPUs, and container programs. The error is Check's.
func (e *Executor) Describe(ctx context.Context) (string, error) {
	at, err := e.at(e.o.Site)
	if err != nil {
		return "", err
	}
	p, err := e.look(ctx)
	if err != nil {
		return "", err
	}
	out, err := at.cluster.run(ctx, call{argv: []string{"sinfo", "--noheader", "--format=%P|%D|%T|%c|%m|%G"}})
	if err != nil {
		return "", at.precondition(err)
	}
	_, name, _ := strings.Cut(p.host, "/")
	var nodes []string
	for line := range strings.Lines(out) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 6 && strings.TrimSuffix(f[0], "*") == name {
			nodes = append(nodes, fmt.Sprintf("%s %s (%s CPUs, %s MB, %s)", f[1], f[2], f[3], f[4], strings.Replace(f[5], "(null)", "no GPU", 1)))
		}
	}
	programs := "none"
	out, err = at.cluster.run(ctx, call{argv: []string{"bash", "-c", `for p in "$@"; do command -v "$p" >/dev/null && echo "$p"; done; srun --help | grep -q -- --container-image && echo pyxis; true`, "bash", "apptainer", "singularity", "podman-hpc", "podman"}})
	if err == nil && out != "" {
		programs = strings.Join(strings.Fields(out), ", ")
	}
	return fmt.Sprintf("%s: nodes: %s; container programs on the login node: %s", p.host, strings.Join(nodes, ", "), programs), nil
}

// checkTimeout bounds the first question to Slurm: people wait for the answer.
// Behind ssh, which gives up on a machine that does not answer by itself, it may
// take longer.
const (
	checkTimeout    = 9 * time.Second
	farCheckTimeout = 40 * time.Second
)

// look asks about the cluster, once.
func (e *Executor) look(ctx context.Context) (*place, error) {
	at, err := e.at(e.o.Site)
	if err != nil {
		return nil, err
	}
	e.asking.Lock()
	defer e.asking.Unlock()
	if e.place != nil {
		return e.place, nil
	}
	if conf := os.Getenv("SLURM_CONF"); at.Host == "" && conf != "" && !exists(conf) { // Slurm's commands wait a minute for it
		return nil, &runner.PreconditionError{What: "SLURM_CONF names " + conf + ", which is not there", Hint: "point SLURM_CONF at the cluster's slurm.conf, or unset it where Slurm knows where that is"}
	}
	limit := checkTimeout
	if at.Host != "" {
		limit = farCheckTimeout
	}
	quick, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all, err := at.cluster.partitions(quick)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, at.precondition(err)
	}
	var names []string
	i := -1
	for n, p := range all {
		names = append(names, p.name)
		if p.name == e.o.Partition || e.o.Partition == "" && p.isDefault {
			i = n
		}
	}
	hint := "choose one with --slurm-partition: " + strings.Join(names, ", ")
	switch {
	case i < 0 && e.o.Partition == "":
		if !slices.ContainsFunc(e.o.Extra, func(o string) bool { return strings.HasPrefix(o, "--partition") || strings.HasPrefix(o, "-p") }) {
			return nil, &runner.PreconditionError{What: "this Slurm has no default partition", Hint: hint}
		}
		e.place = &place{host: cmp.Or(at.cluster.name(ctx), "slurm"), gpus: slices.ContainsFunc(all, func(p partition) bool { return p.gpus })}
		return e.place, nil
	case i < 0:
		return nil, &runner.PreconditionError{What: fmt.Sprintf("this Slurm has no partition %s", e.o.Partition), Hint: hint}
	case !all[i].up:
		return nil, &runner.PreconditionError{What: fmt.Sprintf("Slurm's partition %s is down", all[i].name), Hint: hint}
	}
	e.place = &place{host: cmp.Or(at.cluster.name(ctx), "slurm") + "/" + all[i].name, gpus: all[i].gpus}
	return e.place, nil
}

// wantsGPU says whether a batch is to get a GPU.
func (e *Executor) wantsGPU(p place, b job.Batch) bool {
	return b.Device == "cuda" || p.gpus && b.Device != "cpu" && e.o.Limits.GPU != "none"
}

// request are the options of sbatch that say what a batch needs.
func (e *Executor) request(p place, b job.Batch) []string {
	o := []string{"--nodes=1", "--ntasks=1"}
	if e.o.Partition != "" {
		o = append(o, "--partition="+e.o.Partition)
	}
	if e.o.Account != "" {
		o = append(o, "--account="+e.o.Account)
	}
	if n := max(b.Threads, int(math.Ceil(e.o.Limits.CPUs))); n > 0 {
		o = append(o, fmt.Sprintf("--cpus-per-task=%d", n))
	}
	if e.o.Limits.MemoryBytes > 0 {
		o = append(o, fmt.Sprintf("--mem=%dM", (e.o.Limits.MemoryBytes+1<<20-1)>>20))
	}
	if e.o.Limits.Time > 0 {
		o = append(o, fmt.Sprintf("--time=%d", int64(math.Ceil(e.o.Limits.Time.Minutes()))))
	}
	own := slices.ContainsFunc(e.o.Extra, func(x string) bool {
		return strings.HasPrefix(x, "--gres") || strings.HasPrefix(x, "--gpus") || strings.HasPrefix(x, "-G")
	})
	if e.wantsGPU(p, b) && !own {
		o = append(o, "--gres=gpu:1")
	}
	return append(o, e.o.Extra...)
}

// record is executor.json: what a later bench needs to find the job.
type record struct {
	Schema int    `json:"schema"`
	Batch  job.ID `json:"batch"`
	Run    string `json:"run"`  // new for each start
	Name   string `json:"name"` // of this start, and of the job in Slurm if there is no Array
	// Array is the name of the job array whose task Task this start is; "": none.
	Array string `json:"array,omitempty"`
	Task  int    `json:"task,omitempty"`
	// Job is its number. Empty: it is being submitted, or bench died over that.
	Job   string       `json:"job,omitempty"`
	Where runner.Where `json:"where"`
	// Of a cluster that is reached by ssh: where it is, and how long log and
	// events were when this start began.
	Site       Site  `json:"site,omitzero"`
	LogFrom    int64 `json:"log_from,omitempty"`
	EventsFrom int64 `json:"events_from,omitempty"`
}

const recordSchema = 1

// jobName is what Slurm calls the job.
func (r record) jobName() string { return cmp.Or(r.Array, r.Name) }

// number makes of the number that Slurm knows for the job's name that of this start.
func (r record) number(id string) string {
	if r.Array == "" {
		return id
	}
	return fmt.Sprintf("%s_%d", id, r.Task)
}

// Start implements runner.Executor. When the batch has ended already, Start
// submits it again; the log and the events go on at their ends.
func (e *Executor) Start(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	d, err := kept.Absolute(d)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(own(d), 0o700); err != nil {
		return nil, err
	}
	held, err := waitLock(ctx, lockFile(d))
	if err != nil {
		return nil, err
	}
	defer held.Close()
	switch h, err := e.found(ctx, b, d); {
	case errors.Is(err, runner.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		if over, err := h.over(ctx); err != nil {
			return nil, err
		} else if !over {
			return h, nil
		}
	}
	h, err := e.launch(ctx, b, d, held)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// launch prepares the folder of this start and submits the batch.
func (e *Executor) launch(ctx context.Context, b job.Batch, d job.Dir, held *os.File) (_ *handle, err error) {
	at, err := e.at(e.o.Site)
	if err != nil {
		return nil, err
	}
	p, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	what, err := e.make(ctx)
	if err != nil {
		return nil, err
	}
	if b.Model.RemoteCode && what.Image.File == "" {
		return nil, &runner.PreconditionError{
			What: fmt.Sprintf("%s: code from a model's repository is not run without a sandbox, and there is no container", b.Model.ID),
			Hint: "give a container image with --image, or use --executor docker",
		}
	}
	token := strings.ToLower(rand.Text()[:10])
	h := &handle{e: e, at: at, b: b, d: d, end: kept.NewEnd(), r: record{Schema: recordSchema, Site: at.Site, LogFrom: kept.Size(d.Log()), EventsFrom: kept.Size(d.Events()), Batch: b.ID, Run: token, Name: "bench-" + string(b.ID)[:min(16, len(b.ID))] + "-" + token,
		Where: runner.Where{Executor: Name, Host: p.host, Image: what.Image.Digest}}}
	if e.wantsGPU(*p, b) {
		h.r.Where.GPUs = []string{"slurm"} // which one is Slurm's business
	}
	// A job of an earlier start that is still waiting somewhere finds its folder
	// gone, and leaves.
	if err := e.clean(ctx, d); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.clean(context.WithoutCancel(ctx), d))
		}
	}()
	// First: a folder at another site is found, and removed, by this alone.
	if err := h.save(); err != nil {
		return nil, err
	}
	script, err := h.prepare(ctx, *what)
	if err != nil {
		return nil, err
	}
	options := append(e.request(*p, b), "--parsable", "--no-requeue", "--chdir=/", "--input=/dev/null", "--output=/dev/null", "--error=/dev/null", "--export=ALL")
	if e.o.Array > 1 {
		h.r.Job, err = h.enter(ctx, options, held)
	} else {
		h.r.Job, err = e.submit(ctx, at, order{name: h.r.Name, options: options, script: script}, held)
	}
	if err != nil {
		return nil, err
	}
	if err := h.save(); err != nil {
		return nil, err
	}
	go h.follow()
	return h, nil
}

// make makes the program, once.
func (e *Executor) make(ctx context.Context) (*Program, error) {
	e.making.Lock()
	defer e.making.Unlock()
	if e.program == nil {
		if e.o.Program == nil {
			return nil, errors.New("slurm: no program to start")
		}
		p, err := e.o.Program(ctx)
		if err != nil {
			return nil, err
		}
		e.program = &p
	}
	return e.program, nil
}

// clean removes what earlier starts left in the batch's folder.
func (e *Executor) clean(ctx context.Context, d job.Dir) error {
	var old record
	if err := kept.ReadJSON(d.Executor(), &old); err == nil && old.Site.Host != "" {
		at, err := e.at(old.Site)
		if err == nil {
			err = at.site.remove(ctx, old)
		}
		if err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(own(d))
	if err != nil {
		return err
	}
	errs := []error{kept.Remove(d.Executor())} // first: without folders it would lead nowhere
	for _, f := range entries {
		if f.IsDir() {
			errs = append(errs, hostile.RemoveAll(filepath.Join(own(d), f.Name())))
		}
	}
	return errors.Join(errs...)
}

// Attach implements runner.Executor. A batch that ended is found as long as its
// record is in d. One that a bench was submitting when it died is looked for by
// its name.
func (e *Executor) Attach(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	d, err := kept.Absolute(d)
	if err != nil {
		return nil, err
	}
	var r record
	if err := kept.ReadJSON(d.Executor(), &r); err == nil && r.Job != "" {
		h, err := e.found(ctx, b, d)
		if err != nil {
			return nil, err
		}
		return h, nil
	}
	if _, err := os.Stat(own(d)); errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(b)
	}
	// Whoever submits holds the lock, and so does the sbatch of one that died.
	held, err := waitLock(ctx, lockFile(d))
	if err != nil {
		return nil, fmt.Errorf("batch %s is being submitted: %w", b.ID.Short(), err)
	}
	defer held.Close()
	h, err := e.found(ctx, b, d)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func notFound(b job.Batch) error {
	return fmt.Errorf("batch %s: %w", b.ID.Short(), runner.ErrNotFound)
}

// found returns the batch of the record in d. If that has no job yet, the lock
// must be held.
func (e *Executor) found(ctx context.Context, b job.Batch, d job.Dir) (*handle, error) {
	h := &handle{e: e, b: b, d: d, end: kept.NewEnd()}
	var err error
	switch err := kept.ReadJSON(d.Executor(), &h.r); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notFound(b)
	case err != nil:
		return nil, fmt.Errorf("batch %s: %w", b.ID.Short(), err)
	case h.r.Batch != b.ID || h.r.Where.Executor != Name || h.r.Schema != recordSchema:
		return nil, notFound(b)
	}
	if h.at, err = e.at(h.r.Site); err != nil {
		return nil, fmt.Errorf("batch %s: %w", b.ID.Short(), err)
	}
	if h.r.Job == "" {
		ids, err := h.at.site.find(ctx, order{name: h.r.jobName()})
		if err != nil {
			return nil, fmt.Errorf("batch %s: %w", b.ID.Short(), h.at.precondition(err))
		}
		if len(ids) == 0 {
			return nil, errors.Join(notFound(b), e.clean(ctx, d))
		}
		h.r.Job = h.r.number(ids[0])
		if err := h.save(); err != nil {
			return nil, err
		}
	}
	if err := h.collect(); err != nil {
		return nil, err
	}
	go h.follow()
	return h, nil
}

// The folders and files of a batch beside those of job.Dir.
func own(d job.Dir) string      { return filepath.Join(string(d), "slurm") }
func lockFile(d job.Dir) string { return filepath.Join(own(d), "lock") }
