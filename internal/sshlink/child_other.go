//go:build !linux

package sshlink

import (
	"os"
	"os/exec"
)

// dieWithParent does nothing: only Linux ends a child with its parent.
func dieWithParent(*exec.Cmd) {}

// separate does nothing: see dieWithParent.
func separate(*exec.Cmd) {}

func endGroup(p *os.Process) error { return p.Kill() }
