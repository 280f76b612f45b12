// Package atomicfile writes files that are either whole or absent.
package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path by what write produces: a temporary file in
// the same folder, fsync, rename, fsync of the folder. On any error the old
// file, if there was one, is left as it was. Missing parent folders are made.
func Write(path string, write func(io.Writer) error) error {
	dir, err := replace(path, write, true)
	if err != nil {
		return err
	}
	return SyncDir(dir)
}

// replace does the work of Write, but for the fsync of the folder, which it returns.
func replace(path string, write func(io.Writer) error, sync bool) (dir string, err error) {
	dir = filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return "", err
		}
		f, err = os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	}
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err = write(f); err != nil {
		return "", err
	}
	if err = f.Chmod(0o644); err != nil {
		return "", err
	}
	if sync {
		if err = f.Sync(); err != nil {
			return "", err
		}
	}
	if err = f.Close(); err != nil {
		return "", err
	}
	return dir, os.Rename(f.Name(), path)
}

// WriteBytes is Write for bytes at hand.
func WriteBytes(path string, b []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// SyncDir makes renames in dir durable. File systems that cannot sync a folder
// (some network ones) are not an error: the rename itself is still atomic.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	d.Sync()
	return d.Close()
}
