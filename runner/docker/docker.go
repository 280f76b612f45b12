// Package docker runs trainers in the containers of a Docker engine, on this
// machine or another, confined as docs/sandbox.md says.
//
// A batch outlives the bench that started it: the container is found again by
// its name and the record in the batch's folder, also when the engine was
// restarted. Its files are folders of this machine or, on an engine that does
// not see those, volumes that are filled and read through the engine. What a
// container wrote is checked before it reaches Dir.Out.
package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"bench/containers"
	"bench/internal/content"
	"bench/internal/hostile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

// Name is what records call this executor.
const Name = "docker"

// Options of an executor.
type Options struct {
	// Image holds the trainer; it is the image's entrypoint and takes --batch
	// and --out.
	Image string
	// BuildHint is the command that makes Image, for people whose engine does
	// not have it.
	BuildHint string
	// Limits of each batch. Time counts from the start of the container,
	// whoever waits for it, and ends only while some bench watches.
	Limits runner.Limits
	// Instance tells containers of one HOME from those of others on the same
	// engine; see Instance and GC. May be empty.
	Instance string
	Version  string        // of bench, for a label
	Grace    time.Duration // between SIGTERM and SIGKILL; 0: 10 s
	OutBytes int64         // what a batch may write to its out folder; 0: 4 GiB
	Pids     int64         // processes and threads of a batch; 0: 1024
	// KeepBytes is how much of models and data sets that no batch uses any more
	// stays on an engine that they had to be sent to; 0: 64 GiB.
	KeepBytes int64
	GPUs      GPUs
	// Locks is a folder for lock files that all bench processes of this instance
	// see; "": none.
	Locks string
	// Notice is told, in a sentence, what takes long and what a batch waits for. May be nil.
	Notice   func(string)
	TmpBytes int64 // size of /tmp; 0: a quarter of the memory
}

// New returns an executor that runs batches on engine.
func New(engine *containers.Engine, o Options) runner.Executor {
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.OutBytes = cmp.Or(o.OutBytes, kept.MaxOut)
	o.KeepBytes = cmp.Or(o.KeepBytes, 64<<30)
	return &executor{engine: engine, o: o, gpus: &ledger{keeper: engine, poll: lockPollGPU}}
}

type executor struct {
	engine *containers.Engine
	o      Options
	gpus   *ledger
	sums   content.Sums

	batches kept.Batches[*handle]

	mu   sync.Mutex
	said string // last, of what batches wait for
}

// labelRun tells the container of this start of a batch from one that an
// earlier start left behind: that one writes to a folder that is gone.
const labelRun = "bench.run"

// record is executor.json: what a later bench needs to find the container.
type record struct {
	Schema    int          `json:"schema"`
	Batch     job.ID       `json:"batch"`
	Run       string       `json:"run"` // new for each start
	Container string       `json:"container"`
	Where     runner.Where `json:"where"`
	// Sizes of the log and of the events before this start, which adds to them.
	LogFrom    int64 `json:"log_from"`
	EventsFrom int64 `json:"events_from"`
	// Volume holds the batch's files on an engine that does not see the folders
	// of this machine; "": they are folders.
	Volume string `json:"volume,omitempty"`
}

// Schemas of records: 2 has a volume.
const (
	recordSchema       = 1
	recordSchemaVolume = 2
)

// Start implements runner.Executor. When the batch has ended already, Start
// runs it again; the log and the events go on at their ends.
func (e *executor) Start(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	d, err := kept.Absolute(d)
	if err != nil {
		return nil, err
	}
	h, err := e.batches.Start(ctx, own(d), b, d, func() (*handle, error) { return e.attach(ctx, b, d, true) }, func() (*handle, error) { return e.launch(ctx, b, d) })
	if err != nil {
		return nil, err
	}
	return h, nil
}

