package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"bench/internal/ui"
	"bench/scoring/leaderboard"
	"bench/scoring/transfer"

	"github.com/spf13/cobra"
)

func newTransfer(a *app) *cobra.Command {
	var scores, models, plot, protocol string
	c := &cobra.Command{
		Use: "transfer", Short: "Test which languages help each other", Args: cobra.NoArgs,
		Long: `Test which languages help each other: the F-statistic of every group of
languages, which compares the scores of the models made for a language of the
group with those of all others, on the data sets of the group's languages.

The scores come from a table (--scores), or from what is recorded (--models):
a table with a line "model_language,model" and one line for each language with
the model that stands for it.`,
		Example: `  bench transfer --scores scores.csv
  bench transfer --models representatives.csv --plot transfer.svg`,
		RunE: func(*cobra.Command, []string) error { return a.transfer(scores, models, protocol, plot) },
	}
	f := c.Flags()
	f.StringVar(&scores, "scores", "", "CSV file: language of the model, then its score in each language")
	f.StringVar(&models, "models", "", "CSV file: language, and the model that stands for it; scores are those recorded")
	f.StringVar(&protocol, "protocol", "", "with --models: of this protocol (default: the one with the most complete models)")
	f.StringVar(&plot, "plot", "", "also draw the F-statistics into this SVG file")
	return c
}

// transferTable reads a table of either kind: its first line tells which.
func (a *app) transferTable(path string) (*transfer.Table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("", "%w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if _, second, _ := strings.Cut(strings.TrimSpace(first), ","); strings.TrimSpace(second) == "model" {
		return a.recordedTable(path, "")
	}
	return readTable(path)
}

func (a *app) transfer(scores, models, protocol, plot string) error {
	var table *transfer.Table
	var err error
	switch {
	case (scores == "") == (models == ""):
		return usage("bench transfer --help", "one of --scores and --models is needed")
	case scores != "":
		table, err = readTable(scores)
	default:
		table, err = a.recordedTable(models, protocol)
	}
	if err != nil {
		return err
	}
	groups, undefined := table.Groups()
	for _, u := range undefined {
		fmt.Fprintln(a.stderr, "bench: warning:", u)
	}
	if len(groups) == 0 {
		return usage("a table needs two columns at least, and models of their languages and of others", "no group of languages has an F-statistic")
	}
	if plot != "" {
		if err := a.output(plot, func(w io.Writer) error { return transfer.WriteSVG(w, groups) }); err != nil {
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
	slices.SortStableFunc(byF, func(x, y transfer.Group) int {
		switch {
		case x.F > y.F:
			return -1
		case x.F < y.F:
			return 1
		}
		return 0
	})
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

// recordedTable makes the table from the language scores of the leaderboard.
func (a *app) recordedTable(path, protocol string) (*transfer.Table, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("", "%w", err)
	}
	languages, of := []string{}, map[string]string{}
	for n, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		language, model, ok := strings.Cut(strings.TrimSpace(line), ",")
		if n == 0 && language == "model_language" {
			continue
		}
		if !ok || language == "" || of[language] != "" {
			return nil, usage("each line is a language and a model: da,vesteinn/DanskBERT", "%s:%d: %q is no such line, or its language is there already", path, n+1, line)
		}
		languages = append(languages, language)
		of[language] = strings.TrimSpace(model)
	}
	f := boardFlags{suite: "paper"}
	if protocol != "" {
		f.protocols = []string{protocol}
	}
	for _, l := range languages {
		f.Models = append(f.Models, of[l])
	}
	board, err := a.board(f)
	if err != nil {
		return nil, err
	}
	rows := map[string]leaderboard.Row{}
	for _, r := range slices.Concat(board.Models, board.Unranked) {
		rows[r.Model] = r
	}
	t := &transfer.Table{Models: languages}
	for _, l := range board.Languages {
		t.Columns = append(t.Columns, l.Code)
	}
	var missing []string
	for _, l := range languages {
		r, ok := rows[of[l]]
		var line []float64
		for _, c := range t.Columns {
			v := r.ByLanguage[c].Value
			if !ok || v.Undefined != "" {
				missing = append(missing, fmt.Sprintf("%s in %s", of[l], c))
			}
			line = append(line, v.X)
		}
		t.Scores = append(t.Scores, line)
	}
	if len(missing) > 0 {
		return nil, usage("bench run MODEL --suite paper, or bench import FILE", "%s missing: %s", plural(len(missing), "score"), strings.Join(missing, ", "))
	}
	return t, nil
}
