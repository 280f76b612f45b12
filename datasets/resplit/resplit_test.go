package resplit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bench/datasets"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func reviews(prefix string, n int) []datasets.Row {
	var out []datasets.Row
	for i := range n {
		out = append(out, datasets.Row{ID: fmt.Sprintf("%s-%d", prefix, i), Text: fmt.Sprintf("%s %d", prefix, i), Label: "neutral"})
	}
	return out
}

func standard() map[datasets.Split][]datasets.Row {
	return map[datasets.Split][]datasets.Row{datasets.Train: reviews("train", 1024), datasets.Val: reviews("val", 256), datasets.Test: reviews("test", 2048)}
}

func divide(t *testing.T, name string, k datasets.Kind, rows map[datasets.Split][]datasets.Row) (map[datasets.Split][]datasets.Row, *datasets.Division) {
	t.Helper()
	s, err := Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != name {
		t.Errorf("%s is called %s", name, s)
	}
	out, d, err := s.Divide(k, rows)
	if err != nil {
		t.Fatal(err)
	}
	return out, d
}

func ids(rows []datasets.Row) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

func parts(d *datasets.Division) string {
	var out []string
	for _, p := range d.Parts {
		out = append(out, fmt.Sprintf("%s>%s %d", p.Name, p.Role, p.Rows))
	}
	return strings.Join(out, ", ")
}

// 256 validation rows: the last 85 are tune. 1,280 rows of train and val: 213
// for each of tune, dev and test, in this order, from the end.
func TestSizes(t *testing.T) {
	for name, want := range map[string]string{
		"standard":       "train>train 1024, val>val 256, test>test 2048",
		"tune-dev":       "train>train 1024, tune>val 85, dev>test 171, test> 2048",
		"tune-test":      "train>train 1024, tune>val 85, dev> 171, test>test 2048",
		"resplit-dev":    "train>train 641, tune>val 213, dev>test 213, test> 213",
		"resplit-test":   "train>train 641, tune>val 213, dev> 213, test>test 213",
		"random3-3":      "train>train 1109, fold 1>val 1109, fold 3>test 1110",
		"random5-1-s7":   "train>train 1997, fold 2>val 666, fold 1>test 665",
		"random10-10-s0": "train>train 2663, fold 1>val 332, fold 10>test 333",
	} {
		rows, d := divide(t, name, datasets.Sentiment, standard())
		if got := parts(d); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		for _, s := range datasets.Splits {
			if len(rows[s]) == 0 {
				t.Errorf("%s: no %s rows", name, s)
			}
		}
	}
	rows, _ := divide(t, "tune-test", datasets.Sentiment, standard())
	if rows[datasets.Val][0].ID != "val-171" || ids(rows[datasets.Test]) != ids(standard()[datasets.Test]) {
		t.Error("tune-test: not the last third of val, or another test split")
	}
	rows, _ = divide(t, "resplit-dev", datasets.Sentiment, standard())
	if rows[datasets.Val][0].ID != "train-641" || rows[datasets.Test][0].ID != "train-854" {
		t.Errorf("resplit-dev: tune begins with %s, dev with %s", rows[datasets.Val][0].ID, rows[datasets.Test][0].ID)
	}
	// Enough rows for the paper's own numbers.
	big := map[datasets.Split][]datasets.Row{datasets.Train: reviews("train", 6000), datasets.Val: reviews("val", 500), datasets.Test: reviews("test", 10)}
	if _, d := divide(t, "resplit-test", datasets.Sentiment, big); parts(d) != "train>train 3500, tune>val 1000, dev> 1000, test>test 1000" {
		t.Error(parts(d))
	}
}

// The same part has the same digest in all divisions that have it.
func TestParts(t *testing.T) {
	_, a := divide(t, "resplit-dev", datasets.Sentiment, standard())
	_, b := divide(t, "resplit-test", datasets.Sentiment, standard())
	for i := range a.Parts {
		if a.Parts[i].Digest != b.Parts[i].Digest {
			t.Errorf("part %s differs", a.Parts[i].Name)
		}
	}
	again, c := divide(t, "random5-2", datasets.Sentiment, standard())
	_, d := divide(t, "random5-2-s7", datasets.Sentiment, standard())
	if c.Parts[0].Digest == d.Parts[0].Digest {
		t.Error("another seed, the same folds")
	}
	rows, _ := divide(t, "random5-2", datasets.Sentiment, standard())
	if diff := cmp.Diff(again, rows); diff != "" {
		t.Error(diff)
	}
}

