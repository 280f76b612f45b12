package containers

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// Entry is a file or a folder that Put makes in a container.
type Entry struct {
	Name     string // relative, with slashes
	Dir      bool
	Mode     fs.FileMode // rights
	UID, GID int
	// Open gives the content of a file: Size bytes.
	Size int64
	Open func() (io.ReadCloser, error)
}

// Bytes is an Open for what is in memory.
func Bytes(b []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(b))), nil }
}

// Put makes entries in a folder of the container that lies in a writable
// volume, in their order, over what is there. Folders of a name must come
// before it. progress, if not nil, is told how many bytes of content were sent.
//
// It gives up when nothing moves for two minutes. After an error, anything may
// have been made, and the last file may be cut off.
func (c *Container) Put(ctx context.Context, dir string, entries []Entry, progress func(int64)) error {
	op := "send files to container " + c.name
	return c.e.move(ctx, op, func(ctx context.Context, touch func()) error {
		r, w := io.Pipe()
		go func() { w.CloseWithError(writeTar(w, entries, progress)) }()
		defer r.Close() // or the writer waits for ever
		return c.e.api.CopyToContainer(ctx, c.id, dir, touching{reading{r}, touch}, container.CopyToContainerOptions{AllowOverwriteDirWithFile: true})
	})
}

func writeTar(w io.Writer, entries []Entry, progress func(int64)) error {
	t := tar.NewWriter(w)
	var sent int64
	for _, e := range entries {
		h := tar.Header{Name: e.Name, Mode: int64(e.Mode.Perm()), Uid: e.UID, Gid: e.GID, Typeflag: tar.TypeReg, Size: e.Size, ModTime: time.Unix(0, 0)}
		if e.Dir {
			h.Typeflag, h.Name, h.Size = tar.TypeDir, e.Name+"/", 0
		}
		if err := t.WriteHeader(&h); err != nil {
			return err
		}
		if e.Dir {
			continue
		}
		f, err := e.Open()
		if err != nil {
			return err
		}
		// One byte more than promised is seen by the tar writer.
		n, err := io.Copy(t, &counting{f, &sent, progress})
		f.Close()
		if err == nil && n != e.Size {
			err = fmt.Errorf("%s has %d bytes, not %d: it changed while it was sent", e.Name, n, e.Size)
		}
		if err != nil {
			return err
		}
	}
	return t.Close()
}

type counting struct {
	r    io.Reader
	sent *int64
	tell func(int64)
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.sent += int64(n)
	if c.tell != nil && n > 0 {
		c.tell(*c.sent)
	}
	return n, err
}

// FileInfo is what Stat says of a file in a container.
type FileInfo struct {
	Size int64
	Mode fs.FileMode
}

// Stat looks at a file in a container, running or not, without following a
// link at its end; links in the folders before it lead to where they lead
// within the container. The error wraps fs.ErrNotExist if there is no such
// file, and is of kind Gone if there is no such container.
func (c *Container) Stat(ctx context.Context, name string) (FileInfo, error) {
	op := "look at " + name + " in container " + c.name
	st, err := ask(ctx, c.e, c.e.t.call, op, func(ctx context.Context) (container.PathStat, error) {
		return c.e.api.ContainerStatPath(ctx, c.id, name)
	})
	if err != nil {
		return FileInfo{}, c.missing(ctx, name, err)
	}
	return FileInfo{st.Size, st.Mode}, nil
}

// missing tells a file that is not there from a container that is not there:
// the engine's answer to both is the same.
func (c *Container) missing(ctx context.Context, name string, err error) error {
	if !cerrdefs.IsNotFound(err) {
		return err
	}
	if _, err := c.Inspect(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

// Open reads a file of a container, running or not. Errors are those of Stat.
// What is not a regular file is refused with an error that wraps
// fs.ErrInvalid. The reader gives up when nothing moves for two minutes.
func (c *Container) Open(ctx context.Context, name string) (io.ReadCloser, FileInfo, error) {
	op := "read " + name + " in container " + c.name
	ctx, cancel := context.WithCancelCause(ctx)
	stall := time.AfterFunc(c.e.t.stall, func() { cancel(errSilent) })
	fail := func(err error) error {
		stall.Stop()
		silent := context.Cause(ctx) == errSilent
		err = c.e.failure(ctx, op, err)
		if silent {
			err = &Error{Kind: Unreachable, Op: op, Host: c.e.host, Err: errSilent, Hint: c.e.at.remedy(errSilent)}
		}
		cancel(nil)
		return err
	}
	r, _, err := c.e.api.CopyFromContainer(ctx, c.id, name)
	if err != nil {
		return nil, FileInfo{}, c.missing(context.WithoutCancel(ctx), name, fail(err))
	}
	t := tar.NewReader(r)
	h, err := t.Next()
	if err != nil {
		r.Close()
		return nil, FileInfo{}, fail(err)
	}
	i := FileInfo{h.Size, h.FileInfo().Mode()}
	if h.Typeflag != tar.TypeReg || path.Base(h.Name) != path.Base(name) {
		r.Close()
		stall.Stop()
		cancel(nil)
		return nil, i, fmt.Errorf("%s: not a regular file: %w", name, fs.ErrInvalid)
	}
	return &fromTar{t, r, stall, c.e.t.stall, fail, func() { stall.Stop(); cancel(nil) }}, i, nil
}

// fromTar reads one file of a tar that an engine sends.
type fromTar struct {
	t     *tar.Reader
	body  io.ReadCloser
	stall *time.Timer
	limit time.Duration
	end   func(error) error // what an error is
	done  func()
}

func (f *fromTar) Read(p []byte) (int, error) {
	n, err := f.t.Read(p)
	f.stall.Reset(f.limit)
	if err != nil && err != io.EOF {
		err = f.end(err)
	}
	return n, err
}

func (f *fromTar) Close() error {
	f.done()
	return f.body.Close()
}

// move is guard for a transfer, which must not stand still either.
func (e *Engine) move(ctx context.Context, op string, f func(ctx context.Context, touch func()) error) error {
	moving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(e.t.stall, func() { cancel(errSilent) })
	defer stall.Stop()
	err := e.guard(moving, op, func(ctx context.Context, touch func()) error {
		return f(ctx, func() { touch(); stall.Reset(e.t.stall) })
	})
	if errors.Is(err, errSilent) && ctx.Err() == nil {
		return &Error{Kind: Unreachable, Op: op, Host: e.host, Err: errSilent, Hint: e.at.remedy(errSilent)}
	}
	return err
}

// Persist calls f until it does not end with an Unreachable error, or the
// engine was away for Patience in one go: then f's last error is returned.
func (e *Engine) Persist(ctx context.Context, f func() error) error {
	var away time.Time
	for n := 0; ; n++ {
		err := f()
		if !IsKind(err, Unreachable) {
			return err
		}
		if away.IsZero() {
			away = time.Now()
		} else if time.Since(away) > e.Patience {
			return err
		}
		if err := e.t.pause(ctx, n); err != nil {
			return err
		}
	}
}
