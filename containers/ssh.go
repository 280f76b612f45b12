package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// tunnel is one ssh that forwards a socket of this machine to an engine's
// socket on another, and is started again when it ends. All calls to the
// engine go through it, so that a host sees one login and not one for each.
//
// ssh reads the user's own configuration and uses the user's agent: jump
// hosts, keys and names of hosts are set there, as for ssh by hand.
type tunnel struct {
	to   endpoint
	dir  string
	lock *flock.Flock
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	state   tunnelState
	changed chan struct{} // closed when state changes
	said    tail
	failure error // of the last ssh that ended
}

type tunnelState int

const (
	connecting tunnelState = iota
	up
	down // waiting to be tried again
)

// Pauses before ssh is started again: the first, and the longest.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 10 * time.Second
)

// tunnelPrefix begins the names of the folders of tunnels.
const tunnelPrefix = "bench-ssh-"

// openTunnel starts ssh and returns when the forwarding stands, or with an
// error when the first ssh ends.
func openTunnel(ctx context.Context, to endpoint) (*tunnel, error) {
	parent := os.Getenv("XDG_RUNTIME_DIR")
	if parent == "" {
		parent = os.TempDir()
	}
	sweepTunnels(parent)
	dir, err := os.MkdirTemp(parent, tunnelPrefix) // nobody else may enter
	if err != nil {
		return nil, err
	}
	t := &tunnel{to: to, dir: dir, lock: flock.New(filepath.Join(dir, "lock")), done: make(chan struct{}), changed: make(chan struct{})}
	if _, err := t.lock.TryLock(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	var running context.Context
	running, t.stop = context.WithCancel(context.Background())
	go t.run(running)
	switch err := t.await(ctx); {
	case err == nil:
		return t, nil
	case ctx.Err() != nil && !t.told():
		t.close()
		return nil, err
	default:
		t.close()
		return nil, t.explain(err)
	}
}

// sweepTunnels removes what a bench that was killed left behind.
func sweepTunnels(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, tunnelPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		// A young one may not have its lock yet.
		if i, err := os.Lstat(dir); err != nil || !i.IsDir() || time.Since(i.ModTime()) < time.Minute {
			continue
		}
		lock := flock.New(filepath.Join(dir, "lock"))
		if got, err := lock.TryLock(); err == nil && got {
			os.RemoveAll(dir)
			lock.Unlock()
		}
	}
}

func (t *tunnel) socket() string { return filepath.Join(t.dir, "s") }

// arguments of ssh. What is given here comes before the user's configuration.
func (t *tunnel) arguments() []string {
	args := []string{"-N", "-T", "-a", "-x"}
	for _, o := range []string{
		"BatchMode=yes", "ExitOnForwardFailure=yes", "ConnectTimeout=7", "ServerAliveInterval=10", "ServerAliveCountMax=3",
		"StreamLocalBindUnlink=yes", "StreamLocalBindMask=0177", "RemoteCommand=none", "PermitLocalCommand=no",
		// A connection of its own: a shared one would end with somebody else's.
		"ControlMaster=no", "ControlPath=none",
	} {
		args = append(args, "-o", o)
	}
	if t.to.user != "" {
		args = append(args, "-l", t.to.user)
	}
	if t.to.port != "" {
		args = append(args, "-p", t.to.port)
	}
	return append(args, "-L", t.socket()+":"+t.to.socket, "--", t.to.host)
}

// run keeps an ssh running until ctx ends.
func (t *tunnel) run(ctx context.Context) {
	defer close(t.done)
	// The kernel ends the child with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for n := 0; ; n++ {
		began := time.Now()
		err := t.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			n = 0
		}
		t.set(down, err)
		timer := time.NewTimer(min(firstPause<<min(n, 10), lastPause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		t.set(connecting, err)
	}
}

