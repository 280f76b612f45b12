package docker

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bench/containers"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

// given is what a batch's container gets to see, and who it is.
type given struct {
	mounts   []containers.Mount
	fill     func(context.Context, *containers.Container) error // sends the files; nil: they are there
	uid, gid int
}

// handle makes a batch's handle of its record.
func (e *executor) handle(b job.Batch, d job.Dir, r record) *handle {
	h := &handle{e: e, d: d, b: b, r: r, end: kept.NewEnd(), hint: make(chan struct{}, 1)}
	if r.Volume == "" {
		h.out = folderOut(scratchOut(d))
	} else {
		h.out = &volumeOut{e: e.engine, volume: r.Volume, image: r.Where.Image, labels: h.labels()}
	}
	return h
}

// shows takes note of the batch's container.
func (h *handle) shows(c *containers.Container) {
	h.c = c
	if v, ok := h.out.(*volumeOut); ok {
		v.c = c
	}
}

// labels are those of the batch's container and volume.
func (h *handle) labels() map[string]string {
	labels := map[string]string{containers.LabelBatch: string(h.b.ID), labelRun: h.r.Run}
	if h.e.o.Instance != "" {
		labels[containers.LabelInstance] = h.e.o.Instance
	}
	return labels
}

// give makes ready what the batch's container is to see: folders of this
// machine, or volumes that are filled through the engine.
func (e *executor) give(h *handle, threads int) (given, error) {
	if h.r.Volume == "" {
		remapped := e.engine.Info().Remapped
		uid, gid := user(remapped)
		model, err := prepare(h.b, h.d, threads, reader{uid, gid, remapped})
		return given{uid: uid, gid: gid,
			mounts: append([]containers.Mount{{Source: scratchIn(h.d), Target: insideIn}, {Source: scratchOut(h.d), Target: insideOut, Writable: true}}, model...)}, err
	}
	// The batch's own files lie in a volume of its own. It belongs to root, like
	// in/ in it, and the program, which is nobody, may write in out/ only. Models
	// and rows are the same for many batches, and come once to each engine.
	g := given{uid: nobody, gid: nobody, mounts: []containers.Mount{{Volume: h.r.Volume, Labels: h.labels(), Target: insideRoom, Writable: true}}}
	type shelved struct {
		containers.Shelf
		target string
	}
	var shelves []shelved
	shelve := func(kind, target string, c containers.Content) {
		s := containers.Shelf{Kind: kind, Instance: e.o.Instance, Content: c, Image: h.r.Where.Image, Keep: e.o.KeepBytes, Lock: e.o.Locks, Notice: e.o.Notice}
		shelves = append(shelves, shelved{s, target})
		g.mounts = append(g.mounts, s.Mount(target))
	}
	if h.b.Model.Path != "" {
		_, files, _, err := snapshot(h.b.Model, reader{os.Getuid(), os.Getgid(), false})
		if err != nil {
			return given{}, err
		}
		c, err := e.sums.content(files)
		if err != nil {
			return given{}, fmt.Errorf("model %s: %w", h.b.Model.ID, err)
		}
		shelve("model", insideModel, c)
	}
	own, rows, err := letters(h.d.In())
	if err != nil {
		return given{}, err
	}
	if len(rows) > 0 {
		c, err := e.sums.content(rows)
		if err != nil {
			return given{}, err
		}
		shelve("data", insideData, c)
	}
	text, err := inside(h.b, threads)
	if err != nil {
		return given{}, err
	}
	own = append(own, containers.Entry{Name: "in/batch.json", Mode: 0o644, Size: int64(len(text)), Open: containers.Bytes(text)},
		containers.Entry{Name: "out", Dir: true, Mode: 0o700, UID: nobody, GID: nobody})
	done, err := finished(h.b, h.d)
	if err != nil {
		return given{}, err
	}
	for _, j := range done {
		dir := path.Join("out", string(j))
		own = append(own, containers.Entry{Name: dir, Dir: true, Mode: 0o700, UID: nobody, GID: nobody},
			containers.Entry{Name: path.Join(dir, outcomeName), Mode: 0o600, UID: nobody, GID: nobody, Size: int64(len(doneMark)), Open: containers.Bytes([]byte(doneMark))})
	}
	g.fill = func(ctx context.Context, c *containers.Container) error {
		for _, s := range shelves {
			if err := e.engine.Fill(ctx, s.Shelf, c, s.target); err != nil {
				return err
			}
		}
		return c.Put(ctx, insideRoom, own, nil)
	}
	return g, nil
}

// letters are what in/ of a batch holds: its own files and folders, without
// batch.json, and the files of in/data.
func letters(in string) (own []containers.Entry, rows []modelFile, err error) {
	err = filepath.WalkDir(in, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(in), p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		i, err := d.Info()
		if err != nil {
			return err
		}
		inData, err := filepath.Rel(filepath.Join(in, "data"), p)
		switch {
		case err == nil && filepath.IsLocal(inData) && i.Mode().IsRegular():
			rows = append(rows, modelFile{filepath.ToSlash(inData), p, i})
		case d.IsDir():
			own = append(own, containers.Entry{Name: rel, Dir: true, Mode: 0o755})
		case rel == "in/batch.json":
		case i.Mode().IsRegular():
			own = append(own, containers.Entry{Name: rel, Mode: 0o644, Size: i.Size(), Open: func() (io.ReadCloser, error) { return os.Open(p) }})
		default:
			return fmt.Errorf("%s is neither a file nor a folder", p)
		}
		return nil
	})
	if len(rows) > 0 {
		// Their folders come with them.
		own = slices.DeleteFunc(own, func(e containers.Entry) bool { return e.Name == "in/data" || strings.HasPrefix(e.Name, "in/data/") })
	}
	return own, rows, err
}

// sums remembers the digests of files, so that a model is not read for each of
// its batches.
type sums struct {
	mu    sync.Mutex
	known map[sumKey]string
}

// sumKey is a file that has not changed.
type sumKey struct {
	path     string
	size     int64
	modified time.Time
}

// content computes what stands for files.
func (s *sums) content(files []modelFile) (containers.Content, error) {
	s.mu.Lock() // also while reading: batches that start together want the same
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[sumKey]string{}
	}
	var all []containers.ContentFile
	for _, f := range files {
		key := sumKey{f.real, f.info.Size(), f.info.ModTime()}
		sum, ok := s.known[key]
		if !ok {
			size, digest, err := containers.HashFile(f.real)
			if err != nil {
				return containers.Content{}, err
			}
			if size != key.size {
				return containers.Content{}, &runner.PreconditionError{What: f.real + " changed while it was read", Hint: "run again when nothing writes to it"}
			}
			sum = digest
			s.known[key] = sum
		}
		all = append(all, containers.ContentFile{Name: f.rel, Path: f.real, Size: key.size, SHA256: sum})
	}
	return containers.NewContent(all), nil
}
