package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
)

// Group writes many files of one file system that become durable together, for
// one wait on the disk instead of two for each file. Its zero value with Dir set
// is ready; it may be used by many goroutines.
//
// A file is whole or absent to every reader, also when the writing program is
// killed. Only when the machine itself stops before Sync has returned can a file
// written since the last one be missing, empty or cut off: whoever reads it must
// be able to tell, and to do without it.
type Group struct {
	Dir string // a folder of the file system, which exists when Sync is called

	mu      sync.Mutex
	running *flush // on its way; its files are those written before it began
	waiting *flush // begins when running has ended
}

type flush struct {
	done chan struct{}
	err  error
}

// Write is the function Write, but the file is durable only when Sync, called
// after it, has returned.
func (g *Group) Write(path string, write func(io.Writer) error) error {
	if !canSyncAll {
		return Write(path, write)
	}
	_, err := replace(path, write, false)
	return err
}

// File is a file of a folder that WriteDir makes.
type File struct {
	Name  string
	Bytes []byte
}

// WriteDir makes a folder with files that appears whole or not at all. It does
// nothing and returns false if there is a folder already, other than an empty one.
func (g *Group) WriteDir(dir string, files []File) (made bool, err error) {
	parent := filepath.Dir(dir)
	part := filepath.Join(parent, "."+filepath.Base(dir)+partSuffix())
	err = os.Mkdir(part, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(parent, 0o777); err != nil {
			return false, err
		}
		err = os.Mkdir(part, 0o777)
	}
	if err != nil {
		return false, err
	}
	defer func() {
		if !made {
			os.RemoveAll(part)
		}
	}()
	for _, f := range files {
		if err := g.create(filepath.Join(part, f.Name), f.Bytes); err != nil {
			return false, err
		}
	}
	if !canSyncAll {
		if err := SyncDir(part); err != nil {
			return false, err
		}
	}
	err = os.Rename(part, dir)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !canSyncAll {
		return true, SyncDir(parent)
	}
	return true, nil
}

// create writes a new file.
func (g *Group) create(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && !canSyncAll {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// partSuffix ends the name of a folder that is being made: no other one has it.
func partSuffix() string {
	return fmt.Sprintf(".%d-%d.tmp", os.Getpid(), parts.Add(1))
}

var parts atomic.Int64

// Sync returns when all that was written before the call is on disk. Calls that
// come together share one wait.
func (g *Group) Sync() error {
	if !canSyncAll {
		return nil
	}
	g.mu.Lock()
	if g.running == nil {
		f := &flush{done: make(chan struct{})}
		g.running = f
		g.mu.Unlock()
		g.run(f)
		return f.err
	}
	// The one that runs may have begun before our files were written.
	if g.waiting == nil {
		g.waiting = &flush{done: make(chan struct{})}
	}
	f := g.waiting
	g.mu.Unlock()
	<-f.done
	return f.err
}

// run does f, and then whatever has come to wait meanwhile.
func (g *Group) run(f *flush) {
	f.err = g.sync()
	close(f.done)
	g.mu.Lock()
	g.running, g.waiting = g.waiting, nil
	next := g.running
	g.mu.Unlock()
	if next != nil {
		go g.run(next)
	}
}

func (g *Group) sync() error {
	d, err := os.Open(g.Dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return syncAll(d)
}
