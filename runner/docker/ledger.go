package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bench/containers"
	"bench/internal/procid"
)

// lockKeeper is what the ledger needs of an engine.
type lockKeeper interface {
	Containers(context.Context) ([]containers.Seen, error)
	Reserve(ctx context.Context, name, image string, labels map[string]string) error
	Discard(ctx context.Context, id string) error
	Clock(context.Context) (time.Time, error)
}

// Labels of a lock on a GPU: a container that is never started. Its run is that
// of its batch, see labelRun. They tell everybody who may ask the engine, other
// users and other machines too, who has which GPU.
const (
	labelGPU       = "bench.gpu"           // UUID
	labelGPUOwner  = "bench.gpu.container" // name of the batch's container
	labelGPUSlots  = "bench.gpu.slots"     // how many may share the GPU; also on the batch's container
	labelGPUMemory = "bench.gpu.memory"    // MiB declared for this one; also on the batch's container

	labelGPUInstance = "bench.gpu.instance" // as containers.LabelInstance, for GC
	labelGPUProcess  = "bench.gpu.process"  // JSON of the process that starts the batch, and its user: see process
)

// startWithin is how long after its lock, or the last renewal of that, a batch's
// container must be there and run. Between the two there are only the calls that
// make and start it, each of which has a deadline of two minutes and is tried
// again for as long. Where files have to be sent first, the lock is renewed.
const startWithin = 6 * time.Minute

// renewEvery is how often a lock is renewed until its batch runs.
const renewEvery = startWithin / 3

// diedWithin is the same if the process that was to start the container is seen
// to have died: the engine may still be at work on what it was told last.
const diedWithin = 10 * time.Second

// process is who starts a batch.
type process struct {
	procid.ID
	UID int `json:"uid"`
}

func thisProcess() string {
	id, err := procid.Self()
	if err != nil {
		return "" // on systems that do not tell, locks are void by their age alone
	}
	text, err := json.Marshal(process{id, os.Getuid()})
	if err != nil {
		return ""
	}
	return string(text)
}

// died says whether the process that a label names is known to run no more: it
// was one of this machine, and one that this user could see.
func died(label string) bool {
	var p process
	if json.Unmarshal([]byte(label), &p) != nil || p.PID == 0 {
		return false
	}
	here, err := procid.Self()
	if err != nil || !here.Near(p.ID) || p.UID != os.Getuid() && os.Getuid() != 0 {
		return false
	}
	return !p.Runs()
}

// lockPollGPU is how often a batch that waits for a GPU looks.
const lockPollGPU = time.Second

// ledger says who holds which GPU of one engine. Docker itself gives the same
// one to any number of containers.
//
// Nothing of it is kept here: the engine's containers are the ledger, so that
// all bench processes of all users and machines share it, and so that a crash
// at any instant leaves nothing that is not found again. A GPU is held by
//
//   - a lock, as long as its batch's container runs, or may still be started;
//   - any running container that was given it to compute on.
//
// A lock whose batch has ended or never began is removed by whoever sees it.
type ledger struct {
	keeper lockKeeper
	poll   time.Duration

	mu    sync.Mutex    // one look at a time, so that batches of this process do not chase each other
	wake  sync.Mutex    // guards freed
	freed chan struct{} // closed when this process frees one; nil: nobody waits
}

// claim is what a batch wants: one GPU, or one of slots parts of one.
type claim struct {
	run       string // of its start, see labelRun
	container string // its name
	instance  string // of the home; may be empty
	process   string // see thisProcess; may be empty
	image     string // any that the engine has
	gpus      []containers.GPU
	slots     int      // 1: a GPU alone
	memoryMiB int64    // that a part may use; 0: not said
	beside    []string // see GPUs.Beside
	// waiting is told, when nothing is free and when that changes, who has it. May be nil.
	waiting func(string)
}

func (c claim) labels(gpu string) map[string]string {
	return map[string]string{labelGPU: gpu, labelRun: c.run, labelGPUOwner: c.container,
		labelGPUSlots: strconv.Itoa(c.slots), labelGPUMemory: strconv.FormatInt(c.memoryMiB, 10),
		labelGPUInstance: c.instance, labelGPUProcess: c.process}
}

// holder is somebody who has a GPU, or a part of it.
type holder struct {
	run       string // "": not a batch of bench
	name      string // of the container
	slots     int
	memoryMiB int64
}

// take waits until a GPU is free and returns it. It is the caller's until
// release.
func (l *ledger) take(ctx context.Context, c claim) (containers.GPU, error) {
	said := ""
	for {
		l.wake.Lock()
		if l.freed == nil {
			l.freed = make(chan struct{})
		}
		freed := l.freed
		l.wake.Unlock()

		l.mu.Lock()
		g, ok, why, err := l.try(ctx, c)
		l.mu.Unlock()
		if ok || err != nil {
			return g, err
		}
		if c.waiting != nil && why != said {
			said = why
			c.waiting(why)
		}
		pause := time.NewTimer(l.poll + rand.N(l.poll/4))
		select {
		case <-ctx.Done():
			pause.Stop()
			return containers.GPU{}, context.Cause(ctx)
		case <-freed:
			pause.Stop()
		case <-pause.C:
		}
	}
}

