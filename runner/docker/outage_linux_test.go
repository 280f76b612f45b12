package docker

import (
	"context"
	"errors"
	"strings"
	"sync"
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

// Batches on a machine with three GPUs get one each, and the fourth waits, also
// when another process, of another home, has them.
func TestGPUs(t *testing.T) {
	l, _ := extraLab(t, false, true)
	testKeeper(t, l.e, l.o.Image)
	e := l.open()
	used := map[string]bool{}
	var all []runner.Handle
	for i := range 4 {
		d := l.dir()
		b := runnertest.WriteBatch(t, d, 1, stub.Script{Linger: time.Hour, Environment: true})
		b.Device = "auto"
		if i == 3 {
			l.o.Instance = "another-home"
			t.Cleanup(func() {
				if _, err := l.e.RemoveLeftovers(context.Background(), map[string]string{containers.LabelInstance: "another-home"}, true); err != nil {
					t.Error(err)
				}
			})
			var mu sync.Mutex
			said := ""
			l.o.Notice = func(s string) { mu.Lock(); defer mu.Unlock(); said += s }
			l.o.GPUs.Wait = 100 * time.Millisecond
			if _, err := l.open().Start(t.Context(), b, d); err == nil || !errors.As(err, new(*runner.BusyError)) {
				t.Errorf("all GPUs are in use: %v, want a BusyError", err)
			}
			l.o.GPUs.Wait, said = 0, ""
			e = l.open()
			stopped := make(chan error, 1)
			time.AfterFunc(1500*time.Millisecond, func() {
				mu.Lock()
				defer mu.Unlock()
				if file := l.read(d.Waiting()); !strings.Contains(said, "GPU-2 is in use by container bench-") || !strings.Contains(file, "all GPUs are in use") {
					t.Errorf("it waits, and says %q, in its folder %q", said, file)
				}
				stopped <- all[0].Stop(t.Context())
			})
			defer func() {
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				if file := l.read(d.Waiting()); file != "" {
					t.Errorf("it waits no more, and says %q", file)
				}
			}()
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
	if left := l.locks(); len(left) > 0 {
		t.Errorf("locks %q are left", left)
	}

	// A process that died with a batch under way: the GPU is held as long as the
	// container runs, and not longer, though nobody gives the lock back.
	d = l.dir()
	b := runnertest.WriteBatch(t, d, 1, stub.Script{Linger: time.Hour})
	b.Device = "auto"
	dead, err := e.launch(t.Context(), b, d)
	if err != nil || len(l.locks()) != 1 || dead.r.Where.GPUs[0] != "GPU-0" {
		t.Fatalf("launch: %v, locks %q", err, l.locks())
	}
	if names, _, err := GC(t.Context(), l.e, "somebody", true); err != nil || len(names) > 0 {
		t.Errorf("GC by another home removed %q, %v", names, err)
	}
	// Somebody prunes: the lock goes, and the engine still says what runs on the GPU.
	list, err := l.e.Containers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Labels[labelGPU] != "" {
			if err := l.e.Discard(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	of := []containers.GPU{{UUID: "GPU-0"}, {UUID: "GPU-1", Index: 1}}
	if seen, err := e.gpus.look(t.Context(), of, nil); err != nil || len(seen.holders["GPU-0"]) != 1 || seen.holders["GPU-0"][0].name != dead.r.Container || len(seen.holders["GPU-1"]) > 0 {
		t.Errorf("without its lock: %+v, %v", seen.holders, err)
	}
	if err := l.e.Reserve(t.Context(), "bench-gpu-GPU-0", l.o.Image, e.claim(b.ID, dead.r.Run, "").labels("GPU-0")); err != nil {
		t.Fatal(err)
	}
	if err := dead.c.Stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if names, _, err := GC(t.Context(), l.e, "somebody", false); err != nil || len(names) != 1 || names[0] != "bench-gpu-GPU-0" {
		t.Errorf("GC removed %q, %v", names, err)
	}
	if err := dead.c.Remove(t.Context()); err != nil {
		t.Error(err)
	}

	// Two share one GPU, each knowing how much of it is its own.
	l.o.GPUs = GPUs{Slots: 2, MemoryMiB: 7000}
	l.o.GPUs.List, err = ParseGPUs("1=16g")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := Slots(t.Context(), l.e, l.o); err != nil || n != 2 {
		t.Errorf("%d slots, %v", n, err)
	}
	e, all = l.open(), nil
	for i := range 2 {
		d := l.dir()
		b := runnertest.WriteBatch(t, d, 1, stub.Script{Linger: 2 * time.Second, Environment: true})
		b.Device = "auto"
		if b.Datasets[0].Task = "speed"; i == 0 {
			if _, err := e.Start(t.Context(), b, d); err == nil || !strings.Contains(err.Error(), "speed") {
				t.Errorf("speed beside others: %v", err)
			}
		}
		b.Datasets[0].Task = "ner"
		h, err := e.Start(t.Context(), b, d)
		if err != nil {
			t.Fatal(err)
		}
		if w := h.Where(); len(w.GPUs) != 1 || w.GPUs[0] != "0" || w.GPUShare != 0.5 {
			t.Errorf("batch %d has %+v", i, w)
		}
		all = append(all, h)
		t.Cleanup(func() {
			if log := l.read(d.Log()); !strings.Contains(log, "env BENCH_GPU_MEMORY_MIB=7000\n") {
				t.Errorf("its environment is %s", log)
			}
		})
	}
	for _, h := range all {
		l.wait(h)
	}
	if left := l.locks(); len(left) > 0 {
		t.Errorf("locks %q are left", left)
	}
}

// locks are the names of the locks on GPUs.
func (l *lab) locks() (names []string) {
	l.Helper()
	list, err := l.e.Containers(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	for _, s := range list {
		if s.Labels[labelGPU] != "" {
			names = append(names, s.Name)
		}
	}
	return names
}
