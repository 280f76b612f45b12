//go:build linux

package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

func newDir(t *testing.T) job.Dir {
	t.Helper()
	d := job.Dir(filepath.Join(t.TempDir(), "batch"))
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		t.Fatal(err)
	}
	return d
}

// begin starts a batch of the stub and sees to it that nothing is left of it.
func begin(t *testing.T, o Options, jobs int, s stub.Script) (runner.Handle, job.Batch, job.Dir) {
	t.Helper()
	d := newDir(t)
	b := runnertest.WriteBatch(t, d, jobs, s)
	h, err := New(o).Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := h.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return h, b, d
}

func wait(t *testing.T, h runner.Handle) job.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	x, err := h.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// refused returns the precondition that a batch fails by.
func refused(t *testing.T, err error) *runner.PreconditionError {
	t.Helper()
	var p *runner.PreconditionError
	if !errors.As(err, &p) || p.Hint == "" {
		t.Fatalf("error is %v, want a *runner.PreconditionError with a hint", err)
	}
	return p
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

func done(d job.Dir, j job.Job) bool {
	return exists(filepath.Join(d.Out(), string(j.ID), kept.Outcome))
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func has(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in\n%s", w, text)
		}
	}
}

// The tests that replace PATH come before this file: executors of it go on asking
// Slurm while others run.

// Slurm's time limits are minutes, and it looks every 30 s: this batch runs
// beside the tests that follow.
func TestTimeLimit(t *testing.T) {
	c := testCluster(t)
	o := options(t)
	o.Limits.Time = time.Second
	o.Extra = []string{"--nodelist=" + c.Nodes[0]}
	h, _, _ := begin(t, o, 1, stub.Script{Linger: time.Hour})
	t.Parallel()
	x := wait(t, h)
	if !x.TimedOut || !x.Stopped || x.OOMKilled {
		t.Errorf("exit is %+v, want TimedOut", x)
	}
	has(t, x.Detail, "time limit", "--timeout")
}

