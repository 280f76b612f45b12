package hub

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// minProgress is how many bytes an attempt must bring for the next one to
// count as the first.
const minProgress = 256 << 10

var etagPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Download brings what a trainer needs of a model into the cache. What is
// there is not transferred again, and a download that was cut off goes on where
// it stopped.
func (c *Client) Download(ctx context.Context, info Info, o Options) (Snapshot, error) {
	e := c.fault(info.ID, info.Revision)
	remote := map[string]RemoteFile{}
	var names []string
	for _, f := range info.Files {
		remote[f.Name] = f
		names = append(names, f.Name)
	}
	sel, kind, detail := choose(names, o)
	if kind != "" {
		return Snapshot{}, e.named(&Error{Kind: kind, Detail: detail})
	}
	d := &download{c: c, e: e, info: info, repo: c.repo(info.ID), progress: o.Progress}
	if sel.index != "" {
		if err := d.all(ctx, []RemoteFile{remote[sel.index]}); err != nil {
			return Snapshot{}, err
		}
		text, err := readJSON(d.repo.pointer(info.Commit, sel.index))
		if err != nil {
			return Snapshot{}, e.named(&Error{Kind: BadFile, File: sel.index, Detail: "it cannot be read", Err: err})
		}
		var ok bool
		if sel.weights, ok = shards(text, sel.pickle); !ok {
			return Snapshot{}, e.named(&Error{Kind: BadFile, File: sel.index, Detail: "it is no index of weights"})
		}
	}
	var files []RemoteFile
	for _, n := range sel.all() {
		f, ok := remote[n]
		if !ok {
			return Snapshot{}, e.named(&Error{Kind: NoWeights, File: n, Detail: "the repository lacks this part of the weights"})
		}
		files = append(files, f)
	}
	if err := d.all(ctx, files); err != nil {
		return Snapshot{}, err
	}
	if d.config != "" {
		if err := d.repo.link(info.Commit, sel.config, d.config); err != nil {
			return Snapshot{}, e.local(err)
		}
	}
	if err := d.repo.remember(info.Revision, info.Commit); err != nil {
		return Snapshot{}, e.local(err)
	}
	have, err := list(d.repo.snapshot(info.Commit))
	if err != nil {
		return Snapshot{}, e.local(err)
	}
	s, problem := look(d.repo.snapshot(info.Commit), have, o)
	if problem != nil {
		return Snapshot{}, e.named(problem)
	}
	s.ID, s.Revision, s.RenamedTo, s.Licence = info.ID, info.Commit, info.RenamedTo, cmp.Or(info.Licence, s.Licence)
	return s, nil
}

// download is one call of Download.
type download struct {
	c    *Client
	e    Error
	info Info
	repo repo

	// config is the blob of config.json, whose link is made when all others
	// are; "" if it is there.
	config string

	mu          sync.Mutex
	done, total int64
	progress    func(done, total int64)
}

func (d *download) advance(done, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done += done
	d.total += total
	if d.progress != nil {
		d.progress(d.done, d.total)
	}
}

