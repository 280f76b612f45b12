// Package trainer carries bench's own Python trainer inside the binary: its source, the pinned versions of its Python
// environment and the recipe of its container image. The package only hands out bytes; who runs them is decided elsewhere.
package trainer

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// The pattern names the Python files: compiled files and tests that lie beside them on a developer's machine stay out.
//
//go:embed src/bench_trainer/*.py requirements.lock Dockerfile
var content embed.FS

const (
	// Module is the Python module that runs a batch: python -m bench_trainer --batch IN/batch.json --out OUT, with SourceDir
	// of an unpacked trainer on PYTHONPATH.
	Module = "bench_trainer"
	// SourceDir is the folder of the module, relative to the folder that Unpack was given.
	SourceDir = "src"
	// RequirementsFile is the name of the file that Requirements holds, relative to the same folder.
	RequirementsFile = "requirements.lock"
	// CABundleFile is the name under which BuildContext's extra files may hold certificates to trust while the image is built.
	CABundleFile = "ca-bundle.pem"
)

// Files returns the names of the trainer's files, slash-separated and sorted.
func Files() []string {
	var names []string
	err := fs.WalkDir(content, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("trainer: the embedded files cannot be listed: %v", err)) // they are in the binary
	}
	slices.Sort(names)
	return names
}

func read(name string) []byte {
	b, err := content.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("trainer: embedded file %s: %v", name, err)) // it is in the binary
	}
	return b
}

var digest = sync.OnceValue(func() string {
	h := sha256.New()
	for _, name := range Files() {
		b := read(name)
		fmt.Fprintf(h, "%s\x00%d\x00", name, len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
})

// Digest identifies the trainer: the lower-case hexadecimal SHA-256 over the name, length and bytes of each of Files, in that
// order. Two binaries with the same digest train in the same way; it is part of every job's id and the tag of the image.
func Digest() string { return digest() }

// Requirements returns the pinned Python packages in pip's requirements format.
func Requirements() []byte { return read(RequirementsFile) }

// Unpack writes the trainer's files below dir, which is made when missing. Each file appears whole or not at all, so that
// several processes may unpack into the same folder at once.
func Unpack(dir string) error {
	for _, name := range Files() {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("unpacking the trainer: %w", err)
		}
		if err := writeWhole(to, read(name)); err != nil {
			return fmt.Errorf("unpacking the trainer: %w", err)
		}
	}
	return nil
}

func writeWhole(to string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(to), ".unpack-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// BuildContext returns the image's build context as a tar stream: Files, and the extra files by name (CABundleFile, say). The
// same input gives the same bytes. An extra name that is not a plain relative path, or that one of Files has, is an error.
func BuildContext(extra map[string][]byte) (io.Reader, error) {
	files := make(map[string][]byte)
	for _, name := range Files() {
		files[name] = read(name)
	}
	for name, b := range extra {
		if !fs.ValidPath(name) || name == "." || strings.Contains(name, "\\") {
			return nil, fmt.Errorf("trainer image: %q cannot be a file of the build context", name)
		}
		if _, ok := files[name]; ok {
			return nil, fmt.Errorf("trainer image: %s is the trainer's own and cannot be replaced", name)
		}
		files[name] = b
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, path.Clean(name))
	}
	slices.Sort(names)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range names {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name])), Format: tar.FormatPAX})
		if err == nil {
			_, err = w.Write(files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("trainer image: build context: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("trainer image: build context: %w", err)
	}
	return &out, nil
}
