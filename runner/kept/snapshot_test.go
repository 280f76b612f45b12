package kept

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/runner/job"
)

// What lies in a model's folder is not to choose which files of this machine a
// trainer sees.
func TestReadSnapshot(t *testing.T) {
	hub := filepath.Join(t.TempDir(), "models--org--name")
	snapshot := filepath.Join(hub, "snapshots", "c0ffee")
	for path, text := range map[string]string{"blobs/1": "{}", "blobs/2": "weights", "snapshots/c0ffee/sub/plain.txt": "x", "snapshots/c0ffee/.git/config": "secret", "plain/config.json": "{}", "outside": "secret"} {
		path = filepath.Join(hub, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	link("../../blobs/1", filepath.Join(snapshot, "config.json"))
	link("../../../blobs/2", filepath.Join(snapshot, "sub", "model.safetensors"))
	read := func(path string) (string, Snapshot, error) {
		s, err := ReadSnapshot(job.Model{ID: "org/name", Path: path})
		var found []string
		for _, f := range s.Files {
			rel, err := filepath.Rel(hub, f.Path)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, fmt.Sprintf("%s=%s:%d", f.Name, rel, f.Size))
		}
		return strings.Join(found, " "), s, err
	}
	if got, s, err := read(snapshot); got != "config.json=blobs/1:2 sub/model.safetensors=blobs/2:7 sub/plain.txt=snapshots/c0ffee/sub/plain.txt:1" || s.Plain || err != nil {
		t.Errorf("%s, plain %v, %v", got, s.Plain, err)
	}
	plain := filepath.Join(hub, "plain")
	if got, s, err := read(plain); got != "config.json=plain/config.json:2" || !s.Plain || err != nil {
		t.Errorf("%s, plain %v, %v", got, s.Plain, err)
	}
	for name, wrong := range map[string]struct{ to, says string }{
		"a": {"../outside", "leads out of the model's folder"}, "b": {"/etc/passwd", "leads out of the model's folder"}, "c": {"nothing", "leads nowhere"},
		"d": {".", "leads out of the model's folder"}, "e\nf": {"config.json", "line break"}, "g": {"sub", "a link to a folder"},
	} {
		at := filepath.Join(plain, name)
		if wrong.to == "sub" {
			if err := os.Mkdir(filepath.Join(plain, "sub"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		link(wrong.to, at)
		if _, _, err := read(plain); err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("a link to %q: %v", wrong.to, err)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := read(filepath.Join(hub, "none")); err == nil {
		t.Error("a folder that is not there was read")
	}
}
