//go:build linux

package process

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/runner/job"
)

// The real trainer, in the first Python of BENCH_TEST_PYTHONS, trains a tiny
// model on a few sentences.
func TestRealTrainer(t *testing.T) {
	t.Parallel()
	pythons := filepath.SplitList(os.Getenv("BENCH_TEST_PYTHONS"))
	if len(pythons) == 0 {
		missing(t, "python", "BENCH_TEST_PYTHONS names no Python with torch and transformers")
	}
	trainer := filepath.Join("..", "..", "containers", "trainer", "src")
	d := newDir(t)
	data := filepath.Join(d.In(), "data", "mood")
	if err := os.MkdirAll(data, 0o777); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const tests = 12
	for split, n := range map[string]int{"train": 64, "val": 16, "test": tests} {
		text := ""
		for i := range n {
			row := map[string]any{"id": fmt.Sprintf("%s-%d", split, i), "text": fmt.Sprintf("maden på café nummer %d var dejlig", i), "label": "positive"}
			if i%2 == 1 {
				row["text"], row["label"] = fmt.Sprintf("maden på café nummer %d var fæl", i), "negative"
			}
			if split == "test" {
				delete(row, "label")
			}
			line, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			text += string(line) + "\n"
		}
		write(filepath.Join(data, split+".jsonl"), text)
	}
	p, err := job.NewProtocol("smoke", []string{"max_steps=30"})
	if err != nil {
		t.Fatal(err)
	}
	id := job.ID("9c1f185a5c5e9fc54612808977ee8f548b2258d31f4d3a3b1d5a5a0a6b8f0c11")
	b := job.Batch{
		Version: job.ProtocolVersion, ID: job.BatchID([]job.ID{id}), Model: job.Model{ID: "fresh:tiny", Fresh: "tiny"},
		Datasets: []job.Dataset{{Name: "mood", Task: "sentiment", Head: "sequence-classification",
			Labels: []string{"negative", "neutral", "positive"}, Languages: []string{"da"}, Dir: "data/mood"}},
		Hyperparameters: p.Hyperparameters, Jobs: []job.Job{{ID: id, Dataset: "mood", Seed: job.FirstSeed}}, Device: "cpu", Threads: 1,
	}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(d.In(), "batch.json"), string(text))
	x := wait(t, start(t, New(Options{Python: pythons[0], Trainer: trainer}), b, d))
	if x != (job.Exit{}) {
		t.Fatalf("exit is %+v; log:\n%s", x, read(t, d.Log()))
	}
	var o job.TrainerOutcome
	if err := json.Unmarshal([]byte(read(t, filepath.Join(d.Out(), string(id), "outcome.json"))), &o); err != nil {
		t.Fatal(err)
	}
	if o.State != job.OK || o.Steps < 1 || o.Threads != 1 {
		t.Errorf("outcome is %+v", o)
	}
	predictions := read(t, filepath.Join(d.Out(), string(id), "predictions.jsonl"))
	if n := strings.Count(predictions, "\n"); n != tests {
		t.Errorf("%d predictions, want %d", n, tests)
	}
}
