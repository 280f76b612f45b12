package content

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTree(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b"), "abc")
	write(t, filepath.Join(dir, "a", "c"), "")
	files, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var sums Sums
	tree, err := sums.Tree([]File{files[1], files[0]})
	if err != nil {
		t.Fatal(err)
	}
	// printf '%s 0 "a/c"\n%s 3 "b"\n' $(printf '' | sha256sum | cut -c-64) $(printf abc | sha256sum | cut -c-64) | sha256sum
	const want = "20c30233c6b2b470856bee3532715d0cea327470c82626a7cbe6269c35d7a00b"
	if tree.Digest != want || tree.Bytes != 3 || len(tree.Files) != 2 || tree.Files[0].Name != "a/c" || tree.Files[1].Path != filepath.Join(dir, "b") {
		t.Errorf("tree %+v", tree)
	}

	// The same size at another time is another file; another size is an error.
	write(t, filepath.Join(dir, "b"), "abd")
	os.Chtimes(filepath.Join(dir, "b"), time.Time{}, time.Now().Add(time.Hour))
	if other, err := sums.Tree(files); err != nil || other.Digest == want {
		t.Errorf("tree of a file that was replaced: %+v, %v", other, err)
	}
	write(t, filepath.Join(dir, "b"), "abcd")
	if _, err := sums.Tree(files); !errors.Is(err, ErrChanged) {
		t.Errorf("tree of a file that grew: %v", err)
	}

	if err := os.Symlink("b", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := List(dir); err == nil {
		t.Error("a link was listed")
	}
}
