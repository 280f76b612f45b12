package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"bench/datasets"
	"bench/datasets/build"
	"bench/datasets/published"
	"bench/runner"
	"bench/runner/job"

	"go.yaml.in/yaml/v3"
)

// sweepFile is the file of bench sweep: what the flags of bench run say, for
// many models. docs/manual.md describes it.
type sweepFile struct {
	Name        string             `yaml:"name"`   // of its folder in HOME/sweeps; "": the file's
	Models      []yaml.Node        `yaml:"models"` // see modelEntry
	Suite       string             `yaml:"suite"`
	Datasets    words              `yaml:"datasets"`
	Tasks       words              `yaml:"tasks"`
	Languages   words              `yaml:"languages"`
	PickOn      string             `yaml:"pick_on"`
	ScoreOn     string             `yaml:"score_on"`
	Seeds       *count             `yaml:"seeds"`
	Protocol    string             `yaml:"protocol"`
	Set         []string           `yaml:"set"` // key=value
	Executor    string             `yaml:"executor"`
	Hosts       []hostEntry        `yaml:"hosts"`
	Slurm       slurmOptions       `yaml:"slurm"`
	Kubernetes  *kubernetesOptions `yaml:"kubernetes"`
	Image       string             `yaml:"image"`
	Python      string             `yaml:"python"`
	Batch       string             `yaml:"batch"`
	Slots       *count             `yaml:"slots"`
	Threads     count              `yaml:"threads"`
	Memory      string             `yaml:"memory"`
	Timeout     time.Duration      `yaml:"timeout"`
	Patience    time.Duration      `yaml:"patience"`
	Device      string             `yaml:"device"`
	Partial     bool               `yaml:"partial"`
	RemoteCode  bool               `yaml:"allow_remote_code"`
	GPUs        string             `yaml:"gpus"`
	SlotsPerGPU count              `yaml:"slots_per_gpu"`
	GPUMemory   string             `yaml:"gpu_memory"`
	GPUsBeside  string             `yaml:"gpus_beside"`
	WattsPerGPU *float64           `yaml:"watts_per_gpu"`
	Carbon      *float64           `yaml:"carbon"` // kg CO2e a kWh
	Price       *float64           `yaml:"price"`  // of a GPU hour
	Limits      budgetEntry        `yaml:"limits"` // of all models together
	ModelLimits budgetEntry        `yaml:"model_limits"`
}

// budgetEntry bounds what trainings may take.
type budgetEntry struct {
	GPUHours *float64 `yaml:"gpu_hours"`
	KWh      *float64 `yaml:"kwh"`
	Price    *float64 `yaml:"price"`
}

// count is a whole number: the decoder by itself takes 2.5 for 2.
type count int

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *count) UnmarshalYAML(n *yaml.Node) error {
	x, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		return mistyped(n, "int")
	}
	*c = count(x)
	return nil
}

// mistyped is what the decoder says of a value of another type.
func mistyped(n *yaml.Node, want string) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: cannot unmarshal %s `%s` into %s", n.Line, n.Tag, n.Value, want)}}
}

// words is a list of words that knows its lines.
type words []word

type word struct {
	text string
	line int
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (w *words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return mistyped(n, "[]string")
	}
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode || item.Value == "" {
			return mistyped(item, "string")
		}
		*w = append(*w, word{item.Value, item.Line})
	}
	return nil
}

func (w words) texts() (out []string) {
	for _, x := range w {
		out = append(out, x.text)
	}
	return out
}

// sweep is a sweepFile that has been checked.
type sweep struct {
	path    string
	name    string
	entries []modelEntry
	models  []string // those of entries, with what their queries found; see app.find
	options runOptions
}

// sweepReader collects what is wrong in a sweep's file.
type sweepReader struct {
	path   string
	lines  map[string]int  // of the file's keys
	broken map[string]bool // places of values that could not be read, file:line
	errs   []error
}

// at notes an error at a line; 0: of the whole file.
func (r *sweepReader) at(line int, err error) {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range list.Unwrap() {
			r.at(line, e)
		}
		return
	}
	if own, ok := errors.AsType[*lineError](err); ok {
		line = own.line
	}
	if line == 0 {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", r.path, err))
		return
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %w", r.path, line, err))
}

