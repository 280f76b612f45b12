package transfer_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bench/scoring/transfer"
)

func golden(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "golden", "transfer", name))
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "shared") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return b
}

// TestPaper: all 26 values of the paper's Table 2, from its appendix A.
func TestPaper(t *testing.T) {
	table, err := transfer.Read(bytes.NewReader(golden(t, "appendix-a.csv")), "appendix-a.csv")
	if err != nil {
		t.Fatal(err)
	}
	groups, undefined := table.Groups()
	if len(groups) != 26 || len(undefined) != 0 {
		t.Fatalf("%d groups, %v", len(groups), undefined)
	}
	want := map[string]string{}
	lines, err := csv.NewReader(bytes.NewReader(golden(t, "table-2.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[1:] {
		want[l[0]] = l[1]
	}
	for _, g := range groups {
		if got := strconv.FormatFloat(g.F, 'f', 2, 64); got != want[g.Name()] {
			t.Errorf("%s: %s, want %s", g.Name(), got, want[g.Name()])
		}
	}
	if best := transfer.Best(groups); best.Name() != "da+no+sv" {
		t.Errorf("best group %s", best.Name())
	}
}

// By hand: parts {3, 5} and {0, 2}, means 4 and 1, SS_between 9, SS_within 4,
// F = 9 / (4/2) = 4.5; with 1 and 2 degrees of freedom p is 1 − √(F/(F+2)).
func TestByHand(t *testing.T) {
	table := &transfer.Table{Models: []string{"a", "b", "c", "d"}, Columns: []string{"a", "b"}, Scores: [][]float64{{3, 0}, {5, 0}, {0, 1}, {2, 1}}}
	c, err := table.F([]string{"a", "b"}, 0)
	if err != nil || math.Abs(c.F-4.5) > 1e-12 || math.Abs(c.P-(1-math.Sqrt(4.5/6.5))) > 1e-12 || c.Inside != 4 || c.Outside != 1 {
		t.Errorf("%+v %v", c, err)
	}
	groups, undefined := table.Groups()
	if len(groups) != 0 || len(undefined) != 1 || !errors.As(undefined[0], new(*transfer.UndefinedError)) {
		t.Errorf("column b has no spread within its parts: %v %v", groups, undefined)
	}
}

// TestInvariant: F does not change when all scores are shifted and scaled, nor
// with the order of the models.
func TestInvariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models := []string{"da", "no", "sv", "is", "de", "en"}
		table := &transfer.Table{Columns: []string{"da", "no", "sv"}}
		other := &transfer.Table{Columns: table.Columns}
		scale, shift := rapid.Float64Range(.5, 2).Draw(t, "scale"), rapid.Float64Range(-10, 10).Draw(t, "shift")
		scores := map[string][]float64{}
		for _, m := range models {
			scores[m] = rapid.SliceOfN(rapid.Float64Range(0, 100), 3, 3).Draw(t, m)
			table.Models, table.Scores = append(table.Models, m), append(table.Scores, scores[m])
		}
		for _, m := range rapid.Permutation(models).Draw(t, "order") {
			row := slices.Clone(scores[m])
			for i := range row {
				row[i] = row[i]*scale + shift
			}
			other.Models, other.Scores = append(other.Models, m), append(other.Scores, row)
		}
		a, errA := table.F([]string{"da", "no"}, 0)
		b, errB := other.F([]string{"da", "no"}, 0)
		if errA != nil || errB != nil {
			t.Skip()
		}
		if a.F < 0 || a.P < 0 || a.P > 1 || math.Abs(a.F-b.F) > 1e-6*max(1, a.F) {
			t.Fatalf("%v %v", a, b)
		}
	})
}

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "a line with the languages",
		"model_language,da\n":           "a line with the languages",
		"m,da,no\nda,1\n":               "wrong number of fields",
		"m,da,no\nda,1,x\nno,NaN,2\n":   `f.csv:2: "x" in column no is not a score`,
		"m,da,da\nda,1,2\n":             "column da is there twice",
		"m,da,no\nda,1,2\nda,3,4\n":     `f.csv:3: a second model for "da"`,
		"m,da,no\nda,1,2\nno,3,4\n\n\n": "",
	} {
		_, err := transfer.Read(strings.NewReader(text), "f.csv")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
