// Package results keeps scored runs: one record for each model on each data
// set, in a file that only ever grows. docs/formats.md describes the file.
package results

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"bench/scoring"
	"bench/scoring/stats"
)

// Schema is the version of Record's layout.
const Schema = 1

// Record is one model on one data set: what was run, how, and what came out.
// The raw scores of every replicate are in it, so that every summary can be
// made again.
type Record struct {
	Schema int    `json:"schema"` // filled in by Append
	Bench  string `json:"bench"`  // version of the program
	// Finished is when the last replicate ended; zero, and left out, if it is not
	// known, as in most imported records.
	Finished        time.Time       `json:"finished,omitzero"`
	Model           Model           `json:"model"`
	Dataset         Dataset         `json:"dataset"`
	Protocol        string          `json:"protocol"` // with overrides, such as paper{learning_rate=0.001}
	Hyperparameters json.RawMessage `json:"hyperparameters"`
	Trainer         string          `json:"trainer"` // digest of the trainer
	RemoteCode      bool            `json:"remote_code"`
	Replicates      []Replicate     `json:"replicates"` // by seed
	Failures        []Failure       `json:"failures"`   // by seed

	// The rest is derived from the above by Summarize.

	Summary     map[string]Summary `json:"summary"`   // by metric
	Collapsed   []int              `json:"collapsed"` // seeds; see stats.Collapsed
	WallSeconds float64            `json:"wall_seconds"`
	GPUSeconds  float64            `json:"gpu_seconds"`
	// EnergyKWh is what the GPUs used, and CO2eKg what that emits as the paper
	// counts; absent when no GPU was used.
	EnergyKWh *float64 `json:"energy_kwh,omitempty"`
	CO2eKg    *float64 `json:"co2e_kg,omitempty"`
	// EnergySource says how EnergyKWh is known; where replicates differ, all are
	// named, sorted and separated by " | ".
	EnergySource string `json:"energy_source,omitempty"`

	// Versions of libraries, by name; see MergeVersions.
	Versions map[string]string `json:"versions"`

	// Imported is there if another program made the record.
	Imported *Imported `json:"imported,omitempty"`
}

// Imported keeps what another program's record says and a Record has no place
// for, so that nothing is lost when it is exported again.
type Imported struct {
	Format  string                       `json:"format"`            // layout it was read from; see scoring/results/scandeval
	Version string                       `json:"version,omitempty"` // of the program, if the record says it
	Model   string                       `json:"model"`             // as written there
	Task    string                       `json:"task"`              // as called there
	Fields  map[string]json.RawMessage   `json:"fields,omitempty"`  // all else of the record, as it was
	Raw     []map[string]json.RawMessage `json:"raw,omitempty"`     // of each replicate, what is not a score
}

// Model says which model was run.
type Model struct {
	ID         string `json:"id"`         // as the user named it, without @revision
	Revision   string `json:"revision"`   // commit of the Hub, or content digest
	Kind       string `json:"kind"`       // hub, local, fresh, baseline, api
	Parameters int64  `json:"parameters"` // trainable; 0: unknown
	MaxLength  int    `json:"max_length"` // tokens; 0: does not apply
	Vocabulary int    `json:"vocabulary"` // 0: does not apply
	// Licence as the model's card on the Hub names it (mit, apache-2.0, …), several
	// joined by ", "; "", and left out: not known.
	Licence string `json:"licence,omitempty"`
}

// Dataset says what a model was run on.
type Dataset struct {
	Name        string   `json:"name"`
	Digest      string   `json:"digest"`
	Task        string   `json:"task"`
	TaskVersion int      `json:"task_version"`
	Languages   []string `json:"languages"` // BCP 47
	TestRows    int      `json:"test_rows"`
	// Partial: built although a source was missing. Such scores must never be
	// ranked with those of the full data set.
	Partial bool     `json:"partial"`
	Notes   []string `json:"notes,omitempty"`
}

// Replicate is one training: one seed.
type Replicate struct {
	Seed         int            `json:"seed"`
	Job          string         `json:"job"`    // id
	Scores       scoring.Scores `json:"scores"` // raw, on the seed's bootstrap sample of the test split
	Steps        int            `json:"steps"`
	BestStep     int            `json:"best_step"`
	MicroBatch   int            `json:"micro_batch"`
	Accumulation int            `json:"accumulation"`
	Precision    string         `json:"precision"`
	Device       string         `json:"device"` // cpu, cuda
	DeviceName   string         `json:"device_name"`
	Executor     string         `json:"executor"`
	Host         string         `json:"host"`
	Image        string         `json:"image,omitempty"` // of the container
	GPUs         int            `json:"gpus"`
	GPUShare     float64        `json:"gpu_share,omitempty"` // part of each that it had; 0: all
	Energy       *Energy        `json:"energy,omitempty"`    // of the GPUs; nil: not known
	Seconds      Seconds        `json:"seconds"`
	PeakMemoryMB Memory         `json:"peak_memory_mb"`
	Attempt      int            `json:"attempt"` // 1: the first
}

