package containertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// FreePort returns a port of the loopback interface that nobody listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Authority issues certificates.
type Authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	next int64
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, next: 2}
	a.key = a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

// Issue returns a folder with ca.pem, and cert.pem and key.pem for an address,
// good for both ends of a connection.
func (a *Authority) Issue(address string) string {
	a.t.Helper()
	key := a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: address}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if ip := net.ParseIP(address); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{address}
	}
	a.next++
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	for name, block := range map[string]*pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: a.cert.Raw}, "cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return dir
}

// SSH is an ssh server on the loopback interface, and the configuration with
// which the ssh command of this test reaches it as the host "engine".
type SSH struct {
	t      testing.TB
	dir    string
	port   int
	cmd    *exec.Cmd
	exited chan struct{}
}

// StartSSH starts an ssh server that lets this user in, and puts an ssh command
// before the others in $PATH that reads the test's configuration instead of
// the user's. The test cannot be parallel.
func StartSSH(t testing.TB) *SSH {
	t.Helper()
	sshd := "/usr/sbin/sshd"
	for _, program := range []string{sshd, "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			Need(t, "ssh", program+" is not installed")
		}
	}
	if os.Getuid() != 0 {
		Need(t, "ssh", "a server of its own can only be started by root")
	}
	s := &SSH{t: t, dir: t.TempDir(), port: FreePort(t)}
	p := func(name string) string { return filepath.Join(s.dir, name) }
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd locks itself in there
		t.Fatal(err)
	}
	for _, key := range []string{"host", "user", "stranger"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", p(key)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	read := func(name string) string {
		b, err := os.ReadFile(p(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	s.write("authorized", read("user.pub"))
	s.write("known", fmt.Sprintf("[127.0.0.1]:%d %s", s.port, read("host.pub")))
	s.write("sshd_config", strings.Join([]string{
		"ListenAddress 127.0.0.1", fmt.Sprint("Port ", s.port), "HostKey " + p("host"), "AuthorizedKeysFile " + p("authorized"), "PidFile none", "UsePAM no",
		"StrictModes no", "PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
	}, "\n")+"\n")
	s.Configure("")
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p("bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p("bin/ssh"), fmt.Appendf(nil, "#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, p("config")), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", p("bin")+":"+os.Getenv("PATH"))
	t.Cleanup(s.Kill)
	s.Up()
	return s
}

func (s *SSH) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Configure writes the configuration of the ssh command: first lines, which
// win, then what makes the host "engine" work.
func (s *SSH) Configure(first string) {
	s.t.Helper()
	s.write("config", "Host engine\n"+first+fmt.Sprintf("\nHostName 127.0.0.1\nPort %d\nUser root\nIdentityFile %s\nIdentitiesOnly yes\nUserKnownHostsFile %s\nGlobalKnownHostsFile none\n",
		s.port, filepath.Join(s.dir, "user"), filepath.Join(s.dir, "known")))
}

// File returns the path of one of the server's files: host, user and stranger
// are private keys, known the keys of hosts.
func (s *SSH) File(name string) string { return filepath.Join(s.dir, name) }

// Up starts the server, after Kill.
func (s *SSH) Up() {
	s.t.Helper()
	s.cmd = exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
	log, err := os.OpenFile(filepath.Join(s.dir, "sshd.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stderr = log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, exited := s.cmd, make(chan struct{})
	s.exited = exited
	go func() { cmd.Wait(); close(exited) }()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(filepath.Join(s.dir, "sshd.log"))
			s.t.Fatalf("sshd does not start: %s", text)
		}
	}
}

// Kill kills the server and the connections it has.
func (s *SSH) Kill() {
	// A connection's process leads a session of its own; find them before their parent dies.
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.cmd.Process.Pid))
	s.cmd.Process.Kill()
	<-s.exited
	for _, pid := range strings.Fields(string(children)) {
		var n int
		if _, err := fmt.Sscan(pid, &n); err == nil {
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
}
