//go:build linux

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/internal/procid"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// The test program is also the supervisor, the stub trainer, and a bench that
// starts a batch and is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case SuperviseArg:
			os.Exit(Supervise())
		case "stub-trainer":
			os.Exit(stub.Run(os.Args[2:], os.Stdout, os.Stderr))
		case "ensure-venv":
			EnsureVenv(context.Background(), os.Args[2], benchprobe, os.Args[3], io.Discard)
			os.Exit(0)
		case "start-and-hang":
			os.Exit(startAndHang(job.Dir(os.Args[2])))
		}
	}
	os.Exit(m.Run())
}

func options(t *testing.T) Options {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Command: []string{exe, "stub-trainer"}, Grace: 300 * time.Millisecond}
}

func newDir(t *testing.T) job.Dir {
	t.Helper()
	d := job.Dir(filepath.Join(t.TempDir(), "batch"))
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		t.Fatal(err)
	}
	return d
}

func start(t *testing.T, e runner.Executor, b job.Batch, d job.Dir) runner.Handle {
	t.Helper()
	h, err := e.Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wait(t *testing.T, h runner.Handle) job.Exit {
	t.Helper()
	x, err := h.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

func running(pid int) bool {
	st, err := procid.Read(pid)
	return err == nil && st.State != 'Z'
}

func TestContract(t *testing.T) {
	t.Parallel()
	runnertest.TestExecutor(t, runnertest.Factory{
		Open:     func(t *testing.T) runner.Executor { return New(options(t)) },
		Outlives: true,
		Prepare: func(t *testing.T, d job.Dir, jobs int, s stub.Script) (job.Batch, string) {
			return runnertest.WriteBatch(t, d, jobs, s), ""
		},
	})
}

func startAndHang(d job.Dir) int {
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	var b job.Batch
	text, err := os.ReadFile(filepath.Join(d.In(), "batch.json"))
	if err != nil || json.Unmarshal(text, &b) != nil {
		return 1
	}
	if _, err := New(Options{Command: []string{exe, "stub-trainer"}}).Start(context.Background(), b, d); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	time.Sleep(time.Hour)
	return 0
}

// A bench that dies of SIGKILL, with its whole process group, leaves the batch
// alive; another process finds it and learns its exit code.
func TestBenchKilled(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	b := runnertest.WriteBatch(t, d, 2, stub.Script{Pause: 1500 * time.Millisecond, LogLines: 10, Code: job.ExitAgain})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, "start-and-hang", string(d))
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(d.Out(), string(b.Jobs[0].ID), "outcome.json")
	eventually(t, "the first job is done", func() bool { _, err := os.Stat(first); return err == nil })
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	h, err := New(options(t)).Attach(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	if x := wait(t, h); x != (job.Exit{Code: job.ExitAgain}) {
		t.Errorf("exit is %+v", x)
	}
	if log := read(t, d.Log()); !strings.HasSuffix(log, stub.LastLine) || strings.Count(log, "stub: start") != 1 {
		t.Errorf("log: %s", log)
	}
}

// A bench that is killed at any instant of starting a batch leaves either
// nothing or a batch that Attach finds: none that begins when Attach has said
// that there is none.
func TestBenchKilledWhileStarting(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := range 24 {
		d := newDir(t)
		b := runnertest.WriteBatch(t, d, 1, stub.Script{LogLines: 1})
		c := exec.Command(exe, "start-and-hang", string(d))
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(at) * 500 * time.Microsecond)
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		c.Wait()
		h, err := New(options(t)).Attach(t.Context(), b, d)
		if err == nil {
			found++
			if x := wait(t, h); x != (job.Exit{}) {
				t.Errorf("killed at instant %d: exit is %+v", at, x)
			}
			continue
		}
		if !errors.Is(err, runner.ErrNotFound) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if _, err := os.Stat(d.Executor()); err == nil {
			t.Errorf("killed at instant %d: Attach found nothing, and then the batch began", at)
		}
	}
	t.Logf("%d of 24 had begun", found)
}

// When the supervisor is killed, the trainer dies with it, the batch counts as
// cut off, and can be started again.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	b := runnertest.WriteBatch(t, d, 2, stub.Script{Pause: time.Hour})
	e := New(options(t))
	h := start(t, e, b, d)
	first := filepath.Join(d.Out(), string(b.Jobs[0].ID), "outcome.json")
	eventually(t, "the first job is done", func() bool { _, err := os.Stat(first); return err == nil })
	r := h.(*handle).r
	trainer := 0
	for pid, st := range processes() {
		if st.Parent == r.Process.PID {
			trainer = pid
		}
	}
	if trainer == 0 {
		t.Fatal("the supervisor has no child")
	}
	if err := syscall.Kill(r.Process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if x := wait(t, h); x.Code != -1 || x.Signal != 9 || !x.Stopped || x.Detail == "" {
		t.Errorf("exit is %+v", x)
	}
	eventually(t, "the trainer is dead", func() bool { return !running(trainer) })
	if err := os.WriteFile(filepath.Join(d.In(), stub.ScriptFile), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	if x := wait(t, start(t, e, b, d)); x != (job.Exit{}) {
		t.Errorf("exit of the second start is %+v", x)
	}
	if _, err := os.Stat(r.Scratch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("scratch of the killed run: %v, want it removed", err)
	}
}

// A record whose pid now belongs to another process, to another boot or to
// another pid namespace does not name a running batch.
func TestPIDReuse(t *testing.T) {
	t.Parallel()
	me, err := thisProcess()
	if err != nil {
		t.Fatal(err)
	}
	if !me.Runs() {
		t.Error("this process is not the same as itself")
	}
	for name, change := range map[string]func(*procid.ID){
		"start": func(id *procid.ID) { id.Start-- },
		"boot":  func(id *procid.ID) { id.Boot = "another" },
		"pids":  func(id *procid.ID) { id.PIDs = "pid:[1]" },
	} {
		d := newDir(t)
		b := runnertest.WriteBatch(t, d, 1, stub.Script{})
		r := record{Schema: recordSchema, Batch: b.ID, Run: "x", Process: me, Where: runner.Where{Executor: Name, Host: "h"}}
		change(&r.Process)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.Executor(), text, 0o666); err != nil {
			t.Fatal(err)
		}
		h, err := New(options(t)).Attach(t.Context(), b, d)
		if err != nil {
			t.Fatal(err)
		}
		// Where the lock is held, it runs elsewhere.
		if name != "start" {
			held, err := lock(lockFile(d))
			if err != nil {
				t.Fatal(err)
			}
			if on, err := r.alive(d); err != nil || !on {
				t.Errorf("%s: batch of another host that holds its lock: alive %v, %v", name, on, err)
			}
			if err := h.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "runs elsewhere") {
				t.Errorf("%s: Stop: %v", name, err)
			}
			held.Close()
		}
		if x := wait(t, h); !x.Stopped || x.Signal != 9 {
			t.Errorf("%s: exit is %+v, want one that was cut off", name, x)
		}
		if x := wait(t, start(t, New(options(t)), b, d)); x != (job.Exit{}) {
			t.Errorf("%s: exit of the new start is %+v", name, x)
		}
	}
}

