package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"

	"bench/datasets"
	"bench/internal/ui"
	"bench/runner/job"
	"bench/scoring/compare"
	"bench/scoring/leaderboard"
	"bench/scoring/results"
	"bench/scoring/stats"
	"bench/tasks"

	"github.com/spf13/cobra"
)

// compareFlags are what bench compare is asked for.
type compareFlags struct {
	datasets, languages []string
	protocol, method    string
	resamples           int
	seed                uint64
}

func newCompare(a *app) *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use: "compare MODEL MODEL", Short: "Say whether two models differ, on each data set and overall", Args: cobra.ExactArgs(2),
		Long: `Say whether two models differ, on each data set and overall. A model is named as
in the leaderboard, with @revision if there are several.

Where the predictions of both are kept and the data set is built, the models are
compared item by item on the whole test split: the error is that of other seeds
and of other test items. Where they are not (imported results), the recorded
scores of the seeds are compared by Welch's t, which knows nothing of the items.

p-values of several data sets are corrected by Holm's rule; a model counts as
better where the corrected p is 0.05 at most. "needed" is what it would take to
find a true difference of this size in four cases of five: so many seeds with
these items, or so many test items with these seeds.`,
		Example: `  bench compare org/model other/model
  bench compare org/model other/model --dataset scala-da --method randomisation --json`,
		RunE: func(c *cobra.Command, args []string) error { return a.compare(c.Context(), args[0], args[1], f) },
	}
	fs := c.Flags()
	fs.StringSliceVar(&f.datasets, "dataset", nil, "only these data sets")
	fs.StringSliceVar(&f.languages, "language", nil, "only data sets in these languages")
	fs.StringVar(&f.protocol, "protocol", "", "results of this protocol (default: the one with the most data sets of both)")
	fs.StringVar(&f.method, "method", compare.Bootstrap, "test where there are predictions: "+strings.Join(compare.Methods, ", "))
	fs.IntVar(&f.resamples, "resamples", 10000, "resamples of the bootstrap and of the randomisation")
	fs.Uint64Var(&f.seed, "seed", 4242, "of the resamples; the same seed gives the same numbers on any machine")
	return c
}

