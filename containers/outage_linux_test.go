package containers_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
)

func extraLab(t *testing.T, liveRestore, gpus bool) (*lab, *containertest.Extra) {
	t.Helper()
	x := containertest.StartExtra(t, liveRestore, gpus)
	e := x.Open()
	e.Hurry()
	return &lab{t, e, containertest.Image(t, e, "containertest/prog", "prog", "nvidia-smi"), x.Instance}, x
}

type printed struct {
	out, log bytes.Buffer
	err      error
	done     chan struct{}
}

func (l *lab) follow(c *containers.Container) *printed {
	p := &printed{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = c.Logs(l.Context(), &p.out, &p.log)
	}()
	return p
}

// all waits until the engine's log has the last of n lines, ends the program,
// and checks that the log that was followed is what the engine has: no line
// lost on the way or doubled. A dockerd that is killed may itself lose lines
// that it had read and not written; those are few.
func (l *lab) all(c *containers.Container, p *printed, n int) {
	l.Helper()
	last := fmt.Sprintf(" %d\n", n-1)
	var out, log bytes.Buffer
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		out.Reset()
		log.Reset()
		if l.e.Ping(l.Context()) == nil && c.Peek(l.Context(), &out, &log) == nil && strings.HasSuffix(out.String(), last) && strings.HasSuffix(log.String(), last) {
			break
		}
	}
	if err := c.Stop(l.Context(), 30*time.Second); err != nil {
		l.Fatal(err)
	}
	exit, err := c.Wait(l.Context())
	if err != nil || exit.Code != 5 {
		l.Errorf("exit %+v, %v; want code 5", exit, err)
	}
	<-p.done
	if p.err != nil {
		l.Fatal(p.err)
	}
	if p.out.String() != out.String() || p.log.String() != log.String() {
		l.Errorf("followed %d and %d bytes, the engine has %d and %d", p.out.Len(), p.log.Len(), out.Len(), log.Len())
	}
	for _, b := range []*bytes.Buffer{&out, &log} {
		if lines := strings.Count(b.String(), "\n"); lines > n || lines < n-n/20 {
			l.Errorf("the engine has %d of %d lines", lines, n)
		}
	}
}

// dockerd is killed twice while a program prints: every line that it has comes
// once, and the program's exit code is its own.
func TestOutageLiveRestore(t *testing.T) {
	l, x := extraLab(t, true, false)
	c := l.start(nil, "hold", "3000", "1000") // 3 s and more
	p := l.follow(c)
	for range 2 {
		time.Sleep(700 * time.Millisecond)
		x.Kill()
		time.Sleep(300 * time.Millisecond)
		x.Up()
	}
	l.all(c, p, 3000)

	// One that ends while nobody is there keeps its exit code. The engine loses
	// what it printed meanwhile.
	c = l.start(nil, "lines", "200", "1000")
	p = l.follow(c)
	x.Kill()
	time.Sleep(time.Second)
	x.Up()
	if exit, err := c.Wait(t.Context()); err != nil || exit.Code != 5 {
		t.Errorf("ended meanwhile: exit %+v, %v", exit, err)
	}
	<-p.done
	if p.err != nil {
		t.Error(p.err)
	}
	var out, log bytes.Buffer
	if err := c.Peek(t.Context(), &out, &log); err != nil || p.out.String() != out.String() || p.log.String() != log.String() {
		t.Errorf("followed %d and %d bytes, the engine has %d and %d; %v", p.out.Len(), p.log.Len(), out.Len(), log.Len(), err)
	}

	// Frozen: calls hang.
	c = l.start(nil, "hold", "2000", "1000")
	p = l.follow(c)
	waited := make(chan containers.Exit, 1)
	go func() {
		exit, err := c.Wait(t.Context())
		if err != nil {
			t.Error(err)
		}
		waited <- exit
	}()
	time.Sleep(300 * time.Millisecond)
	x.Freeze()
	if _, err := c.Inspect(t.Context()); !containers.IsKind(err, containers.Unreachable) {
		t.Errorf("Inspect on a frozen engine: %v", err)
	}
	time.Sleep(4 * time.Second)
	x.Thaw()
	l.all(c, p, 2000)
	if exit := <-waited; exit.Code != 5 || !exit.EngineLost {
		t.Errorf("frozen meanwhile: exit %+v", exit)
	}

	// Away for longer than anybody wants to wait, then back.
	l.e.Patience = time.Second
	c = l.start(nil, "sleep", "100000")
	x.Kill()
	if _, err := c.Wait(t.Context()); !containers.IsKind(err, containers.Unreachable) {
		t.Errorf("Wait for an engine that is away: %v", err)
	}
	if err := c.Logs(t.Context(), &bytes.Buffer{}, &bytes.Buffer{}); !containers.IsKind(err, containers.Unreachable) {
		t.Errorf("Logs of an engine that is away: %v", err)
	}
	x.Up()
	again, err := l.e.Lookup(t.Context(), c.Name())
	if err != nil || again.ID() != c.ID() {
		t.Fatalf("Lookup: %v", err)
	}
	if st, err := again.Inspect(t.Context()); err != nil || st.Status != "running" {
		t.Errorf("Inspect: %+v, %v", st, err)
	}
}

