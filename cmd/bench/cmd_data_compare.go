package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/build"
	"bench/datasets/compare"
	"bench/internal/ui"

	"github.com/spf13/cobra"
)

func newDataCompare(a *app) *cobra.Command {
	var list int
	var partial bool
	c := &cobra.Command{
		Use: "compare A B", Short: "Say how two data sets, or two builds of one, differ", Args: cobra.ExactArgs(2),
		Long: `Say how two data sets, or two builds of one, differ: rows that only one of them
has, rows that moved to another split, other labels. Rows are matched by what a
model is shown of them, not by id. What is not built yet is built first.

The exit code is 0 whether they differ or not. --json writes a line for every
row that differs ("type":"row"), then the counts ("type":"comparison").`,
		Example: `  bench data compare scala-da hub:org/scala-da
  bench data compare scala-da scala-da-scandeval --list 20`,
		RunE: func(c *cobra.Command, args []string) error { return a.dataCompare(c.Context(), args, list, partial) },
	}
	c.Flags().IntVar(&list, "list", 0, "also list the ids of this many rows that differ")
	c.Flags().BoolVar(&partial, "partial", false, "build also where a source cannot be had")
	return c
}

func (a *app) dataCompare(ctx context.Context, names []string, list int, partial bool) error {
	k, b, err := a.dataKit()
	if err != nil {
		return err
	}
	if names, err = k.resolve(ctx, b, names); err != nil {
		return err
	}
	var sets [2]*datasets.Dataset
	for i, name := range names {
		info, err := b.Show(name)
		if err != nil {
			return &usageError{err: err}
		}
		if info.Status == build.Orphan {
			sets[i], err = datasets.Open(b.Dir(name))
		} else {
			sets[i], err = k.open(ctx, b, name, partial || info.Status == build.Part)
		}
		if err != nil {
			return err
		}
	}
	c, err := compare.Of(sets[0], sets[1])
	if errors.Is(err, compare.ErrTask) {
		return &usageError{err: err}
	}
	if err != nil {
		return err
	}
	if a.json {
		for _, r := range c.Rows {
			if err := a.encode("row", r); err != nil {
				return err
			}
		}
		return a.encode("comparison", c)
	}
	a.printComparison(c, list)
	return nil
}

func (a *app) printComparison(c compare.Comparison, list int) {
	fmt.Fprintf(a.stdout, "A  %s  digest %.16s\nB  %s  digest %.16s\n\n", c.A.Name, c.A.Digest, c.B.Name, c.B.Digest)
	if c.Equal {
		fmt.Fprintln(a.stdout, "every byte of the rows is the same")
		return
	}
	var rows [][]string
	order := true
	for _, s := range c.Splits {
		rows = append(rows, []string{
			string(s.Name), fmt.Sprint(s.A), fmt.Sprint(s.B), fmt.Sprint(s.Both), fmt.Sprint(s.Relabelled),
			moves(s.MovedTo), moves(s.MovedFrom), fmt.Sprint(s.OnlyA), fmt.Sprint(s.OnlyB),
		})
		order = order && s.SameOrder
	}
	fmt.Fprint(a.stdout, ui.Table([]string{"split", ">rows A", ">rows B", ">in both", ">relabelled", "moved to", "moved from", ">only A", ">only B"}, rows))
	switch {
	case order:
		fmt.Fprintln(a.stdout, "\nthe same rows in the same order; only ids or what is known of them differ")
	case len(c.Rows) == 0:
		fmt.Fprintln(a.stdout, "\nthe same rows in another order")
	}
	if len(c.Labels) > 0 {
		fmt.Fprintln(a.stdout)
		for _, change := range slices.SortedFunc(maps.Keys(c.Labels), func(x, y string) int {
			if d := c.Labels[y] - c.Labels[x]; d != 0 {
				return d
			}
			return strings.Compare(x, y)
		}) {
			fmt.Fprintf(a.stdout, "relabelled  %s: %d\n", change, c.Labels[change])
		}
	}
	if list <= 0 || len(c.Rows) == 0 {
		return
	}
	fmt.Fprintln(a.stdout)
	rows = nil
	for _, r := range c.Rows[:min(list, len(c.Rows))] {
		rows = append(rows, []string{strings.ReplaceAll(string(r.Change), "_", " "), string(r.SplitA), plain(r.IDA), string(r.SplitB), plain(r.IDB)})
	}
	fmt.Fprint(a.stdout, ui.Table([]string{"change", "in A", "id", "in B", "id"}, rows))
	if more := len(c.Rows) - len(rows); more > 0 {
		fmt.Fprintf(a.stderr, "bench: note: %d more rows differ: --list %d, or --json\n", more, len(c.Rows))
	}
}

// moves is "val 3, test 2".
func moves(m map[datasets.Split]int) string {
	var out []string
	for _, s := range datasets.Splits {
		if m[s] > 0 {
			out = append(out, fmt.Sprintf("%s %d", s, m[s]))
		}
	}
	return strings.Join(out, ", ")
}
