package ner_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/scoring"
	"bench/tasks"
	"bench/tasks/ner"
)

// meta has n entities of each type in the training split.
func meta(n int, types ...string) datasets.Meta {
	labels := map[string]int{}
	for _, t := range types {
		labels[t] = n
	}
	return datasets.Meta{Name: "navne", Kind: datasets.NER, Counts: map[datasets.Split]datasets.Counts{datasets.Train: {Rows: 1, Labels: labels}}}
}

var standard = meta(3, "PER", "LOC", "ORG", "MISC")

// row makes a test row from words of the form word/TAG; a bare word is O.
func row(id, words string) datasets.Row {
	r := datasets.Row{ID: id, Labels: []string{}}
	for w := range strings.FieldsSeq(words) {
		token, tag, ok := strings.Cut(w, "/")
		if !ok {
			tag = "O"
		}
		r.Tokens, r.Labels = append(r.Tokens, token), append(r.Labels, tag)
	}
	return r
}

// pred makes a prediction line; "-" is a word that was cut off.
func pred(id, labels string) json.RawMessage {
	var out []*string
	for l := range strings.FieldsSeq(labels) {
		if l == "-" {
			out = append(out, nil)
			continue
		}
		out = append(out, &l)
	}
	b, err := json.Marshal(map[string]any{"id": id, "labels": out})
	if err != nil {
		panic(err)
	}
	return b
}

func f1(correct, gold, predicted int) scoring.Value {
	return scoring.Num(2 * float64(correct) / float64(gold+predicted))
}

func TestScore(t *testing.T) {
	for _, c := range []struct {
		name       string
		meta       datasets.Meta
		gold, pred string
		rules      tasks.Rules
		f1, noMISC scoring.Value
	}{
		{"right", standard, "Anna/B-PER Lund/I-PER bor i Oslo/B-LOC", "B-PER I-PER O O B-LOC", tasks.Rules{}, f1(2, 2, 2), f1(2, 2, 2)},
		{"I- starts an entity", standard, "Anna/B-PER bor i Oslo/B-LOC", "I-PER O O I-LOC", tasks.Rules{}, f1(2, 2, 2), f1(2, 2, 2)},
		{"wrong type", standard, "Anna/B-PER bor i Oslo/B-LOC", "B-PER O O B-ORG", tasks.Rules{}, f1(1, 2, 2), f1(1, 2, 2)},
		{"wrong end", standard, "Anna/B-PER Lund/I-PER", "B-PER O", tasks.Rules{}, f1(0, 1, 1), f1(0, 1, 1)},
		{"MISC left out", standard, "Anna/B-PER læser Nordkalenderen/B-MISC", "B-PER O O", tasks.Rules{}, f1(1, 2, 1), f1(1, 1, 1)},
		{"cut off words are O", standard, "Anna/B-PER bor i Oslo/B-LOC", "B-PER O - -", tasks.Rules{}, f1(1, 2, 1), f1(1, 2, 1)},
		{"cut off words are left out", standard, "Anna/B-PER bor i Oslo/B-LOC", "B-PER O - -", tasks.Rules{DropTruncated: true}, f1(1, 1, 1), f1(1, 1, 1)},
		{"MISC predicted, none in training", meta(3, "PER", "LOC", "ORG"), "Anna/B-PER læser avisen", "B-PER O B-MISC", tasks.Rules{}, f1(1, 1, 1), f1(1, 1, 1)},
		{"MISC in test, none in training", meta(3, "PER"), "Anna/B-PER læser Nordkalenderen/B-MISC", "B-PER O B-MISC", tasks.Rules{}, f1(1, 2, 1), f1(1, 1, 1)},
		{"other type is MISC", standard, "Anna/B-PER læser Nord/B-MISC kalenderen/I-MISC", "B-PER O B-WORK I-WORK", tasks.Rules{}, f1(2, 2, 2), f1(1, 1, 1)},
		{"other type is O", meta(3, "PER"), "Anna/B-PER læser avisen", "B-PER O B-WORK", tasks.Rules{}, f1(1, 1, 1), f1(1, 1, 1)},
		{"a data set's own types", meta(3, "PER", "DISH"), "Anna/B-PER spiser tør/B-DISH fisk/I-DISH", "B-PER O B-DISH I-DISH", tasks.Rules{}, f1(2, 2, 2), f1(2, 2, 2)},
		{"own types with MISC", meta(3, "MISC", "DISH"), "Anna/B-MISC spiser tør/B-DISH fisk/I-DISH", "B-PER O B-DISH O", tasks.Rules{}, f1(1, 2, 2), f1(0, 1, 1)},
		{"nothing to find, nothing found", standard, "det regner", "O O", tasks.Rules{}, scoring.Num(0), scoring.Num(0)},
	} {
		got, err := ner.New().Score(c.meta, []datasets.Row{row("x", c.gold)}, []json.RawMessage{pred("x", c.pred)}, nil, c.rules)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got["micro_f1"] != c.f1 || got["micro_f1_no_misc"] != c.noMISC || len(got) != 2 {
			t.Errorf("%s: %v, want %v and %v", c.name, got, c.f1, c.noMISC)
		}
	}
}

