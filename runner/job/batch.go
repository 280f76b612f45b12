package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
)

// ProtocolVersion is the version of the trainer protocol (docs/trainer-protocol.md).
const ProtocolVersion = 1

// Batch is what one start of a trainer runs. Its JSON form is IN/batch.json.
type Batch struct {
	Version         int             `json:"protocol"`
	ID              ID              `json:"id"`
	Model           Model           `json:"model"`
	Datasets        []Dataset       `json:"datasets"`
	Hyperparameters Hyperparameters `json:"hyperparameters"`
	Jobs            []Job           `json:"jobs"`
	Device          string          `json:"device"`  // auto, cpu, cuda
	Threads         int             `json:"threads"` // 0: all
}

// Model says which model a trainer is to fine-tune.
type Model struct {
	ID       string `json:"id"`
	Revision string `json:"revision"`
	// Path is the folder of the snapshot. The runner fills in the path on this
	// machine; an executor that shows it elsewhere (a container) rewrites it.
	Path       string `json:"path"`
	Fresh      string `json:"fresh"`
	RemoteCode bool   `json:"allow_remote_code"`
}

// Key names the files of a model.
func (m Model) Key() string { return ModelKey(m.ID, m.Revision) }

// ModelKey names the files of a model: ID@revision.
func ModelKey(id, revision string) string { return id + "@" + revision }

// Dataset is one data set of a batch. Dir is relative to the folder of batch.json.
type Dataset struct {
	Name      string   `json:"name"`
	Task      string   `json:"task"`
	Head      string   `json:"head"`
	Labels    []string `json:"labels"`
	Languages []string `json:"languages"`
	Dir       string   `json:"dir"`
}

// Job is one training of a batch.
type Job struct {
	ID      ID     `json:"id"`
	Dataset string `json:"dataset"`
	Seed    int    `json:"seed"`
}

// BatchID names a batch after the jobs in it, whatever their order: starting
// the same batch twice is starting one batch.
func BatchID(jobs []ID) ID {
	sorted := make([]string, len(jobs))
	for i, j := range jobs {
		sorted[i] = string(j)
	}
	sort.Strings(sorted)
	h := sha256.New()
	fmt.Fprintln(h, "bench batch 1")
	for _, j := range sorted {
		fmt.Fprintln(h, j)
	}
	return ID(hex.EncodeToString(h.Sum(nil)))
}

// Dir is the working folder of one batch on this machine.
//
//	in/batch.json, in/data/NAME/{train,val,test}.jsonl   what the trainer may read
//	out/JOB/{predictions.jsonl,outcome.json}             what it wrote
//	log                                                  its stderr
//	events.jsonl                                         its stdout
//	executor.json                                        what the executor needs to find it again
//	waiting                                              what its start waits for: a sentence, or absent
type Dir string

// The parts of a batch's folder.
func (d Dir) In() string       { return string(d) + "/in" }
func (d Dir) Out() string      { return string(d) + "/out" }
func (d Dir) Log() string      { return string(d) + "/log" }
func (d Dir) Events() string   { return string(d) + "/events.jsonl" }
func (d Dir) Executor() string { return string(d) + "/executor.json" }
func (d Dir) Waiting() string  { return string(d) + "/waiting" }

// Exit tells how the program of a batch ended, as far as its executor can know.
// What became of the jobs is in Dir.Out.
type Exit struct {
	Code      int  // exit code; −1 if a signal ended it
	Signal    int  // 0: none
	OOMKilled bool // the kernel killed it, or a child of it, for memory
	// Stopped: Handle.Stop, a time limit or the executor's own end stopped it.
	Stopped  bool
	TimedOut bool
	// Detail is a sentence for a person, when there is more to say.
	Detail string
}

// Exit codes of trainers.
const (
	ExitOK      = 0
	ExitInput   = 65
	ExitTrainer = 70
	ExitAgain   = 75
)
