package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bench/internal/ui"
	"bench/runner/job"
	"bench/scoring"
	"bench/scoring/leaderboard"
	"bench/scoring/leaderboard/figure"
	"bench/scoring/leaderboard/web"
	"bench/scoring/results"
	"bench/tasks/all"

	"github.com/spf13/cobra"
)

// boardFlags are what bench leaderboard is asked for.
type boardFlags struct {
	leaderboard.Filters
	suite, format, out     string
	plot, transfer         string
	top                    int
	minSize, maxSize       string
	since, until           string
	protocols              []string
	partial, everyone      bool
	score, errors, ranks   string
	languages, tasks, sets []string
	columns                []leaderboard.Column // instead of a suite
	rates                  results.Rates
}

func newLeaderboard(a *app) *cobra.Command {
	var b boardFlags
	c := &cobra.Command{
		Use: "leaderboard", Short: "Rank the models, and say how sure the ranks are", Args: cobra.NoArgs,
		Long: `Rank the models that have a score on every data set of the suite. Scores are
averaged to one for each language and task, then for each language, then overall.
Intervals are 95 %; a model's rank is the range of ranks that the scores do not
rule out, so that equal models share ranks.

Scores of different protocols, of partial data sets and of other builds of a
data set are not ranked together; what was left out for that is told. Models
that lack a data set follow apart, with what is missing.`,
		Example: `  bench leaderboard
  bench leaderboard --language da,is --suite paper --format csv -o board.csv
  bench leaderboard --max-parameters 200M --exclude 'org/*' --format json`,
		RunE: func(*cobra.Command, []string) error { return a.leaderboard(b) },
	}
	f := c.Flags()
	f.StringVar(&b.format, "format", "text", "text, json, csv, or html: a page, in the folder that -o names")
	f.StringVarP(&b.out, "output", "o", "", "file, or folder of the page, to write (default: the standard output; leaderboard for the page)")
	f.StringVar(&b.suite, "suite", "", "data sets to rank by: mainland, insular, paper (both) or all; default mainland, or all if nothing of it is recorded")
	f.StringSliceVar(&b.languages, "language", nil, "only these languages; no, nb and nn are one")
	f.StringSliceVar(&b.tasks, "task", nil, "only these tasks")
	f.StringSliceVar(&b.sets, "dataset", nil, "only these data sets")
	f.StringSliceVar(&b.Models, "model", nil, "only these models (names, or patterns such as 'org/*')")
	f.StringSliceVar(&b.Exclude, "exclude", nil, "without these models (names or patterns)")
	f.StringVar(&b.minSize, "min-parameters", "", "only models of at least so many parameters, such as 100M")
	f.StringVar(&b.maxSize, "max-parameters", "", "only models of at most so many parameters")
	f.StringSliceVar(&b.Licences, "licence", nil, "only models under these licences, as the Hub calls them (mit, 'cc-by-*'); unknown: those of which none is known")
	f.StringVar(&b.since, "since", "", "only records of this day or later (2026-01-31)")
	f.StringVar(&b.until, "until", "", "only records of this day or earlier")
	f.StringSliceVar(&b.protocols, "protocol", nil, "rank scores of these protocols (default: the one with the most complete models); several give one row each")
	f.BoolVar(&b.partial, "partial", false, "rank scores on partial data sets too")
	f.StringVar(&b.score, "score", "", "mean of scores (default), or rank: EuroEval's rank score, the lower the better")
	f.StringVar(&b.errors, "errors", "", "propagated from the raw scores (default); mean: ScandEval's plain mean of half-widths; bootstrap: EuroEval's, over data sets and seeds")
	f.StringVar(&b.ranks, "ranks", "intervals", "intervals: all that the scores do not rule out; euroeval: EuroEval's dense ranks, of its rank scores and their bootstrap")
	f.StringVar(&b.plot, "plot", "", "draw the scores and their intervals into this file instead (.svg, .pdf, .png, .eps); of one --dataset the seeds too")
	f.StringVar(&b.transfer, "transfer", "", "html and json: with the table of bench transfer that this file holds, as its --scores or --models (default: the paper's models, if all their scores are recorded)")
	f.IntVar(&b.top, "top", 30, "models in the plot")
	f.Float64Var(&b.rates.WattsPerGPU, "watts-per-gpu", 0, "power of a GPU, where its energy was not measured (default: as the runs estimated it; 250)")
	f.Float64Var(&b.rates.CO2eKgPerKWh, "carbon", results.CO2eKgPerKWh, "kg CO2e that a kilowatt hour emits")
	f.Float64Var(&b.rates.PricePerGPUHour, "price", 0, "price of a GPU hour, in any currency")
	f.BoolVar(&b.everyone, "incomplete", false, "text: list all incomplete models")
	return c
}

