package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/runner/job"
	"bench/scoring/results"

	"github.com/klauspost/compress/zstd"
)

// cli runs bench as a process of its own, on one HOME.
type cli struct {
	t     testing.TB
	home  string
	env   []string      // further variables
	limit time.Duration // of each command; 0: 5 minutes
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
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(p.limit, 5*time.Minute))
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
		if strings.HasPrefix(filepath.Base(filepath.Dir(path)), ".") { // being written
			continue
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) { // moved or removed since it was listed
			continue
		}
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

// fakePython is a --python that keeps to the trainer protocol without Python: it
// learns nothing and predicts the first label. settings are variables of standin.Main.
func fakePython(t *testing.T, settings ...string) (python, log string) {
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
