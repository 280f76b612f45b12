//go:build linux

package process

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bench/runner"
)

// missing skips the test, or fails it where BENCH_TEST_REQUIRE names part.
func missing(t *testing.T, part, reason string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), part) {
		t.Fatalf("%s is required: %s", part, reason)
	}
	t.Skip(reason)
}

// basePython finds a Python that can make virtual environments.
func basePython(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		missing(t, "python", "no python3")
	}
	if out, err := exec.Command(path, "-c", "import venv, ensurepip").CombinedOutput(); err != nil {
		missing(t, "python", "python3 without venv: "+string(out))
	}
	return path
}

// quickPython is basePython, but that its environments borrow the pip of
// python instead of unpacking their own, which takes most of the time.
func quickPython(t *testing.T) string {
	t.Helper()
	python := basePython(t)
	if exec.Command(python, "-c", "import pip").Run() != nil {
		return python
	}
	path := filepath.Join(t.TempDir(), "python")
	script := "#!/bin/sh\ncase \"$*\" in '-m venv '*) shift 2; exec '" + python + "' -m venv --without-pip --system-site-packages \"$@\";; esac\nexec '" + python + "' \"$@\"\n"
	if err := os.WriteFile(path, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

// index is a folder with one package, benchprobe 1.0, and the variables that
// make pip look nowhere else.
func index(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	files := []struct{ name, text string }{
		{"benchprobe.py", "answer = 42\n"},
		{"benchprobe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: benchprobe\nVersion: 1.0\n"},
		{"benchprobe-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	record := ""
	add := func(name, text string) {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		sum := sha256.Sum256([]byte(f.text))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.text))
		add(f.name, f.text)
	}
	add("benchprobe-1.0.dist-info/RECORD", record+"benchprobe-1.0.dist-info/RECORD,,\n")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "benchprobe-1.0-py3-none-any.whl"), b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PIP_NO_INDEX", "1")
	t.Setenv("PIP_FIND_LINKS", dir)
	t.Setenv("PIP_TARGET", filepath.Join(dir, "elsewhere")) // must not lead pip astray
}

var benchprobe = []byte("benchprobe==1.0\n")

func TestEnsureVenv(t *testing.T) {
	python := basePython(t)
	index(t)
	dir := filepath.Join(t.TempDir(), "HOME with blanks", "venvs")
	// Two at once make one.
	var wg sync.WaitGroup
	var paths [2]string
	var progress [2]bytes.Buffer
	for i := range paths {
		wg.Go(func() {
			p, err := EnsureVenv(t.Context(), dir, benchprobe, python, &progress[i])
			if err != nil {
				t.Error(err)
			}
			paths[i] = p
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if paths[0] != paths[1] || !strings.HasPrefix(paths[0], dir) {
		t.Errorf("paths %q", paths)
	}
	if n := strings.Count(progress[0].String()+progress[1].String(), "preparing"); n != 1 {
		t.Errorf("the environment was made %d times", n)
	}
	out, err := exec.Command(paths[0], "-c", "import benchprobe; print(benchprobe.answer)").CombinedOutput()
	if err != nil || string(out) != "42\n" {
		t.Errorf("%s, %v", out, err)
	}
	got, err := Probe(t.Context(), paths[0], "json", "benchprobe", "no_such_module")
	if err != nil || !slices.Equal(got.Missing, []string{"no_such_module"}) {
		t.Errorf("Probe: %+v, %v", got, err)
	}
	// A second call changes nothing and is quick.
	quiet := &bytes.Buffer{}
	begin := time.Now()
	again, err := EnsureVenv(t.Context(), dir, benchprobe, python, quiet)
	if err != nil || again != paths[0] || quiet.Len() > 0 {
		t.Errorf("second call: %q, %v; it said %q", again, err, quiet)
	}
	t.Logf("second call: %v", time.Since(begin))
	// What an attempt left that was killed is made anew.
	root := filepath.Dir(filepath.Dir(paths[0]))
	if err := os.Remove(filepath.Join(root, venvMarker)); err != nil {
		t.Fatal(err)
	}
	rest := filepath.Join(root, "rest")
	if err := os.WriteFile(rest, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureVenv(t.Context(), dir, benchprobe, quickPython(t), io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(rest); !errors.Is(err, os.ErrNotExist) {
		t.Error("the unfinished environment was kept")
	}
}

// hinted checks that err is for the user and that its hint speaks of want.
func hinted(t *testing.T, err error, want string) {
	t.Helper()
	p, ok := errors.AsType[*runner.PreconditionError](err)
	if !ok || !strings.Contains(p.Hint, want) {
		t.Errorf("%v, want a PreconditionError whose hint has %q", err, want)
		if ok {
			t.Logf("hint: %s", p.Hint)
		}
	}
}

// fakePython is a Python that answers the probe, and fails otherwise with the
// message that it is given.
func fakePython(t *testing.T, message string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	script := "#!/bin/sh\ncase \"$1\" in -c) echo '{\"version\": \"3.12.0\", \"name\": \"fake\", \"missing\": []}';; *) echo '" + message + "' >&2; exit 1;; esac\n"
	if err := os.WriteFile(path, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnsureVenvErrors(t *testing.T) {
	t.Run("no Python", func(t *testing.T) {
		_, err := EnsureVenv(t.Context(), t.TempDir(), benchprobe, "/nonexistent/python", io.Discard)
		hinted(t, err, "install Python")
	})
	t.Run("Python that does not work", func(t *testing.T) {
		_, err := EnsureVenv(t.Context(), t.TempDir(), benchprobe, "false", io.Discard)
		hinted(t, err, "install Python")
	})
	for message, hint := range map[string]string{
		"The virtual environment was not created successfully because ensurepip is not available.": "python3-venv",
		"OSError: [Errno 28] No space left on device":                                              "no space left",
		"NewConnectionError(...): Failed to establish a new connection":                            "cannot be reached",
		"SSLCertVerificationError: CERTIFICATE_VERIFY_FAILED":                                      "PIP_CERT",
		"something else": "--python",
	} {
		t.Run(message, func(t *testing.T) {
			_, err := EnsureVenv(t.Context(), t.TempDir(), benchprobe, fakePython(t, message), io.Discard)
			hinted(t, err, hint)
			if err == nil || !strings.Contains(err.Error(), message) {
				t.Errorf("the error does not quote what was said: %v", err)
			}
		})
	}
	t.Run("folder that cannot be made", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := EnsureVenv(t.Context(), file, benchprobe, fakePython(t, ""), io.Discard)
		hinted(t, err, "--python")
	})
	t.Run("package that is not there", func(t *testing.T) {
		python := quickPython(t)
		index(t)
		var said bytes.Buffer
		_, err := EnsureVenv(t.Context(), t.TempDir(), []byte("benchprobe==2.0\n"), python, &said)
		hinted(t, err, "no such package")
		if !strings.Contains(said.String(), "benchprobe==2.0") {
			t.Errorf("pip's words were not passed on: %s", said.String())
		}
	})
	t.Run("index out of reach", func(t *testing.T) {
		python := quickPython(t)
		for name, value := range map[string]string{"PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_RETRIES": "1", "PIP_FIND_LINKS": "", "PIP_NO_INDEX": ""} {
			t.Setenv(name, value)
		}
		_, err := EnsureVenv(t.Context(), t.TempDir(), benchprobe, python, io.Discard)
		hinted(t, err, "cannot be reached")
	})
	t.Run("full disk", func(t *testing.T) {
		python := quickPython(t)
		dir := t.TempDir()
		if err := syscall.Mount("bench-test", dir, "tmpfs", 0, "size=16k"); err != nil {
			t.Skip("no file system of limited size can be mounted:", err)
		}
		t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
		_, err := EnsureVenv(t.Context(), dir, benchprobe, python, io.Discard)
		hinted(t, err, "no space left")
	})
	t.Run("cancelled", func(t *testing.T) {
		python := fakePython(t, "")
		dir := t.TempDir()
		if err := os.WriteFile(python, []byte("#!/bin/sh\ncase \"$1\" in -c) echo '{\"version\": \"3\"}';; *) sleep 100;; esac\n"), 0o777); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := EnsureVenv(ctx, dir, benchprobe, python, io.Discard)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// While the pip of a bench that was killed is at work, the next one waits.
func TestEnsureVenvAfterKill(t *testing.T) {
	dir := t.TempDir()
	python := filepath.Join(dir, "python")
	done := filepath.Join(dir, "done")
	script := "#!/bin/sh\ncase \"$1\" in -c) echo '{\"version\": \"3\"}';; *) sleep 1; touch '" + done + "'; exit 1;; esac\n"
	if err := os.WriteFile(python, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	venvs := filepath.Join(dir, "venvs")
	c := exec.Command(exe, "ensure-venv", venvs, python)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lock is there", func() bool {
		locks, err := filepath.Glob(venvs + "/*.lock")
		if err != nil || len(locks) == 0 {
			return false
		}
		f, err := lock(locks[0])
		if err == nil {
			f.Close()
		}
		return errors.Is(err, errLocked)
	})
	time.Sleep(200 * time.Millisecond) // for the installation to begin
	c.Process.Kill()
	c.Wait()
	var said bytes.Buffer
	if _, err := EnsureVenv(t.Context(), venvs, benchprobe, python, &said); err == nil {
		t.Error("a Python that always fails made an environment")
	}
	if !strings.Contains(said.String(), "waiting for another bench") {
		t.Errorf("it did not wait: %q", said.String())
	}
	if _, err := os.Stat(done); err != nil {
		t.Error("it did not wait long enough")
	}
}
