package docker

import (
	"context"
	"fmt"
	"path"
	"strings"

	"bench/containers"
	"bench/internal/content"
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
	h := &handle{e: e, d: d, b: b, r: r, End: kept.NewEnd(), hint: make(chan struct{}, 1)}
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
	shelve := func(kind, target string, c content.Tree) {
		s := containers.Shelf{Kind: kind, Instance: e.o.Instance, Content: c, Image: h.r.Where.Image, Keep: e.o.KeepBytes, Lock: e.o.Locks, Notice: e.o.Notice}
		shelves = append(shelves, shelved{s, target})
		g.mounts = append(g.mounts, s.Mount(target))
	}
	if h.b.Model.Path != "" {
		s, err := kept.ReadSnapshot(h.b.Model)
		if err != nil {
			return given{}, err
		}
		c, err := e.sums.Tree(s.Files)
		if err != nil {
			return given{}, precondition(fmt.Errorf("model %s: %w", h.b.Model.ID, err), "")
		}
		shelve("model", insideModel, c)
	}
	own, rows, err := letters(h.d.In())
	if err != nil {
		return given{}, err
	}
	if len(rows) > 0 {
		c, err := e.sums.Tree(rows)
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
			containers.Entry{Name: path.Join(dir, kept.Outcome), Mode: 0o600, UID: nobody, GID: nobody, Size: int64(len(doneMark)), Open: containers.Bytes([]byte(doneMark))})
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

// letters are what in/ of a batch holds: its own files, without batch.json, with
// their folders; and the files of in/data.
func letters(in string) (own []containers.Entry, rows []content.File, err error) {
	files, err := content.List(in)
	if err != nil {
		return nil, nil, err
	}
	var others []content.File
	for _, f := range files {
		if name, ok := strings.CutPrefix(f.Name, "data/"); ok {
			f.Name = name
			rows = append(rows, f)
		} else if f.Name != "batch.json" {
			f.Name = "in/" + f.Name
			others = append(others, f)
		}
	}
	return append([]containers.Entry{{Name: "in", Dir: true, Mode: 0o755}}, containers.Entries(others)...), rows, nil
}
