package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/containers"
	"bench/datasets"
	"bench/datasets/catalog"
	"bench/datasets/fetch"
	"bench/datasets/hub"
	"bench/runner"
	"bench/runner/job"
	"bench/scoring"
)

// documented reads the table of events in docs/formats.md: their types.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n## Events\n")
	if !ok {
		t.Fatal("docs/formats.md has no events")
	}
	types := map[string]bool{}
	for line := range strings.Lines(table) {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			cell, _, _ = strings.Cut(cell, "|")
			for name := range strings.SplitSeq(cell, ",") {
				types[strings.Trim(name, " `")] = true
			}
		}
	}
	return types
}

// With --json, stdout is JSON lines of documented types and nothing else.
func TestJSONLines(t *testing.T) {
	known := documented(t)
	python, _ := fakePython(t)
	p := newCLI(t)
	seen := map[string]int{}
	for i := range 2 {
		r := p.run(3, "run", "baseline:tagger", "fresh:tiny", "--suite", "sample", "--seeds", "1", "--executor", "process", "--python", python, "--json")
		events := jsonLines(t, r.stdout)
		for at, e := range events {
			kind, _ := e["type"].(string)
			seen[kind]++
			if !known[kind] {
				t.Errorf("type %q is not in docs/formats.md: %v", kind, e)
			}
			if _, err := time.Parse(time.RFC3339, fmt.Sprint(e["time"])); err != nil {
				t.Errorf("%v has no time", e)
			}
			switch kind {
			case "plan":
				if at != 0 || e["total"] != 8.0 {
					t.Errorf("event %d: %v", at, e)
				}
			case "job":
				if scores, _ := e["scores"].(map[string]any); e["state"] == "ok" && len(scores) != 2 {
					t.Errorf("a job without scores: %v", e)
				}
				if e["state"] == "failed" && (e["failure"] == nil || e["message"] == nil) {
					t.Errorf("a failed job without a reason: %v", e)
				}
			case "record":
				if record, _ := e["record"].(map[string]any); record["schema"] != 1.0 {
					t.Errorf("not a record: %v", e)
				}
			case "summary":
				if at != len(events)-1 || e["jobs"] != 8.0 || e["failed"] != 3.0 || i == 1 && e["ran"] != 0.0 {
					t.Errorf("run %d, event %d of %d: %v", i, at, len(events), e)
				}
			}
		}
	}
	for kind, least := range map[string]int{"plan": 2, "start": 2, "progress": 4, "job": 8, "end": 2, "record": 5, "summary": 2} {
		if seen[kind] < least {
			t.Errorf("%d events of type %s, want %d", seen[kind], kind, least)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "1": 1, "800m": 800 << 20, "16g": 16 << 30, "16G": 16 << 30, "16gb": 16 << 30, "1.5k": 1536, "2t": 2 << 40, "7b": 7,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "-1g", "g", "lots", "nan", "inf", "1e30", "0.1", "1 g g", "9999999t"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q is %d, want an error", text, got)
		}
	}
}

func TestLogTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var b bytes.Buffer
	logTail(&b, path)
	put(t, path, "")
	logTail(&b, path)
	if b.Len() > 0 {
		t.Errorf("of nothing it shows %q", b.String())
	}
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	put(t, path, text.String()+"\x1b[31mthe end\n")
	logTail(&b, path)
	got := b.String()
	if n := strings.Count(got, "\n"); n != 13 || strings.Contains(got, "line 8\n") || !strings.Contains(got, "    line 9\n") {
		t.Errorf("%d lines:\n%s", n, got)
	}
	if strings.Contains(got, "\x1b") {
		t.Error("a log steers the terminal")
	}
}

