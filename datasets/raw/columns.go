package raw

import (
	"bytes"
	"strings"
)

// Block is a sentence of a column file: a row for each word.
type Block struct {
	Line     int // where it begins
	Comments []string
	Rows     []BlockRow
}

// BlockRow is one row.
type BlockRow struct {
	Line   int
	Fields []string
}

// ReadColumns reads a file in one of the formats of the CoNLL shared tasks: a
// word a line, fields between tabs, or between blanks where a line has no tab,
// and an empty line after each sentence. Lines "# …" in front of a sentence are
// comments; "#" alone is a word where the number of fields says so, and the rows
// have no tabs. Lines -DOCSTART- are
// skipped. All rows must have as many fields as the first.
func ReadColumns(b []byte, file string) ([]Block, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if err := checkLines(b, file); err != nil {
		return nil, err
	}
	var blocks []Block
	var current Block
	n, width := 0, 0
	tabs := false // the rows have tabs between their fields
	flush := func() error {
		if len(current.Rows) > 0 {
			blocks = append(blocks, current)
		} else if len(current.Comments) > 0 {
			return Errorf(file, current.Line, "comments without a sentence")
		}
		current = Block{}
		return nil
	}
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			if err := flush(); err != nil {
				return nil, err
			}
			continue
		}
		if current.Line == 0 {
			current.Line = n
		}
		if strings.HasPrefix(line, "# ") && !strings.Contains(line, "\t") && len(current.Rows) == 0 &&
			(width == 0 || tabs || len(strings.Fields(line)) != width) {
			current.Comments = append(current.Comments, line)
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) == 1 {
			fields = strings.Fields(line)
		}
		if fields[0] == "-DOCSTART-" {
			current.Line = 0
			continue
		}
		if width == 0 {
			width, tabs = len(fields), strings.Contains(line, "\t")
		}
		if len(fields) != width {
			return nil, Errorf(file, n, "%d columns, the rows before have %d", len(fields), width)
		}
		current.Rows = append(current.Rows, BlockRow{n, fields})
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return blocks, nil
}
