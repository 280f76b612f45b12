package atomicfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// A write that fails half-way leaves the old file as it was, and nothing beside.
func TestFailureLeavesTheOldFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	path := filepath.Join(dir, "file")
	if err := WriteBytes(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space")
	err := Write(path, func(w io.Writer) error {
		if _, err := w.Write([]byte("half of the n")); err != nil {
			t.Fatal(err)
		}
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file holds %q", got)
	}
	if names := entries(t, dir); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
}

// A reader sees one writer's bytes or another's, never a mixture; the file can
// be read by others.
func TestWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 20 {
				if err := WriteBytes(path, bytes.Repeat([]byte{byte('a' + i)}, 10_000)); err != nil {
					t.Error(err)
				}
				got, err := os.ReadFile(path)
				if err != nil || len(got) != 10_000 || bytes.Count(got, got[:1]) != len(got) {
					t.Errorf("%d bytes, of which %.10q, %v", len(got), got, err)
				}
			}
		})
	}
	wait.Wait()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if names := entries(t, filepath.Dir(path)); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
}

// A folder appears with all its files; one that is there already is left alone.
func TestWriteDir(t *testing.T) {
	g := &Group{Dir: t.TempDir()}
	dir := filepath.Join(g.Dir, "not", "there", "yet")
	files := []File{{"a", []byte("1")}, {"b", []byte("2")}}
	if made, err := g.WriteDir(dir, files); err != nil || !made {
		t.Fatal(made, err)
	}
	if made, err := g.WriteDir(dir, files[:1]); err != nil || made {
		t.Errorf("a folder was made over another one: %v, %v", made, err)
	}
	if got := entries(t, dir); len(got) != 2 {
		t.Errorf("the folder holds %q", got)
	}
	if got := entries(t, filepath.Dir(dir)); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
	var wait sync.WaitGroup
	for i := range 16 { // the waits are shared, and each returns
		wait.Go(func() {
			if err := g.Write(filepath.Join(g.Dir, "file"), func(w io.Writer) error { _, err := w.Write([]byte{byte(i)}); return err }); err != nil {
				t.Error(err)
			}
			if err := g.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if err := (&Group{Dir: filepath.Join(g.Dir, "absent")}).Sync(); canSyncAll && err == nil {
		t.Error("a folder that is not there was synced")
	}
}

func TestMkdirSpread(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := MkdirSpread(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := MkdirSpread(filepath.Join(dir, "file", "c")); err == nil {
		t.Error("no error below a file")
	}
}
