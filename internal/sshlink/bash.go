package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Shell runs scripts on another machine, all over one connection.
type Shell struct {
	*Link
	slots chan struct{}
}

// sessions is how many scripts run at a time: servers allow ten in one
// connection if nobody says otherwise.
const sessions = 4

// logins is how often a first login is tried that is cut.
const logins = 4

// Share opens a connection for scripts. It returns when the login has
// succeeded, or with an error when the first ssh ends: an *Error if ssh said
// why. A login that is cut before that is tried again.
func Share(ctx context.Context, to To) (*Shell, error) {
	for n := 1; ; n++ {
		s, err := login(ctx, to)
		if own, ok := errors.AsType[*Error](err); !ok || !own.cut() || n == logins || ctx.Err() != nil {
			return s, err
		}
		time.Sleep(firstPause)
	}
}

func login(ctx context.Context, to To) (*Shell, error) {
	l, err := open(ctx, to, nil, func(own string) []string {
		return append(to.options("ControlMaster=yes", "ControlPersist=no", "ControlPath="+own), "-N", "--", to.Host)
	})
	if err != nil {
		return nil, err
	}
	return &Shell{l, make(chan struct{}, sessions)}, nil
}

// ExitError is a script that failed on the other machine.
type ExitError struct {
	Code int    // exit code; 255 is ssh's own, and never a script's
	Said string // the end of what it wrote to stderr
}

func (e *ExitError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Said
}

// began is what a script's output begins with: login scripts may print.
const began = "bench-script-begins-3f9c\n"

// Run runs a script with bash, which gets args as $1 and so on, and stdin. The
// error is an *ExitError if the script failed, and an *Error, or ctx's, if the
// connection did: then it may have run, and may still run. Errors of stdin and
// stdout are returned as they are.
func (s *Shell) Run(ctx context.Context, stdin io.Reader, stdout io.Writer, script string, args ...string) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.Await(ctx); err != nil {
		return s.Explain(err)
	}
	// Bash reads its program from stdin byte by byte, and leaves the rest to it:
	// nothing of it goes through the quoting of the login shell, whichever that is.
	var program strings.Builder
	program.WriteString("set --")
	for _, a := range args {
		program.WriteString(" " + Quote(a))
	}
	fmt.Fprintf(&program, "\nprintf '\\n%%s\\n' %s\n{ %s\nexit\n}\n", strings.TrimSpace(began), script)
	// Where the shared connection is gone, this must not log in by itself.
	arguments := append(s.to.options("ControlMaster=no", "ControlPath="+s.Socket(), "ProxyCommand=false"), "--", s.to.Host, "exec bash --norc")
	cmd := exec.CommandContext(ctx, "ssh", arguments...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	in := &source{from: strings.NewReader(program.String())}
	if stdin != nil {
		in.from = io.MultiReader(in.from, stdin)
	}
	cmd.Stdin = in
	var said tail
	out := &after{to: stdout}
	cmd.Stdout, cmd.Stderr = out, &said
	cmd.Cancel = func() error { return endGroup(cmd.Process) }
	cmd.WaitDelay = 2 * time.Second
	separate(cmd)
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text := strings.TrimSpace(said.String())
	exit, ok := errors.AsType[*exec.ExitError](err)
	if why := errors.Join(in.failure(), out.err); why != nil {
		return why
	}
	if ok && exit.ExitCode() >= 0 && exit.ExitCode() != 255 && out.begun {
		return &ExitError{exit.ExitCode(), text}
	}
	if ok && !out.begun && exit.ExitCode() >= 0 && exit.ExitCode() != 255 {
		return &Error{said: strings.Join(strings.Fields(text), " "), Fault: Denied, Hint: fmt.Sprintf("bash must run there: ssh %s bash --version", s.to)}
	}
	if text == "" {
		text = "the connection was cut"
	}
	return explain(s.to, nil, text)
}

// source remembers the error of its reader.
type source struct {
	from io.Reader
	mu   sync.Mutex
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && err != io.EOF {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

// failure may be asked for while a reader that was left behind still reads.
func (s *source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Quote makes one word of s for a shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// after passes on what comes after began.
type after struct {
	to    io.Writer // may be nil
	begun bool
	head  []byte
	err   error // of to
}

// maxHead bounds what login scripts may print.
const maxHead = 1 << 20

func (a *after) Write(p []byte) (int, error) {
	rest := p
	if !a.begun {
		a.head = append(a.head, p...)
		_, found, ok := bytes.Cut(a.head, []byte(began))
		if !ok {
			if len(a.head) > maxHead {
				return 0, errors.New("the login prints too much")
			}
			return len(p), nil
		}
		a.begun, a.head, rest = true, nil, found
	}
	if a.to != nil && len(rest) > 0 && a.err == nil {
		if _, err := a.to.Write(rest); err != nil {
			a.err = err
			return 0, err
		}
	}
	return len(p), nil
}
