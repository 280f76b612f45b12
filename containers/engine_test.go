package containers_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
)

// lab is an engine with the test program's image.
type lab struct {
	*testing.T
	e        *containers.Engine
	image    string
	instance string
}

func newLab(t *testing.T) *lab {
	e := containertest.Open(t)
	return &lab{t, e, containertest.Image(t, e, "containertest/prog", "prog"), containertest.Instance(t, e)}
}

// start starts the test program with args.
func (l *lab) start(change func(*containers.Spec), args ...string) *containers.Container {
	l.Helper()
	s := containers.Spec{Image: l.image, Args: args, UID: 65534, GID: 65534, MemoryBytes: 256 << 20, Pids: 64,
		Labels: map[string]string{containers.LabelInstance: l.instance}}
	if change != nil {
		change(&s)
	}
	c, err := l.e.Start(l.Context(), fmt.Sprintf("bench-%s-%x", l.instance, time.Now().UnixNano()), s)
	if err != nil {
		l.Fatal(err)
	}
	return c
}

func (l *lab) run(change func(*containers.Spec), args ...string) (exit containers.Exit, stdout, stderr string) {
	l.Helper()
	c := l.start(change, args...)
	exit, err := c.Wait(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	var out, log bytes.Buffer
	if err := c.Logs(l.Context(), &out, &log); err != nil {
		l.Fatal(err)
	}
	if err := c.Remove(l.Context()); err != nil {
		l.Fatal(err)
	}
	return exit, out.String(), log.String()
}

func TestEngineExits(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		args   string
		change func(*containers.Spec)
		want   containers.Exit
	}{
		{"exit 0", nil, containers.Exit{}},
		{"exit 65", nil, containers.Exit{Code: 65}},
		{"signal 9", nil, containers.Exit{Code: 137}},
		{"signal 15", nil, containers.Exit{Code: 143}},
		{"nothing", func(s *containers.Spec) { s.Entrypoint = []string{"/bin/none"} }, containers.Exit{Code: 127}},
		{"nothing", func(s *containers.Spec) { s.Entrypoint = []string{"/etc"} }, containers.Exit{Code: 126}},
		{"eat 200", func(s *containers.Spec) { s.MemoryBytes = 64 << 20 }, containers.Exit{Code: 137, OOMKilled: true}},
		{"eat 20", func(s *containers.Spec) { s.MemoryBytes = 64 << 20 }, containers.Exit{}},
	} {
		if got, _, _ := l.run(c.change, strings.Fields(c.args)...); got != c.want {
			t.Errorf("%s: exit %+v, want %+v", c.args, got, c.want)
		}
	}
	// Of a child only: seen on cgroup v1, beside the parent's own code.
	got, _, _ := l.run(func(s *containers.Spec) { s.MemoryBytes = 64 << 20 }, "eat-child", "200")
	if got.Code != 3 {
		t.Errorf("a child killed for memory: exit %+v, want code 3", got)
	}
}

