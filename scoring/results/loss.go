package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Loss is what an attempt took whose result does not count: a trainer was killed
// before it had one, its machine was lost, or a later attempt took its place. It
// was spent all the same.
type Loss struct {
	Schema int `json:"schema"`
	// Job is the one that was being worked on, the first one that had not ended, or
	// the one whose outcome was replaced.
	Job     string `json:"job"`
	Model   string `json:"model"`
	Dataset string `json:"dataset"`
	Seed    int    `json:"seed"`
	Attempt int    `json:"attempt"`
	// Batch is the one that was cut off; empty: the job had an outcome, which
	// another one has replaced.
	Batch    string    `json:"batch,omitempty"`
	Executor string    `json:"executor"`
	Host     string    `json:"host"`
	GPUs     []string  `json:"gpus,omitempty"`
	GPUShare float64   `json:"gpu_share,omitempty"` // see Replicate
	Started  time.Time `json:"started"`             // of what was lost
	Ended    time.Time `json:"ended"`
	// Usage is what it took; where the trainer could not say it, by the time from
	// Started to Ended.
	Usage Usage  `json:"usage"`
	Why   string `json:"why"` // one sentence
}

// LossSchema is the version of Loss.
const LossSchema = 1

// LossKey tells losses apart: one that is written twice, because bench was killed
// in between, counts once.
type LossKey struct {
	Job, Batch string
	Started    int64 // milliseconds
}

// Key returns the key of l.
func (l Loss) Key() LossKey { return LossKey{l.Job, l.Batch, l.Started.UnixMilli()} }

// Losses is HOME/results/lost.jsonl, one Loss a line. Any number of processes may
// append and read at once, as with Log.
type Losses struct{ path string }

// OpenLosses returns the losses of a home. The file need not exist yet.
func OpenLosses(home string) Losses {
	return Losses{filepath.Join(home, "results", "lost.jsonl")}
}

// Path returns the file.
func (l Losses) Path() string { return l.path }

// Append adds losses, all or none, and returns when they are on disk. Schema is
// filled in.
func (l Losses) Append(list []Loss) error {
	if len(list) == 0 {
		return nil
	}
	var lines []byte
	for _, x := range list {
		x.Schema = LossSchema
		line, err := json.Marshal(x)
		if err != nil {
			return fmt.Errorf("what an attempt of job %.12s took is not written: %w", x.Job, err)
		}
		lines = append(append(lines, line...), '\n')
	}
	return appendLines(l.path, "what lost attempts took is", lines)
}

// Read returns all losses in the order of the file, each once. A torn line is
// passed over: what it said is little, and known to nobody else.
func (l Losses) Read() ([]Loss, error) {
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Loss
	seen := map[LossKey]bool{}
	in := bufio.NewReaderSize(f, 64<<10)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("%s:%d: %w", l.path, n, err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 && json.Valid(text) {
			var x Loss
			if err := json.Unmarshal(text, &x); err != nil {
				return nil, &LineError{l.path, n, err}
			}
			if x.Schema != LossSchema {
				return nil, &LineError{l.path, n, fmt.Errorf("schema %d, this bench reads %d", x.Schema, LossSchema)}
			}
			if !seen[x.Key()] {
				seen[x.Key()] = true
				list = append(list, x)
			}
		}
		if err == io.EOF {
			return list, nil
		}
	}
}
