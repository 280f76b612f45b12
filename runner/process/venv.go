package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"bench/internal/atomicfile"
	"bench/runner"
)

// Interpreter is what a Python says about itself.
type Interpreter struct {
	Path    string   `json:"path"`    // absolute
	Version string   `json:"version"` // such as 3.13.5
	Name    string   `json:"name"`    // implementation and platform, such as cpython-linux-x86_64
	Missing []string `json:"missing"` // of the modules asked for
}

// probe prints an Interpreter; its arguments are the modules to look for.
const probe = `import importlib.util, json, platform, sys
print(json.dumps({
    "version": platform.python_version(),
    "name": "-".join((sys.implementation.name, sys.platform, platform.machine())),
    "missing": [m for m in sys.argv[1:] if importlib.util.find_spec(m) is None],
}))`

// Probe asks a Python, named by a path or by a name in PATH, for its version and
// which of modules it lacks. The error is a *runner.PreconditionError.
func Probe(ctx context.Context, python string, modules ...string) (Interpreter, error) {
	path, err := exec.LookPath(python)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return Interpreter{}, noPython(python, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, path, append([]string{"-c", probe}, modules...)...)
	c.Env = pipEnvironment(os.Environ())
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	var p Interpreter
	if err == nil {
		err = json.Unmarshal(out, &p)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return Interpreter{}, noPython(python, fmt.Errorf("%w %s", err, lastLines(stderr.String(), 3)))
	}
	p.Path = path
	return p, nil
}

func noPython(python string, err error) error {
	return &runner.PreconditionError{
		What: fmt.Sprintf("no usable Python: %s", python),
		Hint: "install Python 3.10 or later (Debian: apt install python3 python3-venv), name one with --python PATH, or use --executor docker",
		Err:  err,
	}
}

// venvMarker is the file that is written last.
const venvMarker = "bench-complete.json"

// EnsureVenv returns the Python of a virtual environment that holds exactly
// what requirements (the text of a pip requirements file) asks for, and makes
// it on first use. It lives in dir/KEY, where KEY is the SHA-256 of the
// requirements and of python's version and platform, so one environment serves
// every checkout, and a new lock file gets a new one. python is a path or a
// name in PATH; empty: python3. pip's output goes to progress. PIP_* variables
// and pip's own configuration files apply.
//
// Environments cannot be moved, so it is built in place: one without its marker
// is the rest of an attempt that was cut off, and is made anew (pip's cache
// makes that cheap). Other benches wait meanwhile. Errors are
// *runner.PreconditionError, but for those of ctx.
func EnsureVenv(ctx context.Context, dir string, requirements []byte, python string, progress io.Writer) (string, error) {
	if python == "" {
		python = "python3"
	}
	base, err := Probe(ctx, python)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s", base.Version, base.Name, requirements)
	key := hex.EncodeToString(h.Sum(nil))
	v := venv{dir: filepath.Join(dir, key), base: base, requirements: requirements, progress: progress}
	if v.usable(ctx) {
		return v.python(), nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", v.fail("folder of virtual environments", err, "")
	}
	if v.lock, err = v.takeLock(ctx); err != nil {
		return "", err
	}
	defer v.lock.Close()
	if v.usable(ctx) {
		return v.python(), nil
	}
	if err := v.build(ctx); err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("virtual environment %s: %w", v.dir, ctx.Err())
		}
		return "", err
	}
	return v.python(), nil
}

type venv struct {
	dir          string
	base         Interpreter
	requirements []byte
	progress     io.Writer
	// lock is handed on to pip: should bench be killed, the next one waits for
	// the pip that it left.
	lock *os.File
}

func (v venv) python() string { return filepath.Join(v.dir, "bin", "python") }

// usable: complete, and the Python that it was made of is still there.
func (v venv) usable(ctx context.Context) bool {
	if _, err := os.Stat(filepath.Join(v.dir, venvMarker)); err != nil {
		return false
	}
	return exec.CommandContext(ctx, v.python(), "-c", "").Run() == nil
}

