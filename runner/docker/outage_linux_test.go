package docker

import (
	"strings"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
	"bench/runner"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

func extraLab(t *testing.T, liveRestore, gpus bool) (*lab, *containertest.Extra) {
	t.Helper()
	x := containertest.StartExtra(t, liveRestore, gpus)
	e := x.Open()
	return &lab{t, e, Options{
		Image:    containertest.Image(t, e, "testtrainer", "testtrainer", "nvidia-smi"),
		Instance: x.Instance, Grace: time.Second, Limits: runner.Limits{CPUs: 1, MemoryBytes: 256 << 20},
	}}, x
}

// dockerd dies while a batch runs whose container outlives it: nothing of it
// is to be noticed. Then dockerd stays away for longer than the patience: the
// batch is lost from sight, and found again.
func TestEngineRestartLiveRestore(t *testing.T) {
	l, x := extraLab(t, true, false)
	l.e.Patience = 2 * time.Minute
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 2, stub.Script{Pause: 3 * time.Second, LogLines: 100})
	h, err := l.open().Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	l.appears(d, b.Jobs[0])
	x.Kill()
	x.Up()
	if x := l.wait(h); x.Code != 0 || x.Stopped {
		t.Errorf("exit %+v", x)
	}
	l.appears(d, b.Jobs[1])
	if n := strings.Count(l.read(d.Log()), "stub: start"); n != 1 {
		t.Errorf("the log says %d times that it started", n)
	}

	impatient := x.Open()
	impatient.Patience = time.Second
	d = l.dir()
	b = runnertest.WriteBatch(t, d, 2, stub.Script{Pause: time.Hour})
	h, err = New(impatient, l.o).Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	l.appears(d, b.Jobs[0])
	x.Kill()
	if x, err := h.Wait(t.Context()); !containers.IsKind(err, containers.Unreachable) {
		t.Errorf("Wait for an engine that is away: %+v, %v", x, err)
	}
	if _, err := New(impatient, l.o).Attach(t.Context(), b, d); err == nil || strings.Contains(err.Error(), runner.ErrNotFound.Error()) {
		t.Errorf("Attach to an engine that is away: %v; it may run, so it is not to be called lost", err)
	}
	x.Up()
	h, err = l.open().Attach(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x := l.wait(h); !x.Stopped {
		t.Errorf("exit %+v", x)
	}
}

// Without live-restore the container goes down with dockerd. What it had
// finished is kept, and the same batch can be started again.
func TestEngineRestart(t *testing.T) {
	l, x := extraLab(t, false, false)
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 2, stub.Script{Pause: time.Hour})
	e := l.open()
	h, err := e.Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	l.appears(d, b.Jobs[0])
	x.Kill()
	x.Up()
	if exit := l.wait(h); !exit.Stopped || !strings.Contains(exit.Detail, "restarted") {
		t.Errorf("exit %+v", exit)
	}
	if h, err = e.Start(t.Context(), b, d); err != nil {
		t.Fatal(err)
	}
	if exit := l.wait(h); exit.Code != 0 {
		t.Errorf("second start: exit %+v", exit)
	}
	l.appears(d, b.Jobs[1])
}

// Batches on a machine with three GPUs get one each, and the fourth waits.
func TestGPUs(t *testing.T) {
	l, _ := extraLab(t, false, true)
	e := l.open()
	used := map[string]bool{}
	var all []runner.Handle
	for i := range 4 {
		d := l.dir()
		b := runnertest.WriteBatch(t, d, 1, stub.Script{Linger: time.Hour, Environment: true})
		b.Device = "auto"
		if i == 3 {
			time.AfterFunc(500*time.Millisecond, func() { all[0].Stop(t.Context()) })
		}
		h, err := e.Start(t.Context(), b, d)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
		g := h.Where().GPUs
		if len(g) != 1 || used[g[0]] != (i == 3) {
			t.Errorf("batch %d got the GPUs %q, in use were %v", i, g, used)
		}
		used[g[0]] = true
		l.appears(d, b.Jobs[0])
		if i == 1 {
			for end := time.Now().Add(10 * time.Second); !strings.Contains(l.read(d.Log()), "env NVIDIA_VISIBLE_DEVICES="+g[0]+"\n"); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the container does not have %s: %s", g[0], l.read(d.Log()))
				}
			}
		}
	}
	for _, h := range all {
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		l.wait(h)
	}
	// The CPU is always to be had.
	d := l.dir()
	h, err := e.Start(t.Context(), runnertest.WriteBatch(t, d, 1, stub.Script{}), d)
	if err != nil || len(h.Where().GPUs) != 0 {
		t.Fatalf("a batch for the CPU: %v, %v", h, err)
	}
	l.wait(h)
}
