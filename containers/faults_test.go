package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
	"go.uber.org/goleak"
)

var plain = Spec{Image: "image", UID: 65534, GID: 65534, Env: map[string]string{"SECRET": "hunter2"}, Labels: map[string]string{LabelBatch: "b1"}}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Connections that the Docker client keeps for the next call.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// Every fault of the engine becomes the kind that the program acts on. The
// texts are those of Docker 20.10 and 28.5, from live engines.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		method string
		err    error
		want   Kind
		left   bool // the container was created and stays
	}{
		{"Create", fmt.Errorf("No such image: x: %w", errdefs.ErrNotFound), ImageMissing, false},
		{"Create", fmt.Errorf("write /var/lib/docker/tmp: no space left on device: %w", errdefs.ErrInternal), NoSpace, false},
		{"Create", fmt.Errorf(`invalid mount config for type "bind": bind source path does not exist: /x: %w`, errdefs.ErrInvalidArgument), MountRefused, false},
		{"Create", fmt.Errorf("Unknown runtime specified nvidia: %w", errdefs.ErrInvalidArgument), GPURefused, false},
		{"Create", fmt.Errorf("something new: %w", errdefs.ErrInternal), Refused, false},
		{"Start", fmt.Errorf(`could not select device driver "nvidia" with capabilities: [[gpu]]: %w`, errdefs.ErrInternal), GPURefused, false},
		{"Start", fmt.Errorf("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=7: %w", errdefs.ErrInternal), GPURefused, false},
		{"Start", fmt.Errorf(`exec: "x": executable file not found in $PATH: unknown: %w`, errdefs.ErrInvalidArgument), Refused, false},
		{"Create", syscall.ECONNREFUSED, Unreachable, false},
		{"Create", io.ErrUnexpectedEOF, Unreachable, false},
		{"Create", fmt.Errorf("starting: %w", errdefs.ErrUnavailable), Unreachable, false},
		{"Create", errHang, Unreachable, false},
		{"Create", fmt.Errorf("permission denied while trying to connect to the Docker daemon socket: %w", os.ErrPermission), Denied, false},
		{"Start", errHang, Unreachable, true},
	} {
		f := newFake()
		f.fault = func(m string, _ int) error {
			if m == c.method {
				return c.err
			}
			return nil
		}
		_, err := f.open(t).Start(t.Context(), "bench-1", plain)
		if !IsKind(err, c.want) {
			t.Errorf("%s fails with %v: got %v, want kind %d", c.method, c.err, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells the environment: %v", err)
		}
		if left := f.state != nil; left != c.left {
			t.Errorf("%s fails with %v: container left behind is %v, want %v", c.method, c.err, left, c.left)
		}
	}
}

