package classification_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/tasks"
	"bench/tasks/acceptability"
	"bench/tasks/classification"
	"bench/tasks/sentiment"
)

func meta(labels ...string) datasets.Meta {
	counts := map[string]int{}
	for _, l := range labels {
		counts[l] = 5
	}
	return datasets.Meta{Name: "omtaler", Counts: map[datasets.Split]datasets.Counts{datasets.Train: {Labels: counts}}}
}

// set makes rows and predictions from words of the form gold/prediction.
func set(words string) (test []datasets.Row, pred []json.RawMessage) {
	for w := range strings.FieldsSeq(words) {
		gold, guess, _ := strings.Cut(w, "/")
		id := fmt.Sprintf("r%d", len(test))
		test = append(test, datasets.Row{ID: id, Text: "Det var godt.", Label: gold})
		pred = append(pred, json.RawMessage(fmt.Sprintf(`{"id":%q,"label":%q,"scores":{%q:1.5}}`, id, guess, guess)))
	}
	return test, pred
}

func TestScore(t *testing.T) {
	for _, c := range []struct {
		name       string
		task       classification.Task
		meta       datasets.Meta
		rows       string
		mcc, macro float64
	}{
		// By hand: 5 and 2 right, 2 and 1 wrong; MCC (5·2−2·1)/√(7·3·6·4).
		{"acceptability", acceptability.New(), meta("correct", "incorrect"),
			"correct/correct correct/correct incorrect/incorrect incorrect/correct correct/correct correct/incorrect incorrect/incorrect correct/correct correct/correct incorrect/correct",
			8 / math.Sqrt(504), (10.0/13 + 4.0/7) / 2},
		{"one class", sentiment.New(), meta(), "neutral/neutral neutral/neutral", 0, 1},
		{"a class that is only predicted", sentiment.New(), meta(), "neutral/neutral neutral/positive", 0, (2.0 / 3) / 2},
		{"own labels", sentiment.New(), meta("1", "2", "5"), "1/1 2/2 5/5", 1, 1},
	} {
		test, pred := set(c.rows)
		got, err := c.task.Score(c.meta, test, pred, nil, tasks.Rules{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := got["mcc"].X - c.mcc; d > 1e-15 || d < -1e-15 || got["macro_f1"].X-c.macro > 1e-15 || c.macro-got["macro_f1"].X > 1e-15 {
			t.Errorf("%s: %v, want MCC %v and macro F1 %v", c.name, got, c.mcc, c.macro)
		}
	}
}

// TestClassesOfTheSample: a class that a bootstrap sample does not hold does not
// count in macro-F1.
func TestClassesOfTheSample(t *testing.T) {
	test, pred := set("negative/negative neutral/neutral positive/negative")
	s, err := sentiment.New().Prepare(meta(), test, pred, tasks.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Sample([]int{0, 1, 1})
	if err != nil || got["macro_f1"].X != 1 || got["mcc"].X != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := s.Sample([]int{}); err != nil || got["mcc"].Undefined == "" || got["macro_f1"].Undefined == "" {
		t.Errorf("scores of nothing are %v, %v", got, err)
	}
	if _, err := s.Sample([]int{3}); err == nil {
		t.Error("row 3 of 3 is no error")
	}
}

func TestBadPredictions(t *testing.T) {
	test, pred := set("negative/negative neutral/neutral")
	for _, c := range []struct{ name, line, says string }{
		{"unknown label", `{"id":"r1","label":"lukewarm"}`, `"lukewarm" is not one of`},
		{"another case", `{"id":"r1","label":"NEUTRAL"}`, `"NEUTRAL"`},
		{"no label", `{"id":"r1","scores":{}}`, "no label"},
		{"null", `{"id":"r1","label":null}`, "no label"},
		{"a number", `{"id":"r1","label":1}`, "cannot unmarshal number"},
		{"scores in a list", `{"id":"r1","label":"neutral","scores":[1,2,3]}`, "cannot unmarshal array"},
		{"a score in words", `{"id":"r1","label":"neutral","scores":{"neutral":"high"}}`, "cannot unmarshal string"},
		{"a score for another label", `{"id":"r1","label":"neutral","scores":{"lukewarm":1}}`, `"lukewarm"`},
		{"another field", `{"id":"r1","label":"neutral","p":1}`, "unknown field"},
	} {
		_, err := sentiment.New().Score(meta(), test, []json.RawMessage{pred[0], json.RawMessage(c.line)}, nil, tasks.Rules{})
		var p *tasks.PredictionError
		if !errors.As(err, &p) || p.ID != "r1" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v", c.name, err)
		}
	}
	test[1].Label = ""
	_, err := sentiment.New().Score(meta(), test, pred, nil, tasks.Rules{})
	var g *tasks.GoldError
	if !errors.As(err, &g) || g.ID != "r1" {
		t.Errorf("row without gold: error is %v", err)
	}
}

func TestLabels(t *testing.T) {
	standard := []string{"negative", "neutral", "positive"}
	for _, c := range []struct {
		meta datasets.Meta
		want []string
	}{
		{meta("positive", "negative", "neutral"), standard},
		{meta("positive", "negative"), standard},
		{meta("5", "3", "1"), []string{"1", "3", "5"}},
		{meta("positive", "negative", "mixed"), []string{"mixed", "negative", "positive"}},
	} {
		if got := sentiment.New().Labels(c.meta); !slices.Equal(got, c.want) {
			t.Errorf("labels of %v are %q, want %q", c.meta.Counts, got, c.want)
		}
	}
}
