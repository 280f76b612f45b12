package runner

import (
	"fmt"
	"slices"
	"time"

	"bench/runner/job"
	"bench/runner/schedule"
	"bench/scoring/results"
)

// dispatch is what of a run waits, and what is under way: a queue for each
// executor, filled with the places of jobs in run.order.
type dispatch struct {
	names   []string // executors, in the order of the plan
	queues  map[string]*schedule.Queue
	running map[string]int // batches
	costed  time.Time      // when the queues' costs were last set
	stale   bool           // there is something newer
}

// costEvery is how often expected costs are set anew while jobs end.
const costEvery = 5 * time.Second

// wait lets jobs wait for their executor.
func (x *run) wait(jobs []*planned) {
	for _, p := range jobs {
		q := x.queue(p.model.Executor)
		j := schedule.Job{ID: p.order, Model: p.model.Key(), Priority: p.model.Priority, Cost: x.cost(p)}
		switch x.req.BatchBy {
		case "model":
		case "job":
			j.Group = p.order
		default:
			j.Group = p.at
		}
		if p.model.proven {
			q.Proven(j.Model)
		}
		q.Add(j)
	}
}

// queue returns the queue of an executor.
func (d *dispatch) queue(executor string) *schedule.Queue {
	if d.queues[executor] == nil {
		d.queues[executor] = &schedule.Queue{}
		d.names = append(d.names, executor)
	}
	return d.queues[executor]
}

// Key names the model's files: ID@revision.
func (m *Model) Key() string { return job.ModelKey(m.ID, m.Revision) }

func (x *run) cost(p *planned) float64 { return x.estimates.Seconds(p.model.Key(), p.cell.data.Name) }

// learn notes how long a job took that has ended.
func (x *run) learn(p *planned, o job.Outcome) {
	if o.State != job.OK {
		return
	}
	x.estimates.Add(p.model.Key(), p.cell.data.Name, seconds(o).Total())
	x.stale = true
	p.model.proven = true
	if q := x.queues[p.model.Executor]; q != nil {
		q.Proven(p.model.Key())
	}
}

// recost tells the queues what is known by now.
func (x *run) recost() {
	if !x.stale || time.Since(x.costed) < costEvery {
		return
	}
	x.stale, x.costed = false, time.Now()
	x.expect()
	for _, name := range x.names {
		x.queues[name].Cost(func(j schedule.Job) float64 { return x.cost(x.order[j.ID]) })
	}
}

// expect sums up what the jobs will take that have not ended.
func (x *run) expect() {
	x.left = 0
	for _, p := range x.order {
		if !p.done && !p.stopped {
			x.left += x.cost(p)
		}
	}
}

// next takes the jobs of the next batch for which there is room. It returns nil
// when there is none, or nothing waits that may still be started.
func (x *run) next() ([]*planned, error) {
	x.recost()
	for _, name := range x.names {
		q := x.queues[name]
		if q.Len() == 0 {
			continue
		}
		slots := max(1, x.Slots)
		var near func(string) bool
		if x.running[name] > 0 { // else the executor need not be made yet
			e, err := x.Executor(name)
			if err != nil {
				return nil, err
			}
			if p, ok := e.(Placer); ok {
				// Without any room one batch waits for it, and learns why there is none.
				slots = max(1, p.Room())
				near = p.Near
			}
		}
		if x.running[name] >= slots {
			continue
		}
		x.enforce(q)
		var jobs []*planned
		for _, j := range q.Next(slots, near) {
			jobs = append(jobs, x.order[j.ID])
		}
		if len(jobs) > 0 {
			return jobs, nil
		}
	}
	return nil, nil
}

// notStarted takes back a batch that next gave.
func (x *run) notStarted(jobs []*planned) {
	x.queue(jobs[0].model.Executor).Ended(jobs[0].model.Key())
}

// Budget bounds what is spent on something. A bound that is 0 is none.
type Budget struct {
	GPUHours float64
	KWh      float64
	Price    float64
}

// over says which bound has been reached; "" if none has.
func (b Budget) over(c results.Cost) string {
	switch {
	case b.GPUHours > 0 && c.GPUHours >= b.GPUHours:
		return fmt.Sprintf("%.4g of %.4g GPU hours are used", c.GPUHours, b.GPUHours)
	case b.KWh > 0 && c.KWh >= b.KWh:
		return fmt.Sprintf("%.4g of %.4g kWh are used", c.KWh, b.KWh)
	case b.Price > 0 && c.Price >= b.Price:
		return fmt.Sprintf("%.4g of %.4g are spent", c.Price, b.Price)
	}
	return ""
}

// BudgetError says that jobs were not started because a bound was reached.
type BudgetError struct {
	What string // which bound, of what
	Jobs int    // that were not started
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("%s: %d jobs were not started", e.What, e.Jobs)
}

// enforce takes jobs out of the queue for which there is nothing left to spend.
// What runs goes on: half a training is money thrown away.
func (x *run) enforce(q *schedule.Queue) {
	all := x.req.Budget.over(x.req.Rates.Cost(x.spent))
	if all == "" && x.req.ModelBudget == (Budget{}) {
		return
	}
	count := map[string]int{}
	var order []string
	q.Remove(func(j schedule.Job) bool {
		p := x.order[j.ID]
		why := all
		if each := x.req.ModelBudget.over(x.req.Rates.Cost(p.model.spent)); why == "" && each != "" {
			why = p.model.ID + ": " + each
		}
		if why == "" {
			return false
		}
		if count[why] == 0 {
			order = append(order, why)
		}
		count[why]++
		p.stopped = true
		return true
	})
	for _, why := range order {
		x.stopped = append(x.stopped, &BudgetError{why, count[why]})
		x.emit(Event{Type: "warning", Message: x.stopped[len(x.stopped)-1].Error()})
	}
}

// spend books what a job took.
func (x *run) spend(p *planned, o job.Outcome) {
	u := Usage(o)
	x.spent.Add(u)
	p.model.spent.Add(u)
}

// decided ends the other seeds of a job whose failure is the same with each: a
// model without a head for the task is not started ten times to find that out.
func (x *run) decided(p *planned, o job.Outcome, inBatch map[job.ID]bool) error {
	if o.State != job.Failed || o.Failure != job.FailureUnsupported {
		return nil
	}
	var same []*planned
	for _, other := range p.cell.jobs {
		if other != p && !other.done && !inBatch[other.id] {
			same = append(same, other)
		}
	}
	if len(same) == 0 {
		return nil
	}
	x.queue(p.model.Executor).Remove(func(j schedule.Job) bool { return slices.Contains(same, x.order[j.ID]) })
	said := o
	said.Message = fmt.Sprintf("%s (found out with seed %d)", o.Message, p.spec.Seed)
	said.Seconds, said.PeakMemoryMB, said.Energy, said.GPUs = nil, nil, nil, nil
	said.Started = said.Finished
	var replaced []results.Loss
	for _, other := range same {
		lost, err := x.replaced(other.spec, said.Started)
		if err != nil {
			return err
		}
		replaced = append(replaced, lost...)
	}
	if err := results.OpenLosses(x.Home).Append(replaced); err != nil {
		return err
	}
	for _, other := range same {
		if err := x.store.Save(other.spec, said, nil, nil); err != nil {
			return err
		}
	}
	// What is told of is on disk.
	if err := x.store.Sync(); err != nil {
		return err
	}
	x.lose(replaced, true)
	for _, other := range same {
		own := said
		own.Job = other.id
		x.book(ended{job: other.id, outcome: own})
	}
	return nil
}