func (v venv) takeLock(ctx context.Context) (*os.File, error) {
	for said := false; ; said = true {
		f, err := lock(v.dir + ".lock")
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, v.fail("lock", err, "")
		}
		if !said {
			fmt.Fprintf(v.progress, "waiting for another bench that prepares %s\n", v.dir)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("virtual environment %s: %w", v.dir, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (v venv) build(ctx context.Context) error {
	// The marker goes first, should this be cut off.
	if err := os.Remove(filepath.Join(v.dir, venvMarker)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return v.fail("removal of a damaged environment", err, "")
	}
	if err := os.RemoveAll(v.dir); err != nil {
		return v.fail("removal of an unfinished environment", err, "")
	}
	fmt.Fprintf(v.progress, "preparing a virtual environment (Python %s) in %s\n", v.base.Version, v.dir)
	if out, err := v.run(ctx, v.base.Path, "-m", "venv", v.dir); err != nil {
		err = v.fail("python -m venv", err, out) // looks at the disk as it is now
		os.RemoveAll(v.dir)
		return err
	}
	list := filepath.Join(v.dir, "requirements.txt")
	if err := os.WriteFile(list, v.requirements, 0o644); err != nil {
		return v.fail("requirements.txt", err, "")
	}
	if out, err := v.run(ctx, v.python(), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "-r", list); err != nil {
		return v.fail("pip install", err, out)
	}
	mark, err := json.MarshalIndent(struct {
		Interpreter
		Made time.Time `json:"made"`
	}{v.base, time.Now().UTC()}, "", "  ")
	if err == nil {
		err = atomicfile.WriteBytes(filepath.Join(v.dir, venvMarker), append(mark, '\n'))
	}
	if err != nil {
		return v.fail(venvMarker, err, "")
	}
	return nil
}

// run runs a command, shows what it says, and returns the end of it.
func (v venv) run(ctx context.Context, argv ...string) (string, error) {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = pipEnvironment(os.Environ())
	c.ExtraFiles = []*os.File{v.lock}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // pip has children
	c.WaitDelay = 5 * time.Second
	t := &tail{w: v.progress}
	c.Stdout, c.Stderr = t, t
	err := c.Run()
	return t.String(), err
}

// pipEnvironment is the caller's environment without what would lead pip or
// venv out of the new environment, and without tokens that are no business of
// theirs.
func pipEnvironment(caller []string) []string {
	drop := []string{"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__",
		"PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN",
		"LC_ALL", "LANGUAGE"}
	out := slices.DeleteFunc(slices.Clone(caller), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(drop, name)
	})
	return append(out, "LC_ALL=C.UTF-8", "PYTHONNOUSERSITE=1", "PYTHONUTF8=1") // English messages, see fail
}

// fail explains what went wrong. The hint is chosen by what pip says; nothing
// else depends on its wording.
func (v venv) fail(what string, err error, output string) error {
	e := &runner.PreconditionError{What: "the trainer's virtual environment cannot be made: " + what, Err: err,
		Hint: "run it again; or name a Python that has torch and transformers with --python PATH, or use --executor docker"}
	if output != "" {
		e.Err = fmt.Errorf("%w; it said last:\n%s", err, lastLines(output, 15))
	}
	says := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(output, s) })
	}
	switch {
	case errors.Is(err, syscall.ENOSPC) || free(v.dir) < 64<<20 || says("No space left on device", "[Errno 28]"):
		e.Hint = fmt.Sprintf("there is no space left: free about 8 GB on the disk of %s, or choose another with --home", v.dir)
	case errors.Is(err, os.ErrPermission):
		e.Hint = "choose a folder that you may write to with --home"
	case says("ensurepip is not available", "No module named venv", "No module named ensurepip", "No module named pip"):
		e.Hint = "this Python lacks the venv module (Debian: apt install python3-venv); or name another with --python PATH"
	case says("CERTIFICATE_VERIFY_FAILED"):
		e.Hint = "the package index has a certificate that this machine does not know: set PIP_CERT to the CA bundle of your site"
	case says("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError", "Failed to establish a new connection", "Temporary failure in name resolution"):
		e.Hint = "the package index cannot be reached: check the network, set HTTPS_PROXY, or set PIP_INDEX_URL (or PIP_FIND_LINKS with PIP_NO_INDEX=1) to a mirror"
	case says("No matching distribution found"):
		e.Hint = fmt.Sprintf("the package index has no such package for Python %s on this platform, or cannot be reached: name another Python with --python PATH, or set PIP_INDEX_URL", v.base.Version)
	case says("THESE PACKAGES DO NOT MATCH THE HASHES"):
		e.Hint = "the package index serves other files than those that were locked: do not trust it, or set PIP_INDEX_URL to another"
	}
	return e
}

// free returns the bytes left on the disk of a folder, or of its nearest parent
// that exists.
func free(dir string) int64 {
	var fs syscall.Statfs_t
	for syscall.Statfs(dir, &fs) != nil {
		if dir = filepath.Dir(dir); dir == filepath.Dir(dir) {
			return 1 << 62
		}
	}
	return int64(fs.Bavail) * int64(fs.Bsize)
}

// tail passes on what is written to it and keeps the end.
type tail struct {
	w   io.Writer
	end []byte
}

const tailSize = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.end = append(t.end, b...)
	if n := len(t.end) - tailSize; n > 0 {
		t.end = append(t.end[:0], t.end[n:]...)
	}
	t.w.Write(b) // a screen that is gone does not end the installation
	return len(b), nil
}

func (t *tail) String() string { return string(t.end) }

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
