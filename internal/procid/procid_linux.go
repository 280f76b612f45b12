package procid

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Self returns the identity of the calling process.
func Self() (ID, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ID{}, err
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ID{}, err
	}
	st, err := Read(os.Getpid())
	if err != nil {
		return ID{}, err
	}
	return ID{PID: os.Getpid(), Start: st.Start, Boot: strings.TrimSpace(string(boot)), PIDs: pids}, nil
}

// Runs says whether the process that id names runs in this boot and pid
// namespace. A zombie does not run.
func (id ID) Runs() bool {
	st, err := Read(id.PID)
	return err == nil && st.Start == id.Start && st.State != 'Z' && st.State != 'X'
}

// Read reads /proc/PID/stat, see proc_pid_stat(5): "pid (comm) state ppid …
// starttime …", where comm may hold blanks and parentheses.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return Stat{}, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	st := Stat{State: f[0][0]}
	if st.Parent, err = strconv.Atoi(f[1]); err != nil {
		return Stat{}, err
	}
	st.Start, err = strconv.ParseUint(f[19], 10, 64)
	return st, err
}
