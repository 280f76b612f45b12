package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"bench/internal/atomicfile"
)

// repo is the folder of one model in the cache.
type repo struct{ cache, name string }

func (c *Client) repo(id string) repo {
	return repo{c.Cache, "models--" + strings.ReplaceAll(id, "/", "--")}
}

func (r repo) dir() string                   { return filepath.Join(r.cache, r.name) }
func (r repo) blob(etag string) string       { return filepath.Join(r.dir(), "blobs", etag) }
func (r repo) snapshot(commit string) string { return filepath.Join(r.dir(), "snapshots", commit) }
func (r repo) ref(revision string) string {
	return filepath.Join(r.dir(), "refs", filepath.FromSlash(revision))
}
func (r repo) pointer(commit, name string) string {
	return filepath.Join(r.snapshot(commit), filepath.FromSlash(name))
}

// lock takes the lock of one blob: the same file, and the same kind of lock, as
// the official client's.
func (r repo) lock(ctx context.Context, etag string) (*flock.Flock, error) {
	path := filepath.Join(r.cache, ".locks", r.name, etag+".lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	l := flock.New(path)
	_, err := l.TryLockContext(ctx, 50*time.Millisecond)
	if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOLCK) {
		return l, nil // no locks here; what two processes spoil, the digest finds
	}
	return l, err
}

// link makes the file of a snapshot lead to its blob. On file systems without
// symbolic links it is a hard link or a copy.
func (r repo) link(commit, name, etag string) error {
	path := r.pointer(commit, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(path), r.blob(etag))
	if err != nil {
		return err
	}
	temp := path + ".bench-" + etag[:8] + ".tmp"
	os.Remove(temp)
	err = os.Symlink(target, temp)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) {
		if err = os.Link(r.blob(etag), temp); err != nil {
			err = copyFile(r.blob(etag), temp)
		}
	}
	if err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.Write(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// remember notes which commit a branch or tag was.
func (r repo) remember(revision, commit string) error {
	if revision == commit {
		return nil
	}
	if old, err := os.ReadFile(r.ref(revision)); err == nil && string(old) == commit {
		return nil
	}
	return atomicfile.WriteBytes(r.ref(revision), []byte(commit))
}

// Cached returns what the cache has of a model, without any request. A
// snapshot counts as there when it has all that a trainer needs; Download puts
// config.json into place last.
func (c *Client) Cached(id, revision string, o Options) (Snapshot, error) {
	e := c.fault(id, revision)
	if _, _, err := SplitName(id + "@" + revision); err != nil {
		return Snapshot{}, err
	}
	e.Kind, e.Detail = OfflineMode, "it is not in the cache ("+c.Cache+")"
	r := c.repo(id)
	commit := revision
	if !commitPattern.MatchString(revision) {
		b, err := os.ReadFile(r.ref(revision))
		if commit = strings.TrimSpace(string(b)); err != nil || !commitPattern.MatchString(commit) {
			return Snapshot{}, &e
		}
	}
	names, err := list(r.snapshot(commit))
	if err != nil || len(names) == 0 {
		return Snapshot{}, &e
	}
	s, problem := look(r.snapshot(commit), names, o)
	if problem != nil {
		e.Kind, e.Detail = Incomplete, "the cache has it only in part: "+problem.Detail
		if problem.Kind == BadFile {
			e.Kind, e.Detail = BadFile, problem.Detail
		}
		e.File, e.Err = problem.File, problem.Err
		return Snapshot{}, &e
	}
	s.ID, s.Revision = id, commit
	return s, nil
}

// list returns the names of the files under dir, sorted; links that lead
// nowhere are left out.
func list(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != dir && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir // .git, .cache
			}
			return nil
		}
		st, err := os.Stat(path)
		if err != nil || !st.Mode().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		names = append(names, filepath.ToSlash(rel))
		return nil
	})
	slices.Sort(names)
	return names, err
}

// look makes the Snapshot of a folder with the files names: chooses, checks the
// weights, and reads what config.json and tokenizer_config.json say of code.
// The error lacks the model's name.
func look(dir string, names []string, o Options) (Snapshot, *Error) {
	sel, kind, detail := choose(names, o)
	if kind != "" {
		return Snapshot{}, &Error{Kind: kind, Detail: detail}
	}
	bad := func(file, detail string, err error) (Snapshot, *Error) {
		return Snapshot{}, &Error{Kind: BadFile, File: file, Detail: detail, Err: err}
	}
	if sel.index != "" {
		text, err := readJSON(filepath.Join(dir, sel.index))
		if err != nil {
			return bad(sel.index, "it cannot be read", err)
		}
		var ok bool
		if sel.weights, ok = shards(text, sel.pickle); !ok {
			return bad(sel.index, "it is no index of weights", nil)
		}
		for _, n := range sel.weights {
			if !slices.Contains(names, n) {
				return Snapshot{}, &Error{Kind: NoWeights, File: n, Detail: "this part of the weights is missing"}
			}
		}
	}
	s := Snapshot{Path: dir, Files: sel.all(), Weights: sel.weights, Pickle: sel.pickle, Licence: folderLicence(dir)}
	for _, n := range s.Files {
		st, err := os.Stat(filepath.Join(dir, filepath.FromSlash(n)))
		if err != nil {
			return bad(n, "it cannot be read", err)
		}
		s.Bytes += st.Size()
	}
	for _, n := range sel.weights {
		wrong, err := checkWeights(filepath.Join(dir, n))
		if err != nil {
			return bad(n, "it cannot be read", err)
		}
		if wrong != "" {
			return bad(n, wrong, nil)
		}
	}
	for _, n := range []string{"config.json", "tokenizer_config.json"} {
		if !slices.Contains(s.Files, n) {
			continue
		}
		text, err := readJSON(filepath.Join(dir, n))
		if err != nil {
			return bad(n, "it cannot be read", err)
		}
		own, elsewhere := autoMap(text)
		s.RemoteCodeNeeded = s.RemoteCodeNeeded || len(own)+len(elsewhere) > 0
		s.CodeElsewhere = append(s.CodeElsewhere, elsewhere...)
		for _, module := range own {
			if o.RemoteCode && !slices.Contains(sel.code, module) {
				return Snapshot{}, &Error{Kind: NoFile, File: module, Detail: n + " refers to this file, and it is not there"}
			}
		}
	}
	slices.Sort(s.CodeElsewhere)
	s.CodeElsewhere = slices.Compact(s.CodeElsewhere)
	return s, nil
}

// maxJSON bounds the configs and indices that are read into memory; those of the
// largest models have a few MiB.
const maxJSON = 64 << 20

func readJSON(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Size() > maxJSON {
		return nil, fmt.Errorf("%d MiB are too many for a file of this kind", st.Size()>>20)
	}
	return os.ReadFile(path)
}

// named completes an error of look.
func (e Error) named(problem *Error) *Error {
	e.Kind, e.File, e.Detail, e.Err = problem.Kind, cmp.Or(problem.File, e.File), problem.Detail, problem.Err
	return &e
}
