package slurm

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// watcher asks Slurm about all batches that somebody waits for, in one call,
// and as seldom as is good for a controller that thousands of users share.
type watcher struct {
	cluster cluster
	every   time.Duration
	notice  func(string)
	soon    chan struct{} // asks for an answer before its time

	mu      sync.Mutex
	jobs    map[string]*watched // by id
	running bool
}

// watched is one job.
type watched struct {
	name     string
	waiters  int
	state    state
	asked    bool   // and answered
	unknown  int    // answers in a row in which Slurm did not know it
	grumbled string // the reason of its waiting that was told
}

func newWatcher(c cluster, every time.Duration, notice func(string)) *watcher {
	return &watcher{cluster: c, every: every, notice: notice, soon: make(chan struct{}, 1), jobs: map[string]*watched{}}
}

// watch has the job asked about until release is called.
func (w *watcher) watch(id, name string) (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	if j == nil {
		j = &watched{name: name}
		w.jobs[id] = j
		w.hurry()
	}
	j.waiters++
	if !w.running {
		w.running = true
		go w.loop()
	}
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if j.waiters--; j.waiters == 0 {
			delete(w.jobs, id)
		}
	})
}

// state returns the last answer about a job, and whether there is one. A job is
// gone when Slurm has twice not known it. That a job is over or gone is final.
func (w *watcher) state(id string) (s state, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	if j == nil || !j.asked || j.state.gone() && j.unknown < 2 {
		return state{}, false
	}
	return j.state, true
}

// hurry asks for the next answer at once.
func (w *watcher) hurry() {
	select {
	case w.soon <- struct{}{}:
	default:
	}
}

// loop asks until nobody waits. At most one question is on its way, and there
// is a pause after each, however many are in a hurry.
func (w *watcher) loop() {
	var silent time.Time // since when Slurm has not answered
	said := false
	for {
		w.mu.Lock()
		if len(w.jobs) == 0 {
			w.running = false
			w.mu.Unlock()
			return
		}
		names := map[string]string{}
		for id, j := range w.jobs {
			if !j.state.over() {
				names[id] = j.name
			}
		}
		w.mu.Unlock()
		again := false
		if len(names) > 0 {
			asked := time.Now()
			found, err := w.cluster.states(context.Background(), names)
			switch {
			case err != nil && silent.IsZero():
				silent = asked
			case err != nil && !said && time.Since(silent) > 2*w.every:
				said = true
				w.notice(fmt.Sprintf("Slurm does not answer (%v); waiting for it, batches that run go on", err))
			case err == nil:
				if said {
					w.notice(fmt.Sprintf("Slurm answers again, after %v", time.Since(silent).Round(time.Second)))
				}
				silent, said = time.Time{}, false
				again = w.book(names, found)
			}
		}
		pause := w.every
		if again {
			pause = min(pause, time.Second)
		}
		select {
		case <-w.soon:
			time.Sleep(min(w.every, time.Second) / 4)
		case <-time.After(pause):
		}
	}
}

// book takes in an answer. It says whether it is worth asking again soon.
func (w *watcher) book(names map[string]string, found map[string]state) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reasons := map[string]int{}
	for id := range names {
		j := w.jobs[id]
		if j == nil {
			continue
		}
		s := found[id]
		if s.gone() {
			j.unknown++
			again = again || j.unknown < 2
		} else {
			j.unknown = 0
		}
		j.state, j.asked = s, true
		if s.Name == "PENDING" && s.Reason != j.grumbled && blocked(s.Reason) {
			j.grumbled = s.Reason
			reasons[s.Reason]++
		}
	}
	for reason, n := range reasons {
		w.notice(fmt.Sprintf("%d batches wait in Slurm's queue for a reason that may not pass by itself: %s", n, reason))
	}
	return again
}
