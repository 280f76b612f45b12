package ui

import (
	"bytes"
	"os"
	"testing"
)

func TestTable(t *testing.T) {
	got := Table([]string{"name", ">mean"}, [][]string{{"sætning", "9.5"}, {"b", "10.25"}})
	want := "name      mean\nsætning    9.5\nb        10.25\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestClipCountsCharacters(t *testing.T) {
	if got := Clip("æøåæøå", 4); got != "æøå…" {
		t.Errorf("got %q", got)
	}
	if got := Clip("æøå", 3); got != "æøå" {
		t.Errorf("got %q", got)
	}
}

// A pipe gets the lines and nothing else.
func TestPipeHasNoStatus(t *testing.T) {
	var b bytes.Buffer
	term := New(&b)
	term.SetStatus("1/40 jobs")
	term.Print("one line")
	term.SetStatus()
	if b.String() != "one line\n" {
		t.Errorf("got %q", b.String())
	}
}

// A terminal's status block is taken away before a line is printed, and drawn
// again below it.
func TestTerminalRedraws(t *testing.T) {
	var b bytes.Buffer
	term := &Terminal{w: &b, fd: int(os.Stdin.Fd()) + 1000} // no real terminal: the width falls back to 80
	term.SetStatus("a", "b")
	term.Print("line")
	want := "a\nb\n" + "\r\x1b[2A\x1b[J" + "line\n" + "a\nb\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
