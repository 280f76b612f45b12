package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// program is the compiled bench, shared by the tests that start it themselves.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bench-program-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bench")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// engineWithImage skips or fails unless an engine answers, and builds the
// trainer's image on it: seconds if its layers are in the engine's cache, some
// minutes else.
func engineWithImage(t *testing.T) string {
	t.Helper()
	bench, err := program()
	if err != nil {
		t.Fatal(err)
	}
	need(t, "docker", exec.Command("docker", "version").Run() == nil, "no Docker engine answers")
	base := os.Getenv("BENCH_TEST_BASE")
	need(t, "docker", base != "", "BENCH_TEST_BASE does not name a base image")
	imageOnce.Do(func() {
		out, err := exec.Command(bench, "image", "build", "--base", base, "--ca-bundle", caBundle()).CombinedOutput()
		if err != nil {
			imageErr = fmt.Errorf("%w\n%s", err, out[max(0, len(out)-4000):])
		}
	})
	if imageErr != nil {
		t.Fatal(imageErr)
	}
	return bench
}

var (
	imageOnce sync.Once
	imageErr  error
)

// caBundle is a file of certificates; that of the machine, so that the option
// is tried with one that works.
func caBundle() string {
	for _, path := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return os.DevNull
}

// firstPython is the Python of the process executor's tests.
func firstPython(t *testing.T) string {
	t.Helper()
	python, _, _ := strings.Cut(os.Getenv("BENCH_TEST_PYTHONS"), ":")
	need(t, "python", python != "", "BENCH_TEST_PYTHONS names no Python with torch and transformers")
	return python
}

// execute runs bench and returns its exit code and what it wrote.
func execute(t *testing.T, bench string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(bench, args...)
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// A tiny model learns all four tasks in a container and in a process, and gives
// the same bytes in both: same torch, same seed, same machine.
func TestContainerAndProcessAgree(t *testing.T) {
	bench, python := engineWithImage(t), firstPython(t)
	floor := map[string]float64{"sample-ner": 60, "sample-sentiment": 90, "sample-acceptability": 60, "sample-qa": 30}
	homes := map[string]string{"docker": t.TempDir(), "process": t.TempDir()}
	for executor, home := range homes {
		args := []string{"run", "fresh:tiny", "--suite", "sample", "--protocol", "smoke", "--seeds", "1", "--threads", "1",
			"--executor", executor, "--home", home, "--json"}
		if executor == "process" {
			args = append(args, "--python", python)
		}
		begun := time.Now()
		code, stdout, stderr := execute(t, bench, args...)
		if code != 0 {
			t.Fatalf("%s: exit code %d\n%s", executor, code, stderr)
		}
		t.Logf("%s: %.0f s", executor, time.Since(begun).Seconds())
		for line := range strings.Lines(stdout) {
			var e struct {
				Type, Dataset string
				Record        struct {
					Summary    map[string]struct{ Mean float64 }
					Replicates []struct{ Device, Executor string }
				}
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if e.Type != "record" {
				continue
			}
			primary := map[string]string{"sample-ner": "micro_f1", "sample-sentiment": "mcc", "sample-acceptability": "mcc", "sample-qa": "em"}[e.Dataset]
			mean := e.Record.Summary[primary].Mean
			t.Logf("%s: %s %s %.2f", executor, e.Dataset, primary, mean)
			if mean < floor[e.Dataset] {
				t.Errorf("%s: %s is %.2f, want at least %.0f", executor, e.Dataset, mean, floor[e.Dataset])
			}
			if r := e.Record.Replicates[0]; r.Executor != executor || r.Device == "" {
				t.Errorf("the record says %+v", r)
			}
		}
	}
	for executor, home := range homes {
		if executor == "process" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(home, "jobs", "*", "*", "predictions.jsonl.zst"))
		if err != nil || len(files) != 4 {
			t.Fatalf("%d predictions, %v", len(files), err)
		}
		for _, f := range files {
			rel, _ := filepath.Rel(home, f)
			a, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(homes["process"], rel))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a, b) {
				t.Errorf("predictions of job %s differ between container and process", filepath.Base(filepath.Dir(f)))
			}
		}
	}
}

