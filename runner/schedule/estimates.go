package schedule

import (
	"maps"
	"slices"
)

// Estimates learn from the jobs that have ended how long others will take.
type Estimates struct {
	cells map[cell]mean
	sets  map[string]mean // of all models
	paces map[string]float64
}

type cell struct{ model, dataset string }

type mean struct {
	sum float64
	n   int
}

func (m mean) of() float64 { return m.sum / float64(m.n) }

// Add notes that a job of this model and data set took so many seconds.
func (e *Estimates) Add(model, dataset string, seconds float64) {
	if !(seconds > 0) {
		return
	}
	if e.cells == nil {
		e.cells, e.sets = map[cell]mean{}, map[string]mean{}
	}
	c, s := e.cells[cell{model, dataset}], e.sets[dataset]
	e.cells[cell{model, dataset}] = mean{c.sum + seconds, c.n + 1}
	e.sets[dataset] = mean{s.sum + seconds, s.n + 1}
	e.paces = nil
}

// Seconds returns how long a job will take:
//
//   - the mean of those of its model on its data set, or
//   - the mean of those on its data set, times the pace of its model: the mean,
//     over the data sets on which the model is known, of how much longer it takes
//     than all models do there; or
//   - the mean over the data sets, times the pace of its model; or
//   - 0, when nothing has ended yet.
func (e *Estimates) Seconds(model, dataset string) float64 {
	if c, ok := e.cells[cell{model, dataset}]; ok {
		return c.of()
	}
	if s, ok := e.sets[dataset]; ok {
		return s.of() * e.pace(model)
	}
	if len(e.sets) == 0 {
		return 0
	}
	sum := 0.0
	for _, d := range slices.Sorted(maps.Keys(e.sets)) {
		sum += e.sets[d].of()
	}
	return sum / float64(len(e.sets)) * e.pace(model)
}

// Known says whether anything like the job has ended: one on its data set.
func (e *Estimates) Known(dataset string) bool { return e.sets[dataset].n > 0 }

func (e *Estimates) pace(model string) float64 {
	if p, ok := e.paces[model]; ok {
		return p
	}
	sum, n := 0.0, 0
	for _, d := range slices.Sorted(maps.Keys(e.sets)) {
		if c, ok := e.cells[cell{model, d}]; ok {
			sum += c.of() / e.sets[d].of()
			n++
		}
	}
	p := 1.0
	if n > 0 {
		p = sum / float64(n)
	}
	if e.paces == nil {
		e.paces = map[string]float64{}
	}
	e.paces[model] = p
	return p
}
