package sshlink

import (
	"os"
	"os/exec"
	"syscall"
)

// dieWithParent puts cmd into a process group of its own, which a Ctrl-C does
// not reach, and has the kernel end it when this process dies however.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// separate puts cmd into a process group of its own. The kernel would end it
// with the thread that started it, which may go before the process does.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup ends a process that one of them prepared, and its children.
func endGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }
