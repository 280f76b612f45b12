package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"bench/internal/ui"
	"bench/runner/job"
	"bench/scoring/leaderboard"
	"bench/scoring/leaderboard/figure"
	"bench/scoring/transfer"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// transferFlags are what bench transfer is asked for.
type transferFlags struct {
	runOptions
	scores, models, plot string
	run, dry             bool
}

func newTransfer(a *app) *cobra.Command {
	var t transferFlags
	c := &cobra.Command{
		Use: "transfer", Short: "Test which languages help each other", Args: cobra.NoArgs,
		Long: `Test which languages help each other: the F-statistic of every group of
languages, which compares the scores of the models made for a language of the
group with those of all others, on the data sets of the group's languages.

The scores are those recorded of one model for each language: the ten of the
ScandEval paper, or those of a file (--models) with a line for each: language and
model, da,vesteinn/DanskBERT. Data sets are the paper's, unless --suite, --dataset,
--task or --language say otherwise. With --run the models are first trained on what
they have no score on; it takes the flags of bench run. --scores takes a table of
scores instead.`,
		Example: `  bench transfer --run --dry-run
  bench transfer --run
  bench transfer --models representatives.csv --plot transfer.svg
  bench transfer --scores scores.csv`,
	}
	f := c.Flags()
	f.StringVar(&t.scores, "scores", "", "CSV file: language of the model, then its score in each language")
	f.StringVar(&t.models, "models", "", "CSV file: language, and the model that stands for it (default: those of the ScandEval paper)")
	f.StringVar(&t.plot, "plot", "", "also draw the F-statistics into this file (.svg, .pdf, .png, .eps)")
	f.BoolVar(&t.run, "run", false, "train the models first, on the data sets that they have no score on")
	f.BoolVar(&t.dry, "dry-run", false, "with --run: say what would run and what it would cost, and run nothing")
	training := pflag.NewFlagSet("", pflag.ContinueOnError)
	t.addFlags(training)
	training.VisitAll(func(g *pflag.Flag) {
		switch g.Name {
		case "suite", "dataset", "task", "language", "partial":
		case "protocol":
			t.protocol, g.DefValue = "", ""
			g.Usage = "scores of this protocol (default: the one with the most complete models; with --run paper)"
		default:
			g.Usage = "with --run: " + g.Usage
		}
		f.AddFlag(g)
	})
	c.RunE = func(c *cobra.Command, _ []string) error {
		var wrong []string
		f.Visit(func(g *pflag.Flag) {
			if !t.run && (g.Name == "dry-run" || strings.HasPrefix(g.Usage, "with --run: ")) {
				wrong = append(wrong, "--"+g.Name)
			}
			if t.scores != "" && (g.Name == "models" || g.Name == "run" || training.Lookup(g.Name) != nil) {
				wrong = append(wrong, "--"+g.Name)
			}
		})
		switch {
		case len(wrong) > 0 && t.scores != "":
			return usage("bench transfer --help", "--scores is a whole table: %s cannot stand beside it", strings.Join(wrong, ", "))
		case len(wrong) > 0:
			return usage("bench transfer --run", "without --run nothing is trained, and %s mean nothing", strings.Join(wrong, ", "))
		}
		return a.transfer(c.Context(), t)
	}
	return c
}

func (a *app) transfer(ctx context.Context, f transferFlags) error {
	var table *transfer.Table
	var format string
	var err error
	if f.plot != "" {
		if format, err = figure.Format(f.plot); err != nil {
			return usage("bench transfer --plot transfer.svg", "--plot %w", err)
		}
	}
	if f.scores != "" {
		table, err = readTable(f.scores)
	} else {
		table, err = a.transferFromRecords(ctx, f)
	}
	if err != nil || table == nil {
		return err
	}
	groups, undefined := table.Groups()
	for _, u := range undefined {
		fmt.Fprintln(a.stderr, "bench: warning:", u)
	}
	if len(groups) == 0 {
		return usage("a table needs two columns at least, and models of their languages and of others", "no group of languages has an F-statistic")
	}
	if f.plot != "" {
		if err := a.output(f.plot, func(w io.Writer) error { return figure.Transfer(w, format, groups) }); err != nil {
			return err
		}
	}
	best := transfer.Best(groups)
	if a.json {
		for _, g := range groups {
			if err := a.encode("group", g); err != nil {
				return err
			}
		}
		return a.encode("best", best)
	}
	byF := slices.Clone(groups)
	slices.SortStableFunc(byF, func(x, y transfer.Group) int { return cmp.Compare(y.F, x.F) })
	var rows [][]string
	for _, g := range byF {
		var columns []string
		for _, c := range g.Columns {
			columns = append(columns, fmt.Sprintf("%s %.2f", c.Language, c.F))
		}
		rows = append(rows, []string{g.Name(), fmt.Sprintf("%.2f", g.F), strings.Join(columns, ", ")})
	}
	fmt.Fprint(a.stdout, ui.Table([]string{"group", ">F", "F of each language"}, rows))
	return nil
}

