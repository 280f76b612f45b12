package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"bench/datasets"
	"bench/internal/ui"
	"bench/runner"
	"bench/runner/job"
	"bench/scoring"
	"bench/scoring/results"
	"bench/scoring/stats"
	"bench/tasks"
	"bench/tasks/all"
)

// rescored is a recorded result whose predictions were scored again.
type rescored struct {
	Model    string `json:"model"`
	Revision string `json:"revision,omitempty"`
	Dataset  string `json:"dataset"`
	Protocol string `json:"protocol"` // of the record
	Rules    string `json:"rules"`    // the protocol whose scoring rules were applied
	// Why says why the predictions could not be scored; then there are no scores.
	Why     string                    `json:"why,omitempty"`
	Same    bool                      `json:"same"` // all seeds' scores are the recorded ones, to the last bit
	Metrics map[string]rescoredMetric `json:"metrics,omitempty"`
	Seeds   []rescoredSeed            `json:"seeds,omitempty"`

	metric string // the task's first
}

// rescoredMetric is a metric's mean over the seeds, on the scale that people read.
type rescoredMetric struct {
	Recorded scoring.Value `json:"recorded"`
	Mean     scoring.Value `json:"mean"`
	Half     scoring.Value `json:"half_width_t"`
	HalfZ    scoring.Value `json:"half_width_z"`
}

type rescoredSeed struct {
	Seed     int            `json:"seed"`
	Job      string         `json:"job"`
	Recorded scoring.Scores `json:"recorded"` // raw
	Scores   scoring.Scores `json:"scores"`   // raw
}

