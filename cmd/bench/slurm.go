package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bench/containers"
	"bench/containers/trainer"
	"bench/runner/process"
	"bench/runner/slurm"

	"github.com/spf13/pflag"
)

// slurmOptions say how --executor slurm submits batches: the flags --slurm-…,
// and the mapping slurm in a sweep's file.
type slurmOptions struct {
	Account   string        `yaml:"account"`
	Partition string        `yaml:"partition"`
	Options   []string      `yaml:"options"`
	Container string        `yaml:"container"`
	Poll      time.Duration `yaml:"poll"`
}

func (o *slurmOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Account, "slurm-account", "", "account that Slurm charges (default: the site's)")
	f.StringVar(&o.Partition, "slurm-partition", "", "partition of Slurm (default: the site's)")
	f.StringArrayVar(&o.Options, "slurm-option", nil, "further option of sbatch, such as --qos=high (repeatable)")
	f.StringVar(&o.Container, "slurm-container", "", "container program on the nodes: auto, apptainer, singularity, pyxis, podman-hpc, podman, none (default auto with --image, else none: no sandbox)")
	f.DurationVar(&o.Poll, "slurm-poll", 0, "time between two questions to Slurm (default 10s)")
}

// validate says what cannot be meant, given the other options of the run.
func (o slurmOptions) validate(r runOptions) (errs []error) {
	if r.executor != "slurm" {
		if o.Account != "" || o.Partition != "" || o.Container != "" || len(o.Options) > 0 || o.Poll != 0 {
			errs = append(errs, usage("", "--slurm-… is for --executor slurm"))
		}
		return errs
	}
	choices := append([]string{"", "auto", "none"}, slurm.Runtimes()...)
	known := slices.Contains(choices, o.Container)
	if !known {
		errs = append(errs, usage("bench run --help", "--slurm-container %s: choose one of %v", o.Container, choices[1:]))
	}
	if o.Poll < 0 {
		errs = append(errs, usage("", "--slurm-poll cannot be negative"))
	}
	for _, word := range o.Options {
		if len(word) < 2 || word[0] != '-' {
			errs = append(errs, usage("such as --slurm-option=--qos=high", "--slurm-option %q is not an option of sbatch", word))
		}
	}
	switch {
	case r.image == "" && known && !slices.Contains([]string{"", "auto", "none"}, o.Container):
		errs = append(errs, usage("name the file of an image with --image (.sif, .sqsh, .tar)", "--slurm-container %s needs an image", o.Container))
	case r.image != "" && o.Container == "none":
		errs = append(errs, usage("leave out one of the two", "--image is not used with --slurm-container none"))
	case r.image != "" && r.python != "":
		errs = append(errs, usage("leave out one of the two", "--python is not used in a container"))
	}
	if r.runsCode() && r.image == "" {
		errs = append(errs, usage("give a container image with --image", "--allow-remote-code: code from a model's repository is not run outside of a container"))
	}
	return errs
}

// slurmSlots is how many batches are in Slurm at a time if the user does not say.
const slurmSlots = 100

// slurm makes the executor.
func (k *kit) slurm() *slurm.Executor {
	o := k.slurmOptions
	return slurm.New(slurm.Options{
		Partition: o.Partition, Account: o.Account, Extra: o.Options, Poll: o.Poll, Limits: k.limits,
		Notice: func(s string) { k.say("%s", s) }, Program: k.slurmProgram,
	})
}

// slurmProgram makes what runs on the nodes: the container's image, or the
// trainer and its environment in HOME.
func (k *kit) slurmProgram(ctx context.Context) (slurm.Program, error) {
	if k.slurmImage.File != "" {
		return slurm.Program{Image: k.slurmImage}, nil
	}
	dir, err := k.unpackTrainer()
	if err != nil {
		return slurm.Program{}, err
	}
	python := k.python
	if python == "" {
		if python, err = process.EnsureVenv(ctx, filepath.Join(k.home, "venvs"), trainer.Requirements(), "", k.progress()); err != nil {
			return slurm.Program{}, err
		}
	} else if found, err := process.Probe(ctx, python); err != nil {
		return slurm.Program{}, err
	} else {
		python = found.Path
	}
	return slurm.Program{Python: python, Trainer: filepath.Join(dir, trainer.SourceDir)}, nil
}

// openSlurmImage looks at the image that was named, and returns the digest that
// stands for its trainer: "" for the one that is embedded.
func (k *kit) openSlurmImage(ctx context.Context, o runOptions) (string, error) {
	if o.image == "" {
		if !k.warned {
			k.warned = true
			k.say("models train on the nodes of Slurm without a container, so without a sandbox; --image names one")
		}
		return "", nil
	}
	if k.slurmImage.File == "" {
		program := o.slurm.Container
		if program == "auto" {
			program = ""
		}
		image, err := slurm.OpenImage(ctx, o.image, program, filepath.Join(k.home, "images"), k.progress())
		if err != nil {
			return "", err
		}
		k.slurmImage = image
	}
	if slices.Contains(k.slurmImage.Names, containers.TrainerImage()) {
		return "", nil
	}
	return "image:" + k.slurmImage.Digest, nil
}

// checkSlurm looks whether batches can be submitted, where there is a Slurm:
// its commands are here, or its configuration is named.
func (k *kit) checkSlurm(ctx context.Context) (f finding, is bool) {
	if _, err := exec.LookPath("sbatch"); err != nil && os.Getenv("SLURM_CONF") == "" {
		return f, false
	}
	f = finding{Part: "slurm"}
	e, err := k.executor(slurm.Name)
	if err == nil {
		f.Detail, err = e.(*slurm.Executor).Describe(ctx)
	}
	if err != nil {
		f.Detail, f.Remedy = strings.ReplaceAll(err.Error(), "\n", "; "), strings.Join(hints(err), "; ")
		return f, true
	}
	f.OK = true
	return f, true
}
