package conllu

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxLine bounds the length of a line in bytes. The longest line of Universal
// Dependencies is far below it; a file without line ends must not fill memory.
const maxLine = 1 << 20

// maxSentence bounds the bytes of a sentence, for the same reason: a file
// without blank lines is one sentence.
const maxSentence = 16 << 20

// Reader reads sentences one at a time:
//
//	r := conllu.NewReader(f, "da_ddt-ud-dev.conllu")
//	for r.Scan() {
//		s := r.Sentence()
//		…
//	}
//	if err := r.Err(); err != nil { … }
type Reader struct {
	in   *bufio.Reader
	file string
	line int // number of lines read
	sent Sentence
	err  error
	done bool

	buf  []byte // the text of the sentence that is being read
	ends []int  // end of each of its lines in buf
}

// NewReader returns a reader of r. file is used in errors.
func NewReader(r io.Reader, file string) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 64<<10), file: file}
}

// Scan reads the next sentence. It returns false at the end and after an error.
func (r *Reader) Scan() bool {
	if r.done {
		return false
	}
	first := r.line + 1
	r.buf, r.ends = r.buf[:0], r.ends[:0]
	for {
		start := len(r.buf)
		more, err := r.readLine()
		if err != nil {
			return r.fail(err)
		}
		if !more && len(r.buf) == start {
			r.done = true
			break
		}
		if len(r.buf) == start { // blank line
			if len(r.ends) > 0 {
				break
			}
			first = r.line + 1
			continue
		}
		if len(r.buf) > maxSentence {
			return r.fail(&SyntaxError{r.file, first, fmt.Sprintf("sentence of more than %d bytes: are the blank lines missing?", maxSentence)})
		}
		r.ends = append(r.ends, len(r.buf))
		if !more {
			r.done = true
			break
		}
	}
	if len(r.ends) == 0 {
		return false
	}
	s, err := parse(r.file, first, string(r.buf), r.ends)
	if err != nil {
		return r.fail(err)
	}
	r.sent = s
	return true
}

// Sentence returns the sentence that the last call of Scan read. It is the
// caller's to keep.
func (r *Reader) Sentence() Sentence { return r.sent }

// Err returns the error that ended the reading: a *SyntaxError, or what the
// underlying reader returned.
func (r *Reader) Err() error { return r.err }

func (r *Reader) fail(err error) bool {
	r.err, r.done = err, true
	return false
}

