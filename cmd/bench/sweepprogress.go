package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"bench/internal/atomicfile"
	"bench/runner"
	"bench/runner/job"
)

// sweepProgress is progress.json in a sweep's folder, for bench status in
// another terminal or on another machine.
type sweepProgress struct {
	Schema  int       `json:"schema"`
	Name    string    `json:"name"`
	File    string    `json:"file"` // of the sweep
	Host    string    `json:"host"` // where bench runs
	PID     int       `json:"pid"`
	Began   time.Time `json:"began"`
	Updated time.Time `json:"updated"`
	// State is running, finished or stopped: by an error, a limit or the user.
	State   string `json:"state"`
	Total   int    `json:"total"` // jobs
	Done    int    `json:"done"`
	Cached  int    `json:"cached"`  // of Done: before this bench began
	Failed  int    `json:"failed"`  // since it began
	Batches int    `json:"batches"` // that run
	// SecondsLeft is what the rest will take if it goes on as it did since Began;
	// 0: nothing has ended yet.
	SecondsLeft float64 `json:"seconds_left,omitempty"`
}

const (
	progressSchema = 1
	progressEvery  = 5 * time.Second
	// silent is how long a running sweep may say nothing before it is taken for
	// dead; clocks of two machines differ by less.
	silent = time.Minute
	// progressKept is how long a sweep that was not finished is told of.
	progressKept = 7 * 24 * time.Hour
)

// progress writes sweepProgress now and then.
type progress struct {
	path string
	done chan struct{}
	all  sync.WaitGroup

	mu      sync.Mutex
	now     sweepProgress
	running map[job.ID]bool
}

// newProgress begins to write. A home that cannot be written to is none of its
// business: the run itself says so.
func newProgress(s *sweep, home string) *progress {
	host, _ := os.Hostname()
	file, err := filepath.Abs(s.path)
	if err != nil {
		file = s.path
	}
	p := &progress{path: filepath.Join(s.folder(home), "progress.json"), done: make(chan struct{}), running: map[job.ID]bool{}}
	p.now = sweepProgress{Schema: progressSchema, Name: s.name, File: file, Host: host, PID: os.Getpid(), Began: time.Now().UTC(), State: "running"}
	os.MkdirAll(filepath.Dir(p.path), 0o777)
	p.all.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-tick.C:
				p.write()
			}
		}
	})
	return p
}

// event takes note of what happened. On nil it does nothing, as close.
func (p *progress) event(e runner.Event) {
	if p == nil {
		return
	}
	p.mu.Lock()
	switch e.Type {
	case "plan":
		p.now.Total, p.now.Done, p.now.Cached = e.Total, e.Done, e.Done
	case "start", "attach":
		p.running[e.Batch] = true
	case "end":
		delete(p.running, e.Batch)
	case "job":
		p.now.Done = e.Done
		if e.State != job.OK {
			p.now.Failed++
		}
	}
	p.mu.Unlock()
	if e.Type == "plan" {
		p.write()
	}
}

func (p *progress) write() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Updated, p.now.Batches = time.Now().UTC(), len(p.running)
	p.now.SecondsLeft = left(p.now.Updated.Sub(p.now.Began), p.now.Done-p.now.Cached, p.now.Total-p.now.Done)
	if text, err := json.Marshal(p.now); err == nil {
		atomicfile.WriteBytes(p.path, append(text, '\n'))
	}
}

// left is how many seconds the rest of the jobs takes at the pace so far; 0: it
// is not known.
func left(elapsed time.Duration, ran, rest int) float64 {
	if ran <= 0 {
		return 0
	}
	return elapsed.Seconds() / float64(ran) * float64(rest)
}

// close writes how it ended.
func (p *progress) close(rep runner.Report, err error) {
	if p == nil {
		return
	}
	close(p.done)
	p.all.Wait()
	clear(p.running)
	p.now.State = "finished"
	if err != nil {
		p.now.State = "stopped"
	} else if rep.Total > 0 { // jobs of models that could not be had have no event
		p.now.Done = rep.Total
	}
	p.write()
}

// sweepsIn lists the sweeps of a home that are not finished, by name.
func sweepsIn(home string) (list []sweepProgress, err error) {
	paths, err := filepath.Glob(filepath.Join(home, "sweeps", "*", "progress.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var s sweepProgress
		if json.Unmarshal(text, &s) != nil || s.Schema != progressSchema || s.State == "finished" || time.Since(s.Updated) > progressKept {
			continue // of another version, or long forgotten
		}
		if s.State == "running" && time.Since(s.Updated) > silent {
			s.State = "silent"
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b sweepProgress) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// line says how far a sweep is, for people.
func (s sweepProgress) line() string {
	text := fmt.Sprintf("sweep %s: %d of %d jobs", plain(s.Name), s.Done, s.Total)
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	switch s.State {
	case "running":
		if s.SecondsLeft > 0 {
			text += ", about " + showSeconds(s.SecondsLeft) + " to go"
		}
		return text + fmt.Sprintf("; %s, watched by process %d on %s", batches(s.Batches), s.PID, plain(s.Host))
	case "stopped":
		text += "; it was stopped"
	default:
		text += fmt.Sprintf("; process %d on %s has died or cannot write here", s.PID, plain(s.Host))
	}
	return text + " at " + s.Updated.Local().Format("2006-01-02 15:04") + ", and goes on with: bench sweep " + plain(s.File)
}

// batches says how many run.
func batches(n int) string {
	if n == 1 {
		return "1 batch runs"
	}
	return fmt.Sprintf("%d batches run", n)
}
