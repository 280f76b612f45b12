package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What runs is seen from another terminal, also when the bench that began it is
// gone; a job's log can be read while it runs and when it has ended.
func TestStatusAndLogs(t *testing.T) {
	python, _ := fakePython(t, "STANDIN_PAUSE=1500ms", "STANDIN_ENV=1")
	p := newCLI(t)
	has(t, p.run(0, "status").stdout, "nothing is being trained")
	args := []string{"run", "fresh:tiny", "--suite", "sample", "--seeds", "1", "--executor", "process", "--python", python}
	c := p.command(args...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first job is done and the second began", func() bool {
		out := p.run(0, "status", "--json").stdout
		return regexp.MustCompile(`"ended":[123],"watched":true,"job":"`).MatchString(out)
	})
	has(t, p.run(0, "status").stdout, "/4   process@", "seed 4242 step", "yes")
	c.Process.Kill()
	c.Wait()
	eventually(t, "nobody watches the batch", func() bool {
		return strings.Contains(p.run(0, "status", "--json").stdout, `"watched":false`)
	})
	batch := jsonLines(t, p.run(0, "status", "--json").stdout)[0]["batch"].(string)
	has(t, p.run(0, "logs", batch[:8]).stdout, "PATH=")
	if err := os.WriteFile(filepath.Join(p.home, "batches", batch, "waiting"), []byte("waits for a GPU"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, p.run(0, "status", "--json").stdout, `"waiting":"waits for a GPU"`)

	followed := make(chan result, 1)
	go func() { followed <- p.try("logs", "-f", batch) }()
	p.run(0, args...)
	if r := <-followed; r.code != 0 || strings.Count(r.stdout, "PATH=") < 1 {
		t.Errorf("bench logs -f: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for id := range p.stored("outcome.json") {
		if r := p.run(0, "logs", string(id)); !strings.Contains(r.stdout, "PATH=") && !strings.Contains(r.stderr, "wrote no log") {
			t.Errorf("log of job %s: %s%s", id.Short(), r.stdout, r.stderr)
		}
	}
	has(t, p.run(64, "logs", "zzzz").stderr, "no job or running batch begins with", "hint: ")
	has(t, p.run(0, "status").stdout, "nothing is being trained")
}

// How far a sweep is can be seen from another terminal, while it runs, when it
// has died and when it was stopped; a finished one is not told of.
func TestStatusOfASweep(t *testing.T) {
	python, _ := fakePython(t, "STANDIN_PAUSE=800ms")
	p := newCLI(t)
	file := sweepFileOf(t, "name: mine\nmodels: [fresh:tiny]\nsuite: sample\nseeds: 4\nexecutor: process\npython: "+python+"\n")
	begin := func() *exec.Cmd {
		t.Helper()
		c := p.command("sweep", file)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := begin()
	eventually(t, "the sweep is seen with a pace", func() bool {
		return regexp.MustCompile(`(?m)^sweep mine: [0-9]+ of 16 jobs, about .* to go; 1 batch runs, watched by process`).MatchString(p.run(0, "status").stdout)
	})
	c.Process.Kill()
	c.Wait()
	path := filepath.Join(p.home, "sweeps", "mine", "progress.json")
	change := func(old, new string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil || !regexp.MustCompile(old).Match(text) {
			t.Fatalf("%s, %v", text, err)
		}
		put(t, path, regexp.MustCompile(old).ReplaceAllString(string(text), new))
	}
	change(`"updated":"[^"]*"`, `"updated":"`+time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)+`"`)
	has(t, p.run(0, "status").stdout, "has died or cannot write here at ", "bench sweep "+file)
	has(t, p.run(0, "status", "--json").stdout, `{"type":"sweep","schema":1,"name":"mine"`, `"state":"silent"`)
	change(`"updated":"[^"]*"`, `"updated":"2020-01-01T00:00:00Z"`)
	if out := p.run(0, "status").stdout; strings.Contains(out, "sweep mine") {
		t.Errorf("told after years:\n%s", out)
	}
	c = begin()
	eventually(t, "it is taken up", func() bool { return strings.Contains(p.run(0, "status").stdout, "1 batch runs") })
	c.Process.Signal(os.Interrupt)
	if c.Wait(); c.ProcessState.ExitCode() == exitInterrupted {
		has(t, p.run(0, "status").stdout, "it was stopped at ")
	}
	p.run(0, "sweep", file)
	if out := p.run(0, "status", "--json").stdout; out != "" {
		t.Errorf("after its end:\n%s", out)
	}
}
