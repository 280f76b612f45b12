//go:build !linux

package process

import (
	"syscall"
	"time"

	"bench/internal/procid"
	"bench/runner"
)

const self = ""

// thisProcess fails: a trainer that outlives bench is found again by what only
// Linux tells of processes.
func thisProcess() (procid.ID, error) {
	return procid.ID{}, &runner.PreconditionError{What: "the process executor works on Linux only", Hint: "use --executor docker"}
}

func trainerAttr() *syscall.SysProcAttr { return nil }
func adoptOrphans() error               { return nil }
func preferAsVictim(int)                {}
func oomKills() uint64                  { return 0 }
func descendantsMemory(int) int64       { return 0 }
func reapOrphans(time.Duration)         {}