func TestZombieIsDead(t *testing.T) {
	t.Parallel()
	c := exec.Command("sleep", "100")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := thisProcess()
	if err != nil {
		t.Fatal(err)
	}
	st, err := procid.Read(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	id.PID, id.Start = c.Process.Pid, st.Start
	if !id.Runs() {
		t.Error("a sleeping process counts as dead")
	}
	c.Process.Kill()
	eventually(t, "the child is a zombie", func() bool { st, err := procid.Read(id.PID); return err == nil && st.State == 'Z' })
	if id.Runs() {
		t.Error("a zombie counts as alive")
	}
	c.Wait()
}

// Descendants that hide in sessions of their own end with the batch.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		d := newDir(t)
		s := stub.Script{Child: true}
		if stopped {
			s.Linger = time.Hour
		}
		b := runnertest.WriteBatch(t, d, 1, s)
		h := start(t, New(options(t)), b, d)
		child := 0
		eventually(t, "the log names the child", func() bool {
			_, rest, ok := strings.Cut(read(t, d.Log()), "child ")
			if line, _, whole := strings.Cut(rest, "\n"); ok && whole {
				child, _ = strconv.Atoi(line)
			}
			return child != 0
		})
		if stopped {
			if err := h.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if x := wait(t, h); x.Stopped != stopped {
			t.Errorf("exit is %+v", x)
		}
		if running(child) {
			t.Errorf("process %d is still there", child)
		}
		if _, err := os.Stat(h.(*handle).r.Scratch); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("scratch is still there: %v", err)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		o := options(t)
		o.Limits.Time = 400 * time.Millisecond
		d := newDir(t)
		b := runnertest.WriteBatch(t, d, 1, stub.Script{Linger: time.Hour, IgnoreTERM: true})
		if x := wait(t, start(t, New(o), b, d)); !x.TimedOut || !x.Stopped || x.Signal != 9 || x.OOMKilled {
			t.Errorf("exit is %+v", x)
		}
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		o := options(t)
		o.Limits.MemoryBytes = 200 << 20
		d := newDir(t)
		b := runnertest.WriteBatch(t, d, 1, stub.Script{Memory: 400 << 20, Linger: time.Hour})
		if x := wait(t, start(t, New(o), b, d)); !x.OOMKilled || x.Code != -1 || x.Signal != 9 || x.Stopped || x.Detail == "" {
			t.Errorf("exit is %+v", x)
		}
		d = newDir(t)
		b = runnertest.WriteBatch(t, d, 1, stub.Script{Memory: 50 << 20, Linger: 500 * time.Millisecond})
		if x := wait(t, start(t, New(o), b, d)); x != (job.Exit{}) {
			t.Errorf("exit under the limit is %+v", x)
		}
	})
}

