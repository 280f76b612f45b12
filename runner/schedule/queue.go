// Package schedule decides which jobs start next and where. It starts nothing,
// has no clock and no goroutines, and knows of models and hosts by their names
// alone: the runner and the pool ask it, and so does a simulation.
package schedule

import (
	"cmp"
	"slices"
)

// Job waits in a queue.
type Job struct {
	ID    int    // the caller's, unique in the queue
	Model string // whose files it needs
	// Group: jobs of one model and one group may share a batch.
	Group    int
	Priority int     // higher goes first, whatever it costs
	Cost     float64 // expected seconds; 0: not known
}

// Queue holds the jobs that wait, and says which of them make the next batch:
//
//  1. of the highest priority,
//  2. of a model that is not being tried out: the first batch of a model shows
//     whether it can be trained at all, and ten are not needed for that; unless
//     there is nothing else to do,
//  3. longest expected batch first, as in Graham's LPT rule (1969), whose
//     makespan is at most 4/3 − 1/(3m) of the best on m machines; but a model
//     that is near a free slot goes before one that has to be brought there, as
//     long as its batch is at least half as long as the longest,
//  4. of what is equal, what was added first.
//
// Towards the end batches get smaller, so that all slots end at about the same
// time: a batch takes at most 1/(2·slots) of the work that waits.
type Queue struct {
	models []*model // in the order in which they were added first
	byName map[string]*model
	jobs   int
	known  float64 // sum of the known costs that wait
	costed int     // jobs whose cost is known
	turn   int
}

// MinBatch is the expected length, in seconds, below which batches are not
// divided: starting a trainer takes some tens of seconds.
const MinBatch = 120

type model struct {
	name    string
	groups  []*group // in the order of their first job
	jobs    int
	running int // batches
	proven  bool
}

type group struct {
	id       int
	priority int
	first    int // turn at which its first job was added
	jobs     []Job
}

func (q *Queue) model(name string) *model {
	m := q.byName[name]
	if m == nil {
		if q.byName == nil {
			q.byName = map[string]*model{}
		}
		m = &model{name: name}
		q.byName[name] = m
		q.models = append(q.models, m)
	}
	return m
}

// Len returns how many jobs wait.
func (q *Queue) Len() int { return q.jobs }

// Add lets a job wait.
func (q *Queue) Add(j Job) {
	m := q.model(j.Model)
	i := slices.IndexFunc(m.groups, func(g *group) bool { return g.id == j.Group && g.priority == j.Priority })
	if i < 0 {
		q.turn++
		i = len(m.groups)
		m.groups = append(m.groups, &group{id: j.Group, priority: j.Priority, first: q.turn})
	}
	m.groups[i].jobs = append(m.groups[i].jobs, j)
	m.jobs++
	q.count(j, 1)
}

func (q *Queue) count(j Job, sign int) {
	q.jobs += sign
	if j.Cost > 0 {
		q.known += float64(sign) * j.Cost
		q.costed += sign
	}
}

// Remove takes out the jobs for which it says so.
func (q *Queue) Remove(out func(Job) bool) {
	for _, m := range q.models {
		for _, g := range m.groups {
			g.jobs = slices.DeleteFunc(g.jobs, func(j Job) bool {
				if !out(j) {
					return false
				}
				m.jobs--
				q.count(j, -1)
				return true
			})
		}
		m.tidy()
	}
}

func (m *model) tidy() {
	m.groups = slices.DeleteFunc(m.groups, func(g *group) bool { return len(g.jobs) == 0 })
}

// Cost sets the expected costs of the jobs that wait anew.
func (q *Queue) Cost(of func(Job) float64) {
	for _, m := range q.models {
		for _, g := range m.groups {
			for i := range g.jobs {
				q.count(g.jobs[i], -1)
				g.jobs[i].Cost = of(g.jobs[i])
				q.count(g.jobs[i], 1)
			}
		}
	}
}

// Proven notes that a job of the model has ended as it should.
func (q *Queue) Proven(name string) { q.model(name).proven = true }

// Started notes a batch of the model that Next did not choose: one that has
// been running since before.
func (q *Queue) Started(name string) { q.model(name).running++ }

// Ended notes that a batch of the model has ended.
func (q *Queue) Ended(name string) { q.model(name).running-- }

// Next takes the jobs of the next batch out of the queue; nil if none waits.
// slots is how many batches can run at a time, near says whether a model is
// where a slot is free (nil: nowhere).
func (q *Queue) Next(slots int, near func(model string) bool) []Job {
	if q.jobs == 0 {
		return nil
	}
	mean := 1.0 // of a job of which nothing is known
	if q.costed > 0 {
		mean = q.known / float64(q.costed)
	}
	type candidate struct {
		m      *model
		g      *group
		cost   float64
		trying bool // the model is being tried out
	}
	var all []candidate
	for _, m := range q.models {
		if m.jobs == 0 {
			continue
		}
		g := slices.MinFunc(m.groups, func(a, b *group) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.first, b.first))
		})
		c := candidate{m: m, g: g, trying: !m.proven && m.running > 0}
		for _, j := range g.jobs {
			if j.Cost > 0 {
				c.cost += j.Cost
			} else {
				c.cost += mean
			}
		}
		all = append(all, c)
	}
	if i := slices.IndexFunc(all, func(c candidate) bool { return !c.trying }); i >= 0 {
		all = slices.DeleteFunc(all, func(c candidate) bool { return c.trying })
	}
	top := slices.MaxFunc(all, func(a, b candidate) int { return cmp.Compare(a.g.priority, b.g.priority) }).g.priority
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.g.priority != top })
	longer := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(a.g.first, b.g.first))
	}
	best := slices.MinFunc(all, longer)
	if near != nil {
		all = slices.DeleteFunc(all, func(c candidate) bool { return c.cost < best.cost/2 || !near(c.m.name) })
		if len(all) > 0 {
			best = slices.MinFunc(all, longer)
		}
	}

	take := len(best.g.jobs)
	if slots > 1 && q.costed == q.jobs {
		limit := max(MinBatch, q.known/float64(2*slots))
		sum := 0.0
		for i, j := range best.g.jobs {
			if sum += j.Cost; sum >= limit {
				take = i + 1
				break
			}
		}
	}
	jobs := slices.Clone(best.g.jobs[:take])
	best.g.jobs = best.g.jobs[take:]
	best.m.tidy()
	best.m.jobs -= take
	best.m.running++
	for _, j := range jobs {
		q.count(j, -1)
	}
	return jobs
}