// all brings files into the cache, some at a time.
func (d *download) all(ctx context.Context, files []RemoteFile) error {
	var missing []RemoteFile
	var bytes int64
	for _, f := range files {
		if !safeName(f.Name) {
			continue // choose leaves them out
		}
		if st, err := os.Stat(d.repo.pointer(d.info.Commit, f.Name)); err == nil && (f.Size < 0 || st.Size() == f.Size) {
			d.advance(st.Size(), st.Size())
			continue
		}
		missing = append(missing, f)
		d.advance(0, max(0, f.Size))
		bytes += max(0, f.Size-d.have(f.etag()))
	}
	if err := os.MkdirAll(filepath.Join(d.repo.dir(), "blobs"), 0o777); err != nil {
		return d.e.local(err)
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(d.repo.dir(), &disk); err == nil {
		if free := int64(disk.Bavail) * int64(disk.Bsize); free < bytes {
			full := d.e
			full.Kind = NoSpace
			full.Detail = fmt.Sprintf("there is no space left for it: %d MiB are needed in %s, %d MiB are free", bytes>>20, d.repo.cache, free>>20)
			return &full
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(d.c.Parallel, 4))
	for _, f := range missing {
		g.Go(func() error { return d.file(ctx, f) })
	}
	return g.Wait()
}

// have returns how many bytes of a blob an earlier attempt has left.
func (d *download) have(etag string) int64 {
	for _, suffix := range []string{"", ".incomplete"} {
		if st, err := os.Stat(d.repo.blob(etag) + suffix); etag != "" && err == nil {
			return st.Size()
		}
	}
	return 0
}

// file brings one file into the cache.
func (d *download) file(ctx context.Context, f RemoteFile) error {
	e := d.e
	e.File = f.Name
	segments := strings.Split(f.Name, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	place := "/"
	if e.Dataset {
		place = "/datasets/"
	}
	address := d.c.Endpoint + place + d.info.ID + "/resolve/" + d.info.Commit + "/" + strings.Join(segments, "/")
	etag, size := f.etag(), f.Size
	if etag == "" || size < 0 {
		// A mirror that lists names only.
		err := d.c.retry(ctx, func(ctx context.Context) (bool, error) {
			r, err := d.c.send(ctx, e, http.MethodHead, address, 0)
			if err != nil {
				return false, err
			}
			defer r.close()
			etag, size = r.etag, r.size
			return false, nil
		})
		if err != nil {
			return err
		}
		d.advance(0, max(0, size))
	}
	if !etagPattern.MatchString(etag) || size < 0 {
		e.Kind, e.Detail = NotAHub, "the server does not announce its size and digest"
		return &e
	}
	held, err := d.repo.lock(ctx, etag)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return e.local(err)
	}
	defer held.Close()
	if st, err := os.Stat(d.repo.blob(etag)); err == nil && st.Size() == size {
		d.advance(size, 0) // another process, or another file, has brought it
	} else if err := d.blob(ctx, e, address, etag, size); err != nil {
		return err
	}
	if f.Name == "config.json" && !e.Dataset {
		d.mu.Lock()
		d.config = etag
		d.mu.Unlock()
		return nil
	}
	if err := d.repo.link(d.info.Commit, f.Name, etag); err != nil {
		return e.local(err)
	}
	return nil
}

// blob transfers a blob and checks it. One that is wrong is thrown away and
// transferred once more. The blob's lock is held.
func (d *download) blob(ctx context.Context, e Error, address, etag string, size int64) error {
	part := d.repo.blob(etag) + ".incomplete"
	if st, err := os.Stat(part); err == nil {
		if st.Size() > size {
			os.Remove(part)
		} else {
			d.advance(st.Size(), 0)
		}
	}
	for again := true; ; again = false {
		err := d.c.retry(ctx, func(ctx context.Context) (bool, error) {
			n, err := d.transfer(ctx, e, address, etag, part, size)
			return n >= minProgress, err
		})
		if err != nil {
			return err
		}
		got, err := digest(part, len(etag))
		if err != nil {
			return e.local(err)
		}
		if got == etag {
			break
		}
		if err := os.Remove(part); err != nil {
			return e.local(err)
		}
		d.advance(-size, 0)
		if !again {
			e.Kind = Corrupted
			e.Detail = fmt.Sprintf("twice other bytes arrived than the Hub announces: digest %s, not %s", got, etag)
			return &e
		}
	}
	if err := os.Rename(part, d.repo.blob(etag)); err != nil {
		return e.local(err)
	}
	return nil
}

// transfer appends to part what it lacks of size bytes, in one request, and
// returns how many bytes came.
func (d *download) transfer(ctx context.Context, e Error, address, etag, part string, size int64) (int64, error) {
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return 0, e.local(err)
	}
	defer f.Close()
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, e.local(err)
	}
	startOver := func() error {
		d.advance(-at, 0)
		at = 0
		if err := f.Truncate(0); err != nil {
			return e.local(err)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return e.local(err)
		}
		return nil
	}
	if at == size {
		return 0, nil
	}
	r, err := d.c.send(ctx, e, http.MethodGet, address, at)
	if err != nil {
		if x, ok := errors.AsType[*Error](err); ok && x.Status == http.StatusRequestedRangeNotSatisfiable && at > 0 {
			x.again = true
			return 0, errors.Join(err, startOver())
		}
		return 0, err
	}
	defer r.close()
	if at > 0 {
		// The digest would find a wrong continuation; this finds it before the
		// rest is transferred for nothing.
		var from int64 = -1
		if r.StatusCode == http.StatusPartialContent {
			fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-", &from)
		}
		if from != at || r.etag != "" && etagPattern.MatchString(r.etag) && r.etag != etag {
			if err := startOver(); err != nil {
				return 0, err
			}
			if r.StatusCode != http.StatusOK {
				e.Kind, e.Detail, e.again = Truncated, "the server continues at another place than asked", true
				return 0, &e
			}
		}
	}
	w := &counted{w: f, d: d}
	_, err = io.Copy(w, io.LimitReader(r.Body, size-at+1)) // one more, to see that it is too long
	switch {
	case w.err != nil:
		return w.n, e.local(w.err)
	case err != nil && ctx.Err() != nil:
		return w.n, ctx.Err()
	case err != nil || at+w.n < size:
		e.Kind, e.Detail, e.Err, e.again = Truncated, fmt.Sprintf("the connection ended after %d of %d bytes", at+w.n, size), err, true
		return w.n, &e
	}
	if err := f.Sync(); err != nil {
		return w.n, e.local(err)
	}
	return w.n, nil
}

// counted passes on to a file, tells of progress, and keeps the file's errors
// apart from those of the connection.
type counted struct {
	w   io.Writer
	d   *download
	n   int64
	err error
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.err = err
	c.d.advance(int64(n), 0)
	return n, err
}

// digest returns the SHA-256 of a file (digits 64) or its git blob id (digits
// 40): the SHA-1 of "blob SIZE\x00" and the content.
func digest(path string, digits int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var h hash.Hash = sha256.New()
	if digits == 40 {
		st, err := f.Stat()
		if err != nil {
			return "", err
		}
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", st.Size())
	}
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
