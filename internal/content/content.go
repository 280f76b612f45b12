// Package content names trees of files by what is in them, so that they can be
// sent to another machine once, and be known again there.
package content

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// File is a file of a tree.
type File struct {
	Name   string // relative, with slashes
	Path   string // where it is on this machine
	Size   int64  // bytes
	SHA256 string // hexadecimal; "": not computed yet, see Sums
}

// Tree is a number of files with their names: the snapshot of a model, the rows
// of data sets.
type Tree struct {
	Files  []File // by name
	Bytes  int64  // of all files
	Digest string // SHA-256, hexadecimal, of the names, sizes and digests of the files
}

// New sorts files, whose digests are known, and computes the tree's: SHA-256 over
// one line for each file, its SHA-256, size and name with a blank in between.
func New(files []File) Tree {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	t := Tree{Files: files}
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%s %d %q\n", f.SHA256, f.Size, f.Name)
		t.Bytes += f.Size
	}
	t.Digest = hex.EncodeToString(sum.Sum(nil))
	return t
}

// Hash returns the size and SHA-256 of a file.
func Hash(path string) (size int64, digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	sum := sha256.New()
	if size, err = io.Copy(sum, f); err != nil {
		return 0, "", err
	}
	return size, hex.EncodeToString(sum.Sum(nil)), nil
}

// List returns the regular files below a folder, by name, without digests. What
// is neither a file nor a folder is an error.
func List(dir string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder", p)
		}
		i, err := e.Info()
		if err == nil {
			files = append(files, File{Name: filepath.ToSlash(rel), Path: p, Size: i.Size()})
		}
		return err
	})
	return files, err
}

// ErrChanged is the error for a file that changed while it was read.
var ErrChanged = errors.New("it changed while it was read")

// Sums remembers the digests of files, so that a model is not read for each of
// its batches. The zero value is ready, and safe for concurrent use.
type Sums struct {
	mu    sync.Mutex
	known map[sumKey]string
}

// sumKey is a file that has not changed.
type sumKey struct {
	path     string
	size     int64
	modified time.Time
}

// Tree computes the digests of files and returns their tree. A file that is not
// of its Size any more is an error that wraps ErrChanged.
func (s *Sums) Tree(files []File) (Tree, error) {
	s.mu.Lock() // also while reading: batches that start together want the same
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[sumKey]string{}
	}
	files = slices.Clone(files)
	for n, f := range files {
		i, err := os.Stat(f.Path)
		if err != nil {
			return Tree{}, err
		}
		key := sumKey{f.Path, i.Size(), i.ModTime()}
		sum, ok := s.known[key]
		if !ok {
			size, digest, err := Hash(f.Path)
			if err != nil {
				return Tree{}, err
			}
			if size != key.size {
				return Tree{}, fmt.Errorf("%s: %w", f.Path, ErrChanged)
			}
			sum = digest
			s.known[key] = sum
		}
		if key.size != f.Size {
			return Tree{}, fmt.Errorf("%s: %w", f.Path, ErrChanged)
		}
		files[n].SHA256 = sum
	}
	return New(files), nil
}
