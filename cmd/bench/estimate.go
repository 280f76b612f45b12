package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"bench/datasets"
	"bench/runner"
	"bench/runner/job"
	"bench/scoring/compare"
	"bench/scoring/results"
	"bench/scoring/stats"
	"bench/tasks"
	"bench/tasks/all"
)

// scoredSet is a built data set, as those who score it need it.
type scoredSet struct {
	data *datasets.Dataset
	task tasks.Task
	test []datasets.Row
	ids  []string // of the test rows
	rows []int    // that are scored: not empty
}

func openScored(home, name string) (*scoredSet, error) {
	data, err := datasets.Open(filepath.Join(home, "datasets", name))
	if err != nil {
		return nil, err
	}
	d := &scoredSet{data: data}
	if d.task, err = all.Lookup(string(data.Kind)); err != nil {
		return nil, err
	}
	if d.test, err = data.Rows(datasets.Test); err != nil {
		return nil, err
	}
	for _, r := range d.test {
		d.ids = append(d.ids, r.ID)
	}
	d.rows = runner.Scored(data.Kind, d.test)
	return d, nil
}

// estimator estimates models from their kept predictions, each on each data set
// once, however many others it is compared with.
type estimator struct {
	ctx    context.Context
	home   string
	o      stats.Resampling
	sets   map[string]*scoredSet // nil: not built
	models map[string]estimated
	told   func(model, dataset string) // of each that took time
}

// estimated is one model on one data set.
type estimated struct {
	h      *stats.Hierarchy // nil: there are no predictions
	why    string
	counts []tasks.Counts // of each seed
	rows   []int          // that they are of
}

func newEstimator(ctx context.Context, home string, f compareFlags, told func(model, dataset string)) *estimator {
	o := stats.Resampling{Resamples: f.resamples, Seed: f.seed, Workers: runtime.GOMAXPROCS(0), Stop: ctx.Done()}
	return &estimator{ctx, home, o, map[string]*scoredSet{}, map[string]estimated{}, told}
}

// inputs prepare a comparison of two models.
func (e *estimator) inputs(pairs []pair, weights []float64) ([]compare.Input, error) {
	var in []compare.Input
	for i, p := range pairs {
		one, err := e.input(p)
		if err != nil {
			if e.ctx.Err() != nil {
				return nil, e.ctx.Err()
			}
			return nil, fmt.Errorf("%s: %w", p.a.Dataset.Name, err)
		}
		one.Weight = weights[i]
		in = append(in, one)
	}
	return in, nil
}

func (e *estimator) input(p pair) (compare.Input, error) {
	metric := p.task.Info().Metrics[0]
	in := compare.Input{Dataset: p.a.Dataset.Name, Task: p.a.Dataset.Task, Metric: metric.Name, Scale: metric.Scale}
	in.A, in.B = recorded(p.a, metric.Name), recorded(p.b, metric.Name)
	a, err := e.of(p.a, p.task)
	if err != nil {
		return in, err
	}
	b, err := e.of(p.b, p.task)
	if err != nil {
		return in, err
	}
	if in.Why = a.why; in.Why == "" {
		in.Why = b.why
	}
	if in.Why != "" {
		return in, nil
	}
	in.Of = [2]*stats.Hierarchy{a.h, b.h}
	in.Pool = func() (stats.Pool, error) {
		k := min(len(a.counts), len(b.counts))
		items, err := tasks.Pool(slices.Concat(a.counts[:k], b.counts[:k]), a.rows)
		return stats.ItemPool{Items: items}, err
	}
	return in, nil
}

// of estimates the model of a record on its data set.
func (e *estimator) of(r results.Record, t tasks.Task) (estimated, error) {
	key := strings.Join([]string{r.Model.ID, r.Model.Revision, r.Protocol, r.Dataset.Name, r.Dataset.Digest, fmt.Sprint(r.Dataset.TaskVersion)}, "\n")
	if known, ok := e.models[key]; ok {
		return known, nil
	}
	out, err := e.estimate(r, t)
	if err != nil {
		return out, err
	}
	if out.h != nil {
		e.told(r.Model.ID, r.Dataset.Name)
	}
	e.models[key] = out
	return out, nil
}

func (e *estimator) estimate(r results.Record, t tasks.Task) (estimated, error) {
	none := func(format string, a ...any) (estimated, error) {
		return estimated{why: fmt.Sprintf(format, a...)}, nil
	}
	if r.Imported != nil {
		return none("imported results have no predictions")
	}
	d, known := e.sets[r.Dataset.Name]
	if !known {
		var err error
		if d, err = openScored(e.home, r.Dataset.Name); err != nil && !errors.Is(err, datasets.ErrNotBuilt) {
			return estimated{}, err
		}
		e.sets[r.Dataset.Name] = d
	}
	if d == nil || d.data.Digest != r.Dataset.Digest {
		return none("the data set is not built, or built anew: bench data build %s", r.Dataset.Name)
	}
	if len(d.rows) < 2 {
		return none("the test split has fewer than two rows that are scored")
	}
	out := estimated{rows: d.rows}
	store := job.Store{Home: e.home}
	metric := t.Info().Metrics[0].Name
	var runs stats.ItemRuns
	for _, p := range r.Replicates {
		lines, err := store.Predictions(job.ID(p.Job), d.ids)
		if errors.Is(err, fs.ErrNotExist) {
			return none("the predictions of seed %d of %s are not kept here", p.Seed, r.Model.ID)
		}
		if err != nil {
			return out, err
		}
		sampler, err := t.Prepare(d.data.Meta, d.test, lines, rulesOf(r.Protocol))
		if err != nil {
			return out, fmt.Errorf("%s, seed %d: %w", r.Model.ID, p.Seed, err)
		}
		c, ok := sampler.Counts(metric)
		if !ok {
			return out, fmt.Errorf("%s cannot be resampled", metric)
		}
		items, err := c.Items(d.rows)
		if err != nil {
			return out, err
		}
		out.counts, runs = append(out.counts, c), append(runs, items)
	}
	var err error
	out.h, err = stats.NewHierarchy(runs, len(runs), len(d.rows), e.o)
	return out, err
}

// recorded are a record's raw scores.
func recorded(r results.Record, metric string) []float64 {
	var out []float64
	for _, p := range r.Replicates {
		if v, ok := p.Scores[metric]; ok && v.Undefined == "" {
			out = append(out, v.X)
		}
	}
	return out
}

// rulesOf are the scoring rules of a protocol. That questions drawn twice count
// once is left out: here it would hide how much the score depends on the items.
func rulesOf(protocol string) tasks.Rules {
	name, _, _ := strings.Cut(protocol, "{")
	for _, p := range job.Protocols() {
		if p.Name == name {
			return tasks.Rules{DropTruncated: p.Scoring.DropTruncated}
		}
	}
	return tasks.Rules{}
}
