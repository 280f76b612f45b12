package process

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"bench/internal/atomicfile"
	"bench/runner/job"
	"bench/runner/kept"
)

// SuperviseArg, as the only argument, makes bench a supervisor: main must call
// Supervise then, before it does anything else.
const SuperviseArg = "__supervise-trainer"

const (
	// killTimeout bounds the time that dying processes are waited for.
	killTimeout = 10 * time.Second
	// memoryPause is the time between two looks at the trainer's memory.
	memoryPause = 200 * time.Millisecond
	// exitSize is the size of exit.json, padded with blanks. The file is made
	// before the trainer starts, so that a trainer which fills the disk cannot
	// keep its own end from being written down.
	exitSize = 4096
	// scratchPrefix begins the name of a trainer's HOME and TMPDIR.
	scratchPrefix = "bench-trainer-"
)

// Supervise is the life of a supervisor. It reads an order from stdin, answers
// on file descriptor 3, holds the batch's lock as 4, starts the trainer, keeps its limits, ends what is left
// of it, and writes exit.json. The trainer dies when its supervisor is killed.
// The result is an exit code for the supervisor itself: 0 if it did all that.
func Supervise() int {
	// Linux sends the trainer its death signal when the thread that started it
	// ends; the main goroutine keeps its thread for good.
	runtime.LockOSThread()
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP) // bench may be gone by now
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	answer := os.NewFile(3, "reply")
	say := func(state string, err error) int {
		r, code := reply{State: state}, 0
		if err != nil {
			r.Error, code = err.Error(), 1
		}
		json.NewEncoder(answer).Encode(r)
		answer.Close()
		return code
	}
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return say(replyFailed, fmt.Errorf("no order: %w", err))
	}
	// The lock is a share of that of the bench that started this. It goes with
	// this process: the trainer must not get one too.
	held := os.NewFile(4, "lock")
	syscall.CloseOnExec(4)
	defer held.Close()
	s := &supervisor{o: o, stop: stop}
	state, err := s.begin()
	code := say(state, err)
	if state != replyStarted {
		return code
	}
	if err := s.end(s.watch()); err != nil {
		fmt.Fprintln(os.Stderr, "bench: supervisor:", err) // goes to the log
		return 1
	}
	return 0
}

type supervisor struct {
	o       order
	stop    <-chan os.Signal
	r       record
	begun   time.Time // as r.Started, but on the clock that is never set
	exit    *os.File  // becomes exit.json
	trainer *exec.Cmd
	ooms    uint64 // kills of the kernel's out-of-memory killer before the start
}

// begin starts the trainer. The record is on the disk before the trainer runs,
// so that it is always found.
func (s *supervisor) begin() (state string, err error) {
	d := s.o.Dir
	me, err := thisProcess()
	if err != nil {
		return replyFailed, err
	}
	var old record
	if kept.ReadJSON(d.Executor(), &old) == nil {
		// Where locks do not work, the record is all there is.
		if old.Process.Near(me) && old.Process.Runs() {
			return replyRunning, nil
		}
		if strings.HasPrefix(filepath.Base(old.Scratch), scratchPrefix) {
			os.RemoveAll(old.Scratch)
		}
	}
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		return replyFailed, err
	}
	scratch, err := os.MkdirTemp(s.o.TempDir, scratchPrefix)
	if err != nil {
		return replyFailed, err
	}
	s.begun = time.Now()
	s.r = record{Schema: recordSchema, Batch: s.o.Batch, Run: rand.Text(), Process: me, Command: s.o.Argv,
		Scratch: scratch, Started: s.begun.UTC(), Where: s.o.Where}
	defer func() {
		if state != replyStarted {
			os.RemoveAll(scratch)
			os.Remove(d.Executor())
		}
	}()
	if err := s.reserveExit(); err != nil {
		return replyFailed, err
	}
	text, err := json.MarshalIndent(s.r, "", "  ")
	if err != nil {
		return replyFailed, err
	}
	if err := atomicfile.WriteBytes(d.Executor(), append(text, '\n')); err != nil {
		return replyFailed, err
	}
	if err := adoptOrphans(); err != nil {
		return replyFailed, err
	}
	s.ooms = oomKills()
	return s.startTrainer()
}

