package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"bench/internal/procid"
	"bench/runner"
	"bench/runner/job"
)

// order is what a supervisor reads from its stdin.
type order struct {
	Batch       job.ID        `json:"batch"`
	Dir         job.Dir       `json:"dir"` // absolute
	TempDir     string        `json:"temp_dir"`
	Argv        []string      `json:"argv"`
	Env         []string      `json:"env"`
	MemoryBytes int64         `json:"memory_bytes"`
	Time        time.Duration `json:"time"`
	Grace       time.Duration `json:"grace"`
	Where       runner.Where  `json:"where"`
}

// reply is what a supervisor answers.
type reply struct {
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

const (
	replyStarted   = "started"
	replyRunning   = "running"    // another supervisor has the batch
	replyNoProgram = "no-program" // the trainer cannot be executed
	replyFailed    = "failed"
)

// record is executor.json: which process watches over the batch.
type record struct {
	Schema  int          `json:"schema"` // recordSchema
	Batch   job.ID       `json:"batch"`
	Run     string       `json:"run"` // differs between starts of one batch
	Process procid.ID    `json:"process"`
	Command []string     `json:"command"`
	Scratch string       `json:"scratch"`
	Started time.Time    `json:"started"`
	Where   runner.Where `json:"where"`
}

const recordSchema = 1

// ended is exit.json, written once the trainer has ended and its files are
// complete.
type ended struct {
	Run   string    `json:"run"`
	Exit  job.Exit  `json:"exit"`
	Ended time.Time `json:"ended"`
}

func exitFile(d job.Dir) string { return filepath.Join(string(d), "exit.json") }
func lockFile(d job.Dir) string { return filepath.Join(string(d), "executor.lock") }

// alive says whether the supervisor of r runs. One that cannot be seen from
// here (another host on a shared file system, another container) is known by
// the lock it holds.
func (r record) alive(d job.Dir) (bool, error) {
	here, err := thisProcess()
	if err != nil {
		return false, err
	}
	if r.Process.Near(here) {
		return r.Process.Runs(), nil
	}
	held, err := lock(lockFile(d))
	switch {
	case errors.Is(err, errLocked):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, held.Close()
}

// signal sends s to the supervisor of r, and to no other process.
func (r record) signal(s syscall.Signal) error {
	here, err := thisProcess()
	if err != nil {
		return err
	}
	if !r.Process.Near(here) {
		return fmt.Errorf("it runs elsewhere (host %s, process %d): stop it there", r.Where.Host, r.Process.PID)
	}
	p, err := os.FindProcess(r.Process.PID) // holds on to the process itself where the system can (pidfd)
	if err != nil {
		return nil // it has ended
	}
	defer p.Release()
	if !r.Process.Runs() {
		return nil
	}
	if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

var errLocked = errors.New("locked by another process")

// lock takes the lock that is the file at path, or returns errLocked. The lock
// goes with the last process that has the file open. On file systems without
// locks it always succeeds.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		f.Close()
		return nil, errLocked
	}
	if err != nil && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.ENOLCK) {
		f.Close()
		return nil, err
	}
	return f, nil
}