// key notes an error of a key of the file, unless its value could not be read
// anyhow.
func (r *sweepReader) key(key string, err error) {
	if line := r.lines[key]; !r.broken[fmt.Sprintf("%s:%d", r.path, line)] {
		r.at(line, err)
	}
}

// line is where in the file an error is; 0: it does not say so.
func (r *sweepReader) line(err error) int {
	rest, _ := strings.CutPrefix(err.Error(), r.path+":")
	digits, _, _ := strings.Cut(rest, ":")
	n, _ := strconv.Atoi(digits)
	return n
}

// all is everything that was found, in the order of the file.
func (r *sweepReader) all() error {
	slices.SortStableFunc(r.errs, func(a, b error) int { return cmp.Compare(r.line(a), r.line(b)) })
	return errors.Join(r.errs...)
}

// flagWord is a flag in a message that was made for the command line.
var flagWord = regexp.MustCompile(`--([a-z]+(?:-[a-z]+)*)`)

// flags notes what the checks of the command line found wrong: in their words,
// with the keys of the file instead of the flags, at the first one's line.
func (r *sweepReader) flags(err error) {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range list.Unwrap() {
			r.flags(e)
		}
		return
	}
	if err == nil {
		return
	}
	line := 0
	rename := func(text string) string {
		return flagWord.ReplaceAllStringFunc(text, func(flag string) string {
			key := strings.ReplaceAll(flag[2:], "-", "_")
			for _, k := range []string{key, key + "s"} {
				if slices.Contains(keysOf["main.sweepFile"], k) {
					if line == 0 {
						line = r.lines[k]
					}
					return k
				}
			}
			return flag
		})
	}
	text := rename(err.Error())
	hint := strings.Join(hints(err), "; ")
	if hint == "bench run --help" {
		hint = ""
	}
	r.at(line, usage(flagWord.ReplaceAllStringFunc(hint, rename), "%s", text))
}

// readSweep reads and checks a sweep's file. All that is wrong in it is
// reported together, with file and line; nothing outside of this machine is
// asked.
func (a *app) readSweep(path string) (*sweep, error) {
	text, err := readText(path)
	if err != nil {
		return nil, usage("bench sweep FILE.yaml; the manual describes the file", "%w", err)
	}
	var f sweepFile
	r := &sweepReader{path: path, lines: map[string]int{}, broken: map[string]bool{}}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err = d.Decode(&f)
	var types *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return nil, usage("the manual describes the file", "%s is empty", path)
	case errors.As(err, &types):
		r.errs = append(r.errs, typeErrors(path, types)...)
	case err != nil:
		return nil, syntaxError(path, text, err)
	}
	var root yaml.Node
	if yaml.Unmarshal(text, &root) == nil && len(root.Content) == 1 {
		if r.look(root.Content[0]); root.Content[0].Kind != yaml.MappingNode {
			if len(r.errs) == 0 { // null
				r.at(0, errors.New("there is nothing in it"))
			}
			return nil, usage("it begins with models: and suite:; the manual describes it", "%w", r.all())
		}
	}
	for _, err := range r.errs {
		r.broken[fmt.Sprintf("%s:%d", path, r.line(err))] = true
	}
	if d.Decode(&yaml.Node{}) != io.EOF {
		r.at(0, errors.New("there is a second document behind ---; a sweep has a file of its own"))
	}
	s := &sweep{path: path, name: f.Name, entries: r.models(f.Models)}
	if s.name == "" {
		base := notInName.ReplaceAllString(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), "-")
		s.name = "s" + base[:min(len(base), 99)]
		if sweepName.MatchString(s.name[1:]) {
			s.name = s.name[1:]
		}
	}
	if !sweepName.MatchString(s.name) {
		r.key("name", fmt.Errorf("name is %q; it is made of letters, digits, dots, dashes and underscores", s.name))
	}
	of := map[string]modelOptions{}
	for _, m := range s.entries {
		if m.query == nil {
			s.models = append(s.models, m.name)
			of[m.name] = m.modelOptions
		} else {
			of[m.where] = m.modelOptions // so that its allow_remote_code counts
		}
	}
	s.options = r.options(f, of)
	if err := a.checkSelection(r, f); err != nil {
		return nil, err
	}
	if err := r.all(); err != nil {
		return nil, usage("mend the file, then bench sweep --dry-run "+path+" shows the plan", "%w", err)
	}
	return s, nil
}