// Slurm's controller is killed while a batch runs, and started again when that
// has ended: nothing is noticed but a wait.
func TestControllerKilled(t *testing.T) {
	c := testCluster(t)
	h, b, d := begin(t, options(t), 2, stub.Script{Pause: 10 * time.Second, Code: 7})
	eventually(t, "the first job is done", func() bool { return done(d, b.Jobs[0]) })
	if err := c.Saved(time.Now()); err != nil {
		t.Fatal(err)
	}
	c.KillController()
	eventually(t, "the second job is done without a controller", func() bool { return done(d, b.Jobs[1]) })
	if err := c.StartController(); err != nil {
		t.Fatal(err)
	}
	if x := wait(t, h); x.Code != 7 || x.Stopped {
		t.Errorf("exit is %+v, want code 7", x)
	}
	if err := c.Ready(30 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// A controller that is killed before it has saved that a batch began starts it
// once more: the second start leaves at once, and the first one counts.
func TestControllerForgets(t *testing.T) {
	c := testCluster(t)
	o := options(t)
	o.Extra = []string{"--nodelist=" + c.Nodes[1]}
	h, b, d := begin(t, o, 2, stub.Script{Pause: 4 * time.Second, Code: 7})
	eventually(t, "the first job is done", func() bool { return done(d, b.Jobs[0]) })
	c.KillController()
	eventually(t, "the second job is done without a controller", func() bool { return done(d, b.Jobs[1]) })
	if err := c.StartController(); err != nil {
		t.Fatal(err)
	}
	if x := wait(t, h); x.Code != 7 || x.Stopped {
		t.Errorf("exit is %+v, want code 7", x)
	}
	time.Sleep(6 * time.Second) // in which Slurm would have started it again
	if n := strings.Count(read(t, d.Events()), `"start"`); n != 2 {
		t.Errorf("%d starts of 2 jobs", n)
	}
	c.Run("scontrol", "update", "nodename="+c.Nodes[1], "state=resume") // it drains a node that has a job twice
	if err := c.Ready(30 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// A batch is submitted while there is no controller: it is tried again, and
// submitted once.
func TestSubmitWithoutController(t *testing.T) {
	c := testCluster(t)
	o := options(t)
	e := New(o)
	if err := e.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.KillController()
	d := newDir(t)
	b := runnertest.WriteBatch(t, d, 1, stub.Script{})
	type result struct {
		h   runner.Handle
		err error
	}
	out := make(chan result, 1)
	go func() {
		h, err := e.Start(t.Context(), b, d)
		out <- result{h, err}
	}()
	time.Sleep(time.Second)
	begun := time.Now()
	refused(t, New(o).Check(t.Context()))
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v to say that no controller answers", took)
	}
	if err := c.StartController(); err != nil {
		t.Fatal(err)
	}
	r := <-out
	if r.err != nil {
		t.Fatal(r.err)
	}
	if x := wait(t, r.h); x != (job.Exit{}) {
		t.Errorf("exit is %+v", x)
	}
	ids, err := cluster{}.byName(t.Context(), r.h.(*handle).r.Name)
	if err != nil || len(ids) != 1 {
		t.Errorf("jobs of this name: %v, %v; want one", ids, err)
	}
	if err := c.Ready(30 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// The daemon of a node is killed and started again while a batch runs there:
// the batch goes on.
func TestNodeDaemonRestarted(t *testing.T) {
	c := testCluster(t)
	o := options(t)
	o.Extra = []string{"--nodelist=" + c.Nodes[1]}
	h, b, d := begin(t, o, 2, stub.Script{Pause: 3 * time.Second})
	eventually(t, "the first job is done", func() bool { return done(d, b.Jobs[0]) })
	c.KillNode(1)
	time.Sleep(500 * time.Millisecond)
	if err := c.StartNode(1); err != nil {
		t.Fatal(err)
	}
	if x := wait(t, h); x != (job.Exit{}) {
		t.Errorf("exit is %+v", x)
	}
	if n := strings.Count(read(t, d.Events()), `"start"`); n != 2 || !done(d, b.Jobs[1]) {
		t.Errorf("%d starts of 2 jobs, second done: %v", n, done(d, b.Jobs[1]))
	}
	if err := c.Ready(30 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// A node is lost: what it had finished counts, the rest is for another try, and
// what it writes after that reaches nobody.
func TestNodeLost(t *testing.T) {
	c := testCluster(t)
	o := options(t)
	o.Extra = []string{"--nodelist=" + c.Nodes[1]}
	h, b, d := begin(t, o, 2, stub.Script{Pause: 40 * time.Second})
	eventually(t, "the first job is done", func() bool { return done(d, b.Jobs[0]) })
	c.KillNode(1) // the trainer goes on
	x := wait(t, h)
	if !x.Stopped || x.TimedOut || x.OOMKilled {
		t.Errorf("exit is %+v, want Stopped", x)
	}
	has(t, x.Detail, "NODE_FAIL", c.Nodes[1])
	if !done(d, b.Jobs[0]) || done(d, b.Jobs[1]) {
		t.Error("want the outcome of the first job, and not of the second")
	}
	// The next start goes to the other node and does the rest.
	o.Extra = []string{"--nodelist=" + c.Nodes[0]}
	if err := os.WriteFile(filepath.Join(d.In(), stub.ScriptFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := New(o).Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	if x := wait(t, again); x != (job.Exit{}) || !done(d, b.Jobs[1]) {
		t.Errorf("exit of the second start is %+v", x)
	}
	if err := c.StartNode(1); err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(60 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// A node that does not see the batch's folder says so by its exit code.
func TestFolderNotShared(t *testing.T) {
	c := testCluster(t)
	root := t.TempDir()
	c.KillNode(1)
	if err := c.StartNode(1, root); err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.KillNode(1)
		if err := errors.Join(c.StartNode(1), c.Ready(30*time.Second)); err != nil {
			t.Fatal(err)
		}
	}()
	if err := c.Ready(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Extra = []string{"--nodelist=" + c.Nodes[1]}
	d := job.Dir(filepath.Join(root, "batch"))
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		t.Fatal(err)
	}
	b := runnertest.WriteBatch(t, d, 1, stub.Script{})
	h, err := New(o).Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Wait(t.Context())
	p := refused(t, err)
	has(t, p.What, "does not see", string(d))
	has(t, p.Hint, "--home")
}

// Whoever died between sbatch and writing down the job's number finds the job
// by its name.
func TestFoundByName(t *testing.T) {
	t.Parallel()
	testCluster(t)
	o := options(t)
	h, b, d := begin(t, o, 2, stub.Script{Pause: time.Second})
	r := h.(*handle).r
	id := r.Job
	r.Job = ""
	if err := kept.WriteJSON(d.Executor(), r); err != nil {
		t.Fatal(err)
	}
	found, err := New(o).Attach(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	if got := found.(*handle).r.Job; got != id {
		t.Errorf("found job %s, want %s", got, id)
	}
	// Both who watch see the end; what comes then removes the files that tell of it.
	for _, one := range []runner.Handle{found, h} {
		if x := wait(t, one); x != (job.Exit{}) {
			t.Errorf("exit is %+v", x)
		}
	}
	// One that was never handed in is not found, and can be started.
	r.Job, r.Name = "", "bench-nothing-of-this-name"
	if err := kept.WriteJSON(d.Executor(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o).Attach(t.Context(), b, d); !errors.Is(err, runner.ErrNotFound) {
		t.Errorf("Attach: %v, want runner.ErrNotFound", err)
	}
}

// Somebody cancels a job that waits in the queue, and one that runs.
func TestCancelled(t *testing.T) {
	t.Parallel()
	c := testCluster(t)
	o := options(t)
	o.Extra = []string{"--begin=now+1hour"}
	h, _, _ := begin(t, o, 1, stub.Script{})
	running, b, d := begin(t, options(t), 2, stub.Script{Pause: time.Hour})
	eventually(t, "the first job is done", func() bool { return done(d, b.Jobs[0]) })
	for _, h := range []runner.Handle{h, running} {
		if out, err := c.Run("scancel", h.(*handle).r.Job); err != nil {
			t.Fatal(out)
		}
		x := wait(t, h)
		if !x.Stopped || x.TimedOut || x.OOMKilled {
			t.Errorf("exit is %+v, want Stopped", x)
		}
		has(t, x.Detail, "was cancelled")
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	if c := testCluster(t); !c.Cgroups {
		t.Skip("this machine has no memory control group of version 1, which the test's Slurm would need")
	}
	o := options(t)
	o.Limits.MemoryBytes = 100 << 20
	h, b, d := begin(t, o, 1, stub.Script{Memory: 300 << 20, Linger: time.Minute})
	x := wait(t, h)
	if !x.OOMKilled || x.TimedOut || x.Stopped {
		t.Errorf("exit is %+v, want OOMKilled", x)
	}
	has(t, x.Detail, "OUT_OF_MEMORY", "--memory")
	if !done(d, b.Jobs[0]) {
		t.Error("what was finished before is lost")
	}
}

// The trainer gets a GPU, a temporary home, no network, and none of the
// caller's secrets.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	testCluster(t)
	os.Setenv("BENCH_TEST_SECRET_TOKEN", "hunter2")
	o := options(t)
	d := newDir(t)
	b := runnertest.WriteBatch(t, d, 1, stub.Script{Environment: true})
	b.Device = "auto"
	h, err := New(o).Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, h)
	log := read(t, d.Log())
	has(t, log, "env HF_HUB_OFFLINE=1", "env OMP_NUM_THREADS=1", "env CUDA_VISIBLE_DEVICES=", "this is no sandbox; network: cut", "bench-trainer-", "Slurm job ")
	if strings.Contains(log, "hunter2") || strings.Contains(log, "env SLURM_") {
		t.Errorf("the trainer knows too much:\n%s", log)
	}
	if strings.Contains(log, "env CUDA_VISIBLE_DEVICES=\n") {
		t.Errorf("the trainer sees no GPU:\n%s", log)
	}
	if got := h.Where(); got.Host != "sandpit/gpu" || len(got.GPUs) != 1 {
		t.Errorf("Where is %+v", got)
	}
	o.Limits.GPU = "none"
	o.Program = func(context.Context) (Program, error) {
		return Program{Command: []string{"/bin/sh", "-c", "cat /proc/net/dev >&2; env >&2; exit 3"}}, nil
	}
	h, _, d = begin(t, o, 1, stub.Script{})
	if x := wait(t, h); x.Code != 3 {
		t.Errorf("exit is %+v", x)
	}
	log = read(t, d.Log())
	has(t, log, "lo:", "CUDA_VISIBLE_DEVICES=\n")
	if n := strings.Count(log, ":   "); strings.Contains(log, "eth0") || n > 1 {
		t.Errorf("there is a network:\n%s", log)
	}
}

// What the cluster does not have is said with a remedy, and quickly.
func TestPreconditions(t *testing.T) {
	t.Parallel()
	c := testCluster(t)
	missing := func(context.Context) (Program, error) {
		return Program{Python: "/nonexistent/python", Trainer: t.TempDir()}, nil
	}
	for _, test := range []struct {
		name   string
		change func(*Options)
		says   string
	}{
		{"partition", func(o *Options) { o.Partition = "nosuch" }, "no partition nosuch"},
		{"closed partition", func(o *Options) { o.Partition = "closed" }, "is down"},
		{"size", func(o *Options) { o.Limits.MemoryBytes = 1 << 40 }, "sbatch"},
		{"time", func(o *Options) { o.Limits.Time = 200 * time.Hour }, "PartitionTimeLimit"},
		{"option", func(o *Options) { o.Extra = []string{"--nonsense=1"} }, "nonsense"},
		{"python", func(o *Options) { o.Program = missing }, "/nonexistent/python"},
	} {
		o := options(t)
		test.change(&o)
		d := newDir(t)
		b := runnertest.WriteBatch(t, d, 1, stub.Script{})
		begun := time.Now()
		h, err := New(o).Start(t.Context(), b, d)
		if err == nil {
			_, err = h.Wait(t.Context())
		}
		p := refused(t, err)
		has(t, p.Error(), test.says)
		t.Logf("%s: %v → %s", test.name, p, p.Hint)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: it took %v to say so", test.name, took)
		}
		if h == nil && exists(d.Executor()) {
			t.Errorf("%s: a batch that was refused leaves a record", test.name)
		}
	}
	if out, err := c.Run("squeue", "--noheader", "--states=PENDING", "--format=%j %r"); err != nil || strings.Contains(out, "Partition") {
		t.Errorf("left in the queue: %s %v", out, err)
	}
}

// What a trainer prints is cut, and what it writes to its out folder ends it.
func TestBounds(t *testing.T) {
	t.Parallel()
	testCluster(t)
	run := func(body string) (job.Exit, job.Dir) {
		o := options(t)
		o.OutBytes = 64 << 20
		o.Program = func(context.Context) (Program, error) {
			return Program{Command: []string{"/bin/sh", "-c", body, "trainer"}}, nil
		}
		h, _, d := begin(t, o, 1, stub.Script{})
		return wait(t, h), d
	}
	x, d := run(`head -c 80000000 /dev/zero | tr '\0' x; head -c 90000000 /dev/zero | tr '\0' y >&2; exit 3`)
	if x.Code != 3 || x.Stopped {
		t.Errorf("exit is %+v", x)
	}
	for _, f := range []string{d.Events(), d.Log()} {
		if s := kept.Size(f); s < kept.MaxLog || s > kept.MaxLog+1<<10 {
			t.Errorf("%s has %d bytes", f, s)
		}
		has(t, read(t, f)[kept.MaxLog:], "it printed too much")
	}
	x, _ = run(`head -c 100000000 /dev/zero >"$4/big"; sleep 600`)
	if !x.Stopped || x.TimedOut || x.OOMKilled {
		t.Errorf("exit is %+v, want Stopped", x)
	}
	has(t, x.Detail, "64 MiB in 100000 files are allowed")
}