func (a *app) leaderboard(f boardFlags) error {
	if !slices.Contains([]string{"text", "json", "csv", "html"}, f.format) {
		return usage("bench leaderboard --help", "there is no format %q; there are text, json, csv, html", f.format)
	}
	whole := f.format == "html" || f.format == "json" || a.json && f.format == "text"
	if f.transfer != "" && !whole {
		return usage("bench leaderboard --format html --transfer "+f.transfer, "--transfer is for the page and for JSON")
	}
	if err := (costOptions{cmp.Or(f.rates.WattsPerGPU, results.WattsPerGPU), f.rates.CO2eKgPerKWh, f.rates.PricePerGPUHour}).validate(); err != nil {
		return err
	}
	plot := ""
	if f.plot != "" {
		var err error
		if plot, err = figure.Format(f.plot); err != nil {
			return usage("bench leaderboard --plot scores.svg", "--plot %w", err)
		}
	}
	board, err := a.board(f)
	if err != nil {
		return err
	}
	if len(board.Models)+len(board.Unranked) == 0 {
		return usage("bench run, bench import FILE, or other filters; bench leaderboard --suite all ranks by whatever is recorded", "no model has a score on the data sets that were asked for")
	}
	if len(board.Models) == 0 && f.suite == "" {
		fmt.Fprintln(a.stderr, "bench: hint: no model has all data sets that are ranked by; bench leaderboard --suite all ranks by whatever is recorded, --dataset by what it names")
	}
	if f.plot != "" {
		return a.output(f.plot, func(w io.Writer) error { return figure.Write(w, plot, board, max(1, f.top)) })
	}
	if whole {
		if board.Transfer, err = a.heatMap(f.transfer, board.Protocols); err != nil {
			return err
		}
	}
	if f.format == "html" {
		return a.page(cmp.Or(f.out, "leaderboard"), board)
	}
	return a.output(f.out, func(w io.Writer) error {
		switch {
		case f.format == "json" || a.json && f.format == "text":
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false)
			return e.Encode(board)
		case f.format == "csv":
			return boardCSV(w, board)
		}
		return boardText(w, board, f.everyone)
	})
}

// page writes the board as a page.
func (a *app) page(dir string, board *leaderboard.Board) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usage("name a folder with -o", "%s is a file", dir)
	}
	if err := web.Write(dir, board, web.Options{Title: "ScandEval with bench"}); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "bench: the page is %s; it works from there and from any web server\n", filepath.Join(dir, "index.html"))
	return nil
}

// heatMap makes the table of bench transfer: of a file, or of what is recorded of
// the models in a file under the board's protocol. Without a file it is that of
// the paper's models; nil if they lack a score.
func (a *app) heatMap(path string, protocols []string) (*leaderboard.Transfer, error) {
	var list string
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, usage("", "%w", err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if fields := strings.Split(first, ","); len(fields) != 2 {
			table, err := readTable(path)
			if err != nil {
				return nil, err
			}
			t := leaderboard.OfTable(table)
			return &t, nil
		}
		list = path
	}
	models, err := representatives(list)
	if err != nil {
		return nil, err
	}
	f := transferBoard(models, slices.Concat(leaderboard.Mainland(), leaderboard.Insular()), "", false)
	if len(protocols) == 1 {
		f.protocols = protocols
	}
	board, err := a.board(f)
	if err != nil {
		return nil, err
	}
	t := board.TransferOf(models)
	if _, missing := t.Table(); path == "" && len(missing) > 0 {
		return nil, nil
	}
	return &t, nil
}