// An answer that gets lost leaves the container made or started; asking again
// by name finds that out, and nothing is done twice.
func TestStartThroughLostAnswers(t *testing.T) {
	for _, method := range []string{"Create", "Start"} {
		f := newFake()
		f.after = func(m string, n int) error {
			if m == method && n == 1 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		c, err := f.open(t).Start(t.Context(), "bench-1", plain)
		if err != nil {
			t.Fatalf("answer to %s lost: %v", method, err)
		}
		if c.ID() != "id-of-bench-1" || f.state.Status != "running" || f.calls["Start"] != 1 {
			t.Errorf("answer to %s lost: container %s is %s after %d starts", method, c.ID(), f.state.Status, f.calls["Start"])
		}
	}
}

// An engine that was killed while it started the container refuses to start it
// later; another one is made. What is refused also then is an error.
func TestStartAfterHalfAStart(t *testing.T) {
	for refusals, works := range map[int]bool{1: true, 2: false} {
		f := newFake()
		f.fault = func(m string, n int) error {
			switch {
			case m == "Start" && n == 1:
				return io.ErrUnexpectedEOF
			case m == "Start" && n <= 1+refusals:
				return fmt.Errorf("id already in use: %w", errdefs.ErrInternal)
			}
			return nil
		}
		_, err := f.open(t).Start(t.Context(), "bench-1", plain)
		if works && (err != nil || f.state.Status != "running" || f.calls["Create"] < 2) || !works && (!IsKind(err, Refused) || f.state != nil) {
			t.Errorf("after %d refusals: %v; it was made %d times", refusals, err, f.calls["Create"])
		}
	}
}

// Files are sent before the program starts, again after the engine was away,
// and also into a container that an earlier process left. Where they cannot be
// had, no container is left.
func TestStartPrepares(t *testing.T) {
	for _, left := range []bool{false, true} {
		f := newFake()
		e := f.open(t)
		if left {
			f.name, f.config, f.state = "bench-1", &container.Config{Labels: plain.Labels}, &container.State{Status: "created"}
		}
		s, n := plain, 0
		s.Prepare = func(_ context.Context, c *Container) error {
			if n++; n == 1 {
				return &Error{Kind: Unreachable}
			}
			if f.state.Status != "created" || c.ID() != "id-of-bench-1" {
				t.Errorf("prepared while %s", f.state.Status)
			}
			return nil
		}
		if _, err := e.Start(t.Context(), "bench-1", s); err != nil || n != 2 || f.state.Status != "running" || f.calls["Start"] != 1 {
			t.Errorf("%v after %d preparations and %d starts", err, n, f.calls["Start"])
		}
		if _, err := e.Start(t.Context(), "bench-1", s); err != nil || n != 2 {
			t.Errorf("a running container was prepared: %v, %d", err, n)
		}
	}
	f := newFake()
	s := plain
	s.Prepare = func(context.Context, *Container) error { return io.ErrNoProgress }
	if _, err := f.open(t).Start(t.Context(), "bench-1", s); !errors.Is(err, io.ErrNoProgress) || f.state != nil {
		t.Errorf("files that cannot be had: %v, container %v", err, f.state)
	}
}

func TestStartFinds(t *testing.T) {
	for _, status := range []string{"running", "exited", "paused", "created"} {
		f := newFake()
		e := f.open(t)
		f.name, f.config, f.state = "bench-1", &container.Config{Labels: map[string]string{LabelBatch: "b1"}}, &container.State{Status: status}
		if _, err := e.Start(t.Context(), "bench-1", plain); err != nil {
			t.Errorf("%s container: %v", status, err)
		}
		if want := map[bool]int{true: 1}[status == "created"]; f.calls["Start"] != want {
			t.Errorf("%s container was started %d times, want %d", status, f.calls["Start"], want)
		}
		other := plain
		other.Labels = map[string]string{LabelBatch: "b2"}
		if _, err := e.Start(t.Context(), "bench-1", other); !IsKind(err, NameTaken) {
			t.Errorf("%s container of another batch: %v, want NameTaken", status, err)
		}
		if f.state == nil {
			t.Errorf("the other batch's container was removed")
		}
	}
}

// A container that vanishes between two calls is made again.
func TestStartWhileRemoved(t *testing.T) {
	f := newFake()
	e := f.open(t)
	f.name, f.config, f.state = "bench-1", &container.Config{}, &container.State{Status: "removing"}
	f.fault = func(m string, n int) error {
		if m == "Inspect" && n == 3 {
			f.mu.Lock()
			f.state = nil
			f.mu.Unlock()
		}
		return nil
	}
	if _, err := e.Start(t.Context(), "bench-1", plain); err != nil || f.state.Status != "running" {
		t.Errorf("Start over a container that is being removed: %v", err)
	}
}

func TestSpecRefused(t *testing.T) {
	e := newFake().open(t)
	for name, change := range map[string]func(*Spec){
		"root":       func(s *Spec) { s.UID = 0 },
		"root group": func(s *Spec) { s.GID = 0 },
		"no image":   func(s *Spec) { s.Image = "" },
		"socket":     func(s *Spec) { s.Mounts = []Mount{{Source: "/var/run/docker.sock", Target: "/s"}} },
		"relative":   func(s *Spec) { s.Mounts = []Mount{{Source: "in", Target: "/in"}} },
		"over /":     func(s *Spec) { s.Mounts = []Mount{{Source: "/in", Target: "/"}} },
		"unclean":    func(s *Spec) { s.Mounts = []Mount{{Source: "/in", Target: "/in/../usr"}} },
		"bad env":    func(s *Spec) { s.Env = map[string]string{"A=hunter2": ""} },
		"negative":   func(s *Spec) { s.MemoryBytes = -1 },
	} {
		s := plain
		change(&s)
		if _, err := e.Start(t.Context(), "bench-1", s); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want an error that tells no secret", name, err)
		}
	}
}

