package kubernetes

import "syscall"

// childAttr keeps Ctrl-C from the child, which dies with bench.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