// losses looks validation losses up among the jobs of a home.
func losses(home string) func(string) [][2]float64 {
	store := job.Store{Home: home}
	return func(id string) [][2]float64 {
		o, ended, err := store.Outcome(job.ID(id))
		if err != nil || !ended {
			return nil // of another machine, or gone: the scores are what counts
		}
		return o.ValidationLosses
	}
}

// board makes the ranking that flags ask for.
func (a *app) board(f boardFlags) (*leaderboard.Board, error) {
	recs, err := a.records()
	if err != nil {
		return nil, err
	}
	o := leaderboard.Options{Bench: version(), Protocols: f.protocols, Partial: f.partial, Score: f.score, Errors: f.errors, Ranks: f.ranks, Filters: f.Filters}
	if f.format == "html" || f.format == "json" || a.json { // one file for each job: not for what does not show them
		home, err := a.homeDir()
		if err != nil {
			return nil, err
		}
		o.Losses = losses(home)
	}
	if f.rates != (results.Rates{}) {
		o.Rates = &f.rates
	}
	o.Filters.Languages, o.Filters.Tasks, o.Filters.Datasets = f.languages, f.tasks, f.sets
	for _, t := range all.All() {
		o.Tasks = append(o.Tasks, leaderboard.Task{Name: t.Info().Name, Metrics: t.Info().Metrics})
	}
	if o.MinParameters, err = parseCount(f.minSize); err != nil {
		return nil, err
	}
	if o.MaxParameters, err = parseCount(f.maxSize); err != nil {
		return nil, err
	}
	if o.Since, err = parseDay(f.since); err != nil {
		return nil, err
	}
	if o.Until, err = parseDay(f.until); err != nil {
		return nil, err
	}
	if !o.Until.IsZero() {
		o.Until = o.Until.AddDate(0, 0, 1)
	}
	suites := map[string][]leaderboard.Column{
		"mainland": leaderboard.Mainland(), "insular": leaderboard.Insular(), "all": nil,
		"paper": slices.Concat(leaderboard.Mainland(), leaderboard.Insular()),
	}
	columns, ok := suites[f.suite]
	switch {
	case f.columns != nil:
		columns = f.columns
	case f.suite == "":
		// Named languages and data sets may be of any suite.
		if len(f.sets) == 0 && len(f.languages) == 0 && slices.ContainsFunc(leaderboard.Mainland(), func(c leaderboard.Column) bool {
			for _, r := range recs {
				if r.Dataset.Name == c.Name {
					return true
				}
			}
			return false
		}) {
			columns = suites["mainland"]
		} else if len(f.languages) > 0 && len(f.sets) == 0 {
			columns = suites["paper"]
		}
	case !ok:
		return nil, usage("bench leaderboard --help", "there is no suite %q; there are mainland, insular, paper, all", f.suite)
	}
	o.Columns = columns
	board, err := leaderboard.Build(recs, o)
	var option *leaderboard.OptionError
	if errors.As(err, &option) {
		return nil, usage("bench leaderboard --help; bench run, or bench import FILE, if there are no results yet", "%w", err)
	}
	return board, err
}

