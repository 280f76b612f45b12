package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/internal/atomicfile"
	"bench/runner/job"
	"bench/scoring/results"

	"github.com/klauspost/compress/zstd"
)

// cli runs bench as a process of its own, on one HOME.
type cli struct {
	t    testing.TB
	home string
	env  []string // further variables
}

func newCLI(t testing.TB) *cli {
	t.Helper()
	return &cli{t: t, home: filepath.Join(t.TempDir(), "home")}
}

// command is not started yet. No test waits longer than its context.
func (p *cli) command(args ...string) *exec.Cmd {
	p.t.Helper()
	path, err := exec.LookPath("bench") // TestMain puts it into PATH
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	p.t.Cleanup(cancel)
	c := exec.CommandContext(ctx, path, args...)
	c.Dir = p.t.TempDir()
	c.Env = append(os.Environ(), "BENCH_HOME="+p.home, "DOCKER_HOST=unix:///nonexistent.sock", "HF_HUB_OFFLINE=1")
	c.Env = append(c.Env, p.env...)
	return c
}

// result is what a run of the program left.
type result struct {
	code           int
	stdout, stderr string
	wall           time.Duration
}

func (p *cli) try(args ...string) result {
	p.t.Helper()
	var out, errs bytes.Buffer
	c := p.command(args...)
	c.Stdout, c.Stderr = &out, &errs
	begun := time.Now()
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return result{c.ProcessState.ExitCode(), out.String(), errs.String(), time.Since(begun)}
}

// run fails the test unless the program ends with this code.
func (p *cli) run(code int, args ...string) result {
	p.t.Helper()
	r := p.try(args...)
	if r.code != code {
		p.t.Fatalf("bench %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.stdout, r.stderr)
	}
	return r
}

// has checks that text says what it should.
func has(t testing.TB, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in\n%s", w, text)
		}
	}
}

// stored returns the files of this name of all jobs, by the job's id.
func (p *cli) stored(name string) map[job.ID][]byte {
	p.t.Helper()
	return files(p.t, filepath.Join(p.home, "jobs", "*", "*", name))
}

// files reads what pattern matches: the content by the name of the folder.
func files(t testing.TB, pattern string) map[job.ID][]byte {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	out := map[job.ID][]byte{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[job.ID(filepath.Base(filepath.Dir(path)))] = b
	}
	return out
}