func (a *app) compare(ctx context.Context, nameA, nameB string, f compareFlags) error {
	if !slices.Contains(compare.Methods, f.method) {
		return usage("bench compare --help", "there is no method %q; there are %s", f.method, strings.Join(compare.Methods, ", "))
	}
	if f.resamples < 100 {
		return usage("10000 are usual", "%d resamples are too few for a p-value of 0.05 and an interval", f.resamples)
	}
	pairs, left, err := a.pairs(nameA, nameB, f)
	if err != nil {
		return err
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	var cols []leaderboard.Column
	for _, p := range pairs {
		cols = append(cols, leaderboard.Column{Name: p.a.Dataset.Name, Task: p.a.Dataset.Task, Languages: p.a.Dataset.Languages})
	}
	weights := leaderboard.Weights(cols)
	var in []compare.Input
	for i, p := range pairs {
		input, err := predictions(home, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.a.Dataset.Name, err)
		}
		input.Weight = weights[i]
		in = append(in, input)
	}
	o := stats.Resampling{Resamples: f.resamples, Seed: f.seed, Workers: runtime.GOMAXPROCS(0), Stop: ctx.Done()}
	done := 0
	report, err := compare.Models(in, f.method, o, func(r compare.Result) {
		done++
		if r.Basis == "predictions" { // the others take no time
			fmt.Fprintf(a.stderr, "bench: %s compared (%d of %d)\n", r.Dataset, done, len(in))
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.encode("comparison", struct {
			A        string `json:"model_a"`
			B        string `json:"model_b"`
			Protocol string `json:"protocol"`
			Samples  int    `json:"resamples"`
			Seed     uint64 `json:"seed"`
			*compare.Report
			LeftOut []unpaired `json:"left_out"`
		}{nameA, nameB, pairs[0].a.Protocol, f.resamples, f.seed, report, left})
	}
	a.compareText(nameA, nameB, pairs[0].a.Protocol, report)
	for _, l := range left {
		fmt.Fprintf(a.stdout, "left out: %s: %s\n", plain(l.Dataset), plain(l.Why))
	}
	return nil
}

// predictions reads what both models predicted, if it is there.
func predictions(home string, p pair) (compare.Input, error) {
	metric := p.task.Info().Metrics[0]
	in := compare.Input{Dataset: p.a.Dataset.Name, Task: p.a.Dataset.Task, Metric: metric.Name, Scale: metric.Scale}
	in.A, in.B = recorded(p.a, metric.Name), recorded(p.b, metric.Name)
	if p.a.Imported != nil || p.b.Imported != nil {
		in.Why = "imported results have no predictions"
		return in, nil
	}
	d, err := openScored(home, p.a.Dataset.Name)
	if errors.Is(err, datasets.ErrNotBuilt) || err == nil && d.data.Digest != p.a.Dataset.Digest {
		in.Why = "the data set is not built, or built anew: bench data build " + p.a.Dataset.Name
		return in, nil
	}
	if err != nil {
		return in, err
	}
	if len(d.rows) < 2 {
		in.Why = "the test split has fewer than two rows that are scored"
		return in, nil
	}
	rules := rulesOf(p.a.Protocol)
	store := job.Store{Home: home}
	var runs stats.ItemRuns
	var counts [2][]tasks.Counts
	for side, rec := range []results.Record{p.a, p.b} {
		for _, r := range rec.Replicates {
			l, err := store.Predictions(job.ID(r.Job), d.ids)
			if errors.Is(err, fs.ErrNotExist) {
				in.Why = fmt.Sprintf("the predictions of seed %d of %s are not kept here", r.Seed, rec.Model.ID)
				return in, nil
			}
			if err != nil {
				return in, err
			}
			sampler, err := p.task.Prepare(d.data.Meta, d.test, l, rules)
			if err != nil {
				return in, fmt.Errorf("%s, seed %d: %w", rec.Model.ID, r.Seed, err)
			}
			c, ok := sampler.Counts(metric.Name)
			if !ok {
				return in, fmt.Errorf("%s cannot be resampled", metric.Name)
			}
			items, err := c.Items(d.rows)
			if err != nil {
				return in, err
			}
			counts[side], runs = append(counts[side], c), append(runs, items)
		}
	}
	in.Runs, in.SeedsA, in.SeedsB, in.Items = runs, len(counts[0]), len(counts[1]), len(d.rows)
	in.Pool = func() (stats.Pool, error) {
		k := min(in.SeedsA, in.SeedsB)
		items, err := tasks.Pool(slices.Concat(counts[0][:k], counts[1][:k]), d.rows)
		return stats.ItemPool{Items: items}, err
	}
	return in, nil
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

func (a *app) compareText(nameA, nameB, protocol string, r *compare.Report) {
	fmt.Fprintf(a.stdout, "A %s\nB %s\nprotocol %s\n\n", plain(nameA), plain(nameB), protocol)
	var rows [][]string
	for _, d := range r.Results {
		rows = append(rows, compareRow(d))
	}
	rows = append(rows, compareRow(r.Overall))
	fmt.Fprintln(a.stdout, ui.Table([]string{"data set", ">A", ">B", ">A − B", "95 %", ">p", ">corrected", "better", "basis", "needed"}, rows))
	name := map[string]string{"a": nameA, "b": nameB}
	o := r.Overall
	switch {
	case o.Better != "":
		fmt.Fprintf(a.stdout, "overall: %s is better (p %s)\n", plain(name[o.Better]), pText(o.P))
	default:
		fmt.Fprintf(a.stdout, "overall: they cannot be told apart (p %s)\n", pText(o.P))
	}
	fmt.Fprintf(a.stdout, "data sets: A better on %d, B on %d, not told apart on %d\n", r.Better, r.Worse, r.Open)
	why := map[string][]string{}
	for _, d := range r.Results {
		if d.Why != "" {
			why[d.Why] = append(why[d.Why], d.Dataset)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(a.stdout, "note: %s: only the recorded scores are compared, whose spread is that of the seeds; %s\n", several(why[reason]), reason)
	}
	by := func(is func(compare.Result) bool) bool {
		return slices.ContainsFunc(r.Results, func(d compare.Result) bool { return d.Basis == "predictions" && is(d) })
	}
	if by(func(d compare.Result) bool { return min(d.SeedsA, d.SeedsB) == 1 }) {
		fmt.Fprintln(a.stdout, "note: one seed: how much another one would change is not known")
	}
	if by(func(d compare.Result) bool { return d.SeedsA != d.SeedsB && d.Method == compare.Randomisation }) {
		fmt.Fprintln(a.stdout, "note: p is that of the first seeds of both models, as many as the one with fewer has; the difference is that of all")
	}
}

// several names the first of a list.
func several(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

func compareRow(d compare.Result) []string {
	interval, needed := "", ""
	if d.Known {
		interval = fmt.Sprintf("%+.2f … %+.2f", d.Lo, d.Hi)
	}
	if d.Better == "" {
		var parts []string
		if d.Needed.Seeds > 0 {
			parts = append(parts, plural(d.Needed.Seeds, "seed"))
		}
		if d.Needed.Items > 0 {
			parts = append(parts, plural(d.Needed.Items, "item"))
		}
		needed = strings.Join(parts, " or ")
		if needed == "" && d.Basis == "predictions" && d.Difference != 0 {
			needed = "more of both"
		}
	}
	basis := d.Basis
	switch d.Basis {
	case "predictions":
		basis = fmt.Sprintf("%d items, %d/%d seeds", d.Items, d.SeedsA, d.SeedsB)
	case "scores":
		basis = fmt.Sprintf("%d/%d seeds", d.SeedsA, d.SeedsB)
	}
	return []string{
		d.Dataset, fmt.Sprintf("%.2f", d.A), fmt.Sprintf("%.2f", d.B), fmt.Sprintf("%+.2f", d.Difference), interval,
		pText(d.P), pText(d.Holm), strings.ToUpper(d.Better), basis, needed,
	}
}

func pText(p float64) string {
	if p < .0001 {
		return "<0.0001"
	}
	return fmt.Sprintf("%.4f", p)
}
