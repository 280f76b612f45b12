package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// lab is an engine with the test trainer's image.
type lab struct {
	*testing.T
	e *containers.Engine
	o Options
}

func newLab(t *testing.T) *lab { return labOn(t, containertest.Open(t)) }

func labOn(t *testing.T, e *containers.Engine) *lab {
	return &lab{t, e, Options{
		Image:    containertest.Image(t, e, "testtrainer", "testtrainer"),
		Instance: containertest.Instance(t, e), Version: "test", Grace: time.Second,
		Limits: runner.Limits{CPUs: 1, MemoryBytes: 256 << 20},
	}}
}

func (l *lab) open() *executor { return New(l.e, l.o).(*executor) }

func (l *lab) dir() job.Dir {
	l.Helper()
	d := job.Dir(filepath.Join(l.TempDir(), "batch"))
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		l.Fatal(err)
	}
	return d
}

// run runs a batch of two jobs to its end.
func (l *lab) run(d job.Dir, s stub.Script, change func(*job.Batch)) (job.Batch, job.Exit) {
	l.Helper()
	b := runnertest.WriteBatch(l.T, d, 2, s)
	if change != nil {
		change(&b)
	}
	h, err := l.open().Start(l.Context(), b, d)
	if err != nil {
		l.Fatal(err)
	}
	return b, l.wait(h)
}

func (l *lab) wait(h runner.Handle) job.Exit {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	x, err := h.Wait(ctx)
	if err != nil {
		l.Fatal(err)
	}
	return x
}

func (l *lab) read(path string) string {
	l.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.Fatal(err)
	}
	return string(b)
}

// appears waits for the outcome of j.
func (l *lab) appears(d job.Dir, j job.Job) {
	l.Helper()
	for end := time.Now().Add(time.Minute); l.read(outcome(d, j)) == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("no outcome of job %s; %s", j.ID.Short(), l.read(d.Log()))
		}
	}
}

func outcome(d job.Dir, j job.Job) string {
	return filepath.Join(d.Out(), string(j.ID), kept.Outcome)
}

func TestContract(t *testing.T) { both(t, contract) }

// both runs a test with both ways to get files to a container and back.
func both(t *testing.T, test func(*lab)) {
	t.Run("bind", func(t *testing.T) { test(newLab(t)) })
	t.Run("copy", func(t *testing.T) {
		l := labOn(t, containertest.OpenCopying(t))
		t.Cleanup(l.clean)
		test(l)
	})
}

func contract(l *lab) {
	t := l.T
	runnertest.TestExecutor(t, runnertest.Factory{
		Open: func(*testing.T) runner.Executor { return l.open() },
		Prepare: func(t *testing.T, d job.Dir, jobs int, s stub.Script) (job.Batch, string) {
			return runnertest.WriteBatch(t, d, jobs, s), ""
		},
		Outlives: true,
	})
}

// What a trainer leaves in its out folder cannot reach other files, block,
// or take the other jobs along.
func TestHostileOut(t *testing.T) { both(t, hostileOut) }

func hostileOut(l *lab) {
	t := l.T
	l.o.OutBytes = 64 << 20
	for attack, want := range map[string]string{
		"outcome is a link":        "is a symbolic link",
		"outcome is a link inside": "is a symbolic link",
		"outcome is a pipe":        "is a pipe",
		"outcome is a folder":      "is a folder",
		"outcome is huge":          "more than",
		"predictions are a link":   "is a symbolic link",
		"predictions are a pipe":   "is a pipe",
		"predictions are huge":     "more than",
		"other names":              "", // fine: they are not looked at
	} {
		t.Run(attack, func(t *testing.T) {
			t.Parallel()
			l := &lab{t, l.e, l.o}
			d := l.dir()
			if err := os.MkdirAll(d.In(), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(d.In(), "attack"), []byte(attack), 0o600); err != nil {
				t.Fatal(err)
			}
			b, x := l.run(d, stub.Script{}, nil)
			if x.Code != 0 {
				t.Fatalf("exit %+v; %s", x, l.read(d.Log()))
			}
			got := l.read(outcome(d, b.Jobs[0]))
			if want != "" && (!strings.Contains(got, want) || !strings.Contains(got, `"failure":"output"`)) || want == "" && !strings.Contains(got, `"state":"ok"`) {
				t.Errorf("outcome is %s, want one with %q", got, want)
			}
			if _, err := os.Lstat(filepath.Join(d.Out(), string(b.Jobs[0].ID), kept.Predictions)); want != "" && err == nil {
				t.Error("the predictions were taken in")
			}
			if got := l.read(outcome(d, b.Jobs[1])); !strings.Contains(got, `"state":"ok"`) {
				t.Errorf("the other job's outcome is %s", got)
			}
			entries, err := os.ReadDir(d.Out())
			if err != nil || len(entries) != 2 {
				t.Errorf("out holds %v, %v; want the two jobs", entries, err)
			}
			if _, err := os.Stat(scratchOut(d)); err == nil {
				t.Error("the scratch folder is left")
			}
		})
	}
}

