package leaderboard

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"bench/scoring"
	"bench/scoring/results"
	"bench/scoring/stats"
)

// The kinds of scores and of errors.
const (
	ScoreMean = "mean"
	ScoreRank = "rank"

	ErrorsPropagated = "propagated"
	ErrorsMean       = "mean"
	ErrorsBootstrap  = "bootstrap"
)

// Task is one whose data sets can be ranked.
type Task struct {
	Name    string
	Metrics []scoring.Metric // the first one is ranked
}

// Options say what to rank, and how.
type Options struct {
	Bench   string
	Tasks   []Task   // in the order in which they are shown
	Columns []Column // the data sets that a model must have; nil: all that have a record
	Filters
	// Protocols to rank; nil: the one with the most complete models. With several
	// each model has a row under each of them.
	Protocols []string
	Partial   bool   // rank scores on partial data sets too
	Score     string // ScoreMean if empty
	Errors    string // ErrorsPropagated if empty
	// Ranks is RanksIntervals if empty. With RanksEuroEval Score and Errors are
	// ScoreRank and ErrorsBootstrap, and must be these or empty.
	Ranks string
	// Losses returns the validation losses of a job as [step, loss], nil if they
	// are not known. Nil: the board has none.
	Losses func(job string) [][2]float64
	// Rates count what trainings cost; nil: results.PaperRates.
	Rates *results.Rates
}

// OptionError says that an option makes no sense.
type OptionError struct{ Problem string }

func (e *OptionError) Error() string { return e.Problem }

// Build makes the ranking of records, of which of each identity one must be
// left (results.Newest).
func Build(recs []results.Record, o Options) (*Board, error) {
	if o.Ranks = cmp.Or(o.Ranks, RanksIntervals); o.Ranks == RanksEuroEval {
		o.Score, o.Errors = cmp.Or(o.Score, ScoreRank), cmp.Or(o.Errors, ErrorsBootstrap)
		if o.Score != ScoreRank || o.Errors != ErrorsBootstrap {
			return nil, &OptionError{fmt.Sprintf("the successor's ranks are those of rank scores with bootstrapped errors, not of score %s with errors %s", o.Score, o.Errors)}
		}
	}
	o.Score, o.Errors = cmp.Or(o.Score, ScoreMean), cmp.Or(o.Errors, ErrorsPropagated)
	o.Rates = cmp.Or(o.Rates, &results.PaperRates)
	if o.Ranks != RanksIntervals && o.Ranks != RanksEuroEval {
		return nil, &OptionError{fmt.Sprintf("there are no ranks %q; there are intervals and euroeval", o.Ranks)}
	}
	if o.Score != ScoreMean && o.Score != ScoreRank {
		return nil, &OptionError{fmt.Sprintf("there is no score %q; there are mean and rank", o.Score)}
	}
	if o.Errors != ErrorsPropagated && o.Errors != ErrorsMean && o.Errors != ErrorsBootstrap {
		return nil, &OptionError{fmt.Sprintf("there are no errors %q; there are propagated, mean and bootstrap", o.Errors)}
	}
	for _, p := range slices.Concat(o.Models, o.Exclude, o.Licences) {
		if _, err := path.Match(p, ""); err != nil {
			return nil, &OptionError{fmt.Sprintf("%q is not a pattern: %v", p, err)}
		}
	}
	b := &builder{o: o, left: map[string]map[string]int{}, tasks: map[string]Task{}, licence: licences(recs)}
	for _, t := range o.Tasks {
		b.tasks[t.Name] = t
	}
	recs = b.filter(recs)
	b.columns(recs)
	if len(b.cols) == 0 {
		return nil, &OptionError{"no data set is left to rank"}
	}
	protocols := o.Protocols
	if len(protocols) == 0 {
		protocols = b.bestProtocol(recs)
	}
	recs = b.keep(recs, func(r results.Record) string {
		if !slices.Contains(protocols, r.Protocol) {
			return "another protocol: " + r.Protocol
		}
		return ""
	})
	recs = b.oneBuild(recs)
	board := &Board{
		Type: "leaderboard", Schema: Schema, Bench: o.Bench, Score: o.Score, Errors: o.Errors, Ranks: o.Ranks, Level: stats.Level,
		Protocols: protocols, Mixed: len(protocols) > 1, Partial: o.Partial, Filters: o.Filters, Rates: *o.Rates,
		Languages: []Language{}, Tasks: []TaskInfo{}, Datasets: []DatasetInfo{}, Models: []Row{}, Unranked: []Row{}, LeftOut: []LeftOut{}, Notes: []string{},
	}
	b.rows(board, recs)
	b.aggregate(board)
	b.describe(board, recs)
	return board, nil
}

