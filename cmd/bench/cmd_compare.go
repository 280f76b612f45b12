package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"bench/internal/ui"
	"bench/scoring/compare"
	"bench/scoring/leaderboard"

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
		Use: "compare MODEL MODEL…", Short: "Say whether two models differ, on each data set and overall", Args: cobra.MinimumNArgs(2),
		Long: `Say whether two models differ, on each data set and overall. A model is named as
in the leaderboard, with @revision if there are several. Of more than two models,
each is compared with each, and p-values are corrected over all pairs.

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
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if len(args) > 2 {
				return a.compareAll(c.Context(), args, f)
			}
			return a.compare(c.Context(), args[0], args[1], f)
		},
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

// check finds what no comparison can be meant with.
func (f compareFlags) check() error {
	if !slices.Contains(compare.Methods, f.method) {
		return usage("bench compare --help", "there is no method %q; there are %s", f.method, strings.Join(compare.Methods, ", "))
	}
	if f.resamples < 100 {
		return usage("10000 are usual", "%d resamples are too few for a p-value of 0.05 and an interval", f.resamples)
	}
	return nil
}

// tooFew says that no corrected p of resampling can be small enough, if so: it
// is 2/(B+1) at the least, or 1/(B+1) of a randomisation, times the tests.
func (f compareFlags) tooFew(reports ...*compare.Report) string {
	tests, resampled := 0, false
	for _, r := range reports {
		tests += len(r.Results)
		resampled = resampled || slices.ContainsFunc(r.Results, func(d compare.Result) bool { return d.Basis == "predictions" })
	}
	least := 2 / float64(f.resamples+1)
	switch f.method {
	case compare.Randomisation:
		least /= 2
	case compare.Student:
		return ""
	}
	if !resampled || least*float64(tests) <= compare.Alpha {
		return ""
	}
	return fmt.Sprintf("note: by %d resamples no p is below %.2g, which is too much for a correction over %s: --resamples %d, or --method t", f.resamples, least, plural(tests, "test"), int(math.Ceil(least*float64(f.resamples+1)*float64(tests)/compare.Alpha)))
}

// compare compares two models.
func (a *app) compare(ctx context.Context, nameA, nameB string, f compareFlags) error {
	recs, err := a.records()
	if err != nil {
		return err
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	if nameA == nameB {
		return usage("bench compare MODEL OTHER", "%s is compared with itself", nameA)
	}
	models, err := candidates(recs, []string{nameA, nameB}, f)
	if err != nil {
		return err
	}
	pairs, left, err := pairsOf(models[0], models[1], f)
	if err != nil {
		return err
	}
	e := newEstimator(ctx, home, f, func(model, dataset string) {
		fmt.Fprintf(a.stderr, "bench: %s: %s read\n", dataset, model)
	})
	report, err := a.report(e, pairs, f)
	if err != nil {
		return err
	}
	if a.json {
		return a.encodeComparison(versus{nameA, nameB, pairs, left, report}, f)
	}
	a.compareText(nameA, nameB, pairs[0].a.Protocol, report)
	if few := f.tooFew(report); few != "" {
		fmt.Fprintln(a.stdout, few)
	}
	for _, l := range left {
		fmt.Fprintf(a.stdout, "left out: %s: %s\n", plain(l.Dataset), plain(l.Why))
	}
	return nil
}

func (a *app) encodeComparison(v versus, f compareFlags) error {
	return a.encode("comparison", struct {
		A        string `json:"model_a"`
		B        string `json:"model_b"`
		Protocol string `json:"protocol"`
		Samples  int    `json:"resamples"`
		Seed     uint64 `json:"seed"`
		*compare.Report
		LeftOut []unpaired `json:"left_out"`
	}{v.a, v.b, v.pairs[0].a.Protocol, f.resamples, f.seed, v.report, v.left})
}

// report compares two models on the data sets of pairs.
func (a *app) report(e *estimator, pairs []pair, f compareFlags) (*compare.Report, error) {
	var cols []leaderboard.Column
	for _, p := range pairs {
		cols = append(cols, leaderboard.Column{Name: p.a.Dataset.Name, Task: p.a.Dataset.Task, Languages: p.a.Dataset.Languages})
	}
	in, err := e.inputs(pairs, leaderboard.Weights(cols))
	if err != nil {
		return nil, err
	}
	report, err := compare.Models(in, f.method, e.o)
	if e.ctx.Err() != nil {
		return nil, e.ctx.Err()
	}
	return report, err
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
	var unknown []string
	for _, d := range r.Results {
		if !d.Known {
			unknown = append(unknown, d.Dataset)
		}
	}
	if len(unknown) > 0 {
		fmt.Fprintf(a.stdout, "note: %s: one recorded score of a model has no spread, so that neither this difference nor the overall one has an interval\n", several(unknown))
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
