// Package sshlink keeps one ssh running that makes a socket on this machine,
// through which another machine is reached: a forwarded socket, or the control
// socket of a shared connection. It is started again when it ends, and goes with
// the process that started it.
package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gofrs/flock"
)

// To is where ssh goes.
type To struct {
	User, Host, Port string // User and Port may be "": as ssh is configured
}

// Parse reads [USER@]HOST[:PORT]. A host in brackets is an IPv6 address.
func Parse(text string) (To, error) {
	u, err := url.Parse("ssh://" + text)
	if err != nil || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.HasPrefix(u.Hostname(), "-") || strings.ContainsFunc(text, unicode.IsSpace) {
		return To{}, fmt.Errorf("%q is not [USER@]HOST[:PORT]", text)
	}
	if _, has := u.User.Password(); has || strings.HasPrefix(u.User.Username(), "-") {
		return To{}, fmt.Errorf("%q: give the user alone; keys and passwords are ssh's business", text)
	}
	return To{User: u.User.Username(), Host: u.Hostname(), Port: u.Port()}, nil
}

// String is the host as people give it to the ssh command.
func (t To) String() string {
	s := t.Host
	if t.User != "" {
		s = t.User + "@" + s
	}
	if t.Port != "" {
		s = "-p " + t.Port + " " + s
	}
	return s
}

// options are given to every ssh. They come before the user's configuration.
func (t To) options(more ...string) []string {
	args := []string{"-T", "-a", "-x"}
	for _, o := range append(more, "BatchMode=yes", "ConnectTimeout=7", "ServerAliveInterval=10", "ServerAliveCountMax=3", "RemoteCommand=none", "PermitLocalCommand=no") {
		args = append(args, "-o", o)
	}
	if t.User != "" {
		args = append(args, "-l", t.User)
	}
	if t.Port != "" {
		args = append(args, "-p", t.Port)
	}
	return args
}

// Link is one ssh that makes a socket, and is started again when it ends. All
// that is done on the other machine goes through it, so that it sees one login
// and not one for each.
//
// ssh reads the user's own configuration and uses the user's agent: jump
// hosts, keys and names of hosts are set there, as for ssh by hand.
type Link struct {
	to    To
	args  func(socket string) []string
	words []Word
	dir   string
	lock  *flock.Flock
	stop  context.CancelFunc
	done  chan struct{}

	mu      sync.Mutex
	state   linkState
	changed chan struct{} // closed when state changes
	said    tail
	failure error // of the last ssh that ended
}

type linkState int

const (
	connecting linkState = iota
	up
	down // waiting to be tried again
)

// Pauses before ssh is started again: the first, and the longest.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 10 * time.Second
)

// prefix begins the names of the folders of links.
const prefix = "bench-ssh-"

// Forward opens a link whose socket is the other machine's socket at a path.
// words say what ssh's words about that mean.
func Forward(ctx context.Context, to To, socket string, words ...Word) (*Link, error) {
	return open(ctx, to, words, func(own string) []string {
		// A connection of its own: a shared one would end with somebody else's.
		args := to.options("ExitOnForwardFailure=yes", "StreamLocalBindUnlink=yes", "StreamLocalBindMask=0177", "ControlMaster=no", "ControlPath=none")
		return append(args, "-N", "-L", own+":"+socket, "--", to.Host)
	})
}