// renew keeps the lock of c on a GPU young until stop is called: files may be on
// their way into its container. A container's age cannot be changed, so each
// renewal is one more lock of the same run, which release removes with the rest.
func (l *ledger) renew(ctx context.Context, c claim, gpu string, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// One that fails is made up for by the next.
				_ = l.keeper.Reserve(ctx, fmt.Sprintf("%s-%s-%d", lockOf(gpu), strings.ToLower(c.run[:min(8, len(c.run))]), n), c.image, c.labels(gpu))
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// try takes the first GPU that is free. If none is, why says who has them.
func (l *ledger) try(ctx context.Context, c claim) (g containers.GPU, ok bool, why string, err error) {
	b, err := l.look(ctx, c.gpus, c.beside)
	if err != nil {
		return g, false, "", err
	}
	// The emptiest first, so that a GPU is shared only when none is free.
	order := slices.Clone(c.gpus)
	slices.SortStableFunc(order, func(x, y containers.GPU) int { return len(b.holders[x.UUID]) - len(b.holders[y.UUID]) })
	for _, g := range order {
		if !fits(c, g, b.holders[g.UUID]) {
			continue
		}
		name, free := b.lockName(g.UUID, c.slots)
		if !free {
			continue
		}
		err := l.keeper.Reserve(ctx, name, c.image, c.labels(g.UUID))
		if containers.IsKind(err, containers.NameTaken) {
			continue // somebody was faster
		}
		if err != nil {
			return g, false, "", errors.Join(err, l.release(context.WithoutCancel(ctx), c.run))
		}
		// Somebody else may have taken it by another name, or without a lock,
		// after we looked. Whoever takes it later sees our lock, and gives way.
		again, err := l.look(ctx, c.gpus, c.beside)
		if err == nil && fits(c, g, without(again.holders[g.UUID], c.run)) {
			return g, true, "", nil
		}
		if err := errors.Join(err, l.release(context.WithoutCancel(ctx), c.run)); err != nil {
			return g, false, "", err
		}
		b = again
	}
	return g, false, b.say(c.gpus), nil
}

// fits says whether the claim can be met by g beside these holders.
func fits(c claim, g containers.GPU, held []holder) bool {
	if c.slots <= 1 {
		return len(held) == 0
	}
	memory := c.memoryMiB
	for _, h := range held {
		if h.slots <= 1 {
			return false
		}
		memory += h.memoryMiB
	}
	return len(held) < c.slots && float64(memory) <= mostMemory*float64(g.MemoryMiB)
}

func without(held []holder, run string) []holder {
	return slices.DeleteFunc(slices.Clone(held), func(h holder) bool { return h.run == run })
}

// book is the ledger at one moment.
type book struct {
	holders map[string][]holder // by UUID
	names   map[string]bool     // of all containers
}

// lockOf is the name of the lock on a GPU. Drivers before 470 call slices
// MIG-GPU-…/1/0, which is no name for a container.
func lockOf(gpu string) string { return "bench-gpu-" + strings.ReplaceAll(gpu, "/", "_") }

// lockName is the first free name of a lock on a GPU that so many may share.
func (b book) lockName(gpu string, slots int) (string, bool) {
	for i := range slots {
		name := lockOf(gpu)
		if i > 0 {
			name += fmt.Sprint("-", i)
		}
		if !b.names[name] {
			return name, true
		}
	}
	return "", false
}

// say tells people who has the GPUs.
func (b book) say(gpus []containers.GPU) string {
	var parts, others []string
	for _, g := range gpus {
		for _, h := range b.holders[g.UUID] {
			if h.run == "" && !slices.Contains(others, h.name) {
				others = append(others, h.name)
			}
		}
	}
	for _, g := range gpus {
		names := b.users(g.UUID)
		if len(names) == 0 {
			names = []string{"somebody who was faster"}
		}
		if parts = append(parts, g.UUID+" is in use by "+strings.Join(names, ", ")); len(parts) == 4 && len(gpus) > 4 {
			parts = append(parts, fmt.Sprintf("and so on, %d in all", len(gpus)))
			break
		}
	}
	said := "all GPUs are in use: " + strings.Join(parts, "; ")
	if len(others) > 0 {
		said += "; if batches may run beside: --gpus-beside " + strings.Join(others, ",")
	}
	return said
}

// users tells people who has a GPU.
func (b book) users(gpu string) (names []string) {
	for _, h := range b.holders[gpu] {
		name := "container " + h.name
		if h.run == "" {
			name += " (not of bench)"
		}
		names = append(names, name)
	}
	return names
}

// look reads the ledger and removes what is stale in it. Containers of others with
// the names in beside do not count.
func (l *ledger) look(ctx context.Context, gpus []containers.GPU, beside []string) (book, error) {
	seen, err := l.keeper.Containers(ctx)
	if err != nil {
		return book{}, err
	}
	stale, err := l.stale(ctx, seen)
	if err != nil {
		return book{}, err
	}
	b := book{holders: map[string][]holder{}, names: map[string]bool{}}
	add := func(gpu string, h holder) {
		// A batch and its lock are one.
		if h.run == "" || !slices.ContainsFunc(b.holders[gpu], func(o holder) bool { return o.run == h.run }) {
			b.holders[gpu] = append(b.holders[gpu], h)
		}
	}
	for _, s := range seen {
		if stale[s.ID] {
			if err := l.keeper.Discard(ctx, s.ID); err != nil {
				return book{}, err
			}
			continue
		}
		b.names[s.Name] = true
		slots, _ := strconv.Atoi(s.Labels[labelGPUSlots])
		memory, _ := strconv.ParseInt(s.Labels[labelGPUMemory], 10, 64)
		h := holder{run: s.Labels[labelRun], name: s.Name, slots: slots, memoryMiB: memory}
		if gpu := s.Labels[labelGPU]; gpu != "" {
			if owner := s.Labels[labelGPUOwner]; owner != "" {
				h.name = owner
			}
			add(gpu, h)
			continue
		}
		if h.run == "" && slices.Contains(beside, s.Name) {
			continue
		}
		for _, given := range s.GPUs {
			exact := slices.ContainsFunc(gpus, func(g containers.GPU) bool { return given == g.UUID })
			for _, g := range gpus {
				if given == g.UUID || !exact && means(given, g) {
					add(g.UUID, h)
				}
			}
		}
	}
	return b, nil
}

// means says whether a container that was given this was given g, or the card
// that g is a part of. NVIDIA's tools take the beginning of a UUID for it.
func means(given string, g containers.GPU) bool {
	card, slice, sliced := strings.Cut(given, ":")
	switch {
	case given == "all" || g.Parent != "" && given == g.Parent:
		return true
	case strings.HasPrefix(given, "GPU-"):
		return strings.HasPrefix(g.UUID, given) || strings.HasPrefix(g.Parent, given)
	case strings.HasPrefix(given, "MIG-"):
		return strings.HasPrefix(g.UUID, given)
	case sliced:
		return card == strconv.Itoa(g.Index) && g.Parent != "" && slice == strconv.Itoa(g.Slice)
	}
	return given == strconv.Itoa(g.Index)
}

// stale returns the ids of the locks whose batch has ended, or did not begin in
// time.
func (l *ledger) stale(ctx context.Context, seen []containers.Seen) (map[string]bool, error) {
	owners := map[string]containers.Seen{} // by name
	for _, s := range seen {
		if s.Labels[labelRun] != "" && s.Labels[labelGPU] == "" {
			owners[s.Name] = s
		}
	}
	young := map[string]time.Time{} // when the last lock of a run was made
	for _, s := range seen {
		if run := s.Labels[labelRun]; s.Labels[labelGPU] != "" && s.Created.After(young[run]) {
			young[run] = s.Created
		}
	}
	var now time.Time
	ids := map[string]bool{}
	for _, s := range seen {
		if s.Labels[labelGPU] == "" {
			continue
		}
		owner, there := owners[s.Labels[labelGPUOwner]]
		there = there && owner.Labels[labelRun] == s.Labels[labelRun]
		switch {
		case there && owner.Runs():
		case there && owner.Status != "created":
			ids[s.ID] = true
		default:
			if now.IsZero() {
				var err error
				if now, err = l.keeper.Clock(ctx); err != nil {
					return nil, err
				}
			}
			// A lock from the future: the engine's clock was set back.
			if age := now.Sub(young[s.Labels[labelRun]]); age > startWithin || age < -startWithin || age > diedWithin && died(s.Labels[labelGPUProcess]) {
				ids[s.ID] = true
			}
		}
	}
	return ids, nil
}

// release gives back what a start of a batch holds. It is no error if that is
// nothing.
func (l *ledger) release(ctx context.Context, run string) error {
	seen, err := l.keeper.Containers(ctx)
	if err != nil {
		return err
	}
	for _, s := range seen {
		if s.Labels[labelGPU] != "" && s.Labels[labelRun] == run {
			err = errors.Join(err, l.keeper.Discard(ctx, s.ID))
		}
	}
	l.wake.Lock()
	defer l.wake.Unlock()
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
	return err
}

// sweep removes all stale locks and returns their names. With an instance, no
// batch of which runs any more, it removes all of its locks.
func (l *ledger) sweep(ctx context.Context, instance string) ([]string, error) {
	seen, err := l.keeper.Containers(ctx)
	if err != nil {
		return nil, err
	}
	stale, err := l.stale(ctx, seen)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, s := range seen {
		if stale[s.ID] || s.Labels[labelGPU] != "" && instance != "" && s.Labels[labelGPUInstance] == instance {
			names[s.Name] = s.ID
		}
	}
	var removed []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := l.keeper.Discard(ctx, names[name]); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}
