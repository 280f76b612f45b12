package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/internal/atomicfile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// The trainer itself in its own image, on rows made here: it trains, leaves
// nothing behind, and sees no gold. Heavy: it needs the image, and runs by
// name of it:
//
//	BENCH_TEST_TRAINER_IMAGE=bench-trainer:… go test -run RealTrainer ./runner/docker
func TestRealTrainer(t *testing.T) {
	image := os.Getenv("BENCH_TEST_TRAINER_IMAGE")
	if image == "" {
		t.Skip("heavy: set BENCH_TEST_TRAINER_IMAGE to an image of the trainer")
	}
	l := newLab(t)
	l.o.Image, l.o.Limits = image, runner.Limits{MemoryBytes: 4 << 30}
	d := l.dir()
	b := runnertest.WriteBatch(t, d, 1, stub.Script{})
	if err := os.Remove(filepath.Join(d.In(), stub.ScriptFile)); err != nil {
		t.Fatal(err)
	}
	b.Model = job.Model{ID: "fresh:tiny", Fresh: "tiny"}
	p, err := job.NewProtocol("smoke", nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Hyperparameters = p.Hyperparameters
	b.Hyperparameters.MaxSteps = 60
	b.Datasets[0].Labels, b.Datasets[0].Task = []string{"negative", "positive"}, "sentiment"
	good, bad := []string{"dejlig", "skøn", "glad"}, []string{"trist", "grim", "sur"}
	row := func(i int) (text, label string) {
		if i%2 == 0 {
			return fmt.Sprintf("Hunden nummer %d er %s i dag.", i, good[i/2%3]), "positive"
		}
		return fmt.Sprintf("Katten nummer %d er %s i dag.", i, bad[i/2%3]), "negative"
	}
	for split, n := range map[string]int{"train": 200, "val": 40, "test": 60} {
		var rows strings.Builder
		for i := range n {
			text, label := row(i)
			r := map[string]string{"id": fmt.Sprint(i), "text": text, "label": label}
			if split == "test" {
				delete(r, "label")
			}
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			rows.Write(append(line, '\n'))
		}
		if err := atomicfile.WriteBytes(filepath.Join(d.In(), "data", "none", split+".jsonl"), []byte(rows.String())); err != nil {
			t.Fatal(err)
		}
	}
	h, err := l.open().Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	x, err := h.Wait(t.Context())
	if err != nil || x.Code != 0 {
		t.Fatalf("exit %+v, %v\n%s", x, err, l.read(d.Log()))
	}
	var o job.TrainerOutcome
	if err := json.Unmarshal([]byte(l.read(outcome(d, b.Jobs[0]))), &o); err != nil || o.State != job.OK {
		t.Fatalf("outcome %+v, %v\n%s", o, err, l.read(d.Log()))
	}
	right := 0
	lines := strings.Split(strings.TrimSpace(l.read(filepath.Join(d.Out(), string(b.Jobs[0].ID), kept.Predictions))), "\n")
	for i, line := range lines {
		var p struct{ ID, Label string }
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		if _, label := row(i); p.Label == label && p.ID == fmt.Sprint(i) {
			right++
		}
	}
	t.Logf("%d of %d right after %d steps; %v seconds, %v MB, versions %v; %+v", right, len(lines), o.Steps, o.Seconds, o.PeakMemoryMB, o.Versions, h.Where())
	if len(lines) != 60 || right < 50 {
		t.Errorf("%d of %d predictions are right", right, len(lines))
	}
}