// What the engine is asked for, field by field: nothing is left to a default
// that an engine's configuration or an image could change.
func TestSandbox(t *testing.T) {
	t.Setenv("HF_TOKEN", "hf_secret")
	f := newFake()
	s := plain
	s.CPUs, s.GPUs = 2.5, []string{"GPU-1"}
	s.Mounts = []Mount{{Source: "/data/in", Target: "/bench/in"}, {Source: "/data/out", Target: "/bench/out", Writable: true}}
	if _, err := f.open(t).Start(t.Context(), "bench-1", s); err != nil {
		t.Fatal(err)
	}
	h, c := f.host, f.config
	for name, ok := range map[string]bool{
		"no network":         h.NetworkMode == "none",
		"read-only root":     h.ReadonlyRootfs,
		"no capabilities":    len(h.CapDrop) == 1 && h.CapDrop[0] == "ALL" && len(h.CapAdd) == 0,
		"no new privileges":  len(h.SecurityOpt) == 1 && h.SecurityOpt[0] == "no-new-privileges:true",
		"not privileged":     !h.Privileged && len(h.Devices) == 0 && h.PidMode == "" && h.IpcMode == "private" && h.UTSMode == "",
		"user":               c.User == "65534:65534",
		"memory":             h.Memory == 8<<30/10*9 && h.MemorySwap == h.Memory,
		"pids":               h.PidsLimit != nil && *h.PidsLimit == 1024,
		"cpus":               h.NanoCPUs == 2_500_000_000,
		"init":               h.Init != nil && *h.Init,
		"tmp":                h.Tmpfs["/tmp"] == fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", h.Memory/4),
		"in read-only":       h.Mounts[0].ReadOnly && h.Mounts[0].Type == "bind",
		"out writable":       !h.Mounts[1].ReadOnly && len(h.Mounts) == 2 && len(h.Binds) == 0,
		"gpu by uuid":        h.DeviceRequests[0].Count == 0 && h.DeviceRequests[0].DeviceIDs[0] == "GPU-1",
		"no restart":         h.RestartPolicy.Name == "no" && !h.AutoRemove,
		"log can be read":    h.LogConfig.Type == "json-file" && h.LogConfig.Config["max-size"] != "",
		"threads":            has(c.Env, "OMP_NUM_THREADS=2") && has(c.Env, "OPENBLAS_NUM_THREADS=2") && has(c.Env, "MKL_NUM_THREADS=2"),
		"home is scratch":    has(c.Env, "HOME=/tmp") && has(c.Env, "XDG_CACHE_HOME=/tmp/.cache"),
		"nothing taken over": !strings.Contains(strings.Join(c.Env, " "), "hf_secret"),
		"pinned image":       c.Image == "sha256:1234",
		"labels":             c.Labels[LabelBatch] == "b1" && c.Labels[LabelCreated] != "",
	} {
		if !ok {
			t.Errorf("%s: not asked for", name)
		}
	}
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func TestGPURequests(t *testing.T) {
	e := newFake().open(t)
	if r := e.requests(nil); r != nil {
		t.Errorf("no GPUs: %v", r)
	}
	if r := e.requests([]string{allGPUs}); r[0].Count != -1 || r[0].DeviceIDs != nil {
		t.Errorf("all GPUs: %+v", r)
	}
	e.info.CDIDevices = []string{"nvidia.com/gpu=GPU-1", "nvidia.com/gpu=all"}
	if r := e.requests([]string{"GPU-1"}); r[0].Driver != "cdi" || r[0].DeviceIDs[0] != "nvidia.com/gpu=GPU-1" {
		t.Errorf("an engine with CDI only: %+v", r)
	}
	e.info.NvidiaRuntime = true
	if r := e.requests([]string{"GPU-1"}); r[0].Driver != "nvidia" || r[0].DeviceIDs[0] != "GPU-1" {
		t.Errorf("an engine with both: %+v", r)
	}
}

// Wait asks again after every kind of silence, and knows that it did.
func TestWaitThroughFaults(t *testing.T) {
	for name, fault := range map[string]error{"cut": io.ErrUnexpectedEOF, "refused": syscall.ECONNREFUSED, "frozen": errHang, "starting": errdefs.ErrUnavailable, "ill": errdefs.ErrInternal} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			e := f.open(t)
			e.Patience = 10 * time.Second
			c, err := e.Start(t.Context(), "bench-1", plain)
			if err != nil {
				t.Fatal(err)
			}
			f.fault = func(m string, n int) error {
				if (m == "Wait" || m == "Inspect") && n%3 != 0 {
					return fault
				}
				return nil
			}
			time.AfterFunc(100*time.Millisecond, func() { f.end(7) })
			x, err := c.Wait(t.Context())
			if err != nil || x.Code != 7 || !x.EngineLost {
				t.Errorf("Wait = %+v, %v; want code 7 of an engine that was lost", x, err)
			}
		})
	}
}

