package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"bench/runner/job"

	"go.yaml.in/yaml/v3"
)

// sweepFile is the file of bench sweep: what the flags of bench run say, for
// many models. docs/manual.md describes it.
type sweepFile struct {
	Models      []yaml.Node        `yaml:"models"` // names, or {file: PATH} with a name a line
	Suite       string             `yaml:"suite"`
	Datasets    []string           `yaml:"datasets"`
	Tasks       []string           `yaml:"tasks"`
	Languages   []string           `yaml:"languages"`
	PickOn      string             `yaml:"pick_on"`
	ScoreOn     string             `yaml:"score_on"`
	Seeds       *int               `yaml:"seeds"`
	Protocol    string             `yaml:"protocol"`
	Set         []string           `yaml:"set"` // key=value
	Executor    string             `yaml:"executor"`
	Hosts       []hostEntry        `yaml:"hosts"`
	Slurm       slurmOptions       `yaml:"slurm"`
	Kubernetes  *kubernetesOptions `yaml:"kubernetes"`
	Image       string             `yaml:"image"`
	Python      string             `yaml:"python"`
	Batch       string             `yaml:"batch"`
	Slots       int                `yaml:"slots"`
	Threads     int                `yaml:"threads"`
	Memory      string             `yaml:"memory"`
	Timeout     time.Duration      `yaml:"timeout"`
	Device      string             `yaml:"device"`
	Partial     bool               `yaml:"partial"`
	RemoteCode  bool               `yaml:"allow_remote_code"`
	GPUs        string             `yaml:"gpus"`
	SlotsPerGPU int                `yaml:"slots_per_gpu"`
	GPUMemory   string             `yaml:"gpu_memory"`
	WattsPerGPU *float64           `yaml:"watts_per_gpu"`
	Carbon      *float64           `yaml:"carbon"` // kg CO2e a kWh
	Price       *float64           `yaml:"price"`  // of a GPU hour
}

// sweep is a sweepFile that has been checked.
type sweep struct {
	models  []string
	options runOptions
}

// readSweep reads and checks a sweep's file. All that is wrong in it is
// reported together, with file and line.
func readSweep(path string) (*sweep, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("bench sweep FILE.yaml; the manual describes the file", "%w", err)
	}
	var f sweepFile
	var errs []error
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err = d.Decode(&f)
	var types *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return nil, usage("", "%s is empty", path)
	case errors.As(err, &types):
		errs = append(errs, typeErrors(path, types)...)
	case err != nil:
		return nil, usage("", "%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	s := &sweep{}
	errs = append(errs, s.addModels(path, f.Models)...)
	amount := func(key string, from *float64, to *float64) {
		if from == nil {
			return
		}
		if *from < 0 {
			errs = append(errs, fmt.Errorf("%s: %s cannot be negative", path, key))
		}
		*to = *from
	}
	cost := paperCost()
	amount("watts_per_gpu", f.WattsPerGPU, &cost.watts)
	amount("carbon", f.Carbon, &cost.carbon)
	amount("price", f.Price, &cost.price)
	o := runOptions{
		selection: selection{suite: f.Suite, names: f.Datasets, tasks: f.Tasks, langs: f.Languages, picking: picking{pickOn: "val", scoreOn: "test"}},
		seeds:     job.DefaultSeeds, executor: "auto", protocol: "paper", set: f.Set, batch: "seed", device: "auto",
		threads: f.Threads, slots: f.Slots, slurm: f.Slurm, kubernetes: f.Kubernetes, image: f.Image, python: f.Python, memory: f.Memory, timeout: f.Timeout,
		remoteCode: f.RemoteCode, partial: f.Partial, cost: cost,
		gpus: gpuOptions{list: f.GPUs, slots: f.SlotsPerGPU, memory: f.GPUMemory},
	}
	for to, from := range map[*string]string{&o.executor: f.Executor, &o.protocol: f.Protocol, &o.batch: f.Batch, &o.device: f.Device, &o.pickOn: f.PickOn, &o.scoreOn: f.ScoreOn} {
		if from != "" {
			*to = from
		}
	}
	if f.Seeds != nil {
		o.seeds = *f.Seeds
	}
	hosts, wrong := hostsOf(path, f.Hosts)
	o.hosts, errs = hosts, append(errs, wrong...)
	if err := o.validate(); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", path, err))
	}
	if _, err := job.NewProtocol(o.protocol, o.set); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", path, err))
	}
	s.options = o
	if err := errors.Join(errs...); err != nil {
		return nil, usage("mend the file, then bench sweep --dry-run "+path+" shows the plan", "%w", err)
	}
	return s, nil
}

// unknownKey is how the decoder says that a mapping has a key too many.
var unknownKey = regexp.MustCompile(`^field (.*) not found in type .*$`)

// typeErrors are what a decoder found wrong, "line 3: field modles not found in
// type main.sweepFile", with the file.
func typeErrors(path string, types *yaml.TypeError) (errs []error) {
	for _, e := range types.Errors {
		line, what, _ := strings.Cut(strings.TrimPrefix(e, "line "), ": ")
		errs = append(errs, fmt.Errorf("%s:%s: %s", path, line, unknownKey.ReplaceAllString(what, "there is no key $1")))
	}
	return errs
}

// addModels takes the models in the order of the file.
func (s *sweep) addModels(path string, nodes []yaml.Node) (errs []error) {
	at := map[string]string{}
	add := func(name, where string) {
		if first, ok := at[name]; ok {
			errs = append(errs, fmt.Errorf("%s: model %s is there already, at %s", where, name, first))
			return
		}
		at[name] = where
		s.models = append(s.models, name)
	}
	for _, n := range nodes {
		where := fmt.Sprintf("%s:%d", path, n.Line)
		var name string
		if n.Kind == yaml.ScalarNode && n.Decode(&name) == nil && name != "" {
			add(name, where)
			continue
		}
		var list map[string]string
		if n.Kind != yaml.MappingNode || n.Decode(&list) != nil || len(list) != 1 || list["file"] == "" {
			errs = append(errs, fmt.Errorf("%s: a model is a name, or file: PATH with a name a line", where))
			continue
		}
		file := list["file"]
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
			continue
		}
		line := 0
		for l := range strings.Lines(string(text)) {
			line++
			l, _, _ = strings.Cut(l, "#")
			if l = strings.TrimSpace(l); l != "" {
				add(l, fmt.Sprintf("%s:%d", file, line))
			}
		}
	}
	if len(s.models) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s: no models", path))
	}
	return errs
}
