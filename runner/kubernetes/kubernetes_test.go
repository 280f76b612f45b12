package kubernetes

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// programs are the stand-in for kubectl and the trainer that its pods run,
// built once.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bench-fakekubectl-")
	if err != nil {
		return "", err
	}
	built = dir
	cmd := exec.Command("go", "build", "-o", dir, "./fakekubectl", "bench/runner/runnertest/stubtrainer")
	cmd.Stderr = os.Stderr
	return dir, cmd.Run()
})

var built string // their folder; "": not built

// python is the folder of python3 itself: what is first in PATH may be a script
// that looks for it, which takes longer than what pods do with it.
var python = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("python3", "-I", "-c", "import sys; print(sys.executable)").Output()
	return filepath.Dir(string(path)), err
})

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// lab is a cluster of the stand-in.
type lab struct {
	*testing.T
	root string
	o    Options
}

const claim = "work"

func newLab(t *testing.T) *lab {
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	python, err := python()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, root: t.TempDir()}
	// Not this process' variables: tests run at the same time.
	kubectl := filepath.Join(l.root, "kubectl")
	script := fmt.Sprintf("#!/bin/sh\nPATH='%s':\"$PATH\" BENCH_FAKE_KUBE='%s' BENCH_FAKE_TRAINER='%s/stubtrainer' exec '%s/fakekubectl' \"$@\"\n", python, l.root, dir, dir)
	if err := os.WriteFile(kubectl, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	volume := filepath.Join(l.root, "volumes", claim)
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	l.o = Options{
		Place: Place{Kubectl: kubectl, Instance: "0123456789ab", Claim: claim, Path: volume},
		Image: "registry.example.org/bench-trainer@sha256:0", Version: "test", Grace: time.Second, Poll: 50 * time.Millisecond,
		Limits: runner.Limits{CPUs: 1, MemoryBytes: 256 << 20},
	}
	return l
}

func (l *lab) open() *Executor {
	e := New(l.o)
	l.Cleanup(func() { e.Close() })
	return e
}

func contract(t *testing.T, l *lab, latency time.Duration) {
	runnertest.TestExecutor(t, runnertest.Factory{
		Open: func(*testing.T) runner.Executor { return l.open() },
		Prepare: func(t *testing.T, d job.Dir, jobs int, s stub.Script) (job.Batch, string) {
			return runnertest.WriteBatch(t, d, jobs, s), ""
		},
		Outlives: true, Latency: latency,
	})
}

// The volume is mounted on this machine.
func TestContract(t *testing.T) {
	t.Parallel()
	contract(t, newLab(t), time.Second)
}

// The volume is reached through the helper pod.
func TestContractHelper(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.o.Path = ""
	contract(t, l, time.Second)
}

// start starts a batch of two jobs with a new executor.
func (l *lab) start(s stub.Script) (*Executor, runner.Handle, job.Batch, job.Dir) {
	l.Helper()
	d := job.Dir(filepath.Join(l.TempDir(), "batch"))
	if err := os.MkdirAll(d.Out(), 0o755); err != nil {
		l.Fatal(err)
	}
	b := runnertest.WriteBatch(l.T, d, 2, s)
	e := l.open()
	h, err := e.Start(l.Context(), b, d)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		h.Stop(context.Background())
		h.Wait(context.Background())
	})
	return e, h, b, d
}

// A kubectl that is killed is started again, and batches do not notice.
func TestKubectlIsKilled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	e, h, b, d := l.start(stub.Script{Pause: time.Second, LogLines: 100, Code: 7})
	l.appears(d, b.Jobs[0])
	for range 2 {
		for _, c := range e.clusters {
			c.connection.mu.Lock()
			k := c.child
			c.connection.mu.Unlock()
			k.kill()
		}
		time.Sleep(200 * time.Millisecond)
	}
	if x, err := l.ends(h); err != nil || x != (job.Exit{Code: 7}) {
		t.Errorf("%+v, %v", x, err)
	}
	if log, err := os.ReadFile(d.Log()); err != nil || strings.Count(string(log), "\nline ") != 100 {
		t.Errorf("the log has %d bytes, %v", len(log), err)
	}
}

// Sockets of a bench that was killed are removed, those in use are not.
func TestRemoveDead(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"dead", "live", "empty"} {
		d := filepath.Join(dir, socketPrefix+name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if name != "empty" {
			s, err := net.Listen("unix", filepath.Join(d, "api"))
			if err != nil {
				t.Fatal(err)
			}
			s.(*net.UnixListener).SetUnlinkOnClose(false)
			if name == "dead" {
				s.Close()
			} else {
				defer s.Close()
			}
		}
		if err := os.Chtimes(d, old, old); err != nil {
			t.Fatal(err)
		}
	}
	removeDead(dir)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != socketPrefix+"live" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A batch that writes too much is stopped, and what it had finished counts.
func TestTooMuchOutput(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.o.OutBytes = 10
	_, h, b, d := l.start(stub.Script{Linger: time.Minute})
	if x, err := l.ends(h); err != nil || !x.Stopped || x.TimedOut || !strings.Contains(x.Detail, "are allowed") {
		t.Errorf("%+v, %v", x, err)
	}
	l.appears(d, b.Jobs[1])
}

// What a trainer wrote that is not a plain file makes its job fail, at the end.
func TestHostileOut(t *testing.T) {
	from := t.TempDir()
	h := &handle{d: job.Dir(t.TempDir())}
	const id = job.ID("0123456789abcdef")
	if err := os.Mkdir(filepath.Join(from, string(id)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(from, string(id), kept.Outcome)); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(h.d.Out(), string(id), kept.Outcome)
	if err := h.take(from, id, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("it was taken, although the batch runs on")
	}
	if err := h.take(from, id, true); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(to); err != nil || !strings.Contains(string(b), `"failure":"output"`) || !strings.Contains(string(b), "is a symbolic link") {
		t.Errorf("%s, %v", b, err)
	}
}
