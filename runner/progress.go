package runner

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"bench/runner/job"
)

// trainerEvent is a line of a trainer's stdout, as far as it is looked at.
type trainerEvent struct {
	Event   string   `json:"event"`
	Job     job.ID   `json:"job"`
	Step    int      `json:"step"`
	Loss    *float64 `json:"loss"`
	Message string   `json:"message"`
}

// events reads what the trainer said since the last look. It is for the screen
// and for knowing which job was being worked on; nothing that counts rests on it.
func (w *watch) events() {
	f, err := os.Open(w.claim.dir.Events())
	if err != nil {
		return
	}
	defer f.Close()
	if _, err := f.Seek(w.offset, io.SeekStart); err != nil {
		return
	}
	began := time.Now()
	if w.old && w.offset == 0 { // all that was said while nobody watched
		began = time.Time{}
	}
	in := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil { // a line without its end is read again at the next look
			if errors.Is(err, bufio.ErrBufferFull) {
				w.offset += int64(len(line))
			}
			return
		}
		w.offset += int64(len(line))
		var e trainerEvent
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		spec, known := w.claim.specs[e.Job]
		if known && !w.spoke {
			w.heard()
		}
		out := Event{Batch: w.claim.batch.ID, Model: w.claim.batch.Model.ID, Dataset: spec.Dataset, Seed: spec.Seed, Job: e.Job}
		switch {
		case e.Event == "start" && known:
			if w.started == nil {
				w.started = map[job.ID]time.Time{}
			}
			w.current = e.Job
			w.started[e.Job] = began
		case e.Event == "eval" && known:
			out.Type, out.Step, out.Loss = "progress", e.Step, e.Loss
			w.emit(out)
		case e.Event == "warn":
			if !known {
				out.Job = ""
			}
			out.Type, out.Message = "warning", e.Message
			w.emit(out)
		}
	}
}
