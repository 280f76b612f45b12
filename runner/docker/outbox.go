package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"time"

	"bench/containers"
	"bench/internal/hostile"
	"bench/runner/kept"
)

// outbox is the out folder of a batch, wherever it is. What lies in it is
// hostile.
type outbox interface {
	// open opens a file by its name below the folder. The error is one of
	// package hostile's if it must not be read, wraps fs.ErrNotExist if there is
	// none, and is a *containers.Error if it could not be told.
	open(ctx context.Context, name string, max int64) (io.ReadCloser, error)
	// used tells how many bytes and files lie there, as far as can be told.
	used(ctx context.Context) (bytes int64, entries int, err error)
	// remove removes it.
	remove(ctx context.Context) error
	// pace says how often it may be looked at, and measured.
	pace() (look, measure time.Duration)
}

// folderOut is an out folder on this machine.
type folderOut string

func (f folderOut) open(_ context.Context, name string, max int64) (io.ReadCloser, error) {
	return hostile.Open(string(f), name, max)
}

func (f folderOut) used(context.Context) (int64, int, error) {
	return hostile.Usage(string(f), kept.MaxEntries)
}

func (f folderOut) remove(context.Context) error { return hostile.RemoveAll(string(f)) }

func (f folderOut) pace() (look, measure time.Duration) { return collectEvery, measureEvery }

// volumeOut is an out folder in a volume of an engine.
type volumeOut struct {
	e      *containers.Engine
	volume string
	image  string            // of which the container for reading is made
	labels map[string]string // of that container
	c      *containers.Container
	held   bool // c is that container
}

// lookEvery is how often an out folder behind an engine is looked at. Mostly the
// trainer's own news come first; see spotter.
const lookEvery = 2 * time.Second

// pace measures as often as on this machine: the engine itself is asked less often
// where that is dear, see containers.Engine.VolumeBytes.
func (v *volumeOut) pace() (look, measure time.Duration) { return lookEvery, measureEvery }

func (v *volumeOut) reading() string { return v.volume + "-read" }

// through calls f with the batch's container or, when somebody removed that,
// with one that is made for reading.
func (v *volumeOut) through(ctx context.Context, f func(*containers.Container) error) error {
	if v.c != nil {
		if err := f(v.c); v.held || !containers.IsKind(err, containers.Gone) {
			return err
		}
	}
	c, err := v.e.Hold(ctx, v.reading(), v.image, []containers.Mount{{Volume: v.volume, Labels: v.labels, Target: insideRoom}}, v.labels)
	if err != nil {
		return err
	}
	v.c, v.held = c, true
	return f(c)
}

func (v *volumeOut) open(ctx context.Context, name string, max int64) (r io.ReadCloser, err error) {
	err = v.through(ctx, func(c *containers.Container) error {
		// Links are looked for so that it can be told what is wrong. Whatever the
		// folders become meanwhile, the engine reads within the container's own
		// files, and what is not a regular file is refused below.
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			i, err := c.Stat(ctx, path.Join(insideOut, dir))
			if err != nil {
				return err
			}
			if err := hostile.CheckFolder(name, dir, i.Mode); err != nil {
				return err
			}
		}
		i, err := c.Stat(ctx, path.Join(insideOut, name))
		if err == nil {
			err = hostile.Check(name, i.Mode, i.Size, max)
		}
		if err != nil {
			return err
		}
		r, i, err = c.Open(ctx, path.Join(insideOut, name))
		if errors.Is(err, fs.ErrInvalid) {
			return hostile.Check(name, i.Mode|fs.ModeIrregular, i.Size, max)
		}
		if err == nil {
			if err = hostile.Check(name, i.Mode, i.Size, max); err != nil {
				r.Close()
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (v *volumeOut) used(ctx context.Context) (int64, int, error) {
	n, err := v.e.VolumeBytes(ctx, v.volume)
	return n, 0, err
}

func (v *volumeOut) remove(ctx context.Context) error {
	gone, err := v.e.RemoveVolume(ctx, v.volume)
	if gone || err != nil {
		return err
	}
	c, err := v.e.Lookup(ctx, v.reading())
	if containers.IsKind(err, containers.Gone) {
		return nil // the batch's own container shows it: GC removes both
	}
	if err == nil {
		err = c.Remove(ctx)
	}
	if err == nil {
		_, err = v.e.RemoveVolume(ctx, v.volume)
	}
	return err
}

// spotter passes on events, and tells hint when one of them says that a job is
// done.
type spotter struct {
	io.Writer
	hint chan<- struct{}
}

func (s spotter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"job-done"`)) {
		select {
		case s.hint <- struct{}{}:
		default:
		}
	}
	return s.Writer.Write(p)
}

// engineError says whether err is of the engine or of a context, and so says
// nothing of the file that was asked for.
func engineError(err error) bool {
	return errors.As(err, new(*containers.Error)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
