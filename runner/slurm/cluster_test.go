//go:build linux

package slurm

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
	"bench/runner/slurm/slurmtest"
)

// The test program is also the stub trainer.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "stub-trainer" {
		os.Exit(stub.Run(os.Args[2:], os.Stdout, os.Stderr))
	}
	code := m.Run()
	if started != nil {
		started.Down()
	}
	distant.down()
	os.Exit(code)
}

var (
	once     sync.Once
	started  *slurmtest.Cluster
	startErr error
)

// testCluster is the real Slurm that the tests of this package share. Those that
// kill daemons run one after the other, and first; the others are parallel.
func testCluster(t *testing.T) *slurmtest.Cluster {
	t.Helper()
	slurmtest.Need(t)
	once.Do(func() {
		if started, startErr = slurmtest.Up(); startErr == nil {
			os.Setenv("SLURM_CONF", started.Conf)
		}
	})
	if startErr != nil {
		t.Fatal(startErr)
	}
	return started
}

// options run the stub.
func options(t *testing.T) Options {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(context.Context) (Program, error) { return Program{Command: []string{exe, "stub-trainer"}}, nil }
	return Options{Program: run, Poll: 200 * time.Millisecond, Notice: func(s string) { t.Log(s) }}
}

func TestContract(t *testing.T) {
	t.Parallel()
	testCluster(t)
	runnertest.TestExecutor(t, runnertest.Factory{
		Open:     func(t *testing.T) runner.Executor { return New(options(t)) },
		Outlives: true,
		Prepare: func(t *testing.T, d job.Dir, jobs int, s stub.Script) (job.Batch, string) {
			return runnertest.WriteBatch(t, d, jobs, s), ""
		},
	})
}
