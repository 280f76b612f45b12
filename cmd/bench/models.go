package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"bench/containers"
	"bench/containers/trainer"
	"bench/datasets/hub"
	"bench/runner"
	"bench/runner/baseline"
	"bench/runner/kubernetes"
	"bench/runner/pool"
	"bench/runner/slurm"
)

// freshModels are the models with random weights: the repository that their
// config and tokenizer come from, empty for the one that needs none.
var freshModels = map[string]string{
	"tiny":          "",
	"xlmr-base":     "FacebookAI/xlm-roberta-base",
	"electra-small": "google/electra-small-discriminator",
}

// models finds out what the names on the command line mean. All that are wrong
// are reported together.
func (k *kit) models(ctx context.Context, names []string, o runOptions) ([]*runner.Model, error) {
	var models []*runner.Model
	var errs []error
	seen := map[string]bool{}
	same := map[string]string{} // what it was called first, by ID@revision
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		own, of := o, o.of[name]
		if of.remoteCode != nil {
			own.remoteCode = *of.remoteCode
		}
		look := k.model
		if of.found {
			look = k.found
		}
		m, err := look(ctx, name, own)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			errs = append(errs, err)
			continue
		}
		m.Priority = of.priority
		key := m.Key()
		if first := same[key]; first != "" {
			errs = append(errs, usage("leave out one of the two", "%s and %s are the same model, at commit %s", first, name, m.Revision))
			continue
		}
		same[key] = name
		models = append(models, m)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, m := range models {
		if m.Kind == "baseline" {
			continue
		}
		executor, image, err := k.choose(ctx, o)
		if err != nil {
			return nil, err
		}
		m.Executor = executor
		m.Trainer = trainer.Digest()
		if image != "" {
			m.Trainer = image
		}
		if (executor == "process" || executor == "slurm") && o.python != "" {
			run := localOutput
			if executor == slurm.Name && o.slurm.Host != "" {
				e, err := k.executor(slurm.Name)
				if err != nil {
					return nil, err
				}
				run = e.(*slurm.Executor).Output
			}
			other, err := otherVersions(ctx, run, o.python)
			if err != nil {
				return nil, err
			}
			m.Trainer += other
		}
	}
	return models, nil
}

func (k *kit) model(ctx context.Context, name string, o runOptions) (*runner.Model, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case kind == "baseline":
		return &runner.Model{ID: name, Revision: "built-in", Kind: "baseline", Trainer: baseline.Digest(rest), Executor: "baseline"}, nil
	case kind == "fresh":
		repository := freshModels[rest]
		m := &runner.Model{ID: name, Revision: "built-in", Kind: "fresh", Fresh: rest}
		if repository == "" {
			return m, nil
		}
		return m, k.fromHub(ctx, m, repository, "main", hub.Options{SkipWeights: true})
	case isPath(name):
		return k.local(ctx, name, o)
	}
	id, revision, err := hub.SplitName(name)
	if err != nil {
		return nil, &usageError{err: err}
	}
	m := &runner.Model{ID: id, Kind: "hub", RemoteCode: o.remoteCode}
	err = k.fromHub(ctx, m, id, revision, hub.Options{RemoteCode: o.remoteCode})
	if info, serr := os.Stat(name); err != nil && serr == nil && info.IsDir() {
		err = fmt.Errorf("%w\n(there is a folder of this name here: for that, write ./%s)", err, name)
	}
	return m, err
}

// isPath tells a folder from a name of the Hub: it begins as paths do.
func isPath(name string) bool {
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") || name == "." || name == ".."
}

// fromHub resolves a revision to a commit now, and downloads when there is
// something to train.
func (k *kit) fromHub(ctx context.Context, m *runner.Model, id, revision string, o hub.Options) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	c := hub.FromEnv(os.Getenv, home)
	c.Notice = func(s string) { k.log("%s: %s", id, s) }
	found, err := c.Find(ctx, id, revision, o)
	if err != nil {
		return err
	}
	m.Revision = found.Commit
	if m.Kind == "hub" { // a fresh model has only the architecture of the other
		m.Licence = found.Licence
	}
	if snap := found.Cached; snap != nil {
		m.Snapshot = func(context.Context) (string, error) { return snap.Path, nil }
		return k.checkSnapshot(m, *snap)
	}
	var once sync.Once
	var path string
	var failed error
	m.Snapshot = func(ctx context.Context) (string, error) {
		once.Do(func() {
			o.Progress = k.downloading(id)
			var snap hub.Snapshot
			if snap, failed = c.Download(ctx, found.Info, o); failed == nil {
				path, failed = snap.Path, k.checkSnapshot(m, snap)
			}
		})
		return path, failed
	}
	return nil
}

func (k *kit) local(ctx context.Context, name string, o runOptions) (*runner.Model, error) {
	snap, err := hub.Local(ctx, name, hub.Options{RemoteCode: o.remoteCode}, filepath.Join(k.home, "local-models.json"))
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(snap.Path)
	if err != nil {
		return nil, err
	}
	m := &runner.Model{
		ID: filepath.ToSlash(name), Revision: snap.Revision, Kind: "local", RemoteCode: o.remoteCode, Licence: snap.Licence,
		Snapshot: func(context.Context) (string, error) { return path, nil },
	}
	return m, k.checkSnapshot(m, snap)
}

