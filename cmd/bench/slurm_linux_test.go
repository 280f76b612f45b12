package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/datasets/hub/hubtest"
	"bench/runner/slurm/slurmtest"
)

// slurmCluster is a real Slurm for one test.
func slurmCluster(t *testing.T) *slurmtest.Cluster {
	t.Helper()
	slurmtest.Need(t)
	c, err := slurmtest.Up()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Down)
	return c
}

// localModels makes n folders that pass for models, and differ.
func localModels(t *testing.T, n int) []string {
	t.Helper()
	var paths []string
	for i := range n {
		dir := filepath.Join(t.TempDir(), fmt.Sprint("model", i))
		files := hubtest.Model()
		files["model.safetensors"] = hubtest.Safetensors(64, byte(i))
		for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o666); err != nil {
				t.Fatal(err)
			}
		}
		paths = append(paths, dir)
	}
	return paths
}

// A sweep of 6 models on 4 data sets with 3 seeds on Slurm, whose bench is
// killed again and again: every job runs once, and all predictions are those of
// an undisturbed run in processes.
func TestSlurmSweepSurvives(t *testing.T) {
	c := slurmCluster(t)
	python, log := fakePython(t, fmt.Sprintf("STANDIN_PAUSE=%dms", 80*kills(t))) // work enough for so many kills
	models := localModels(t, 6)
	whole := newCLI(t)
	quick, _ := fakePython(t)
	whole.run(0, append([]string{"run", "--suite", "sample", "--seeds", "3", "--slots", "4", "--executor", "process", "--python", quick}, models...)...)

	file := filepath.Join(t.TempDir(), "sweep.yaml")
	text := "suite: sample\nseeds: 3\nexecutor: slurm\npython: " + python + "\nmemory: 200m\ndevice: cpu\nslurm:\n  partition: gpu\n  poll: 500ms\n  options: [--nice=10]\nmodels:\n"
	for _, m := range models {
		text += "  - " + m + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	p := newCLI(t)
	p.env = []string{"SLURM_CONF=" + c.Conf}
	l := &ledger{p: p}
	last, _ := p.soak(kills(t), 1200*time.Millisecond, l.look, "sweep", file)
	l.complete(72, 6*4, whole.predictions())
	if n := strings.Count(last.stdout, "sample-ner"); n != 6 {
		t.Errorf("%d rows for sample-ner, want 6\n%s", n, last.stdout)
	}
	begun := starts(t, log)
	for id, n := range begun {
		if n != 1 {
			t.Errorf("job %s was begun %d times", id.Short(), n)
		}
	}
	if len(begun) != 72 {
		t.Errorf("%d jobs were begun, want 72", len(begun))
	}
	if out, err := c.Run("squeue", "--noheader"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("left in Slurm: %s %v", out, err)
	}
}

// A real training on a node of Slurm gives the same bytes as one in a process.
func TestSlurmAndProcessAgree(t *testing.T) {
	c := slurmCluster(t)
	python := firstPython(t)
	want, got := newCLI(t), newCLI(t)
	got.env = []string{"SLURM_CONF=" + c.Conf}
	args := []string{"run", "fresh:tiny", "--suite", "sample", "--protocol", "smoke", "--set", "max_steps=30", "--seeds", "1", "--threads", "1", "--device", "cpu", "--python", python, "--executor"}
	want.run(0, append(args, "process")...)
	r := got.run(0, append(args, "slurm", "--memory", "3g", "--slurm-poll", "500ms")...)
	has(t, r.stderr, "without a container, so without a sandbox")
	if a, b := want.predictions(), got.predictions(); len(a) != 4 || !maps.Equal(a, b) {
		t.Errorf("%d and %d predictions, which are not the same", len(a), len(b))
	}
	for _, rec := range got.records() {
		if x := rec.Replicates[0]; x.Executor != "slurm" || x.Host != "sandpit/gpu" {
			t.Errorf("the record says %+v", x)
		}
	}
}

// Ctrl-C leaves a batch in Slurm; bench gc ends it. What Slurm cannot do is exit
// code 4, with a remedy.
func TestSlurmEndings(t *testing.T) {
	c := slurmCluster(t)
	python, _ := fakePython(t, "STANDIN_PAUSE=60s")
	p := newCLI(t)
	p.env = []string{"SLURM_CONF=" + c.Conf}
	args := []string{"run", "fresh:tiny", "--suite", "sample", "--seeds", "1", "--executor", "slurm", "--python", python, "--slurm-poll", "500ms"}
	cmd := p.command(args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the batch runs", func() bool {
		out, err := c.Run("squeue", "--noheader", "--states=RUNNING", "--format=%j")
		return err == nil && strings.HasPrefix(out, "bench-")
	})
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit code %d, want 130", got)
	}
	has(t, p.run(0, "gc").stdout, "1 batches stopped")
	if out, err := c.Run("squeue", "--noheader"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("left in Slurm: %s %v", out, err)
	}
	p.noBatches()

	has(t, p.try("doctor").stdout, "ok       slurm", "sandpit/gpu: nodes: 2 ", "gpu:2")
	away := newCLI(t)
	away.env = []string{"SLURM_CONF=/nonexistent/slurm.conf"}
	has(t, away.try("doctor").stdout, "missing  slurm", "point SLURM_CONF at")

	for _, test := range []struct {
		env, arg, says string
	}{
		{"", "--slurm-partition=nosuch", "choose one with --slurm-partition: gpu"},
		{"", "--slurm-option=--nonsense", "look at the options given with --slurm-option"},
		{"SLURM_CONF=/nonexistent/slurm.conf", "--slurm-partition=gpu", "which is not there"},
		{"PATH=" + filepath.Dir(python), "--slurm-partition=gpu", "there is no Slurm here"},
		{"", "--timeout=500h", "would never start job"},
		{"", "--image=model.zip", "for Slurm, --image is a file"},
	} {
		q := newCLI(t)
		q.env = append(p.env, test.env)
		also := args
		if strings.HasPrefix(test.arg, "--image") {
			also = args[:len(args)-4] // without --python
		}
		r := q.run(4, append(append([]string{}, also...), test.arg)...)
		has(t, r.stderr, test.says, "bench: hint:")
		if r.wall > 15*time.Second {
			t.Errorf("%s: it took %v to say so", test.arg, r.wall)
		}
	}
}