// Errors become exit codes in one place, however deep they are wrapped, and
// every hint is given once.
func TestReport(t *testing.T) {
	missing := &runner.PreconditionError{What: "no Python", Hint: "install one"}
	cases := []struct {
		err  error
		code int
		want []string
	}{
		{nil, 0, nil},
		{errors.New("odd"), 1, []string{"bench: error: odd"}},
		{codeError(exitSomeFailed), 3, nil},
		{fmt.Errorf("run: %w", missing), 4, []string{"bench: error: run: no Python", "bench: hint: install one"}},
		{errors.Join(missing, fmt.Errorf("again: %w", missing)), 4, []string{"again: no Python"}},
		{&containers.Error{Hint: "start it"}, 4, []string{"bench: hint: start it"}},
		{&fetch.Error{}, 4, nil},
		{fmt.Errorf("x: %w", &hub.Error{Kind: hub.NoTokenizer, Model: "m", Detail: "no tokenizer"}), 4, []string{"hint: save the tokenizer"}},
		{&datasets.DigestError{}, 4, nil},
		{fmt.Errorf("write: %w", syscall.ENOSPC), 4, []string{"no space left"}},
		{usage("try this", "no %s", "such flag"), 64, []string{"bench: error: no such flag", "bench: hint: try this"}},
		{errors.Join(errors.New("one"), usage("", "two")), 64, []string{"bench: error: one\n", "bench: error: two\n"}},
		{&catalog.Error{}, 64, nil},
		{job.ErrProtocol, 64, nil},
		{fmt.Errorf("stopped: %w", context.Canceled), 130, []string{"interrupted", "bench gc"}},
	}
	for _, c := range cases {
		var b bytes.Buffer
		if got := report(c.err, &b); got != c.code {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.code)
		}
		has(t, b.String(), c.want...)
		for line := range strings.Lines(b.String()) {
			if strings.Count(b.String(), line) > 1 && strings.Contains(line, "hint") {
				t.Errorf("twice: %s", line)
			}
		}
	}
}

// What is said of a run in a pipe.
func TestScreenInAPipe(t *testing.T) {
	var b bytes.Buffer
	s := newScreen(io.Discard, &b, false, func(string) (scoring.Metric, bool) { return scoring.Metric{Name: "mcc", Scale: 100}, true })
	where := &runner.Where{Executor: "process", Host: "here"}
	loss := 0.5
	for _, e := range []runner.Event{
		{Type: "plan", Total: 4, Done: 1},
		{Type: "attach", Batch: "b", Model: "m", Where: where},
		{Type: "progress", Batch: "b", Model: "m", Dataset: "d", Seed: 4242, Step: 30, Loss: &loss},
		{Type: "job", Batch: "b", Model: "m", Dataset: "d", Seed: 4242, State: job.OK, Step: 60, Seconds: 12.4, Scores: scoring.Scores{"mcc": {X: 0.51234}}, Done: 2, Total: 4},
		{Type: "job", Batch: "b", Model: "m", Dataset: "e", Seed: 4242, State: job.OK, Scores: scoring.Scores{"mcc": {Undefined: "none"}}, Done: 3, Total: 4},
		{Type: "job", Batch: "b", Model: "m", Dataset: "f", Seed: 4243, State: job.Failed, Failure: job.FailureNaN, Message: "the loss\x1b[2J is NaN", Done: 4, Total: 4},
		{Type: "warning", Model: "m", Dataset: "d", Seed: 4242, Message: "long words"},
		{Type: "warning", Message: "the log is torn"},
		{Type: "end", Batch: "b"},
	} {
		s.event(e)
	}
	s.close()
	want := `bench: m: a batch of an earlier run goes on; waiting for it
ok      m  d  seed 4242  mcc 51.23  60 steps  12 s  [2/4]
ok      m  e  seed 4242  mcc undefined  0.0 s  [3/4]
failed  m  f  seed 4243  nan: the loss` + "\uFFFD" + `[2J is NaN
bench: warning: m · d · seed 4242: long words
bench: warning: the log is torn
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestShowSeconds(t *testing.T) {
	for s, want := range map[float64]string{0: "0.0 s", 9.94: "9.9 s", 12.4: "12 s", 75: "1 min 15 s", 3599: "59 min 59 s", 3600: "1 h 00 min", 90061: "25 h 01 min"} {
		if got := showSeconds(s); got != want {
			t.Errorf("%v is %q, want %q", s, got, want)
		}
	}
}
