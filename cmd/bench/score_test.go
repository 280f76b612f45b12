package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/datasets"
)

// TestScoreSamples: with the rules of scandeval-v7 a run with seed 4242 + i on
// 2,048 questions is scored on as many as the reference system's results of 2023
// show: every exact match is k of 1291, 1290, … (facts/scandeval.md §0.1).
func TestScoreSamples(t *testing.T) {
	want := []float64{1291, 1290, 1294, 1284, 1295, 1297, 1317, 1289, 1275, 1288}
	p := newCLI(t)
	rows := map[datasets.Split][]datasets.Row{}
	var right strings.Builder
	for i := range 2048 {
		id := fmt.Sprintf("t%d", i)
		answers := &datasets.Answers{Text: []string{"Oslo"}, Start: []int{2}}
		rows[datasets.Test] = append(rows[datasets.Test], datasets.Row{ID: id, Question: "Hvor?", Context: "I Oslo.", Answers: answers})
		fmt.Fprintf(&right, "{\"id\":%q,\"text\":%q}\n", id, []string{"Oslo", "Bergen"}[i%2])
	}
	rows[datasets.Train], rows[datasets.Val] = []datasets.Row{{ID: "a", Question: "Hvor?", Context: "I Oslo.", Answers: &datasets.Answers{Text: []string{"Oslo"}, Start: []int{2}}}}, nil
	meta := datasets.Meta{Name: "questions", Kind: datasets.QA, Languages: []string{"nb"}}
	if _, err := datasets.Write(filepath.Join(p.home, "datasets", "questions"), meta, rows); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.jsonl")
	if err := os.WriteFile(file, []byte(right.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"score"}
	for range want {
		args = append(args, file)
	}
	args = append(args, "--dataset", "questions", "--on-seed", "4242", "--json")
	type line struct {
		rows, distinct, em float64
	}
	read := func(args ...string) (out []line) {
		for _, l := range jsonLines(t, p.run(0, args...).stdout) {
			if l["file"] == nil {
				continue
			}
			em := l["metrics"].(map[string]any)["em"].(map[string]any)
			out = append(out, line{l["rows"].(float64), l["distinct"].(float64), em["score"].(float64) / 100})
		}
		return out
	}
	plain, collapsed := read(args...), read(append(args, "--protocol", "scandeval-v7")...)
	for i, n := range want {
		if c := collapsed[i]; c.distinct != n || !whole(c.em*n) || c.rows != 2048 {
			t.Errorf("seed %d: exact match %v of %v questions, want a share of %v", 4242+i, c.em, c.distinct, n)
		}
		if !whole(plain[i].em * 2048) {
			t.Errorf("seed %d: exact match %v is no share of 2048", 4242+i, plain[i].em)
		}
	}
}

func whole(x float64) bool { return x-float64(int(x+.5)) < 1e-9 && float64(int(x+.5))-x < 1e-9 }
