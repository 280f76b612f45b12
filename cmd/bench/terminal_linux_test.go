package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: what is written to tty can be read from screen.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	number, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100})
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	return screen, tty
}

// On a terminal there is a status block with progress, what runs where, and the
// time that is left. It is gone at the end; stdout, a pipe, has the table alone.
func TestStatusOnATerminal(t *testing.T) {
	screen, tty := terminal(t)
	python, _ := fakePython(t, "STANDIN_PAUSE=300ms")
	p := newCLI(t)
	c := p.command("run", "fresh:tiny", "--suite", "sample", "--seeds", "1", "--executor", "process", "--python", python)
	c.Env = append(c.Env, "TERM=xterm")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, tty
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	shown, err := io.ReadAll(screen) // EIO when the last writer has gone
	if err != nil && !bytes.Contains([]byte(err.Error()), []byte("input/output error")) {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	text := string(shown)
	for _, want := range []string{
		`0/4 jobs ░{24}`, `[123]/4 jobs █+░+ .* ETA [0-9.]+ s`, `process@\S+ CPU  fresh:tiny`, `sample-\w+ seed 4242 step 7 val loss 0\.5000`,
		`ok      fresh:tiny  sample-ner  seed 4242 `,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%q is never on the screen:\n%q", want, text)
		}
	}
	last := text[strings.LastIndex(text, "\x1b["):]
	if strings.Contains(last, "jobs █") {
		t.Errorf("the status block stays at the end: %q", last)
	}
	if strings.Contains(out.String(), "\x1b") || !strings.HasPrefix(out.String(), "protocol paper") {
		t.Errorf("stdout:\n%s", out.String())
	}
}