// A trainer that fills the disk cannot keep its end from being written down:
// the file system of this test, if it can be made, is full by then.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("bench-test", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skip("no file system of limited size can be mounted:", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	d := job.Dir(filepath.Join(dir, "batch"))
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		t.Fatal(err)
	}
	b := runnertest.WriteBatch(t, d, 1, stub.Script{LogLines: 50_000, Code: job.ExitAgain})
	x := wait(t, start(t, New(options(t)), b, d))
	if x != (job.Exit{Code: job.ExitAgain}) {
		t.Errorf("exit is %+v", x)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Bfree > 1 {
		t.Errorf("the disk was not full: %d blocks free, %v", fs.Bfree, err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("HF_TOKEN", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	t.Setenv("LANG", "da_DK.UTF-8")
	o := options(t)
	o.Env = []string{"EXTRA=yes"}
	o.Limits.CPUs = 3
	o.Limits.GPU = "none"
	d := newDir(t)
	b := runnertest.WriteBatch(t, d, 1, stub.Script{Environment: true})
	b.Threads = 0
	if x := wait(t, start(t, New(o), b, d)); x != (job.Exit{}) {
		t.Fatalf("exit is %+v", x)
	}
	log := read(t, d.Log())
	lines := strings.Split(log, "\n")
	for _, want := range []string{"EXTRA=yes", "LANG=da_DK.UTF-8", "OMP_NUM_THREADS=3", "RAYON_NUM_THREADS=3", "HF_HUB_OFFLINE=1", "TOKENIZERS_PARALLELISM=false", "CUDA_VISIBLE_DEVICES="} {
		if !slices.Contains(lines, "env "+want) {
			t.Errorf("the trainer does not see %s:\n%s", want, log)
		}
	}
	if strings.Contains(log, "secret") || strings.Contains(log, "env HF_TOKEN") {
		t.Errorf("a secret reaches the trainer:\n%s", log)
	}
	if strings.Contains(log, "env HOME="+os.Getenv("HOME")+"\n") {
		t.Error("the trainer sees the user's HOME")
	}
	// Only stdin, stdout and stderr are open.
	for _, want := range []string{"fd 0 /dev/null", "fd 1 " + d.Events(), "fd 2 " + d.Log()} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, log)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	b := runnertest.WriteBatch(t, d, 1, stub.Script{})
	remote := b
	remote.Model.RemoteCode = true
	for name, c := range map[string]struct {
		o Options
		b job.Batch
	}{
		"remote code": {options(t), remote},
		"no program":  {Options{Command: []string{"/nonexistent/trainer"}}, b},
		"no Python":   {Options{Python: "/nonexistent/python"}, b},
	} {
		_, err := New(c.o).Start(t.Context(), c.b, d)
		if p, ok := errors.AsType[*runner.PreconditionError](err); !ok || p.Hint == "" {
			t.Errorf("%s: %v, want a PreconditionError with a hint", name, err)
		}
		if _, err := New(c.o).Attach(t.Context(), c.b, d); !errors.Is(err, runner.ErrNotFound) {
			t.Errorf("%s: Attach: %v, want runner.ErrNotFound", name, err)
		}
	}
	// A program that is no supervisor.
	o := options(t)
	o.Supervisor = []string{"true"}
	if _, err := New(o).Start(t.Context(), b, d); err == nil || !strings.Contains(err.Error(), "ended before it began") {
		t.Errorf("program without Supervise: %v", err)
	}
}

func TestChosen(t *testing.T) {
	t.Parallel()
	all := []string{"GPU-aa11", "GPU-bb22", "GPU-cc33"}
	for visible, want := range map[string][]string{
		"": all, "1": {"GPU-bb22"}, "2,0": {"GPU-cc33", "GPU-aa11"}, "0,-1,2": {"GPU-aa11"},
		"GPU-cc": {"GPU-cc33"}, "7": nil, "MIG-x": {"MIG-x"}, "none": nil,
	} {
		if got := chosen(all, visible); !slices.Equal(got, want) {
			t.Errorf("CUDA_VISIBLE_DEVICES=%s: %v, want %v", visible, got, want)
		}
	}
}

// Starting again in the very moment of the end is a new run, not the old one's
// exit.
func TestStartAtTheEnd(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	b := runnertest.WriteBatch(t, d, 1, stub.Script{})
	e := New(options(t))
	runs := map[string]bool{}
	for range 15 {
		h := start(t, e, b, d)
		if x := wait(t, h); x != (job.Exit{}) {
			t.Fatalf("exit is %+v", x)
		}
		runs[h.(*handle).r.Run] = true
	}
	if n := strings.Count(read(t, d.Log()), "stub: start"); n != 15 || len(runs) != 15 {
		t.Errorf("%d starts of the trainer and %d runs, want 15", n, len(runs))
	}
}
