package compare

import (
	"errors"
	"fmt"
	"testing"

	"bench/datasets"

	"github.com/google/go-cmp/cmp"
)

type splits = map[datasets.Split][]datasets.Row

func write(t *testing.T, k datasets.Kind, rows splits) *datasets.Dataset {
	t.Helper()
	d, err := datasets.Write(t.TempDir(), datasets.Meta{Name: "x", Kind: k}, rows)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// review makes a row "text label"; ids are those of the caller.
func review(id, text, label string) datasets.Row {
	return datasets.Row{ID: id, Text: text, Label: label}
}

func TestDifferences(t *testing.T) {
	a := write(t, datasets.Sentiment, splits{
		datasets.Train: {review("1", "god", "positive"), review("2", "dårlig", "negative"), review("3", "væk", "neutral"), review("4", "to", "positive"), review("5", "to", "negative")},
		datasets.Val:   {review("6", "flyt", "neutral")},
		datasets.Test:  {review("7", "ens", "neutral"), review("8", "vendt", "positive")},
	})
	b := write(t, datasets.Sentiment, splits{
		datasets.Train: {review("a", "god", "positive"), review("b", "dårlig", "neutral"), review("c", "to", "negative"), review("d", "to", "positive")},
		datasets.Val:   {review("e", "ny", "neutral"), review("f", "vendt", "negative")},
		datasets.Test:  {review("g", "ens", "neutral"), review("h", "flyt", "neutral"), review("i", "god", "positive")},
	})
	c, err := Of(a, b)
	if err != nil {
		t.Fatal(err)
	}
	none := map[datasets.Split]int{}
	want := []Split{
		{Name: datasets.Train, A: 5, B: 4, Both: 4, Relabelled: 1, MovedTo: none, MovedFrom: none, OnlyA: 1},
		{Name: datasets.Val, A: 1, B: 2, MovedTo: map[datasets.Split]int{datasets.Test: 1}, MovedFrom: map[datasets.Split]int{datasets.Test: 1}, OnlyB: 1},
		{Name: datasets.Test, A: 2, B: 3, Both: 1, MovedTo: map[datasets.Split]int{datasets.Val: 1}, MovedFrom: map[datasets.Split]int{datasets.Val: 1}, OnlyB: 1},
	}
	if d := cmp.Diff(want, c.Splits); d != "" {
		t.Error(d)
	}
	rows := []Row{
		{Change: Relabelled, SplitA: datasets.Train, SplitB: datasets.Train, IDA: "2", IDB: "b", GoldA: "negative", GoldB: "neutral"},
		{Change: OnlyA, SplitA: datasets.Train, IDA: "3"},
		{Change: Moved, SplitA: datasets.Val, SplitB: datasets.Test, IDA: "6", IDB: "h"},
		{Change: MovedRelabelled, SplitA: datasets.Test, SplitB: datasets.Val, IDA: "8", IDB: "f", GoldA: "positive", GoldB: "negative"},
		{Change: OnlyB, SplitB: datasets.Val, IDB: "e"},
		{Change: OnlyB, SplitB: datasets.Test, IDB: "i"},
	}
	if d := cmp.Diff(rows, c.Rows); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]int{"negative → neutral": 1, "positive → negative": 1}, c.Labels); d != "" || c.Relabelled != 2 || c.Equal {
		t.Error(d)
	}
}

// Other ids alone leave no row that differs; another order is seen.
func TestSame(t *testing.T) {
	var first, renamed, turned []datasets.Row
	for i := range 10 {
		first = append(first, review(fmt.Sprint("a", i), fmt.Sprint(i), "neutral"))
		renamed = append(renamed, review(fmt.Sprint("b", i), fmt.Sprint(i), "neutral"))
		turned = append([]datasets.Row{review(fmt.Sprint("a", i), fmt.Sprint(i), "neutral")}, turned...)
	}
	of := func(rows []datasets.Row) *datasets.Dataset {
		return write(t, datasets.Sentiment, splits{datasets.Train: rows, datasets.Val: {review("v", "v", "neutral")}, datasets.Test: {review("t", "t", "neutral")}})
	}
	c, err := Of(of(first), of(renamed))
	if err != nil || len(c.Rows) > 0 || c.Equal || !c.Splits[0].SameOrder {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _ = Of(of(first), of(turned)); len(c.Rows) > 0 || c.Splits[0].SameOrder || !c.Splits[1].SameOrder {
		t.Errorf("%+v", c)
	}
	if c, _ = Of(of(first), of(first)); !c.Equal {
		t.Errorf("%+v", c)
	}
}

func TestTasks(t *testing.T) {
	ner := func(label string) *datasets.Dataset {
		r := datasets.Row{ID: "1", Tokens: []string{"Vik"}, Labels: []string{label}, Text: "Vik"}
		return write(t, datasets.NER, splits{datasets.Train: {r}})
	}
	c, err := Of(ner("B-LOC"), ner("B-PER"))
	if err != nil || c.Relabelled != 1 || c.Labels != nil || c.Rows[0].GoldB != "B-PER" {
		t.Errorf("%+v, %v", c, err)
	}
	qa := func(start int) *datasets.Dataset {
		r := datasets.Row{ID: "1", Question: "Hvad?", Context: "ja ja", Answers: &datasets.Answers{Text: []string{"ja"}, Start: []int{start}}}
		return write(t, datasets.QA, splits{datasets.Train: {r}})
	}
	if c, err = Of(qa(0), qa(3)); err != nil || c.Relabelled != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Of(qa(0), ner("O")); !errors.Is(err, ErrTask) {
		t.Errorf("error %v", err)
	}
}
