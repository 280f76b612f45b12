package runner

import (
	"bench/runner/job"
	"bench/scoring/results"
)

// Planned is a job that a run would see through.
type Planned struct {
	Spec  job.Spec
	Model *Model
	// Done: nothing is left to do, because the job has ended as Outcome says.
	Done    bool
	Outcome job.Outcome
	// Expected is how many seconds it will take, by what has ended; 0: nothing
	// has that it could be told from. See schedule.Estimates.
	Expected float64
	// Lost is what was spent on it without a result: by attempts that were cut off,
	// and by those whose failure does not stand.
	Lost results.Usage
}

// Plan lists the jobs of a request in the order in which they would run, and
// starts nothing.
func (r *Runner) Plan(req Request) ([]Planned, error) {
	x := r.newRun(req)
	if err := x.plan(); err != nil {
		return nil, err
	}
	out := make([]Planned, 0, len(x.order))
	for _, p := range x.order {
		next := Planned{Spec: p.spec, Model: p.model, Done: p.done, Expected: x.cost(p), Lost: p.lost}
		if p.done {
			next.Outcome = *p.outcome
		}
		out = append(out, next)
	}
	return out, nil
}
