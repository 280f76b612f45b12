// Package ui owns the screen: lines that stay, and below them a status block
// that is redrawn in place while there is a terminal.
package ui

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// Terminal writes to one stream for people. It is safe for concurrent use.
type Terminal struct {
	mu     sync.Mutex
	w      io.Writer
	fd     int // −1: no terminal
	status []string
}

// New makes a Terminal of w. Only an *os.File that is a terminal, in an
// environment where TERM is not "dumb", gets a status block.
func New(w io.Writer) *Terminal {
	t := &Terminal{w: w, fd: -1}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		t.fd = int(f.Fd())
	}
	return t
}

// IsTerminal says whether somebody may be watching.
func (t *Terminal) IsTerminal() bool { return t.fd >= 0 }

// Print writes a line that stays, above the status block.
func (t *Terminal) Print(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b bytes.Buffer
	t.erase(&b)
	fmt.Fprintf(&b, format, args...)
	if !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
		b.WriteByte('\n')
	}
	t.draw(&b)
	t.w.Write(b.Bytes())
}

// SetStatus replaces the status block; no lines take it away. Without a
// terminal nothing happens.
func (t *Terminal) SetStatus(lines ...string) {
	if !t.IsTerminal() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var b bytes.Buffer
	t.erase(&b)
	t.status = lines
	t.draw(&b)
	t.w.Write(b.Bytes())
}

// Write makes a Terminal a stream for other writers: whole lines are printed
// above the status block.
func (t *Terminal) Write(p []byte) (int, error) {
	t.Print("%s", p)
	return len(p), nil
}

// erase moves to the first line of the status block and clears down from there.
func (t *Terminal) erase(b *bytes.Buffer) {
	if len(t.status) > 0 && t.IsTerminal() {
		fmt.Fprintf(b, "\r\x1b[%dA\x1b[J", len(t.status))
	}
}

func (t *Terminal) draw(b *bytes.Buffer) {
	if !t.IsTerminal() {
		return
	}
	width, _, err := term.GetSize(t.fd)
	if err != nil || width < 20 {
		width = 80
	}
	for _, l := range t.status {
		b.WriteString(Clip(l, width-1))
		b.WriteByte('\n')
	}
}

// Clip shortens s to at most width characters, so that a line never wraps.
func Clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width-1)]) + "…"
}

// Table lays out cells in columns, two blanks apart. Columns whose name begins
// with ">" are aligned to the right; the sign is not shown.
func Table(header []string, rows [][]string) string {
	width := make([]int, len(header))
	right := make([]bool, len(header))
	head := make([]string, len(header))
	for i, h := range header {
		head[i], right[i] = strings.CutPrefix(h, ">")
		width[i] = utf8.RuneCountInString(head[i])
	}
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, r := range append([][]string{head}, rows...) {
		var line strings.Builder
		for i, c := range r {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if right[i] {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