type builder struct {
	o     Options
	tasks map[string]Task
	cols  []Column // that are ranked
	left  map[string]map[string]int
	build map[string]string // data set → the build that is ranked
	// licence is that of each model, by id and revision.
	licence map[[2]string]string
}

// licences are those of all models of which any record has one: the newest such
// record's, of equally old ones the first by name.
func licences(recs []results.Record) map[[2]string]string {
	out, newest := map[[2]string]string{}, map[[2]string]time.Time{}
	for _, r := range recs {
		k := [2]string{r.Model.ID, r.Model.Revision}
		old, there := out[k]
		if l := r.Model.Licence; l != "" && (!there || cmp.Or(r.Finished.Compare(newest[k]), strings.Compare(old, l)) > 0) {
			out[k], newest[k] = l, r.Finished
		}
	}
	return out
}

// licensed says whether one of a model's licences is asked for.
func licensed(asked []string, licence string) bool {
	for _, l := range strings.Split(cmp.Or(strings.ToLower(licence), UnknownLicence), ", ") {
		if slices.ContainsFunc(asked, func(p string) bool { return matches([]string{strings.ToLower(p)}, l) }) {
			return true
		}
	}
	return false
}

// keep leaves the records for which why is empty and counts the others.
func (b *builder) keep(recs []results.Record, why func(results.Record) string) []results.Record {
	var out []results.Record
	for _, r := range recs {
		reason := why(r)
		if reason == "" {
			out = append(out, r)
			continue
		}
		if b.left[reason] == nil {
			b.left[reason] = map[string]int{}
		}
		b.left[reason][r.Model.ID]++
	}
	return out
}

func matches(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, s); return ok })
}

func (b *builder) filter(recs []results.Record) []results.Record {
	o := b.o
	return b.keep(recs, func(r results.Record) string {
		switch {
		case len(o.Models) > 0 && !matches(o.Models, r.Model.ID), matches(o.Exclude, r.Model.ID):
			return "models that were not asked for"
		case o.MinParameters > 0 && r.Model.Parameters < o.MinParameters:
			return "models that are too small, or of unknown size"
		case o.MaxParameters > 0 && (r.Model.Parameters > o.MaxParameters || r.Model.Parameters == 0):
			return "models that are too large, or of unknown size"
		case len(o.Licences) > 0 && !licensed(o.Licences, b.licence[[2]string{r.Model.ID, r.Model.Revision}]):
			return "models of another licence, or of none that is known"
		case (!o.Since.IsZero() || !o.Until.IsZero()) && r.Finished.IsZero():
			return "records of unknown date"
		case !o.Since.IsZero() && r.Finished.Before(o.Since), !o.Until.IsZero() && !r.Finished.Before(o.Until):
			return "records of another time"
		case r.Dataset.Partial && !o.Partial:
			return "partial data sets"
		case len(r.Replicates) == 0:
			return "records without a score"
		}
		return ""
	})
}

// columns finds the data sets that are ranked.
func (b *builder) columns(recs []results.Record) {
	cols := b.o.Columns
	if cols == nil {
		seen := map[string]bool{}
		for _, r := range recs {
			if d := r.Dataset; !seen[d.Name] {
				seen[d.Name] = true
				cols = append(cols, Column{d.Name, d.Task, d.Languages})
			}
		}
		slices.SortFunc(cols, func(a, c Column) int { return strings.Compare(a.Name, c.Name) })
	}
	in := func(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }
	languages := boardLanguages(b.o.Languages)
	for _, c := range cols {
		t, known := b.tasks[c.Task]
		if !known || t.Metrics[0].Hi > 1 || !in(b.o.Filters.Tasks, c.Task) || !in(b.o.Datasets, c.Name) {
			continue // speed is shown, never ranked
		}
		if slices.ContainsFunc(boardLanguages(c.Languages), func(l string) bool { return in(languages, l) }) {
			b.cols = append(b.cols, c)
		}
	}
}

func (b *builder) ranked(dataset string) bool {
	return slices.ContainsFunc(b.cols, func(c Column) bool { return c.Name == dataset })
}

