package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"bench/scoring/results"
	"bench/scoring/results/scandeval"

	"github.com/spf13/cobra"
)

func newImport(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use: "import FILE…", Short: "Take over results of ScandEval and EuroEval", Args: cobra.MinimumNArgs(1),
		Long: `Take over results of ScandEval (versions 5 to 16) and EuroEval ("Every Eval
Ever" records), and of bench export. "-" is the standard input.

Nothing is dropped in silence: at the end every line is counted under what it
was. Records get a protocol of their own, such as scandeval:v12{split=val}, and
are never ranked with those of another one unless you ask for it.`,
		Example: `  bench import scandeval_benchmark_results.jsonl
  bench leaderboard`,
		RunE: func(c *cobra.Command, args []string) error { return a.importFiles(c, args, dry) },
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "count what is there, and keep nothing")
	return c
}

func (a *app) importFiles(c *cobra.Command, files []string, dry bool) error {
	k, b, err := a.dataKit()
	if err != nil {
		return err
	}
	log := results.Open(k.home)
	there, err := a.readLog(log)
	if err != nil {
		return err
	}
	known := map[string]bool{"speed": true}
	for _, i := range b.List() {
		known[i.Name] = true
	}
	im, err := scandeval.NewImporter(there, func(name string) bool { return known[name] })
	if err != nil {
		return err
	}
	for _, name := range files {
		if name == "-" {
			if err := im.Read("standard input", c.InOrStdin()); err != nil {
				return err
			}
			continue
		}
		if err := importFile(im, name); err != nil {
			return err
		}
	}
	if !dry {
		recs := im.Records()
		for i := range recs {
			if recs[i].Bench == "" {
				recs[i].Bench = version()
			}
		}
		if err := log.AppendAll(recs); err != nil {
			return err
		}
	}
	r := im.Report()
	if a.json {
		if err := a.encode("import", r); err != nil {
			return err
		}
	} else {
		a.importReport(r, dry)
	}
	if len(r.Unreadable) > 0 {
		return codeError(exitSomeFailed)
	}
	return nil
}

func importFile(im *scandeval.Importer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return usage("", "%w", err)
	}
	defer f.Close()
	return im.Read(name, f)
}

func (a *app) importReport(r scandeval.Report, dry bool) {
	// So many problems of a kind are shown; --json has all of them.
	const most = 10
	for _, kind := range [][]scandeval.Problem{r.Torn, r.Unreadable, r.Repeats, r.Odd} {
		for _, p := range kind[:min(most, len(kind))] {
			fmt.Fprintln(a.stderr, "bench: warning:", plain(p.String()))
		}
		if more := len(kind) - most; more > 0 {
			fmt.Fprintf(a.stderr, "bench: warning: … and %d more like it (all of them: --json)\n", more)
		}
	}
	line := func(what string, n int, note string) { fmt.Fprintf(a.stdout, "%-12s %6d  %s\n", what, n, note) }
	line("lines", r.Lines, "in "+plural(r.Files, "file"))
	line("blank", r.Blank, "")
	line("torn", len(r.Torn), "")
	line("unreadable", len(r.Unreadable), "no record of a known layout")
	line("records", r.Records, "")
	line("duplicates", len(r.Duplicates), "equal to one that is there")
	note := counts(r.Protocols)
	if dry {
		note = "not kept (--dry-run); " + note
	}
	line("new", r.New, note)
	line("repeats", len(r.Repeats), "new, of a model, data set and protocol that is there; the last one counts")
	line("odd", len(r.Odd), "new, with a total that does not follow from its iterations, or the like")
	line("NaN", r.NaN, "values, kept as undefined")
	line("unknown", sum(r.Datasets), strings.TrimSpace("of data sets that bench does not have; kept. "+counts(r.Datasets)))
}

func counts(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s: %d", plain(k), m[k]))
	}
	return strings.Join(out, ", ")
}

func sum(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}
