package scandiqa

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"
)

// maxLine bounds a line of a source. The longest pages of Natural Questions,
// with their tokens, stay below a quarter of it.
const maxLine = 64 << 20

// lines reads a file line by line, unpacking it if it is gzip, and hashes its
// bytes as they pass. Memory is bounded by the longest line.
type lines struct {
	name  string
	line  int // of the last call of next, 1-based
	file  *os.File
	sum   *hashReader
	in    *bufio.Reader
	buf   []byte
	limit int
}

type hashReader struct {
	r io.Reader
	h interface {
		io.Writer
		Sum([]byte) []byte
	}
}

func (r *hashReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.h.Write(p[:n])
	return n, err
}

// openLines opens a file. It is a *Error of kind NoSource if there is none.
func openLines(path string) (*lines, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Kind: NoSource, Where: path, Detail: "there is no such file", Advice: "check the path", Err: err}
	}
	if err != nil {
		return nil, err
	}
	l := &lines{name: path, file: f, sum: &hashReader{f, sha256.New()}, limit: maxLine}
	raw := bufio.NewReaderSize(l.sum, 1<<18)
	l.in = raw
	if magic, _ := raw.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(raw)
		if err != nil {
			f.Close()
			return nil, l.bad("no gzip file: %v", err)
		}
		l.in = bufio.NewReaderSize(z, 1<<18)
	}
	return l, nil
}

func (l *lines) Close() error { return l.file.Close() }

// next returns the next line without its end. It is valid until the next call.
// The error is io.EOF at the end.
func (l *lines) next() ([]byte, error) {
	l.buf = l.buf[:0]
	l.line++
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.buf)+len(part) > l.limit {
			return nil, l.bad("the line is longer than %d bytes", l.limit)
		}
		l.buf = append(l.buf, part...)
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(l.buf) == 0:
			return nil, io.EOF
		case err == nil || err == io.EOF:
			return bytes.TrimRight(l.buf, "\r\n"), nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, l.bad("the file ends too early: it was not downloaded to its end")
		default:
			return nil, l.bad("%v", err)
		}
	}
}

// sha256 returns the digest of the file after next returned io.EOF.
func (l *lines) sha256() (string, error) {
	if _, err := io.Copy(io.Discard, l.sum); err != nil { // padding after the gzip stream
		return "", err
	}
	return hex.EncodeToString(l.sum.h.Sum(nil)), nil
}

// bad returns an error about the current line.
func (l *lines) bad(format string, args ...any) error {
	return &Error{Kind: BadSource, Where: fmt.Sprintf("%s:%d", l.name, max(1, l.line)), Detail: fmt.Sprintf(format, args...)}
}
