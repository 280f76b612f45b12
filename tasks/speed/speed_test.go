package speed_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"bench/datasets"
	"bench/scoring"
	"bench/tasks"
	"bench/tasks/speed"
)

func TestScore(t *testing.T) {
	test := []datasets.Row{{ID: "a", Text: "Et dokument."}, {ID: "b", Text: "Et til."}}
	pred := []json.RawMessage{
		json.RawMessage(`{"id":"a","inferences_per_second":10,"tokens_per_second":1000}`),
		json.RawMessage(`{"id":"b","inferences_per_second":20.5,"tokens_per_second":0}`),
	}
	got, err := speed.New().Score(datasets.Meta{}, test, pred, nil, tasks.Rules{})
	if err != nil || got["inferences_per_second"] != scoring.Num(15.25) || got["tokens_per_second"] != scoring.Num(500) || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	got, err = speed.New().Score(datasets.Meta{}, test, pred, []int{1, 1}, tasks.Rules{})
	if err != nil || got["inferences_per_second"] != scoring.Num(20.5) {
		t.Errorf("second row twice: %v, %v", got, err)
	}
	if got, err := speed.New().Score(datasets.Meta{}, nil, nil, nil, tasks.Rules{}); err != nil || got["tokens_per_second"].Undefined == "" {
		t.Errorf("scores of nothing are %v, %v", got, err)
	}
}

func TestBadPredictions(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{`{"id":"a","tokens_per_second":1}`, "inferences_per_second"},
		{`{"id":"a","inferences_per_second":0,"tokens_per_second":1}`, "inferences_per_second"},
		{`{"id":"a","inferences_per_second":1}`, "tokens_per_second"},
		{`{"id":"a","inferences_per_second":1,"tokens_per_second":-1}`, "tokens_per_second"},
		{`{"id":"a","inferences_per_second":1e999,"tokens_per_second":1}`, "cannot unmarshal number"},
		{`{"id":"a","inferences_per_second":NaN,"tokens_per_second":1}`, "invalid character"},
	} {
		_, err := speed.New().Score(datasets.Meta{}, []datasets.Row{{ID: "a"}}, []json.RawMessage{json.RawMessage(c.line)}, nil, tasks.Rules{})
		var p *tasks.PredictionError
		if !errors.As(err, &p) || p.ID != "a" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v", c.line, err)
		}
	}
}