// open starts ssh and returns when the socket is there, or with an error when
// the first ssh ends: an *Error if ssh said why.
func open(ctx context.Context, to To, words []Word, args func(socket string) []string) (*Link, error) {
	parent := os.Getenv("XDG_RUNTIME_DIR")
	if parent == "" {
		parent = os.TempDir()
	}
	sweep(parent)
	dir, err := os.MkdirTemp(parent, prefix) // nobody else may enter
	if err != nil {
		return nil, err
	}
	l := &Link{to: to, args: args, words: words, dir: dir, lock: flock.New(filepath.Join(dir, "lock")), done: make(chan struct{}), changed: make(chan struct{})}
	if _, err := l.lock.TryLock(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	var running context.Context
	running, l.stop = context.WithCancel(context.Background())
	go l.run(running)
	switch err := l.Await(ctx); {
	case err == nil:
		return l, nil
	case ctx.Err() != nil && !l.Told():
		l.Close()
		return nil, err
	default:
		l.Close()
		return nil, l.Explain(err)
	}
}

// sweep removes what a bench that was killed left behind.
func sweep(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
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

// Socket is the path of the socket on this machine, whether it is there or not.
func (l *Link) Socket() string { return filepath.Join(l.dir, "s") }

// run keeps an ssh running until ctx ends.
func (l *Link) run(ctx context.Context) {
	defer close(l.done)
	// The kernel ends the child with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for n := 0; ; n++ {
		began := time.Now()
		err := l.once(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case time.Since(began) > time.Minute:
			n = 0
		case l.is(up): // the machine lets this user in: no long wait
			n = min(n, 2)
		}
		l.set(down, err)
		timer := time.NewTimer(min(firstPause<<min(n, 10), lastPause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		l.set(connecting, err)
	}
}

// once runs one ssh to its end.
func (l *Link) once(ctx context.Context) error {
	os.Remove(l.Socket())
	l.mu.Lock()
	l.said.Reset()
	l.mu.Unlock()
	cmd := exec.CommandContext(ctx, "ssh", l.args(l.Socket())...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stderr = &locked{&l.mu, &l.said}
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
			if _, err := os.Stat(l.Socket()); err == nil {
				l.set(up, nil)
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

func (l *Link) is(s linkState) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == s
}

func (l *Link) set(s linkState, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.failure = s, err
	close(l.changed)
	l.changed = make(chan struct{})
}

// Await returns nil when the socket is there, and an error when ssh failed.
func (l *Link) Await(ctx context.Context) error {
	for {
		l.mu.Lock()
		state, err, changed := l.state, l.failure, l.changed
		l.mu.Unlock()
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

// Close ends ssh and removes the socket.
func (l *Link) Close() {
	l.stop()
	<-l.done
	os.RemoveAll(l.dir)
	l.lock.Unlock()
}

// Told says whether ssh has said something.
func (l *Link) Told() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Len() > 0
}

// Fault is what kind of thing keeps ssh from its work.
type Fault int

// Faults.
const (
	Unreachable Fault = iota // the machine, or the ssh command
	Untrusted                // its key is not the known one
	Denied                   // it does not let the user in, or not do that
)

// Word is what ssh says, and what can be done about it.
type Word struct {
	Text  string // in lower case, anywhere in what it said
	Fault Fault
	Hint  string // %s is the host as people give it to the ssh command
}

var words = []Word{
	{"executable file not found", Unreachable, "install the ssh command (Debian: apt-get install openssh-client)"},
	{"remote host identification has changed", Untrusted, "somebody may be listening; if the machine was set up anew, forget its old key: ssh-keygen -R %s"},
	{"host key verification failed", Untrusted, "compare the key of the machine with what its owner says, and accept it once: ssh %s true"},
	{"permission denied (", Denied, "let your key in: ssh-copy-id %s, and unlock it for programs: ssh-add; ssh -o BatchMode=yes %[1]s true tells whether it works"},
	{"too many authentication failures", Denied, "name the one key to use in ~/.ssh/config (IdentityFile, IdentitiesOnly yes)"},
	{"could not resolve hostname", Unreachable, "look at the name of the host, and at ~/.ssh/config"},
	{"connection refused", Unreachable, "no ssh server listens there: look at the port, or start it"},
	{"timed out", Unreachable, "the machine is off, or a firewall is in between: ssh %s true"},
	{"no route to host", Unreachable, "the machine is off, or a firewall is in between: ssh %s true"},
	{"bad configuration option", Unreachable, "mend ~/.ssh/config; ssh -G %s shows what it says"},
	{"bad owner or permissions", Denied, "chmod 600 ~/.ssh/config"},
}

// Error is what ssh said of its failure.
type Error struct {
	said  string
	Fault Fault
	Hint  string
}

// cut says whether the connection, or ssh, was ended from outside.
func (e *Error) cut() bool {
	said := strings.ToLower(e.said)
	return strings.HasPrefix(said, "signal: ") || strings.Contains(said, "connection closed by") || strings.Contains(said, "connection reset by") || strings.Contains(said, "broken pipe")
}

func (e *Error) Error() string { return "ssh: " + strings.TrimPrefix(e.said, "ssh: ") }

// Explain makes the error of something that got no answer: an *Error with what
// ssh said, if it said anything, else err.
func (l *Link) Explain(err error) error {
	l.mu.Lock()
	text, failure := strings.TrimSpace(l.said.String()), l.failure
	l.mu.Unlock()
	if text == "" && failure != nil {
		text = failure.Error()
	}
	if text == "" {
		return err
	}
	return explain(l.to, l.words, text)
}

func explain(to To, more []Word, text string) *Error {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	e := &Error{said: strings.Join(lines[max(0, len(lines)-4):], "; "), Hint: fmt.Sprintf("see what is wrong: ssh -v %s true", to)}
	for _, w := range slices.Concat(more, words) {
		if strings.Contains(strings.ToLower(text), w.Text) {
			e.Fault, e.Hint = w.Fault, strings.ReplaceAll(strings.ReplaceAll(w.Hint, "%[1]s", "%s"), "%s", to.String())
			break
		}
	}
	return e
}

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
