package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/scoring/results"
)

// A run leaves one journal, which a person is told of; what the screen said and
// what happened is in it.
func TestJournal(t *testing.T) {
	p := newCLI(t)
	sweep := filepath.Join(t.TempDir(), "my models.yaml")
	writeFile(t, sweep, "models: [baseline:majority]\nsuite: sample\nseeds: 2\n")
	r := p.run(0, "sweep", sweep)
	paths, err := filepath.Glob(filepath.Join(p.home, "logs", "my models-2*Z.jsonl"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("journals: %v, %v", paths, err)
	}
	has(t, r.stderr, "bench: the log of this run is "+paths[0])
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, e := range jsonLines(t, string(text)) {
		kind := e["type"].(string)
		n[kind]++
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(e["time"])); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if kind == "record" && e["record"] != nil {
			t.Error("a record is in the journal as a whole")
		}
	}
	for kind, want := range map[string]int{"begin": 1, "plan": 1, "job": 8, "record": 4, "start": 2, "end": 2, "summary": 1} {
		if n[kind] != want {
			t.Errorf("%d lines of type %s, want %d", n[kind], kind, want)
		}
	}
	if strings.Contains(string(text), "truncated") || !strings.HasPrefix(string(text), `{"bench":`) {
		t.Errorf("%.300s", text)
	}
}

// A journal is bounded, and so are the journals of a home.
func TestJournalBounds(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range keepJournal + 20 {
		path := filepath.Join(home, "logs", fmt.Sprintf("old-%03d.jsonl", i))
		writeFile(t, path, "{}\n")
		at := time.Now().Add(time.Duration(i-1000) * time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	j, err := openJournal(home, "run", nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := openJournal(home, "run", nil) // in the same second
	if err != nil || other.path == j.path {
		t.Fatalf("%v, %s", err, j.path)
	}
	left, err := filepath.Glob(filepath.Join(home, "logs", "*.jsonl"))
	if err != nil || len(left) != keepJournal || filepath.Base(left[0]) != "old-022.jsonl" {
		t.Errorf("%d journals are left, from %s on, %v", len(left), left[0], err)
	}
	long := strings.Repeat("x", 1<<20)
	for range 80 {
		j.event(runner.Event{Type: "progress", Message: long})
	}
	if j.bytes > maxJournal*3/4+2<<20 {
		t.Errorf("progress alone made it %d bytes", j.bytes)
	}
	for range 80 {
		j.event(runner.Event{Type: "warning", Message: long})
	}
	if err := j.close(runner.Report{Total: 3}, io.ErrUnexpectedEOF); err != nil {
		t.Fatal(err)
	}
	i, err := os.Stat(j.path)
	if err != nil || i.Size() > maxJournal+1<<10 {
		t.Errorf("%d bytes, %v", i.Size(), err)
	}
	f, err := os.Open(j.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 2<<20)
	var last [2]string
	for in.Scan() {
		last[0], last[1] = last[1], in.Text()
	}
	if !strings.Contains(last[0], `"truncated"`) || !strings.Contains(last[1], `"error":"unexpected EOF"`) || !strings.Contains(last[1], `"jobs":3`) {
		t.Errorf("it ends with\n%.200s\n%.200s", last[0], last[1])
	}
}

// What Prometheus reads: its text format, with numbers that add up.
func TestMetrics(t *testing.T) {
	g := newGauges(func() int { return 2 })
	at, stop, err := serveMetrics("localhost:0", g)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	one, two := runner.Where{Executor: "docker", Host: "a\"b\\c\nd", GPUs: []string{"GPU-1"}}, runner.Where{Executor: "slurm", Host: "n1", GPUs: []string{"GPU-2", "GPU-3"}}
	for _, e := range []runner.Event{
		{Type: "plan", Done: 3, Total: 20},
		{Type: "start", Batch: "1", Where: &one, Total: 4},
		{Type: "attach", Batch: "2", Where: &two, Total: 5},
		{Type: "job", Batch: "1", State: job.OK, Seconds: 10, Where: &one, Used: &results.Usage{GPUSeconds: 9}},
		{Type: "job", Batch: "2", State: job.Failed, Failure: job.FailureOOM, Seconds: 2.5, Where: &two, Used: &results.Usage{GPUSeconds: 3}},
		{Type: "lost", Used: &results.Usage{GPUSeconds: 7}},
		{Type: "job", Batch: "2", State: job.OK, Seconds: 0, Where: &two, Used: &results.Usage{}},
		{Type: "warning"},
		{Type: "start", Batch: "3", Where: &one, Total: 4},
		{Type: "end", Batch: "3"},
	} {
		g.event(e)
	}
	res, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatal(err, res.Header)
	}
	text := string(body)
	has(t, text,
		"# HELP bench_jobs Jobs of this run by state", "# TYPE bench_jobs gauge\n",
		"bench_jobs{state=\"cached\"} 3\n", "bench_jobs{state=\"ok\"} 2\n", "bench_jobs{state=\"failed\"} 1\n", "bench_jobs{state=\"started\"} 6\n", "bench_jobs{state=\"waiting\"} 8\n",
		"bench_failures_total{kind=\"oom\"} 1\n", "bench_slots 2\n", "bench_gpus 3\n", "bench_job_seconds_total 12.5\n", "bench_gpu_seconds_total 12\n", "bench_lost_gpu_seconds_total 7\n", "bench_warnings_total 1\n",
		`bench_batches{executor="docker",host="a\"b\\c\nd"} 1`+"\n", `bench_batches{executor="slurm",host="n1"} 1`+"\n",
	)
	for line := range strings.Lines(text) { // every sample has a number at its end
		if fields := strings.Fields(line); !strings.HasPrefix(line, "#") {
			if _, err := strconv.ParseFloat(fields[len(fields)-1], 64); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
	if res, err := http.Get("http://" + at + "/other"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("%v, %v", res, err)
	}
	if _, _, err := serveMetrics(at, g); err == nil || len(hints(err)) == 0 {
		t.Errorf("a port in use: %v", err)
	}
}
