package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"bench/containers"
	"bench/runner/docker"
	"bench/runner/kubernetes"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// kubernetesOptions say where and how --executor kubernetes makes Jobs: the
// mapping kubernetes in a sweep's file, or the file that --kubernetes names.
type kubernetesOptions struct {
	Kubectl        string                  `yaml:"kubectl"`
	Context        string                  `yaml:"context"`
	Namespace      string                  `yaml:"namespace"`
	Queue          string                  `yaml:"queue"`
	PVC            kubernetesPVC           `yaml:"pvc"`
	Store          kubernetesStore         `yaml:"store"`
	Image          string                  `yaml:"image"`
	Entrypoint     []string                `yaml:"entrypoint"`
	PullSecrets    []string                `yaml:"pull_secrets"`
	GPUResource    string                  `yaml:"gpu_resource"`
	NodeSelector   map[string]string       `yaml:"node_selector"`
	Tolerations    []kubernetes.Toleration `yaml:"tolerations"`
	PriorityClass  string                  `yaml:"priority_class"`
	RuntimeClass   string                  `yaml:"runtime_class"`
	ServiceAccount string                  `yaml:"service_account"`
	User           int                     `yaml:"user"`
	Group          int                     `yaml:"group"`
	NetworkPolicy  string                  `yaml:"network_policy"` // own (default), none
	StartTimeout   time.Duration           `yaml:"start_timeout"`
	Poll           time.Duration           `yaml:"poll"`
}

// kubernetesPVC is a PersistentVolumeClaim.
type kubernetesPVC struct {
	Claim  string `yaml:"claim"`
	Path   string `yaml:"path"`   // where this machine has its volume
	Folder string `yaml:"folder"` // in the volume
}

// kubernetesStore is an object store, in place of a claim. Its login is in the
// environment.
type kubernetesStore struct {
	URL      string `yaml:"url"`
	Endpoint string `yaml:"endpoint"`
	Region   string `yaml:"region"`
}

// place is the store with what is left out filled in.
func (s kubernetesStore) place() kubernetes.Store {
	if s == (kubernetesStore{}) {
		return kubernetes.Store{}
	}
	region := cmp.Or(s.Region, os.Getenv("AWS_REGION"), "us-east-1")
	return kubernetes.Store{URL: s.URL, Endpoint: cmp.Or(s.Endpoint, "https://s3."+region+".amazonaws.com"), Region: region}
}

// kubernetesFlag is --kubernetes FILE: the mapping in a file of its own.
type kubernetesFlag struct{ to **kubernetesOptions }

func (f kubernetesFlag) String() string { return "" }
func (f kubernetesFlag) Type() string   { return "file" }

func (f kubernetesFlag) Set(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var o kubernetesOptions
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err = d.Decode(&o)
	var types *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s is empty", path)
	case errors.As(err, &types):
		return errors.Join(typeErrors(path, types)...)
	case err != nil:
		return fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	*f.to = &o
	return nil
}

// addKubernetes adds the flag.
func addKubernetes(f *pflag.FlagSet, to **kubernetesOptions) {
	f.Var(kubernetesFlag{to}, "kubernetes", "file that says where in Kubernetes models train: context, namespace, image, pvc … (see the manual)")
}

// pinned is an image by its digest: a tag alone may be another image tomorrow.
var pinned = regexp.MustCompile(`@(sha256:[0-9a-f]{64})$`)

// validate says what cannot be meant, given the other options of the run.
func (o *kubernetesOptions) validate(r runOptions) (errs []error) {
	if r.executor != kubernetes.Name {
		if o != nil {
			errs = append(errs, usage("", "the kubernetes mapping is for --executor kubernetes"))
		}
		return errs
	}
	wrong := func(hint, format string, args ...any) {
		errs = append(errs, usage(hint, "kubernetes: "+format, args...))
	}
	if o == nil {
		wrong("bench run --help; the manual describes the mapping", "nothing says where: give a kubernetes mapping in the sweep's file, or --kubernetes FILE")
		return errs
	}
	stored := o.Store != (kubernetesStore{})
	switch {
	case stored && o.PVC != (kubernetesPVC{}):
		wrong("leave out one of the two", "there are both pvc and store")
	case stored:
		if err := o.Store.place().Check(); err != nil {
			wrong("store: {url: s3://BUCKET/PREFIX, endpoint: https://HOST}", "%v", err)
		}
	case o.PVC.Claim == "":
		wrong("pvc: {claim: NAME, path: /where/it/is/mounted/here}, or store: {url: s3://BUCKET/PREFIX, endpoint: https://HOST}", "pvc names no claim, and there is no store; data and results go through one of the two")
	}
	if o.PVC.Path != "" && !filepath.IsAbs(o.PVC.Path) {
		wrong("", "pvc: path %s is not absolute", o.PVC.Path)
	}
	if f := o.PVC.Folder; f != "" && (!filepath.IsLocal(f) || f == ".") {
		wrong("", "pvc: folder %s is no folder of the volume", f)
	}
	switch image := o.image(r); {
	case image == "":
		wrong("bench image build, bench image push REGISTRY/bench-trainer, then image: with the name it says", "image is missing")
	case pinned.FindString(image) == "" && !isTrainer(image):
		wrong("image: NAME@sha256:… (docker inspect says the digest)", "image %s is neither the trainer of this bench (tag %s) nor named by its digest, so it may change between two seeds", image, tagOf(containers.TrainerImage()))
	}
	if stored && len(o.entrypoint(r.image)) == 0 {
		wrong("entrypoint: [PROGRAM, ARGUMENT…] as in the image (docker inspect)", "with a store, pods cut off the trainer's network themselves, and how it is started in the image is not known")
	}
	if o.NetworkPolicy != "" && o.NetworkPolicy != "own" && o.NetworkPolicy != "none" {
		wrong("", "network_policy: %s: choose own or none", o.NetworkPolicy)
	}
	if o.User < 0 || o.Group < 0 || o.StartTimeout < 0 || o.Poll < 0 {
		wrong("", "user, group, start_timeout and poll cannot be negative")
	}
	for _, t := range o.Tolerations {
		if t.Operator != "" && t.Operator != "Exists" && t.Operator != "Equal" {
			wrong("", "tolerations: operator %s: choose Exists or Equal", t.Operator)
		}
	}
	if r.python != "" {
		wrong("", "--python is for --executor process")
	}
	return errs
}