func TestEngineStop(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		args  string
		grace time.Duration
		code  int
	}{{"sleep 60000", 5 * time.Second, 143}, {"polite", 5 * time.Second, 42}, {"deaf", time.Second, 137}} {
		k := l.start(nil, strings.Fields(c.args)...)
		time.Sleep(200 * time.Millisecond) // for its signal handlers
		begin := time.Now()
		for range 2 {
			if err := k.Stop(t.Context(), c.grace); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took > c.grace+3*time.Second {
			t.Errorf("%s: Stop took %v", c.args, took)
		}
		if x, err := k.Wait(t.Context()); err != nil || x.Code != c.code {
			t.Errorf("%s, stopped: %+v, %v; want code %d", c.args, x, err, c.code)
		}
		for range 2 {
			if err := k.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := k.Wait(t.Context()); !containers.IsKind(err, containers.Gone) {
			t.Errorf("Wait after removal: %v", err)
		}
		if err := k.Stop(t.Context(), time.Second); err != nil {
			t.Errorf("Stop after removal: %v", err)
		}
	}
}

func TestEngineStartIsIdempotent(t *testing.T) {
	l := newLab(t)
	name := "bench-" + l.instance
	s := containers.Spec{Image: l.image, Args: []string{"sleep", "60000"}, UID: 65534, GID: 65534, Labels: map[string]string{containers.LabelInstance: l.instance, containers.LabelBatch: "one"}}
	ids := make([]string, 6)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			c, err := l.e.Start(t.Context(), name, s)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = c.ID()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("two containers of one name: %q", ids)
		}
	}
	other := s
	other.Labels = map[string]string{containers.LabelInstance: l.instance, containers.LabelBatch: "two"}
	if _, err := l.e.Start(t.Context(), name, other); !containers.IsKind(err, containers.NameTaken) {
		t.Errorf("another batch of this name: %v", err)
	}
	found, err := l.e.Find(t.Context(), map[string]string{containers.LabelInstance: l.instance, containers.LabelBatch: ""})
	if err != nil || len(found) != 1 || found[0].Name() != name || found[0].ID() != ids[0] {
		t.Errorf("Find: %v, %v", found, err)
	}
	c, err := l.e.Lookup(t.Context(), name)
	if err != nil || c.ID() != ids[0] {
		t.Errorf("Lookup: %v, %v", c, err)
	}
	st, err := c.Inspect(t.Context())
	if err != nil || st.Status != "running" || st.Ended() || st.Started.IsZero() || !st.Finished.IsZero() || st.Labels[containers.LabelBatch] != "one" {
		t.Errorf("Inspect: %+v, %v", st, err)
	}
	// The engine would take a beginning of an id for a name.
	if _, err := l.e.Lookup(t.Context(), ids[0][:16]); !containers.IsKind(err, containers.Gone) {
		t.Errorf("Lookup of an id: %v", err)
	}
	if names, err := l.e.RemoveLeftovers(t.Context(), st.Labels, false); err != nil || len(names) != 0 {
		t.Errorf("a running container was removed: %q, %v", names, err)
	}
	if names, err := l.e.RemoveLeftovers(t.Context(), map[string]string{containers.LabelInstance: l.instance}, true); err != nil || len(names) != 1 {
		t.Errorf("RemoveLeftovers: %q, %v", names, err)
	}
}

// A container whose program cannot be started must not stay.
func TestEngineStartErrors(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		name   string
		change func(*containers.Spec)
		want   containers.Kind
	}{
		{"no image", func(s *containers.Spec) { s.Image = "bench-test-none:latest" }, containers.ImageMissing},
		{"no such user", func(s *containers.Spec) { s.UID = 1 << 40 }, containers.Refused},
		{"no folder", func(s *containers.Spec) { s.Mounts = []containers.Mount{{Source: "/nonexistent/in", Target: "/in"}} }, containers.MountRefused},
		{"no GPUs", func(s *containers.Spec) { s.GPUs = []string{"GPU-1"} }, containers.GPURefused},
	} {
		s := containers.Spec{Image: l.image, Args: []string{"exit", "0"}, UID: 65534, GID: 65534, Env: map[string]string{"SECRET": "hunter2"},
			Labels: map[string]string{containers.LabelInstance: l.instance}}
		c.change(&s)
		if c.want == containers.GPURefused && l.e.Info().NvidiaRuntime {
			continue
		}
		_, err := l.e.Start(t.Context(), "bench-"+l.instance, s)
		if !containers.IsKind(err, c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want kind %d and no secret", c.name, err, c.want)
		}
	}
	if left, err := l.e.Find(t.Context(), map[string]string{containers.LabelInstance: l.instance}); err != nil || len(left) != 0 {
		t.Errorf("%d containers are left, %v", len(left), err)
	}
	if _, err := os.Stat("/nonexistent"); err == nil {
		t.Error("the engine made a folder for a mount")
	}
}

