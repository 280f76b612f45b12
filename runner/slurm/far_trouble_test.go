//go:build linux

package slurm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bench/internal/content"
	"bench/runner"
	"bench/runner/kept"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// The connection is killed again and again while batches are sent, submitted,
// run and fetched, and once the login node is away for a while: every batch runs
// once, and all of it arrives.
func farCut(t *testing.T) {
	a := farCluster(t)
	e := openFar(t, farOptions(t))
	if err := e.Check(t.Context()); err != nil { // a cluster that cannot be reached at first is told
		t.Fatal(err)
	}
	const batches = 4
	model := filepath.Join(t.TempDir(), "model")
	if err := os.Mkdir(model, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(model, "weights"), bytes.Repeat([]byte("0123456789abcdef"), 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	most := 6
	if os.Getenv("BENCH_TEST_LONG") != "" {
		most = 40
	}
	over, cuts := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { cuts <- n }()
		random := rand.New(rand.NewPCG(1, 2))
		for n < most {
			select {
			case <-over:
				return
			case <-time.After(200*time.Millisecond + time.Duration(random.IntN(2500))*time.Millisecond):
			}
			for _, pid := range a.masters(t) {
				syscall.Kill(pid, syscall.SIGKILL)
				n++
			}
			if n == 4 {
				n++
				a.server.Kill()
				time.Sleep(4 * time.Second)
				if err := a.server.Up(); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	var all sync.WaitGroup
	for range batches {
		d := a.newDir(t, "batch")
		b := runnertest.WriteBatch(t, d, 3, stub.Script{Pause: 2 * time.Second, LogLines: 2000, Code: 7})
		b.Model.Path = model
		all.Go(func() {
			h, err := e.Start(t.Context(), b, d)
			if err != nil {
				t.Error(err)
				return
			}
			x, err := h.Wait(t.Context())
			if err != nil || x.Code != 7 || x.Stopped {
				t.Errorf("exit is %+v, %v", x, err)
			}
			for _, j := range b.Jobs {
				if !done(d, j) {
					t.Errorf("job %s is lost", j.ID.Short())
				}
			}
			if events := read(t, d.Events()); strings.Count(events, `"start"`) != 3 || strings.Count(events, `"warn"`) != 2000 {
				t.Errorf("%d starts of 3 jobs, %d of 2000 events", strings.Count(events, `"start"`), strings.Count(events, `"warn"`))
			}
			if log := read(t, d.Log()); !strings.HasSuffix(log, "line 1999\n"+stub.LastLine) || strings.Count(log, "Slurm job ") != 1 {
				t.Errorf("the log ends with %q", log[max(0, len(log)-200):])
			}
			name := h.(*handle).r.Name
			if out, err := a.cluster.Run("squeue", "--noheader", "--states=all", "--name="+name, "--format=%A"); err != nil || len(strings.Fields(out)) != 1 {
				t.Errorf("jobs of batch %s: %q %v, want one", name, out, err)
			}
		})
	}
	all.Wait()
	close(over)
	n := <-cuts
	t.Logf("%d cuts", n)
	if n < 5 {
		t.Errorf("the connection was cut %d times", n)
	}
}

// What has arrived of a large file before a cut is not sent again, and what
// arrived wrong is noticed.
func farResume(t *testing.T) {
	a := farCluster(t)
	o := farOptions(t)
	o.Site.Instance = fmt.Sprint("resume", time.Now().UnixNano()) // nothing is there yet
	e := openFar(t, o)
	if err := e.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 48<<20)
	for i := range text {
		text[i] = byte(i * i >> 8)
	}
	model := t.TempDir()
	if err := os.WriteFile(filepath.Join(model, "weights 'of' it"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	send := func() error {
		at, err := e.at(o.Site)
		if err != nil {
			return err
		}
		files, err := content.List(model)
		if err != nil {
			return err
		}
		_, err = at.site.(*far).put(t.Context(), "model", files)
		return err
	}
	store := filepath.Join(a.folder, o.Site.Instance, "content")
	part := func() string {
		found, _ := filepath.Glob(filepath.Join(store, "*.part", "weights 'of' it"))
		if len(found) == 0 {
			return ""
		}
		return found[0]
	}
	began := make(chan error, 1)
	go func() { began <- send() }()
	eventually(t, "a part of the model has arrived", func() bool { return kept.Size(part()) > 4<<20 })
	a.server.Kill()
	half := part()
	before, size := time.Now(), kept.Size(half)
	if size < 4<<20 || size >= int64(len(text)) {
		t.Fatalf("%d bytes had arrived", size)
	}
	// What is there is written to only at its end from now on, and a wrong byte in it
	// costs the whole file.
	var inode syscall.Stat_t
	if err := syscall.Stat(half, &inode); err != nil {
		t.Fatal(err)
	}
	if err := a.server.Up(); err != nil {
		t.Fatal(err)
	}
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d MiB had arrived; the rest took %v", size>>20, len(text)>>20, time.Since(before))
	whole, _ := filepath.Glob(filepath.Join(store, "*", "weights 'of' it"))
	if len(whole) != 1 || strings.Contains(whole[0], ".part") || read(t, whole[0]) != string(text) {
		t.Fatalf("the model arrived as %v, and is not the same", whole)
	}
	var now syscall.Stat_t
	if err := syscall.Stat(whole[0], &now); err != nil || now.Ino != inode.Ino {
		t.Errorf("what had arrived was sent again: %v", err)
	}

	// A wrong byte in what has arrived.
	folder := filepath.Dir(whole[0])
	text[5]++
	if err := errors.Join(os.Rename(folder, folder+".part"), os.WriteFile(whole[0][:len(folder)]+".part"+whole[0][len(folder):], text[:1000], 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	text[5]--
	if read(t, whole[0]) != string(text) {
		t.Error("a wrong byte was not noticed")
	}
}

// A bench that knows the cluster by its records alone finds, and stops, what runs
// there; whoever died between sbatch and writing down the number too.
func farAttach(t *testing.T) {
	a := farCluster(t)
	d := a.newDir(t, "batch")
	b := runnertest.WriteBatch(t, d, 2, stub.Script{Pause: time.Hour})
	h, err := openFar(t, farOptions(t)).Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	r := h.(*handle).r
	id := r.Job
	r.Job = ""
	if err := kept.WriteJSON(d.Executor(), r); err != nil {
		t.Fatal(err)
	}
	found, err := openFar(t, Options{Poll: time.Second}).Attach(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	if got := found.(*handle).r.Job; got != id {
		t.Errorf("found job %s, want %s", got, id)
	}
	if err := found.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x := wait(t, h); !x.Stopped {
		t.Errorf("exit is %+v, want Stopped", x)
	}
	// One that was never handed in is not found, and nothing is left of it.
	r.Name = "bench-nothing-of-this-name"
	left := filepath.Join(a.folder, "test", "batches", r.Name)
	if err := errors.Join(kept.WriteJSON(d.Executor(), r), os.MkdirAll(left, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := openFar(t, Options{}).Attach(t.Context(), b, d); !errors.Is(err, runner.ErrNotFound) || exists(left) {
		t.Errorf("Attach: %v, want runner.ErrNotFound; left: %v", err, exists(left))
	}
}

// What is wrong with the way to the cluster is said with a remedy.
func farPreconditions(t *testing.T) {
	a := farCluster(t)
	for _, test := range []struct {
		site       Site
		says, hint string
	}{
		{Site{Host: "nosuchhost.invalid", Folder: a.folder}, "cannot be reached", "look at the name"},
		{Site{Host: "-oProxyCommand=id", Folder: a.folder}, "--slurm-host", "login node"},
		{Site{Host: "engine", Folder: "/proc/nosuch"}, "/proc/nosuch at engine cannot be written to", "look at the folder there"},
	} {
		o := farOptions(t)
		o.Site = test.site
		e := openFar(t, o)
		d := a.newDir(t, "batch")
		_, err := e.Start(t.Context(), runnertest.WriteBatch(t, d, 1, stub.Script{}), d)
		p := refused(t, err)
		has(t, p.Error(), test.says)
		has(t, p.Hint, test.hint)
	}
	// A folder that the nodes do not see: bench's own is hidden from them.
	o := farOptions(t)
	o.Site.Folder = a.home
	d := a.newDir(t, "batch")
	h, err := openFar(t, o).Start(t.Context(), runnertest.WriteBatch(t, d, 1, stub.Script{}), d)
	if err == nil {
		_, err = h.Wait(t.Context())
	}
	p := refused(t, err)
	has(t, p.What, "does not see "+a.home)
	has(t, p.Hint, "--slurm-folder")
}
