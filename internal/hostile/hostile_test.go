//go:build unix

package hostile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

func TestOpen(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "out")
	write(t, filepath.Join(top, "secret"), "a token")
	write(t, filepath.Join(dir, "job", "outcome.json"), "{}")
	write(t, filepath.Join(dir, "big"), "0123456789a")
	write(t, filepath.Join(dir, "exact"), "0123456789")
	links := map[string]string{
		"abs": filepath.Join(top, "secret"), "up": "../secret", "inside": "exact", "loop": "loop", "dangling": "nothing",
		"folder": "job", "outside": "..", "proc": "/proc/self/environ",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if err := sparse.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	sparse.Close()

	for name, want := range map[string]string{"job/outcome.json": "{}", "exact": "0123456789", "job/../exact": "0123456789"} {
		if got, err := ReadFile(dir, name, 10); err != nil || string(got) != want {
			t.Errorf("ReadFile(%s) = %q, %v; want %q", name, got, err, want)
		}
	}
	for name, why := range map[string]string{
		"abs": "symbolic link", "up": "symbolic link", "inside": "symbolic link", "loop": "symbolic link", "dangling": "symbolic link",
		"folder/outcome.json": "not a folder", "outside/secret": "not a folder", "proc": "symbolic link",
		"pipe": "pipe", "sock": "socket", "job": "a folder", "big": "11 bytes, more than the 10", "sparse": "more than",
		"../secret": "leads out", "/etc/passwd": "leads out", "": "leads out", "exact/x": "not a folder",
	} {
		done := make(chan error, 1)
		go func() {
			_, err := ReadFile(dir, name, 10)
			done <- err
		}()
		select {
		case err := <-done:
			e, ok := errors.AsType[*Error](err)
			if !ok || !strings.Contains(e.Error(), why) {
				t.Errorf("ReadFile(%q): %v; want an *Error with %q", name, err, why)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("ReadFile(%q) blocks", name)
		}
	}
	for _, name := range []string{"nothing", "none/outcome.json"} {
		if _, err := ReadFile(dir, name, 10); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("ReadFile(%q): %v, want fs.ErrNotExist", name, err)
		}
	}
}

// A file that was small when it was opened may grow for ever.
func TestOpenGrowing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, "12345")
	for _, read := range []func(io.Reader) ([]byte, error){
		io.ReadAll,
		func(r io.Reader) ([]byte, error) { var b bytes.Buffer; _, err := io.Copy(&b, r); return b.Bytes(), err },
	} {
		if err := os.Truncate(path, 5); err != nil {
			t.Fatal(err)
		}
		f, err := Open(dir, "f", 8)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, "1234567890")
		got, err := read(f)
		if _, ok := errors.AsType[*Error](err); !ok || string(got) != "12345678" {
			t.Errorf("read %q, %v; want the 8 bytes allowed and an *Error", got, err)
		}
		f.Close()
	}
}

// Somebody who swaps files all the time may make Open fail, never read outside.
func TestOpenRace(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "out")
	write(t, filepath.Join(top, "secret", "f"), "secret")
	write(t, filepath.Join(dir, "good", "f"), "fine")
	if err := os.Symlink("../secret", filepath.Join(dir, "evil")); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(filepath.Join(dir, "good"), filepath.Join(dir, "x"))
			os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "job"))
			os.Rename(filepath.Join(dir, "job"), filepath.Join(dir, "good"))
			os.Rename(filepath.Join(dir, "evil"), filepath.Join(dir, "job"))
			os.Rename(filepath.Join(dir, "job"), filepath.Join(dir, "evil"))
		}
	}()
	read := 0
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		if got, err := ReadFile(dir, "job/f", 100); err == nil {
			read++
			if string(got) != "fine" {
				t.Fatalf("read %q", got)
			}
		}
	}
	close(stop)
	<-stopped
	t.Logf("read %d times in the race", read)
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a", "b"), strings.Repeat("x", 100_000))
	if err := os.Symlink("/", filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	f.Truncate(1 << 40)
	f.Close()
	n, entries, err := Usage(dir, 1000)
	if err != nil || entries != 4 || n < 100_000 || n > 200_000 {
		t.Errorf("Usage = %d bytes, %d entries, %v; want about 100000 and 4", n, entries, err)
	}
	if _, entries, err = Usage(dir, 2); err != nil || entries != 2 {
		t.Errorf("Usage counted %d entries, %v; want to stop at 2", entries, err)
	}
	if _, _, err := Usage(filepath.Join(dir, "none"), 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Usage of a missing folder: %v", err)
	}
}

func TestRemoveAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	write(t, filepath.Join(dir, "a", "b", "c"), "x")
	for _, p := range []string{"a/b", "a"} {
		if err := os.Chmod(filepath.Join(dir, p), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if err := RemoveAll(dir); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}
