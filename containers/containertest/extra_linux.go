package containertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bench/containers"
)

// Extra is a Docker engine of a test's own, beside the machine's, to be killed
// and frozen at will.
type Extra struct {
	Host     string // its socket
	Instance string // its containers with this instance are removed at the end

	t      testing.TB
	dir    string
	bridge string
	gpus   bool
	args   []string // more of dockerd
	cmd    *exec.Cmd
	exited chan struct{}
}

// extras counts the engines of this process.
var extras atomic.Int32

// StartExtra starts an engine. With liveRestore its containers survive it.
// With gpus it takes requests for GPUs and gives none: containers see the
// request in NVIDIA_VISIBLE_DEVICES.
//
// It needs root and a dockerd. The bridge is its own, and it leaves the
// machine's packet filter alone: "none" would delete the other engine's bridge.
func StartExtra(t testing.TB, liveRestore, gpus bool) *Extra {
	t.Helper()
	return startExtra(t, liveRestore, gpus, 0, nil, nil)
}

// StartSmall starts an engine whose disk holds so many megabytes.
func StartSmall(t testing.TB, megabytes int) *Extra {
	t.Helper()
	return startExtra(t, false, false, megabytes, nil, nil)
}

// StartTLS starts an engine that also listens on a port of the loopback
// interface, to who has a certificate of an authority of its own. c is that
// authority.
func StartTLS(t testing.TB) (x *Extra, address string, c *Authority) {
	t.Helper()
	c = NewAuthority(t)
	server := c.Issue("127.0.0.1")
	address = fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	x = startExtra(t, true, false, 0, []string{"-H", "tcp://" + address, "--tlsverify",
		"--tlscacert", filepath.Join(server, "ca.pem"), "--tlscert", filepath.Join(server, "cert.pem"), "--tlskey", filepath.Join(server, "key.pem")}, nil)
	return x, "tcp://" + address, c
}

// startExtra gives the data folder, which is not there yet, to fill before the
// first start; fill may be nil.
func startExtra(t testing.TB, liveRestore, gpus bool, megabytes int, args []string, fill func(data string)) *Extra {
	t.Helper()
	if os.Getuid() != 0 {
		Need(t, "docker", "an engine of its own can only be started by root")
	}
	for _, program := range []string{"dockerd", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			Need(t, "docker", program+" is not installed")
		}
	}
	// Not t.TempDir: the path of a socket has 107 bytes at most.
	dir, err := os.MkdirTemp("", "benchd")
	if err != nil {
		t.Fatal(err)
	}
	number := (os.Getpid() + 7919*int(extras.Add(1))) % 100000 // differs between tests that run at once
	x := &Extra{t: t, dir: dir, gpus: gpus, args: args, Host: "unix://" + filepath.Join(dir, "s"), Instance: "test-" + filepath.Base(dir), bridge: fmt.Sprintf("bt%d", number)}
	config, err := json.Marshal(map[string]any{"live-restore": liveRestore})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "daemon.json"), config, 0o644)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "bin"), 0o755)
	}
	if err == nil && gpus { // that it is on dockerd's PATH switches GPU requests on
		err = os.WriteFile(filepath.Join(dir, "bin", "nvidia-container-runtime-hook"), []byte("#!/bin/sh\ncat >/dev/null\n"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"link add " + x.bridge + " type bridge", fmt.Sprintf("addr add 10.%d.%d.1/24 dev %s", 200+number/250%50, number%250, x.bridge), "link set " + x.bridge + " up"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			Need(t, "docker", fmt.Sprintf("ip %s: %s", args, out))
		}
	}
	t.Cleanup(x.remove)
	if fill != nil {
		fill(filepath.Join(dir, "data"))
	}
	if megabytes > 0 {
		data := filepath.Join(dir, "data")
		err := os.Mkdir(data, 0o711)
		if err == nil {
			err = syscall.Mount("tmpfs", data, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes))
		}
		if err != nil {
			Need(t, "docker", fmt.Sprintf("a small disk cannot be made: %v", err))
		}
	}
	x.Up()
	return x
}

