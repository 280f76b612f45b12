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
	"strings"
	"sync"
	"time"

	"bench/internal/atomicfile"
	"bench/runner"
	"bench/runner/job"
	"bench/scoring/results"

	"github.com/gofrs/flock"
)

// processProgress is how far one bench process is with a sweep. It is a file of
// its own, HOME/sweeps/NAME/runs/HOST-PID-TIME.json, beside a lock that the
// process holds for as long as it lives.
type processProgress struct {
	Schema  int       `json:"schema"`
	Name    string    `json:"name"`
	File    string    `json:"file"` // of the sweep
	Host    string    `json:"host"` // where bench runs
	PID     int       `json:"pid"`
	Began   time.Time `json:"began"`
	Updated time.Time `json:"updated"`
	// State is running, finished or stopped: by an error, a limit or the user. A
	// reader makes silent of running where the process is gone, or says nothing.
	State   string `json:"state"`
	Total   int    `json:"total"` // jobs
	Done    int    `json:"done"`
	Cached  int    `json:"cached"`  // of Done: before this bench began
	Ran     int    `json:"ran"`     // of Done: that this bench saw end
	Failed  int    `json:"failed"`  // of Ran
	Batches int    `json:"batches"` // that run
	// SecondsLeft is what the rest will take at the pace of late; 0: nothing has
	// ended yet.
	SecondsLeft float64 `json:"seconds_left,omitempty"`
	// Pace and JobPace are what this bench gets done in a second: of seconds of a
	// slot, and of jobs. They are of the later half of the time since it began.
	Pace    float64 `json:"pace,omitempty"`
	JobPace float64 `json:"job_pace,omitempty"`
	// SlotSeconds is what the jobs to come will take of one slot; 0: not known.
	SlotSeconds float64 `json:"slot_seconds_left,omitempty"`
	// Before is what all jobs of the sweep had used when this bench began, Used what
	// those took that ended since, both with lost attempts.
	Before results.Usage `json:"used_before"`
	Used   results.Usage `json:"used"`
	Rates  results.Rates `json:"rates"`
}

const (
	progressSchema = 2
	progressEvery  = 5 * time.Second
	// silent is how long a running sweep may say nothing before it is taken for
	// dead; clocks of two machines differ by less.
	silent = time.Minute
	// progressKept is how long a sweep that was not finished is told of.
	progressKept = 7 * 24 * time.Hour
)

