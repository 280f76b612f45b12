package containers_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
)

// refuses opens a host and wants an error of that kind with these words in it
// or its hint, in time.
func refuses(t *testing.T, h string, kind containers.Kind, words string) {
	t.Helper()
	began := time.Now()
	e, err := containers.Open(t.Context(), h)
	if err == nil {
		e.Close()
		t.Errorf("%s: was opened; want %q", h, words)
		return
	}
	own, ok := err.(*containers.Error)
	if !ok || own.Kind != kind || own.Hint == "" || !strings.Contains(err.Error()+own.Hint, words) {
		t.Errorf("%s: %v (%+v); want %q", h, err, own, words)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%s: took %v", h, took)
	}
}

// tunnels lists the ssh processes of this test that forward something.
func tunnels(t *testing.T, dir string) (pids []int) {
	t.Helper()
	processes, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		args, err := os.ReadFile(filepath.Join("/proc", p.Name(), "cmdline"))
		if err == nil && bytes.Contains(args, []byte("bench-ssh-")) && bytes.Contains(args, []byte(dir)) {
			var n int
			fmt.Sscan(p.Name(), &n)
			pids = append(pids, n)
		}
	}
	return pids
}

func TestSSH(t *testing.T) {
	server := containertest.StartSSH(t)
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	l := newLab(t)
	e, err := containers.Open(t.Context(), "ssh://engine")
	if err != nil {
		t.Fatal(err)
	}
	e.Hurry()
	if !e.Copies() || e.Info().ID == "" || e.Info().ID != l.e.Info().ID {
		t.Errorf("Copies %v, engine %q", e.Copies(), e.Info().ID)
	}
	far := *l
	far.e = e
	c := far.start(nil, "hold", "2000", "1000")
	p := far.follow(c)
	// ssh is killed, then the server and its connections: the log goes on.
	for i, cut := range []func(){
		func() { syscall.Kill(tunnels(t, runtime)[0], syscall.SIGKILL) },
		func() { server.Kill(); time.Sleep(500 * time.Millisecond); server.Up() },
	} {
		time.Sleep(300 * time.Millisecond)
		if got := tunnels(t, runtime); len(got) != 1 {
			t.Fatalf("cut %d: %d ssh processes, want one for the host", i, len(got))
		}
		cut()
	}
	far.all(c, p, 2000)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(runtime); err != nil || len(left) != 0 || len(tunnels(t, runtime)) != 0 {
		t.Errorf("left behind: %v, %v, %d processes", left, err, len(tunnels(t, runtime)))
	}

	refuses(t, "ssh://engine/run/nothing.sock", containers.Denied, "ssh engine docker version")
	server.Configure("UserKnownHostsFile none")
	refuses(t, "ssh://engine", containers.Untrusted, "accept it once")
	server.Configure("IdentityFile " + server.File("stranger"))
	if err := os.Rename(server.File("user"), server.File("user.away")); err != nil {
		t.Fatal(err)
	}
	refuses(t, "ssh://engine", containers.Denied, "ssh-copy-id")
	if err := os.Rename(server.File("user.away"), server.File("user")); err != nil {
		t.Fatal(err)
	}
	server.Configure("")
	refuses(t, "ssh://nosuchhost.invalid", containers.Unreachable, "look at the name")
	server.Kill()
	refuses(t, "ssh://engine", containers.Unreachable, "no ssh server listens")
	if left, err := os.ReadDir(runtime); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A server that accepts connections and says nothing.
func TestSilentHosts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	refuses(t, "unix://"+filepath.Join(dir, "s"), containers.Unreachable, "does not answer in time")
}

