package all_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"bench/datasets"
	"bench/tasks"
	"bench/tasks/all"
)

// drawn makes a test row of a task and a prediction for it.
func drawn(t *rapid.T, task tasks.Task, labels []string, id string) (datasets.Row, json.RawMessage) {
	label := rapid.SampledFrom(append(labels, "O"))
	row, pred := datasets.Row{ID: id, Text: "x"}, map[string]any{"id": id}
	switch task.Info().Name {
	case "ner":
		var guess []any
		for range rapid.IntRange(1, 6).Draw(t, "words") {
			row.Tokens, row.Labels = append(row.Tokens, "w"), append(row.Labels, label.Draw(t, "gold"))
			guess = append(guess, any(label.Draw(t, "tag")))
			if rapid.IntRange(0, 9).Draw(t, "cut") == 0 {
				guess[len(guess)-1] = nil
			}
		}
		pred["labels"] = guess
	case "qa":
		words := []string{"", "Oslo", "in Oslo", "Oslo fjord", "the fjord in Oslo", "Bergen"}
		row.Answers = &datasets.Answers{Text: []string{rapid.SampledFrom(words).Draw(t, "answer")}, Start: []int{0}}
		pred["text"] = rapid.SampledFrom(words).Draw(t, "text")
	default:
		row.Label, pred["label"] = rapid.SampledFrom(labels).Draw(t, "gold"), rapid.SampledFrom(labels).Draw(t, "label")
	}
	line, err := json.Marshal(pred)
	if err != nil {
		t.Fatal(err)
	}
	return row, line
}

// TestCounts: sums of counts give the scores that samples get row by row; and
// scores are in their range and do not depend on the order of the rows.
func TestCounts(t *testing.T) {
	for _, task := range all.All() {
		if task.Info().Name == "speed" {
			s, err := task.Prepare(datasets.Meta{}, nil, nil, tasks.Rules{})
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := s.Counts("inferences_per_second"); ok {
				t.Error("a speed has counts")
			}
			continue
		}
		t.Run(task.Info().Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(1, 12).Draw(t, "rows")
				var test []datasets.Row
				var pred []json.RawMessage
				for i := range n {
					row, line := drawn(t, task, task.Labels(datasets.Meta{}), fmt.Sprint(i))
					test, pred = append(test, row), append(pred, line)
				}
				rows := rapid.SliceOfN(rapid.IntRange(0, n-1), n, n).Draw(t, "sample")
				s, err := task.Prepare(datasets.Meta{}, test, pred, tasks.Rules{})
				if err != nil {
					t.Fatal(err)
				}
				want, err := s.Sample(rows)
				if err != nil {
					t.Fatal(err)
				}
				shuffled, err := s.Sample(rapid.Permutation(rows).Draw(t, "order"))
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range task.Info().Metrics {
					c, ok := s.Counts(m.Name)
					if !ok {
						t.Fatalf("no counts for %s", m.Name)
					}
					every := make([]int, n)
					for i := range every {
						every[i] = i
					}
					items, err := c.Items(every)
					if err != nil {
						t.Fatal(err)
					}
					tolerance := 0.0
					if m.Name == "f1" {
						tolerance = 1e-11 // shares are kept to 2⁻⁴⁰
					}
					if got := items.Score(rows); math.Abs(got-want[m.Name].X) > tolerance || want[m.Name].Undefined != "" {
						t.Fatalf("%s by counts is %v, by rows %v", m.Name, got, want[m.Name])
					}
					if want[m.Name] != shuffled[m.Name] {
						t.Fatalf("%s depends on the order of rows: %v, %v", m.Name, want[m.Name], shuffled[m.Name])
					}
					if x := want[m.Name].X; x < m.Lo || x > m.Hi {
						t.Fatalf("%s is %v, outside of [%v, %v]", m.Name, x, m.Lo, m.Hi)
					}
					if v := c.Score(0, make([]uint64, c.Fields)); v.Undefined == "" {
						t.Fatalf("%s of no rows is %v", m.Name, v.X)
					}
				}
				if _, ok := s.Counts("none"); ok {
					t.Fatal("a metric that there is not has counts")
				}
			})
		})
	}
}

// TestPool: a sample of a pool that takes all items from one run is that run's
// score, and one that takes some from another is that of the mixed predictions.
func TestPool(t *testing.T) {
	task, err := all.Lookup("sentiment")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "rows")
		labels := task.Labels(datasets.Meta{})
		test := make([]datasets.Row, n)
		pred := make([][]json.RawMessage, 2)
		for i := range test {
			test[i] = datasets.Row{ID: fmt.Sprint(i), Text: "x", Label: rapid.SampledFrom(labels).Draw(t, "gold")}
			for run := range pred {
				pred[run] = append(pred[run], json.RawMessage(fmt.Sprintf(`{"id": "%d", "label": %q}`, i, rapid.SampledFrom(labels).Draw(t, "label"))))
			}
		}
		var runs []tasks.Counts
		for _, p := range pred {
			s, err := task.Prepare(datasets.Meta{}, test, p, tasks.Rules{})
			if err != nil {
				t.Fatal(err)
			}
			c, _ := s.Counts("mcc")
			runs = append(runs, c)
		}
		skip := rapid.IntRange(0, 1).Draw(t, "skip") // the first row may be one that is not scored
		var rows, items []int
		mixed := make([]json.RawMessage, n)
		copy(mixed, pred[0])
		for i := skip; i < n; i++ {
			rows = append(rows, i)
		}
		for at, row := range rows {
			run := rapid.IntRange(0, 1).Draw(t, "run")
			items, mixed[row] = append(items, run*len(rows)+at), pred[run][row]
		}
		pool, err := tasks.Pool(runs, rows)
		if err != nil {
			t.Fatal(err)
		}
		want, err := task.Score(datasets.Meta{}, test, mixed, rows, tasks.Rules{})
		if err != nil {
			t.Fatal(err)
		}
		if got := pool.Score(items); got != want["mcc"].X {
			t.Fatalf("%v, want %v", got, want["mcc"])
		}
	})
}
