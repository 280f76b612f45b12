package runner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bench/runner/job"

	"github.com/gofrs/flock"
)

// Running is a batch that has been started and not yet taken in.
type Running struct {
	Batch   job.ID    `json:"batch"`
	Model   string    `json:"model"`
	Where   Where     `json:"where"` // without a host while it is being started
	Started time.Time `json:"started,omitzero"`
	Attempt int       `json:"attempt"`
	Jobs    int       `json:"jobs"`
	Ended   int       `json:"ended"` // jobs with an outcome
	// Expected is how many seconds all its jobs were expected to take; 0: not known.
	Expected float64 `json:"expected_seconds,omitempty"`
	// Watched: a bench process looks after it. Else it goes on by itself, or has
	// died; the next run of its models takes it over.
	Watched bool `json:"watched"`
	// What the trainer said last.
	Job     job.ID   `json:"job,omitempty"`
	Dataset string   `json:"dataset,omitempty"`
	Seed    int      `json:"seed,omitempty"`
	Step    int      `json:"step,omitempty"`
	Loss    *float64 `json:"loss,omitempty"` // on the validation rows
	Log     string   `json:"log"`            // file
	// Left are the jobs without an outcome, in the order in which they run.
	Left []job.ID `json:"left,omitempty"`
	// Waiting says what its start waits for, such as a GPU.
	Waiting string `json:"waiting,omitempty"`
}

// Late says how many times as long as expected a batch has run by now; 0: it is
// not late. Twice is late, and a minute more, since short batches vary.
func (r Running) Late(now time.Time) float64 {
	if r.Started.IsZero() {
		return 0
	}
	return late(now.Sub(r.Started), r.Expected)
}

func late(ran time.Duration, expected float64) float64 {
	if s := ran.Seconds(); expected > 0 && s > 2*expected+60 {
		return s / expected
	}
	return 0
}

// Status lists the batches of a home, the longest running first. It takes none
// over and changes nothing.
func Status(path string) ([]Running, error) {
	h := newHome(path, nil)
	if _, err := os.Stat(h.batches()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	free := map[job.Dir]bool{}
	var all []Running
	err := h.exclusively(func() error {
		held, err := h.look(func(d job.Dir, _ *manifest, l *flock.Flock) error {
			free[d] = true
			return l.Unlock()
		})
		if err != nil {
			return err
		}
		dirs := map[job.Dir]bool{}
		for _, d := range held {
			dirs[d] = true
		}
		for d := range free {
			dirs[d] = true
		}
		for d := range dirs {
			m, err := readManifest(d)
			if errors.Is(err, fs.ErrNotExist) {
				continue // of a crash, or being made
			}
			if err != nil {
				return err
			}
			all = append(all, running(d, m, !free[d]))
		}
		return nil
	})
	slices.SortFunc(all, func(a, b Running) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Batch, b.Batch))
	})
	return all, err
}

func running(d job.Dir, m manifest, watched bool) Running {
	r := Running{Batch: m.Batch.ID, Model: m.Batch.Model.ID, Attempt: m.Attempt, Jobs: len(m.Specs), Expected: m.Expected, Watched: watched, Log: d.Log()}
	r.Started, r.Where = (&claim{dir: d}).begun()
	r.Where.Executor = cmp.Or(r.Where.Executor, m.Executor)
	if b := tail(d.Waiting(), 4<<10); b != nil {
		r.Waiting = string(b)
	}
	for _, j := range m.Batch.Jobs {
		if _, err := os.Stat(filepath.Join(d.Out(), string(j.ID), "outcome.json")); err == nil {
			r.Ended++
		} else {
			r.Left = append(r.Left, j.ID)
		}
	}
	for line := range bytes.Lines(tail(d.Events(), maxEventLine)) {
		var e trainerEvent
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		spec, known := m.Specs[e.Job]
		if !known {
			continue
		}
		switch e.Event {
		case "start":
			r.Job, r.Dataset, r.Seed, r.Step, r.Loss = e.Job, spec.Dataset, spec.Seed, 0, nil
		case "step":
			r.Step = e.Step
		case "eval":
			r.Step, r.Loss = e.Step, e.Loss
		}
	}
	return r
}