func TestSample(t *testing.T) {
	test := []datasets.Row{row("a", "Anna/B-PER"), row("b", "Oslo/B-LOC"), row("c", "regn")}
	lines := []json.RawMessage{pred("a", "B-PER"), pred("b", "O"), pred("c", "B-ORG")}
	s, err := ner.New().Prepare(standard, test, lines, tasks.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rows []int
		want scoring.Value
	}{
		{nil, f1(1, 2, 2)},
		{[]int{0, 0, 1}, f1(2, 3, 2)},
		{[]int{1, 0, 0}, f1(2, 3, 2)},
		{[]int{2, 2, 2}, f1(0, 0, 3)},
		{[]int{}, scoring.Value{Undefined: "no rows to score"}},
	} {
		got, err := s.Sample(c.rows)
		if err != nil || got["micro_f1"] != c.want {
			t.Errorf("rows %v: %v, %v; want %v", c.rows, got, err, c.want)
		}
	}
	for _, rows := range [][]int{{3}, {-1}} {
		if _, err := s.Sample(rows); err == nil {
			t.Errorf("rows %v are no error", rows)
		}
	}
}

func TestBadPredictions(t *testing.T) {
	test := []datasets.Row{row("a", "Anna/B-PER bor"), row("rk7", "Oslo/B-LOC er stor")}
	for _, c := range []struct{ name, line, says string }{
		{"too few", `{"id":"rk7","labels":["O","O"]}`, "2 labels for 3 words"},
		{"too many", `{"id":"rk7","labels":["O","O","O","O"]}`, "4 labels for 3 words"},
		{"unknown label", `{"id":"rk7","labels":["O","O","PER"]}`, `"PER" of word 2`},
		{"no type", `{"id":"rk7","labels":["O","O","B-"]}`, `"B-"`},
		{"lower case", `{"id":"rk7","labels":["o","O","O"]}`, `"o"`},
		{"no labels", `{"id":"rk7"}`, "no labels"},
		{"null", `{"id":"rk7","labels":null}`, "no labels"},
		{"numbers", `{"id":"rk7","labels":[0,0,0]}`, "cannot unmarshal number"},
		{"a string", `{"id":"rk7","labels":"O O O"}`, "cannot unmarshal string"},
		{"another field", `{"id":"rk7","labels":["O","O","O"],"gold":1}`, "unknown field"},
		{"another row", `{"id":"a","labels":["O","O","O"]}`, `id "a"`},
		{"two values", `{"id":"rk7","labels":["O","O","O"]} {}`, "more than one"},
		{"no object", `["rk7"]`, "cannot unmarshal array"},
		{"nothing", `null`, `id ""`},
		{"torn", `{"id":"rk7","labels":["O"`, "EOF"},
	} {
		// The row is not in the sample: its prediction is looked at all the same.
		_, err := ner.New().Score(standard, test, []json.RawMessage{pred("a", "O O"), json.RawMessage(c.line)}, []int{0}, tasks.Rules{})
		var p *tasks.PredictionError
		if !errors.As(err, &p) || p.ID != "rk7" || !strings.Contains(err.Error(), "rk7") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v", c.name, err)
		}
	}
	if _, err := ner.New().Score(standard, test, []json.RawMessage{pred("a", "O O")}, nil, tasks.Rules{}); err == nil {
		t.Error("a prediction is missing, no error")
	}
}

func TestBadGold(t *testing.T) {
	blind := row("rk7", "Oslo/B-LOC").Blind()
	for _, r := range []datasets.Row{blind, row("rk7", "Oslo/B-TOWN"), row("rk7", "Oslo/X")} {
		_, err := ner.New().Score(standard, []datasets.Row{r}, []json.RawMessage{pred("rk7", "O")}, nil, tasks.Rules{})
		var g *tasks.GoldError
		if !errors.As(err, &g) || g.ID != "rk7" || g.Dataset != "navne" {
			t.Errorf("gold %q: error is %v", r.Labels, err)
		}
	}
}

func TestLabels(t *testing.T) {
	all := ner.New().Info().Labels
	for _, c := range []struct {
		meta datasets.Meta
		want []string
	}{
		{standard, all},
		{meta(3, "PER", "LOC"), all},
		{meta(0, "DISH"), all},
		{meta(3, "PER", "DISH", "ANIMAL"), []string{"O", "B-PER", "I-PER", "B-ANIMAL", "I-ANIMAL", "B-DISH", "I-DISH"}},
		{meta(3, "MISC", "LOC", "Z"), []string{"O", "B-LOC", "I-LOC", "B-MISC", "I-MISC", "B-Z", "I-Z"}},
	} {
		if got := ner.New().Labels(c.meta); !slices.Equal(got, c.want) {
			t.Errorf("labels of %v are %q, want %q", c.meta.Counts, got, c.want)
		}
	}
}

func BenchmarkScore(b *testing.B) {
	var test []datasets.Row
	var lines []json.RawMessage
	var rows []int
	for i := range 2048 {
		id := fmt.Sprint(i)
		test = append(test, row(id, "Anna/B-PER Lund/I-PER bor i Oslo/B-LOC og læser Nordkalenderen/B-MISC hver dag , siger Fjordbanken/B-ORG i går til avisen ."))
		lines = append(lines, pred(id, "B-PER O O O B-LOC O O O O O O O B-ORG O O O O O"))
		rows = append(rows, i*7%2048)
	}
	for b.Loop() {
		if _, err := ner.New().Score(standard, test, lines, rows, tasks.Rules{}); err != nil {
			b.Fatal(err)
		}
	}
}
