package published

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// maxRows and maxBytes bound what is read into memory of one column: a few bytes
// of Parquet can stand for any number of equal texts.
const (
	maxRows  = 5_000_000
	maxBytes = 1 << 30
)

// column is a column of a table: for each row its values, more than one in
// lists. A list of structs and a struct of lists look the same: they are columns
// with a dot in their name, such as answers.text.
type column struct {
	name string
	list bool
	// rows[i] are the values of row i; nil: null.
	rows [][]string
	// ints is rows of numbers, in which case rows is nil.
	ints [][]int64
	// bytes is about the memory that the values take.
	bytes int64
}

// table is what a Parquet file holds.
type table struct {
	n       int // rows
	columns []column
	classes map[string][]string // names of the classes of columns that number them
}

func (t *table) column(name string) *column {
	for i := range t.columns {
		if t.columns[i].name == name {
			return &t.columns[i]
		}
	}
	return nil
}

// names lists the columns, in file order.
func (t *table) names() []string {
	var out []string
	for _, c := range t.columns {
		out = append(out, c.name)
	}
	return out
}

// readParquet reads the columns of a file that want names; others are skipped,
// whatever is in them, but listed without rows.
func readParquet(path string, want func(column string) bool) (t *table, err error) {
	// The reader is made for files of one's own; what the Hub serves may be
	// anything.
	defer func() {
		if r := recover(); r != nil {
			t, err = nil, fmt.Errorf("no readable Parquet: %v", r)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkFooter(f, st.Size()); err != nil {
		return nil, fmt.Errorf("no readable Parquet: %w", err)
	}
	p, err := parquet.OpenFile(f, st.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, fmt.Errorf("no readable Parquet: %w", err)
	}
	if p.NumRows() > maxRows {
		return nil, fmt.Errorf("%d rows; this bench reads at most %d", p.NumRows(), maxRows)
	}
	t = &table{n: int(p.NumRows()), classes: classNames(p)}
	for _, leaf := range p.Schema().Columns() {
		l, ok := p.Schema().Lookup(leaf...)
		if !ok {
			continue
		}
		c := column{name: columnName(leaf), list: l.MaxRepetitionLevel > 0}
		if want(c.name) {
			if l.MaxRepetitionLevel > 1 {
				return nil, fmt.Errorf("column %s: lists of lists cannot be read", c.name)
			}
			if err := readColumn(p, l, &c); err != nil {
				return nil, fmt.Errorf("column %s: %w", c.name, err)
			}
		}
		t.columns = append(t.columns, c)
	}
	return t, nil
}

// checkFooter looks whether the last bytes of a file are the length of a footer
// that fits into it, and PAR1: the reader would make room for any length.
func checkFooter(f io.ReaderAt, size int64) error {
	var end [8]byte
	if size < 12 {
		return fmt.Errorf("the file has %d bytes", size)
	}
	if _, err := f.ReadAt(end[:], size-8); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(end[:4]))
	if string(end[4:]) != "PAR1" || n > size-12 {
		return errors.New("the end of the file is not that of a Parquet file: it is truncated or something else")
	}
	return nil
}

// columnName joins a path without the levels that Parquet puts into lists.
func columnName(path []string) string {
	var parts []string
	for i, p := range path {
		if i > 0 && slices.Contains([]string{"list", "element", "item", "array", "bag", "array_element"}, p) {
			continue
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, ".")
}

func readColumn(p *parquet.File, l parquet.LeafColumn, c *column) error {
	var text bool
	switch kind := l.Node.Type().Kind(); kind {
	case parquet.ByteArray:
		text = true
	case parquet.Int32, parquet.Int64:
	default:
		return fmt.Errorf("values of type %v are neither text nor whole numbers", l.Node.Type())
	}
	for _, g := range p.RowGroups() {
		pages := g.ColumnChunks()[l.ColumnIndex].Pages()
		err := readPages(pages, l, text, int(p.NumRows()), c)
		if err := errors.Join(err, pages.Close()); err != nil {
			return err
		}
	}
	if n := max(len(c.rows), len(c.ints)); n != int(p.NumRows()) {
		return fmt.Errorf("%d rows, the file says %d", n, p.NumRows())
	}
	return nil
}

func readPages(pages parquet.Pages, l parquet.LeafColumn, text bool, rows int, c *column) error {
	// Below the full level the value is null, or the list is empty; a null in a
	// list is just below it.
	null := -1
	if c.list && l.Node.Optional() {
		null = l.MaxDefinitionLevel - 1
	}
	buf := make([]parquet.Value, 1024)
	for n := 0; ; n++ {
		if n > rows+1000 {
			return errors.New("far more pages than rows")
		}
		page, err := pages.ReadPage()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		values := page.Values()
		for {
			n, err := values.ReadValues(buf)
			if max(len(c.rows), len(c.ints)) > rows {
				return fmt.Errorf("more than the %d rows that the file says it has", rows)
			}
			if n == 0 && err == nil {
				return io.ErrNoProgress
			}
			if c.bytes > maxBytes {
				return fmt.Errorf("more than %d MiB of values", maxBytes>>20)
			}
			for _, v := range buf[:n] {
				c.bytes += 16
				if v.RepetitionLevel() == 0 {
					if text {
						c.rows = append(c.rows, nil)
					} else {
						c.ints = append(c.ints, nil)
					}
				}
				switch {
				case v.DefinitionLevel() == null:
					return errors.New("a list with a null in it")
				case v.DefinitionLevel() < l.MaxDefinitionLevel:
				case text && len(c.rows) > 0:
					last := &c.rows[len(c.rows)-1]
					*last = append(*last, string(v.ByteArray()))
					c.bytes += int64(len(v.ByteArray()))
				case !text && len(c.ints) > 0:
					last := &c.ints[len(c.ints)-1]
					*last = append(*last, integer(v))
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				parquet.Release(page)
				return err
			}
		}
		parquet.Release(page)
	}
}

func integer(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

// classNames reads what the library of the Hub keeps in the file's metadata of
// columns whose values are numbers of classes:
//
//	{"info": {"features": {"label": {"names": ["negative", …], "_type": "ClassLabel"}}}}
//
// In lists the feature is wrapped as {"feature": …, "_type": "Sequence"} or "List".
func classNames(p *parquet.File) map[string][]string {
	out := map[string][]string{}
	text, ok := p.Lookup("huggingface")
	if !ok {
		return out
	}
	type feature struct {
		Names   []string        `json:"names"`
		Feature json.RawMessage `json:"feature"`
	}
	var h struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(text), &h) != nil {
		return out
	}
	for name, raw := range h.Info.Features {
		for range 3 {
			var f feature
			if json.Unmarshal(raw, &f) != nil {
				break
			}
			if f.Names != nil {
				out[name] = f.Names
				break
			}
			if raw = f.Feature; raw == nil {
				break
			}
		}
	}
	return out
}

// text returns the one value of row i, and whether it is there.
func (c *column) text(i int) (string, bool) {
	if c == nil {
		return "", false
	}
	if c.rows == nil {
		if len(c.ints[i]) == 0 {
			return "", false
		}
		return fmt.Sprint(c.ints[i][0]), true
	}
	if len(c.rows[i]) == 0 {
		return "", false
	}
	return c.rows[i][0], true
}

// named returns the values of row i, with names for the numbers of classes.
func (t *table) named(c *column, i int) ([]string, error) {
	if c.ints == nil {
		return c.rows[i], nil
	}
	names := t.classes[c.name]
	if names == nil {
		return nil, fmt.Errorf("column %s holds numbers, and the file does not say which classes they are", c.name)
	}
	var out []string
	for _, k := range c.ints[i] {
		if k < 0 || k >= int64(len(names)) {
			return nil, fmt.Errorf("column %s: there is no class %d of %d", c.name, k, len(names))
		}
		out = append(out, names[k])
	}
	return out, nil
}
