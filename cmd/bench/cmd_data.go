package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"bench/datasets"
	"bench/datasets/build"
	"bench/internal/ui"

	"github.com/spf13/cobra"
)

func newData(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "data",
		Short: "List, build, show, compare, divide and verify data sets",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	list := &cobra.Command{
		Use: "list", Short: "List all data sets, built or not", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.dataList() },
	}
	var o build.Options
	var rules string
	var q scandiqaFlags
	make := &cobra.Command{
		Use: "build NAME…", Short: "Build data sets from their sources", Args: cobra.MinimumNArgs(1),
		Long: `Build data sets from their sources. Two builds give equal bytes.

Sources are fetched from where they are published, or from --mirror. If one
cannot be had, nothing is built, unless --partial is given: then the data set is
built from the others, smaller, and marked as partial in dataset.json, in its
digest and in every record.

A source whose licence a person has to accept is not downloaded: the error says
where it is. --from FILE then gives the file.

--rules scandeval makes ScaLA as ScandEval's own program does, flaws included, as
a data set of its own: scala-da becomes scala-da-scandeval.

ScandiQA is made with an embedding and a translation service, from MKQA and the
folder of Natural Questions (--from DIR). It takes hours; what was stopped goes on
where it was, and no service is asked twice for what it answered.`,
		RunE: func(c *cobra.Command, args []string) error { return a.dataBuild(c.Context(), args, rules, o, &q) },
	}
	make.Flags().BoolVar(&o.Partial, "partial", false, "build also where a source cannot be had, or is only a part of the corpus")
	make.Flags().StringVar(&o.From, "from", "", "the file (ScandiQA: the folder) that a person got for the one data set NAME")
	make.Flags().StringVar(&rules, "rules", "paper", "rules by which sentences are corrupted: paper or scandeval")
	q.addFlags(make.Flags())
	var rows int
	show := &cobra.Command{
		Use: "show NAME", Short: "Show what a data set is, and some of its rows", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.dataShow(c.Context(), args[0], rows) },
	}
	show.Flags().IntVar(&rows, "sample", 0, "also show this many rows of the test split, evenly spread; of ScaLA, pairs with what was changed")
	verify := &cobra.Command{
		Use: "verify [NAME…]", Short: "Read built data sets again and compare them with their digests", Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.dataVerify(args) },
	}
	c.AddCommand(list, make, show, verify, newDataMirror(a), newDataCompare(a), newDataSplit(a))
	return c
}

func (a *app) dataKit() (*kit, *build.Builder, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, nil, err
	}
	k := &kit{app: a, home: home, log: func(format string, args ...any) { fmt.Fprintf(a.stderr, "bench: "+format+"\n", args...) }}
	b, err := k.builder()
	return k, b, err
}

func (a *app) dataList() error {
	_, b, err := a.dataKit()
	if err != nil {
		return err
	}
	var rows [][]string
	for _, i := range b.List() {
		if a.json {
			if err := a.encode("dataset", i); err != nil {
				return err
			}
			continue
		}
		size := fmt.Sprintf("%d/%d/%d", i.Sizes.Train, i.Sizes.Val, i.Sizes.Test)
		if i.Built != nil {
			c := i.Built.Counts
			size = fmt.Sprintf("%d/%d/%d", c[datasets.Train].Rows, c[datasets.Val].Rows, c[datasets.Test].Rows)
		}
		if i.Status == build.Planned {
			size = ""
		}
		rows = append(rows, []string{i.Name, string(i.Kind), strings.Join(i.Languages, ","), size, string(i.Status), string(i.Origin), ui.Clip(i.Licence, 40)})
	}
	if !a.json {
		fmt.Fprint(a.stdout, ui.Table([]string{"name", "task", "language", "train/val/test", "status", "origin", "licence"}, rows))
	}
	return nil
}

// encode writes v, an object, as a JSON line with a "type".
func (a *app) encode(kind string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "{\"type\":%q,%s\n", kind, b[1:])
	return err
}

