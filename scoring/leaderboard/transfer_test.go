package leaderboard_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"bench/scoring/leaderboard"
	"bench/scoring/results"
	"bench/scoring/transfer"
)

// The paper's models have the scores of its table, but for the one row that is a
// mixture (see transfer.Paper), and give its F-statistics with that row as printed.
func TestPaperTransfer(t *testing.T) {
	models := transfer.Paper()
	b := build(t, paper(t), leaderboard.Options{Columns: slices.Concat(leaderboard.Mainland(), leaderboard.Insular())})
	got, missing := b.TransferOf(models).Table()
	if len(missing) > 0 {
		t.Fatalf("missing: %v", missing)
	}
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "golden", "transfer", "appendix-a.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	printed, err := transfer.Read(f, "appendix-a.csv")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Models, printed.Models) || !slices.Equal(got.Columns, printed.Columns) {
		t.Fatalf("models for %v in %v; printed are %v in %v", got.Models, got.Columns, printed.Models, printed.Columns)
	}
	slip := b.TransferOf([]transfer.Representative{{Language: "de", Model: "KBLab/albert-base-swedish-cased-alpha"}})
	for i, l := range got.Models {
		for j, c := range got.Columns {
			x := got.Scores[i][j]
			if l == "de" && slices.Contains([]string{"da", "no", "sv"}, c) {
				x = slip.Rows[0].Values[j].X
			}
			if math.Abs(x-printed.Scores[i][j]) > 0.01 {
				t.Errorf("%s in %s: %.4f, printed %.2f", l, c, x, printed.Scores[i][j])
			}
		}
	}
	groups, _ := got.Groups()
	if best := transfer.Best(groups); best.Name() != "da+no+sv" || math.Abs(best.F-31.68) > 0.005 {
		t.Errorf("the best group is %s with %.2f", best.Name(), best.F)
	}
}

// Of a model with several rows the one with the fewest gaps is taken, then the newest.
func TestTransferOf(t *testing.T) {
	at := func(revision, dataset, task string, day int, scores ...float64) results.Record {
		r := rec("m", dataset, task, "paper", scores...)
		r.Model.Revision, r.Finished = revision, time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)
		return r
	}
	recs := []results.Record{
		at("a", "dane", "ner", 1, .1, .2), at("a", "suc3", "ner", 1, .1, .2),
		at("b", "dane", "ner", 3, .3, .4), at("b", "suc3", "ner", 3, .3, .4),
		at("c", "dane", "ner", 9, .5, .6),
	}
	b := build(t, recs, leaderboard.Options{Columns: []leaderboard.Column{{Name: "dane", Task: "ner", Languages: []string{"da"}}, {Name: "suc3", Task: "ner", Languages: []string{"sv"}}}})
	got := b.TransferOf([]transfer.Representative{{Language: "da", Model: "m"}, {Language: "sv", Model: "none"}})
	if v := got.Rows[0].Values; math.Abs(v[0].X-35) > 1e-9 || math.Abs(v[1].X-35) > 1e-9 {
		t.Errorf("scores %v", v)
	}
	if _, missing := got.Table(); fmt.Sprint(missing) != "[none in da none in sv]" || got.Groups != nil {
		t.Errorf("missing: %q, groups %v", missing, got.Groups)
	}
	for seeds, want := range map[int]string{2: "[]", 3: "[dane suc3]"} {
		if got := b.Lacks("m", []string{"dane", "suc3"}, seeds); fmt.Sprint(got) != want {
			t.Errorf("of %d seeds m lacks %v, want %s", seeds, got, want)
		}
	}
	if got := b.Lacks("none", []string{"dane"}, 1); fmt.Sprint(got) != "[dane]" {
		t.Errorf("none lacks %v", got)
	}
}