func TestWaitEnds(t *testing.T) {
	f := newFake()
	e := f.open(t)
	c, err := e.Start(t.Context(), "bench-1", plain)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || IsKind(err, Unreachable) {
		t.Errorf("Wait with an ended context: %v", err)
	}
	f.fault = func(string, int) error { return errHang }
	begin := time.Now()
	if _, err := c.Wait(t.Context()); !IsKind(err, Unreachable) || !strings.Contains(err.Error(), "does not answer in time") {
		t.Errorf("Wait on a frozen engine: %v", err)
	}
	if d := time.Since(begin); d < e.Patience || d > 10*e.Patience {
		t.Errorf("Wait gave a frozen engine %v, patience is %v", d, e.Patience)
	}
	f.fault = nil
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(t.Context()); !IsKind(err, Gone) {
		t.Errorf("Wait on a removed container: %v", err)
	}
	for _, err := range []error{c.Remove(t.Context())} {
		if err != nil {
			t.Errorf("removing it again: %v", err)
		}
	}
}

// A log comes whole and once, wherever the connection is cut: between pieces,
// within one, within lines cut into pieces of one stamp, and with the two
// streams out of order against each other.
func TestLogsThroughCuts(t *testing.T) {
	rng := rand.New(rand.NewPCG(4242, 1))
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for round := range 50 {
		f := newFake()
		e := f.open(t)
		e.Patience = 10 * time.Second
		var want [2]strings.Builder
		var log []byte
		clock := [2]time.Time{start, start}
		for i := range 200 {
			s := rng.IntN(2)
			if rng.IntN(3) > 0 { // else the same stamp again
				clock[s] = clock[s].Add(time.Duration(1 + rng.IntN(1000)))
			}
			text := fmt.Sprintf("piece %d", i)
			if rng.IntN(4) > 0 {
				text += "\n"
			}
			log = append(log, piece(byte(s+1), clock[s], text)...)
			want[s].WriteString(text)
		}
		f.log = log
		c, err := e.Start(t.Context(), "bench-1", plain)
		if err != nil {
			t.Fatal(err)
		}
		faults := []error{io.ErrUnexpectedEOF, syscall.ECONNRESET}
		f.fault = func(m string, n int) error {
			if m == "Cut" && rng.IntN(60) == 0 || m == "Logs" && rng.IntN(4) == 0 {
				return faults[rng.IntN(2)]
			}
			return nil
		}
		time.AfterFunc(time.Duration(rng.IntN(30))*time.Millisecond, func() { f.end(0) })
		var out, log2 strings.Builder
		if err := c.Logs(t.Context(), &out, &log2); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if out.String() != want[0].String() || log2.String() != want[1].String() {
			t.Fatalf("round %d: %d of %d and %d of %d bytes", round, out.Len(), want[0].Len(), log2.Len(), want[1].Len())
		}
	}
}

func TestLogsErrors(t *testing.T) {
	f := newFake()
	e := f.open(t)
	f.log = piece(1, time.Now(), "hello\n")
	c, err := e.Start(t.Context(), "bench-1", plain)
	if err != nil {
		t.Fatal(err)
	}
	full := fmt.Errorf("disk: %w", syscall.ENOSPC)
	if err := c.Logs(t.Context(), errWriter{full}, io.Discard); !errors.Is(err, syscall.ENOSPC) || IsKind(err, Unreachable) || IsKind(err, NoSpace) {
		t.Errorf("the caller's disk is full: %v", err)
	}
	// A silent stream of an engine that froze after the first line.
	f.fault = func(m string, n int) error {
		if m == "Ping" {
			return errHang
		}
		if m == "Logs" && n > 2 {
			return errHang
		}
		return nil
	}
	if err := c.Logs(t.Context(), io.Discard, io.Discard); !IsKind(err, Unreachable) {
		t.Errorf("frozen engine: %v", err)
	}
	f.log = []byte("not a log at all, but long enough for a head")
	if err := new(cursor).copy(strings.NewReader(string(f.log)), io.Discard, io.Discard, func() {}); err == nil {
		t.Error("nonsense was read as a log")
	}
	// Cut within a head, within a body.
	whole := piece(2, time.Now(), "hello\n")
	for _, n := range []int{4, 20} {
		if err := new(cursor).copy(strings.NewReader(string(whole[:n])), io.Discard, io.Discard, func() {}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a log cut after %d bytes: %v", n, err)
		}
	}
}