// Seconds tells where the time of one replicate went.
type Seconds struct {
	Load     float64 `json:"load"`
	Tokenize float64 `json:"tokenize"`
	Train    float64 `json:"train"`
	Predict  float64 `json:"predict"`
}

// Total is the sum of all parts.
func (s Seconds) Total() float64 { return s.Load + s.Tokenize + s.Train + s.Predict }

// Memory is a peak in MiB.
type Memory struct {
	Host   float64 `json:"host"`
	Device float64 `json:"device"`
}

// Failure is a seed that gave no score.
type Failure struct {
	Seed    int    `json:"seed"`
	Job     string `json:"job"`
	Failure string `json:"failure"` // kind: oom, nan, …
	Message string `json:"message"`
}

// Summary is what people read of one metric, on their scale: the raw values
// times scoring.Metric.Scale (100 for shares).
type Summary struct {
	N          int           `json:"n"`
	Mean       scoring.Value `json:"mean"`
	HalfWidthT scoring.Value `json:"half_width_t"` // 95 %, Student's t: the one to show
	HalfWidthZ scoring.Value `json:"half_width_z"` // 1.96·s/√n, as the reference system reports
	Median     scoring.Value `json:"median"`
	Warnings   []string      `json:"warnings,omitempty"`
}

// Summarize puts replicates and failures in the order of their seeds and fills
// in what is derived from them. metrics are those of the task, the leaderboard's
// first; by this one collapsed seeds are found, if it is scoring.Metric.ZeroIsChance.
//
// WallSeconds, GPUSeconds and EnergyKWh are sums over the replicates, see
// Replicate.Usage; the emission is 0.16 kg CO2e per kWh. Failed seeds are not
// counted.
func (r *Record) Summarize(metrics []scoring.Metric) {
	slices.SortStableFunc(r.Replicates, func(a, b Replicate) int { return a.Seed - b.Seed })
	slices.SortStableFunc(r.Failures, func(a, b Failure) int { return a.Seed - b.Seed })
	r.Summary, r.Collapsed = map[string]Summary{}, nil
	for i, m := range metrics {
		raw := make([]scoring.Value, len(r.Replicates))
		for j, p := range r.Replicates {
			v, ok := p.Scores[m.Name]
			if !ok {
				v = scoring.Value{Undefined: "not measured"}
			}
			raw[j] = v
		}
		s := summarize(raw, m.Scale)
		if i == 0 && m.ZeroIsChance {
			for _, j := range stats.Collapsed(raw) {
				r.Collapsed = append(r.Collapsed, r.Replicates[j].Seed)
			}
			if n := len(r.Collapsed); n > 0 {
				s.Warnings = append(s.Warnings, fmt.Sprintf("%d of %d seeds collapsed (%s): look at the median too", n, len(raw), list(r.Collapsed)))
			}
		}
		r.Summary[m.Name] = s
	}
	var used Usage
	sources := map[string]bool{}
	for _, p := range r.Replicates {
		u := p.Usage()
		used.Add(u)
		if u.GPUSeconds > 0 {
			sources[p.energySource()] = true
		}
	}
	r.WallSeconds, r.GPUSeconds, r.EnergyKWh, r.CO2eKg, r.EnergySource = used.WallSeconds, used.GPUSeconds, nil, nil, ""
	if used.GPUSeconds > 0 {
		c := PaperRates.Cost(used)
		r.EnergyKWh, r.CO2eKg = &c.KWh, &c.CO2eKg
		r.EnergySource = strings.Join(slices.Sorted(maps.Keys(sources)), " | ")
	}
}

func summarize(raw []scoring.Value, scale float64) Summary {
	scaled := make([]scoring.Value, len(raw))
	for i, v := range raw {
		if scaled[i] = v; v.Undefined == "" {
			scaled[i] = scoring.Num(v.X * scale)
		}
	}
	s := stats.Summarize(scaled)
	out := Summary{N: s.N, Mean: s.Mean, HalfWidthT: s.HalfT, HalfWidthZ: s.HalfZ, Median: s.Median}
	for _, w := range s.Warnings {
		out.Warnings = append(out.Warnings, w.Error())
	}
	return out
}