// parseCount reads a number such as 110M or 1.5b.
func parseCount(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	number, factor := strings.ToLower(s), 1.0
	for suffix, x := range map[string]float64{"k": 1e3, "m": 1e6, "b": 1e9} {
		if n, ok := strings.CutSuffix(number, suffix); ok {
			number, factor = n, x
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || !(x > 0 && x*factor < 1e15) {
		return 0, usage("write it as 110M or 1.5B", "%q is not a number of parameters", s)
	}
	return int64(x * factor), nil
}

func parseDay(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return day, usage("write it as 2026-01-31", "%q is not a day", s)
	}
	return day, nil
}

// rowName tells rows of one model apart.
func rowName(b *leaderboard.Board, r leaderboard.Row) string {
	name := r.Model
	twice := 0
	for _, s := range b.Models {
		if s.Model == r.Model && s.Protocol == r.Protocol {
			twice++
		}
	}
	if twice > 1 && r.Revision != "" {
		name += "@" + r.Revision[:min(8, len(r.Revision))]
	}
	if b.Mixed {
		name += " [" + r.Protocol + "]"
	}
	return plain(name)
}

func aggText(g leaderboard.Agg) string {
	if g.Value.Undefined != "" {
		return "-"
	}
	if g.HalfWidth.Undefined != "" {
		return fmt.Sprintf("%.2f", g.Value.X)
	}
	return fmt.Sprintf("%.2f ±%5.2f", g.Value.X, g.HalfWidth.X)
}

func size(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 1e6:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.0fM", float64(n)/1e6)
}

func boardText(w io.Writer, b *leaderboard.Board, everyone bool) error {
	header := []string{">rank", "model", ">size", ">score"}
	if len(b.Languages) > 1 {
		for _, l := range b.Languages {
			header = append(header, ">"+l.Code)
		}
	}
	costs := func(r leaderboard.Row) bool { return r.GPUSeconds > 0 }
	costly := slices.ContainsFunc(b.Models, costs) || slices.ContainsFunc(b.Unranked, costs)
	if costly {
		header = append(header, ">GPU h", ">kWh", ">kg CO2e")
		if b.Rates.PricePerGPUHour > 0 {
			header = append(header, ">price")
		}
	}
	header = append(header, ">collapsed", ">by medians")
	line := func(r leaderboard.Row, rank string) []string {
		out := []string{rank, ui.Clip(rowName(b, r), 60), size(r.Parameters), aggText(r.Overall)}
		if len(b.Languages) > 1 {
			for _, l := range b.Languages {
				out = append(out, aggText(r.ByLanguage[l.Code]))
			}
		}
		if costly {
			cells := []string{"", "", "", ""}
			if costs(r) {
				cells = []string{fmt.Sprintf("%.2f", r.GPUSeconds/3600), fmt.Sprintf("%.2f", r.EnergyKWh), fmt.Sprintf("%.2f", r.CO2eKg), fmt.Sprintf("%.2f", r.Price)}
			}
			if b.Rates.PricePerGPUHour == 0 {
				cells = cells[:3]
			}
			out = append(out, cells...)
		}
		if r.Collapsed == 0 || r.Overall.Median.Undefined != "" {
			return append(out, "", "")
		}
		return append(out, strconv.Itoa(r.Collapsed), fmt.Sprintf("%.2f", r.Overall.Median.X))
	}
	var rows [][]string
	collapsed := 0
	for _, r := range b.Models {
		rank := strconv.Itoa(r.Rank.Lo)
		if r.Rank.Hi > r.Rank.Lo {
			rank += "–" + strconv.Itoa(r.Rank.Hi)
		}
		rows = append(rows, line(r, rank))
		collapsed += r.Collapsed
	}
	ranked := 0
	for _, d := range b.Datasets {
		if d.Ranked {
			ranked++
		}
	}
	fmt.Fprintf(w, "%s with all of %s, protocol %s\n\n", plural(len(b.Models), "model"), plural(ranked, "data set"), strings.Join(b.Protocols, ", "))
	if len(rows) > 0 {
		fmt.Fprintln(w, ui.Table(header, rows))
	}
	if n := len(b.Unranked); n > 0 {
		const most = 10
		shown := b.Unranked
		if !everyone {
			shown = shown[:min(most, n)]
		}
		fmt.Fprintf(w, "%s without a rank, for want of data sets\n\n", plural(n, "model"))
		var rows [][]string
		for _, r := range shown {
			cells := line(r, "")
			missing := strings.Join(r.Missing, ", ")
			rows = append(rows, append(cells[1:len(cells)-2], strconv.Itoa(len(r.Missing)), ui.Clip(missing, 60)))
		}
		h := append(slices.Clone(header[1:len(header)-2]), ">missing", "")
		fmt.Fprintln(w, ui.Table(h, rows))
		if n > len(shown) {
			fmt.Fprintf(w, "and %d more: --incomplete\n\n", n-len(shown))
		}
	}
	for _, l := range b.LeftOut {
		fmt.Fprintf(w, "left out: %s (%s of %s)\n", plain(l.Reason), plural(l.Records, "record"), plural(len(l.Models), "model"))
	}
	gpu, estimated := 0.0, 0.0
	for _, r := range slices.Concat(b.Models, b.Unranked) {
		gpu, estimated = gpu+r.GPUSeconds, estimated+r.EstimatedGPUSeconds
	}
	if estimated > 0 {
		watts := "the runs' estimate"
		if b.Rates.WattsPerGPU > 0 {
			watts = fmt.Sprintf("%g W", b.Rates.WattsPerGPU)
		}
		fmt.Fprintf(w, "kWh: for %.0f %% of the GPU hours not measured, but %s times the time\n", 100*estimated/gpu, watts)
	}
	if collapsed > 0 {
		fmt.Fprintf(w, "collapsed: seeds that learnt nothing although the model can; they are part of the scores, but hardly of the scores by medians\n")
	}
	for _, n := range b.Notes {
		fmt.Fprintf(w, "note: %s\n", plain(n))
	}
	return nil
}

func boardCSV(w io.Writer, b *leaderboard.Board) error {
	out := csv.NewWriter(w)
	number := func(v scoring.Value) string {
		if v.Undefined != "" {
			return ""
		}
		return strconv.FormatFloat(v.X, 'f', 4, 64)
	}
	header := []string{"position", "rank_low", "rank_high", "model", "revision", "protocol", "parameters", "max_length", "vocabulary", "licence", "seeds", "collapsed", "missing", "score", "score_half_width"}
	for _, l := range b.Languages {
		header = append(header, l.Code, l.Code+"_half_width")
	}
	metric := map[string]string{}
	for _, t := range b.Tasks {
		metric[t.Name] = t.Metrics[0].Name
	}
	for _, d := range b.Datasets {
		if d.Ranked || d.Task == "speed" {
			n := d.Name + "/" + metric[d.Task]
			header = append(header, n, n+"_half_width", n+"_median", n+"_collapsed")
		}
	}
	header = append(header, "gpu_hours", "energy_kwh", "estimated_gpu_hours", "co2e_kg", "price")
	if err := out.Write(header); err != nil {
		return err
	}
	decimal := func(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }
	for _, r := range slices.Concat(b.Models, b.Unranked) {
		line := []string{"", "", ""}
		if r.Rank != nil {
			line = []string{strconv.Itoa(r.Position), strconv.Itoa(r.Rank.Lo), strconv.Itoa(r.Rank.Hi)}
		}
		line = append(line, r.Model, r.Revision, r.Protocol, strconv.FormatInt(r.Parameters, 10), strconv.Itoa(r.MaxLength), strconv.Itoa(r.Vocabulary), r.Licence, strconv.Itoa(r.Seeds), strconv.Itoa(r.Collapsed), strings.Join(r.Missing, " "), number(r.Overall.Value), number(r.Overall.HalfWidth))
		for _, l := range b.Languages {
			g := r.ByLanguage[l.Code]
			line = append(line, number(g.Value), number(g.HalfWidth))
		}
		for _, d := range b.Datasets {
			if !d.Ranked && d.Task != "speed" {
				continue
			}
			c, ok := r.Datasets[d.Name]
			m, measured := c.Metrics[metric[d.Task]]
			if !ok || !measured {
				line = append(line, "", "", "", "")
				continue
			}
			line = append(line, number(m.Mean), number(m.HalfWidthT), number(m.Median), strconv.Itoa(len(c.Collapsed)))
		}
		line = append(line, decimal(r.GPUSeconds/3600), decimal(r.EnergyKWh), decimal(r.EstimatedGPUSeconds/3600), decimal(r.CO2eKg), "")
		if b.Rates.PricePerGPUHour > 0 {
			line[len(line)-1] = decimal(r.Price)
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
