// Package mirror fills a folder with the source files of data sets, in the
// layout that package fetch serves from (fetch.Mirror): for machines without
// internet, and against the day on which an upstream file is gone.
package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"bench/datasets/fetch"
	"bench/internal/atomicfile"
)

// Getter gets a source file, from wherever it is.
type Getter interface {
	Fetch(ctx context.Context, s fetch.Source) (fetch.File, error)
}

// Wanted is a file that the mirror shall hold.
type Wanted struct {
	Source  fetch.Source
	Licence string // goes into the index where the getter knows nothing better
}

// State says what became of a wanted file.
type State string

// The states.
const (
	New     State = "new"     // it was put into the mirror now
	Kept    State = "kept"    // it was there, and is what the index says
	Missing State = "missing" // it cannot be had
	Local   State = "local"   // a file of this machine: its owner has it
)

// Event tells about one wanted file.
type Event struct {
	URL   string
	State State
	Bytes int64
	Err   *fetch.Error // of a missing file
}

// Fill puts the wanted files into the mirror in dir, which is made if it is not
// there, and adds them to its index.json. The index is written after each file,
// so that Fill goes on where it stopped when it is called again; what the index
// lists besides stays. Files that are there are read again and compared with
// their digests, and fetched anew if they are damaged.
//
// told learns about each file in the order of wanted, doubled URLs once. A file
// that cannot be had does not end the work. The error is ctx's, or says that
// the folder cannot be read or written to: a *fetch.Error.
func Fill(ctx context.Context, dir string, get Getter, wanted []Wanted, told func(Event)) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return writing(dir, err)
	}
	// To be written, though nobody does: on NFS nothing else can be locked.
	lock := flock.New(filepath.Join(dir, ".lock"), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o666))
	if _, err := lock.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return writing(dir, err)
	}
	defer lock.Unlock()
	m, err := openIndex(dir)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, w := range wanted {
		if done[w.Source.URL] {
			continue
		}
		done[w.Source.URL] = true
		if w.Source.Local() {
			told(Event{URL: w.Source.URL, State: Local})
			continue
		}
		e, err := m.fill(ctx, get, w)
		if err != nil {
			return err
		}
		told(e)
	}
	return m.write() // of a mirror without any file, too
}

type index struct {
	dir     string
	entries []fetch.MirrorEntry
	at      map[string]int // by URL
}

func openIndex(dir string) (*index, error) {
	m := &index{dir: dir, at: map[string]int{}}
	if _, err := os.Stat(filepath.Join(dir, "index.json")); errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	old, err := fetch.OpenMirror(dir)
	if err != nil {
		return nil, err
	}
	for _, u := range old.URLs() {
		e, _ := old.Entry(u)
		m.put(e)
	}
	return m, nil
}

func (m *index) put(e fetch.MirrorEntry) {
	if i, ok := m.at[e.URL]; ok {
		m.entries[i] = e
		return
	}
	m.at[e.URL] = len(m.entries)
	m.entries = append(m.entries, e)
}

func (m *index) write() error {
	if m.entries == nil {
		m.entries = []fetch.MirrorEntry{}
	}
	b, err := json.MarshalIndent(struct {
		Version int                 `json:"version"`
		Files   []fetch.MirrorEntry `json:"files"`
	}{1, m.entries}, "", " ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(m.dir, "index.json"), append(b, '\n')); err != nil {
		return writing(m.dir, err)
	}
	return nil
}

func (m *index) fill(ctx context.Context, get Getter, w Wanted) (Event, error) {
	if i, ok := m.at[w.Source.URL]; ok {
		if e := m.entries[i]; m.holds(ctx, e, w.Source) {
			return Event{URL: e.URL, State: Kept, Bytes: e.Bytes}, nil
		}
	}
	f, err := get.Fetch(ctx, w.Source)
	if ctx.Err() != nil {
		return Event{}, ctx.Err()
	}
	var problem *fetch.Error
	switch {
	case errors.As(err, &problem) && problem.Kind != fetch.NoSpace && problem.Kind != fetch.Unreadable:
		return Event{URL: w.Source.URL, State: Missing, Err: problem}, nil
	case err != nil:
		return Event{}, err
	}
	name := pathOf(w.Source.URL)
	if i, ok := m.at[w.Source.URL]; ok {
		name = m.entries[i].Path
	}
	if err := place(f, filepath.Join(m.dir, filepath.FromSlash(name))); err != nil {
		// A URL may be the folder of another one.
		name = byDigest(w.Source.URL)
		if err := place(f, filepath.Join(m.dir, filepath.FromSlash(name))); err != nil {
			return Event{}, writing(w.Source.URL, err)
		}
	}
	e := fetch.MirrorEntry{
		URL: w.Source.URL, Path: name, SHA256: f.SHA256, Bytes: f.Bytes, Licence: w.Licence, Note: f.Note,
	}
	if !f.StandIn {
		e.GitBlob = w.Source.GitBlob
	}
	m.put(e)
	return Event{URL: e.URL, State: New, Bytes: e.Bytes}, m.write()
}

// holds says whether the mirror's file is there and what the index, and the
// source's pins, say.
func (m *index) holds(ctx context.Context, e fetch.MirrorEntry, s fetch.Source) bool {
	pinned := fetch.Source{URL: filepath.Join(m.dir, filepath.FromSlash(e.Path)), SHA256: e.SHA256}
	if !e.StandIn() {
		pinned.GitBlob = s.GitBlob
		if s.SHA256 != "" && s.SHA256 != e.SHA256 {
			return false
		}
	}
	_, err := (&fetch.Fetcher{}).Fetch(ctx, pinned)
	return err == nil
}

// place puts a file to path as a whole: by a hard link to the download, which
// nobody changes, or by a copy.
func place(f fetch.File, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	from, err := filepath.EvalSymlinks(f.Path) // the Hub's cache is made of links
	if err != nil {
		return err
	}
	if f.Origin == fetch.FromCache || f.Origin == fetch.FromNetwork {
		temp := path + ".part"
		os.Remove(temp)
		if err := os.Link(from, temp); err == nil {
			if err := os.Rename(temp, path); err != nil {
				os.Remove(temp)
				return err
			}
			os.Remove(temp) // rename leaves it when both are links to one file
			return nil
		}
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.Write(path, func(w io.Writer) error {
		h := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, h), in); err != nil {
			return err
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
			return fmt.Errorf("%s changed while it was copied", f.Path)
		}
		return nil
	})
}

// pathOf makes a readable path of a URL: files/HOST/PATH, or one made of its
// digest where that would be no good name for a file.
func pathOf(u string) string {
	p, err := url.Parse(u)
	if err != nil || p.Host == "" || p.RawQuery != "" || len(p.Path) > 500 {
		return byDigest(u)
	}
	name := "files/" + p.Host + p.Path
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || len(part) > 200 || strings.ContainsFunc(part, awkward) {
			return byDigest(u)
		}
	}
	return name
}

// awkward characters are those that some file system does not take.
func awkward(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`\:*?"<>|`, r) }

func byDigest(u string) string {
	sum := sha256.Sum256([]byte(u))
	return "files/by-digest/" + hex.EncodeToString(sum[:16])
}

func writing(what string, err error) error {
	if fetch.DiskFull(err) {
		return &fetch.Error{Kind: fetch.NoSpace, URL: what, Detail: "no room to store it: " + err.Error(), Err: err}
	}
	return &fetch.Error{Kind: fetch.Unreadable, URL: what, Detail: "the mirror cannot be written to: " + err.Error(), Err: err}
}
