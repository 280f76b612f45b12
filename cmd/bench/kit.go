package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"bench/containers"
	"bench/containers/trainer"
	"bench/runner"
	"bench/runner/baseline"
	"bench/runner/docker"
	"bench/runner/job"
	"bench/runner/kubernetes"
	"bench/runner/pool"
	"bench/runner/process"
	"bench/runner/slurm"
)

// kit makes the parts that a command needs, each when it is needed first.
type kit struct {
	*app
	home         string
	hosts        hostList // Docker engines; none: the default one
	slots        int      // batches at a time on each engine; 0: one for each GPU
	image        string   // --image
	ref          string   // what the user calls image
	python       string   // --python
	slurmOptions slurmOptions
	slurmImage   slurm.Image // of --image, once looked at
	limits       runner.Limits
	gpus         docker.GPUs // of engines whose host says nothing else

	kubernetesOptions *kubernetesOptions   // nil: not given
	cluster           *kubernetes.Executor // nil: not made yet
	// patience is how long a host that does not answer is waited for; 0: as long as packages pool and containers do.
	patience time.Duration
	log      func(format string, args ...any)

	warned bool // that there is no sandbox

	mu        sync.Mutex
	executors map[string]runner.Executor

	opening sync.Mutex
	opened  map[string]*containers.Engine // by host
	retired []*containers.Engine          // of hosts that were given another address; batches may still use them
}

func (k *kit) close() {
	if e, ok := k.executors[slurm.Name].(*slurm.Executor); ok {
		e.Close()
	}
	if k.cluster != nil {
		k.cluster.Close()
	}
	k.opening.Lock() // some may be opened still
	defer k.opening.Unlock()
	for _, e := range k.opened {
		e.Close()
	}
	for _, e := range k.retired {
		e.Close()
	}
}

// engines are the hosts of the Docker engines: the default one if none is named.
func (k *kit) engines() []host {
	k.opening.Lock()
	defer k.opening.Unlock()
	if len(k.hosts) == 0 {
		return []host{{}}
	}
	return k.hosts
}

// othersWait is how long hosts that come first are waited for when one answers.
const othersWait = time.Second

// engine opens the first Docker engine that answers, and tells hosts that take
// longer from those by othersWait. The error is that of the first one.
func (k *kit) engine(ctx context.Context) (*containers.Engine, error) {
	hosts := k.engines()
	type answer struct {
		at  int
		e   *containers.Engine
		err error
	}
	answers := make(chan answer, len(hosts))
	for i, h := range hosts { // at once: one that does not answer takes its time
		go func() {
			e, err := k.engineAt(ctx, h)
			answers <- answer{i, e, err}
		}()
	}
	first := answer{at: len(hosts)} // of those that work
	var wrong error
	var late <-chan time.Time
	for range hosts {
		select {
		case a := <-answers:
			switch {
			case a.err == nil && a.at < first.at:
				first, late = a, time.After(othersWait)
			case a.err != nil && a.at == 0:
				wrong = a.err
			}
			if first.at == 0 {
				return first.e, nil
			}
		case <-late:
			return first.e, nil
		}
	}
	if first.e != nil {
		return first.e, nil
	}
	return nil, wrong
}

// engineAt opens the engine of a host.
func (k *kit) engineAt(ctx context.Context, h host) (*containers.Engine, error) {
	name := h.String()
	k.opening.Lock()
	e := k.opened[name]
	k.opening.Unlock()
	if e != nil {
		return e, nil
	}
	// Not under the lock: a host that does not answer must not hold up the others.
	e, err := containers.OpenHost(ctx, h.Host)
	if err != nil {
		return nil, err
	}
	e.Patience = cmp.Or(k.patience, e.Patience)
	k.opening.Lock()
	defer k.opening.Unlock()
	if other := k.opened[name]; other != nil { // opened meanwhile
		e.Close()
		return other, nil
	}
	if e.Warning() != "" {
		k.say("warning: %s", e.Warning())
	}
	for _, other := range k.hosts {
		o := k.opened[other.String()]
		if id := e.Info().ID; o != nil && id != "" && o.Info().ID == id && k.named(name) {
			k.say("warning: the hosts %s and %s report the same engine: if they are one machine, it gets twice the work", other, name)
		}
	}
	if k.opened == nil {
		k.opened = map[string]*containers.Engine{}
	}
	k.opened[name] = e
	return e, nil
}

// named says whether a host of that name takes batches.
func (k *kit) named(name string) bool {
	return slices.ContainsFunc(k.hosts, func(h host) bool { return h.String() == name })
}

// say tells people something.
func (k *kit) say(format string, args ...any) {
	if k.log != nil {
		k.log(format, args...)
		return
	}
	fmt.Fprintf(k.stderr, "bench: "+format+"\n", args...)
}

// executor makes the executor of this name.
func (k *kit) executor(name string) (runner.Executor, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.executors[name]; ok {
		return e, nil
	}
	var e runner.Executor
	var err error
	switch name {
	case "baseline":
		e = baseline.New(baseline.Options{})
	case "process":
		e = &lazyProcess{kit: k, known: process.New(process.Options{Limits: k.limits})}
	case "docker":
		e = k.docker()
	case "slurm":
		e = k.slurm()
	case kubernetes.Name:
		e = k.kubernetes()
	default:
		err = fmt.Errorf("there is no executor %q", name)
	}
	if err != nil {
		return nil, err
	}
	if k.executors == nil {
		k.executors = map[string]runner.Executor{}
	}
	k.executors[name] = e
	return e, nil
}