// rescore scores the predictions of recorded results again.
func (a *app) rescore(ctx context.Context, f scoreFlags) error {
	if f.onSeed != 0 {
		return usage("bench score FILE --dataset NAME --on-seed 4242", "--on-seed is for files: the predictions that are kept have their seeds")
	}
	if f.protocol != "" {
		if _, err := job.NewProtocol(f.protocol, nil); err != nil {
			return err
		}
	}
	recs, err := a.records()
	if err != nil {
		return err
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	task := func(r results.Record) int { // unknown ones first
		return slices.IndexFunc(all.All(), func(t tasks.Task) bool { return t.Info().Name == r.Dataset.Task })
	}
	slices.SortStableFunc(recs, func(x, y results.Record) int {
		return cmp.Or(strings.Compare(x.Model.ID, y.Model.ID), strings.Compare(x.Model.Revision, y.Model.Revision), strings.Compare(x.Protocol, y.Protocol), cmp.Compare(task(x), task(y)), strings.Compare(x.Dataset.Name, y.Dataset.Name))
	})
	var out []rescored
	sets := map[string]*scoredSet{}
	for _, r := range recs {
		if len(f.datasets) > 0 && !slices.Contains(f.datasets, r.Dataset.Name) || len(f.models) > 0 && !slices.Contains(f.models, r.Model.ID) || len(r.Replicates) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		one, err := rescoreRecord(home, r, f.protocol, sets)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", r.Model.ID, r.Dataset.Name, err)
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return usage("bench run first, or name a FILE of predictions", "nothing is recorded that could be scored again")
	}
	differ, missing := 0, 0
	for _, o := range out {
		switch {
		case o.Why != "":
			missing++
		case !o.Same && f.protocol == "":
			differ++
		}
		if a.json {
			if err := a.encode("rescored", o); err != nil {
				return err
			}
		}
	}
	if !a.json {
		a.rescoreText(out)
	}
	switch {
	case differ > 0:
		return fmt.Errorf("%s not what the kept predictions give: an older bench scored otherwise, or files were changed", plural(differ, "recorded result")+map[bool]string{true: " is", false: " are"}[differ == 1])
	case missing > 0:
		return codeError(exitSomeFailed)
	}
	return nil
}

func rescoreRecord(home string, r results.Record, protocol string, sets map[string]*scoredSet) (rescored, error) {
	base, _, _ := strings.Cut(r.Protocol, "{")
	out := rescored{Model: r.Model.ID, Revision: r.Model.Revision, Dataset: r.Dataset.Name, Protocol: r.Protocol, Rules: base}
	if protocol != "" {
		out.Rules = protocol
	}
	if r.Imported != nil {
		out.Why = "imported: there are no predictions"
		return out, nil
	}
	rules, err := job.NewProtocol(out.Rules, nil)
	if err != nil {
		out.Why = fmt.Sprintf("this bench has no protocol %s", out.Rules)
		return out, nil
	}
	d, known := sets[r.Dataset.Name]
	if !known {
		d, err = openScored(home, r.Dataset.Name)
		if err != nil && !errors.Is(err, datasets.ErrNotBuilt) {
			return out, err
		}
		sets[r.Dataset.Name] = d
	}
	if d == nil || d.data.Digest != r.Dataset.Digest {
		out.Why = "the data set is not built, or built anew: bench data build " + r.Dataset.Name
		return out, nil
	}
	store := job.Store{Home: home}
	metrics := d.task.Info().Metrics
	out.metric, out.Same = metrics[0].Name, true
	again := r
	again.Replicates = nil
	for _, p := range r.Replicates {
		lines, err := store.Predictions(job.ID(p.Job), d.ids)
		if errors.Is(err, fs.ErrNotExist) {
			return rescored{Model: out.Model, Revision: out.Revision, Dataset: out.Dataset, Protocol: out.Protocol, Rules: out.Rules, Why: fmt.Sprintf("the predictions of seed %d are not kept here", p.Seed)}, nil
		}
		if err != nil {
			return out, err
		}
		scores, err := d.task.Score(d.data.Meta, d.test, lines, runner.Sample(d.data.Kind, d.test, p.Seed-job.FirstSeed), tasks.Rules(rules.Scoring))
		if err != nil {
			return out, fmt.Errorf("seed %d: %w", p.Seed, err)
		}
		out.Seeds = append(out.Seeds, rescoredSeed{p.Seed, p.Job, p.Scores, scores})
		out.Same = out.Same && maps.Equal(p.Scores, scores)
	}
	out.Metrics = map[string]rescoredMetric{}
	for _, m := range metrics {
		var was, is []scoring.Value
		for _, s := range out.Seeds {
			was, is = append(was, scaled(s.Recorded[m.Name], m.Scale)), append(is, scaled(s.Scores[m.Name], m.Scale))
		}
		s := stats.Summarize(is)
		out.Metrics[m.Name] = rescoredMetric{Recorded: stats.Summarize(was).Mean, Mean: s.Mean, Half: s.HalfT, HalfZ: s.HalfZ}
	}
	return out, nil
}

func (a *app) rescoreText(out []rescored) {
	header := []string{"model", "data set", "protocol", "metric", ">seeds", ">recorded", ">scored again", ""}
	var rows [][]string
	for _, o := range out {
		line := []string{ui.Clip(plain(o.Model), 50), o.Dataset, o.Protocol}
		if o.Why != "" {
			rows = append(rows, append(line, "", "", "", "", o.Why))
			continue
		}
		m := o.Metrics[o.metric]
		again := valueText(m.Mean)
		if m.Half.Undefined == "" {
			again += fmt.Sprintf(" ± %.2f", m.Half.X)
		}
		verdict := "the same"
		if !o.Same {
			verdict = "differs"
		}
		if base, _, _ := strings.Cut(o.Protocol, "{"); o.Rules != base {
			verdict = "by the rules of " + o.Rules
		}
		rows = append(rows, append(line, o.metric, fmt.Sprint(len(o.Seeds)), valueText(m.Recorded), again, verdict))
	}
	fmt.Fprintln(a.stdout, strings.TrimRight(ui.Table(header, rows), "\n"))
}
