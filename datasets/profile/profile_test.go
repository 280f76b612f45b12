package profile

import (
	"slices"
	"testing"

	"bench/datasets"

	"github.com/google/go-cmp/cmp"
)

func TestRows(t *testing.T) {
	row := func(id, text, label string) datasets.Row { return datasets.Row{ID: id, Text: text, Label: label} }
	p := Rows(datasets.Sentiment, map[datasets.Split][]datasets.Row{
		datasets.Train: {row("1", "god mad", "positive"), row("2", "god mad", "negative"), row("3", "åh", "neutral")},
		datasets.Val:   {row("4", "åh", "neutral"), row("5", "", "neutral")},
		datasets.Test:  {row("6", "god mad", "neutral"), row("7", "god mad", "positive"), row("8", "ny", "positive")},
	})
	train := p.Splits[0]
	if train.Repeats != 1 || train.Contradictions != 1 || train.Empty != 0 || p.Splits[1].Empty != 1 {
		t.Errorf("%+v", p.Splits)
	}
	// 7, 7 and 2 characters: the words of "god mad" twice, and of "åh".
	want := Lengths{Min: 2, P25: 2, Median: 7, P75: 7, P95: 7, Max: 7, Mean: 5.33, Histogram: []int{0, 0, 1, 2}}
	if d := cmp.Diff(want, train.Characters); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{0, 1, 2}, train.Words.Histogram); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Overlap{
		{Of: datasets.Val, In: datasets.Train, Rows: 1, SameLabel: 1},
		{Of: datasets.Test, In: datasets.Train, Rows: 2, SameLabel: 1},
		{Of: datasets.Test, In: datasets.Val},
	}, p.Overlap); d != "" {
		t.Error(d)
	}

	p = Rows(datasets.NER, map[datasets.Split][]datasets.Row{
		datasets.Train: {{ID: "1", Tokens: []string{"Åse", "Vik", "bor", "i", "Oslo"}, Labels: []string{"B-PER", "I-PER", "O", "O", "B-LOC"}, Text: "Åse Vik bor i Oslo"}},
	})
	if e := p.Splits[0].Entities; !slices.Equal(e.Histogram, []int{0, 1, 1}) || p.Splits[0].Words.Max != 5 {
		t.Errorf("%+v", p.Splits[0])
	}
	q := datasets.Row{ID: "1", Question: "Hvor?", Context: "Hun bor i Vik.", Answers: &datasets.Answers{Text: []string{"Vik"}, Start: []int{10}}}
	other := q
	other.ID, other.Question = "2", "Hvor er hun?"
	p = Rows(datasets.QA, map[datasets.Split][]datasets.Row{datasets.Train: {q}, datasets.Test: {other}})
	if o := p.Overlap[1]; o.Rows != 0 || o.Contexts != 1 || p.Splits[0].Answers.Max != 3 || p.Splits[0].Questions.Max != 5 {
		t.Errorf("%+v", p)
	}
}

func TestPlot(t *testing.T) {
	if got := Spark([]int{0, 1, 50, 100, 0}); got != " ▁▄█ " {
		t.Errorf("%q", got)
	}
	got := Plot(Lengths{Histogram: []int{0, 0, 4, 8, 1}}, 4)
	want := []string{"  2–3  ██   4", "  4–7  ████ 8", " 8–15  ▌    1"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := Plot(Lengths{Histogram: []int{}}, 4); len(got) != 0 {
		t.Errorf("%q", got)
	}
	for v, bin := range map[int]int{0: 0, 1: 1, 2: 2, 3: 2, 4: 3, 1023: 10, 1024: 11} {
		low, high := BinRange(bin)
		if Bin(v) != bin || v < low || v > high {
			t.Errorf("%d: bin %d from %d to %d", v, Bin(v), low, high)
		}
	}
}