// lazyProcess makes what a trainer's process needs when the first one starts:
// to watch over batches of an earlier run, or to stop them, takes neither a
// trainer nor a Python.
type lazyProcess struct {
	kit   *kit
	known runner.Executor // finds what runs

	mu    sync.Mutex
	ready runner.Executor // starts; nil: not made yet
}

func (l *lazyProcess) Attach(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	return l.known.Attach(ctx, b, d)
}

func (l *lazyProcess) Start(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	e, err := l.make(ctx)
	if err != nil {
		return nil, err
	}
	return e.Start(ctx, b, d)
}

func (l *lazyProcess) make(ctx context.Context) (runner.Executor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready == nil {
		e, err := l.kit.process(ctx)
		if err != nil {
			return nil, err
		}
		l.ready = e
	}
	return l.ready, nil
}

// process unpacks the trainer and makes its environment, unless --python names one.
func (k *kit) process(ctx context.Context) (runner.Executor, error) {
	dir, err := k.unpackTrainer()
	if err != nil {
		return nil, err
	}
	python := k.python
	if python == "" {
		if python, err = process.EnsureVenv(ctx, filepath.Join(k.home, "venvs"), trainer.Requirements(), "", k.progress()); err != nil {
			return nil, err
		}
	}
	return process.New(process.Options{Python: python, Trainer: filepath.Join(dir, trainer.SourceDir), Limits: k.limits}), nil
}

// unpackTrainer puts the embedded trainer into HOME/trainers/DIGEST.
func (k *kit) unpackTrainer() (string, error) {
	dir := filepath.Join(k.home, "trainers", trainer.Digest()[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), ".part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := trainer.Unpack(part); err != nil {
		return "", err
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(part, dir); err != nil {
		if _, there := os.Stat(dir); there == nil { // another bench was faster
			return dir, nil
		}
		return "", err
	}
	return dir, nil
}

// docker spreads batches over the Docker engines.
func (k *kit) docker() *pool.Pool {
	var hosts []pool.Host
	for _, h := range k.engines() {
		hosts = append(hosts, k.pooled(h))
	}
	return pool.New(hosts, pool.Options{Patience: k.patience, Notice: func(s string) {
		if len(k.engines()) > 1 { // else the run's own error says it
			k.log("%s", s)
		}
	}})
}

// pooled is a host as package pool wants it.
func (k *kit) pooled(h host) pool.Host {
	return pool.Host{Name: h.String(), Open: func(ctx context.Context) (runner.Executor, int, error) { return k.dockerAt(ctx, h) }}
}

// dockerAt makes the executor of one engine. It runs as many batches at a time
// as it has GPUs that containers can be given, else one on the CPU.
func (k *kit) dockerAt(ctx context.Context, h host) (runner.Executor, int, error) {
	e, err := k.engineAt(ctx, h)
	if err != nil {
		return nil, 0, err
	}
	if has := e.Info().MemoryBytes; has > 0 && k.limits.MemoryBytes > has {
		return nil, 0, &runner.PreconditionError{
			What: fmt.Sprintf("the machine of %s has %.4g GiB of memory, and a batch is to have %.4g GiB", h, float64(has)/(1<<30), float64(k.limits.MemoryBytes)/(1<<30)),
			Hint: "lower --memory (memory in a sweep's file)",
		}
	}
	slots := cmp.Or(h.slots, k.slots)
	image, ref, hint := k.image, cmp.Or(k.ref, k.image), "docker pull "+cmp.Or(k.ref, k.image)
	if image == "" {
		image, hint = containers.TrainerImage(), "bench image build"
		ref = image
		switch {
		case e.Copies():
			hint += " makes it on this machine's engine, from where it is sent"
		case h.Address != "":
			hint += " --host '" + h.Address + "'"
		}
	}
	if err := k.bringImage(ctx, e, image, ref); err != nil && !containers.IsKind(err, containers.ImageMissing) {
		return nil, 0, err
	}
	o := docker.Options{
		Image: image, BuildHint: hint, Limits: k.limits, Instance: docker.Instance(k.home), Version: version(),
		Locks: filepath.Join(k.home, "locks"), Notice: func(s string) { k.say("%s", s) }, GPUs: k.gpus,
	}
	if len(k.hosts) > 1 {
		o.GPUs.Wait = gpuPatience
	}
	if h.gpus.List != nil {
		o.GPUs.List = h.gpus.List
	}
	if h.gpus.Slots > 0 {
		o.GPUs.Slots = h.gpus.Slots
	}
	if h.gpus.MemoryMiB > 0 {
		o.GPUs.MemoryMiB = h.gpus.MemoryMiB
	}
	executor := docker.New(e, o)
	if slots > 0 {
		return executor, slots, nil
	}
	slots, err = docker.Slots(ctx, e, o)
	return executor, slots, err
}

// progress is where long preparations say what they do.
func (k *kit) progress() *lines {
	return &lines{say: k.log}
}

// lines turns what a tool prints into lines for people.
type lines struct {
	say  func(format string, args ...any)
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexAny(l.rest, "\r\n")
		if i < 0 {
			return len(p), nil
		}
		if line := string(l.rest[:i]); line != "" && l.say != nil {
			l.say("%s", line)
		}
		l.rest = l.rest[i+1:]
	}
}
