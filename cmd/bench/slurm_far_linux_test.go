package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/internal/sshlink/sshtest"
	"bench/runner/slurm/slurmtest"
)

// farSlurm is a real Slurm behind ssh, and a bench on another machine: nodes do
// not see its home, its own Slurm commands know no cluster, and it has only the
// ssh host "engine".
type farSlurm struct {
	*cli
	cluster *slurmtest.Cluster
	runtime string // XDG_RUNTIME_DIR
	folder  string // on the cluster
}

func newFarSlurm(t *testing.T) *farSlurm {
	t.Helper()
	c := slurmCluster(t)
	if why := sshtest.Lacks(); why != "" {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "ssh") {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	p := newCLI(t)
	if err := os.MkdirAll(p.home, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range c.Nodes {
		c.KillNode(i)
		if err := c.StartNode(i, p.home); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Ready(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	server, err := sshtest.Up(t.TempDir(), "SetEnv HOME="+t.TempDir()+" SLURM_CONF="+c.Conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	f := &farSlurm{cli: p, cluster: c, folder: filepath.Join(t.TempDir(), "a folder")}
	if f.runtime, err = os.MkdirTemp("/tmp", "bench-run-"); err != nil { // sockets have short paths
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(f.runtime) })
	p.env = []string{"PATH=" + server.Commands + ":" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + f.runtime, "SLURM_CONF=/nonexistent"}
	return f
}

// cut kills the ssh processes that hold this bench's connections, if they stand:
// a login that fails at the start is told to the user.
func (f *farSlurm) cut() (n int) {
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range processes {
		args, err := os.ReadFile(file)
		if pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && bad == nil && bytes.Contains(args, []byte("ControlMaster=yes")) && bytes.Contains(args, []byte(f.runtime)) {
			_, socket, _ := bytes.Cut(args, []byte("ControlPath="))
			socket, _, _ = bytes.Cut(socket, []byte{0})
			if _, err := os.Stat(string(socket)); err != nil {
				continue
			}
			syscall.Kill(pid, syscall.SIGKILL)
			n++
		}
	}
	return n
}

// A sweep over ssh, in job arrays, whose bench is killed and whose connection is
// cut: every job runs once, and all predictions are those of processes here.
func TestSlurmFarSweep(t *testing.T) {
	f := newFarSlurm(t)
	python, log := fakePython(t, "STANDIN_PAUSE=300ms")
	models := localModels(t, 2)
	whole := newCLI(t)
	quick, _ := fakePython(t)
	whole.run(0, append([]string{"run", "--suite", "sample", "--seeds", "2", "--slots", "4", "--executor", "process", "--python", quick}, models...)...)

	file := filepath.Join(t.TempDir(), "sweep.yaml")
	text := "suite: sample\nseeds: 2\nexecutor: slurm\npython: " + python + "\nmemory: 200m\ndevice: cpu\nslurm:\n  host: engine\n  folder: " + f.folder + "\n  array: 3\n  poll: 500ms\nmodels:\n"
	for _, m := range models {
		text += "  - " + m + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	over, cuts := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { cuts <- n }()
		for n < 8 {
			select {
			case <-over:
				return
			case <-time.After(2500 * time.Millisecond):
				n += f.cut()
			}
		}
	}()
	l := &ledger{p: f.cli}
	f.soak(max(3, kills(t)/4), 4*time.Second, l.look, "sweep", file)
	close(over)
	t.Logf("the connection was cut %d times", <-cuts)
	l.complete(16, 2*4, whole.predictions())
	begun := starts(t, log)
	for id, n := range begun {
		if n != 1 {
			t.Errorf("job %s was begun %d times", id.Short(), n)
		}
	}
	if len(begun) != 16 {
		t.Errorf("%d jobs were begun, want 16", len(begun))
	}
	eventually(t, "Slurm's queue is empty", func() bool {
		out, err := f.cluster.Run("squeue", "--noheader")
		return err == nil && strings.TrimSpace(out) == ""
	})
	flags := []string{"--slurm-host", "engine", "--slurm-folder", f.folder}
	has(t, f.try(append([]string{"doctor"}, flags...)...).stdout, "ok       slurm", "sandpit/gpu: nodes: 2 ")
	has(t, f.run(0, append([]string{"gc"}, flags...)...).stdout, "removed "+f.folder)
	if left, err := os.ReadDir(f.folder); err != nil || len(left) > 0 {
		t.Errorf("left on the cluster: %v %v", left, err)
	}

	for _, test := range []struct{ host, says string }{
		{"nosuchhost.invalid", "look at the name of the host"},
		{"engine:1", "no ssh server listens there"},
	} {
		began := time.Now()
		r := newCLI(t)
		r.env = f.env
		got := r.run(4, "run", "fresh:tiny", "--suite", "sample", "--seeds", "1", "--executor", "slurm", "--python", python, "--slurm-host", test.host, "--slurm-folder", f.folder)
		has(t, got.stderr, test.says)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s took %v", test.host, took)
		}
	}
	args := []string{"run", "fresh:tiny", "--suite", "sample", "--seeds", "1", "--executor", "slurm", "--slurm-host", "engine", "--slurm-folder", f.folder, "--python", "/nonexistent/python"}
	has(t, f.run(4, args...).stderr, "/nonexistent/python is not there", "name a Python that has torch")
	has(t, f.run(64, "run", "fresh:tiny", "--executor", "slurm", "--slurm-host", "engine").stderr, "--slurm-folder", "--python")
	has(t, f.run(64, "run", "fresh:tiny", "--executor", "slurm", "--slurm-array", "-1").stderr, fmt.Sprint("at most ", maxArray))
}