type errWriter struct{ err error }

func (w errWriter) Write([]byte) (int, error) { return 0, w.err }

func TestRemoveLeftovers(t *testing.T) {
	for _, c := range []struct {
		status  string
		age     time.Duration
		running bool
		removed bool
	}{
		{"running", time.Hour, false, false}, {"running", time.Hour, true, true}, {"exited", 0, false, true},
		{"created", time.Hour, false, true}, {"created", 0, false, false}, {"created", 0, true, true},
	} {
		f := newFake()
		e := f.open(t)
		f.name, f.config, f.state = "bench-1", &container.Config{}, &container.State{Status: c.status}
		f.created = time.Now().Add(-c.age)
		names, err := e.RemoveLeftovers(t.Context(), map[string]string{LabelInstance: "i"}, c.running)
		if err != nil || (len(names) == 1) != c.removed || (f.state == nil) != c.removed {
			t.Errorf("%+v: removed %q, %v", c, names, err)
		}
	}
	if _, err := newFake().open(t).RemoveLeftovers(t.Context(), nil, true); err == nil {
		t.Error("without labels everything would be removed")
	}
}

func TestConnect(t *testing.T) {
	f := newFake()
	f.info = system.Info{
		NCPU: 8, MemTotal: 1 << 34, OSType: "linux", Name: "gpu1", ServerVersion: "28.5.2", CgroupVersion: "2", CgroupDriver: "systemd",
		Runtimes:          map[string]system.RuntimeWithStatus{"runc": {}, "nvidia": {}},
		DiscoveredDevices: []system.DeviceInfo{{Source: "cdi", ID: "nvidia.com/gpu=1"}, {Source: "cdi", ID: "nvidia.com/gpu=0"}},
		SecurityOptions:   []string{"name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"},
	}
	i := f.open(t).Info()
	if i.CPUs != 8 || !i.NvidiaRuntime || strings.Join(i.CDIDevices, " ") != "nvidia.com/gpu=0 nvidia.com/gpu=1" || !i.Remapped || !i.Seccomp || i.Cgroup != "v2/systemd" {
		t.Errorf("Info = %+v", i)
	}
	f.info.OSType = "windows"
	if err := newEngine(f, "x").connect(t.Context()); err == nil {
		t.Error("an engine for Windows containers was opened")
	}
	if _, err := Open(t.Context(), "unix:///nonexistent/docker.sock"); !IsKind(err, Unreachable) {
		t.Errorf("no engine: %v", err)
	} else if e, _ := errors.AsType[*Error](err); e.Hint == "" {
		t.Errorf("no engine, and no hint what to do: %v", err)
	}
	for _, host := range []string{"ssh://gpu1", "nonsense"} {
		if _, err := Open(t.Context(), host); err == nil {
			t.Errorf("%s was opened", host)
		}
	}
}

// Open does not hang on a socket that accepts and never answers.
func TestOpenFrozen(t *testing.T) {
	f := newFake()
	f.fault = func(string, int) error { return errHang }
	e := newEngine(f, "x")
	e.t.call = 20 * time.Millisecond
	if err := e.connect(t.Context()); !IsKind(err, Unreachable) {
		t.Errorf("frozen engine: %v", err)
	}
}

func TestMessages(t *testing.T) {
	var out strings.Builder
	err := messages(strings.NewReader(`{"stream":"Step 1\n"}
{"status":"Pushing","id":"a1","progress":"1/2"}
{"status":"Pushing","id":"a1","progress":"2/2"}
{"status":"Pushed","id":"a1"}
{"errorDetail":{"message":"denied"},"error":"denied"}
`), &out)
	if m, ok := errors.AsType[*messageError](err); !ok || m.text != "denied" {
		t.Errorf("error: %v", err)
	}
	if want := "Step 1\na1: Pushing\na1: Pushed\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if err := messages(iotest.ErrReader(io.ErrUnexpectedEOF), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut stream: %v", err)
	}
}
