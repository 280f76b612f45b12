package results

import (
	"bytes"
	"encoding/json"
)

// Identity says what a record is about. Records of equal identity describe the
// same computation, repeated or gone on with: one of them is enough.
type Identity struct {
	Model, Revision string
	RemoteCode      bool
	Dataset, Digest string
	Task            string
	TaskVersion     int
	Protocol        string
	Hyperparameters string // compact JSON
	Trainer         string
}

// Identity returns the identity of r.
func (r Record) Identity() Identity {
	var h bytes.Buffer
	if json.Compact(&h, r.Hyperparameters) != nil {
		h.Reset()
		h.Write(r.Hyperparameters)
	}
	return Identity{
		Model: r.Model.ID, Revision: r.Model.Revision, RemoteCode: r.RemoteCode,
		Dataset: r.Dataset.Name, Digest: r.Dataset.Digest, Task: r.Dataset.Task, TaskVersion: r.Dataset.TaskVersion,
		Protocol: r.Protocol, Hyperparameters: h.String(), Trainer: r.Trainer,
	}
}

// Newest keeps one record of each identity: the one with the most replicates
// (so that a look with two seeds does not hide a run with ten), of those the
// one that finished last, of those the last in rs. Both results are in the
// order of rs. Superseded records stay in the log.
func Newest(rs []Record) (kept, superseded []Record) {
	best := map[Identity]int{}
	for i, r := range rs {
		j, seen := best[r.Identity()]
		if !seen || !older(r, rs[j]) {
			best[r.Identity()] = i
		}
	}
	for i, r := range rs {
		if best[r.Identity()] == i {
			kept = append(kept, r)
		} else {
			superseded = append(superseded, r)
		}
	}
	return kept, superseded
}

func older(a, b Record) bool {
	if len(a.Replicates) != len(b.Replicates) {
		return len(a.Replicates) < len(b.Replicates)
	}
	return a.Finished.Before(b.Finished)
}
