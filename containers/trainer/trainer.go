// Package trainer holds the Python trainer of bench, and what is needed to give
// it a place to run: the lock file of its environment and the build context of
// its container image. See docs/trainer-protocol.md for what it does.
package trainer

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// all: takes in __init__.py, which a plain pattern leaves out, and __pycache__,
// which sources drops again.
//
//go:embed all:src Dockerfile requirements.lock
var files embed.FS

// CABundle is the name in the build context of a file with certificates to
// trust while the image is built.
const CABundle = "ca-bundle.pem"

// sources returns the trainer's files by slash-separated name.
var sources = sync.OnceValue(func() map[string][]byte {
	out := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "__pycache__":
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, ".pyc"):
			return nil
		}
		out[path], err = files.ReadFile(path)
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("trainer: embedded files: %v", err)) // cannot happen: they are in the program
	}
	return out
})

// Digest names the trainer: the SHA-256 over names and bytes of its sources,
// its lock file and its Dockerfile, in hexadecimal. It is part of every job id
// and the tag of the image.
var Digest = sync.OnceValue(func() string {
	h := sha256.New()
	all := sources()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(h, "%s %d\n", name, len(all[name]))
		h.Write(all[name])
	}
	return hex.EncodeToString(h.Sum(nil))
})

// Requirements is the lock file of the trainer's Python environment.
func Requirements() []byte { return bytes.Clone(sources()["requirements.lock"]) }

// Unpack writes the Python package bench_trainer into dir, which then goes into
// PYTHONPATH.
func Unpack(dir string) error {
	for name, b := range sources() {
		rel, ok := strings.CutPrefix(name, "src/")
		if !ok {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// BuildContext returns a tar of what docker build needs: the Dockerfile at the
// top, the lock file, the sources, and extra files, which replace those of the
// same name. Equal contents give equal bytes.
func BuildContext(extra map[string][]byte) (io.Reader, error) {
	all := maps.Clone(sources())
	all[CABundle] = nil // the Dockerfile copies it
	maps.Copy(all, extra)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(all[name])), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(all[name]); err != nil {
			return nil, err
		}
	}
	return &b, w.Close()
}