func (a *app) dataBuild(ctx context.Context, names []string, rules string, o build.Options, q *scandiqaFlags) error {
	if o.From != "" && len(names) > 1 {
		return usage("build them one after the other, each with its file", "--from gives the file of one data set, %d are named", len(names))
	}
	k, b, err := a.dataKit()
	if err != nil {
		return err
	}
	if names, err = k.resolve(ctx, b, names); err != nil {
		return err
	}
	for i, name := range names { // a wrong name is found before the first download
		if names[i], err = b.Variant(name, rules); err != nil {
			return &usageError{err: err}
		}
	}
	if err := k.scandiqa(ctx, b, q, names, &o); err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		d, err := b.Build(ctx, name, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.As(err, new(*build.FromError)) {
			return &usageError{err: err}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if a.json {
			if err := a.encode("dataset", d.Meta); err != nil {
				return err
			}
			continue
		}
		mark := ""
		if d.Partial != nil {
			mark = fmt.Sprintf("  partial: %s missing", plural(len(d.Partial.Missing), "source"))
		}
		c := d.Counts
		fmt.Fprintf(a.stdout, "%s  %d/%d/%d rows  digest %.16s%s\n", name, c[datasets.Train].Rows, c[datasets.Val].Rows, c[datasets.Test].Rows, d.Digest, mark)
		for _, n := range d.Notes {
			fmt.Fprintf(a.stderr, "bench: note: %s: %s\n", name, n)
		}
	}
	return errors.Join(errs...)
}

func (a *app) dataShow(ctx context.Context, name string, sample int) error {
	k, b, err := a.dataKit()
	if err != nil {
		return err
	}
	if name, err = k.resolveOne(ctx, b, name); err != nil {
		return err
	}
	i, err := b.Show(name)
	if err != nil {
		return &usageError{err: err}
	}
	if a.json {
		if err := a.encode("dataset", i); err != nil || i.Built == nil {
			return err
		}
		d, err := datasets.Open(b.Dir(name))
		if err != nil {
			return err
		}
		return a.showProfile(d)
	}
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(a.stdout, "%-10s %s\n", key, value)
		}
	}
	line("name", i.Name)
	line("task", string(i.Kind))
	line("languages", strings.Join(i.Languages, ", "))
	line("licence", i.Licence)
	line("citation", i.Citation)
	line("homepage", i.Homepage)
	line("origin", string(i.Origin))
	for _, s := range i.Sources {
		line("source", s)
	}
	line("by hand", i.ByHand)
	line("status", string(i.Status))
	line("problem", i.Problem)
	if i.Built == nil {
		return nil
	}
	line("digest", i.Built.Digest)
	for _, s := range datasets.Splits {
		c := i.Built.Counts[s]
		line(string(s), fmt.Sprintf("%d rows (%s)", c.Rows, shares(c)))
	}
	if i.Built.Partial != nil {
		line("partial", fmt.Sprintf("%.0f %% of the base rows; missing: %s", 100*i.Built.Partial.Scale, strings.Join(i.Built.Partial.Missing, ", ")))
	}
	for _, n := range i.Built.Notes {
		line("note", n)
	}
	d, err := datasets.Open(b.Dir(name))
	if err != nil {
		return err
	}
	if v := d.Division; v != nil {
		line("divided", fmt.Sprintf("%s of %s, digest %.16s", v.Kind, v.Of, v.OfDigest))
	}
	if err := a.showProfile(d); err != nil {
		return err
	}
	if sample <= 0 {
		return nil
	}
	rows, err := d.Rows(datasets.Test)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	return a.showRows(d.Kind, rows, sample)
}

func (a *app) dataVerify(names []string) error {
	_, b, err := a.dataKit()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		for _, i := range b.List() {
			if i.Built != nil || i.Status == build.Broken {
				names = append(names, i.Name)
			}
		}
	}
	var errs []error
	for _, name := range names {
		if _, err := b.Show(name); err != nil {
			return &usageError{err: err}
		}
		d, err := datasets.Open(b.Dir(name))
		if err == nil {
			err = d.Verify()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if a.json {
			if err := a.encode("verified", map[string]string{"name": name, "digest": d.Digest}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%s  as built, digest %.16s\n", name, d.Digest)
	}
	return errors.Join(errs...)
}
