// Package raw reads the file formats that corpora come in: CSV and TSV, JSON
// lines, JSON arrays, columns (CoNLL-2003, IOB2), and SQuAD. It knows files and
// records, not what they mean. Treebanks have a package of their own, conllu.
//
// What a file gets wrong is a *SyntaxError with file and line.
package raw

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// SyntaxError says where a file is not of its format.
type SyntaxError struct {
	File string
	Line int // 1-based; 0 if the error is in no particular line
	Msg  string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// Hint says what a person can do.
func (e *SyntaxError) Hint() string {
	return "get " + e.File + " again if it was copied or edited, else correct it, and run the command again"
}

// maxLine bounds the length of a line of a table, of JSON lines and of columns, in
// bytes. The longest of the corpora are far below it: a longer line is a file
// whose line ends were lost.
const maxLine = 16 << 20

// checkLines looks for bytes that are no UTF-8 and for endless lines.
func checkLines(b []byte, file string) error {
	for rest, n := b, 1; len(rest) > maxLine; n++ {
		end := bytes.IndexByte(rest, '\n')
		if end > maxLine || end < 0 {
			return Errorf(file, n, "line of more than %d bytes: were the line ends lost?", maxLine)
		}
		rest = rest[end+1:]
	}
	return checkUTF8(b, file)
}

// Errorf returns a *SyntaxError.
func Errorf(file string, line int, format string, a ...any) error {
	return &SyntaxError{file, line, fmt.Sprintf(format, a...)}
}

// Table is a CSV or TSV file with a header.
type Table struct {
	File    string
	Columns []string
	Rows    []TableRow
}

// TableRow is one record; Values has as many entries as the table has columns.
type TableRow struct {
	Line   int // where the record begins
	Values []string
}

// Column returns the position of a column, or an error that lists those there
// are.
func (t *Table) Column(name string) (int, error) {
	for i, c := range t.Columns {
		if c == name {
			return i, nil
		}
	}
	return 0, Errorf(t.File, 1, "no column %q; there are: %s", name, strings.Join(t.Columns, ", "))
}

// ReadTable reads a table whose first record names the columns. Fields may be
// quoted as in RFC 4180, and then hold line ends. Records of another length
// than the header's, doubled column names and text that is not UTF-8 are
// errors; a byte order mark is skipped.
func ReadTable(b []byte, file string, comma rune) (*Table, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if err := checkLines(b, file); err != nil {
		return nil, err
	}
	r := csv.NewReader(bytes.NewReader(b))
	r.Comma = comma
	t := &Table{File: file}
	for {
		values, err := r.Read()
		if err == io.EOF {
			break
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			if errors.Is(bad.Err, csv.ErrFieldCount) {
				return nil, Errorf(file, bad.StartLine, "%d fields, the header has %d", len(values), len(t.Columns))
			}
			return nil, Errorf(file, bad.Line, "%v", bad.Err)
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		if t.Columns == nil {
			t.Columns = values
			for i, c := range values {
				for _, other := range values[:i] {
					if c == other {
						return nil, Errorf(file, line, "column %q is there twice", c)
					}
				}
			}
			continue
		}
		t.Rows = append(t.Rows, TableRow{line, values})
	}
	if t.Columns == nil {
		return nil, Errorf(file, 0, "the file is empty: not even a header")
	}
	return t, nil
}

func checkUTF8(b []byte, file string) error {
	if utf8.Valid(b) {
		return nil
	}
	at := 0
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return Errorf(file, lineAt(b, at), "not valid UTF-8: save the file as UTF-8")
}

// lineAt returns the 1-based line of an offset.
func lineAt(b []byte, offset int) int {
	return 1 + bytes.Count(b[:min(max(offset, 0), len(b))], []byte("\n"))
}

// Line is one line of a JSON lines file.
type Line struct {
	Number int // 1-based
	JSON   []byte
}

// ReadLines splits a JSON lines file. Blank lines are skipped; the last line
// may lack its end. The content of the lines is not looked at.
func ReadLines(b []byte, file string) ([]Line, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if err := checkLines(b, file); err != nil {
		return nil, err
	}
	var lines []Line
	n := 0
	for line := range bytes.Lines(b) {
		n++
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, Line{n, line})
		}
	}
	return lines, nil
}

// Decode decodes one line into v, a pointer to a struct. Fields that v does not
// have are an error if strict.
func (l Line) Decode(file string, v any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(l.JSON))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		return Errorf(file, l.Number, "%s", jsonMessage(err))
	}
	if len(bytes.TrimSpace(l.JSON[d.InputOffset():])) > 0 {
		return Errorf(file, l.Number, "there is more after the end of the JSON value")
	}
	return nil
}

// ReadArray decodes a file that is one JSON array of objects. Fields that T
// does not have are an error. lines[i] is where element i begins.
func ReadArray[T any](b []byte, file string) (elements []T, lines []int, err error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if err := checkUTF8(b, file); err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	bad := func(err error) ([]T, []int, error) {
		return nil, nil, Errorf(file, lineAt(b, offsetOf(err, d, len(b))), "%s", jsonMessage(err))
	}
	if open, err := d.Token(); err != nil {
		return bad(err)
	} else if open != json.Delim('[') {
		return nil, nil, Errorf(file, 1, "a JSON array is wanted, the file begins with %v", open)
	}
	for d.More() {
		lines = append(lines, lineAt(b, nextValue(b, int(d.InputOffset()))))
		var v T
		if err := d.Decode(&v); err != nil {
			return bad(err)
		}
		elements = append(elements, v)
	}
	if _, err := d.Token(); err != nil {
		return bad(err)
	}
	if rest := bytes.TrimSpace(b[d.InputOffset():]); len(rest) > 0 {
		return nil, nil, Errorf(file, lineAt(b, int(d.InputOffset())), "there is more after the end of the array")
	}
	return elements, lines, nil
}

// nextValue skips what stands between two elements of an array.
func nextValue(b []byte, offset int) int {
	for offset < len(b) && strings.IndexByte(" \t\r\n,:", b[offset]) >= 0 {
		offset++
	}
	return offset
}

func offsetOf(err error, d *json.Decoder, size int) int {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return int(syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return size
	}
	return int(d.InputOffset())
}

// jsonMessage words an error of encoding/json for the owner of a file.
func jsonMessage(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return fmt.Sprintf("field %q holds a JSON %s where a %s is wanted", kind.Field, kind.Value, kind.Type)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the file ends in the middle of a JSON value: it is truncated"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
