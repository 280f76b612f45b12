package job

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bench/internal/atomicfile"

	"github.com/klauspost/compress/zstd"
)

// OutcomeSchema is the version of Outcome.
const OutcomeSchema = 1

// Outcome is how a job ended, as it is kept: what the trainer said, and what
// the runner knows beside it.
type Outcome struct {
	Schema int `json:"schema"`
	TrainerOutcome
	Attempt  int      `json:"attempt"` // 1 for the first
	Executor string   `json:"executor"`
	Host     string   `json:"host"`
	Image    string   `json:"image,omitempty"`
	GPUs     []string `json:"gpus,omitempty"`
	// GPUShare is which part of each GPU the job had: a slice of it, or a slot
	// beside others. 0: all.
	GPUShare float64   `json:"gpu_share,omitempty"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Bench    string    `json:"bench"` // version
}

// GPUSeconds is how long the job had GPUs: its seconds, times their number,
// times its share of them. A job that ended before its trainer could say
// anything is taken to have had them from its start to its end.
func (o Outcome) GPUSeconds() float64 {
	n := len(o.GPUs)
	switch {
	case o.Device == "cpu":
		return 0
	case o.Device == "cuda" && n == 0:
		n = 1 // the executor did not look which
	}
	seconds := o.Seconds["load"] + o.Seconds["tokenize"] + o.Seconds["train"] + o.Seconds["predict"]
	if seconds == 0 {
		seconds = max(0, o.Finished.Sub(o.Started).Seconds())
	}
	return seconds * float64(n) * cmp.Or(o.GPUShare, 1)
}

// Account settles what energy the job used, watts being the power of one GPU
// where it was not measured. What was measured of a shared GPU is counted by
// the share.
func (o *Outcome) Account(watts float64) {
	switch {
	case o.Device == "cpu":
		o.Energy = &Energy{Source: EnergyNone}
	case o.Device != "cuda" && len(o.GPUs) == 0:
		// It ended before it was known whether there is a GPU.
	case o.Energy == nil || o.Energy.Source == EnergyNone:
		o.Energy = &Energy{watts * o.GPUSeconds(), EnergyEstimate}
	default:
		o.Energy = &Energy{o.Energy.Joules * cmp.Or(o.GPUShare, 1), o.Energy.Source}
	}
}

// Store keeps ended jobs under HOME/jobs:
//
//	jobs/ab/abcd…/spec.json               what was asked for
//	jobs/ab/abcd…/predictions.jsonl.zst   of a job that is ok
//	jobs/ab/abcd…/trainer.log             the end of the log
//	jobs/ab/abcd…/outcome.json            written last: a job with it has ended
//
// Whether a job is done is one file look-up. There is no data base.
type Store struct{ Home string }

// Dir is the folder of one job.
func (s Store) Dir(id ID) string {
	return filepath.Join(s.Home, "jobs", string(id[:2]), string(id))
}

// Outcome returns how a job ended, and whether it has.
func (s Store) Outcome(id ID) (Outcome, bool, error) {
	path := filepath.Join(s.Dir(id), "outcome.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Outcome{}, false, nil
	}
	if err != nil {
		return Outcome{}, false, err
	}
	var o Outcome
	if err := json.Unmarshal(b, &o); err != nil {
		return Outcome{}, false, fmt.Errorf("%s: %w", path, err)
	}
	if o.Schema != OutcomeSchema {
		return Outcome{}, false, fmt.Errorf("%s: schema %d, this bench reads %d", path, o.Schema, OutcomeSchema)
	}
	if o.Job != id {
		return Outcome{}, false, fmt.Errorf("%s: is of job %s", path, o.Job)
	}
	return o, true, nil
}

// Save keeps an ended job. The outcome is written last, so that a crash at any
// moment leaves either a whole job or one that has not ended.
func (s Store) Save(spec Spec, o Outcome, predictions []json.RawMessage, logTail []byte) error {
	id := spec.ID()
	dir := s.Dir(id)
	spec.Schema, o.Schema, o.Job = SpecSchema, OutcomeSchema, id
	if err := writeJSON(filepath.Join(dir, "spec.json"), spec); err != nil {
		return err
	}
	if len(logTail) > 0 {
		if err := atomicfile.WriteBytes(filepath.Join(dir, "trainer.log"), logTail); err != nil {
			return err
		}
	}
	if o.State == OK {
		err := atomicfile.Write(filepath.Join(dir, "predictions.jsonl.zst"), func(w io.Writer) error { return compress(w, predictions) })
		if err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(dir, "outcome.json"), o)
}

// Predictions reads the predictions of a job that is ok, in the order of ids.
func (s Store) Predictions(id ID, ids []string) ([]json.RawMessage, error) {
	return OpenPredictions(filepath.Join(s.Dir(id), "predictions.jsonl.zst"), ids)
}

// OpenPredictions reads a file of predictions as ReadPredictions does; one whose
// name ends in .zst is decompressed.
func OpenPredictions(path string, ids []string) (lines []json.RawMessage, err error) {
	err = reading(path, func(r io.Reader) error {
		lines, err = ReadPredictions(r, path, ids)
		return err
	})
	return lines, err
}

// PredictionLine says on which line of a file that OpenPredictions reads the
// prediction with an id is; 0 if there is none.
func PredictionLine(path, id string) (line int, err error) {
	err = reading(path, func(r io.Reader) error {
		in := bufio.NewScanner(r)
		in.Buffer(make([]byte, 64<<10), MaxPredictionLine)
		for n := 1; in.Scan(); n++ {
			var row struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(in.Bytes(), &row) == nil && row.ID == id {
				line = n
				return nil
			}
		}
		return in.Err()
	})
	return line, err
}

func reading(path string, do func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if !strings.HasSuffix(path, ".zst") {
		return do(f)
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer z.Close()
	return do(z)
}

// Spec reads the spec of a job.
func (s Store) Spec(id ID) (Spec, error) {
	path := filepath.Join(s.Dir(id), "spec.json")
	b, err := os.ReadFile(path)
	if err != nil {
		return Spec{}, err
	}
	var spec Spec
	if err := json.Unmarshal(b, &spec); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", path, err)
	}
	return spec, nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, append(b, '\n'))
}