// predictions returns the stored predictions, unpacked.
func (p *cli) predictions() map[job.ID]string {
	p.t.Helper()
	z, err := zstd.NewReader(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	defer z.Close()
	out := map[job.ID]string{}
	for id, b := range p.stored("predictions.jsonl.zst") {
		text, err := z.DecodeAll(b, nil)
		if err != nil {
			p.t.Fatalf("predictions of %s: %v", id.Short(), err)
		}
		out[id] = string(text)
	}
	return out
}

// records reads the log of results, which must be whole.
func (p *cli) records() []results.Record {
	p.t.Helper()
	rs, warnings, err := results.Open(p.home).Read()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, w := range warnings {
		p.t.Errorf("log: %v", w)
	}
	return rs
}

// noBatches checks that nothing is left of what ran.
func (p *cli) noBatches() {
	p.t.Helper()
	left, err := filepath.Glob(filepath.Join(p.home, "batches", "[^.]*"))
	if err != nil || len(left) > 0 {
		p.t.Errorf("batches are left: %v, %v", left, err)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

// standin is a --python that keeps to the trainer protocol without Python: it
// learns nothing and predicts the first label. settings are variables of standIn.
func standin(t *testing.T, settings ...string) (python, log string) {
	t.Helper()
	path, err := exec.LookPath("standin-trainer")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log = filepath.Join(dir, "starts")
	python = filepath.Join(dir, "python")
	script := fmt.Sprintf("#!/bin/sh\nexec env STANDIN_LOG='%s' %s '%s' \"$@\"\n", log, strings.Join(settings, " "), path)
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return python, log
}

// starts counts how often each job was begun, by the stand-in's log.
func starts(t *testing.T, log string) map[job.ID]int {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	out := map[job.ID]int{}
	for _, id := range strings.Fields(string(b)) {
		out[job.ID(id)]++
	}
	return out
}

// standIn is the main function of the trainer that standin describes. Its
// environment: STANDIN_LOG, a file that gets the id of each job that is begun;
// STANDIN_PAUSE, how long a job takes; STANDIN_DIE, a file: if it is not there,
// it is made and the trainer kills itself in the middle of a job; STANDIN_ENV:
// its environment goes to the log.
func standIn() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "stand-in:", err)
			os.Exit(job.ExitTrainer)
		}
	}
	if len(os.Args) > 2 && os.Args[1] == "-c" { // which versions do you have? (models.go)
		versions := map[string]string{}
		for _, name := range os.Args[3:] {
			versions[name] = "0"
		}
		fail(json.NewEncoder(os.Stdout).Encode(versions))
		os.Exit(0)
	}
	pause, err := time.ParseDuration("0s" + os.Getenv("STANDIN_PAUSE"))
	fail(err)
	if len(os.Args) != 7 || os.Args[1] != "-m" {
		fail(fmt.Errorf("arguments %q", os.Args[1:]))
	}
	if os.Getenv("STANDIN_ENV") != "" {
		fmt.Fprintln(os.Stderr, strings.Join(os.Environ(), "\n")) // to the log that is kept
	}
	in, out := filepath.Dir(os.Args[4]), os.Args[6]
	text, err := os.ReadFile(os.Args[4])
	fail(err)
	var b job.Batch
	fail(json.Unmarshal(text, &b))
	events := json.NewEncoder(os.Stdout)
	for _, j := range b.Jobs {
		if _, err := os.Stat(filepath.Join(out, string(j.ID), "outcome.json")); err == nil {
			continue
		}
		events.Encode(map[string]any{"event": "start", "job": j.ID, "dataset": j.Dataset, "seed": j.Seed})
		log, err := os.OpenFile(os.Getenv("STANDIN_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		fail(err)
		fmt.Fprintln(log, j.ID)
		fail(log.Close())
		time.Sleep(pause)
		if flag := os.Getenv("STANDIN_DIE"); flag != "" {
			if f, err := os.OpenFile(flag, os.O_CREATE|os.O_EXCL, 0o666); err == nil {
				f.Close()
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				time.Sleep(time.Minute)
			}
		}
		events.Encode(map[string]any{"event": "eval", "job": j.ID, "step": 7, "loss": 0.5})
		for _, d := range b.Datasets {
			if d.Name == j.Dataset {
				fail(guess(in, out, d, j))
			}
		}
		events.Encode(map[string]any{"event": "job-done", "job": j.ID, "state": job.OK, "failure": ""})
	}
}

// guess writes predictions and outcome of one job.
func guess(in, out string, d job.Dataset, j job.Job) error {
	rows, err := os.ReadFile(filepath.Join(in, d.Dir, "test.jsonl"))
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	to := json.NewEncoder(&lines)
	for line := range bytes.Lines(rows) {
		var row struct {
			ID     string   `json:"id"`
			Tokens []string `json:"tokens"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		guess := map[string]any{"id": row.ID}
		switch d.Head {
		case "token-classification":
			labels := make([]string, len(row.Tokens))
			for i := range labels {
				labels[i] = "O"
			}
			guess["labels"] = labels
		case "question-answering":
			guess["text"], guess["score"] = "", 0
		default:
			guess["label"] = d.Labels[0]
		}
		if err := to.Encode(guess); err != nil {
			return err
		}
	}
	dir := filepath.Join(out, string(j.ID))
	if err := atomicfile.WriteBytes(filepath.Join(dir, "predictions.jsonl"), lines.Bytes()); err != nil {
		return err
	}
	o, err := json.Marshal(job.TrainerOutcome{
		Version: job.ProtocolVersion, Job: j.ID, State: job.OK, Steps: 7, BestStep: 7, Device: "cpu", Precision: "fp32",
		Seconds: map[string]float64{"train": float64(time.Now().UnixMicro()%1e6) / 1e6}, // tells two runs of a job apart
	})
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, "outcome.json"), o)
}

// jsonLines reads JSON lines.
func jsonLines(t testing.TB, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(text) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, e)
	}
	return out
}
