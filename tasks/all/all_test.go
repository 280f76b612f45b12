package all_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/tasks"
	"bench/tasks/all"
)

// TestContract holds what trainers and records rely on: names, heads, labels in
// the order of the head's outputs (facts on the reference system: its id order)
// and metrics, the leaderboard's first.
func TestContract(t *testing.T) {
	want := []string{
		"ner token-classification [O B-LOC I-LOC B-ORG I-ORG B-PER I-PER B-MISC I-MISC] micro_f1×100 micro_f1_no_misc×100",
		"sentiment sequence-classification [negative neutral positive] mcc×100 macro_f1×100",
		"acceptability sequence-classification [incorrect correct] mcc×100 macro_f1×100",
		"qa question-answering [] em×100 f1×100",
		"speed speed [] inferences_per_second×1 tokens_per_second×1",
	}
	var got, names []string
	for _, task := range all.All() {
		i := task.Info()
		s := fmt.Sprintf("%s %s %v", i.Name, i.Head, i.Labels)
		for _, m := range i.Metrics {
			s += fmt.Sprintf(" %s×%g", m.Name, m.Scale)
		}
		got = append(got, s)
		names = append(names, i.Name)
		if l := task.Labels(datasets.Meta{}); !slices.Equal(l, i.Labels) {
			t.Errorf("%s: labels of an uncounted data set are %q", i.Name, l)
		}
		if i.Version < 1 {
			t.Errorf("%s: version %d", i.Name, i.Version)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("tasks are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, k := range datasets.Kinds {
		if !slices.Contains(names, string(k)) {
			t.Errorf("rows of kind %s have no task", k)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, task := range all.All() {
		found, err := all.Lookup(task.Info().Name)
		if err != nil || !reflect.DeepEqual(found.Info(), task.Info()) {
			t.Errorf("%s is not found: %v", task.Info().Name, err)
		}
	}
	_, err := all.Lookup("poetry")
	if !errors.Is(err, all.ErrUnknown) || !strings.Contains(err.Error(), "acceptability") {
		t.Errorf("error of an unknown task is %v", err)
	}
}

// TestDocumentedPredictions scores the example lines of docs/formats.md.
func TestDocumentedPredictions(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "## Predictions\n")
	text, _, _ = strings.Cut(text, "\n## ")
	row := datasets.Row{ID: "12", Tokens: []string{"Anna", "bor", "her"}, Labels: []string{"B-PER", "O", "O"}, Answers: &datasets.Answers{}}
	gold := map[string]string{"sentiment": "positive", "acceptability": "correct"}
	seen := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		names, example, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | `{\"id\": \"12\"")
		if !ok {
			continue
		}
		example = `{"id": "12"` + strings.TrimSuffix(example, "` |")
		for name := range strings.SplitSeq(names, ", ") {
			if seen[name] = true; name == "acceptability" {
				example = `{"id": "12", "label": "correct"}` // the row shows the other task's labels
			}
			task, err := all.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			row.Label = gold[name]
			if _, err := task.Score(datasets.Meta{}, []datasets.Row{row}, []json.RawMessage{json.RawMessage(example)}, nil, tasks.Rules{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if len(seen) != len(all.All()) {
		t.Errorf("examples of %v only", seen)
	}
}