func (l *lab) attack(attack string, change func(*job.Batch)) (job.Dir, job.Batch, job.Exit) {
	l.Helper()
	d := l.dir()
	if err := os.MkdirAll(d.In(), 0o755); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.In(), "attack"), []byte(attack), 0o600); err != nil {
		l.Fatal(err)
	}
	b, x := l.run(d, stub.Script{}, change)
	return d, b, x
}

func TestHostileOutStops(t *testing.T) { both(t, hostileOutStops) }

func hostileOutStops(l *lab) {
	t := l.T
	l.o.OutBytes = 64 << 20
	t.Run("a folder becomes a link", func(t *testing.T) {
		d, b, x := (&lab{t, l.e, l.o}).attack("job is a link", nil)
		// The stub's own work on that job fails.
		if x.Code != job.ExitTrainer || !strings.Contains(l.read(outcome(d, b.Jobs[0])), "is a symbolic link, not a folder") {
			t.Errorf("exit %+v, outcome %s", x, l.read(outcome(d, b.Jobs[0])))
		}
	})
	t.Run("a folder is locked", func(t *testing.T) {
		d, _, x := (&lab{t, l.e, l.o}).attack("out is locked", nil)
		if _, err := os.Stat(scratchOut(d)); err == nil || x.Code == 98 {
			t.Errorf("exit %+v; the scratch folder is left: %v, %s", x, err, l.read(d.Log()))
		}
	})
	t.Run("a flood", func(t *testing.T) {
		d, _, x := (&lab{t, l.e, l.o}).attack("flood", nil)
		if !x.Stopped || x.TimedOut || !strings.Contains(x.Detail, "64 MiB") {
			t.Errorf("exit %+v; %s", x, l.read(d.Log()))
		}
	})
	t.Run("a flood of lines", func(t *testing.T) {
		if l.e.Copies() {
			t.Skip("logs come the same way")
		}
		d, _, x := (&lab{t, l.e, l.o}).attack("print", nil)
		if s := kept.Size(d.Log()); x.Code != 0 || s > kept.MaxLog+1<<10 || s < kept.MaxLog/2 {
			t.Errorf("exit %+v; the log has %d bytes", x, s)
		}
	})
}

func TestLimits(t *testing.T) {
	l := newLab(t)
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		l := &lab{t, l.e, l.o}
		l.o.Limits.MemoryBytes = 64 << 20
		d := l.dir()
		b, x := l.run(d, stub.Script{Memory: 256 << 20}, nil)
		if !x.OOMKilled || x.Signal != 9 || x.Code != -1 || x.Stopped {
			t.Errorf("exit %+v, want OOMKilled", x)
		}
		for _, j := range b.Jobs { // finished before it happened
			if l.read(outcome(d, j)) == "" {
				t.Errorf("job %s is lost", j.ID.Short())
			}
		}
	})
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		l := &lab{t, l.e, l.o}
		l.o.Limits.Time = 1500 * time.Millisecond
		d := l.dir()
		b, x := l.run(d, stub.Script{Pause: time.Hour}, nil)
		if !x.TimedOut || !x.Stopped || x.OOMKilled || !strings.Contains(x.Detail, "1.5s") {
			t.Errorf("exit %+v, want TimedOut", x)
		}
		if l.read(outcome(d, b.Jobs[0])) == "" || l.read(outcome(d, b.Jobs[1])) != "" {
			t.Error("the job before the limit counts, the other does not")
		}
	})
	t.Run("time, deaf", func(t *testing.T) {
		t.Parallel()
		l := &lab{t, l.e, l.o}
		l.o.Limits.Time = time.Second
		if _, x := l.run(l.dir(), stub.Script{IgnoreTERM: true, Linger: time.Hour}, nil); !x.TimedOut || x.Signal != 9 {
			t.Errorf("exit %+v, want TimedOut by signal 9", x)
		}
	})
}