// most bounds numbers in a file: beyond it they are slips of a finger.
const (
	mostSeeds   = 1000
	mostSlots   = 10_000
	mostThreads = 4096
	mostModels  = 10_000
	mostMemory  = 64 << 40
)

// options makes of the file what the flags of bench run would have said.
func (r *sweepReader) options(f sweepFile, of map[string]modelOptions) runOptions {
	amount := func(key, what string, from *float64, to *float64, least, most float64) {
		switch {
		case from == nil:
		case !(*from >= least && *from <= most): // NaN is neither
			r.key(key, fmt.Errorf("%s is %g; it is %s, from %g to %g", key, *from, what, least, most))
		default:
			*to = *from
		}
	}
	cost := paperCost()
	amount("watts_per_gpu", "the power of a GPU in W, such as 250", f.WattsPerGPU, &cost.watts, 1, 1e5)
	amount("carbon", "kg CO2e a kWh, such as 0.16", f.Carbon, &cost.carbon, 0, 1e3)
	amount("price", "what a GPU hour costs, such as 2.5", f.Price, &cost.price, 0, 1e9)
	if f.Threads > mostThreads {
		r.key("threads", fmt.Errorf("threads is %d; it is a number from 0 (all there are) to %d", f.Threads, mostThreads))
	}
	o := runOptions{
		selection: selection{suite: f.Suite, names: f.Datasets.texts(), tasks: f.Tasks.texts(), langs: f.Languages.texts(), picking: picking{pickOn: "val", scoreOn: "test"}},
		seeds:     job.DefaultSeeds, executor: "auto", protocol: "paper", set: f.Set, batch: "seed", device: "auto",
		threads: int(f.Threads), slurm: f.Slurm, kubernetes: f.Kubernetes, image: f.Image, python: f.Python, memory: f.Memory, timeout: f.Timeout, patience: f.Patience,
		remoteCode: f.RemoteCode, partial: f.Partial, cost: cost, of: of,
		gpus: gpuOptions{list: f.GPUs, slots: int(f.SlotsPerGPU), memory: f.GPUMemory, beside: f.GPUsBeside},
	}
	for to, from := range map[*string]string{&o.executor: f.Executor, &o.protocol: f.Protocol, &o.batch: f.Batch, &o.device: f.Device, &o.pickOn: f.PickOn, &o.scoreOn: f.ScoreOn} {
		if from != "" {
			*to = from
		}
	}
	whole := func(key string, from *count, to *int, most count) {
		if from == nil {
			return
		}
		if *from < 1 || *from > most {
			r.key(key, fmt.Errorf("%s is %d; it is a number from 1 to %d", key, *from, most))
			return
		}
		*to = int(*from)
	}
	whole("seeds", f.Seeds, &o.seeds, mostSeeds)
	whole("slots", f.Slots, &o.slots, mostSlots)
	if bytes, err := parseBytes(f.Memory); err == nil && f.Memory != "" && (bytes < 64<<20 || bytes > mostMemory) {
		r.key("memory", fmt.Errorf("memory is %s, for one batch; it is something between 64m and 64t, such as 16g", f.Memory))
	}
	if f.Timeout != 0 && f.Timeout < time.Second {
		r.key("timeout", fmt.Errorf("timeout is %v; it is at least a second, such as 6h", f.Timeout))
	}
	hosts, wrong := hostsOf(r.path, f.Hosts)
	o.hosts, r.errs = hosts, append(r.errs, wrong...)
	if len(f.Hosts) > 0 && o.executor != "auto" && o.executor != "docker" {
		r.key("hosts", fmt.Errorf("hosts are for executor docker, and executor is %s: leave out one of the two", o.executor))
	}
	r.flags(o.validate())
	if _, err := job.NewProtocol(o.protocol, o.set); err != nil {
		line := r.lines["protocol"]
		if len(o.set) > 0 {
			line = r.lines["set"]
		}
		r.at(line, err)
	}
	o.budget = r.budget("limits", f.Limits, cost)
	o.modelBudget = r.budget("model_limits", f.ModelLimits, cost)
	return o
}