// Without live-restore a running container dies when dockerd comes back.
func TestOutage(t *testing.T) {
	l, x := extraLab(t, false, false)
	c := l.start(nil, "sleep", "100000")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if exit, err := c.Wait(t.Context()); err != nil || exit.Code != 143 && exit.Code != 137 || exit.OOMKilled || !exit.EngineLost {
			t.Errorf("exit %+v, %v; want SIGTERM or SIGKILL of an engine that was lost", exit, err)
		}
	}()
	time.Sleep(200 * time.Millisecond)
	x.Kill()
	x.Up()
	<-ended
}

func TestFakeGPUs(t *testing.T) {
	l, _ := extraLab(t, false, true)
	gpus, err := l.e.GPUs(t.Context(), l.image)
	if err != nil || len(gpus) != 3 {
		t.Fatalf("GPUs = %+v, %v", gpus, err)
	}
	want := []containers.GPU{
		{UUID: "GPU-aaaa", Index: 0, Name: "NVIDIA H100 80GB HBM3", MemoryMiB: 81559, UsedMiB: 4, Compute: "9.0", Driver: "550.54.15"},
		{UUID: "MIG-b0", Index: 1, Name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb", MemoryMiB: 5120, Compute: "8.0", Driver: "550.54.15", Parent: "GPU-bbbb", Share: .125},
		{UUID: "MIG-b1", Index: 1, Name: "NVIDIA A100-SXM4-40GB MIG 3g.20gb", MemoryMiB: 20480, Compute: "8.0", Driver: "550.54.15", Parent: "GPU-bbbb", Slice: 1, Share: .5},
	}
	for i := range want {
		if gpus[i] != want[i] {
			t.Errorf("GPU %d is %+v, want %+v", i, gpus[i], want[i])
		}
	}
	_, env, _ := l.run(func(s *containers.Spec) { s.GPUs = []string{"MIG-b1"} }, "env")
	if !strings.Contains(env, "NVIDIA_VISIBLE_DEVICES=MIG-b1\n") || !strings.Contains(env, "NVIDIA_DRIVER_CAPABILITIES=") {
		t.Errorf("a container with a GPU has the environment\n%s", env)
	}
	_, env, _ = l.run(nil, "env")
	if !strings.Contains(env, "NVIDIA_VISIBLE_DEVICES=void\n") {
		t.Errorf("a container without a GPU has the environment\n%s", env)
	}
	if left, err := l.e.Find(t.Context(), map[string]string{containers.LabelBatch: "probe"}); err != nil || len(left) != 0 {
		t.Errorf("%d probes are left, %v", len(left), err)
	}
}
