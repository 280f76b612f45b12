package procid

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Self returns the identity of the calling process.
func Self() (ID, error) {
	boot, err := bootID()
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
	return ID{PID: os.Getpid(), Start: st.Start, Boot: boot, PIDs: pids}, nil
}

// Up names the boot of the machine, and says how long ago it was: time that goes on
// while the machine sleeps, and that setting the clock does not change.
func Up() (boot string, since time.Duration, err error) {
	if boot, err = bootID(); err != nil {
		return "", 0, err
	}
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return "", 0, err
	}
	return boot, time.Duration(t.Nano()), nil
}

// bootID is random at each boot of the machine.
var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

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
