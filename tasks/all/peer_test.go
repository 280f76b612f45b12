package all_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/datasets/split"
	"bench/tasks"
	"bench/tasks/all"
)

// shared is the folder of reference outputs beside the repository.
func shared(t *testing.T) string {
	dir := filepath.Join("..", "..", "..", "shared")
	if _, err := os.Stat(dir); err != nil {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "shared") {
			t.Fatal(err)
		}
		t.Skipf("no shared reference outputs: %v", err)
	}
	return dir
}

// TestPeerScores scores what the reference system (scandeval 7.1.1) predicted
// on its bootstrapped test rows, and must get the reference system's scores:
// ../shared/golden/peer/MODEL-TASK.json, made as its README.md says. Its QA
// files hold no predictions.
func TestPeerScores(t *testing.T) {
	dir := filepath.Join(shared(t), "golden", "peer")
	for _, model := range []string{"bert", "roberta"} {
		for _, name := range []string{"ner", "sentiment", "acceptability"} {
			t.Run(model+"-"+name, func(t *testing.T) { peerScores(t, dir, model, name) })
		}
	}
}

func peerScores(t *testing.T, dir, model, name string) {
	task, err := all.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, model+"-"+name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var peer struct {
		Runs []struct {
			Test        map[string]float64
			Predictions [][]float64 `json:"test_predictions"`
		}
	}
	if err := json.Unmarshal(b, &peer); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "rows", name, "test.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	test, err := datasets.ReadRows(f, f.Name(), datasets.Kind(name))
	if err != nil {
		t.Fatal(err)
	}
	meta := datasets.Meta{Name: name}
	labels := task.Labels(meta)
	rows := split.Bootstrap(4242, len(test), 10)
	if len(peer.Runs) == 0 {
		t.Fatal("no runs")
	}
	for i, run := range peer.Runs {
		pred := make([]json.RawMessage, len(test))
		for j, row := range test { // rows that the sample does not hold
			pred[j] = line(t, name, row, labels, nil)
		}
		for j, out := range run.Predictions {
			row := rows[i][j]
			pred[row] = line(t, name, test[row], labels, out)
		}
		got, err := task.Score(meta, test, pred, rows[i], tasks.Rules{CollapseIDs: true, DropTruncated: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range task.Info().Metrics {
			want, ok := run.Test["test_"+m.Name]
			if !ok || math.Abs(got[m.Name].X-want) > 1e-12 || got[m.Name].Undefined != "" {
				t.Errorf("run %d: %s = %v, reference system has %v", i, m.Name, got[m.Name], want)
			}
		}
	}
}

// line writes a prediction: of logits for a text, of label ids for the words
// before truncation.
func line(t *testing.T, task string, row datasets.Row, labels []string, out []float64) json.RawMessage {
	var v any
	if task == "ner" {
		words := make([]*string, len(row.Tokens))
		for j, id := range out {
			words[j] = &labels[int(id)]
		}
		v = map[string]any{"id": row.ID, "labels": words}
	} else {
		best := 0
		for k := range out {
			if out[k] > out[best] {
				best = k
			}
		}
		v = map[string]any{"id": row.ID, "label": labels[best]}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCollapsedIDs holds the number of distinct questions in each bootstrap
// sample of 2,048: every published ScandiQA score is k / N with these N
// (facts/scandeval.md 0.1 of the reference material; numpy 1.24.2:
// [len(set(r)) for r in default_rng(4242).integers(0, 2048, (10, 2048))]).
func TestCollapsedIDs(t *testing.T) {
	const n = 2048
	want := []int{1291, 1290, 1294, 1284, 1295, 1297, 1317, 1289, 1275, 1288}
	task, err := all.Lookup("qa")
	if err != nil {
		t.Fatal(err)
	}
	test, pred := make([]datasets.Row, n), make([]json.RawMessage, n)
	for i := range test {
		test[i] = datasets.Row{ID: fmt.Sprint(i), Question: "Hvad?", Context: "Et svar", Answers: &datasets.Answers{Text: []string{"svar"}, Start: []int{3}}}
		pred[i] = json.RawMessage(fmt.Sprintf(`{"id":"%d","text":"","score":0}`, i))
	}
	s := split.Bootstrap(4242, n, len(want))
	for i, rows := range s {
		// The question drawn first is answered correctly, so that the score is
		// 1/N with collapse and (times drawn)/n without.
		hit := rows[0]
		right := slices.Clone(pred)
		right[hit] = json.RawMessage(fmt.Sprintf(`{"id":"%d","text":"Svar!","score":1}`, hit))
		got, err := task.Score(datasets.Meta{}, test, right, rows, tasks.Rules{CollapseIDs: true})
		if err != nil {
			t.Fatal(err)
		}
		if n := 1 / got["em"].X; math.Abs(n-float64(want[i])) > 1e-9 {
			t.Errorf("replicate %d: %v distinct questions, want %d", i, n, want[i])
		}
		times := 0
		for _, r := range rows {
			if r == hit {
				times++
			}
		}
		got, err = task.Score(datasets.Meta{}, test, right, rows, tasks.Rules{})
		if err != nil {
			t.Fatal(err)
		}
		if got["em"].X != float64(times)/n || got["f1"].X != float64(times)/n {
			t.Errorf("replicate %d: scores %v, want %d/%d", i, got, times, n)
		}
	}
}