func readTable(path string) (*transfer.Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("", "%w", err)
	}
	defer f.Close()
	t, err := transfer.Read(f, path)
	if err != nil {
		return nil, usage("a table looks like this: model_language,da,no / da,63.87,53.74 / no,46.30,58.78 / de,28.13,27.58", "%w", err)
	}
	return t, nil
}

// representatives reads the models that stand for languages; without a file they
// are the paper's.
func representatives(path string) ([]transfer.Representative, error) {
	if path == "" {
		return transfer.Paper(), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("", "%w", err)
	}
	defer f.Close()
	models, err := transfer.ReadModels(f, path)
	if err != nil {
		return nil, usage("each line is a language and a model: da,vesteinn/DanskBERT", "%w", err)
	}
	return models, nil
}

// transferFromRecords makes the table of what is recorded, after training what is
// not if that is asked for. It is nil when there was only a plan to show.
func (a *app) transferFromRecords(ctx context.Context, f transferFlags) (*transfer.Table, error) {
	models, err := representatives(f.models)
	if err != nil {
		return nil, err
	}
	columns, err := a.transferColumns(ctx, f.selection)
	if err != nil {
		return nil, err
	}
	protocol := f.protocol
	if f.run {
		f.protocol = cmp.Or(f.protocol, "paper")
		p, err := job.NewProtocol(f.protocol, f.set)
		if err != nil {
			return nil, err
		}
		protocol = p.Name
		if err := a.transferRun(ctx, models, columns, protocol, f); err != nil || f.dry {
			return nil, err
		}
	}
	board, err := a.board(transferBoard(models, columns, protocol, f.partial))
	if err != nil {
		return nil, err
	}
	table, missing := board.TransferOf(models).Table()
	if n := len(missing); n > 0 {
		const most = 8
		named := strings.Join(missing[:min(n, most)], ", ")
		if n > most {
			named += fmt.Sprintf(" and %d more", n-most)
		}
		hint := "bench transfer --run trains what is missing, and with --dry-run says what it would cost; bench import FILE takes over results"
		return nil, usage(hint, "%s missing: %s", plural(n, "score"), named)
	}
	return table, nil
}

// transferBoard asks for the ranking of some models on some data sets.
func transferBoard(models []transfer.Representative, columns []leaderboard.Column, protocol string, partial bool) boardFlags {
	f := boardFlags{columns: columns, partial: partial}
	if protocol != "" {
		f.protocols = []string{protocol}
	}
	for _, m := range models {
		f.Models = append(f.Models, escapePattern(m.Model))
	}
	return f
}

// escapePattern makes a pattern that only s itself matches.
func escapePattern(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// transferColumns are the data sets of a selection; of none, the paper's.
func (a *app) transferColumns(ctx context.Context, s selection) ([]leaderboard.Column, error) {
	paper := slices.Concat(leaderboard.Mainland(), leaderboard.Insular())
	if s.suite == "" && len(s.names)+len(s.tasks)+len(s.langs) == 0 && s.pickOn != "tune" {
		return paper, nil
	}
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	if s.suite == "" && len(s.names) == 0 {
		s.suite = "paper"
	}
	k := &kit{app: a, home: home, log: func(string, ...any) {}}
	defer k.close()
	b, names, err := k.names(ctx, s)
	if err != nil {
		return nil, err
	}
	var columns []leaderboard.Column
	for _, name := range names {
		info, err := b.Show(name)
		if err != nil {
			return nil, err
		}
		columns = append(columns, leaderboard.Column{Name: name, Task: string(info.Kind), Languages: info.Languages})
	}
	return columns, nil
}

// transferRun trains each model on the data sets that it has no score on.
func (a *app) transferRun(ctx context.Context, models []transfer.Representative, columns []leaderboard.Column, protocol string, f transferFlags) error {
	board, err := a.board(transferBoard(models, columns, protocol, f.partial))
	if err != nil {
		return err
	}
	var all []string
	for _, c := range columns {
		all = append(all, c.Name)
	}
	lacks := map[string][]string{}
	s := &sweep{options: f.runOptions}
	missing := 0
	for _, m := range models {
		if lacks[m.Model] != nil {
			continue // it stands for several languages
		}
		if lacks[m.Model] = board.Lacks(m.Model, all, f.seeds); len(lacks[m.Model]) > 0 {
			missing += len(lacks[m.Model])
			s.models = append(s.models, m.Model)
		}
	}
	if missing == 0 {
		fmt.Fprintf(a.stderr, "bench: nothing to run: all %s have %s on %s, protocol %s\n", plural(len(lacks), "model"), plural(f.seeds, "seed"), plural(len(all), "data set"), protocol)
		return nil
	}
	wanted := slices.DeleteFunc(all, func(name string) bool {
		for _, l := range lacks {
			if slices.Contains(l, name) {
				return false
			}
		}
		return true
	})
	s.options.selection = selection{names: wanted, picking: picking{pickOn: "val", scoreOn: "test"}} // names are those of divisions already
	s.options.skip = func(model, dataset string) bool { return !slices.Contains(lacks[model], dataset) }
	fmt.Fprintf(a.stderr, "bench: %s of %d models to go, protocol %s\n", plural(missing, "score"), len(s.models), protocol)
	if f.dry {
		return a.dryRun(ctx, s)
	}
	return a.run(ctx, s.models, s.options)
}
