package job

import (
	"bufio"
	"bytes"
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
type Store struct {
	Home string
	// Disk makes many jobs durable with one wait. nil: each is durable when Save returns.
	Disk *atomicfile.Group
}

// Dir is the folder of one job.
func (s Store) Dir(id ID) string {
	return filepath.Join(s.Home, "jobs", string(id[:2]), string(id))
}

// Outcome returns how a job ended, and whether it has. One whose files were cut
// off when the machine stopped has not.
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
		if !json.Valid(b) {
			return Outcome{}, false, nil
		}
		return Outcome{}, false, fmt.Errorf("%s: %w", path, err)
	}
	if o.Schema != OutcomeSchema {
		return Outcome{}, false, fmt.Errorf("%s: schema %d, this bench reads %d", path, o.Schema, OutcomeSchema)
	}
	if o.Job != id {
		return Outcome{}, false, fmt.Errorf("%s: is of job %s", path, o.Job)
	}
	if o.State == OK {
		if info, err := os.Stat(s.predictions(id)); err != nil || info.Size() == 0 {
			return Outcome{}, false, nil
		}
	}
	return o, true, nil
}

// Fresh makes the next look at a job find what other machines have stored: see
// atomicfile.Fresh.
func (s Store) Fresh(id ID) {
	dir := s.Dir(id)
	atomicfile.Fresh(filepath.Join(s.Home, "jobs"), filepath.Dir(dir), dir)
}

func (s Store) predictions(id ID) string { return filepath.Join(s.Dir(id), predictionsFile) }

// Make makes the folder of all jobs, if there is none yet.
func (s Store) Make() error { return atomicfile.MkdirSpread(filepath.Join(s.Home, "jobs")) }

// Sync returns when all jobs saved before are on disk.
func (s Store) Sync() error {
	if s.Disk == nil {
		return nil
	}
	return s.Disk.Sync()
}

// Save keeps an ended job. The outcome is written last, so that a crash at any
// moment leaves either a whole job or one that has not ended.
func (s Store) Save(spec Spec, o Outcome, predictions []json.RawMessage, logTail []byte) error {
	id := spec.ID()
	spec.Schema, o.Schema, o.Job = SpecSchema, OutcomeSchema, id
	files, err := contents(spec, o, predictions, logTail)
	if err != nil {
		return err
	}
	dir := s.Dir(id)
	if s.Disk != nil {
		made, err := s.Disk.WriteDir(dir, files)
		if made || err != nil {
			return err
		}
	}
	// The job has failed before: its files are replaced one by one.
	for _, f := range files {
		if err := atomicfile.WriteBytes(filepath.Join(dir, f.Name), f.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// Clean removes what killed programs have left of jobs that they were saving. It
// is not to be called while one saves.
func (s Store) Clean() error {
	left, err := filepath.Glob(filepath.Join(s.Home, "jobs", "*", ".*.tmp"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// contents are the files of a job, in the order in which they are written.
func contents(spec Spec, o Outcome, predictions []json.RawMessage, logTail []byte) ([]atomicfile.File, error) {
	asked, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return nil, err
	}
	outcome, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return nil, err
	}
	files := []atomicfile.File{{Name: "spec.json", Bytes: append(asked, '\n')}}
	if len(logTail) > 0 {
		files = append(files, atomicfile.File{Name: "trainer.log", Bytes: logTail})
	}
	if o.State == OK {
		var packed bytes.Buffer
		if err := compress(&packed, predictions); err != nil {
			return nil, err
		}
		files = append(files, atomicfile.File{Name: predictionsFile, Bytes: packed.Bytes()})
	}
	return append(files, atomicfile.File{Name: "outcome.json", Bytes: append(outcome, '\n')}), nil
}

const predictionsFile = "predictions.jsonl.zst"

// Predictions reads the predictions of a job that is ok, in the order of ids.
func (s Store) Predictions(id ID, ids []string) ([]json.RawMessage, error) {
	return OpenPredictions(s.predictions(id), ids)
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
