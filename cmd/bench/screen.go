package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"bench/internal/ui"
	"bench/runner"
	"bench/runner/job"
	"bench/scoring"
)

// screen shows a run: a status block on a terminal, a line for each finished
// job in a pipe, JSON lines with --json.
type screen struct {
	term *ui.Terminal
	json *json.Encoder // nil: for people

	mu      sync.Mutex
	pace    pace
	left    float64 // see runner.Event
	done    int
	total   int
	failed  int
	batches map[job.ID]*batchView
	order   []job.ID
	metrics func(dataset string) (scoring.Metric, bool) // the first metric of a data set's task
	stop    chan struct{}
	stopped sync.WaitGroup
}

// batchView is what is known of a running batch.
type batchView struct {
	model, dataset string
	seed, step     int
	loss           *float64
	where          runner.Where
}

func newScreen(stdout, stderr io.Writer, asJSON bool, metrics func(string) (scoring.Metric, bool)) *screen {
	s := &screen{term: ui.New(stderr), pace: pace{began: time.Now()}, batches: map[job.ID]*batchView{}, metrics: metrics, stop: make(chan struct{})}
	if asJSON {
		s.json = json.NewEncoder(stdout)
		s.json.SetEscapeHTML(false)
	} else if s.term.IsTerminal() {
		s.stopped.Go(func() {
			tick := time.NewTicker(500 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					s.mu.Lock()
					s.draw()
					s.mu.Unlock()
				case <-s.stop:
					return
				}
			}
		})
	}
	return s
}

// close takes the status block away.
func (s *screen) close() {
	close(s.stop)
	s.stopped.Wait()
	s.term.SetStatus()
}

// say prints a line for people.
func (s *screen) say(format string, args ...any) { s.term.Print("bench: "+format, args...) }

func (s *screen) event(e runner.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json != nil {
		s.json.Encode(e) // a broken pipe ends the program by itself
	}
	switch e.Type {
	case "plan":
		s.done, s.total = e.Done, e.Total
	case "attach", "start":
		v := &batchView{model: e.Model}
		if e.Where != nil {
			v.where = *e.Where
		}
		if s.batches[e.Batch] == nil {
			s.order = append(s.order, e.Batch)
		}
		s.batches[e.Batch] = v
		if e.Type == "attach" && s.json == nil {
			s.say("%s: a batch of an earlier run goes on; waiting for it", e.Model)
		}
	case "progress":
		if v := s.batches[e.Batch]; v != nil {
			v.dataset, v.seed, v.step, v.loss = e.Dataset, e.Seed, e.Step, e.Loss
		}
	case "job":
		s.done, s.left = e.Done, e.Left
		seconds := e.Seconds
		if e.Used != nil { // what estimates are made of
			seconds = e.Used.WallSeconds
		}
		s.pace.ended(time.Now(), seconds)
		if e.State != job.OK {
			s.failed++
		}
		if s.json == nil {
			s.jobLine(e)
		}
	case "end":
		delete(s.batches, e.Batch)
		s.order = slices.DeleteFunc(s.order, func(id job.ID) bool { return id == e.Batch })
	case "warning":
		if s.json == nil {
			s.say("warning: %s%s", place(e), plain(e.Message))
		}
	}
	s.draw()
}

func place(e runner.Event) string {
	var parts []string
	if e.Model != "" {
		parts = append(parts, e.Model)
	}
	if e.Dataset != "" {
		parts = append(parts, e.Dataset, fmt.Sprintf("seed %d", e.Seed))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, " · ") + ": "
}

// jobLine is the line of a finished job.
func (s *screen) jobLine(e runner.Event) {
	if e.State != job.OK {
		s.term.Print("failed  %s  %s  seed %d  %s: %s", e.Model, e.Dataset, e.Seed, e.Failure, plain(e.Message))
		return
	}
	score := ""
	if m, ok := s.metrics(e.Dataset); ok {
		score = fmt.Sprintf("%s %s", m.Name, showValue(e.Scores[m.Name], m))
	}
	steps := ""
	if e.Step > 0 {
		steps = fmt.Sprintf("  %d steps", e.Step)
	}
	s.term.Print("ok      %s  %s  seed %d  %s%s  %s  [%d/%d]", e.Model, e.Dataset, e.Seed, score, steps, showSeconds(e.Seconds), e.Done, e.Total)
}

// draw shows the status block; s.mu is held.
func (s *screen) draw() {
	if !s.term.IsTerminal() || s.json != nil || s.total == 0 {
		return
	}
	const width = 24
	share := float64(s.done) / float64(s.total)
	bar := strings.Repeat("█", int(share*width)) + strings.Repeat("░", width-int(share*width))
	head := fmt.Sprintf("%d/%d jobs %s", s.done, s.total, bar)
	if s.failed > 0 {
		head += fmt.Sprintf("  %d failed", s.failed)
	}
	now := time.Now()
	head += "  " + showSeconds(now.Sub(s.pace.began).Seconds())
	work, jobs := s.pace.lately(now)
	if rest := remaining(work, jobs, s.left, s.total-s.done); rest > 0 {
		head += "  ETA " + showSeconds(rest)
	}
	lines := []string{head}
	ids := slices.Clone(s.order)
	sort.SliceStable(ids, func(i, j int) bool { return s.batches[ids[i]].where.Host < s.batches[ids[j]].where.Host })
	for _, id := range ids {
		v := s.batches[id]
		device := "CPU"
		if len(v.where.GPUs) > 0 {
			device = strings.Join(v.where.GPUs, ",")
		}
		l := fmt.Sprintf("  %s@%s %s  %s", v.where.Executor, v.where.Host, device, v.model)
		if v.dataset != "" {
			l += fmt.Sprintf("  %s seed %d step %d", v.dataset, v.seed, v.step)
		}
		if v.loss != nil {
			l += fmt.Sprintf(" val loss %.4f", *v.loss)
		}
		lines = append(lines, l)
	}
	s.term.SetStatus(lines...)
}

// showValue shows a score as people read it.
func showValue(v scoring.Value, m scoring.Metric) string {
	if v.Undefined != "" {
		return "undefined"
	}
	return fmt.Sprintf("%.2f", v.X*m.Scale)
}

// showSeconds shows a duration in at most two units.
func showSeconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}
