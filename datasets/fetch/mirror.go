package fetch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Mirror is a folder that holds copies of files by URL. Its index.json lists
// them:
//
//	{"version": 1, "files": [{"url": …, "path": …, "sha256": …, "bytes": …,
//	  "git_blob": …, "licence": …, "note": …}]}
type Mirror struct {
	Dir     string
	entries map[string]MirrorEntry
	urls    []string
}

// MirrorEntry is one file of a mirror.
type MirrorEntry struct {
	URL     string `json:"url"`
	Path    string `json:"path"` // relative to the mirror's folder
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	GitBlob string `json:"git_blob,omitempty"`
	Licence string `json:"licence,omitempty"`
	Note    string `json:"note,omitempty"`
}

// StandIn says that the file is not the upstream file: its note begins with
// "reconstructed" or "SAMPLE".
func (e MirrorEntry) StandIn() bool {
	note := strings.ToLower(e.Note)
	return strings.HasPrefix(note, "reconstructed") || strings.HasPrefix(note, "sample")
}

// OpenMirror reads the index of the mirror in dir, strictly: unknown fields,
// doubled URLs, paths that leave the folder, and a torn file are a *Error of
// kind BadMirror. The files themselves are checked when they are fetched.
func OpenMirror(dir string) (*Mirror, error) {
	path := filepath.Join(dir, "index.json")
	bad := func(format string, a ...any) (*Mirror, error) {
		return nil, &Error{Kind: BadMirror, Detail: fmt.Sprintf("%s: %s", path, fmt.Sprintf(format, a...))}
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Kind: BadMirror, Detail: path + ": there is no such file, so " + dir + " is no mirror", Err: err}
	}
	if err != nil {
		return nil, &Error{Kind: BadMirror, Detail: err.Error(), Err: err}
	}
	var index struct {
		Version int           `json:"version"`
		Files   []MirrorEntry `json:"files"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&index); err != nil {
		offset := d.InputOffset()
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			offset = syntax.Offset
		case errors.Is(err, io.ErrUnexpectedEOF):
			offset = int64(len(b))
		}
		return bad("line %d: %v", 1+bytes.Count(b[:min(int(offset), len(b))], []byte("\n")), err)
	}
	if len(bytes.TrimSpace(b[d.InputOffset():])) > 0 {
		return bad("there is more after the end of the index")
	}
	if index.Version != 1 {
		return bad("version %d, this bench reads version 1", index.Version)
	}
	m := &Mirror{Dir: dir, entries: map[string]MirrorEntry{}}
	for i, e := range index.Files {
		switch {
		case e.URL == "" || e.Path == "":
			return bad("file %d has no url or no path", i+1)
		case !filepath.IsLocal(filepath.FromSlash(e.Path)):
			return bad("file %d: path %q leaves the mirror", i+1, e.Path)
		case len(e.SHA256) != 64:
			return bad("file %d: sha256 %q is no SHA-256", i+1, e.SHA256)
		}
		if _, ok := m.entries[e.URL]; ok {
			return bad("%s is listed twice", e.URL)
		}
		m.entries[e.URL] = e
		m.urls = append(m.urls, e.URL)
	}
	return m, nil
}

// Entry returns the entry of a URL.
func (m *Mirror) Entry(url string) (MirrorEntry, bool) {
	e, ok := m.entries[url]
	return e, ok
}

// Path returns where the file of an entry lies.
func (m *Mirror) Path(e MirrorEntry) string {
	return filepath.Join(m.Dir, filepath.FromSlash(e.Path))
}

// URLs lists what the mirror holds, in the order of its index.
func (m *Mirror) URLs() []string { return m.urls }