// image is the one that pods run.
func (o *kubernetesOptions) image(r runOptions) string { return cmp.Or(o.Image, r.image) }

// trainerEntrypoint is that of the embedded trainer's image.
var trainerEntrypoint = []string{"/opt/bench/bin/python", "-m", "bench_trainer"}

// entrypoint is that of the pods' image, if it is known; image is used where the
// mapping names none.
func (o *kubernetesOptions) entrypoint(image string) []string {
	if len(o.Entrypoint) == 0 && isTrainer(cmp.Or(o.Image, image)) {
		return trainerEntrypoint
	}
	return o.Entrypoint
}

func tagOf(image string) string { return image[strings.LastIndex(image, ":")+1:] }

// isTrainer says whether a reference, wherever it is from, has the tag that
// bench image push gives to the embedded trainer.
func isTrainer(image string) bool {
	name, _, _ := strings.Cut(image, "@")
	return strings.HasSuffix(name, "/"+containers.TrainerImage()) || name == containers.TrainerImage() || tagOf(name) == tagOf(containers.TrainerImage())
}

// kubernetesTrainer is the digest that stands for the image's trainer: "" for
// the one that is embedded.
func (k *kit) kubernetesTrainer(o runOptions) string {
	image := o.kubernetes.image(o)
	if isTrainer(image) {
		return ""
	}
	return "image:" + pinned.FindStringSubmatch(image)[1]
}

// kubernetesSlots is how many batches are in Kubernetes at a time if the user
// does not say.
const kubernetesSlots = 100

// kubernetes makes the executor. Without options it finds batches of earlier
// runs, and starts none.
func (k *kit) kubernetes() *kubernetes.Executor {
	o := cmp.Or(k.kubernetesOptions, &kubernetesOptions{})
	k.cluster = kubernetes.New(kubernetes.Options{
		Place: kubernetes.Place{
			Kubectl: o.Kubectl, Context: o.Context, Namespace: o.Namespace, Instance: docker.Instance(k.home),
			Claim: o.PVC.Claim, Path: o.PVC.Path, Folder: o.PVC.Folder, Store: o.Store.place(),
		},
		StoreKeys: kubernetes.StoreKeys{ID: os.Getenv("AWS_ACCESS_KEY_ID"), Secret: os.Getenv("AWS_SECRET_ACCESS_KEY"), Session: os.Getenv("AWS_SESSION_TOKEN")},
		Image:     cmp.Or(o.Image, k.image), Entrypoint: o.entrypoint(k.image), Queue: o.Queue, GPUResource: o.GPUResource, NodeSelector: o.NodeSelector, Tolerations: o.Tolerations,
		PriorityClass: o.PriorityClass, RuntimeClass: o.RuntimeClass, ServiceAccount: o.ServiceAccount, PullSecrets: o.PullSecrets,
		User: o.User, Group: o.Group, OpenNetwork: o.NetworkPolicy == "none", StartTimeout: o.StartTimeout, Poll: o.Poll,
		Limits: k.limits, Version: version(), Notice: func(s string) { k.say("%s", s) },
	})
	return k.cluster
}

// kubernetesGC removes what batches of this home left in a cluster.
func (k *kit) kubernetesGC(ctx context.Context, running bool) error {
	if k.kubernetesOptions == nil {
		return nil
	}
	if _, err := k.executor(kubernetes.Name); err != nil {
		return err
	}
	names, err := k.cluster.GC(ctx, running)
	for _, n := range names {
		fmt.Fprintln(k.stdout, "removed", n)
	}
	return err
}

// checkCluster looks whether batches can be started in Kubernetes.
func (k *kit) checkCluster(ctx context.Context) finding {
	f := finding{Part: "kubernetes"}
	err := errors.Join(k.kubernetesOptions.validate(runOptions{executor: kubernetes.Name})...)
	if err == nil {
		_, err = k.executor(kubernetes.Name)
	}
	if err == nil {
		err = k.cluster.Check(ctx)
	}
	if err != nil {
		f.Detail, f.Remedy = strings.ReplaceAll(err.Error(), "\n", "; "), strings.Join(hints(err), "; ")
		return f
	}
	o := k.kubernetesOptions
	through := "claim " + o.PVC.Claim
	if o.PVC.Claim == "" {
		through = "store " + o.Store.URL
	}
	f.OK, f.Detail = true, fmt.Sprintf("%s, image %s, %s", cmp.Or(o.Context, "the current context"), o.Image, through)
	return f
}