// The ssh of a bench that is killed ends with it; the next one clears its folder away.
func TestSSHDiesWithParent(t *testing.T) {
	if os.Getenv("BENCH_TEST_SSH_CHILD") != "" {
		if _, err := containers.Open(context.Background(), "ssh://engine"); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("open")
		time.Sleep(time.Minute)
		return
	}
	containertest.StartSSH(t)
	containertest.Open(t)
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSSHDiesWithParent$")
	cmd.Env = append(os.Environ(), "BENCH_TEST_SSH_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 256)
	if n, err := out.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "open") {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	if got := tunnels(t, runtime); len(got) != 1 {
		t.Fatalf("%d ssh processes", len(got))
	}
	cmd.Process.Kill()
	cmd.Wait()
	for end := time.Now().Add(5 * time.Second); len(tunnels(t, runtime)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("ssh outlives bench")
		}
	}
	left, err := filepath.Glob(filepath.Join(runtime, "bench-ssh-*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("folders %v, %v", left, err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(left[0], old, old); err != nil {
		t.Fatal(err)
	}
	e, err := containers.Open(t.Context(), "ssh://engine")
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	if left, err := os.ReadDir(runtime); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTLS(t *testing.T) {
	x, address, authority := containertest.StartTLS(t)
	good := authority.Issue("client")
	e, err := containers.Open(t.Context(), address+"?tls="+good)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.Warning() != "" || !e.Copies() {
		t.Errorf("warning %q, copies %v", e.Warning(), e.Copies())
	}
	l := &lab{t, e, containertest.Image(t, e, "containertest/prog", "prog"), x.Instance}
	if exit, _, _ := l.run(nil, "exit", "5"); exit.Code != 5 {
		t.Errorf("exit %+v", exit)
	}

	stranger := containertest.NewAuthority(t)
	refuses(t, address+"?tls="+stranger.Issue("client"), containers.Untrusted, "ca.pem is not the authority")
	mixed := stranger.Issue("client")
	ca, err := os.ReadFile(filepath.Join(good, "ca.pem"))
	if err == nil {
		err = os.WriteFile(filepath.Join(mixed, "ca.pem"), ca, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	refuses(t, address+"?tls="+mixed, containers.Denied, "does not accept cert.pem")
	refuses(t, strings.Replace(address, "127.0.0.1", "localhost", 1)+"?tls="+good, containers.Untrusted, "name the host as its certificate does")
	refuses(t, address+"?tls="+authority.IssueUntil("client", time.Now().Add(-time.Minute)), containers.Misdescribed, "cert.pem has expired, on 20")
	refuses(t, address+"?tls=no", containers.Refused, "wants TLS")
	refuses(t, fmt.Sprintf("tcp://127.0.0.1:%d?tls=%s", containertest.FreePort(t), good), containers.Unreachable, "an engine listens on its port")
	refuses(t, "tcp://nosuchhost.invalid?tls="+good, containers.Unreachable, "look at the name nosuchhost.invalid")

	// The host's own certificate is told before the engine has any part in it.
	old := authority.IssueUntil("127.0.0.1", time.Now().Add(-time.Minute))
	pair, err := tls.LoadX509KeyPair(filepath.Join(old, "cert.pem"), filepath.Join(old, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	refuses(t, "tcp://"+server.Listener.Addr().String()+"?tls="+good, containers.Untrusted, "renew the certificate of the host")

	// Files that are not there, or no pair.
	refuses(t, address+"?tls="+t.TempDir(), containers.Misdescribed, "ca.pem")
	refuses(t, address+"?tls="+t.TempDir()+"/none", containers.Misdescribed, "name the folder with ca.pem, cert.pem and key.pem")
	other := authority.Issue("client")
	if err := os.Remove(filepath.Join(other, "key.pem")); err != nil {
		t.Fatal(err)
	}
	refuses(t, address+"?tls="+other, containers.Misdescribed, "key.pem: no such file")
	if err := os.Link(filepath.Join(good, "key.pem"), filepath.Join(other, "key.pem")); err != nil {
		t.Fatal(err)
	}
	refuses(t, address+"?tls="+other, containers.Misdescribed, "of one pair")
	if err := os.WriteFile(filepath.Join(mixed, "ca.pem"), []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, address+"?tls="+mixed, containers.Misdescribed, "certificates in PEM")
}