// checkSnapshot says what a user should know about a model's files.
func (k *kit) checkSnapshot(m *runner.Model, snap hub.Snapshot) error {
	if snap.Pickle {
		k.log("%s: the weights are a pickle, not safetensors; they are loaded as nothing but weights", m.ID)
	}
	if m.RemoteCode && len(snap.CodeElsewhere) > 0 {
		return &runner.PreconditionError{
			What: fmt.Sprintf("%s: its code is in other repositories (%s), which are not downloaded", m.ID, strings.Join(snap.CodeElsewhere, ", ")),
			Hint: "copy that code into a local folder with the model, and run the folder: bench run ./my-model --allow-remote-code",
		}
	}
	return nil
}

// downloading says now and then how far a download is.
func (k *kit) downloading(id string) func(done, total int64) {
	next := int64(0)
	return func(done, total int64) {
		if total < 10e6 || done < next { // small ones are here before anybody wonders
			return
		}
		next = done + max(total/5, 64<<20)
		k.log("%s: %.0f of %.0f MB here", id, float64(done)/1e6, float64(total)/1e6)
	}
}

// choose decides which executor trains, and which digest stands for the trainer
// if it is not the embedded one.
func (k *kit) choose(ctx context.Context, o runOptions) (executor, image string, err error) {
	executor = o.executor
	if executor == "baseline" {
		return "", "", usage("", "--executor baseline runs baseline:NAME models only")
	}
	if executor == "auto" {
		executor = "docker"
		if o.python != "" {
			executor = "process"
		} else if len(o.hosts) > 0 {
			// Who names hosts does not want everything to run here instead.
		} else if _, err := k.engine(ctx); err != nil {
			if o.runsCode() || o.image != "" || !containers.IsKind(err, containers.Unreachable) {
				return "", "", err
			}
			executor = "process"
			if !k.warned {
				k.warned = true
				k.log("no Docker engine answers: models train in a process, without a sandbox")
			}
		}
	}
	if executor == "process" && o.runsCode() {
		return "", "", usage("use --executor docker", "--allow-remote-code: code from a model's repository is not run outside of a container")
	}
	if executor == "docker" && o.image != "" {
		e, err := k.engine(ctx)
		if err != nil {
			return "", "", err
		}
		i, err := k.findImage(ctx, e, o.image)
		if containers.IsKind(err, containers.ImageMissing) {
			return "", "", &runner.PreconditionError{What: "the image that was named is not there", Hint: "docker pull " + o.image + ", or without an image the one that bench image build makes", Err: err}
		}
		if err != nil {
			return "", "", err
		}
		k.ref = o.image
		k.image = i.ID // on all hosts the same, whatever a tag means there
		image = "image:" + i.ID
	}
	if executor == kubernetes.Name {
		image = k.kubernetesTrainer(o)
		e, err := k.executor(kubernetes.Name)
		if err != nil {
			return "", "", err
		}
		if err := e.(*kubernetes.Executor).Check(ctx); err != nil {
			return "", "", err
		}
	}
	if executor == "slurm" {
		e, err := k.executor("slurm")
		if err != nil {
			return "", "", err
		}
		if err := e.(*slurm.Executor).Check(ctx); err != nil {
			return "", "", err
		}
		if image, err = k.openSlurmImage(ctx, o); err != nil {
			return "", "", err
		}
	}
	return executor, image, nil
}

// slotsFor says how many batches run at a time.
func (k *kit) slotsFor(ctx context.Context, models []*runner.Model, o runOptions) (int, error) {
	trained := slices.DeleteFunc(slices.Clone(models), func(m *runner.Model) bool { return m.Executor == "baseline" })
	switch {
	case len(trained) == 0: // baselines use one CPU each
		return cmp.Or(o.slots, runtime.NumCPU()), nil
	case trained[0].Executor == kubernetes.Name:
		return cmp.Or(o.slots, kubernetesSlots), nil
	case trained[0].Executor == "slurm":
		return cmp.Or(o.slots, slurmSlots), nil
	case trained[0].Executor != "docker":
		return max(1, o.slots), nil
	}
	e, err := k.executor("docker")
	if err != nil {
		return 0, err
	}
	return e.(*pool.Pool).Open(ctx)
}

// localOutput runs a program of this machine.
func localOutput(ctx context.Context, argv ...string) (string, error) {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
	return string(out), err
}

// otherVersions names the packages of a user's own Python that decide results
// and differ from those that are locked with the trainer: with them it is
// another trainer. "": none differs. The error is a *runner.PreconditionError.
func otherVersions(ctx context.Context, run func(context.Context, ...string) (string, error), python string) (string, error) {
	const program = `import importlib.metadata as m, json, sys
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return ""
print(json.dumps({name: version(name) for name in sys.argv[1:]}))`
	names := []string{"torch", "transformers", "tokenizers", "safetensors", "numpy"}
	out, err := run(ctx, append([]string{python, "-c", program}, names...)...)
	var have map[string]string
	if err == nil {
		err = json.Unmarshal([]byte(out), &have)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", &runner.PreconditionError{What: fmt.Sprintf("--python %s cannot be asked for its packages", python), Hint: "name a Python that has torch and transformers", Err: err}
	}
	locked := map[string]string{}
	for line := range strings.Lines(string(trainer.Requirements())) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), "=="); ok {
			version, _, _ = strings.Cut(version, " ")
			locked[strings.ToLower(name)] = version
		}
	}
	var other []string
	for _, name := range names {
		version, _, _ := strings.Cut(have[name], "+") // a build of torch is named 2.2.2+cu121
		if version != locked[name] {
			other = append(other, name+" "+have[name])
		}
	}
	if len(other) == 0 {
		return "", nil
	}
	return " with " + strings.Join(other, ", "), nil
}
