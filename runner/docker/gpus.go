package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bench/containers"
	"bench/internal/atomicfile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

// GPUs says what is to be known of an engine's GPUs beside what it can be asked.
type GPUs struct {
	// List names them where the engine cannot be asked; see ParseGPUs. Empty: it
	// is asked.
	List []containers.GPU
	// Slots is how many batches share one GPU; 0 and 1: none shares. There is no
	// wall between them, so each must say how much memory it takes.
	Slots int
	// MemoryMiB is what one of them may take. All together must stay below
	// nine tenths of every GPU.
	MemoryMiB int64
	// Beside names containers of others that do not count as users of the GPUs that
	// they were given: a notebook that was given all and does nothing.
	Beside []string
	// Wait is how long a batch waits for a GPU that others have, before its start
	// fails with a *runner.BusyError; 0: for ever.
	Wait time.Duration
}

// mostMemory is the part of a GPU that batches which share it may be promised:
// the rest goes to what CUDA itself needs for each of them.
const mostMemory = 0.9

// envMemory tells the trainer how much device memory it may use.
const envMemory = "BENCH_GPU_MEMORY_MIB"

// taskSpeed is the task whose scores are times: it does not share a GPU, though
// it is measured on the processor, because those beside it keep that busy.
const taskSpeed = "speed"

// ParseGPUs reads what a person says of the GPUs of a host: how many there are
// ("2"), or which, by UUID ("GPU-5f…,MIG-2a…"). "=24g" behind that is the
// memory of each.
func ParseGPUs(text string) ([]containers.GPU, error) {
	wrong := func(part, what string) error {
		return fmt.Errorf("GPUs %q: %s; say how many there are (2), or their UUIDs (GPU-…, MIG-…), each with its memory if that matters (2=24g)", part, what)
	}
	var gpus []containers.GPU
	for part := range strings.SplitSeq(text, ",") {
		name, memory, has := strings.Cut(strings.TrimSpace(part), "=")
		var mib int64
		if has {
			gib, unit := strings.CutSuffix(memory, "g")
			x, err := strconv.ParseFloat(strings.TrimSuffix(gib, "m"), 64)
			if err != nil || !(x > 0 && x <= 1<<20) || !unit && !strings.HasSuffix(memory, "m") {
				return nil, wrong(part, "its memory is something like 24g or 800m")
			}
			if mib = int64(x); unit {
				mib = int64(x * 1024)
			}
		}
		if n, err := strconv.Atoi(name); err == nil {
			if n < 1 || n > 64 || strings.Contains(text, ",") {
				return nil, wrong(part, "a number is of all GPUs, from 1 to 64")
			}
			for i := range n {
				gpus = append(gpus, containers.GPU{UUID: strconv.Itoa(i), Index: i, MemoryMiB: mib})
			}
			return gpus, nil
		}
		if !strings.HasPrefix(name, "GPU-") && !strings.HasPrefix(name, "MIG-") || strings.ContainsAny(name, " /:") {
			return nil, wrong(part, "it is neither a number nor a UUID")
		}
		if slices.ContainsFunc(gpus, func(g containers.GPU) bool { return g.UUID == name }) {
			return nil, wrong(part, "it is there twice")
		}
		gpus = append(gpus, containers.GPU{UUID: name, Index: -1, MemoryMiB: mib})
	}
	return gpus, nil
}

// Validate says what makes no sense in g, whatever GPUs there are.
func (g GPUs) Validate() error {
	switch {
	case g.Slots < 0 || g.MemoryMiB < 0:
		return errors.New("slots and memory of a GPU cannot be negative")
	case g.Slots > 1 && g.MemoryMiB == 0:
		return fmt.Errorf("%d batches are to share a GPU, and how much of its memory each may take is not said", g.Slots)
	}
	return nil
}

// fit says which of the GPUs cannot be shared as g says.
func (g GPUs) fit(gpus []containers.GPU) error {
	if err := g.Validate(); err != nil {
		return &runner.PreconditionError{What: "GPUs cannot be shared so", Hint: "declare gpu_memory, what one batch may take", Err: err}
	}
	if g.Slots <= 1 {
		return nil
	}
	for _, x := range gpus {
		most := int64(mostMemory * float64(x.MemoryMiB))
		if x.MemoryMiB == 0 {
			return &runner.PreconditionError{What: fmt.Sprintf("how much memory GPU %s has is not known, so it cannot be shared", x.UUID),
				Hint: "say it: --gpus UUID=24g, or gpus: of the host"}
		}
		if int64(g.Slots)*g.MemoryMiB > most {
			return &runner.PreconditionError{
				What: fmt.Sprintf("%d slots of %d MiB are more than nine tenths of GPU %s (%s, %d MiB)", g.Slots, g.MemoryMiB, x.UUID, cmp.Or(x.Name, "not looked at"), x.MemoryMiB),
				Hint: fmt.Sprintf("at most %d slots of this size, or %d MiB for each of %d", most/g.MemoryMiB, most/int64(g.Slots), g.Slots),
			}
		}
	}
	return nil
}

// inventory returns the GPUs that batches can be given.
func inventory(ctx context.Context, e *containers.Engine, o Options) ([]containers.GPU, error) {
	gpus := o.GPUs.List
	if len(gpus) == 0 {
		var err error
		if gpus, err = e.GPUs(ctx, o.Image); err != nil {
			return nil, precondition(err, o.BuildHint)
		}
	}
	return gpus, o.GPUs.fit(gpus)
}

