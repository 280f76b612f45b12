package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
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
	l := &lab{T: t, root: t.TempDir()}
	t.Setenv("BENCH_FAKE_KUBE", l.root)
	t.Setenv("BENCH_FAKE_TRAINER", filepath.Join(dir, "stubtrainer"))
	volume := filepath.Join(l.root, "volumes", claim)
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	l.o = Options{
		Place: Place{Kubectl: filepath.Join(dir, "fakekubectl"), Instance: "0123456789ab", Claim: claim, Path: volume},
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

func contract(t *testing.T, l *lab) {
	runnertest.TestExecutor(t, runnertest.Factory{
		Open: func(*testing.T) runner.Executor { return l.open() },
		Prepare: func(t *testing.T, d job.Dir, jobs int, s stub.Script) (job.Batch, string) {
			return runnertest.WriteBatch(t, d, jobs, s), ""
		},
		Outlives: true,
	})
}

// The volume is mounted on this machine.
func TestContract(t *testing.T) { contract(t, newLab(t)) }

// The volume is reached through the helper pod.
func TestContractHelper(t *testing.T) {
	l := newLab(t)
	l.o.Path = ""
	contract(t, l)
}
