package trainer

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every Python file of the source folder is embedded, __init__.py among them,
// and nothing that Python leaves behind.
func TestEmbeddedFiles(t *testing.T) {
	var want []string
	err := filepath.Walk("src", func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && strings.HasSuffix(path, ".py") {
			want = append(want, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, "Dockerfile", "requirements.lock")
	var got []string
	for name := range sources() {
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("embedded %v, want %v", got, want)
	}
	if !slices.Contains(got, "src/bench_trainer/__init__.py") {
		t.Error("__init__.py is not embedded")
	}
}

func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	if err := Unpack(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "bench_trainer", "__main__.py"))
	if err != nil || !bytes.Equal(got, sources()["src/bench_trainer/__main__.py"]) {
		t.Errorf("unpacked %d bytes, %v", len(got), err)
	}
}

func TestBuildContextIsRepeatable(t *testing.T) {
	read := func(extra map[string][]byte) []byte {
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
	if !bytes.Equal(read(nil), read(nil)) {
		t.Error("two build contexts differ")
	}
	names := map[string]string{}
	tr := tar.NewReader(bytes.NewReader(read(map[string][]byte{CABundle: []byte("pem")})))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(tr)
		names[h.Name] = string(b)
	}
	if names[CABundle] != "pem" || names["Dockerfile"] == "" || names["src/bench_trainer/__main__.py"] == "" {
		t.Errorf("context lacks something: %d files", len(names))
	}
}

// The lock pins what decides results.
func TestRequirementsPinEverything(t *testing.T) {
	pinned := map[string]bool{}
	for line := range strings.Lines(string(Requirements())) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, version, ok := strings.Cut(line, "==")
		if !ok || version == "" {
			t.Errorf("not pinned: %s", line)
		}
		pinned[strings.ToLower(name)] = true
	}
	for _, name := range []string{"torch", "transformers", "tokenizers", "safetensors", "sentencepiece", "protobuf", "numpy"} {
		if !pinned[name] {
			t.Errorf("%s is not in the lock", name)
		}
	}
}
