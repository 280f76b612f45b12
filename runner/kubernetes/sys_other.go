//go:build !linux

package kubernetes

import "syscall"

// childAttr keeps Ctrl-C from the child.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
