// Package fetch gets source files by URL: from a mirror folder, from the files
// downloaded before, or over HTTP with resume and retries. A file is whole and
// checked, or there is an error of type [*Error] that says what a person can
// do.
//
// # Pins and stand-ins
//
// A recipe pins a source where the digest of the upstream file is known, as
// SHA-256 or as git blob id. A URL that holds a commit names its bytes without
// a pin, but nothing checks them.
//
// A mirror ([Mirror]) serves URLs from a folder. Its index has a SHA-256 for
// every file, which is always checked, so a damaged mirror is found whatever
// the recipe knows. Some upstream files cannot be copied as they are; a mirror
// may then hold a stand-in, whose note begins with "reconstructed" or "SAMPLE".
// It says of itself that it is not the upstream file, so the recipe's pin
// cannot hold and is not applied: the index's digest is. The note travels with
// the file ([File.Note], [File.StandIn]) into dataset.json, where everybody who
// reads a score can see what the data were made from. Without such a note a
// mirror's file must meet the recipe's pin like any download.
//
// The mirror comes first, then the files downloaded before, then the network:
// what a mirror serves does not depend on what else a machine happens to have.
package fetch

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Source says which file is wanted.
type Source struct {
	// URL is http(s)://…, file://…, or a path on this machine.
	URL string
	// SHA256 and GitBlob pin the content, in lower-case hexadecimal; "" where
	// upstream's digest is not known. GitBlob is git's id of the file:
	// SHA-1("blob " length "\0" content).
	SHA256, GitBlob string
	// Also is another URL under which a mirror may hold the same content,
	// perhaps unpacked; "": none. It is never downloaded.
	Also string
	// Manual says where and how a person gets the file whose owner wants a
	// licence to be accepted, or "". It goes into the hint of errors.
	Manual string
	// Page says that URL is the page that a person has to visit, not the file:
	// it is never downloaded.
	Page bool
}

// Local says that the source is a file of this machine, which may change at
// any time.
func (s Source) Local() bool {
	scheme, _, ok := strings.Cut(s.URL, "://")
	return !ok || scheme == "file"
}

// Origin says where a file was found.
type Origin string

// The places files come from.
const (
	FromMirror  Origin = "mirror"
	FromCache   Origin = "cache" // downloaded before
	FromNetwork Origin = "network"
	FromDisk    Origin = "disk" // a local path or file://
)

// File is a fetched file. It may be read until the next process cleans up; it
// must not be changed.
type File struct {
	Path    string
	URL     string
	SHA256  string
	Bytes   int64
	Origin  Origin
	Note    string // what the mirror says about the file
	StandIn bool   // the mirror says that it is not the upstream file
}

// Fetcher gets files. The zero value with a Dir is ready to use. It may be used
// by several goroutines, and several processes may share Dir.
type Fetcher struct {
	Dir     string       // downloads, by the SHA-256 of their URL
	Mirror  *Mirror      // nil: none
	Offline bool         // never use the network
	Client  *http.Client // nil: http.DefaultClient

	Tries int           // attempts at a download; 0: 5
	Pause time.Duration // before the second attempt, then doubled; 0: 1 s
	Stall time.Duration // an attempt ends when no byte comes for so long; 0: 60 s

	Log *slog.Logger // nil: none
	// Progress, if set, is told now and then how much of a download is there;
	// total is 0 if unknown. It runs on the fetching goroutine.
	Progress func(url string, done, total int64)
}

// Fetch returns the file of s, checked against all pins that apply to it.
// Errors are of type *Error, or ctx's.
func (f *Fetcher) Fetch(ctx context.Context, s Source) (File, error) {
	if err := ctx.Err(); err != nil {
		return File{}, err
	}
	if s.Local() {
		return fromDisk(s)
	}
	if f.Mirror != nil {
		if e, ok := f.Mirror.Entry(s.URL); ok {
			return f.fromMirror(s, e)
		}
		if e, ok := f.Mirror.Entry(s.Also); ok {
			return f.fromMirror(s, e)
		}
	}
	if s.Page {
		return File{}, &Error{Kind: ByHand, URL: s.URL, Detail: "the file cannot be downloaded without a person: its owner wants the licence to be accepted", Manual: s.Manual}
	}
	file, err := f.download(ctx, s)
	var e *Error
	if s.Manual != "" && errors.As(err, &e) {
		e.Manual = s.Manual
	}
	return file, err
}

