package trainer

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// onDisk lists what Files should hold by looking at the folder itself: the module's Python files and the two recipes.
func onDisk(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.FromSlash("src/bench_trainer/*"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Dockerfile", "requirements.lock"}
	for _, name := range names {
		if filepath.Base(name) != "__pycache__" {
			want = append(want, filepath.ToSlash(name))
		}
	}
	slices.Sort(want)
	return want
}

func TestFiles(t *testing.T) {
	got, want := Files(), onDisk(t)
	if !slices.Equal(got, want) {
		t.Fatalf("embedded files\n%s\non disk\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, name := range []string{"src/bench_trainer/__main__.py", "src/bench_trainer/session.py", "requirements.lock", "Dockerfile"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not embedded", name)
		}
	}
}

func TestDigest(t *testing.T) {
	h := sha256.New()
	for _, name := range onDisk(t) {
		b, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s\x00%d\x00%s", name, len(b), b)
	}
	if got, want := Digest(), hex.EncodeToString(h.Sum(nil)); got != want {
		t.Fatalf("digest %s, want %s", got, want)
	}
}

func TestUnpack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // a second time over the first
		if err := Unpack(dir); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		got = append(got, name)
		b, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(b, read(name)) {
			t.Errorf("%s differs", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, Files()) {
		t.Fatalf("unpacked %v", got)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(blocked); err == nil {
		t.Error("unpacking into a file: no error")
	}
}

func TestBuildContext(t *testing.T) {
	extra := map[string][]byte{CABundleFile: []byte("certificates")}
	contents := func() []byte {
		r, err := BuildContext(extra)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := contents()
	if !bytes.Equal(first, contents()) {
		t.Error("two contexts differ")
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(first)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		want := extra[h.Name]
		if want == nil {
			want = read(h.Name)
		}
		if !bytes.Equal(b, want) || h.Mode != 0o644 || h.Typeflag != tar.TypeReg {
			t.Errorf("%s: %d bytes, mode %o", h.Name, len(b), h.Mode)
		}
	}
	want := append(Files(), CABundleFile)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("context holds %v", names)
	}
	for _, name := range []string{"", ".", "../x", "/x", "a/../b", `a\b`, "Dockerfile", "src/bench_trainer/train.py"} {
		if _, err := BuildContext(map[string][]byte{name: nil}); err == nil {
			t.Errorf("extra file %q: no error", name)
		}
	}
}

// Every package is pinned to one version, and the five that the trainer imports are among them.
func TestRequirements(t *testing.T) {
	pinned := regexp.MustCompile(`^([A-Za-z0-9._-]+)==[0-9][A-Za-z0-9.+!-]*$`)
	have := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(Requirements())), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := pinned.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not pinned: %q", line)
			continue
		}
		have[strings.ToLower(m[1])] = true
	}
	for _, name := range []string{"torch", "transformers", "tokenizers", "safetensors", "sentencepiece", "protobuf", "numpy"} {
		if !have[name] {
			t.Errorf("%s is not in requirements.lock", name)
		}
	}
}