// readLine appends one line, without its end, to r.buf. more is false at the
// end of the file, where a line without an end may have been appended.
func (r *Reader) readLine() (more bool, err error) {
	start := len(r.buf)
	for {
		part, err := r.in.ReadSlice('\n')
		r.buf = append(r.buf, part...)
		if len(r.buf)-start > maxLine {
			return false, &SyntaxError{r.file, r.line + 1, fmt.Sprintf("line of more than %d bytes", maxLine)}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && err != io.EOF {
			return false, fmt.Errorf("%s:%d: %w", r.file, r.line+1, err)
		}
		more = err == nil
		break
	}
	if len(r.buf) == start {
		return more, nil
	}
	r.line++
	if r.line == 1 && bytes.HasPrefix(r.buf[start:], []byte("\ufeff")) {
		r.buf = append(r.buf[:start], r.buf[start+len("\ufeff"):]...)
	}
	if more {
		r.buf = r.buf[:len(r.buf)-1]
	}
	if n := len(r.buf); n > start && r.buf[n-1] == '\r' {
		r.buf = r.buf[:n-1]
	}
	return more, nil
}

// parse reads the lines of one sentence: text up to ends[0], ends[0] to
// ends[1], and so on.
func parse(file string, first int, text string, ends []int) (Sentence, error) {
	s := Sentence{File: file, Line: first, Rows: make([]Row, 0, len(ends))}
	start, words := 0, 0
	var open Row // the last range row
	valid := utf8.ValidString(text)
	for i, end := range ends {
		line, n := text[start:end], first+i
		start = end
		bad := func(format string, a ...any) (Sentence, error) {
			return Sentence{}, &SyntaxError{file, n, fmt.Sprintf(format, a...)}
		}
		if !valid && !utf8.ValidString(line) {
			return bad("not valid UTF-8: save the file as UTF-8")
		}
		if line[0] == '#' {
			if len(s.Rows) > 0 {
				return bad("comment inside a sentence: is the blank line before it missing?")
			}
			s.Comments = append(s.Comments, line)
			continue
		}
		s.Rows = append(s.Rows, Row{Line: n})
		row := &s.Rows[len(s.Rows)-1]
		if msg := row.parse(line); msg != "" {
			return bad("%s", msg)
		}
		switch row.Kind {
		case Word:
			if row.First != words+1 {
				return bad("word number %d after %d", row.First, words)
			}
			words++
		case Range:
			if row.First != words+1 {
				return bad("range %s must stand before its first word; the next word is %d", row.ID(), words+1)
			}
			if row.First <= open.Last {
				return bad("range %s overlaps range %s", row.ID(), open.ID())
			}
			open = *row
		case Empty:
			if row.First != words {
				return bad("empty node %s after word %d", row.ID(), words)
			}
			sub := 1
			if k := len(s.Rows) - 2; k >= 0 && s.Rows[k].Kind == Empty {
				sub = s.Rows[k].Sub + 1
			}
			if row.Sub != sub {
				return bad("empty node %s where %d.%d is next", row.ID(), words, sub)
			}
		}
	}
	last := first + len(ends) - 1
	if words == 0 {
		return Sentence{}, &SyntaxError{file, last, "sentence without words"}
	}
	if open.Last > words {
		return Sentence{}, &SyntaxError{file, open.Line, fmt.Sprintf("range %s goes beyond the last word, %d", open.ID(), words)}
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.Head > words || r.Kind == Word && r.Head == r.First {
			return Sentence{}, &SyntaxError{file, r.Line, fmt.Sprintf("word %s has head %d; the sentence has %d words", r.ID(), r.Head, words)}
		}
	}
	return s, nil
}

// parse fills in the columns of a row. msg says what is wrong, if anything.
func (r *Row) parse(line string) (msg string) {
	var cols [10]string
	rest := line
	for i := range cols {
		end := strings.IndexByte(rest, '\t')
		if (end >= 0) != (i < len(cols)-1) {
			n := strings.Count(line, "\t") + 1
			if n == 1 && strings.Contains(line, " ") {
				return "1 column instead of 10: columns must be separated by tabs"
			}
			return fmt.Sprintf("%d columns instead of 10", n)
		}
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return fmt.Sprintf("column %d is empty: write _", i+1)
		}
		cols[i] = rest[:end]
		rest = rest[min(end+1, len(rest)):]
	}
	r.Form, r.Lemma, r.UPOS, r.XPOS, r.Feats = cols[1], cols[2], cols[3], cols[4], cols[5]
	r.Head, r.DepRel, r.Deps, r.Misc = NoHead, cols[7], cols[8], cols[9]
	ok := false
	if r.First, ok = number(cols[0]); ok {
		r.Last = r.First
	} else if a, b, isRange := strings.Cut(cols[0], "-"); isRange {
		r.Kind = Range
		var okA, okB bool
		r.First, okA = number(a)
		r.Last, okB = number(b)
		ok = okA && okB && r.First > 0 && r.Last > r.First
	} else if a, b, isEmpty := strings.Cut(cols[0], "."); isEmpty {
		r.Kind = Empty
		var okA, okB bool
		r.First, okA = number(a)
		r.Sub, okB = number(b)
		r.Last = r.First
		ok = okA && okB && r.Sub > 0
	}
	if !ok {
		return fmt.Sprintf("%q is no word number, range (7-8) or empty node (7.1)", cols[0])
	}
	if cols[6] != "_" {
		if r.Head, ok = number(cols[6]); !ok {
			return fmt.Sprintf("head %q is no number", cols[6])
		}
		if r.Kind != Word {
			return fmt.Sprintf("row %s is no word, its head must be _", cols[0])
		}
	}
	return ""
}

// number reads a decimal number without sign or leading zeros.
func number(s string) (int, bool) {
	if len(s) > 9 || s == "" || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, true
}

// ReadAll reads all sentences of r. On an error it returns none.
func ReadAll(r io.Reader, file string) ([]Sentence, error) {
	var all []Sentence
	in := NewReader(r, file)
	for in.Scan() {
		all = append(all, in.Sentence())
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return all, nil
}