// Given returns the file at path, which a person got by hand, as the file of s.
// The pins of s apply; without any, its note says that nothing was compared.
func Given(s Source, path string) (File, error) {
	file, err := fromDisk(Source{URL: path, SHA256: s.SHA256, GitBlob: s.GitBlob})
	if err != nil {
		return File{}, err
	}
	file.URL = s.URL
	if s.SHA256 == "" && s.GitBlob == "" {
		file.Note = "given by hand; the owner's digest of the file is not known, so nothing was compared"
	}
	return file, nil
}

func fromDisk(s Source) (File, error) {
	path, err := LocalPath(s.URL)
	if err != nil {
		return File{}, &Error{Kind: Missing, URL: s.URL, Detail: err.Error()}
	}
	sum, err := sumFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, &Error{Kind: Missing, URL: s.URL, Detail: "there is no such file", Err: err}
	}
	if err != nil {
		return File{}, &Error{Kind: Unreadable, URL: s.URL, Detail: err.Error(), Err: err}
	}
	if err := sum.check(s); err != nil {
		return File{}, err
	}
	return File{Path: path, URL: s.URL, SHA256: sum.sha256, Bytes: sum.bytes, Origin: FromDisk}, nil
}

// LocalPath returns the path of a file:// URL, or a path as it is.
func LocalPath(u string) (string, error) {
	if !strings.HasPrefix(u, "file://") {
		return u, nil
	}
	p, err := url.Parse(u)
	if err != nil {
		return "", err
	}
	if p.Host != "" && p.Host != "localhost" {
		return "", fmt.Errorf("file:// URL names the host %q: write file:///path", p.Host)
	}
	return filepath.FromSlash(p.Path), nil
}

func (f *Fetcher) fromMirror(s Source, e MirrorEntry) (File, error) {
	path := f.Mirror.Path(e)
	sum, err := sumFile(path)
	if err != nil {
		return File{}, &Error{Kind: BadMirror, URL: s.URL, Detail: fmt.Sprintf("mirror %s: %v", f.Mirror.Dir, err), Err: err}
	}
	if sum.sha256 != e.SHA256 {
		return File{}, &Error{
			Kind: BadMirror, URL: s.URL, Want: e.SHA256, Got: sum.sha256,
			Detail: fmt.Sprintf("%s has %d bytes with SHA-256 %s, the mirror's index says %d and %s", path, sum.bytes, sum.sha256, e.Bytes, e.SHA256),
		}
	}
	if !e.StandIn() {
		if err := sum.check(s); err != nil {
			return File{}, err
		}
	}
	return File{
		Path: path, URL: s.URL, SHA256: sum.sha256, Bytes: sum.bytes,
		Origin: FromMirror, Note: e.Note, StandIn: e.StandIn(),
	}, nil
}

// sums are the digests of a file.
type sums struct {
	sha256, gitBlob string
	bytes           int64
}

func sumFile(path string) (sums, error) {
	f, err := os.Open(path)
	if err != nil {
		return sums{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return sums{}, err
	}
	if !info.Mode().IsRegular() {
		return sums{}, fmt.Errorf("%s is not a regular file", path)
	}
	sha, blob := sha256.New(), sha1.New()
	fmt.Fprintf(blob, "blob %d\x00", info.Size())
	n, err := io.Copy(io.MultiWriter(sha, blob), f)
	if err != nil {
		return sums{}, err
	}
	return sums{hex.EncodeToString(sha.Sum(nil)), hex.EncodeToString(blob.Sum(nil)), n}, nil
}

// check compares the digests with the pins of s.
func (a sums) check(s Source) error {
	if s.SHA256 != "" && s.SHA256 != a.sha256 {
		return &Error{
			Kind: Changed, URL: s.URL, Want: s.SHA256, Got: a.sha256,
			Detail: fmt.Sprintf("the file (%d bytes) has SHA-256 %s, %s is pinned", a.bytes, a.sha256, s.SHA256),
		}
	}
	if s.GitBlob != "" && s.GitBlob != a.gitBlob {
		return &Error{
			Kind: Changed, URL: s.URL, Want: s.GitBlob, Got: a.gitBlob,
			Detail: fmt.Sprintf("the file (%d bytes) has git blob id %s, %s is pinned", a.bytes, a.gitBlob, s.GitBlob),
		}
	}
	return nil
}