// launch prepares the folders and starts the container.
func (e *executor) launch(ctx context.Context, b job.Batch, d job.Dir) (_ *handle, err error) {
	img, err := e.engine.Image(ctx, e.o.Image)
	if err != nil {
		return nil, precondition(err, e.o.BuildHint)
	}
	r := record{
		Schema: recordSchema, Batch: b.ID, Run: rand.Text(), Container: e.containerName(b.ID),
		Where:   runner.Where{Executor: Name, Host: e.engine.Info().Name, Image: img.ID},
		LogFrom: kept.Size(d.Log()), EventsFrom: kept.Size(d.Events()),
	}
	if e.engine.Copies() {
		r.Schema, r.Volume = recordSchemaVolume, r.Container+"-"+strings.ToLower(r.Run[:8])
	}
	h := e.handle(b, d, r)
	defer func() {
		if err != nil {
			e.freeGPU(h.r.Run, h.r.Where.GPUs)
			err = errors.Join(err, h.clean(ctx), kept.Remove(d.Executor()))
		}
	}()
	if err := h.clean(ctx); err != nil {
		return nil, err
	}
	threads := b.Threads
	if threads == 0 {
		threads = containers.Threads(cmp.Or(e.o.Limits.CPUs, float64(e.engine.Info().CPUs)))
	}
	given, err := e.give(h, threads)
	if err != nil {
		return nil, err
	}
	if h.r.Where.GPUs, h.r.Where.GPUShare, err = e.takeGPU(ctx, b, d, h.r.Run, img.ID); err != nil {
		return nil, err
	}
	if err := kept.WriteJSON(d.Executor(), h.r); err != nil {
		return nil, err
	}

	labels := h.labels()
	env := environment()
	for _, name := range threadVariables {
		env[name] = fmt.Sprint(threads)
	}
	if e.o.GPUs.Slots > 1 {
		env[envMemory] = fmt.Sprint(e.o.GPUs.MemoryMiB)
	}
	notes := map[string]string{containers.LabelVersion: e.o.Version}
	e.gpuLabels(h.r.Where.GPUs, notes)
	s := containers.Spec{
		Image: img.ID, Args: []string{"--batch", insideIn + "/batch.json", "--out", insideOut}, Env: env,
		Mounts: given.mounts, Prepare: given.fill, UID: given.uid, GID: given.gid,
		CPUs: e.o.Limits.CPUs, MemoryBytes: e.o.Limits.MemoryBytes, Pids: e.o.Pids, TmpBytes: e.o.TmpBytes, GPUs: h.r.Where.GPUs,
		Labels: labels, Notes: notes,
	}
	started := e.renewGPU(ctx, h, img.ID)
	c, err := e.engine.Start(ctx, h.r.Container, s)
	if containers.IsKind(err, containers.NameTaken) {
		if err = e.removeStale(ctx, labels, h.r.Container); err == nil {
			c, err = e.engine.Start(ctx, h.r.Container, s)
		}
	}
	started()
	if err != nil {
		return nil, precondition(err, e.o.BuildHint)
	}
	h.shows(c)
	return h, nil
}

// removeStale removes a container of an earlier start of the same batch of the
// same instance, whose folder is gone. Anything else keeps its name.
func (e *executor) removeStale(ctx context.Context, labels map[string]string, name string) error {
	c, err := e.engine.Lookup(ctx, name)
	if err != nil {
		return err
	}
	st, err := c.Inspect(ctx)
	if err != nil {
		return err
	}
	same := maps.Clone(labels)
	delete(same, labelRun)
	for k, v := range same {
		if st.Labels[k] != v {
			return nil // Start says whose it is
		}
	}
	if err := c.Remove(ctx); err != nil {
		return err
	}
	_, err = e.engine.RemoveVolumes(ctx, same)
	return err
}

// containerName is bench-BATCH, with the instance behind it: two homes may run
// the same batch on one engine.
func (e *executor) containerName(id job.ID) string {
	name := "bench-" + string(id)[:min(16, len(id))]
	if e.o.Instance != "" {
		name += "-" + e.o.Instance[:min(12, len(e.o.Instance))]
	}
	return name
}