// The time limit counts from the start of the container, also for a bench that
// comes later.
func TestTimeLimitAfterAttach(t *testing.T) {
	l := newLab(t)
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 1, stub.Script{Linger: time.Hour})
	if _, err := l.open().launch(t.Context(), b, d); err != nil { // and nobody watches
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	l.o.Limits.Time = time.Second
	begin := time.Now()
	h, err := l.open().Attach(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	if x := l.wait(h); !x.TimedOut || time.Since(begin) > 3*time.Second {
		t.Errorf("exit %+v after %v", x, time.Since(begin))
	}
}

func TestEnvironment(t *testing.T) { both(t, environmentInside) }

func environmentInside(l *lab) {
	t := l.T
	t.Setenv("HF_TOKEN", "hf_secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "aws_secret")
	t.Setenv("HTTPS_PROXY", "http://user:secret@proxy:1")
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 1, stub.Script{Environment: true})
	b.Threads = 3
	h, err := l.open().Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	l.wait(h)
	log := l.read(d.Log())
	for _, want := range []string{"env OMP_NUM_THREADS=3\n", "env HOME=/tmp\n", "env HF_HUB_OFFLINE=1\n", "env TRITON_CACHE_DIR=/tmp/"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q", want)
		}
	}
	if strings.Contains(log, "secret") || strings.Contains(log, "PROXY") {
		t.Errorf("secrets in the environment: %s", log)
	}
	if w := h.Where(); w.Executor != Name || w.Host == "" || !strings.HasPrefix(w.Image, "sha256:") || len(w.GPUs) != 0 {
		t.Errorf("Where = %+v", w)
	}
}

// A snapshot in the official cache layout, one with links that lead astray,
// and files that only root may read.
func TestModel(t *testing.T) { both(t, showsModel) }

func showsModel(l *lab) {
	t := l.T
	write := func(path, text string, mode os.FileMode) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(target, path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	hub := filepath.Join(t.TempDir(), "models--org--name")
	snapshot := filepath.Join(hub, "snapshots", "c0ffee")
	write(filepath.Join(hub, "blobs", "aaaa"), "config", 0o644)
	write(filepath.Join(hub, "blobs", "bbbb"), "weights", 0o600)
	link("../../blobs/aaaa", filepath.Join(snapshot, "config.json"))
	link("../../../blobs/bbbb", filepath.Join(snapshot, "sub", "model.safetensors"))
	plain := filepath.Join(t.TempDir(), "my model")
	write(filepath.Join(plain, "config.json"), "config", 0o644)
	write(filepath.Join(plain, "sub", "model.safetensors"), "weights", 0o644)
	private := filepath.Join(t.TempDir(), "private")
	write(filepath.Join(private, "config.json"), "config", 0o600)
	write(filepath.Join(private, "sub", "model.safetensors"), "weights", 0o600)
	write(filepath.Join(private, ".git", "config"), "password", 0o644)
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"snapshot": snapshot, "plain": plain, "private": private} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lab{t, l.e, l.o}
			d, _, x := l.attack("model", func(b *job.Batch) { b.Model = job.Model{ID: "org/name", Path: path} })
			log := l.read(d.Log())
			if x.Code != 0 || strings.Contains(log, "could write") || strings.Contains(log, "password") ||
				!strings.Contains(log, `/bench/model/config.json "config" <nil>`) || !strings.Contains(log, `/bench/model/sub/model.safetensors "weights" <nil>`) {
				t.Errorf("exit %+v; %s", x, log)
			}
			if got := l.read(filepath.Join(path, "config.json")); got != "config" {
				t.Errorf("config.json is now %q", got)
			}
		})
	}

	secret := write(filepath.Join(t.TempDir(), "id_rsa"), "secret", 0o600)
	for name, target := range map[string]string{"out": secret, "nowhere": "nothing", "folder": "sub", "up": "../../../../../etc/passwd"} {
		dir := filepath.Join(t.TempDir(), "evil")
		write(filepath.Join(dir, "sub", "config.json"), "config", 0o644)
		link(target, filepath.Join(dir, "weights"))
		d := l.dir()
		b := runnertest.WriteBatch(t, d, 1, stub.Script{})
		b.Model.Path = dir
		_, err := l.open().Start(t.Context(), b, d)
		p, ok := errors.AsType[*runner.PreconditionError](err)
		if !ok || p.Hint == "" || !strings.Contains(err.Error(), "weights") {
			t.Errorf("link %s: %v, want a precondition that names the link", name, err)
		}
		if _, err := os.Stat(d.Executor()); err == nil {
			t.Errorf("link %s: a record is left", name)
		}
	}
}

func TestPreconditions(t *testing.T) {
	l := newLab(t)
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 1, stub.Script{})
	check := func(name string, o Options, b job.Batch, hint string) {
		t.Helper()
		_, err := New(l.e, o).Start(t.Context(), b, d)
		if p, ok := errors.AsType[*runner.PreconditionError](err); !ok || !strings.Contains(p.Hint, hint) {
			t.Errorf("%s: %v, want a precondition with the hint %q", name, err, hint)
		}
	}
	o := l.o
	o.Image, o.BuildHint = "bench-test-none:latest", ""
	check("no image", o, b, "bench image build")
	b.Device = "cuda"
	check("no GPU", l.o, b, "NVIDIA")
	o = l.o
	o.Limits.GPU = "none"
	check("no GPU allowed", o, b, "leave out")
	b.Device = "cpu"

	if found, err := l.e.Find(t.Context(), map[string]string{containers.LabelInstance: l.o.Instance}); err != nil || len(found) != 0 {
		t.Errorf("%d containers are left, %v", len(found), err)
	}
}

