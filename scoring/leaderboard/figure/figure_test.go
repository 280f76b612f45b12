package figure

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/scoring"
	"bench/scoring/leaderboard"
)

func board(sets ...string) *leaderboard.Board {
	b := &leaderboard.Board{Score: leaderboard.ScoreMean, Tasks: []leaderboard.TaskInfo{{Name: "ner", Metrics: []leaderboard.Metric{{Name: "micro_f1", Scale: 100}}}}}
	for _, s := range sets {
		b.Datasets = append(b.Datasets, leaderboard.DatasetInfo{Name: s, Task: "ner", Ranked: true})
	}
	for i, name := range []string{"org/first", "org/second", "org/third"} {
		x := 80 - 10*float64(i)
		row := leaderboard.Row{Model: name, Overall: leaderboard.Agg{Value: scoring.Num(x), HalfWidth: scoring.Num(1)}, Datasets: map[string]leaderboard.Cell{}}
		for _, s := range sets {
			row.Datasets[s] = leaderboard.Cell{
				Metrics: map[string]leaderboard.CellMetric{"micro_f1": {N: 3, Mean: scoring.Num(x), HalfWidthT: scoring.Num(2)}},
				Scores:  map[string][]scoring.Value{"micro_f1": {scoring.Num(x - 1), scoring.Num(x), scoring.Num(x + 1), {Undefined: "why"}}},
			}
		}
		b.Models = append(b.Models, row)
	}
	return b
}

// shapes counts the elements of an SVG.
func shapes(t *testing.T, text []byte) map[string]int {
	t.Helper()
	out := map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			out[e.Name.Local]++
		}
	}
}

func drawn(t *testing.T, format string, b *leaderboard.Board, top int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, format, b, top); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("BENCH_TEST_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, t.Name()+"."+format), out.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// Of several data sets there is a mean for each model, of one also its seeds.
func TestFigures(t *testing.T) {
	overall, seeds := drawn(t, "svg", board("dane", "suc3"), 30), drawn(t, "svg", board("dane"), 30)
	for _, svg := range [][]byte{overall, seeds} {
		for _, name := range []string{"org/first", "org/second", "org/third"} {
			if !bytes.Contains(svg, []byte(name)) {
				t.Errorf("%s is missing", name)
			}
		}
	}
	if !bytes.Contains(seeds, []byte("dane, micro_f1")) {
		t.Error("the data set is not named")
	}
	if more := shapes(t, seeds)["path"] - shapes(t, overall)["path"]; more < 9 {
		t.Errorf("with seeds there are %d paths more, want 9 or more", more)
	}
	if two := drawn(t, "svg", board("dane", "suc3"), 2); bytes.Contains(two, []byte("org/third")) {
		t.Error("three models of two")
	}
	if again := drawn(t, "svg", board("dane"), 30); !bytes.Equal(again, seeds) {
		t.Error("two drawings of one board differ")
	}
}

func TestFormats(t *testing.T) {
	if _, err := png.Decode(bytes.NewReader(drawn(t, "png", board("dane"), 30))); err != nil {
		t.Error(err)
	}
	if pdf := drawn(t, "pdf", board("dane"), 30); !bytes.HasPrefix(pdf, []byte("%PDF-")) {
		t.Errorf("%.20q is no PDF", pdf)
	}
	if f, err := Format("a/b.SVG"); f != "svg" || err != nil {
		t.Errorf("%s, %v", f, err)
	}
	if _, err := Format("scores.jpeg"); err == nil || !strings.Contains(err.Error(), ".svg, .pdf, .png, .eps") {
		t.Errorf("%v", err)
	}
	if err := Write(io.Discard, "svg", &leaderboard.Board{}, 30); err == nil {
		t.Error("an empty board was drawn")
	}
}
