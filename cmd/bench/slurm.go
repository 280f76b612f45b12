package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bench/containers"
	"bench/containers/trainer"
	"bench/internal/sshlink"
	"bench/runner/docker"
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
	Array     int           `yaml:"array"`
	Host      string        `yaml:"host"`
	Folder    string        `yaml:"folder"`
}

func (o *slurmOptions) addFlags(f *pflag.FlagSet) {
	o.addSite(f)
	f.StringVar(&o.Account, "slurm-account", "", "account that Slurm charges (default: the site's)")
	f.StringVar(&o.Partition, "slurm-partition", "", "partition of Slurm (default: the site's)")
	f.StringArrayVar(&o.Options, "slurm-option", nil, "further option of sbatch, such as --qos=high (repeatable)")
	f.StringVar(&o.Container, "slurm-container", "", "container program on the nodes: auto, apptainer, singularity, pyxis, podman-hpc, podman, none (default auto with --image, else none: no sandbox)")
	f.IntVar(&o.Array, "slurm-array", 0, "hand in up to so many batches by one sbatch, as a job array (default: one each)")
	f.DurationVar(&o.Poll, "slurm-poll", 0, "time between two questions to Slurm (default 10s)")
}

// addSite adds the flags that say where the cluster is.
func (o *slurmOptions) addSite(f *pflag.FlagSet) {
	f.StringVar(&o.Host, "slurm-host", "", "login node of the cluster, as for ssh: [USER@]HOST[:PORT] (default: this machine is one)")
	f.StringVar(&o.Folder, "slurm-folder", "", "with --slurm-host: folder that the login node and the nodes see, for what is sent there")
}

// validateSite says what cannot be meant with them.
func (o slurmOptions) validateSite() (errs []error) {
	if o.Host == "" {
		if o.Folder != "" {
			errs = append(errs, usage("", "--slurm-folder is for --slurm-host; without it the home folder is used"))
		}
		return errs
	}
	if _, err := sshlink.Parse(o.Host); err != nil {
		errs = append(errs, usage("such as ann@login.site.org", "--slurm-host: %v", err))
	}
	if !path.IsAbs(o.Folder) || path.Clean(o.Folder) == "/" {
		errs = append(errs, usage("name one on the cluster that its nodes see: --slurm-folder /scratch/ann/bench", "--slurm-host takes a folder of the cluster, and %q is no absolute path of one", o.Folder))
	}
	return errs
}

// slurmSite is where the cluster is.
func (k *kit) slurmSite() slurm.Site {
	o := k.slurmOptions
	if o.Host == "" {
		return slurm.Site{}
	}
	return slurm.Site{Host: o.Host, Folder: path.Clean(o.Folder), Instance: docker.Instance(k.home)}
}

// validate says what cannot be meant, given the other options of the run.
func (o slurmOptions) validate(r runOptions) (errs []error) {
	if r.executor != "slurm" {
		if o.Host != "" || o.Folder != "" || o.Account != "" || o.Partition != "" || o.Container != "" || len(o.Options) > 0 || o.Poll != 0 || o.Array != 0 {
			errs = append(errs, usage("", "--slurm-… is for --executor slurm"))
		}
		return errs
	}
	errs = append(errs, o.validateSite()...)
	if o.Host != "" && r.image == "" && r.python == "" {
		errs = append(errs, usage("give --python /path/on/the/cluster/python with torch and transformers, or --image FILE, which is sent there", "nothing says what runs on the nodes of %s: an environment is not made there", o.Host))
	}
	choices := append([]string{"", "auto", "none"}, slurm.Runtimes()...)
	known := slices.Contains(choices, o.Container)
	if !known {
		errs = append(errs, usage("bench run --help", "--slurm-container %s: choose one of %v", o.Container, choices[1:]))
	}
	if o.Poll < 0 {
		errs = append(errs, usage("", "--slurm-poll cannot be negative"))
	}
	if o.Array < 0 || o.Array > maxArray {
		errs = append(errs, usage(fmt.Sprintf("at most %d; sites allow less: scontrol show config | grep MaxArraySize", maxArray), "--slurm-array %d cannot be", o.Array))
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

// maxArray is how many tasks an array may have where nobody has changed Slurm's
// own limit.
const maxArray = 1000

// slurmSlots is how many batches are in Slurm at a time if the user does not say.
const slurmSlots = 100

// slurm makes the executor.
func (k *kit) slurm() *slurm.Executor {
	o := k.slurmOptions
	return slurm.New(slurm.Options{
		Site: k.slurmSite(), Partition: o.Partition, Account: o.Account, Extra: o.Options, Poll: o.Poll, Array: o.Array, Limits: k.limits,
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
	if k.slurmOptions.Host != "" { // on the cluster; its nodes are asked whether it is there
		return slurm.Program{Python: python, Trainer: filepath.Join(dir, trainer.SourceDir)}, nil
	}
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
	if errs := k.slurmOptions.validateSite(); len(errs) > 0 {
		return finding{Part: "slurm", Detail: errs[0].Error(), Remedy: strings.Join(hints(errs[0]), "; ")}, true
	}
	if _, err := exec.LookPath("sbatch"); k.slurmOptions.Host == "" && err != nil && os.Getenv("SLURM_CONF") == "" {
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

// slurmGC removes what this home sent to a cluster that is named by flags.
func (k *kit) slurmGC(ctx context.Context) error {
	if k.slurmOptions.Host == "" {
		return nil
	}
	e, err := k.executor(slurm.Name)
	if err != nil {
		return err
	}
	names, err := e.(*slurm.Executor).GC(ctx)
	for _, n := range names {
		fmt.Fprintln(k.stdout, "removed", n)
	}
	return err
}