// bestProtocol is the one under which the most models have all data sets; among
// equals the one with the most records, then the first by name.
func (b *builder) bestProtocol(recs []results.Record) []string {
	scored := map[string]map[string]map[string]bool{} // protocol → model → data sets
	records := map[string]int{}
	for _, r := range recs {
		if !b.ranked(r.Dataset.Name) {
			continue
		}
		if scored[r.Protocol] == nil {
			scored[r.Protocol] = map[string]map[string]bool{}
		}
		m := scored[r.Protocol]
		key := r.Model.ID + "@" + r.Model.Revision
		if m[key] == nil {
			m[key] = map[string]bool{}
		}
		m[key][r.Dataset.Name] = true
		records[r.Protocol]++
	}
	best, bestComplete := "", -1
	for _, p := range slices.Sorted(maps.Keys(scored)) {
		complete := 0
		for _, sets := range scored[p] {
			if len(sets) == len(b.cols) {
				complete++
			}
		}
		if complete > bestComplete || complete == bestComplete && records[p] > records[best] {
			best, bestComplete = p, complete
		}
	}
	if best == "" {
		return []string{}
	}
	return []string{best}
}

// oneBuild leaves, for each data set, the records on one build of it: the one
// with the most models; among equals a full one, then the newest. Scores on
// other bytes, or of another version of the task, are not comparable.
func (b *builder) oneBuild(recs []results.Record) []results.Record {
	type build struct {
		models map[string]bool
		full   bool
		newest time.Time
	}
	key := func(r results.Record) string { return fmt.Sprintf("%s/%d", r.Dataset.Digest, r.Dataset.TaskVersion) }
	all := map[string]map[string]*build{}
	for _, r := range recs {
		if all[r.Dataset.Name] == nil {
			all[r.Dataset.Name] = map[string]*build{}
		}
		d := all[r.Dataset.Name][key(r)]
		if d == nil {
			d = &build{models: map[string]bool{}, full: !r.Dataset.Partial}
			all[r.Dataset.Name][key(r)] = d
		}
		d.models[r.Model.ID] = true
		if d.newest.Before(r.Finished) {
			d.newest = r.Finished
		}
	}
	b.build = map[string]string{}
	for name, builds := range all {
		var best *build
		for _, k := range slices.Sorted(maps.Keys(builds)) {
			d := builds[k]
			better := best == nil
			switch {
			case better:
			case len(d.models) != len(best.models):
				better = len(d.models) > len(best.models)
			case d.full != best.full:
				better = d.full
			default:
				better = d.newest.After(best.newest)
			}
			if better {
				best, b.build[name] = d, k
			}
		}
	}
	return b.keep(recs, func(r results.Record) string {
		if key(r) != b.build[r.Dataset.Name] {
			return "another build of the data set: " + r.Dataset.Name
		}
		return ""
	})
}

// rows makes a row for each model and protocol.
func (b *builder) rows(board *Board, recs []results.Record) {
	type key struct {
		model, revision, protocol string
		remote                    bool
	}
	rows := map[key]*Row{}
	newest := map[key]map[string]results.Record{}
	for _, r := range recs {
		k := key{r.Model.ID, r.Model.Revision, r.Protocol, r.RemoteCode}
		if newest[k] == nil {
			newest[k] = map[string]results.Record{}
			rows[k] = &Row{Model: r.Model.ID, Revision: r.Model.Revision, Kind: r.Model.Kind, Protocol: r.Protocol, RemoteCode: r.RemoteCode,
				Licence: b.licence[[2]string{r.Model.ID, r.Model.Revision}]}
		}
		// What is left to differ is the trainer or the hyper-parameters behind the
		// protocol's name: the record with more seeds counts, then the later one.
		old, there := newest[k][r.Dataset.Name]
		if !there || len(r.Replicates) > len(old.Replicates) || len(r.Replicates) == len(old.Replicates) && !r.Finished.Before(old.Finished) {
			newest[k][r.Dataset.Name] = r
		}
	}
	less := func(a, c key) int {
		return cmp.Or(strings.Compare(a.model, c.model), strings.Compare(a.protocol, c.protocol), strings.Compare(a.revision, c.revision), cmp.Compare(fmt.Sprint(a.remote), fmt.Sprint(c.remote)))
	}
	for _, k := range slices.SortedFunc(maps.Keys(rows), less) {
		row := rows[k]
		row.Datasets = map[string]Cell{}
		sources := map[string]bool{}
		for _, name := range slices.Sorted(maps.Keys(newest[k])) {
			r := newest[k][name]
			c := cell(r, b.tasks[r.Dataset.Task], b.o)
			row.Datasets[name] = c
			row.Parameters = max(row.Parameters, r.Model.Parameters)
			row.MaxLength, row.Vocabulary = max(row.MaxLength, r.Model.MaxLength), max(row.Vocabulary, r.Model.Vocabulary)
			if row.Finished.Before(c.Finished) {
				row.Finished = c.Finished
			}
			row.WallSeconds += c.WallSeconds
			row.GPUSeconds += c.GPUSeconds
			row.EnergyKWh += c.EnergyKWh
			row.CO2eKg += c.CO2eKg
			for s := range strings.SplitSeq(c.EnergySource, " | ") {
				if s != "" {
					sources[s] = true
				}
			}
			row.Price += c.Price
			row.EstimatedGPUSeconds += c.EstimatedGPUSeconds
		}
		row.EnergySource = strings.Join(slices.Sorted(maps.Keys(sources)), " | ")
		has := false
		for _, col := range b.cols {
			c, ok := row.Datasets[col.Name]
			if !ok || math.IsNaN(c.primary.Mean) {
				row.Missing = append(row.Missing, col.Name)
				continue
			}
			row.Collapsed += len(c.Collapsed)
			if n := len(c.Seeds); !has || n < row.Seeds {
				row.Seeds = n
			}
			has = true
		}
		switch {
		case len(row.Missing) == 0:
			board.Models = append(board.Models, *row)
		case has:
			board.Unranked = append(board.Unranked, *row)
		}
	}
}

