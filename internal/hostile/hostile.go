// Package hostile reads folders that a program which nobody trusts wrote, or
// is still writing: a trainer with a stranger's model. Whatever lies there, no
// file outside the folder is read, nothing blocks, and no more bytes are read
// than the caller allows.
package hostile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Error says that a file is there and is not to be read.
type Error struct {
	Name string // as the caller gave it
	Why  string
}

func (e *Error) Error() string { return e.Name + ": " + e.Why }

// Open opens the file name, which may have folders in it, below dir. It
// refuses, with an *Error, everything but regular files of at most max bytes
// in real folders: symbolic links also within dir, pipes, devices, sockets.
// Reading more than max bytes, from a file that grows meanwhile, is an *Error
// too. A missing file, or a missing folder of it, is fs.ErrNotExist.
//
// dir itself may be a symbolic link. It is the caller who knows the names to
// look for; nothing here takes a name from the folder.
func Open(dir, name string, max int64) (io.ReadCloser, error) {
	if !filepath.IsLocal(name) {
		return nil, &Error{name, "leads out of its folder"}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { root.Close() }()
	parts := strings.Split(filepath.ToSlash(filepath.Clean(name)), "/")
	for _, p := range parts[:len(parts)-1] {
		seen, err := root.Lstat(p)
		if err != nil {
			return nil, err
		}
		if err := CheckFolder(name, p, seen.Mode()); err != nil {
			return nil, err
		}
		sub, err := root.OpenRoot(p)
		if err != nil {
			return nil, err
		}
		root.Close()
		root = sub
		if opened, err := root.Stat("."); err != nil {
			return nil, err
		} else if !os.SameFile(seen, opened) {
			return nil, &Error{name, p + " was replaced while it was opened"}
		}
	}
	base := parts[len(parts)-1]
	seen, err := root.Lstat(base)
	if err != nil {
		return nil, err
	}
	if err := Check(name, seen.Mode(), seen.Size(), max); err != nil {
		return nil, err
	}
	// Between the two looks it can become a pipe: without O_NONBLOCK, opening
	// one blocks until somebody writes.
	f, err := root.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil {
		err = Check(name, opened.Mode(), opened.Size(), max)
	}
	if err == nil && !os.SameFile(seen, opened) {
		err = &Error{name, "was replaced while it was opened"}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &file{f, name, max}, nil
}

// ReadFile returns the content of a file that Open accepts.
func ReadFile(dir, name string, max int64) ([]byte, error) {
	f, err := Open(dir, name, max)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Check refuses, with an *Error, what is not a regular file of at most max bytes.
func Check(name string, mode fs.FileMode, size, max int64) error {
	if !mode.IsRegular() {
		return &Error{name, "is " + kind(mode) + ", not a regular file"}
	}
	if size > max {
		return &Error{name, fmt.Sprintf("has %d bytes, more than the %d allowed", size, max)}
	}
	return nil
}

// CheckFolder refuses what is not a folder: folder, in which name lies.
func CheckFolder(name, folder string, mode fs.FileMode) error {
	if !mode.IsDir() {
		return &Error{name, folder + " is " + kind(mode) + ", not a folder"}
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a folder"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// file reads at most left bytes.
type file struct {
	*os.File
	name string
	left int64
}

func (f *file) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	// One more than allowed, so that the end and the limit differ.
	if int64(len(p)) > f.left+1 {
		p = p[:f.left+1]
	}
	n, err := f.File.Read(p)
	if int64(n) > f.left {
		n = int(f.left)
		err = &Error{f.name, "grew beyond the bytes allowed while it was read"}
	}
	f.left -= int64(n)
	return n, err
}

// WriteTo hides the method of os.File, which knows no limit.
func (f *file) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{f})
}

// Usage counts what lies below dir, without following anything: the bytes that
// take up disk space (holes do not) and the files and folders. It stops
// counting at maxEntries. What vanishes meanwhile is not an error.
func Usage(dir string, maxEntries int) (bytes int64, entries int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path == dir {
			return err
		}
		if entries++; entries >= maxEntries {
			return fs.SkipAll
		}
		if err != nil { // an unreadable folder counts as one
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if i, err := d.Info(); err == nil {
			bytes += blocks(i)
		}
		return nil
	})
	return bytes, entries, err
}

// RemoveAll is os.RemoveAll for folders whose owner took away their own rights
// to them. Nothing may write there any more.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			// Before its content is read. WalkDir reads a folder after the first
			// call for it, and calls once more if that failed.
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