// The sandbox from inside: docs/sandbox.md, line by line.
func TestEngineSandbox(t *testing.T) {
	t.Setenv("HF_TOKEN", "hf_secret")
	l := newLab(t)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, d := range []string{in, out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(out, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in, "batch.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	with := func(s *containers.Spec) {
		s.CPUs, s.TmpBytes = 1, 32<<20
		s.Mounts = []containers.Mount{{Source: in, Target: "/bench/in"}, {Source: out, Target: "/bench/out", Writable: true}}
	}
	t.Run("folders", func(t *testing.T) { l.confined(t, with) })
	t.Run("volumes", func(t *testing.T) {
		name := "bench-test-room-" + l.instance
		own := map[string]string{containers.LabelInstance: l.instance}
		l.confined(t, func(s *containers.Spec) {
			with(s)
			s.Mounts = []containers.Mount{{Volume: name, Labels: own, Target: "/bench", Writable: true}, {Volume: name + "-data", Labels: own, Target: "/bench/in/data"}, {Volume: name + "-model", Labels: own, Target: "/bench/model"}}
			s.Prepare = func(ctx context.Context, c *containers.Container) error {
				return c.Put(ctx, "/bench", []containers.Entry{
					{Name: "in", Dir: true, Mode: 0o755}, {Name: "in/batch.json", Mode: 0o644, Size: 2, Open: containers.Bytes([]byte("{}"))},
					{Name: "out", Dir: true, Mode: 0o700, UID: 65534, GID: 65534},
				}, nil)
			}
		})
	})

	_, printed, _ := l.run(with, "env")
	for _, line := range strings.Split(strings.TrimSpace(printed), "\n") {
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "HOME", "TMPDIR":
			if value != "/tmp" {
				t.Errorf("%s=%s", name, value)
			}
		case "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS":
			if value != "1" {
				t.Errorf("%s=%s on one CPU", name, value)
			}
		case "PATH", "HOSTNAME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "NVIDIA_VISIBLE_DEVICES":
		default:
			t.Errorf("in the environment: %s", line)
		}
	}

	_, printed, _ = l.run(func(s *containers.Spec) { s.Pids = 20 }, "fork", "100")
	if n := strings.TrimSpace(printed); n == "100" || n == "0" || n == "" {
		t.Errorf("with 20 pids it could start %s processes", n)
	}
}

// confined runs the program that tries everything in a container with these
// mounts, and checks what it could do.
func (l *lab) confined(t *testing.T, with func(*containers.Spec)) {
	t.Helper()
	exit, printed, log := l.run(with, "probe")
	var p map[string]string
	if err := json.Unmarshal([]byte(printed), &p); err != nil {
		t.Fatalf("%v; exit %+v, log %s", err, exit, log)
	}
	none := "0000000000000000"
	want := map[string]string{
		"uid": "65534", "gid": "65534", "groups": "[65534]", "set-user-id": "65534", "NoNewPrivs": "1", "Seccomp": "2",
		"CapEff": none, "CapPrm": none, "CapInh": none, "CapBnd": none, "CapAmb": none,
		"interfaces": "lo ", "hostname": "sandbox", "workdir": "/",
		"tmp holds": "31", "volume holds": "16", // /tmp holds the program's copy too
	}
	for k, got := range p {
		switch w, ok := want[k]; {
		case ok && k == "tmp holds":
			if got < "25" || got > "32" {
				t.Errorf("%s: %s MiB of 32", k, got)
			}
		case ok && k == "volume holds":
			if got < "10" || got > "16" {
				t.Errorf("%s: %s MiB of 16", k, got)
			}
		case ok && got != w:
			t.Errorf("%s is %q, want %q", k, got, w)
		case !ok && k == "init":
			if got == "prog" {
				t.Error("there is no init process")
			}
		case !ok && k == "processes":
			if len(strings.Fields(got)) > 3 {
				t.Errorf("it sees the processes %s", got)
			}
		case !ok && got != "":
			t.Errorf("%s: %s", k, got)
		}
	}
	for k := range want {
		if _, ok := p[k]; !ok {
			t.Errorf("the program did not say %q", k)
		}
	}
}

func TestEngineLogs(t *testing.T) {
	l := newLab(t)
	c := l.start(nil, "lines", "50000", "0")
	var out, log bytes.Buffer
	if err := c.Logs(t.Context(), &out, &log); err != nil {
		t.Fatal(err)
	}
	checkLines(t, out.String(), "out", 50000)
	checkLines(t, log.String(), "log", 50000)
	if x, err := c.Wait(t.Context()); err != nil || x.Code != 5 {
		t.Errorf("exit %+v, %v", x, err)
	}
	// The engine cuts lines at 16 KiB.
	_, printed, _ := l.run(nil, "long", "100000")
	if printed != strings.Repeat("x", 100000)+"\nthe end" {
		t.Errorf("a long line came with %d bytes", len(printed))
	}
}