// Over all folds every row is scored once and picked on once, whatever belongs
// together is never in two splits, and folds are of about equal size.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		k := rapid.IntRange(3, 8).Draw(r, "k")
		rows := map[datasets.Split][]datasets.Row{}
		n := 0
		for _, s := range datasets.Splits {
			for range rapid.IntRange(10, 40).Draw(r, string(s)) {
				for j := 1; j <= 2; j++ {
					rows[s] = append(rows[s], datasets.Row{ID: fmt.Sprintf("s%d/%d", n, j), Text: fmt.Sprint(n, j), Label: "correct"})
				}
				n++
			}
		}
		scored, picked := map[string]int{}, map[string]int{}
		for fold := 1; fold <= k; fold++ {
			out, _, err := Spec{Kind: Random, K: k, Fold: fold, Seed: 1}.Divide(datasets.Acceptability, rows)
			if err != nil {
				r.Fatal(err)
			}
			of := map[string]datasets.Split{}
			total := 0
			for _, s := range datasets.Splits {
				for _, row := range out[s] {
					stem := row.ID[:len(row.ID)-2]
					if o, ok := of[stem]; ok && o != s {
						r.Fatalf("%s is in %s and %s", stem, o, s)
					}
					of[stem] = s
					total++
				}
			}
			if want := float64(2*n) / float64(k); total != 2*n || float64(len(out[datasets.Test])) < want-2 || float64(len(out[datasets.Test])) > want+2 {
				r.Fatalf("%d rows of %d, %d in the fold of %d", total, 2*n, len(out[datasets.Test]), k)
			}
			for _, row := range out[datasets.Test] {
				scored[row.ID]++
			}
			for _, row := range out[datasets.Val] {
				picked[row.ID]++
			}
		}
		for _, m := range []map[string]int{scored, picked} {
			for id, times := range m {
				if times != 1 {
					r.Fatalf("%s %d times", id, times)
				}
			}
			if len(m) != 2*n {
				r.Fatalf("%d rows of %d", len(m), 2*n)
			}
		}
	})
}

func TestGroups(t *testing.T) {
	qa := func(id, q, c string) datasets.Row { return datasets.Row{ID: id, Question: q, Context: c} }
	got := groups(datasets.QA, []datasets.Row{qa("1", "a", "x"), qa("2", "b", "y"), qa("3", "c", "x")})
	if len(got) != 2 || ids(got[0]) != "1 3" {
		t.Errorf("%v", got)
	}
	// 1/1 and 2/1 share a text, so all four rows belong together.
	la := func(id, text string) datasets.Row { return datasets.Row{ID: id, Text: text} }
	got = groups(datasets.Acceptability, []datasets.Row{la("1/1", "x"), la("2/2", "y"), la("3/1", "z"), la("2/1", "x"), la("1/2", "w")})
	if len(got) != 2 || ids(got[0]) != "1/1 2/2 2/1 1/2" {
		t.Errorf("%v", got)
	}
}

func TestBad(t *testing.T) {
	for _, name := range []string{"", "tune", "tune-val", "random", "random2-1", "random5-6", "random5-0", "random05-1", "random5-1-s99999999999", "random5-1-s-1", "standard-1"} {
		if s, err := Parse(name); err == nil {
			t.Errorf("%q: %+v", name, s)
		}
	}
	few := map[datasets.Split][]datasets.Row{datasets.Train: reviews("train", 2), datasets.Val: reviews("val", 2), datasets.Test: reviews("test", 2)}
	for _, s := range []Spec{{Kind: Tune, ScoreOn: "test"}, {Kind: Resplit, ScoreOn: "dev"}, {Kind: Random, K: 7, Fold: 1}, {Kind: Random, K: 2, Fold: 1}, {}} {
		if _, _, err := s.Divide(datasets.Sentiment, few); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	if _, err := All("random", 2, 1); err == nil {
		t.Error("no error")
	}
	if _, err := All("other", 5, 1); err == nil {
		t.Error("no error")
	}
	all, err := All("tune", 0, 0)
	if err != nil || !slices.Equal(all, []Spec{{Kind: Tune, ScoreOn: "dev"}, {Kind: Tune, ScoreOn: "test"}, {Kind: Resplit, ScoreOn: "dev"}, {Kind: Resplit, ScoreOn: "test"}}) {
		t.Errorf("%v, %v", all, err)
	}
}
