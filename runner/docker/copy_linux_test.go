package docker

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
	"bench/internal/content"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// A batch on a host behind ssh goes on through everything that can happen to
// the way there: ssh dies, its server dies, dockerd dies; then bench does.
func TestWayIsCut(t *testing.T) {
	server := containertest.StartSSH(t)
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	x := containertest.StartExtra(t, true, false)
	image := containertest.Image(t, x.Open(), "testtrainer", "testtrainer")
	open := func() *lab {
		e, err := containers.Open(t.Context(), "ssh://engine"+strings.TrimPrefix(x.Host, "unix://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return &lab{t, e, Options{Image: image, Instance: x.Instance, Grace: time.Second, Limits: runner.Limits{CPUs: 1, MemoryBytes: 256 << 20}}}
	}
	l := open()
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 3, stub.Script{Pause: 6 * time.Second, LogLines: 500})
	h, err := l.open().Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	l.appears(d, b.Jobs[0])
	killSSH(t, runtime)
	time.Sleep(time.Second)
	server.Kill()
	x.Kill()
	time.Sleep(500 * time.Millisecond)
	server.Up()
	x.Up()
	// Another bench finds it while the first has lost sight of it or not.
	other := open()
	again, err := other.open().Attach(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []runner.Handle{h, again} {
		if x := l.wait(h); x.Code != 0 || x.Stopped {
			t.Errorf("exit %+v", x)
		}
	}
	for _, j := range b.Jobs {
		l.appears(d, j)
		if n := strings.Count(l.read(d.Events()), `"start","job":"`+string(j.ID)); n != 1 {
			t.Errorf("job %s was begun %d times: %s", j.ID.Short(), n, l.read(d.Events()))
		}
	}
	l.clean()
}

// killSSH kills the ssh that has a socket below dir.
func killSSH(t *testing.T, dir string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range list {
		args, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(args), dir) {
			continue
		}
		pid := 0
		for _, c := range filepath.Base(filepath.Dir(file)) {
			pid = 10*pid + int(c-'0')
		}
		syscall.Kill(pid, syscall.SIGKILL)
		return
	}
	t.Fatal("there is no ssh")
}

// Connections that break while a model is sent and while results are fetched
// cost nothing but time.
func TestConnectionsBreak(t *testing.T) {
	way := containertest.LayCable(t)
	l := labOn(t, way.Open())
	t.Cleanup(l.clean)
	model := t.TempDir()
	for name, size := range map[string]int{"weights.bin": 24 << 20, "config.json": 10} {
		if err := os.WriteFile(filepath.Join(model, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	way.CutSending(12 << 20)
	d := l.dir()
	if err := os.MkdirAll(d.In(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.In(), "attack"), []byte("long predictions"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := runnertest.WriteBatch(t, d, 2, stub.Script{Pause: 3 * time.Second})
	b.Model = job.Model{ID: "org/name", Path: model}
	h, err := l.open().Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	if way.Cuts() != 1 {
		t.Errorf("%d connections broke while the model was sent, want one", way.Cuts())
	}
	way.CutReceiving(4 << 20)
	if x := l.wait(h); x.Code != 0 || x.Stopped {
		t.Errorf("exit %+v; %s", x, l.read(d.Log()))
	}
	if way.Cuts() != 2 {
		t.Errorf("%d connections broke in all, want two", way.Cuts())
	}
	for _, j := range b.Jobs {
		l.appears(d, j)
	}
	if n := kept.Size(filepath.Join(d.Out(), string(b.Jobs[0].ID), kept.Predictions)); n != 8<<20 {
		t.Errorf("the predictions have %d bytes", n)
	}
}

// A host without space for a model is a precondition that says so; what nobody
// uses there makes room first.
func TestNoSpace(t *testing.T) {
	x := containertest.StartSmall(t, 80)
	e, err := containers.Open(t.Context(), x.Host+"?transfer=copy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	l := &lab{t, e, Options{Image: containertest.Image(t, e, "testtrainer", "testtrainer"), Instance: x.Instance, Grace: time.Second, Limits: runner.Limits{CPUs: 1, MemoryBytes: 256 << 20}}}
	for i, size := range []int{40 << 20, 41 << 20, 90 << 20} { // the engine reads all of what it has no room for
		model := t.TempDir()
		if err := os.WriteFile(filepath.Join(model, "weights.bin"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(model, "weights.bin"), int64(size)); err != nil {
			t.Fatal(err)
		}
		d := l.dir()
		b := runnertest.WriteBatch(t, d, 1, stub.Script{})
		b.Model = job.Model{ID: "org/name", Path: model}
		began := time.Now()
		h, err := l.open().Start(t.Context(), b, d)
		if i < 2 {
			if err != nil {
				t.Fatal(err)
			}
			if x := l.wait(h); x.Code != 0 {
				t.Errorf("exit %+v", x)
			}
			continue
		}
		p, ok := errors.AsType[*runner.PreconditionError](err)
		if !ok || !strings.Contains(err.Error(), "disk is full") || !strings.Contains(p.Hint, "free some space") || time.Since(began) > 10*time.Second {
			t.Errorf("a model that is too large: %v after %v", err, time.Since(began))
		}
	}
	if found, err := e.Find(t.Context(), map[string]string{containers.LabelInstance: x.Instance}); err != nil || len(found) != 0 {
		t.Errorf("%d containers are left, %v", len(found), err)
	}
}

// How fast a model gets to an engine: 512 MB in one file.
func BenchmarkSend(b *testing.B) {
	b.Run("unix", func(b *testing.B) { send(b, containertest.OpenCopying(b)) })
	b.Run("ssh", func(b *testing.B) {
		containertest.StartSSH(b)
		e, err := containers.Open(b.Context(), "ssh://engine")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { e.Close() })
		send(b, e)
	})
}

func send(b *testing.B, e *containers.Engine) {
	image := containertest.Image(b, e, "testtrainer", "testtrainer")
	path := filepath.Join(b.TempDir(), "weights.bin")
	if err := os.WriteFile(path, make([]byte, 512<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	instance := containertest.Instance(b, e)
	b.SetBytes(512 << 20)
	for b.Loop() {
		c := content.New([]content.File{{Name: "weights.bin", Path: path, Size: 512 << 20, SHA256: rand.Text()}})
		s := containers.Shelf{Kind: "model", Instance: instance, Content: c, Image: image}
		seen, err := e.Hold(b.Context(), s.Volume()+"-seen", image, []containers.Mount{s.Mount("/m")}, map[string]string{containers.LabelInstance: instance})
		if err == nil {
			err = e.Fill(b.Context(), s, seen, "/m")
		}
		if err == nil {
			err = seen.Remove(b.Context())
		}
		if err == nil {
			_, err = e.RemoveVolume(b.Context(), s.Volume())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
