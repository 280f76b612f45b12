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
	"time"

	"bench/scoring"
	"bench/scoring/leaderboard"
	"bench/scoring/transfer"
)

func board(sets ...string) *leaderboard.Board {
	b := &leaderboard.Board{Score: leaderboard.ScoreMean, Languages: []leaderboard.Language{{Code: "da", Name: "Danish"}, {Code: "sv", Name: "Swedish"}}, Tasks: []leaderboard.TaskInfo{{Name: "ner", Metrics: []leaderboard.Metric{{Name: "micro_f1", Scale: 100}}}}}
	for _, s := range sets {
		b.Datasets = append(b.Datasets, leaderboard.DatasetInfo{Name: s, Task: "ner", Ranked: true})
	}
	for i, name := range []string{"org/first", "org/second", "org/third"} {
		x := 80 - 10*float64(i)
		row := leaderboard.Row{Model: name, Overall: leaderboard.Agg{Value: scoring.Num(x), HalfWidth: scoring.Num(1)}, Datasets: map[string]leaderboard.Cell{}}
		for _, s := range sets {
			row.Datasets[s] = leaderboard.Cell{
				Seeds: []int{1, 2, 3, 4}, Collapsed: []int{1}[:1-min(i, 1)],
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
	if !bytes.Contains(seeds, []byte("dane (micro-F1): every seed")) || !bytes.Contains(overall, []byte("Score on ner in Danish and Swedish: mean")) {
		t.Error("it is not said what is drawn")
	}
	if n := bytes.Count(seeds, []byte("#C2410C")); n == 0 || bytes.Contains(overall, []byte("#C2410C")) {
		t.Errorf("the collapsed seed is drawn %d times in its colour", n)
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

func TestTransfer(t *testing.T) {
	groups := []transfer.Group{{Languages: []string{"da", "no"}, F: 16.81}, {Languages: []string{"is", "fo"}, F: 21.84}}
	var out bytes.Buffer
	if err := Transfer(&out, "svg", groups); err != nil {
		t.Fatal(err)
	}
	if shapes(t, out.Bytes())["path"] < 2 || !bytes.Contains(out.Bytes(), []byte("is+fo")) {
		t.Errorf("%s", out.Bytes())
	}
	if err := Transfer(io.Discard, "svg", nil); err == nil {
		t.Error("nothing was drawn")
	}
}

func TestFormats(t *testing.T) {
	picture, err := png.Decode(bytes.NewReader(drawn(t, "png", board("dane"), 30)))
	if err != nil || picture.Bounds().Dx() != 2008 { // 17 cm of 300 dots an inch
		t.Errorf("%v wide, %v", picture.Bounds(), err)
	}
	for _, format := range Formats {
		first := drawn(t, format, board("dane", "suc3"), 30)
		if format == "pdf" {
			time.Sleep(1100 * time.Millisecond) // the date that is not kept counts seconds
		}
		if !bytes.Equal(first, drawn(t, format, board("dane", "suc3"), 30)) {
			t.Errorf("two drawings as %s differ", format)
		}
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
