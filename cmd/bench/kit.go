package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"bench/containers"
	"bench/containers/trainer"
	"bench/runner"
	"bench/runner/baseline"
	"bench/runner/docker"
	"bench/runner/job"
	"bench/runner/process"
)

// kit makes the parts that a command needs, each when it is needed first.
type kit struct {
	*app
	home   string
	host   string // Docker engine
	image  string // --image
	python string // --python
	limits runner.Limits
	log    func(format string, args ...any)

	warned bool // that there is no sandbox

	mu        sync.Mutex
	opened    *containers.Engine
	executors map[string]runner.Executor
}

func (k *kit) close() {
	if k.opened != nil {
		k.opened.Close()
	}
}

// engine opens the Docker engine.
func (k *kit) engine(ctx context.Context) (*containers.Engine, error) {
	if k.opened == nil {
		e, err := containers.Open(ctx, k.host)
		if err != nil {
			return nil, err
		}
		k.opened = e
	}
	return k.opened, nil
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
		e, err = k.docker(context.Background())
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

func (k *kit) docker(ctx context.Context) (runner.Executor, error) {
	e, err := k.engine(ctx)
	if err != nil {
		return nil, err
	}
	image, hint := k.image, "docker pull "+k.image
	if image == "" {
		image, hint = containers.TrainerImage(), "bench image build"
	}
	return docker.New(e, docker.Options{Image: image, BuildHint: hint, Limits: k.limits, Instance: docker.Instance(k.home), Version: version()}), nil
}

// gpus is the number of batches that can train at a time: one for each GPU
// that containers can be given, else one on the CPU.
func (k *kit) gpus(ctx context.Context) (int, error) {
	e, err := k.engine(ctx)
	if err != nil {
		return 0, err
	}
	image := k.image
	if image == "" {
		image = containers.TrainerImage()
	}
	found, err := e.GPUs(ctx, image)
	if containers.IsKind(err, containers.ImageMissing) {
		return 1, nil // the start of the first batch says so, with what to do
	}
	return max(1, len(found)), err
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
