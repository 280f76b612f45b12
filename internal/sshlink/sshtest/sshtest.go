//go:build linux

// Package sshtest starts an ssh server for tests.
package sshtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const sshd = "/usr/sbin/sshd"

// Server is an ssh server on the loopback interface, which lets this user in.
type Server struct {
	// Commands is a folder with an ssh command for $PATH, which reads the test's
	// configuration instead of the user's: the server is the host "engine".
	Commands string

	dir    string
	port   int
	cmd    *exec.Cmd
	exited chan struct{}
}

// Lacks says what a server would need that is not here; "": nothing.
func Lacks() string {
	for _, program := range []string{sshd, "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not installed"
		}
	}
	if os.Getuid() != 0 {
		return "a server of its own can only be started by root"
	}
	return ""
}

// Up starts a server whose files lie in dir. more are further lines of
// sshd_config. It ends with this process at the latest.
func Up(dir string, more ...string) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, Commands: filepath.Join(dir, "bin"), port: listener.Addr().(*net.TCPAddr).Port}
	listener.Close()
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		return nil, err
	}
	// sshd locks itself in the first folder.
	if err := errors.Join(os.MkdirAll("/run/sshd", 0o755), os.MkdirAll(s.Commands, 0o755)); err != nil {
		return nil, err
	}
	for _, key := range []string{"host", "user", "stranger"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", s.File(key)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	user, err := os.ReadFile(s.File("user.pub"))
	if err != nil {
		return nil, err
	}
	host, err := os.ReadFile(s.File("host.pub"))
	if err != nil {
		return nil, err
	}
	config := append([]string{
		"ListenAddress 127.0.0.1", fmt.Sprint("Port ", s.port), "HostKey " + s.File("host"), "AuthorizedKeysFile " + s.File("authorized"), "PidFile none", "UsePAM no",
		"StrictModes no", "PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
	}, more...)
	return s, errors.Join(
		s.write("authorized", string(user)),
		s.write("known", fmt.Sprintf("[127.0.0.1]:%d %s", s.port, host)),
		s.write("sshd_config", strings.Join(config, "\n")+"\n"),
		s.Configure(""),
		os.WriteFile(filepath.Join(s.Commands, "ssh"), fmt.Appendf(nil, "#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, s.File("config")), 0o755),
		s.Up(),
	)
}

func (s *Server) write(name, text string) error {
	return os.WriteFile(s.File(name), []byte(text), 0o600)
}

// Configure writes the configuration of the ssh command: first lines, which
// win, then what makes the host "engine" work.
func (s *Server) Configure(first string) error {
	return s.write("config", "Host engine\n"+first+fmt.Sprintf("\nHostName 127.0.0.1\nPort %d\nUser root\nIdentityFile %s\nIdentitiesOnly yes\nUserKnownHostsFile %s\nGlobalKnownHostsFile none\n",
		s.port, s.File("user"), s.File("known")))
}

// File returns the path of one of the server's files: host, user and stranger
// are private keys, known the keys of hosts.
func (s *Server) File(name string) string { return filepath.Join(s.dir, name) }

// Up starts the server, after Kill.
func (s *Server) Up() error {
	s.cmd = exec.Command(sshd, "-D", "-e", "-f", s.File("sshd_config"))
	log, err := os.OpenFile(s.File("sshd.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stderr = log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, exited := s.cmd, make(chan struct{})
	s.exited = exited
	go func() { cmd.Wait(); close(exited) }()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(s.File("sshd.log"))
			return fmt.Errorf("sshd does not start: %s", text)
		}
	}
}

// Kill kills the server and the connections it has.
func (s *Server) Kill() {
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