// Slots is how many batches the engine takes at a time: as many as its GPUs
// have room for, or one on the processor. An engine that does not have the
// image takes one, whose start says so.
func Slots(ctx context.Context, e *containers.Engine, o Options) (int, error) {
	if o.Limits.GPU == "none" {
		return 1, nil
	}
	gpus, err := inventory(ctx, e, o)
	if containers.IsKind(err, containers.ImageMissing) {
		return 1, nil
	}
	return max(1, len(gpus)*max(1, o.GPUs.Slots)), err
}

// Users says who uses the GPUs that the engine can give, by UUID, in words for
// people. A GPU that nobody uses is not among them.
func Users(ctx context.Context, e *containers.Engine, gpus []containers.GPU) (map[string]string, error) {
	b, err := (&ledger{keeper: e}).look(ctx, gpus, nil)
	if err != nil {
		return nil, precondition(err, "")
	}
	users := map[string]string{}
	for _, g := range gpus {
		if names := b.users(g.UUID); len(names) > 0 {
			users[g.UUID] = strings.Join(names, ", ")
		}
	}
	return users, nil
}

// takeGPU gives the batch a GPU if it may have one and the engine has any, and
// waits for one if all are in use. It is to be called when all else is ready:
// see startWithin. The share is 0 for a whole card.
func (e *executor) takeGPU(ctx context.Context, b job.Batch, d job.Dir, run, image string) (gpus []string, share float64, err error) {
	if b.Device == "cpu" || e.o.Limits.GPU == "none" {
		if b.Device == "cuda" {
			return nil, 0, &runner.PreconditionError{What: "the batch asks for a GPU and the limits allow none", Hint: "leave out one of the two"}
		}
		return nil, 0, nil
	}
	o := e.o
	o.Image = image
	all, err := inventory(ctx, e.engine, o)
	if err != nil {
		return nil, 0, err
	}
	host := e.engine.Host()
	if len(all) == 0 {
		if b.Device == "cuda" {
			return nil, 0, &runner.PreconditionError{What: "the Docker engine on " + e.engine.Info().Name + " has no GPUs for containers",
				Hint: "install NVIDIA's container toolkit there, or leave out --device cuda"}
		}
		return nil, 0, nil
	}
	if e.o.GPUs.Slots > 1 && slices.ContainsFunc(b.Datasets, func(d job.Dataset) bool { return d.Task == taskSpeed }) {
		return nil, 0, &runner.PreconditionError{What: "speed is measured, and the GPUs of " + host + " are shared", Hint: "run the task speed by itself, without slots_per_gpu"}
	}
	defer kept.Remove(d.Waiting())
	c := e.claim(b.ID, run, image)
	c.gpus, c.beside = all, o.GPUs.Beside
	c.waiting = func(why string) {
		why = fmt.Sprintf("waits for a GPU on %s: %s", host, why)
		// For bench status; the batch waits as well without it.
		_ = atomicfile.WriteBytes(d.Waiting(), []byte(why))
		if e.o.Notice != nil {
			e.mu.Lock()
			news := why != e.said
			e.said = why
			e.mu.Unlock()
			if news {
				e.o.Notice("a batch of " + b.Model.ID + " " + why)
			}
		}
	}
	if e.o.GPUs.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.o.GPUs.Wait, &runner.BusyError{What: "all GPUs of " + host + " are in use by others"})
		defer cancel()
	}
	g, err := e.gpus.take(ctx, c)
	if err != nil {
		return nil, 0, precondition(err, e.o.BuildHint)
	}
	if share = cmp.Or(g.Share, 1) / float64(c.slots); share == 1 {
		share = 0
	}
	return []string{g.UUID}, share, nil
}

func (e *executor) claim(batch job.ID, run, image string) claim {
	return claim{run: run, container: e.containerName(batch), instance: e.o.Instance, process: thisProcess(), image: image, slots: max(1, e.o.GPUs.Slots), memoryMiB: e.o.GPUs.MemoryMiB}
}

// renewGPU keeps what the start of a batch holds until its container runs: then
// stop is to be called.
func (e *executor) renewGPU(ctx context.Context, h *handle, image string) (stop func()) {
	if len(h.r.Where.GPUs) == 0 {
		return func() {}
	}
	return e.gpus.renew(ctx, e.claim(h.b.ID, h.r.Run, image), h.r.Where.GPUs[0], renewEvery)
}

// freeGPU gives back what a start of a batch holds. What it cannot give back
// because the engine is away, others take as soon as they see that it has ended.
func (e *executor) freeGPU(run string, gpus []string) {
	if len(gpus) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = e.gpus.release(ctx, run)
}

// gpuLabels tell whoever reads the ledger what a batch takes of its GPU, should
// its lock be gone.
func (e *executor) gpuLabels(gpus []string, notes map[string]string) {
	if len(gpus) > 0 {
		notes[labelGPUSlots] = strconv.Itoa(max(1, e.o.GPUs.Slots))
		notes[labelGPUMemory] = strconv.FormatInt(e.o.GPUs.MemoryMiB, 10)
	}
}
