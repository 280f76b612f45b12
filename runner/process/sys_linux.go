package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bench/internal/procid"

	"golang.org/x/sys/unix"
)

// self leads to the program of the process that opens it.
const self = "/proc/self/exe"

// thisProcess returns the identity of the calling process.
func thisProcess() (procid.ID, error) { return procid.Self() }

// trainerAttr: a process group that can be signalled as one, and death
// together with the supervisor.
func trainerAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of what its descendants leave
// behind.
func adoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// preferAsVictim lets the kernel's out-of-memory killer take the trainer before
// its supervisor, bench, and the rest of the user's session.
func preferAsVictim(pid int) {
	os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("500"), 0)
}

// oomKills counts what the out-of-memory killer has killed since boot, for the
// machine's limit or for a control group's.
func oomKills() uint64 {
	b, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// processes returns the stat of every process that can be seen.
func processes() map[int]procid.Stat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	all := map[int]procid.Stat{}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if st, err := procid.Read(pid); err == nil {
				all[pid] = st
			}
		}
	}
	return all
}

// descendantsMemory sums up the memory, in bytes, that the descendants of root
// hold and that no file backs: anonymous, shared and swapped pages. Pages of
// memory-mapped weights and libraries can be dropped by the kernel and do not
// count; pages shared by several of the processes count once for each.
func descendantsMemory(root int) int64 {
	all := processes()
	var sum int64
	for pid := range all {
		for p, hops := all[pid].Parent, 0; p > 1 && hops < 1000; p, hops = all[p].Parent, hops+1 {
			if p == root {
				sum += heldMemory(pid)
				break
			}
		}
	}
	return sum
}

func heldMemory(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	var kB int64
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 3 && (f[0] == "RssAnon:" || f[0] == "RssShmem:" || f[0] == "VmSwap:") {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil {
				kB += n
			}
		}
	}
	return kB << 10
}

// reapOrphans kills the children of this process, and the children that come
// to it by their deaths, until there are none or the time is up.
func reapOrphans(limit time.Duration) {
	me := os.Getpid()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for pid, st := range processes() {
			if st.Parent == me && st.State != 'Z' {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.ECHILD {
				return
			}
			if err != syscall.EINTR && pid <= 0 {
				break
			}
		}
	}
}
