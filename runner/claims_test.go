package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"bench/internal/atomicfile"
	"bench/internal/procid"
	"bench/runner/job"
)

func aBatch(ids ...job.ID) (job.Batch, map[job.ID]job.Spec) {
	b := job.Batch{Version: job.ProtocolVersion, ID: job.BatchID(ids)}
	specs := map[job.ID]job.Spec{}
	for _, id := range ids {
		b.Jobs = append(b.Jobs, job.Job{ID: id})
		specs[id] = job.Spec{Model: string(id)}
	}
	return b, specs
}

func homeAt(path string) home { return newHome(path, &atomicfile.Group{Dir: path}) }

func nothing(job.Dir) error { return nil }

// A job that a live process holds cannot be claimed again, whatever the rest
// of the batch; when the holder lets go, the next one gets the whole batch.
func TestClaimsExclude(t *testing.T) {
	dir := t.TempDir()
	b, specs := aBatch("a", "b")
	first, err := homeAt(dir).create(b, specs, "process", 1, 0, nothing)
	if err != nil {
		t.Fatal(err)
	}
	h := homeAt(dir) // as another process has it
	other, otherSpecs := aBatch("b", "c")
	if _, err := h.create(other, otherSpecs, "process", 1, 0, nothing); !errors.Is(err, errClaimed) {
		t.Fatalf("job b was claimed twice: %v", err)
	}
	mine, foreign, err := h.scan()
	if err != nil || len(mine) != 0 || foreign["a"] == "" || foreign["b"] == "" || foreign["c"] != "" {
		t.Fatalf("scan: %v, %v, %v", mine, foreign, err)
	}
	first.release()
	mine, foreign, err = h.scan()
	if err != nil || len(mine) != 1 || len(foreign) != 0 {
		t.Fatalf("scan after release: %v, %v, %v", mine, foreign, err)
	}
	if got := mine[0]; got.batch.ID != b.ID || got.specs["b"].Model != "b" || got.executor != "process" || got.attempt != 1 {
		t.Errorf("taken over: %+v", got)
	}
	if err := mine[0].drop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(first.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of an ended batch is still there: %v", err)
	}
}

// What a crash leaves before the manifest is written goes with the next scan;
// what it leaves after that is taken over.
func TestScanRemovesLeftovers(t *testing.T) {
	h := homeAt(t.TempDir())
	left := filepath.Join(h.batches(), "torn")
	if err := os.MkdirAll(filepath.Join(left, "in"), 0o777); err != nil {
		t.Fatal(err)
	}
	mine, _, err := h.scan()
	if err != nil || len(mine) != 0 {
		t.Fatalf("%v, %v", mine, err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("leftover is still there: %v", err)
	}
}

// A fill that fails leaves nothing.
func TestCreateUndoesAFailedFill(t *testing.T) {
	h := homeAt(t.TempDir())
	b, specs := aBatch("a")
	full := errors.New("disk full")
	if _, err := h.create(b, specs, "process", 1, 0, func(job.Dir) error { return full }); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	mine, foreign, err := h.scan()
	if err != nil || len(mine)+len(foreign) != 0 {
		t.Errorf("%v, %v, %v", mine, foreign, err)
	}
}

func TestManifestOfAnotherVersionIsNotThrownAway(t *testing.T) {
	h := homeAt(t.TempDir())
	b, specs := aBatch("a")
	c, err := h.create(b, specs, "process", 1, 0, nothing)
	if err != nil {
		t.Fatal(err)
	}
	c.release()
	if err := os.WriteFile(manifestPath(c.dir), []byte(`{"schema":99}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.scan(); err == nil {
		t.Fatal("a manifest of schema 99 was accepted")
	}
	if _, err := os.Stat(manifestPath(c.dir)); err != nil {
		t.Error(err)
	}
}

// Batches come and go while others look at the same folders.
func TestClaimsComeAndGo(t *testing.T) {
	h := homeAt(t.TempDir())
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 50 {
				b, specs := aBatch(job.ID(fmt.Sprintf("%d/%d", worker, i)))
				c, err := h.create(b, specs, "process", 1, 0, func(d job.Dir) error { return os.MkdirAll(d.In(), 0o777) })
				if err == nil {
					err = c.drop()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if mine, foreign, err := h.scan(); err != nil || len(mine)+len(foreign) != 0 {
		t.Errorf("%v, %v, %v", mine, foreign, err)
	}
}

// A manifest that a loss of power has cut off is none: nothing was started.
func TestTornManifest(t *testing.T) {
	for name, torn := range map[string]string{"empty": "", "cut off": `{"schema":1,"ba`, "nulls": "\x00\x00\x00\x00"} {
		dir := t.TempDir()
		b, specs := aBatch("a")
		c, err := homeAt(dir).create(b, specs, "process", 1, 0, nothing)
		if err != nil {
			t.Fatal(err)
		}
		c.release()
		if err := os.WriteFile(manifestPath(c.dir), []byte(torn), 0o644); err != nil {
			t.Fatal(err)
		}
		if all, err := Status(dir); err != nil || len(all) != 0 {
			t.Errorf("%s: status: %v, %v", name, all, err)
		}
		h := homeAt(dir)
		if mine, foreign, err := h.scan(); err != nil || len(mine)+len(foreign) != 0 {
			t.Errorf("%s: scan: %v, %v, %v", name, mine, foreign, err)
		}
		if _, err := h.create(b, specs, "process", 1, 0, nothing); err != nil {
			t.Errorf("%s: the same jobs again: %v", name, err)
		}
	}
}

// When a batch began is right on whatever the clock shows now.
func TestBegunThoughTheClockWasSet(t *testing.T) {
	boot, up, err := procid.Up()
	if err != nil {
		t.Skip(err)
	}
	c := &claim{dir: job.Dir(t.TempDir()), home: homeAt(t.TempDir())}
	wrong := time.Date(2098, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, b := range []beginning{
		{Time: wrong, Boot: boot, Up: up - time.Minute},                              // the clock was set since
		{Time: time.Now().Add(-time.Minute)},                                         // of a machine that has no such clock
		{Time: time.Now().Add(-time.Minute), Boot: "another", Up: up - 24*time.Hour}, // of another machine
	} {
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(startedPath(c.dir), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if at, _ := c.begun(); time.Since(at).Round(10*time.Second) != time.Minute {
			t.Errorf("%+v: began %v ago", b, time.Since(at))
		}
	}
	if err := c.start(time.Now().Add(-time.Hour), Where{}); err != nil {
		t.Fatal(err)
	}
	var b beginning
	if text, err := os.ReadFile(startedPath(c.dir)); err != nil || json.Unmarshal(text, &b) != nil || b.Boot != boot || (up-b.Up).Round(time.Minute) != time.Hour {
		t.Errorf("started.json: %v: %+v, up %v", err, b, up)
	}
}