// cell turns a record into what the board keeps of it. The ranked metric's mean
// is NaN if there is none.
func cell(r results.Record, t Task, o Options) Cell {
	c := Cell{
		Metrics: map[string]CellMetric{}, Seeds: []int{}, Scores: map[string][]scoring.Value{}, Collapsed: r.Collapsed, Partial: r.Dataset.Partial,
		Finished: r.Finished, Versions: r.Versions, primary: stats.Estimate{Mean: math.NaN()},
	}
	if r.Imported != nil {
		c.Imported, c.Version = r.Imported.Format, r.Imported.Version
	}
	var used results.Usage
	for _, p := range r.Replicates {
		used.Add(p.Usage())
	}
	cost := o.Rates.Cost(used)
	c.WallSeconds, c.GPUSeconds, c.EstimatedGPUSeconds, c.EnergyKWh, c.CO2eKg, c.Price = used.WallSeconds, used.GPUSeconds, used.EstimatedSeconds, cost.KWh, cost.CO2eKg, cost.Price
	c.EnergySource = r.EnergySource
	scale := map[string]float64{}
	for _, m := range t.Metrics {
		scale[m.Name] = m.Scale
	}
	known := false
	for _, p := range r.Replicates {
		c.Seeds = append(c.Seeds, p.Seed)
		known = known || p.Device != ""
		var curve [][2]float64
		if o.Losses != nil && p.Job != "" {
			curve = o.Losses(p.Job)
		}
		c.Runs = append(c.Runs, Run{
			ValidationLosses: curve,
			Steps:            p.Steps, BestStep: p.BestStep, Device: p.Device, DeviceName: p.DeviceName, GPUs: p.GPUs, Executor: p.Executor, Host: p.Host,
			Precision: p.Precision, Seconds: p.Seconds.Total(), TrainSecs: p.Seconds.Train, HostMB: p.PeakMemoryMB.Host, DeviceMB: p.PeakMemoryMB.Device,
		})
	}
	if !known {
		c.Runs = nil
	}
	for _, f := range r.Failures {
		c.Failures = append(c.Failures, Failure{f.Seed, f.Failure, f.Message})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Summary)) {
		s := r.Summary[name]
		c.Metrics[name] = CellMetric{N: s.N, Mean: s.Mean, Median: s.Median, HalfWidthT: s.HalfWidthT, HalfWidthZ: s.HalfWidthZ}
		for _, w := range s.Warnings {
			c.Warnings = append(c.Warnings, name+": "+w)
		}
		factor, ok := scale[name]
		if !ok {
			factor = 1
		}
		var list []scoring.Value
		var x []float64
		for _, p := range r.Replicates {
			v, ok := p.Scores[name]
			switch {
			case !ok:
				v = scoring.Value{Undefined: "not measured"}
			case v.Undefined == "":
				v = scoring.Num(v.X * factor)
				x = append(x, v.X)
			}
			list = append(list, v)
		}
		c.Scores[name] = list
		if len(t.Metrics) > 0 && name == t.Metrics[0].Name && len(x) > 0 {
			c.primary, c.halfZ, c.median = stats.Of(x), s.HalfWidthZ, stats.Median(x)
		}
	}
	return c
}