// checkLines checks that text is the lines "WHAT 0" to "WHAT n-1".
func checkLines(t *testing.T, text, what string, n int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		if l != fmt.Sprintf("%s %d", what, i) {
			t.Errorf("line %d is %q", i, l)
			return
		}
	}
	if len(lines) != n {
		t.Errorf("%d lines, want %d", len(lines), n)
	}
}

func TestEngineImages(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	tag := "bench-test-" + l.instance + ":built"
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.e.RemoveImage(ctx, tag); err != nil {
			t.Error(err)
		}
	})
	dockerfile := func(text string) *bytes.Buffer {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	var progress bytes.Buffer
	i, err := l.e.Build(ctx, dockerfile("ARG BASE\nFROM $BASE\nARG URL\nRUN [\"/bin/prog\", \"lines\", \"0\", \"0\"]\n"), containers.BuildOptions{
		Tag: tag, Args: map[string]string{"BASE": l.image, "URL": "https://user:pa@ss@index.example/simple"}, Network: "host", Progress: &progress,
	})
	// The program exits with 5: the build fails and says so.
	if !containers.IsKind(err, containers.BuildFailed) || !strings.Contains(err.Error(), "code: 5") || !strings.Contains(err.Error(), "Step 4/4") {
		t.Errorf("failing build: %v", err)
	}
	if err != nil && strings.Contains(err.Error(), "pa@ss") {
		t.Errorf("the error tells a password: %v", err)
	}
	i, err = l.e.Build(ctx, dockerfile("ARG BASE\nFROM $BASE\nRUN [\"/bin/prog\", \"exit\", \"0\"]\nLABEL a=b\n"), containers.BuildOptions{
		Tag: tag, Args: map[string]string{"BASE": l.image}, Labels: map[string]string{"c": "d"}, Progress: &progress,
	})
	if err != nil || i.Labels["a"] != "b" || i.Labels["c"] != "d" || len(i.Volumes) != 1 || !strings.Contains(progress.String(), "Successfully built") {
		t.Errorf("Build = %+v, %v\n%s", i, err, progress.String())
	}
	var archive bytes.Buffer
	if err := l.e.Save(ctx, []string{tag}, &archive); err != nil {
		t.Fatal(err)
	}
	if err := l.e.RemoveImage(ctx, tag); err != nil {
		t.Fatal(err)
	}
	if _, err := l.e.Image(ctx, tag); !containers.IsKind(err, containers.ImageMissing) {
		t.Errorf("removed image: %v", err)
	}
	if err := l.e.RemoveImage(ctx, tag); err != nil {
		t.Errorf("removing it again: %v", err)
	}
	refs, err := l.e.Load(ctx, &archive)
	if err != nil || len(refs) != 1 || refs[0] != tag {
		t.Errorf("Load = %q, %v", refs, err)
	}
	if again, err := l.e.Ensure(ctx, tag, nil); err != nil || again.ID != i.ID {
		t.Errorf("Ensure = %+v, %v", again, err)
	}
	if _, err := l.e.Load(ctx, strings.NewReader("nonsense")); err == nil {
		t.Error("nonsense was loaded")
	}
	if err := l.e.Tag(ctx, tag, tag+"2"); err != nil {
		t.Error(err)
	}
	if err := l.e.RemoveImage(ctx, tag+"2"); err != nil {
		t.Error(err)
	}
}

func TestEngineGPUs(t *testing.T) {
	l := newLab(t)
	if l.e.Info().NvidiaRuntime || len(l.e.Info().CDIDevices) > 0 {
		t.Skip("this engine has GPUs")
	}
	if g, err := l.e.GPUs(t.Context(), l.image); err != nil || len(g) != 0 {
		t.Errorf("GPUs = %v, %v; want none", g, err)
	}
	if _, err := l.e.GPUs(t.Context(), "bench-test-none:latest"); err != nil {
		t.Errorf("the answer was not kept: %v", err)
	}
}
