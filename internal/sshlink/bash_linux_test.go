package sshlink

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/internal/sshlink/sshtest"
)

func share(t *testing.T) (*Shell, *sshtest.Server) {
	t.Helper()
	if why := sshtest.Lacks(); why != "" {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "ssh") {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	server, err := sshtest.Up(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	t.Setenv("PATH", server.Commands+":"+os.Getenv("PATH"))
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	s, err := Share(t.Context(), To{Host: "engine"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, server
}

// Scripts get their arguments and their input whole, and tell how they ended; all
// go over one login.
func TestShell(t *testing.T) {
	s, server := share(t)
	odd := "a 'b' \"c\" $HOME \\ ð\t!"
	data := bytes.Repeat([]byte("0123456789\n"), 400_000)
	var out bytes.Buffer
	if err := s.Run(t.Context(), bytes.NewReader(data), &out, `printf '%s\n' "$1"; cat`, odd); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), odd+"\n"+string(data); got != want {
		t.Errorf("%d bytes %.80q, want %d", len(got), got, len(want))
	}
	err := s.Run(t.Context(), nil, nil, `echo no such thing >&2; exit 7`)
	if own, ok := errors.AsType[*ExitError](err); !ok || own.Code != 7 || own.Said != "no such thing" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx, nil, nil, "sleep 60"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	log, err := os.ReadFile(server.File("sshd.log"))
	if err != nil || strings.Count(string(log), "Accepted publickey") != 1 {
		t.Errorf("%v\n%s", err, log)
	}
}

// A connection that is cut fails what runs over it, and is made again.
func TestShellCut(t *testing.T) {
	s, server := share(t)
	master := func() int {
		out, err := exec.Command("pgrep", "-f", "^[^ ]*ssh .*ControlMaster=yes.*"+filepath.Dir(s.Socket())).Output()
		if err != nil {
			t.Fatal(err)
		}
		pid := 0
		for _, c := range strings.Fields(string(out))[0] {
			pid = 10*pid + int(c-'0')
		}
		return pid
	}
	for _, cut := range []func(){
		func() { syscall.Kill(master(), syscall.SIGKILL) },
		func() {
			server.Kill()
			time.Sleep(300 * time.Millisecond)
			if err := server.Up(); err != nil {
				t.Error(err)
			}
		},
	} {
		ended := make(chan error)
		go func() { ended <- s.Run(t.Context(), nil, nil, "sleep 30") }()
		time.Sleep(500 * time.Millisecond)
		cut()
		select {
		case err := <-ended:
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("the error is %T %v", err, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it is not noticed")
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			if err := s.Run(t.Context(), nil, nil, "true"); err == nil {
				break
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
}

// What login scripts print, and an ssh that may not log in by itself.
func TestAfter(t *testing.T) {
	var out bytes.Buffer
	a := &after{to: &out}
	for _, c := range "Welcome to the cluster!\nbench-script\n" + began + "the answer\n" + began {
		a.Write([]byte(string(c)))
	}
	if out.String() != "the answer\n"+began {
		t.Errorf("%q", out.String())
	}
}