// once runs one ssh to its end.
func (t *tunnel) once(ctx context.Context) error {
	os.Remove(t.socket())
	t.mu.Lock()
	t.said.Reset()
	t.mu.Unlock()
	cmd := exec.CommandContext(ctx, "ssh", t.arguments()...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stderr = &locked{&t.mu, &t.said}
	cmd.Cancel = func() error { return endGroup(cmd.Process) }
	cmd.WaitDelay = 2 * time.Second
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	watched := make(chan struct{})
	go func() { // the socket appears when the login has succeeded
		defer close(watched)
		for {
			select {
			case <-exited:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if _, err := os.Stat(t.socket()); err == nil {
				t.set(up, nil)
				return
			}
		}
	}()
	err := cmd.Wait()
	close(exited)
	<-watched
	if err == nil {
		err = errors.New("ssh ended")
	}
	return err
}

func (t *tunnel) set(s tunnelState, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.failure = s, err
	close(t.changed)
	t.changed = make(chan struct{})
}

// await returns nil when the forwarding stands, and an error when ssh failed.
func (t *tunnel) await(ctx context.Context) error {
	for {
		t.mu.Lock()
		state, err, changed := t.state, t.failure, t.changed
		t.mu.Unlock()
		switch state {
		case up:
			return nil
		case down:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// dial connects to the engine. While ssh logs in, it waits.
func (t *tunnel) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := t.await(ctx); err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", t.socket())
}

// close ends ssh and removes the socket.
func (t *tunnel) close() {
	t.stop()
	<-t.done
	os.RemoveAll(t.dir)
	t.lock.Unlock()
}

func (t *tunnel) told() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said.Len() > 0
}

// sshWords are what ssh says, and what can be done about it. %s is the host as
// ssh knows it.
var sshWords = []struct {
	text string
	kind Kind
	hint string
}{
	{"executable file not found", Unreachable, "install the ssh command (Debian: apt-get install openssh-client)"},
	{"remote host identification has changed", Untrusted, "somebody may be listening; if the machine was set up anew, forget its old key: ssh-keygen -R %s"},
	{"host key verification failed", Untrusted, "compare the key of the machine with what its owner says, and accept it once: ssh %s true"},
	{"permission denied (", Denied, "let your key in: ssh-copy-id %s, and unlock it for programs: ssh-add; ssh -o BatchMode=yes %[1]s true tells whether it works"},
	{"too many authentication failures", Denied, "name the one key to use in ~/.ssh/config (IdentityFile, IdentitiesOnly yes)"},
	{"could not resolve hostname", Unreachable, "look at the name of the host, and at ~/.ssh/config"},
	{"open failed: connect failed", Denied, "there is no Docker socket, or its user may not use it: ssh %s docker version; another socket is named behind the host, ssh://HOST/run/user/1000/docker.sock"},
	{"connection refused", Unreachable, "no ssh server listens there: look at the port, or start it"},
	{"timed out", Unreachable, "the machine is off, or a firewall is in between: ssh %s true"},
	{"no route to host", Unreachable, "the machine is off, or a firewall is in between: ssh %s true"},
	{"administratively prohibited", Denied, "its ssh server forbids to forward sockets: set AllowStreamLocalForwarding yes in sshd_config there"},
	{"bad configuration option", Unreachable, "mend ~/.ssh/config; ssh -G %s shows what it says"},
	{"bad owner or permissions", Denied, "chmod 600 ~/.ssh/config"},
}

// explain makes the error of a call that got no answer: what ssh said, if it
// said anything.
func (t *tunnel) explain(err error) error {
	t.mu.Lock()
	text, failure := strings.TrimSpace(t.said.String()), t.failure
	t.mu.Unlock()
	if text == "" && failure != nil {
		text = failure.Error()
	}
	if text == "" {
		return err
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	e := &sshError{said: strings.Join(lines[max(0, len(lines)-4):], "; "), kind: Unreachable,
		hint: fmt.Sprintf("see what is wrong: ssh -v %s true", t.to.destination())}
	for _, w := range sshWords {
		if strings.Contains(strings.ToLower(text), w.text) {
			e.kind, e.hint = w.kind, w.hint
			if strings.Contains(w.hint, "%") {
				e.hint = fmt.Sprintf(w.hint, t.to.destination())
			}
			break
		}
	}
	return e
}

// destination is the host as the ssh command takes it.
func (p endpoint) destination() string {
	s := p.host
	if p.user != "" {
		s = p.user + "@" + s
	}
	if p.port != "" {
		s = "-p " + p.port + " " + s
	}
	return s
}

// sshError is what ssh said of its failure.
type sshError struct {
	said string
	kind Kind
	hint string
}

func (e *sshError) Error() string { return "ssh: " + strings.TrimPrefix(e.said, "ssh: ") }

// tail keeps the end of what is written.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p)
	if extra := t.Len() - 4<<10; extra > 0 {
		t.Next(extra)
	}
	return len(p), nil
}

// locked is a writer under a lock.
type locked struct {
	mu *sync.Mutex
	w  *tail
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
