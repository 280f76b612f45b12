//go:build linux

package slurm

import (
	"errors"
	"os"
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

// startAll starts batches at once and returns their handles in order.
func startAll(t *testing.T, e *Executor, newDir func(*testing.T) job.Dir, scripts ...stub.Script) ([]*handle, []job.Batch, []job.Dir) {
	t.Helper()
	handles, batches, dirs := make([]*handle, len(scripts)), make([]job.Batch, len(scripts)), make([]job.Dir, len(scripts))
	var all sync.WaitGroup
	for i, s := range scripts {
		dirs[i] = newDir(t)
		batches[i] = runnertest.WriteBatch(t, dirs[i], 2, s)
		all.Go(func() {
			h, err := e.Start(t.Context(), batches[i], dirs[i])
			if err != nil {
				t.Error(err)
				return
			}
			handles[i] = h.(*handle)
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return handles, batches, dirs
}

// arrays returns how many tasks each job array has, by its number.
func arrays(t *testing.T, handles []*handle) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, h := range handles {
		id, task, ok := strings.Cut(h.r.Job, "_")
		if !ok || task == "" {
			t.Errorf("job %s is no task of an array", h.r.Job)
		}
		n[id]++
	}
	return n
}

// With Array, batches that start at once are tasks of few job arrays; each ends
// as itself, is stopped alone, and is found by another bench.
func TestArray(t *testing.T) {
	testCluster(t)
	t.Parallel()
	o := options(t)
	o.Array = 4
	e := New(o)
	handles, batches, dirs := startAll(t, e, newDir, stub.Script{Code: 7}, stub.Script{}, stub.Script{Linger: time.Hour}, stub.Script{Code: 70, LogLines: 10}, stub.Script{}, stub.Script{Code: 9})
	if n := arrays(t, handles); len(n) > 3 {
		t.Errorf("%d batches in %d arrays: %v", len(handles), len(n), n)
	}
	for i, code := range []int{7, 0, -1, 70, 0, 9} {
		if i == 2 {
			continue
		}
		if x := wait(t, handles[i]); x.Code != code || x.Stopped {
			t.Errorf("batch %d: exit is %+v, want code %d", i, x, code)
		}
		for _, j := range batches[i].Jobs {
			if !done(dirs[i], j) {
				t.Errorf("job %s is lost", j.ID.Short())
			}
		}
	}
	// Who died between sbatch and writing down the number.
	h := handles[2]
	r := h.r
	r.Job = ""
	if err := kept.WriteJSON(dirs[2].Executor(), r); err != nil {
		t.Fatal(err)
	}
	found, err := New(options(t)).Attach(t.Context(), batches[2], dirs[2])
	if err != nil {
		t.Fatal(err)
	}
	if got := found.(*handle).r.Job; got != h.r.Job {
		t.Errorf("found job %s, want %s", got, h.r.Job)
	}
	if err := found.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x := wait(t, h); !x.Stopped {
		t.Errorf("exit is %+v, want Stopped", x)
	}
}

// What waits in the queue as one entry is stopped task by task.
func TestArrayPending(t *testing.T) {
	c := testCluster(t)
	t.Parallel()
	o := options(t)
	o.Array = 3
	o.Extra = []string{"--begin=now+1hour"}
	handles, _, _ := startAll(t, New(o), newDir, stub.Script{}, stub.Script{}, stub.Script{})
	if n := arrays(t, handles); len(n) != 1 {
		t.Errorf("three batches in %d arrays", len(n))
	}
	for i, h := range handles {
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if x := wait(t, h); !x.Stopped {
			t.Errorf("exit is %+v", x)
		}
		out, err := c.Run("squeue", "--noheader", "--array", "--name="+h.r.Array, "--format=%i")
		if left := len(strings.Fields(out)); err != nil || left != 2-i {
			t.Errorf("%d tasks wait, want %d: %v", left, 2-i, err)
		}
	}
}

// An array that Slurm refuses is told by each of its batches, and nothing is left.
func TestArrayRefused(t *testing.T) {
	testCluster(t)
	t.Parallel()
	o := options(t)
	o.Array = 2
	o.Extra = []string{"--mem=900G"}
	e := New(o)
	var all sync.WaitGroup
	for range 2 {
		d := newDir(t)
		b := runnertest.WriteBatch(t, d, 1, stub.Script{})
		all.Go(func() {
			_, err := e.Start(t.Context(), b, d)
			if !errors.As(err, new(*runner.PreconditionError)) {
				t.Errorf("error is %v", err)
			}
			if exists(d.Executor()) {
				t.Error("the record of a start that was refused is left")
			}
		})
	}
	all.Wait()
}

// An array's folder on the cluster goes with its last task.
func farArray(t *testing.T) {
	a := farCluster(t)
	o := farOptions(t)
	o.Array = 3
	o.Site.Instance = "arrays"
	handles, _, _ := startAll(t, openFar(t, o), func(t *testing.T) job.Dir { return a.newDir(t, "batch") }, stub.Script{Code: 7}, stub.Script{Code: 8}, stub.Script{Code: 9})
	if n := arrays(t, handles); len(n) != 1 {
		t.Errorf("three batches in %d arrays", len(n))
	}
	for i, h := range handles {
		if x := wait(t, h); x.Code != 7+i || x.Stopped {
			t.Errorf("batch %d: exit is %+v", i, x)
		}
	}
	if left, err := os.ReadDir(filepath.Join(a.folder, "arrays", "batches")); err != nil || len(left) > 0 {
		t.Errorf("left on the cluster: %v %v", left, err)
	}
}