// describe fills in what the board is about.
func (b *builder) describe(board *Board, recs []results.Record) {
	var codes []string
	for _, c := range b.cols {
		for _, l := range b.languagesOf(c) {
			if !slices.Contains(codes, l) {
				codes = append(codes, l)
			}
		}
	}
	for _, l := range order(codes) {
		board.Languages = append(board.Languages, Language{l, cmp.Or(languageNames[l], l)})
	}
	info := map[string]*DatasetInfo{}
	for _, c := range b.cols {
		info[c.Name] = &DatasetInfo{Name: c.Name, Task: c.Task, Languages: c.Languages, Board: b.languagesOf(c), Ranked: true}
	}
	weights := b.weights(func(string, string) bool { return true })
	for i, c := range b.cols {
		info[c.Name].Weight = weights[i]
	}
	counted := map[string]map[string]bool{}
	for _, r := range recs {
		d := info[r.Dataset.Name]
		if d == nil {
			d = &DatasetInfo{Name: r.Dataset.Name, Task: r.Dataset.Task, Languages: r.Dataset.Languages, Board: boardLanguages(r.Dataset.Languages)}
			if d.Languages == nil {
				d.Languages, d.Board = []string{}, []string{}
			}
			info[d.Name] = d
		}
		d.Digest, d.Rows = r.Dataset.Digest, r.Dataset.TestRows
		if counted[d.Name] == nil {
			counted[d.Name] = map[string]bool{}
		}
		counted[d.Name][r.Model.ID] = true
		d.Models = len(counted[d.Name])
		if board.Newest.Before(r.Finished) {
			board.Newest = r.Finished
		}
	}
	used := map[string]bool{}
	for _, c := range b.cols {
		board.Datasets = append(board.Datasets, *info[c.Name])
		used[c.Task] = true
		delete(info, c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(info)) {
		board.Datasets = append(board.Datasets, *info[name])
		used[info[name].Task] = true
	}
	for _, t := range b.o.Tasks {
		if !used[t.Name] {
			continue
		}
		ti := TaskInfo{Name: t.Name}
		for _, m := range t.Metrics {
			ti.Metrics = append(ti.Metrics, Metric{m.Name, m.Scale})
		}
		board.Tasks = append(board.Tasks, ti)
	}
	for _, reason := range slices.Sorted(maps.Keys(b.left)) {
		l := LeftOut{Reason: reason, Models: slices.Sorted(maps.Keys(b.left[reason]))}
		for _, n := range b.left[reason] {
			l.Records += n
		}
		board.LeftOut = append(board.LeftOut, l)
	}
	b.notes(board, recs)
}

func (b *builder) notes(board *Board, recs []results.Record) {
	note := func(format string, a ...any) { board.Notes = append(board.Notes, fmt.Sprintf(format, a...)) }
	if board.Mixed {
		note("scores of %d protocols stand in one ranking (%s): they are not the same quantity", len(board.Protocols), strings.Join(board.Protocols, ", "))
	}
	if board.Partial && slices.ContainsFunc(recs, func(r results.Record) bool { return r.Dataset.Partial }) {
		note("scores on partial data sets stand in the ranking")
	}
	other := map[string]bool{}
	for _, r := range recs {
		if _, known := b.tasks[r.Dataset.Task]; !known {
			other[r.Dataset.Name+" ("+r.Dataset.Task+")"] = true
		}
	}
	if len(other) > 0 {
		note("not ranked, since nothing is known of their tasks' metrics: %s", strings.Join(slices.Sorted(maps.Keys(other)), ", "))
	}
	trainers := map[string]bool{}
	for _, r := range recs {
		if r.Trainer != "" && r.Model.Kind != "baseline" { // each baseline is its own trainer
			trainers[r.Trainer] = true
		}
	}
	if len(trainers) > 1 {
		note("models were trained with %d versions of the trainer", len(trainers))
	}
	few := 0
	for _, r := range board.Models {
		if r.Seeds < 10 {
			few++
		}
	}
	if few > 0 {
		note("%d of %d models have fewer than ten seeds on some data set", few, len(board.Models))
	}
}

// order sorts languages as the paper has them, then by code.
func order(codes []string) []string {
	at := func(l string) int {
		if i := slices.Index(languageOrder, l); i >= 0 {
			return i
		}
		return len(languageOrder)
	}
	out := slices.Clone(codes)
	slices.SortFunc(out, func(a, c string) int { return cmp.Or(at(a)-at(c), strings.Compare(a, c)) })
	return out
}
