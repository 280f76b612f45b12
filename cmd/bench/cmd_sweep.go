package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"bench/internal/ui"
	"bench/runner"
	"bench/runner/job"
	"bench/scoring/results"

	"github.com/spf13/cobra"
)

func newSweep(a *app) *cobra.Command {
	var dry, refresh bool
	var metrics string
	c := &cobra.Command{
		Use:   "sweep FILE.yaml",
		Short: "Run many models on many data sets, as a file says",
		Long: `Run many models on many data sets, as a file says.

It is what bench run does, with the models, the data sets and the hosts in a
file. It may be interrupted at any time and started again: nothing finished is
trained twice. With --dry-run it says what there is to do, and what it will cost
by the time that finished jobs took.`,
		Example: `  bench sweep --dry-run models.yaml
  bench sweep models.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.readSweep(args[0])
			if err != nil {
				return err
			}
			if err := a.find(c.Context(), s, refresh, dry); err != nil {
				return err
			}
			if dry {
				return a.dryRun(c.Context(), s)
			}
			s.options.metrics, s.options.journal, s.options.sweep = metrics, journalName(args[0]), s
			return a.run(c.Context(), s.models, s.options)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would run and what it would cost, and run nothing")
	addMetrics(c.Flags(), &metrics)
	c.Flags().BoolVar(&refresh, "refresh", false, "ask the Hub again which models the file's queries mean, instead of taking those of last time")
	return c
}

// forecast is what a model, or all of them, will take. Unknown counts the jobs
// of which nothing is known yet; the rest are of the others.
type forecast struct {
	Type    string  `json:"type"` // forecast
	Model   string  `json:"model,omitempty"`
	Jobs    int     `json:"jobs"`
	Done    int     `json:"done"`
	Failed  int     `json:"failed"` // of those done, for good
	Unknown int     `json:"unknown"`
	Hours   float64 `json:"hours"` // of one slot
	GPUHrs  float64 `json:"gpu_hours"`
	KWh     float64 `json:"kwh"`
	CO2eKg  float64 `json:"co2e_kg"`
	Price   float64 `json:"price,omitempty"`
	// WallHours is how long all of it will take in the slots that there are, as
	// long as nothing else runs in them.
	WallHours float64 `json:"wall_hours,omitempty"`
	// Over says which limits the plan goes over, what has ended counted in.
	Over []string `json:"over,omitempty"`

	// Spent is what was used so far, by what has ended and by attempts that were
	// lost.
	Spent spending `json:"spent"`

	spent results.Usage // the same
}

func (f *forecast) add(g forecast) {
	f.Jobs, f.Done, f.Failed, f.Unknown = f.Jobs+g.Jobs, f.Done+g.Done, f.Failed+g.Failed, f.Unknown+g.Unknown
	f.Hours, f.GPUHrs, f.KWh, f.CO2eKg, f.Price = f.Hours+g.Hours, f.GPUHrs+g.GPUHrs, f.KWh+g.KWh, f.CO2eKg+g.CO2eKg, f.Price+g.Price
	f.spent.Add(g.spent)
}

// spending is an amount of everything that is counted.
type spending struct {
	GPUHrs float64 `json:"gpu_hours"`
	KWh    float64 `json:"kwh"`
	CO2eKg float64 `json:"co2e_kg"`
	Price  float64 `json:"price,omitempty"`
}

func spendingOf(u results.Usage, rates results.Rates) spending {
	c := rates.Cost(u)
	return spending{c.GPUHours, c.KWh, c.CO2eKg, c.Price}
}

// exceeds says which bounds of a budget f goes over.
func (f *forecast) exceeds(b runner.Budget, rates results.Rates) (over []string) {
	c := rates.Cost(f.spent)
	for _, x := range []struct {
		bound, spent, rest float64
		unit               string
	}{{b.GPUHours, c.GPUHours, f.GPUHrs, "GPU hours"}, {b.KWh, c.KWh, f.KWh, "kWh"}, {b.Price, c.Price, f.Price, "of the price"}} {
		if x.bound > 0 && x.spent+x.rest > x.bound {
			over = append(over, fmt.Sprintf("%s of %s %s (%s used, %s to come)", amount(x.spent+x.rest), amount(x.bound), x.unit, amount(x.spent), amount(x.rest)))
		}
	}
	return over
}

func (a *app) dryRun(ctx context.Context, s *sweep) error {
	p, err := a.prepare(ctx, s.models, s.options)
	if err != nil {
		return err
	}
	defer p.close()
	jobs, err := p.runner.Plan(p.request)
	if err != nil {
		return err
	}
	list, total := s.forecasts(jobs, p.runner.Slots)
	if a.json {
		e := json.NewEncoder(a.stdout)
		for _, f := range append(list, total) {
			if err := e.Encode(f); err != nil {
				return err
			}
		}
		return nil
	}
	header := []string{"model", "jobs", "done", "failed", "to do", "hours", "GPU hours", "kWh", "kg CO2e"}
	if s.options.cost.price > 0 {
		header = append(header, "price")
	}
	var rows [][]string
	for _, f := range append(list, total) {
		number := func(x float64) string {
			switch {
			case f.Unknown > 0 && f.Unknown == f.Jobs-f.Done:
				return "?"
			case f.Unknown > 0:
				return fmt.Sprintf("%.2f + ?", x)
			}
			return fmt.Sprintf("%.2f", x)
		}
		name := f.Model
		if name == "" {
			name = "all"
		}
		row := []string{name, fmt.Sprint(f.Jobs), fmt.Sprint(f.Done), fmt.Sprint(f.Failed), fmt.Sprint(f.Jobs - f.Done), number(f.Hours), number(f.GPUHrs), number(f.KWh), number(f.CO2eKg)}
		if s.options.cost.price > 0 {
			row = append(row, number(f.Price))
		}
		rows = append(rows, row)
	}
	fmt.Fprint(a.stdout, ui.Table(header, rows))
	if total.Jobs > total.Done {
		fmt.Fprintf(a.stderr, "bench: %d batches at a time; hours are those of one slot\n", p.runner.Slots)
	}
	if total.WallHours > 0 {
		fmt.Fprintf(a.stderr, "bench: all of it will take about %s\n", showSeconds(total.WallHours*3600))
	}
	for _, f := range append(list, total) {
		for _, over := range f.Over {
			fmt.Fprintf(a.stderr, "bench: note: the plan goes over the limit of %s: %s; what is beyond will not be started\n", cmp.Or(f.Model, "all models"), over)
		}
	}
	if total.Unknown > 0 {
		fmt.Fprintf(a.stderr, "bench: note: of %d jobs nothing like them has finished in this home, so their cost is not known (?)\n", total.Unknown)
	}
	return nil
}

// forecasts says what each model has left to do, and all together in so many
// slots.
func (s *sweep) forecasts(jobs []runner.Planned, slots int) (list []forecast, total forecast) {
	rates := s.options.cost.rates()
	batches := map[string]float64{} // expected seconds
	// What finished jobs took says how much of a GPU a job has in a second, and the
	// power it takes from it.
	var done results.Usage
	for _, j := range jobs {
		if j.Done && j.Outcome.State == job.OK {
			done.Add(runner.Usage(j.Outcome))
		}
	}
	now := rates
	now.WattsPerGPU = s.options.cost.watts
	second := now.Cost(done.Times(1 / max(done.WallSeconds, 1e-9)))
	index := map[string]int{}
	for _, j := range jobs {
		m := j.Spec.Model
		if _, ok := index[m]; !ok {
			index[m] = len(list)
			list = append(list, forecast{Type: "forecast", Model: m})
		}
		f := forecast{Jobs: 1, spent: j.Lost}
		switch {
		case j.Done:
			f.Done = 1
			f.spent.Add(runner.Usage(j.Outcome))
			if j.Outcome.State != job.OK {
				f.Failed = 1
			}
		case j.Expected > 0:
			f.Hours = j.Expected / 3600
			key := job.ModelKey(j.Spec.Model, j.Spec.ModelRevision)
			switch s.options.batch {
			case "model":
			case "job":
				key = string(j.Spec.ID())
			default:
				key = fmt.Sprintf("%s %d", key, j.Spec.Seed)
			}
			batches[key] += j.Expected
		default:
			f.Unknown = 1
		}
		seconds := 3600 * f.Hours
		f.GPUHrs, f.KWh, f.CO2eKg, f.Price = seconds*second.GPUHours, seconds*second.KWh, seconds*second.CO2eKg, seconds*second.Price
		list[index[m]].add(f)
	}
	total.Type = "forecast"
	for i := range list {
		total.add(list[i])
		list[i].Over, list[i].Spent = list[i].exceeds(s.options.modelBudget, rates), spendingOf(list[i].spent, rates)
	}
	total.Spent = spendingOf(total.spent, rates)
	total.Over = total.exceeds(s.options.budget, rates)
	total.WallHours = makespan(slices.Collect(maps.Values(batches)), slots) / 3600
	return list, total
}

// makespan is how long batches take on so many slots, longest first (Graham's
// LPT rule). The runner divides the last batches, so it may be a little faster.
func makespan(batches []float64, slots int) float64 {
	slices.SortFunc(batches, func(a, b float64) int { return cmp.Compare(b, a) })
	free := make([]float64, max(1, slots)) // when each slot is
	for _, b := range batches {
		i := slices.Index(free, slices.Min(free))
		free[i] += b
	}
	return slices.Max(free)
}