// budget checks limits or model_limits.
func (r *sweepReader) budget(key string, e budgetEntry, cost costOptions) (b runner.Budget) {
	for _, x := range []struct {
		name string
		from *float64
		to   *float64
	}{{"gpu_hours", e.GPUHours, &b.GPUHours}, {"kwh", e.KWh, &b.KWh}, {"price", e.Price, &b.Price}} {
		switch {
		case x.from == nil:
		case !(*x.from > 0 && *x.from < 1e12):
			r.key(key, fmt.Errorf("%s: %s is %g; it is a number above 0 (leave it out for no limit)", key, x.name, *x.from))
		case x.name == "price" && cost.price == 0:
			r.key(key, fmt.Errorf("%s: a limit of the price needs price, that of a GPU hour", key))
		default:
			*x.to = *x.from
		}
	}
	return b
}

// checkSelection says which data sets, tasks, languages and suites there are
// not. The error is one of this machine.
func (a *app) checkSelection(r *sweepReader, f sweepFile) error {
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	b, err := (&kit{app: a, home: home}).builder()
	if err != nil {
		return err
	}
	if f.Suite == "" && len(f.Datasets)+len(f.Tasks)+len(f.Languages) == 0 {
		for _, key := range []string{"suite", "datasets", "tasks", "languages"} {
			if line := r.lines[key]; line > 0 && r.broken[fmt.Sprintf("%s:%d", r.path, line)] {
				return nil // said already
			}
		}
		r.at(0, errors.New("which data sets? Give suite, datasets, tasks or languages; suite: sample needs no download"))
		return nil
	}
	before := len(r.errs)
	if f.Suite != "" && !slices.Contains(append(b.Suites(), "catalogue"), f.Suite) {
		r.key("suite", fmt.Errorf("there is no suite %q; there are %s", f.Suite, strings.Join(b.Suites(), ", ")))
	}
	seen := map[string]int{}
	for _, w := range f.Datasets {
		if first := seen[w.text]; first > 0 {
			r.at(w.line, fmt.Errorf("data set %s is there already, at line %d", w.text, first))
			continue
		}
		seen[w.text] = w.line
		if strings.HasPrefix(w.text, published.Prefix) {
			if _, err := published.Parse(w.text); err != nil {
				r.at(w.line, err)
			}
		} else if _, err := b.Recipe(w.text); err != nil {
			r.at(w.line, err)
		}
	}
	var kinds []datasets.Kind
	for _, w := range f.Tasks {
		kinds = append(kinds, datasets.Kind(w.text))
		if !slices.Contains(datasets.Kinds, datasets.Kind(w.text)) {
			r.at(w.line, fmt.Errorf("there is no task %q; there are %s", w.text, joined(datasets.Kinds)))
		}
	}
	languages := []string{"no"}
	for _, x := range b.Recipes {
		languages = append(languages, x.Languages...)
	}
	slices.Sort(languages)
	languages = slices.Compact(languages)
	for _, w := range f.Languages {
		if !slices.Contains(languages, w.text) {
			r.at(w.line, fmt.Errorf("no data set is in the language %q; there are %s", w.text, strings.Join(languages, ", ")))
		}
	}
	hub := slices.ContainsFunc(f.Datasets, func(w word) bool { return strings.HasPrefix(w.text, published.Prefix) })
	if len(r.errs) == before && !hub { // those of the Hub are not known yet
		if _, err := b.Select(build.Selection{Suite: f.Suite, Names: f.Datasets.texts(), Tasks: kinds, Languages: f.Languages.texts()}); err != nil {
			r.at(0, err)
		}
	}
	return nil
}

// joined is a list for people.
func joined[T ~string](list []T) string {
	var out []string
	for _, x := range list {
		out = append(out, string(x))
	}
	return strings.Join(out, ", ")
}

// relativeTo is path, seen from the folder of the file that names it.
func relativeTo(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}
