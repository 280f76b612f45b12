package kubernetes

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"bench/runner"
	"bench/runner/kept"
)

// connection is a way to a cluster's API: one child "kubectl proxy", which
// knows every kind of login, behind a socket that only this user may open. A
// child that died is started anew by the next call.
type connection struct {
	kubectl string // program
	context string // "": the current one of the user's configuration
	http    *http.Client

	mu     sync.Mutex
	dir    string // of the socket; "": no child was started
	child  *child
	closed bool
}

// child is a running kubectl.
type child struct {
	socket string
	done   chan struct{} // closed when it has ended
	said   *lastLines    // on stderr
	kill   func()
}

func dial(kubectl, kubeContext string) *connection {
	c := &connection{kubectl: cmp.Or(kubectl, "kubectl"), context: kubeContext}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				socket, err := c.socket(ctx)
				if err != nil {
					return nil, err
				}
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
			MaxIdleConnsPerHost: 8,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// socket is where the child listens. The child is started if there is none.
func (c *connection) socket(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return "", errors.New("the connection to the cluster is closed")
	}
	if c.child != nil {
		select {
		case <-c.child.done:
		default:
			return c.child.socket, nil
		}
	}
	if c.dir == "" {
		removeDead(os.TempDir())
		dir, err := os.MkdirTemp("", socketPrefix) // only for this user
		if err != nil {
			return "", err
		}
		c.dir = dir
	}
	socket := filepath.Join(c.dir, "api")
	if err := kept.Remove(socket); err != nil {
		return "", err
	}
	k, err := c.start(ctx, socket)
	if err != nil {
		return "", err
	}
	c.child = k
	return k.socket, nil
}

// socketPrefix begins the names of the folders of sockets.
const socketPrefix = "bench-kubectl-"

// removeDead removes the folders of sockets that a bench left when it was
// killed, and its kubectl with it.
func removeDead(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, socketPrefix+"*")) // nothing rests on it
	for _, d := range left {
		i, err := os.Stat(d)
		if err != nil || time.Since(i.ModTime()) < startTimeout {
			continue
		}
		conn, err := net.DialTimeout("unix", filepath.Join(d, "api"), time.Second)
		if err == nil {
			conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
			os.RemoveAll(d)
		}
	}
}

// startTimeout bounds the time until kubectl listens: a login program that it
// calls may ask an identity provider.
const startTimeout = 30 * time.Second

// guard is a shell script that runs a command until its own stdin ends, which
// is when bench ends, however that comes about. (Linux' signal for the death of
// a parent is lost by a kubectl that is a dispatcher and executes another one.)
const guard = `exec 3<&0; (read _ <&3; kill -9 0) & "$@" </dev/null; kill -9 0`

// start starts kubectl proxy and waits until it listens.
func (c *connection) start(ctx context.Context, socket string) (*child, error) {
	path, err := exec.LookPath(c.kubectl)
	if err != nil {
		return nil, &runner.PreconditionError{What: "kubectl is not there", Hint: "install it (https://kubernetes.io/docs/tasks/tools/) and try: kubectl get jobs", Err: err}
	}
	cmd := exec.Command("sh", append([]string{"-c", guard, "sh", path}, c.args("proxy", "--unix-socket="+socket)...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for bench
	k := &child{socket: socket, done: make(chan struct{}), said: &lastLines{}}
	cmd.Stderr = k.said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if _, err := cmd.StdinPipe(); err != nil { // open for as long as bench lives
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, &runner.PreconditionError{What: c.kubectl + " cannot be started", Hint: "try: " + c.hint("get jobs"), Err: err}
	}
	go func() {
		cmd.Wait()
		close(k.done)
	}()
	k.kill = func() {
		select {
		case <-k.done:
		default:
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the script's group
			<-k.done
		}
	}
	ready := make(chan struct{})
	go func() {
		in := bufio.NewReader(out)
		if _, err := in.ReadString('\n'); err == nil { // "Starting to serve on …"
			close(ready)
		}
		io.Copy(io.Discard, in)
	}()
	select {
	case <-ready:
		return k, nil
	case <-k.done:
		err = &runner.PreconditionError{What: "kubectl cannot reach a cluster", Hint: "try: " + c.hint("get jobs"), Err: errors.New(cmp.Or(k.said.String(), "kubectl proxy ended at once"))}
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(startTimeout):
		err = &runner.PreconditionError{What: fmt.Sprintf("kubectl proxy does not answer within %v", startTimeout), Hint: "try: " + c.hint("get jobs"), Err: errors.New(k.said.String())}
	}
	k.kill()
	return nil, err
}

// args are those of a kubectl that talks to this cluster.
func (c *connection) args(args ...string) []string {
	if c.context != "" {
		args = append([]string{"--context=" + c.context}, args...)
	}
	return args
}

// hint is a command for a person.
func (c *connection) hint(command string) string {
	return strings.Join(append([]string{"kubectl"}, c.args(command)...), " ")
}

// close ends the child.
func (c *connection) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.child != nil {
		c.child.kill()
	}
	if c.dir == "" {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// lastLines keeps the end of what a program said.
type lastLines struct {
	mu  sync.Mutex
	end []byte
}

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = append(l.end, p...)
	if n := len(l.end) - 2000; n > 0 {
		l.end = l.end[n:]
	}
	return len(p), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.end))
}

