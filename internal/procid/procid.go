// Package procid names processes so that no later one can be mistaken for
// them: a pid alone is used again.
package procid

import "errors"

// ID names a process.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks between boot and the start of the process
	Boot  string `json:"boot"`  // random at each boot of the machine
	PIDs  string `json:"pids"`  // pid namespace: containers of one machine share Boot
}

// ErrUnknown says that this system does not tell what is needed.
var ErrUnknown = errors.New("only Linux tells processes apart")

// Near says whether the process ids of id and other are of one kind: of one
// boot and one pid namespace.
func (id ID) Near(other ID) bool { return id.Boot == other.Boot && id.PIDs == other.PIDs }

// Stat is what /proc/PID/stat says of a process.
type Stat struct {
	State  byte // 'Z' for a zombie; see proc_pid_stat(5)
	Parent int
	Start  uint64 // as in ID
}
