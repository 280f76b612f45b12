package main

import "time"

// pace is how fast a run gets its jobs done.
type pace struct {
	began time.Time
	marks []mark // when jobs ended, as far as it is still needed
	last  mark
}

// mark is what had been done at a time.
type mark struct {
	at   time.Time
	work float64 // seconds of a slot
	jobs int
}

// ended notes a job that took so many seconds of a slot.
func (p *pace) ended(at time.Time, seconds float64) {
	p.last = mark{at, p.last.work + seconds, p.last.jobs + 1}
	p.marks = append(p.marks, p.last)
}

// paceSpan is how much time a pace is taken of at least, where a run has taken more:
// jobs end a batch at a time.
const paceSpan = 5 * time.Minute

// lately says how many seconds of a slot, and jobs, were done in a second of the
// later half of the time that the run has taken, or of paceSpan if that is more:
// hosts come and go, and the longest jobs are trained first.
func (p *pace) lately(now time.Time) (work, jobs float64) {
	half := now.Add(-max(now.Sub(p.began)/2, paceSpan))
	for len(p.marks) > 1 && !p.marks[1].at.After(half) {
		p.marks = p.marks[1:]
	}
	if len(p.marks) == 0 {
		return 0, 0
	}
	from := mark{at: p.began}
	if first := p.marks[0]; !first.at.After(half) && first.jobs < p.last.jobs {
		from = first
	}
	seconds := max(now.Sub(from.at).Seconds(), 1e-3)
	return (p.last.work - from.work) / seconds, float64(p.last.jobs-from.jobs) / seconds
}

// remaining is how many seconds it takes, at these paces, to get jobs done that are
// expected to take so many seconds of a slot or, if that is not known (0), by their
// number; 0: it is not known.
func remaining(work, jobs, seconds float64, n int) float64 {
	switch {
	case seconds > 0 && work > 0:
		return seconds / work
	case jobs > 0:
		return float64(n) / jobs
	}
	return 0
}