func (s *supervisor) startTrainer() (state string, err error) {
	files := make([]*os.File, 0, 2)
	for _, path := range []string{s.o.Dir.Events(), s.o.Dir.Log()} {
		// Appending: a batch that is started again keeps what it said before.
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			return replyFailed, err
		}
		defer f.Close()
		files = append(files, f)
	}
	c := exec.Command(s.o.Argv[0], s.o.Argv[1:]...)
	c.Dir = s.r.Scratch
	c.Env = append(s.o.Env[:len(s.o.Env):len(s.o.Env)], "HOME="+s.r.Scratch, "TMPDIR="+s.r.Scratch)
	// Files, not pipes: nothing is lost when readers come and go.
	c.Stdout, c.Stderr = files[0], files[1]
	c.SysProcAttr = trainerAttr()
	if err := c.Start(); err != nil {
		return replyNoProgram, err
	}
	s.trainer = c
	preferAsVictim(c.Process.Pid)
	return replyStarted, nil
}

// watch waits for the trainer and keeps its limits.
func (s *supervisor) watch() job.Exit {
	ended := make(chan struct{})
	go func() {
		s.trainer.Wait()
		close(ended)
	}()
	var x job.Exit
	var deadline, kill <-chan time.Time
	if s.o.Time > 0 {
		deadline = time.After(time.Until(s.begun.Add(s.o.Time)))
	}
	var memory <-chan time.Time
	if s.o.MemoryBytes > 0 {
		t := time.NewTicker(memoryPause)
		defer t.Stop()
		memory = t.C
	}
	terminate := func() {
		x.Stopped = true
		if kill == nil {
			s.signal(syscall.SIGTERM)
			kill = time.After(s.o.Grace)
		}
	}
	for {
		select {
		case <-ended:
			return s.ended(x)
		case <-s.stop:
			terminate()
		case <-deadline:
			x.TimedOut = true
			x.Detail = fmt.Sprintf("it ran longer than its time limit of %v", s.o.Time)
			terminate()
		case <-kill:
			s.signal(syscall.SIGKILL)
		case <-memory:
			if used := descendantsMemory(os.Getpid()); used > s.o.MemoryBytes {
				x.OOMKilled = true
				x.Detail = fmt.Sprintf("it used %d MiB of memory, its limit is %d MiB", used>>20, s.o.MemoryBytes>>20)
				s.signal(syscall.SIGKILL)
			}
		}
	}
}

// signal goes to the trainer and the processes of its group.
func (s *supervisor) signal(sig syscall.Signal) { syscall.Kill(-s.trainer.Process.Pid, sig) }

// ended completes x with how the trainer ended.
func (s *supervisor) ended(x job.Exit) job.Exit {
	status := s.trainer.ProcessState.Sys().(syscall.WaitStatus)
	x.Code = status.ExitStatus() // −1 if signalled
	if status.Signaled() {
		x.Signal = int(status.Signal())
	}
	if x.Signal == int(syscall.SIGKILL) && !x.Stopped && !x.OOMKilled && oomKills() > s.ooms {
		x.OOMKilled = true
		x.Detail = "the kernel killed it because the machine, or its control group, was out of memory"
	}
	return x
}

// end kills what the trainer left running, so that its files are complete, and
// writes exit.json.
func (s *supervisor) end(x job.Exit) error {
	s.signal(syscall.SIGKILL)
	reapOrphans(killTimeout)
	os.RemoveAll(s.r.Scratch)
	text, err := json.Marshal(ended{Run: s.r.Run, Exit: x, Ended: time.Now().UTC()})
	if err != nil {
		return err
	}
	text = append(text, bytes.Repeat([]byte{' '}, max(0, exitSize-1-len(text)))...)
	_, err = s.exit.WriteAt(append(text, '\n'), 0)
	err = errors.Join(err, s.exit.Sync(), s.exit.Close())
	if err != nil {
		return err
	}
	return os.Rename(s.exit.Name(), exitFile(s.o.Dir))
}

// reserveExit removes the exit of an earlier run and makes room for this one's.
func (s *supervisor) reserveExit() error {
	if err := os.Remove(exitFile(s.o.Dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(exitFile(s.o.Dir)+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(bytes.Repeat([]byte{' '}, exitSize)); err != nil {
		f.Close()
		return err
	}
	s.exit = f
	return f.Sync()
}