// A batch of a folder that was thrown away must not be taken for a new one.
func TestStaleContainer(t *testing.T) { both(t, staleContainer) }

func staleContainer(l *lab) {
	t := l.T
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 1, stub.Script{Linger: time.Hour})
	if _, err := l.open().launch(t.Context(), b, d); err != nil { // and nobody watches
		t.Fatal(err)
	}
	// The container may be making files there.
	err := os.RemoveAll(string(d))
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); err = os.RemoveAll(string(d)) {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	fresh := runnertest.WriteBatch(t, d, 1, stub.Script{})
	fresh.ID, fresh.Jobs = b.ID, b.Jobs
	if err := os.MkdirAll(d.Out(), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := l.open().Attach(t.Context(), b, d); !errors.Is(err, runner.ErrNotFound) {
		t.Errorf("Attach without a record: %v", err)
	}
	h, err := l.open().Start(t.Context(), fresh, d)
	if err != nil {
		t.Fatal(err)
	}
	if x := l.wait(h); x.Code != 0 || x.Stopped || l.read(outcome(d, b.Jobs[0])) == "" {
		t.Errorf("exit %+v, outcome %q", x, l.read(outcome(d, b.Jobs[0])))
	}
}

// Somebody removes the container: what it had finished counts.
func TestRemovedContainer(t *testing.T) { both(t, removedContainer) }

func removedContainer(l *lab) {
	t := l.T
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 2, stub.Script{Pause: time.Hour})
	e := l.open()
	h, err := e.Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	l.appears(d, b.Jobs[0])
	c, err := l.e.Lookup(t.Context(), e.containerName(b.ID))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x := l.wait(h); !x.Stopped || !strings.Contains(x.Detail, "removed by somebody else") {
		t.Errorf("exit %+v", x)
	}
	if l.read(outcome(d, b.Jobs[0])) == "" {
		t.Error("the finished job is lost")
	}
}

// The container and its record are there, nobody watches, and it is removed:
// Attach collects what there is and says that nothing runs.
func TestAttachToRemoved(t *testing.T) { both(t, attachToRemoved) }

func attachToRemoved(l *lab) {
	t := l.T
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 2, stub.Script{})
	e := l.open()
	h, err := e.launch(t.Context(), b, d) // without follow
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.open().Attach(t.Context(), b, d); !errors.Is(err, runner.ErrNotFound) {
		t.Errorf("Attach: %v, want ErrNotFound", err)
	}
	for _, j := range b.Jobs {
		if l.read(outcome(d, j)) == "" {
			t.Errorf("job %s is lost", j.ID.Short())
		}
	}
	if _, err := os.Stat(scratchOut(d)); err == nil {
		t.Error("the scratch folder is left")
	}
}

func TestGC(t *testing.T) { both(t, collectGarbage) }

func collectGarbage(l *lab) {
	t := l.T
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 1, stub.Script{})
	h, err := l.open().launch(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names, _, err := GC(t.Context(), l.e, l.o.Instance, false); err != nil || len(names) != 1 || names[0] != h.r.Container {
		t.Errorf("GC = %q, %v", names, err)
	}
	var want []string
	if h.r.Volume != "" {
		want = []string{h.r.Volume}
	}
	if names, volumes, err := GC(t.Context(), l.e, l.o.Instance, true); err != nil || len(names) != 0 || !slices.Equal(volumes, want) {
		t.Errorf("second GC = %q, %q, %v; want no container and the volumes %q", names, volumes, err, want)
	}
	if _, _, err := GC(t.Context(), l.e, "", true); err == nil {
		t.Error("GC of all instances")
	}
}

func TestInstance(t *testing.T) {
	if a, b := Instance("/home/a"), Instance("/home/b"); a == b || len(a) != 12 || a != Instance("/home/x/../a") {
		t.Errorf("instances %s and %s", a, b)
	}
	home := t.TempDir()
	if a, b := Instance(home), Instance(home+"/."); a != b || a == instance(home, "") {
		t.Errorf("instances of one home: %s and %s", a, b)
	}
	if instance("/home/a", "one") == instance("/home/a", "other") {
		t.Error("homes of two machines are one instance")
	}
	e := New(nil, Options{Instance: "0123456789abcdef"}).(*executor)
	if got, want := e.containerName(job.ID(strings.Repeat("5b0e", 16))), "bench-5b0e5b0e5b0e5b0e-0123456789ab"; got != want {
		t.Errorf("container is called %s, want %s", got, want)
	}
}
