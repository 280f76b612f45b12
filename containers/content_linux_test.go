package containers_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
	"bench/internal/content"
)

// randomTree makes random files, of which "big" ones are sent alone.
func randomTree(t *testing.T, sizes map[string]int) content.Tree {
	t.Helper()
	dir := t.TempDir()
	var files []content.File
	for name, size := range sizes {
		b := make([]byte, size)
		rand.Read(b)
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		n, sum, err := content.Hash(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, content.File{Name: name, Path: path, Size: n, SHA256: sum})
	}
	return content.New(files)
}

// shelf holds a container that shows the content.
func (l *lab) shelf(e *containers.Engine, kind string, c content.Tree) (containers.Shelf, *containers.Container) {
	l.Helper()
	s := containers.Shelf{Kind: kind, Instance: l.instance, Content: c, Image: l.image}
	seen, err := e.Hold(l.Context(), "bench-test-seen-"+rand.Text()[:8], l.image, []containers.Mount{s.Mount("/bench/model")},
		map[string]string{containers.LabelInstance: l.instance})
	if err != nil {
		l.Fatal(err)
	}
	return s, seen
}

// same compares what a container shows with the files.
func (l *lab) same(seen *containers.Container, c content.Tree) {
	l.Helper()
	for _, f := range c.Files {
		want, err := os.ReadFile(f.Path)
		if err != nil {
			l.Fatal(err)
		}
		r, i, err := seen.Open(l.Context(), "/bench/model/"+f.Name)
		if err != nil {
			l.Error(err)
			continue
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, want) || i.Mode.Perm() != 0o644 {
			l.Errorf("%s: %d bytes of %d, %v, mode %v", f.Name, len(got), len(want), err, i.Mode)
		}
	}
}

// A transfer that is cut in the middle goes on with the file it was cut in.
func TestFillResumes(t *testing.T) {
	l := newLab(t)
	c := randomTree(t, map[string]int{"a.bin": 20 << 20, "b.bin": 20 << 20, "c/d/config.json": 100, "c/empty": 0, "tokenizer.json": 3 << 20, "weights.bin": 20 << 20})
	way := containertest.LayCable(t)
	e := way.Open()
	e.Hurry()
	s, seen := l.shelf(e, "model", c)
	before := way.Sent()
	way.CutSending(33 << 20) // in the middle of b.bin
	if err := e.Fill(t.Context(), s, seen, "/bench/model"); err != nil {
		t.Fatal(err)
	}
	l.same(seen, c)
	if sent := way.Sent() - before; way.Cuts() != 1 || sent > c.Bytes+21<<20 {
		t.Errorf("%d MB were sent for %d MB; a.bin should not be sent twice", sent>>20, c.Bytes>>20)
	}
	// What is read may be cut too.
	way.CutReceiving(10 << 20)
	r, _, err := seen.Open(t.Context(), "/bench/model/a.bin")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); !containers.IsKind(err, containers.Unreachable) || n >= 20<<20 {
		t.Errorf("reading over a cut connection: %d bytes, %v", n, err)
	}
	r.Close()
	// A second time, nothing is sent.
	before = way.Sent()
	if err := e.Fill(t.Context(), s, seen, "/bench/model"); err != nil {
		t.Fatal(err)
	}
	if sent := way.Sent() - before; sent > 10<<10 {
		t.Errorf("%d bytes were sent again", sent)
	}

	if _, err := seen.Stat(t.Context(), "/bench/model/nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat: %v", err)
	}
	if err := seen.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := seen.Stat(t.Context(), "/bench/model/a.bin"); !containers.IsKind(err, containers.Gone) {
		t.Errorf("Stat without a container: %v", err)
	}
	if _, _, err := seen.Open(t.Context(), "/bench/model/a.bin"); !containers.IsKind(err, containers.Gone) {
		t.Errorf("Open without a container: %v", err)
	}
}