// apiError is an answer of the API server that is not the one hoped for.
type apiError struct {
	Code    int    // HTTP status
	Reason  string // NotFound, AlreadyExists, Forbidden, Invalid …
	Message string
	Kind    string // of the object that is meant, in the plural; may be empty
	asked   string
}

func (e *apiError) Error() string { return fmt.Sprintf("%s: %s", e.asked, e.Message) }

// awayError says that the API server, or kubectl, or the object store, does not
// answer now.
type awayError struct {
	err error
	who string // "": the API server
}

func (e *awayError) Error() string {
	return cmp.Or(e.who, "the cluster's API server") + " does not answer: " + e.err.Error()
}
func (e *awayError) Unwrap() error { return e.err }

func isReason(err error, reason string) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Reason == reason
}

// callTimeout bounds every call but those that stream.
const callTimeout = 30 * time.Second

// maxAnswer bounds an answer of the API server.
const maxAnswer = 256 << 20

// call sends body, if it is not nil, as JSON, and decodes the answer into
// into, if that is not nil.
func (c *connection) call(ctx context.Context, method, path string, query url.Values, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := c.open(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer res.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res, maxAnswer)).Decode(into); err != nil {
		return c.away(ctx, fmt.Errorf("%s %s: %w", method, path, err))
	}
	return nil
}

// open returns the body of a good answer.
func (c *connection) open(ctx context.Context, method, path string, query url.Values, body any) (io.ReadCloser, error) {
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(b)
	}
	u := url.URL{Scheme: "http", Host: "localhost", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), text)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		if own, ok := errors.AsType[*runner.PreconditionError](err); ok {
			return nil, own
		}
		return nil, c.away(ctx, err)
	}
	if res.StatusCode < 300 {
		return res.Body, nil
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	e := &apiError{Code: res.StatusCode, asked: method + " " + path}
	var status struct {
		Kind, Message, Reason string
		Details               struct{ Kind string }
	}
	if json.Unmarshal(said, &status) == nil && status.Kind == "Status" {
		e.Reason, e.Message, e.Kind = status.Reason, status.Message, status.Details.Kind
	} else {
		e.Message = cmp.Or(strings.TrimSpace(string(said)), res.Status)
	}
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests {
		return nil, &awayError{err: e} // also what kubectl says when it does not reach the server
	}
	return nil, e
}

func (c *connection) away(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return &awayError{err: err}
}

// run runs a kubectl of its own, for what a proxy does not do. The error has
// what it said.
func (c *connection) run(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, c.kubectl, c.args(args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := &lastLines{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, said
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("kubectl %s took too long: %s", args[0], said)
	} else if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("kubectl %s: %w: %s", args[0], err, said)
}

// namespace is the one of the user's configuration for the context.
func (c *connection) namespace(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := exec.LookPath(c.kubectl); err != nil {
		return "default", nil // the first call says so
	}
	var out bytes.Buffer
	if err := c.run(ctx, nil, &out, "config", "view", "--minify", "-o", "json"); err != nil {
		return "", &runner.PreconditionError{What: "kubectl has no such context", Hint: "kubectl config get-contexts lists them", Err: err}
	}
	var config struct {
		Contexts []struct {
			Context struct {
				Namespace string `json:"namespace"`
			} `json:"context"`
		} `json:"contexts"`
	}
	if err := json.Unmarshal(out.Bytes(), &config); err != nil {
		return "", fmt.Errorf("kubectl config view: %w", err)
	}
	if len(config.Contexts) == 1 && config.Contexts[0].Context.Namespace != "" {
		return config.Contexts[0].Context.Namespace, nil
	}
	return "default", nil
}
