//go:build linux

package slurm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/internal/sshlink/sshtest"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
	"bench/runner/slurm/slurmtest"
)

// away is a real Slurm behind an ssh server. Its nodes do not see the folders of
// bench, and bench's own commands know nothing of it: PATH leads to an ssh that
// knows the host "engine", and SLURM_CONF is set there only.
type away struct {
	once    sync.Once
	err     error
	cluster *slurmtest.Cluster
	server  *sshtest.Server
	dir     string
	home    string // bench's folders; nodes see an empty one
	folder  string // on the cluster
}

var distant away

func (a *away) up() {
	if a.dir, a.err = os.MkdirTemp("/tmp", "bench-far-"); a.err != nil {
		return
	}
	a.home, a.folder = filepath.Join(a.dir, "home"), filepath.Join(a.dir, "cluster's", "folder")
	if a.err = errors.Join(os.Mkdir(a.home, 0o700), os.MkdirAll(a.folder, 0o700), os.Mkdir(filepath.Join(a.dir, "run"), 0o700), os.Mkdir(filepath.Join(a.dir, "ssh"), 0o700)); a.err != nil {
		return
	}
	if a.cluster, a.err = slurmtest.Up(); a.err != nil {
		return
	}
	for i := range a.cluster.Nodes {
		a.cluster.KillNode(i)
		a.err = errors.Join(a.err, a.cluster.StartNode(i, a.home))
	}
	if a.err = errors.Join(a.err, a.cluster.Ready(30*time.Second)); a.err != nil {
		return
	}
	if a.server, a.err = sshtest.Up(filepath.Join(a.dir, "ssh"), "SetEnv HOME="+a.dir+" SLURM_CONF="+a.cluster.Conf+" HF_TOKEN=hunter2"); a.err != nil {
		return
	}
	a.err = errors.Join(os.Setenv("PATH", a.server.Commands+":"+os.Getenv("PATH")), os.Setenv("XDG_RUNTIME_DIR", filepath.Join(a.dir, "run")))
}

func (a *away) down() {
	if a.server != nil {
		a.server.Kill()
	}
	if a.cluster != nil {
		a.cluster.Down()
	}
	if a.dir != "" {
		os.RemoveAll(a.dir)
	}
}

func farCluster(t *testing.T) *away {
	t.Helper()
	slurmtest.Need(t)
	if why := sshtest.Lacks(); why != "" {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "ssh") {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	distant.once.Do(distant.up)
	if distant.err != nil {
		t.Fatal(distant.err)
	}
	return &distant
}

func farOptions(t *testing.T) Options {
	o := options(t)
	o.Poll = time.Second
	o.Site = Site{Host: "engine", Folder: distant.folder, Instance: "test"}
	return o
}

// open returns an executor that is closed with the test.
func openFar(t *testing.T, o Options) *Executor {
	e := New(o)
	t.Cleanup(e.Close)
	return e
}

func (a *away) newDir(t *testing.T, base string) job.Dir {
	t.Helper()
	parent, err := os.MkdirTemp(a.home, "batch-")
	if err != nil {
		t.Fatal(err)
	}
	d := job.Dir(filepath.Join(parent, base))
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	return d
}

// masters are the ssh processes of this test that hold a connection.
func (a *away) masters(t *testing.T) (pids []int) {
	t.Helper()
	processes, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		args, err := os.ReadFile(filepath.Join("/proc", p.Name(), "cmdline"))
		if err == nil && bytes.Contains(args, []byte("ControlMaster=yes")) && bytes.Contains(args, []byte(a.dir)) {
			if pid, err := strconv.Atoi(p.Name()); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// TestFar holds all that is tried behind ssh, one after the other, beside the
// tests of this machine's own cluster.
func TestFar(t *testing.T) {
	farCluster(t)
	t.Parallel()
	t.Run("contract", farContract)
	t.Run("array", farArray)
	t.Run("cut", farCut)
	t.Run("resume", farResume)
	t.Run("attach", farAttach)
	t.Run("preconditions", farPreconditions)
}

func farContract(t *testing.T) {
	a := farCluster(t)
	only := []string{"ends well", "start again after the end", "attach after bench died", "finished jobs are not done again"}
	if os.Getenv("BENCH_TEST_LONG") != "" {
		only = nil
	}
	runnertest.TestExecutor(t, runnertest.Factory{
		Open:     func(t *testing.T) runner.Executor { return openFar(t, farOptions(t)) },
		Outlives: true,
		Only:     only,
		Latency:  3 * time.Second,
		Timeout:  4 * time.Minute,
		Dir:      a.newDir,
		Prepare: func(t *testing.T, d job.Dir, jobs int, s stub.Script) (job.Batch, string) {
			return runnertest.WriteBatch(t, d, jobs, s), ""
		},
	})
	if left, err := os.ReadDir(filepath.Join(a.folder, "test", "batches")); err != nil || len(left) > 4 { // of cases that end while their trainer runs
		t.Errorf("left on the cluster: %v %v", left, err)
	}
}