// progress writes processProgress now and then.
type progress struct {
	path string
	lock *flock.Flock
	done chan struct{}
	all  sync.WaitGroup

	mu      sync.Mutex
	pace    pace
	now     processProgress
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
	began := time.Now().UTC()
	dir := runsOf(s.folder(home))
	name := fmt.Sprintf("%s-%d-%d", notInName.ReplaceAllString(host, "-"), os.Getpid(), began.UnixMilli())
	p := &progress{path: filepath.Join(dir, name+".json"), done: make(chan struct{}), running: map[job.ID]bool{}, pace: pace{began: began}}
	p.now = processProgress{
		Schema: progressSchema, Name: s.name, File: file, Host: host, PID: os.Getpid(), Began: began, State: "running", Rates: s.options.cost.rates(),
	}
	os.MkdirAll(dir, 0o777)
	forget(dir)
	p.lock = flock.New(lockOf(p.path))
	p.lock.Lock() // without locks the time alone tells who lives
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

// runsOf is where a sweep's folder has what its processes write.
func runsOf(folder string) string { return filepath.Join(folder, "runs") }

// lockOf is the lock beside a process's file.
func lockOf(path string) string { return strings.TrimSuffix(path, ".json") + ".lock" }

// forget removes what earlier processes wrote, unless one of them lives: what the
// dead ones of its time did is not all in its own numbers.
func forget(dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, path := range paths {
		if lives(path) {
			return
		}
	}
	for _, path := range paths {
		os.Remove(path)
		os.Remove(lockOf(path))
	}
}

// lives says whether the process of a file still has its lock. Where locks do not
// work nobody seems dead.
func lives(path string) bool {
	if _, err := os.Stat(lockOf(path)); err != nil {
		return false
	}
	l := flock.New(lockOf(path), flock.SetFlag(os.O_RDONLY))
	free, err := l.TryRLock()
	if free {
		l.Unlock()
	}
	return err != nil || !free
}

// event takes note of what happened. On nil it does nothing, as close.
func (p *progress) event(e runner.Event) {
	if p == nil {
		return
	}
	p.mu.Lock()
	switch e.Type {
	case "plan":
		p.now.Total, p.now.Done, p.now.Cached, p.now.Before, p.now.SlotSeconds = e.Total, e.Done, e.Done, *e.Used, e.Left
	case "start", "attach":
		p.running[e.Batch] = true
	case "end":
		delete(p.running, e.Batch)
	case "job":
		p.now.Ran++
		p.now.Done, p.now.SlotSeconds = e.Done, e.Left
		p.pace.ended(time.Now(), e.Used.WallSeconds)
		if e.State != job.OK {
			p.now.Failed++
		}
		p.now.Used.Add(*e.Used)
	case "lost":
		p.now.Used.Add(*e.Used)
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
	p.now.Pace, p.now.JobPace = p.pace.lately(p.now.Updated)
	p.now.SecondsLeft = remaining(p.now.Pace, p.now.JobPace, p.now.SlotSeconds, p.now.Total-p.now.Done)
	if text, err := json.Marshal(p.now); err == nil {
		atomicfile.WriteBytes(p.path, append(text, '\n'))
	}
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
	p.lock.Unlock()
}

// sweepProgress is how far a sweep is, by all processes that are at it: those
// fields of the newest one that do not add up, and sums of the others.
type sweepProgress struct {
	processProgress
	Processes []processProgress `json:"processes"` // by age
	// Spent is what the sweep's jobs used so far, lost attempts too; ToCome what the
	// rest will, at the rates of those. nil: that is not known.
	Spent  spending  `json:"spent"`
	ToCome *spending `json:"to_come,omitempty"`

	spent results.Usage
}

// sweepsIn lists the sweeps of a home that are not finished, by name.
func sweepsIn(home string) (list []sweepProgress, err error) {
	paths, err := filepath.Glob(filepath.Join(runsOf(filepath.Join(home, "sweeps", "*")), "*.json"))
	if err != nil {
		return nil, err
	}
	of := map[string][]processProgress{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var p processProgress
		if json.Unmarshal(text, &p) != nil || p.Schema != progressSchema || time.Since(p.Updated) > progressKept {
			continue // of another version, or long forgotten
		}
		if p.State == "running" && (time.Since(p.Updated) > silent || !lives(path)) {
			p.State = "silent"
		}
		of[filepath.Dir(path)] = append(of[filepath.Dir(path)], p)
	}
	for _, processes := range of {
		if s := merged(processes); s.State != "finished" {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b sweepProgress) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// merged makes one of what the processes of a sweep say. Each knows what had
// ended when it began, and what it saw end itself.
func merged(processes []processProgress) sweepProgress {
	slices.SortFunc(processes, func(a, b processProgress) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.PID, b.PID)) })
	newest := slices.MaxFunc(processes, func(a, b processProgress) int {
		if (a.State == "running") != (b.State == "running") {
			return map[bool]int{true: 1, false: -1}[a.State == "running"]
		}
		return a.Updated.Compare(b.Updated)
	})
	s := sweepProgress{processProgress: newest, Processes: processes}
	first := processes[0]
	s.Cached, s.Before, s.Ran, s.Failed, s.Batches, s.Used = first.Cached, first.Before, 0, 0, 0, results.Usage{}
	work, jobs, most := 0.0, 0.0, 0 // done in a second
	for _, p := range processes {
		s.Ran += p.Ran
		s.Failed += p.Failed
		s.Used.Add(p.Used)
		most = max(most, p.Done)
		if p.State == "running" {
			s.Batches += p.Batches
			work += p.Pace
			jobs += p.JobPace
		}
	}
	s.Done = min(s.Total, max(most, s.Cached+s.Ran))
	s.spent = s.Before
	s.spent.Add(s.Used)
	s.Spent = spendingOf(s.spent, s.Rates)
	// What each expects holds the jobs of the others: it shrinks with their number.
	if rest := newest.Total - newest.Done; rest > 0 && s.spent.WallSeconds > 0 && newest.SlotSeconds > 0 {
		s.SlotSeconds = newest.SlotSeconds * float64(s.Total-s.Done) / float64(rest)
		ahead := spendingOf(s.spent.Times(s.SlotSeconds/s.spent.WallSeconds), s.Rates)
		s.ToCome = &ahead
	}
	s.Pace, s.JobPace, s.SecondsLeft = work, jobs, remaining(work, jobs, s.SlotSeconds, s.Total-s.Done)
	return s
}

// lines say how far a sweep is and what it took, for people.
func (s sweepProgress) lines() (text []string) {
	far := fmt.Sprintf("sweep %s: %d of %d jobs", plain(s.Name), s.Done, s.Total)
	if s.Failed > 0 {
		far += fmt.Sprintf(", %d failed", s.Failed)
	}
	var watching []string
	for _, p := range s.Processes {
		if p.State == "running" {
			watching = append(watching, fmt.Sprintf("process %d on %s", p.PID, plain(p.Host)))
		}
	}
	switch s.State {
	case "running":
		if s.SecondsLeft > 0 {
			far += ", about " + showSeconds(s.SecondsLeft) + " to go"
		}
		far += fmt.Sprintf("; %s, watched by %s", batches(s.Batches), strings.Join(watching, " and "))
	case "stopped":
		far += "; it was stopped at " + s.goesOn()
	default:
		far += fmt.Sprintf("; process %d on %s has died or cannot write here at %s", s.PID, plain(s.Host), s.goesOn())
	}
	text = append(text, far)
	if s.spent.GPUSeconds > 0 {
		cost := costOptions{carbon: s.Rates.CO2eKgPerKWh, price: s.Rates.PricePerGPUHour}
		used := "  used " + cost.usedLine(s.spent)
		if s.ToCome != nil {
			used += "; about " + cost.usedLine(s.spent.Times(s.SlotSeconds/s.spent.WallSeconds)) + " to come"
		}
		text = append(text, used)
	}
	return text
}

// goesOn says when a sweep was last heard of, and how it goes on.
func (s sweepProgress) goesOn() string {
	return s.Updated.Local().Format("2006-01-02 15:04") + ", and goes on with: bench sweep " + plain(s.File)
}

// batches says how many run.
func batches(n int) string {
	if n == 1 {
		return "1 batch runs"
	}
	return fmt.Sprintf("%d batches run", n)
}
