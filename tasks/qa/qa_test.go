package qa_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"bench/datasets"
	"bench/scoring"
	"bench/tasks"
	"bench/tasks/qa"
)

func row(id string, answers ...string) datasets.Row {
	return datasets.Row{ID: id, Question: "Hvor bor Lars?", Context: "Lars bor i Tórshavn.", Answers: &datasets.Answers{Text: answers, Start: make([]int, len(answers))}}
}

func TestScore(t *testing.T) {
	test := []datasets.Row{row("a", "Tórshavn"), row("b", "i Tórshavn", "Tórshavn"), row("c")}
	pred := []json.RawMessage{
		json.RawMessage(`{"id":"a","text":"bor i tórshavn.","score":-1.5}`), // F1: 1 of 3 words, 1 of 1
		json.RawMessage(`{"id":"b","text":"Tórshavn."}`),
		json.RawMessage(`{"id":"c","text":"","score":0}`),
	}
	for _, c := range []struct {
		rows   []int
		rules  tasks.Rules
		em, f1 scoring.Value
	}{
		{nil, tasks.Rules{}, scoring.Num(2.0 / 3), scoring.Num((0.5 + 1 + 1) / 3)},
		{[]int{0, 0, 0, 1}, tasks.Rules{}, scoring.Num(0.25), scoring.Num((3*0.5 + 1) / 4)},
		{[]int{0, 0, 0, 1}, tasks.Rules{CollapseIDs: true}, scoring.Num(0.5), scoring.Num(0.75)},
		{[]int{}, tasks.Rules{}, scoring.Value{Undefined: "no rows to score"}, scoring.Value{Undefined: "no rows to score"}},
	} {
		got, err := qa.New().Score(datasets.Meta{}, test, pred, c.rows, c.rules)
		if err != nil || got["em"] != c.em || got["f1"] != c.f1 || len(got) != 2 {
			t.Errorf("rows %v, %+v: %v, %v; want %v and %v", c.rows, c.rules, got, err, c.em, c.f1)
		}
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{`{"id":"a"}`, "no text"},
		{`{"id":"a","text":null}`, "no text"},
		{`{"id":"a","text":["x"]}`, "cannot unmarshal array"},
		{`{"id":"a","text":"x","score":"high"}`, "cannot unmarshal string"},
		{`{"id":"a","text":"x","start":3}`, "unknown field"},
	} {
		_, err := qa.New().Score(datasets.Meta{}, []datasets.Row{row("a", "x")}, []json.RawMessage{json.RawMessage(c.line)}, nil, tasks.Rules{})
		var p *tasks.PredictionError
		if !errors.As(err, &p) || p.ID != "a" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v", c.line, err)
		}
	}
	_, err := qa.New().Score(datasets.Meta{Name: "svar"}, []datasets.Row{row("a").Blind()}, []json.RawMessage{json.RawMessage(`{"id":"a","text":""}`)}, nil, tasks.Rules{})
	var g *tasks.GoldError
	if !errors.As(err, &g) || g.ID != "a" || g.Dataset != "svar" {
		t.Errorf("row without gold: error is %v", err)
	}
}
