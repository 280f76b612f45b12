//go:build !linux

package containers

import (
	"os"
	"os/exec"
)

// dieWithParent does nothing: only Linux ends a child with its parent.
func dieWithParent(*exec.Cmd) {}

func endGroup(p *os.Process) error { return p.Kill() }
