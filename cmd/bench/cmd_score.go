package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"bench/datasets"
	"bench/internal/ui"
	"bench/runner"
	"bench/runner/job"
	"bench/scoring"
	"bench/scoring/stats"
	"bench/tasks"

	"github.com/spf13/cobra"
)

// scoreFlags are what bench score is asked for.
type scoreFlags struct {
	datasets, models []string
	protocol         string
	resamples        int
	seed             uint64
	onSeed           int
}

func newScore(a *app) *cobra.Command {
	var f scoreFlags
	c := &cobra.Command{
		Use: "score [FILE…]", Short: "Score predictions without training: files of your own, or those that are kept",
		Long: `Score predictions without training.

With files: each is one run's predictions for the test split of --dataset, one JSON
object a line (docs/formats.md, Predictions), whoever made them; .zst is
decompressed. Scores are those of all test rows, with the 95 % interval of a
bootstrap over the rows; of several files also their mean, with an interval over
runs and rows. With --on-seed the first file is scored on the bootstrap sample of
that seed, the next one on that of the next seed, as bench run scores its seeds.

Without files: the predictions that are kept of every recorded result are scored
again, each seed on its sample, and held against the record. Nothing is written.

--protocol names the scoring rules. scandeval-v7 scores questions that are drawn
twice once, and leaves out words that truncation cut off, as the original does.`,
		Example: `  bench score predictions.jsonl --dataset scala-da
  bench score run*.jsonl --dataset scandiqa-da --on-seed 4242 --protocol scandeval-v7
  bench score --model org/model --json`,
		RunE: func(c *cobra.Command, args []string) error {
			if drawn := c.Flags().Changed("resamples") || c.Flags().Changed("seed"); drawn && (len(args) == 0 || f.onSeed != 0) && f.resamples != 0 {
				return usage("bench score FILE --dataset NAME", "--resamples and --seed are for files that are scored on all rows")
			}
			if len(args) > 0 {
				return a.scoreFiles(c.Context(), args, f)
			}
			return a.rescore(c.Context(), f)
		},
	}
	fs := c.Flags()
	fs.StringSliceVar(&f.datasets, "dataset", nil, "the data set of the files; without files: only these data sets")
	fs.StringSliceVar(&f.models, "model", nil, "without files: only these models")
	fs.StringVar(&f.protocol, "protocol", "", "scoring rules of this protocol (default: those of the record; of files: paper)")
	fs.IntVar(&f.resamples, "resamples", 10000, "resamples of the bootstrap; 0: no intervals")
	fs.Uint64Var(&f.seed, "seed", 4242, "of the resamples; the same seed gives the same numbers on any machine")
	fs.IntVar(&f.onSeed, "on-seed", 0, fmt.Sprintf("score the first file on the sample of this seed, from %d on", job.FirstSeed))
	return c
}

// fileScore is what one file of predictions is worth, or all of them together.
type fileScore struct {
	File     string `json:"file,omitempty"` // "": the mean of all
	Files    int    `json:"files"`
	Dataset  string `json:"dataset"`
	Digest   string `json:"dataset_digest"`
	Task     string `json:"task"`
	Protocol string `json:"protocol"` // whose scoring rules
	Seed     int    `json:"on_seed,omitempty"`
	Rows     int    `json:"rows"`     // scored, with repetitions
	Distinct int    `json:"distinct"` // rows among them

	Metrics map[string]fileMetric `json:"metrics"`
}

// fileMetric is a score on the scale that people read, with its 95 % interval.
type fileMetric struct {
	Score scoring.Value  `json:"score"`
	Lo    *float64       `json:"lo,omitempty"`
	Hi    *float64       `json:"hi,omitempty"`
	Half  *scoring.Value `json:"half_width_t,omitempty"`
	HalfZ *scoring.Value `json:"half_width_z,omitempty"` // 1.96·s/√n, as the reference system reports
}