// hostileModel makes a model folder whose own code tries to get out. Its type is
// one that transformers knows, or one that only its own code defines.
func hostileModel(t *testing.T, modelType string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hostile")
	source := filepath.Join(shared(t), "golden", "peer", "models", "bert")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("chmod", "-R", "u+w", dir).Run(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(b, &config); err != nil {
		t.Fatal(err)
	}
	config["model_type"] = modelType
	config["auto_map"] = map[string]string{"AutoConfig": "modeling_hostile.HostileConfig", "AutoModelForSequenceClassification": "modeling_hostile.Hostile"}
	if b, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(filepath.Join("testdata", "modeling_hostile.py"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "modeling_hostile.py"), code, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The code of a model, allowed to run, finds no network, no writable root, no
// privileges, no token, no socket, no gold labels. Not allowed, it is not run.
func TestHostileModel(t *testing.T) {
	bench := engineWithImage(t)
	t.Setenv("HF_TOKEN", "hf_secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret too")
	run := func(model string, more ...string) (code int, stderr, home string) {
		home = t.TempDir()
		code, _, stderr = execute(t, bench, append([]string{"run", model, "--home", home, "--dataset", "sample-sentiment", "--protocol", "smoke",
			"--set", "max_steps=30", "--seeds", "1", "--threads", "1"}, more...)...)
		return code, stderr, home
	}

	// A type that transformers has is trained by transformers' own code.
	code, stderr, home := run(hostileModel(t, "bert"), "--executor", "docker")
	if code != 0 {
		t.Fatalf("known type, without the flag: exit code %d\n%s", code, stderr)
	}
	if log := trainerLog(t, home); strings.Contains(log, "HOSTILE") {
		t.Errorf("the model's code ran without --allow-remote-code:\n%s", log)
	}

	model := hostileModel(t, "hostile-bert")
	code, stderr, home = run(model, "--executor", "docker")
	if code != exitFailed || !strings.Contains(stderr, "unsupported") || !strings.Contains(stderr, "--allow-remote-code") {
		t.Errorf("own type, without the flag: exit code %d\n%s", code, stderr)
	}
	if log := trainerLog(t, home); strings.Contains(log, "HOSTILE") {
		t.Errorf("the model's code ran without --allow-remote-code:\n%s", log)
	}

	code, stderr, home = run(model, "--executor", "docker", "--allow-remote-code")
	if code != 0 {
		t.Fatalf("with the flag: exit code %d\n%s", code, stderr)
	}
	log := trainerLog(t, home)
	for _, what := range []string{"network", "resolve", "write root", "write input", "write model", "root user", "capabilities", "new privileges", "token", "docker socket", "gold labels", "host files"} {
		if !strings.Contains(log, "HOSTILE "+what+": refused") {
			t.Errorf("%q was not refused:\n%s", what, log)
		}
	}
	if strings.Contains(log, ": DONE") {
		t.Errorf("something was not refused:\n%s", log)
	}

	// Outside of a container such code never runs.
	code, stderr, _ = run(model, "--executor", "process", "--allow-remote-code")
	if code != exitUsage || !strings.Contains(stderr, "not run outside of a container") {
		t.Errorf("process: exit code %d\n%s", code, stderr)
	}
}

func trainerLog(t *testing.T, home string) string {
	t.Helper()
	ended, err := filepath.Glob(filepath.Join(home, "jobs", "*", "*", "outcome.json"))
	if err != nil || len(ended) != 1 {
		t.Fatalf("%d jobs ended in %s: %v", len(ended), home, err)
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(ended[0]), "trainer.log"))
	if err != nil && !os.IsNotExist(err) { // a trainer that says nothing leaves no log
		t.Fatal(err)
	}
	return string(b)
}

// A container that may use too little memory ends as out of memory, with advice
// and exit code 1; given more, the same command trains.
func TestContainerOutOfMemory(t *testing.T) {
	bench := engineWithImage(t)
	home := t.TempDir()
	args := []string{"run", "fresh:tiny", "--dataset", "sample-sentiment", "--protocol", "smoke", "--set", "max_steps=30", "--seeds", "1", "--threads", "1", "--executor", "docker", "--home", home}
	code, _, stderr := execute(t, bench, append(args, "--memory", "100m")...)
	if code != exitFailed || !strings.Contains(stderr, "oom") || !strings.Contains(stderr, "--memory") {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	code, _, stderr = execute(t, bench, args...)
	if code != 0 {
		t.Errorf("with memory enough: exit code %d\n%s", code, stderr)
	}
}
