// Package job is the contract between the runner and whatever trains: what a
// job is, what a trainer is given, what it gives back, and where a finished
// job is kept. docs/trainer-protocol.md describes the same for people.
package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Spec describes one training exactly: one model, one data set, one seed. Two
// specs with equal ids mean the same computation.
type Spec struct {
	Schema          int             `json:"schema"` // SpecSchema
	Task            string          `json:"task"`
	TaskVersion     int             `json:"task_version"`
	Dataset         string          `json:"dataset"`
	DatasetDigest   string          `json:"dataset_digest"`
	Model           string          `json:"model"`          // as the user named it, without @revision
	ModelRevision   string          `json:"model_revision"` // commit of the Hub, or content digest
	Protocol        string          `json:"protocol"`       // with overrides, such as paper{learning_rate=0.001}
	Hyperparameters Hyperparameters `json:"hyperparameters"`
	Trainer         string          `json:"trainer"` // digest of the trainer
	RemoteCode      bool            `json:"remote_code,omitempty"`
	Seed            int             `json:"seed"`
}

// SpecSchema is the version of Spec; it is part of the id.
const SpecSchema = 1

// ID names a job or a batch: a SHA-256 in lower-case hexadecimal.
type ID string

// Short returns the first 12 digits, enough for people.
func (id ID) Short() string { return string(id)[:min(12, len(id))] }

// ID is the SHA-256 of the canonical JSON of s: keys in the order of the
// struct, shortest number forms, no white space.
func (s Spec) ID() ID {
	s.Schema = SpecSchema
	b, err := json.Marshal(s)
	if err != nil {
		// Only NaN and infinities cannot be marshalled, and Validate refuses them.
		panic(fmt.Sprintf("job: spec cannot be marshalled: %v", err))
	}
	sum := sha256.Sum256(b)
	return ID(hex.EncodeToString(sum[:]))
}