// Attach implements runner.Executor. A batch that ended is found as long as
// its record is in d; Wait then returns at once.
func (e *executor) Attach(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	d, err := kept.Absolute(d)
	if err != nil {
		return nil, err
	}
	h, err := e.attach(ctx, b, d, false)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// attach finds the batch's container. starting: the caller holds the lock under
// which batches of this folder are started.
func (e *executor) attach(ctx context.Context, b job.Batch, d job.Dir, starting bool) (*handle, error) {
	if h := e.batches.Get(b, d); h != nil {
		return h, nil
	}
	notFound := fmt.Errorf("batch %s: %w", b.ID.Short(), runner.ErrNotFound)
	var r record
	if err := kept.ReadRecord(b, d, &r); err != nil {
		return nil, err
	}
	if r.Batch != b.ID || r.Where.Executor != Name || r.Schema != recordSchema && r.Schema != recordSchemaVolume {
		return nil, notFound
	}
	h := e.handle(b, d, r)
	if ended, err := h.recorded(); err != nil || ended {
		return h, err
	}
	c, err := e.engine.Lookup(ctx, r.Container)
	var st containers.State
	if err == nil {
		if st, err = c.Inspect(ctx); err == nil && st.Labels[labelRun] != r.Run {
			err = &containers.Error{Kind: containers.Gone}
		}
	}
	if err == nil && st.Status == "created" {
		// It is being started, or whoever did that died in the middle.
		if !starting {
			lock, err := own(d).LockStart(ctx)
			if err != nil {
				return nil, err
			}
			defer lock.Unlock()
			return e.attach(ctx, b, d, true)
		}
		if err := c.Remove(ctx); err != nil {
			return nil, precondition(err, e.o.BuildHint)
		}
		e.freeGPU(r.Run, r.Where.GPUs)
		return nil, errors.Join(notFound, h.clean(ctx), kept.Remove(d.Executor()))
	}
	if containers.IsKind(err, containers.Gone) {
		// Somebody may have seen it through since we looked.
		if ended, err := h.recorded(); err != nil || ended {
			return h, err
		}
		// Somebody removed it. What it had finished counts.
		if err := e.engine.Persist(ctx, func() error { return h.collect(ctx, true) }); err != nil {
			return nil, err
		}
		return nil, errors.Join(notFound, h.clean(ctx), kept.Remove(d.Executor()))
	}
	if err != nil {
		return nil, precondition(err, e.o.BuildHint)
	}
	h.shows(c)
	e.batches.Follow(b, d, h, nil)
	return h, nil
}

// precondition turns errors that the user can do something about into
// *runner.PreconditionError.
func precondition(err error, buildHint string) error {
	if errors.Is(err, content.ErrChanged) {
		return &runner.PreconditionError{What: err.Error(), Hint: "run again when nothing writes to it"}
	}
	own, ok := errors.AsType[*containers.Error](err)
	if !ok {
		return err
	}
	switch own.Kind {
	case containers.ImageMissing:
		return &runner.PreconditionError{What: "the Docker engine does not have the trainer's image", Hint: cmp.Or(buildHint, "bench image build"), Err: err}
	case containers.Unreachable, containers.Denied, containers.GPURefused, containers.MountRefused, containers.NoSpace, containers.NameTaken, containers.Damaged:
		return &runner.PreconditionError{What: "the Docker engine cannot run this", Hint: own.Hint, Err: err}
	}
	return err
}

// threadVariables are set to the batch's threads in place of the container's
// CPUs.
var threadVariables = strings.Fields("OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMEXPR_NUM_THREADS VECLIB_MAXIMUM_THREADS RAYON_NUM_THREADS")

// environment is what the trainer's libraries need to know of the sandbox.
func environment() map[string]string {
	return map[string]string{
		"HF_HOME": "/tmp/.cache/huggingface", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
		"TORCH_HOME": "/tmp/.cache/torch", "TORCHINDUCTOR_CACHE_DIR": "/tmp/.cache/inductor", "TRITON_CACHE_DIR": "/tmp/.cache/triton", "CUDA_CACHE_PATH": "/tmp/.cache/cuda",
		"NUMBA_CACHE_DIR": "/tmp/.cache/numba", "MPLCONFIGDIR": "/tmp/.config/matplotlib",
		"TOKENIZERS_PARALLELISM": "false", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
		"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONFAULTHANDLER": "1",
	}
}

// The folders of a batch beside those of job.Dir. Nobody else may enter own:
// scratchOut in it is writable for everybody, so that it does not matter which
// user of this machine the container's user is.
func own(d job.Dir) kept.Folder   { return kept.Folder(filepath.Join(string(d), "docker")) }
func scratchIn(d job.Dir) string  { return filepath.Join(string(own(d)), "in") }
func scratchOut(d job.Dir) string { return filepath.Join(string(own(d)), "out") }
func copies(d job.Dir) string     { return filepath.Join(string(own(d)), "model") }

// Where things are in the container.
const (
	insideIn    = "/bench/in"
	insideOut   = "/bench/out"
	insideModel = "/bench/model"
	insideRoom  = "/bench" // the batch's volume: in and out
	insideData  = "/bench/in/data"
)

// clean removes what only a running batch needs.
func (h *handle) clean(ctx context.Context) error {
	return errors.Join(own(h.d).Clear(), h.cleanScratch(ctx))
}

func (h *handle) cleanScratch(ctx context.Context) error {
	if h.r.Volume != "" {
		h.out.remove(ctx) // what is left on an engine that is away, GC removes
	}
	// Also for a batch with a volume: an earlier start of it may have had folders.
	return errors.Join(hostile.RemoveAll(scratchOut(h.d)), os.RemoveAll(scratchIn(h.d)), os.RemoveAll(copies(h.d)))
}
