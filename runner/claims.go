package runner

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"bench/datasets"
	"bench/internal/atomicfile"
	"bench/internal/hostile"
	"bench/internal/procid"
	"bench/runner/job"

	"github.com/gofrs/flock"
)

// Batches lie in HOME/batches/ID while they run. A batch's folder is claimed by
// the bench process that holds the lock file in it; when that process dies, the
// kernel lets go of the lock and the next bench takes the batch over: it
// collects what is finished and attaches to what still runs.

// claim is a batch's folder that this process owns.
type claim struct {
	dir      job.Dir
	batch    job.Batch
	specs    map[job.ID]job.Spec
	attempt  int
	executor string
	expected float64 // seconds; 0: not known
	lock     *flock.Flock
	home     home
	data     map[string]*datasets.Dataset // in in/data; nil: an earlier bench put it there
}

// manifest is HOME/batches/ID/manifest.json: what a later process needs to take
// the batch over.
type manifest struct {
	Schema  int                 `json:"schema"`
	Batch   job.Batch           `json:"batch"`
	Specs   map[job.ID]job.Spec `json:"specs"`
	Attempt int                 `json:"attempt"`
	// Executor is the name of the executor that was asked to run it.
	Executor string `json:"executor"`
	// Expected is how many seconds it was expected to take when it was made; 0: that
	// was not known.
	Expected float64 `json:"expected_seconds,omitempty"`
}

const manifestSchema = 1

// home gives out claims on the batches of one HOME.
type home struct {
	path   string
	disk   *atomicfile.Group
	held   *held
	spares *spares
}

func newHome(path string, disk *atomicfile.Group) home {
	return home{path, disk, &held{dirs: map[job.Dir]bool{}}, &spares{dirs: map[string][]string{}}}
}

// held are the claims of this home: there is no need to ask the file system
// about them.
type held struct {
	mu   sync.Mutex
	dirs map[job.Dir]bool
}

func (h *held) add(d job.Dir)    { h.mu.Lock(); h.dirs[d] = true; h.mu.Unlock() }
func (h *held) remove(d job.Dir) { h.mu.Lock(); delete(h.dirs, d); h.mu.Unlock() }

func (h *held) has(d job.Dir) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dirs[d]
}

func (h home) batches() string       { return filepath.Join(h.path, "batches") }
func (h home) inputs() string        { return filepath.Join(h.path, "inputs") }
func (h home) dir(id job.ID) job.Dir { return job.Dir(filepath.Join(h.batches(), string(id))) }
func manifestPath(d job.Dir) string  { return filepath.Join(string(d), "manifest.json") }
func lockPath(d job.Dir) string      { return filepath.Join(string(d), "lock") }

// exclusively runs f while no other process changes the set of claims.
func (h home) exclusively(f func() error) error {
	if err := atomicfile.MkdirSpread(h.batches()); err != nil {
		return err
	}
	l := flock.New(filepath.Join(h.batches(), ".lock"))
	if err := l.Lock(); err != nil {
		return fmt.Errorf("lock of %s: %w", h.batches(), err)
	}
	defer l.Unlock()
	atomicfile.Fresh(h.batches()) // another machine may have changed it
	return f()
}

// scan looks through all batch folders. Those nobody holds are claimed and
// returned; of those that another live process holds, the jobs are returned.
// Folders without a manifest are leftovers of a crash and go.
func (h home) scan() (mine []*claim, foreign map[job.ID]job.Dir, err error) {
	err = h.exclusively(func() error {
		foreign, err = h.look(func(d job.Dir, m *manifest, l *flock.Flock) error {
			if m == nil {
				_, err := h.setAside(d)
				return errors.Join(err, l.Unlock())
			}
			mine = append(mine, &claim{dir: d, batch: m.Batch, specs: m.Specs, attempt: m.Attempt, executor: m.Executor, expected: m.Expected, lock: l, home: h})
			h.held.add(d)
			return nil
		})
		return errors.Join(err, h.sweepRemains())
	})
	if err != nil {
		for _, c := range mine {
			c.release()
		}
		return nil, nil, err
	}
	return mine, foreign, nil
}