// A large file goes on in the middle, with the part that was cut.
func TestFillResumesInside(t *testing.T) {
	l := newLab(t)
	l.image = containertest.Base(t, l.e)
	c := randomTree(t, map[string]int{"weights.bin": 150 << 20, "sub/config.json": 100})
	way := containertest.LayCable(t)
	e := way.Open()
	e.Hurry()
	s, seen := l.shelf(e, "model", c)
	before := way.Sent()
	way.CutSending(110 << 20) // in the fourth part of 32 MiB
	if err := e.Fill(t.Context(), s, seen, "/bench/model"); err != nil {
		t.Fatal(err)
	}
	l.same(seen, c)
	if sent := way.Sent() - before; way.Cuts() != 1 || sent > c.Bytes+33<<20 {
		t.Errorf("%d MiB were sent for %d MiB, with %d cuts", sent>>20, c.Bytes>>20, way.Cuts())
	}
	if n, err := e.VolumeBytes(t.Context(), s.Volume()); err != nil || n > c.Bytes+1<<20 {
		t.Errorf("%d MiB lie there: %v", n>>20, err)
	}
}

// What has the right size and the wrong content is sent again; what changed on
// this machine is not sent at all.
func TestFillCompares(t *testing.T) {
	l := newLab(t)
	for _, image := range []string{l.image, containertest.Base(t, l.e)} { // without a shell, and with one
		l.image = image
		c := randomTree(t, map[string]int{"sub/weights.bin": 1 << 20, "config.json": 100})
		s, seen := l.shelf(l.e, "model", c)
		way, err := l.e.Hold(t.Context(), "bench-test-wrong-"+rand.Text()[:8], l.image, []containers.Mount{{Volume: s.Volume(), Target: "/m", Writable: true}},
			map[string]string{containers.LabelInstance: l.instance})
		if err != nil {
			t.Fatal(err)
		}
		wrong := make([]byte, 1<<20)
		if err := way.Put(t.Context(), "/m", []containers.Entry{{Name: "sub", Dir: true, Mode: 0o755}, {Name: "sub/weights.bin", Mode: 0o644, Size: 1 << 20, Open: containers.Bytes(wrong)}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := l.e.Fill(t.Context(), s, seen, "/bench/model"); err != nil {
			t.Fatal(err)
		}
		l.same(seen, c)

		c = randomTree(t, map[string]int{"weights.bin": 1 << 20})
		if err := os.WriteFile(c.Files[0].Path, wrong, 0o600); err != nil {
			t.Fatal(err)
		}
		s, seen = l.shelf(l.e, "model", c)
		if err := l.e.Fill(t.Context(), s, seen, "/bench/model"); !errors.Is(err, content.ErrChanged) {
			t.Errorf("a file that changed: %v", err)
		}
	}
	probes, err := l.e.Find(t.Context(), map[string]string{containers.LabelBatch: "shell"})
	if err != nil || len(probes) > 0 {
		t.Errorf("left are %d containers, %v", len(probes), err)
	}
}

// Of many that want the same content, one sends it, also if they are in
// processes of their own; and one that died on the way is replaced.
func TestFillOnce(t *testing.T) {
	l := newLab(t)
	c := randomTree(t, map[string]int{"weights.bin": 40 << 20, "config.json": 100})
	way := containertest.LayCable(t)
	// Somebody began, and died.
	s, _ := l.shelf(l.e, "model", c)
	if _, err := l.e.Hold(t.Context(), s.Volume()+"-fill", l.image, []containers.Mount{{Volume: s.Volume(), Target: "/bench/model", Writable: true}},
		map[string]string{containers.LabelInstance: l.instance, "bench.filler": "dead"}); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 3 { // three processes
		e := way.Open()
		e.Hurry()
		for range 2 {
			wait.Go(func() {
				s, seen := l.shelf(e, "model", c)
				if err := e.Fill(t.Context(), s, seen, "/bench/model"); err != nil {
					t.Error(err)
				}
				l.same(seen, c)
			})
		}
	}
	wait.Wait()
	if sent := way.Sent(); sent > c.Bytes+8<<20 {
		t.Errorf("%d MB were sent for %d MB", sent>>20, c.Bytes>>20)
	}

	// Who sees the dead one's lock file need not wait.
	c = randomTree(t, map[string]int{"config.json": 100})
	s, seen := l.shelf(l.e, "model", c)
	s.Lock = t.TempDir()
	if _, err := l.e.Hold(t.Context(), s.Volume()+"-fill", l.image, []containers.Mount{{Volume: s.Volume(), Target: "/bench/model", Writable: true}},
		map[string]string{containers.LabelInstance: l.instance, "bench.filler": "dead"}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.e.Fill(t.Context(), s, seen, "/bench/model"); err != nil || time.Since(began) > 10*time.Second {
		t.Errorf("Fill: %v after %v", err, time.Since(began))
	}
	l.same(seen, c)
	if found, err := l.e.Find(t.Context(), map[string]string{"bench.filler": ""}); err == nil {
		for _, c := range found {
			if strings.HasPrefix(c.Name(), s.Volume()) {
				t.Errorf("%s is left", c.Name())
			}
		}
	}
}

// What has no room on the engine's disk is not sent until that is full.
func TestFillAsksForRoom(t *testing.T) {
	l := newLab(t)
	l.image = containertest.Base(t, l.e)
	way := containertest.LayCable(t)
	e := way.Open()
	c := content.New([]content.File{{Name: "weights.bin", Path: os.DevNull, Size: 1 << 50, SHA256: rand.Text()}})
	s, seen := l.shelf(e, "model", c)
	before := way.Sent()
	err := e.Fill(t.Context(), s, seen, "/bench/model")
	if f, ok := errors.AsType[*containers.Error](err); !ok || f.Kind != containers.NoSpace || !strings.Contains(f.Error(), "1125899906 MB are to be sent") || !strings.Contains(f.Hint, "free some space") {
		t.Errorf("Fill: %v", err)
	}
	if sent := way.Sent() - before; sent > 1<<20 {
		t.Errorf("%d bytes were sent first", sent)
	}
}

// The oldest content that nobody uses makes room.
func TestFillEvicts(t *testing.T) {
	l := newLab(t)
	var volumes []string
	for i := range 3 {
		c := randomTree(t, map[string]int{"weights.bin": 1<<20 + i})
		s, seen := l.shelf(l.e, "model", c)
		s.Keep = 2<<20 + 100
		if err := l.e.Fill(t.Context(), s, seen, "/bench/model"); err != nil {
			t.Fatal(err)
		}
		if i > 0 { // the first stays in use
			if err := seen.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		volumes = append(volumes, s.Volume())
		time.Sleep(1100 * time.Millisecond) // their ages are in seconds
	}
	left, err := l.e.Volumes(t.Context(), map[string]string{containers.LabelInstance: l.instance})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range left {
		names = append(names, v.Name)
	}
	if want := []string{volumes[0], volumes[2]}; fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("left are %v, want %v", names, want)
	}
	if n, err := l.e.VolumeBytes(t.Context(), volumes[0]); err != nil || n < 1<<20 || n > 2<<20 {
		t.Errorf("VolumeBytes = %d, %v", n, err)
	}
	if gone, err := l.e.RemoveVolume(t.Context(), volumes[0]); gone || err != nil {
		t.Errorf("a volume in use: %v, %v", gone, err)
	}
	if gone, err := l.e.RemoveVolume(t.Context(), "bench-none"); !gone || err != nil {
		t.Errorf("a volume that is not there: %v, %v", gone, err)
	}
}

// A file that changes while it is sent is the fault of this machine, not the
// engine's; a cancelled transfer ends at once.
func TestPutFails(t *testing.T) {
	l := newLab(t)
	c, err := l.e.Hold(t.Context(), "bench-test-put-"+rand.Text()[:8], l.image, []containers.Mount{{Volume: "bench-test-put-" + l.instance, Target: "/bench", Writable: true,
		Labels: map[string]string{containers.LabelInstance: l.instance}}}, map[string]string{containers.LabelInstance: l.instance})
	if err != nil {
		t.Fatal(err)
	}
	short := []containers.Entry{{Name: "a", Mode: 0o644, Size: 10, Open: containers.Bytes([]byte("short"))}}
	if err := c.Put(t.Context(), "/bench", short, nil); err == nil || !strings.Contains(err.Error(), "changed while it was sent") || errors.As(err, new(*containers.Error)) {
		t.Errorf("Put of a file that got shorter: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	endless := []containers.Entry{{Name: "a", Mode: 0o644, Size: 1 << 40, Open: func() (io.ReadCloser, error) { return io.NopCloser(slow{}), nil }}}
	began := time.Now()
	if err := c.Put(ctx, "/bench", endless, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("Put that was cancelled: %v after %v", err, time.Since(began))
	}
	if err := c.Put(t.Context(), "/etc", short, nil); err == nil {
		t.Error("Put into the image's own files")
	}
	// What a program may have made of its folder.
	for _, name := range []string{"/bench", "/bench/"} {
		if _, _, err := c.Open(t.Context(), name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Open of a folder: %v", err)
		}
	}
}

// slow gives a byte now and then.
type slow struct{}

func (slow) Read(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	p[0] = 'x'
	return 1, nil
}

// An image goes from one engine to another.
func TestShip(t *testing.T) {
	x := containertest.StartExtra(t, false, false)
	l, far := newLab(t), x.Open()
	var said []string
	if err := containers.Ship(t.Context(), l.e, far, l.image, func(s string) { said = append(said, s) }); err != nil {
		t.Fatal(err)
	}
	here, err := l.e.Image(t.Context(), l.image)
	if err != nil {
		t.Fatal(err)
	}
	if there, err := far.Image(t.Context(), l.image); err != nil || there.ID != here.ID || len(said) != 2 {
		t.Errorf("image %+v, %v; said %q", there, err, said)
	}
	if err := containers.Ship(t.Context(), l.e, far, "bench-test-none:latest", nil); !containers.IsKind(err, containers.ImageMissing) {
		t.Errorf("an image that is not there: %v", err)
	}
	for ref, want := range map[string]bool{"bench-trainer:1": false, "org/name": false, "ghcr.io/org/name:1": true, "localhost/x": true, "hub:5000/x@sha256:00": true, "sha256:0123": false} {
		if containers.HasRegistry(ref) != want {
			t.Errorf("HasRegistry(%s) is not %v", ref, want)
		}
	}
}

// An engine that freezes in the middle of a transfer, and one that is killed:
// the transfer goes on when it is back.
func TestFillThroughOutages(t *testing.T) {
	x := containertest.StartExtra(t, true, false)
	e, err := containers.Open(t.Context(), x.Host+"?transfer=copy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	e.Hurry()
	l := &lab{t, e, containertest.Image(t, e, "containertest/prog", "prog"), x.Instance}
	sizes := map[string]int{}
	for i := range 14 {
		sizes[fmt.Sprintf("weights-%02d.bin", i)] = 9 << 20
	}
	c := randomTree(t, sizes)
	s, seen := l.shelf(e, "model", c)
	filled := make(chan error, 1)
	go func() { filled <- e.Fill(t.Context(), s, seen, "/bench/model") }()
	for i, outage := range []func(){
		func() { x.Freeze(); time.Sleep(4 * time.Second); x.Thaw() },
		func() { x.Kill(); x.Up() },
	} {
		// Some files later.
		name := fmt.Sprintf("/bench/model/weights-%02d.bin", 3+5*i)
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if _, err := seen.Stat(t.Context(), name); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("no %s after a minute", name)
			}
		}
		outage()
	}
	if err := <-filled; err != nil {
		t.Fatal(err)
	}
	l.same(seen, c)
}