func (a *app) scoreFiles(ctx context.Context, files []string, f scoreFlags) error {
	switch {
	case len(f.datasets) != 1:
		return usage("bench score "+files[0]+" --dataset NAME; bench data list lists them", "files of predictions are for one data set, %d are named", len(f.datasets))
	case len(f.models) > 0:
		return usage("bench score --help", "--model is for the predictions that are kept, not for files")
	case f.resamples != 0 && f.resamples < 100:
		return usage("10000 are usual, 0 leaves the interval out", "%d resamples are too few for an interval", f.resamples)
	case f.onSeed != 0 && f.onSeed < job.FirstSeed:
		return usage(fmt.Sprintf("the first seed is %d", job.FirstSeed), "there is no sample of seed %d", f.onSeed)
	}
	protocol, err := job.NewProtocol(f.protocolOr("paper"), nil)
	if err != nil {
		return err
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	d, err := openScored(home, f.datasets[0])
	if errors.Is(err, datasets.ErrNotBuilt) {
		return &runner.PreconditionError{What: "data set " + f.datasets[0] + " is not built", Hint: "bench data build " + f.datasets[0]}
	}
	if err != nil {
		return err
	}
	rules := tasks.Rules(protocol.Scoring)
	if f.onSeed == 0 {
		rules.CollapseIDs = false // all rows are distinct; resamples without repetitions would seem too sure
	}
	var samplers []tasks.Sampler
	for _, name := range files {
		s, err := d.prepare(name, rules)
		if err != nil {
			return err
		}
		samplers = append(samplers, s)
	}
	var out []fileScore
	if f.onSeed != 0 {
		out, err = d.onSamples(files, samplers, f.onSeed)
	} else {
		out, err = d.onAllRows(files, samplers, stats.Resampling{Resamples: f.resamples, Seed: f.seed, Workers: runtime.GOMAXPROCS(0), Stop: ctx.Done()})
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	for i := range out {
		out[i].Dataset, out[i].Digest, out[i].Task, out[i].Protocol = d.data.Name, d.data.Digest, d.task.Info().Name, protocol.Name
		if a.json {
			if err := a.encode("score", out[i]); err != nil {
				return err
			}
		}
	}
	if !a.json {
		a.scoreText(d, protocol.Name, out)
	}
	return nil
}

func (f scoreFlags) protocolOr(name string) string {
	if f.protocol != "" {
		return f.protocol
	}
	return name
}

// prepare reads a file of predictions. An error names the file's line.
func (d *scoredSet) prepare(name string, rules tasks.Rules) (tasks.Sampler, error) {
	lines, err := job.OpenPredictions(name, d.ids)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("", "%w", err)
	}
	var misfit *job.AlignError
	if errors.As(err, &misfit) {
		return nil, usage("there must be one line for each row of "+d.data.Path(datasets.Test), "%w of %s", err, d.data.Name)
	}
	if err != nil {
		return nil, err
	}
	s, err := d.task.Prepare(d.data.Meta, d.test, lines, rules)
	var wrong *tasks.PredictionError
	if errors.As(err, &wrong) {
		at := name
		if line, err := job.PredictionLine(name, wrong.ID); err == nil && line > 0 {
			at = fmt.Sprintf("%s:%d", name, line)
		}
		return nil, usage("docs/formats.md, Predictions, has the form of a line", "%s: %w", at, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// onSamples scores file i on the bootstrap sample of seed first + i.
func (d *scoredSet) onSamples(files []string, samplers []tasks.Sampler, first int) ([]fileScore, error) {
	var out []fileScore
	seeds := map[string][]scoring.Value{}
	for i, s := range samplers {
		rows := runner.Sample(d.data.Kind, d.test, first+i-job.FirstSeed)
		if rows == nil {
			rows = d.rows
		}
		scores, err := s.Sample(rows)
		if err != nil {
			return nil, err
		}
		one := fileScore{File: files[i], Files: 1, Seed: first + i, Rows: len(rows), Distinct: len(distinct(rows)), Metrics: map[string]fileMetric{}}
		for _, m := range d.task.Info().Metrics {
			v := scaled(scores[m.Name], m.Scale)
			seeds[m.Name] = append(seeds[m.Name], v)
			one.Metrics[m.Name] = fileMetric{Score: v}
		}
		out = append(out, one)
	}
	if len(files) > 1 {
		mean := fileScore{Files: len(files), Rows: len(d.rows), Distinct: len(d.rows), Metrics: map[string]fileMetric{}}
		for name, x := range seeds {
			s := stats.Summarize(x)
			mean.Metrics[name] = fileMetric{Score: s.Mean, Half: &s.HalfT, HalfZ: &s.HalfZ}
		}
		out = append(out, mean)
	}
	return out, nil
}

// onAllRows scores each file on all rows, and all files together.
func (d *scoredSet) onAllRows(files []string, samplers []tasks.Sampler, o stats.Resampling) ([]fileScore, error) {
	n := len(d.rows)
	var out []fileScore
	one := func(name string, of []tasks.Sampler) error {
		s := fileScore{File: name, Files: len(of), Rows: n, Distinct: n, Metrics: map[string]fileMetric{}}
		for _, m := range d.task.Info().Metrics {
			if m.Hi > 1 || n < 2 || o.Resamples == 0 { // a speed is measured once
				var x []scoring.Value
				for _, r := range of {
					scores, err := r.Sample(d.rows)
					if err != nil {
						return err
					}
					x = append(x, scaled(scores[m.Name], m.Scale))
				}
				s.Metrics[m.Name] = fileMetric{Score: stats.Summarize(x).Mean}
				continue
			}
			runs, err := d.runs(of, m.Name)
			if err != nil {
				return err
			}
			h, err := stats.NewHierarchy(runs, len(of), n, o)
			if err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
			lo, hi := h.ItemInterval()
			if len(of) > 1 {
				half, _ := h.HalfWidth()
				lo, hi = h.Mean-half, h.Mean+half
			}
			lo, hi = lo*m.Scale, hi*m.Scale
			s.Metrics[m.Name] = fileMetric{Score: scoring.Num(h.Mean * m.Scale), Lo: &lo, Hi: &hi}
		}
		out = append(out, s)
		return nil
	}
	for i, s := range samplers {
		if err := one(files[i], []tasks.Sampler{s}); err != nil {
			return nil, err
		}
	}
	if len(samplers) > 1 {
		if err := one("", samplers); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// runs makes what can be resampled of samplers.
func (d *scoredSet) runs(of []tasks.Sampler, metric string) (stats.Runs, error) {
	var out stats.ItemRuns
	for _, s := range of {
		c, ok := s.Counts(metric)
		if !ok {
			return nil, fmt.Errorf("%s cannot be resampled", metric)
		}
		items, err := c.Items(d.rows)
		if err != nil {
			return nil, err
		}
		out = append(out, items)
	}
	return out, nil
}

func distinct(rows []int) []int { return slices.Compact(slices.Sorted(slices.Values(rows))) }

func scaled(v scoring.Value, by float64) scoring.Value {
	if v.Undefined != "" {
		return v
	}
	return scoring.Num(v.X * by)
}

func (a *app) scoreText(d *scoredSet, protocol string, scores []fileScore) {
	fmt.Fprintf(a.stdout, "data set %s (%s), %s, scoring rules of %s\n\n", d.data.Name, d.task.Info().Name, plural(len(d.rows), "test row"), protocol)
	header := []string{"file"}
	sampled := scores[0].Seed != 0
	if sampled {
		header = append(header, ">seed", ">distinct rows")
	}
	for _, m := range d.task.Info().Metrics {
		header = append(header, ">"+m.Name, "95 %")
	}
	var rows [][]string
	for _, s := range scores {
		line := []string{plain(s.File)}
		if s.File == "" {
			line[0] = "mean of " + plural(s.Files, "file")
		}
		switch {
		case sampled && s.File != "":
			line = append(line, fmt.Sprint(s.Seed), fmt.Sprint(s.Distinct))
		case sampled:
			line = append(line, "", "")
		}
		for _, m := range d.task.Info().Metrics {
			v := s.Metrics[m.Name]
			line = append(line, valueText(v.Score), v.interval())
		}
		rows = append(rows, line)
	}
	fmt.Fprintln(a.stdout, strings.TrimRight(ui.Table(header, rows), "\n"))
	if d.data.Partial != nil {
		fmt.Fprintln(a.stdout, "note: the data set is partial: its scores are not comparable with those of the full one")
	}
}

func valueText(v scoring.Value) string {
	if v.Undefined != "" {
		return "—"
	}
	return fmt.Sprintf("%.2f", v.X)
}

func (m fileMetric) interval() string {
	switch {
	case m.Lo != nil && m.Hi != nil:
		return fmt.Sprintf("%.2f … %.2f", *m.Lo, *m.Hi)
	case m.Half != nil && m.Half.Undefined == "":
		return fmt.Sprintf("± %.2f", m.Half.X)
	}
	return ""
}