// look walks over the batch folders. It calls free, which then owns the lock,
// for each that no process holds, with a nil manifest if there is none, and
// returns the jobs of those that other processes hold.
func (h home) look(free func(job.Dir, *manifest, *flock.Flock) error) (map[job.ID]job.Dir, error) {
	held := map[job.ID]job.Dir{}
	entries, err := os.ReadDir(h.batches())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		d := job.Dir(filepath.Join(h.batches(), e.Name()))
		if h.held.has(d) {
			continue
		}
		l := flock.New(lockPath(d))
		ok, err := l.TryLock()
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE) {
			continue // it has ended since the folders were listed
		}
		if err != nil {
			return nil, err
		}
		atomicfile.Fresh(string(d))
		m, err := readManifest(d)
		missing := errors.Is(err, fs.ErrNotExist)
		if err != nil && !missing {
			if ok {
				l.Unlock()
			}
			return nil, err
		}
		switch {
		case ok && missing:
			err = free(d, nil, l)
		case ok:
			err = free(d, &m, l)
		default:
			err = nil
			for id := range m.Specs {
				held[id] = d
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return held, nil
}

// create claims a new batch and lets fill write its in/ folder. It returns an
// error that wraps errClaimed when another live process runs one of its jobs.
func (h home) create(b job.Batch, specs map[job.ID]job.Spec, executor string, attempt int, expected float64, fill func(job.Dir) error) (*claim, error) {
	c := &claim{dir: h.dir(b.ID), batch: b, specs: specs, attempt: attempt, executor: executor, expected: expected, home: h}
	err := h.exclusively(func() error {
		held, err := h.look(func(_ job.Dir, _ *manifest, l *flock.Flock) error { return l.Unlock() })
		if err != nil {
			return err
		}
		for id := range specs {
			if _, ok := held[id]; ok {
				return fmt.Errorf("job %s %w", id.Short(), errClaimed)
			}
		}
		// What a batch of the same jobs left behind must not be taken for results of this one.
		left, err := h.setAside(c.dir)
		if err == nil {
			err = discard(left, 0)
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(c.dir.Out(), 0o777); err != nil {
			return err
		}
		c.lock = flock.New(lockPath(c.dir))
		if ok, err := c.lock.TryLock(); err != nil || !ok {
			return fmt.Errorf("lock of batch %s: %w", b.ID.Short(), errors.Join(err, errClaimed))
		}
		text, err := json.Marshal(manifest{manifestSchema, c.batch, specs, attempt, executor, expected})
		if err != nil {
			return err
		}
		return h.write(manifestPath(c.dir), text)
	})
	if err != nil {
		return nil, err
	}
	h.held.add(c.dir)
	if err := fill(c.dir); err != nil {
		return nil, errors.Join(err, c.drop())
	}
	return c, nil
}

func (h home) write(path string, b []byte) error {
	return h.disk.Write(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// errClaimed says that another live process runs the batch.
var errClaimed = errors.New("is run by another bench process")

// beginning is HOME/batches/ID/started.json: what only the bench that started
// the batch knows, for outcomes that another one takes in.
type beginning struct {
	Time  time.Time `json:"time"`
	Where Where     `json:"where"`
	// Boot and Up are the same moment on the clock of the machine that nobody can
	// set: its boot, and the time since, in nanoseconds. Empty: not known.
	Boot string        `json:"boot,omitempty"`
	Up   time.Duration `json:"up,omitempty"`
}

func startedPath(d job.Dir) string { return filepath.Join(string(d), "started.json") }

// starting notes that e is about to be asked to start the batch. The claim is on
// disk then: what runs on other machines is found by it when this one has lost
// its power.
func (c *claim) starting(at time.Time, e Executor) error {
	err := c.start(at, Where{})
	if _, local := e.(Local); local || err != nil {
		return err
	}
	return c.home.disk.Sync()
}

// start notes when and where the batch began. An empty where says that its
// executor is being asked to start it.
func (c *claim) start(at time.Time, where Where) error {
	b := beginning{Time: at, Where: where}
	if boot, up, err := procid.Up(); err == nil {
		b.Boot, b.Up = boot, up-time.Since(at)
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return c.home.write(startedPath(c.dir), text)
}

// begun returns what start noted, as far as it is there. Where the clock was set
// meanwhile, the time is that of the clock as it goes now.
func (c *claim) begun() (time.Time, Where) {
	var b beginning
	if text, err := os.ReadFile(startedPath(c.dir)); err == nil {
		json.Unmarshal(text, &b) // half of it is better than an outcome without
	}
	if boot, up, err := procid.Up(); err == nil && boot == b.Boot {
		if at := time.Now().Add(b.Up - up); at.Sub(b.Time).Abs() > time.Second {
			b.Time = at
		}
	}
	return b.Time, b.Where
}

// drop removes the folder of a batch that has ended and gives the claim back.
func (c *claim) drop() error {
	h := c.home
	// The manifest goes first: a crash in between leaves a folder that scan removes.
	if err := os.Remove(manifestPath(c.dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Whoever looks through the folders makes a lock file in each: not in this
	// one while it is being removed. Its name makes it nobody's.
	var gone string
	err := h.exclusively(func() (err error) {
		gone, err = h.setAside(c.dir)
		return errors.Join(err, c.lock.Unlock())
	})
	h.held.remove(c.dir)
	if err == nil && gone != "" && c.data != nil {
		h.keep(job.Dir(gone), c.data)
	}
	return errors.Join(err, discard(gone, time.Second))
}

// remains begins the names of folders that are being removed.
const remains = ".ended-"

// setAside gives a folder a name that makes it nobody's, and returns that. It
// returns "" if there is no such folder.
func (h home) setAside(d job.Dir) (string, error) {
	gone := filepath.Join(h.batches(), remains+filepath.Base(string(d))+"-"+rand.Text()[:8])
	err := os.Rename(string(d), gone)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return gone, err
}

// sweepRemains removes what a bench that died was removing.
func (h home) sweepRemains() error {
	gone, err := filepath.Glob(filepath.Join(h.batches(), remains+"*"))
	for _, d := range gone {
		err = errors.Join(err, discard(d, 0))
	}
	return err
}

// discard removes a folder that was set aside. On NFS a file that some process
// still has open, such as a supervisor that is about to end, stays under another
// name until it is closed, and its folder with it: that is waited for, and
// what cannot go by then goes with a later scan.
func discard(dir string, patience time.Duration) error {
	if dir == "" {
		return nil
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := hostile.RemoveAll(dir)
		if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ESTALE) {
			return err
		}
		if !time.Now().Before(end) {
			return nil
		}
	}
}

// release gives the claim back and leaves the folder for whoever comes next.
func (c *claim) release() {
	c.lock.Unlock()
	c.home.held.remove(c.dir)
}

// readManifest returns an error that wraps fs.ErrNotExist if there is none, or only a
// part of one: the machine lost its power before the disk had it, and then nothing
// was started, since starting waits for the disk.
func readManifest(d job.Dir) (manifest, error) {
	var m manifest
	b, err := os.ReadFile(manifestPath(d))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		if !json.Valid(b) { // the power went before it was on disk
			err = fs.ErrNotExist
		}
		return m, fmt.Errorf("%s: %w", manifestPath(d), err)
	}
	if m.Schema != manifestSchema {
		return m, fmt.Errorf("%s: schema %d, this bench reads %d; let the bench that wrote it finish, or remove the folder", manifestPath(d), m.Schema, manifestSchema)
	}
	return m, nil
}