func list(seeds []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(seeds), " ", ", "), "[]")
}

// MergeVersions joins the library versions of several replicates. Where they
// differ, all values are kept, sorted and separated by " | ".
func MergeVersions(of ...map[string]string) map[string]string {
	all := map[string][]string{}
	for _, versions := range of {
		for name, v := range versions {
			all[name] = append(all[name], v)
		}
	}
	out := map[string]string{}
	for name, v := range all {
		slices.Sort(v)
		out[name] = strings.Join(slices.Compact(v), " | ")
	}
	return out
}

// Validate reports everything that makes r no record, at once.
func (r Record) Validate() error {
	var errs []error
	need := func(ok bool, format string, a ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	need(r.Model.ID != "", "no model.id")
	need(r.Dataset.Name != "", "no dataset.name")
	need(r.Dataset.Task != "", "no dataset.task")
	need(r.Protocol != "", "no protocol")
	need(!r.Finished.IsZero() || r.Imported != nil, "no time in finished")
	need(len(r.Replicates)+len(r.Failures) > 0, "neither replicates nor failures")
	var hyper map[string]any
	need(len(r.Hyperparameters) == 0 || json.Unmarshal(r.Hyperparameters, &hyper) == nil && hyper != nil, "hyperparameters are not a JSON object")
	seeds := map[int]bool{}
	seed := func(s int) {
		need(!seeds[s], "seed %d is there twice", s)
		seeds[s] = true
	}
	for _, p := range r.Replicates {
		seed(p.Seed)
		need(len(p.Scores) > 0, "seed %d has no scores", p.Seed)
		need(p.GPUShare >= 0 && p.GPUShare <= 1, "seed %d had %g of a GPU", p.Seed, p.GPUShare)
		need(p.Energy == nil || p.Energy.Joules >= 0 && p.Energy.Source != "", "seed %d used an energy that cannot be", p.Seed)
	}
	for _, f := range r.Failures {
		seed(f.Seed)
		need(f.Failure != "", "failed seed %d has no kind of failure", f.Seed)
	}
	for _, s := range r.Collapsed {
		need(slices.ContainsFunc(r.Replicates, func(p Replicate) bool { return p.Seed == s }), "collapsed seed %d is no replicate", s)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Summary)) {
		need(r.Summary[name].N <= len(r.Replicates), "summary of %s has %d replicates of %d", name, r.Summary[name].N, len(r.Replicates))
	}
	return errors.Join(errs...)
}

// Fingerprint is the SHA-256 of r as the log has it, in hexadecimal: equal
// records have equal ones. The version of bench is not part of it.
func (r Record) Fingerprint() (string, error) {
	r.Bench = ""
	line, err := r.line()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:]), nil
}

// JSON returns r as it stands in the log, without the line end.
func (r Record) JSON() ([]byte, error) {
	line, err := r.line()
	return bytes.TrimRight(line, "\n"), err
}

// line returns r as one line of the log. Equal records give equal bytes.
func (r Record) line() ([]byte, error) {
	r.Schema = Schema
	r.Finished = r.Finished.UTC().Truncate(time.Second)
	if len(r.Hyperparameters) == 0 {
		r.Hyperparameters = json.RawMessage("{}")
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	r.Dataset.Languages = nonNil(r.Dataset.Languages)
	r.Replicates, r.Failures, r.Collapsed = nonNil(r.Replicates), nonNil(r.Failures), nonNil(r.Collapsed)
	if r.Summary == nil {
		r.Summary = map[string]Summary{}
	}
	if r.Versions == nil {
		r.Versions = map[string]string{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// nonNil makes an absent list an empty one, so that it is [] in JSON, not null.
func nonNil[T any](x []T) []T {
	if x == nil {
		return []T{}
	}
	return x
}

// parse reads one line of the log. The number of the schema is looked at first
// when there is anything wrong with the line.
func parse(line []byte) (Record, error) {
	var r Record
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(&r)
	if err == nil && r.Schema == Schema {
		if _, err := d.Token(); err != io.EOF {
			return Record{}, errors.New("more than one JSON value on the line")
		}
		return r, r.Validate()
	}
	var head struct {
		Schema *int `json:"schema"`
	}
	switch headErr := json.Unmarshal(line, &head); {
	case headErr != nil:
		return Record{}, headErr
	case head.Schema == nil:
		return Record{}, errors.New("no schema number: not a record of bench")
	case *head.Schema != Schema:
		return Record{}, fmt.Errorf("schema %d, this bench reads %d: it was written by another version", *head.Schema, Schema)
	}
	return Record{}, err
}
