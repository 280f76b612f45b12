package job

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// MaxPredictionLine bounds one line of a predictions file: what a trainer
// writes is not trusted.
const MaxPredictionLine = 1 << 20

// AlignError says that the ids of predictions are not exactly those of the
// test split. Each list holds at most ten ids; the counts are whole.
type AlignError struct {
	Missing, Extra, Doubled    []string
	NMissing, NExtra, NDoubled int
}

func (e *AlignError) Error() string {
	var parts []string
	part := func(what string, n int, ids []string) {
		if n == 0 {
			return
		}
		s := fmt.Sprintf("%d %s (%s", n, what, strings.Join(ids, ", "))
		if n > len(ids) {
			s += ", …"
		}
		parts = append(parts, s+")")
	}
	part("missing", e.NMissing, e.Missing)
	part("extra", e.NExtra, e.Extra)
	part("doubled", e.NDoubled, e.Doubled)
	return "predictions do not match the test rows: " + strings.Join(parts, ", ")
}

// ReadPredictions reads one JSON object a line and returns the lines in the
// order of ids. The ids must be exactly those of the test split, each once;
// else the error is an *AlignError. Lines that are no JSON object with a
// string "id", and lines beyond MaxPredictionLine, are errors with their number.
func ReadPredictions(r io.Reader, name string, ids []string) ([]json.RawMessage, error) {
	place := make(map[string]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	out := make([]json.RawMessage, len(ids))
	var bad AlignError
	note := func(list *[]string, n *int, id string) {
		*n++
		if len(*list) < 10 {
			*list = append(*list, id)
		}
	}
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 4<<10), MaxPredictionLine)
	n := 0
	for in.Scan() {
		n++
		var row struct {
			ID *string `json:"id"`
		}
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("%s:%d: not a JSON object: %w", name, n, err)
		}
		if row.ID == nil {
			return nil, fmt.Errorf("%s:%d: no \"id\"", name, n)
		}
		i, ok := place[*row.ID]
		switch {
		case !ok:
			note(&bad.Extra, &bad.NExtra, *row.ID)
		case out[i] != nil:
			note(&bad.Doubled, &bad.NDoubled, *row.ID)
		default:
			out[i] = bytes.Clone(in.Bytes())
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("%s:%d: line longer than %d bytes", name, n+1, MaxPredictionLine)
	}
	if in.Err() != nil {
		return nil, fmt.Errorf("%s: %w", name, in.Err())
	}
	for i, line := range out {
		if line == nil {
			note(&bad.Missing, &bad.NMissing, ids[i])
		}
	}
	if bad.NMissing+bad.NExtra+bad.NDoubled > 0 {
		slices.Sort(bad.Extra)
		return nil, fmt.Errorf("%s: %w", name, &bad)
	}
	return out, nil
}

// compress writes lines in the form in which finished jobs keep them: JSON
// lines in one zstd frame. Equal lines give equal bytes.
func compress(w io.Writer, lines []json.RawMessage) error {
	z := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(z)
	z.Reset(w)
	for _, l := range lines {
		if _, err := z.Write(l); err != nil {
			return err
		}
		if _, err := z.Write(newline); err != nil {
			return err
		}
	}
	return z.Close()
}

var newline = []byte("\n")

// encoders are kept, since making one costs more than compressing a small file.
var encoders = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		panic(err) // the options are constants
	}
	return z
}}