// Up starts dockerd and waits until it answers. It must be called by the
// test's own goroutine.
func (x *Extra) Up() {
	x.t.Helper()
	// A busy machine is too slow for its containerd at times; then it gives up.
	for range 3 {
		if x.up() {
			return
		}
	}
	text, _ := os.ReadFile(filepath.Join(x.dir, "log"))
	Need(x.t, "docker", "a second engine does not start here: "+string(text[max(0, len(text)-1000):]))
}

func (x *Extra) up() bool {
	x.t.Helper()
	p := func(name string) string { return filepath.Join(x.dir, name) }
	log, err := os.OpenFile(p("log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		x.t.Fatal(err)
	}
	defer log.Close()
	x.cmd = exec.Command("dockerd", "-H", x.Host, "--config-file", p("daemon.json"), "--data-root", p("data"), "--exec-root", p("exec"), "-p", p("pid"),
		"--bridge="+x.bridge, "--iptables=false", "--ip6tables=false")
	x.cmd.Args = append(x.cmd.Args, x.args...)
	x.cmd.Env = append(os.Environ(), "PATH="+p("bin")+":"+os.Getenv("PATH"))
	x.cmd.Stdout, x.cmd.Stderr = log, log
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := x.cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	cmd, exited := x.cmd, make(chan struct{})
	x.exited = exited
	go func() { cmd.Wait(); close(exited) }()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		e, err := containers.Open(ctx, x.Host)
		cancel()
		if err == nil {
			e.Close()
			return true
		}
		select {
		case <-exited:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill kills dockerd at once; its containerd dies with it, containers do not.
func (x *Extra) Kill() {
	x.cmd.Process.Kill()
	<-x.exited
	// Where PID 1 is slow to reap, the next dockerd takes the dead containerd for
	// a live one and waits 15 s for it.
	os.Remove(filepath.Join(x.dir, "exec", "containerd", "containerd.pid"))
}

// Freeze stops dockerd from doing anything, connections are accepted by the
// kernel; Thaw lets it go on.
func (x *Extra) Freeze() {
	x.t.Helper()
	x.cmd.Process.Signal(syscall.SIGSTOP)
	// A thread that runs may answer one more call before it sees the signal.
	for end := time.Now().Add(10 * time.Second); !x.stopped(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatal("dockerd does not stop")
		}
	}
}
func (x *Extra) Thaw() { x.cmd.Process.Signal(syscall.SIGCONT) }

// stopped says whether all threads of dockerd are.
func (x *Extra) stopped() bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", x.cmd.Process.Pid))
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		_, state, _ := bytes.Cut(text, []byte(") ")) // 7 (dockerd) T …
		if err == nil && !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}

// Open opens the engine.
func (x *Extra) Open() *containers.Engine {
	x.t.Helper()
	e, err := containers.Open(x.t.Context(), x.Host)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { e.Close() })
	return e
}

func (x *Extra) remove() {
	x.Thaw()
	select {
	case <-x.exited:
		x.Up()
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// First: with live-restore containers outlive dockerd.
	if e, err := containers.Open(ctx, x.Host); err != nil {
		x.t.Errorf("extra engine: %v", err)
	} else {
		if _, err := e.RemoveLeftovers(ctx, map[string]string{containers.LabelInstance: x.Instance}, true); err != nil {
			x.t.Errorf("extra engine: %v", err)
		}
		e.Close()
	}
	x.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-x.exited:
	case <-ctx.Done():
		x.t.Error("extra engine: dockerd does not end")
		x.Kill()
	}
	exec.Command("ip", "link", "del", x.bridge).Run()
	// A killed dockerd leaves mounts behind.
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for _, line := range strings.Split(string(mounts), "\n") {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], x.dir+"/") {
			syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
	if err := os.RemoveAll(x.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.t.Errorf("extra engine: %v", err)
	}
}
