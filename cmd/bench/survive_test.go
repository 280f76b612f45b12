package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bench/runner/job"
)

// kills is how many times the soak tests kill bench, or try to:
// BENCH_TEST_KILLS=200 go test -run Survives ./cmd/bench
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("BENCH_TEST_KILLS")
	if text == "" {
		return 12
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("BENCH_TEST_KILLS=%s is not a number of kills", text)
	}
	return n
}

// soak starts the command again and again, killing it after a random time,
// until it was killed often enough, and lets it end then. After each kill look
// is called, and the same command must find everything as it was left. made is
// how often it was killed before all was done.
func (p *cli) soak(kills int, longest time.Duration, look func(), args ...string) (last result, made int) {
	p.t.Helper()
	for made < kills {
		c := p.command(args...)
		var said bytes.Buffer
		c.Stderr = &said
		if err := c.Start(); err != nil {
			p.t.Fatal(err)
		}
		end := make(chan error, 1)
		go func() { end <- c.Wait() }()
		select {
		case err := <-end:
			if err != nil {
				p.t.Fatalf("bench ended by itself after %d kills: %v\n%s", made, err, said.String())
			}
			p.t.Logf("all done after %d kills", made)
			return p.run(0, args...), made
		case <-time.After(rand.N(longest)):
			c.Process.Signal(syscall.SIGKILL)
			<-end
			made++
		}
		look()
	}
	return p.run(0, args...), made
}

// ledger checks that what has ended stays as it is.
type ledger struct {
	p      *cli
	stored map[job.ID][]byte          // outcomes of jobs that are ok
	made   map[job.ID]json.RawMessage // what the trainer wrote of jobs that are not stored yet
}

func (l *ledger) look() {
	l.p.t.Helper()
	now := l.p.stored("outcome.json")
	maps.DeleteFunc(now, func(_ job.ID, b []byte) bool { // what failed may run again
		var o job.Outcome
		return json.Unmarshal(b, &o) == nil && o.State == job.Failed
	})
	for id, before := range l.stored {
		if !bytes.Equal(before, now[id]) {
			l.p.t.Errorf("outcome of %s was\n%s\nand is\n%s", id.Short(), before, now[id])
		}
	}
	l.stored = now
	for id, text := range l.made {
		var was, is job.TrainerOutcome
		if err := json.Unmarshal(text, &was); err != nil {
			l.p.t.Fatal(err)
		}
		if now[id] == nil {
			continue // still in its batch's folder
		}
		var o job.Outcome
		if err := json.Unmarshal(now[id], &o); err != nil {
			l.p.t.Fatal(err)
		}
		is = o.TrainerOutcome
		if is.Seconds["train"] != was.Seconds["train"] {
			l.p.t.Errorf("job %s had ended (%v s), and was run again (%v s)", id.Short(), was.Seconds, is.Seconds)
		}
	}
	if l.made == nil {
		l.made = map[job.ID]json.RawMessage{}
	}
	for id, b := range files(l.p.t, filepath.Join(l.p.home, "batches", "*", "out", "*", "outcome.json")) {
		if old, ok := l.made[id]; ok && !bytes.Equal(old, b) {
			l.p.t.Errorf("job %s was run again: its outcome was\n%s\nand is\n%s", id.Short(), old, b)
		}
		l.made[id] = b
	}
}

// complete checks jobs and records after the last run, of so many models on so
// many data sets together.
func (l *ledger) complete(jobs, cells int, undisturbed map[job.ID]string) {
	l.p.t.Helper()
	l.look()
	for id := range l.made {
		if l.stored[id] == nil {
			l.p.t.Errorf("job %s had ended, and was lost", id.Short())
		}
	}
	for id, b := range l.stored {
		var o job.Outcome
		if err := json.Unmarshal(b, &o); err != nil {
			l.p.t.Fatal(err)
		}
		if o.State != job.OK || o.Host == "" || o.Started.After(o.Finished) {
			l.p.t.Errorf("job %s: %s", id.Short(), b)
		}
	}
	got := l.p.predictions()
	if len(got) != jobs || !maps.Equal(got, undisturbed) {
		l.p.t.Errorf("%d jobs have predictions, want %d, equal to those of an undisturbed run", len(got), jobs)
	}
	rs := l.p.records()
	seen := map[string]int{}
	for _, r := range rs {
		seen[r.Model.ID+" on "+r.Dataset.Name]++
		if len(r.Replicates) != jobs/cells || len(r.Failures) != 0 {
			l.p.t.Errorf("%s has %d replicates and %d failures", r.Dataset.Name, len(r.Replicates), len(r.Failures))
		}
	}
	if len(rs) != cells || len(seen) != cells {
		l.p.t.Errorf("records: %v, want %d, each once", seen, cells)
	}
	l.p.noBatches()
}

// A run that is killed at any moment goes on where it was: no finished seed is
// trained again, none is lost, and the predictions are those of an undisturbed
// run to the byte.
func TestKilledRunSurvives(t *testing.T) {
	args := []string{"run", "baseline:majority", "--suite", "sample", "--seeds", "15"}
	whole := newCLI(t)
	first := whole.run(0, args...)
	p := newCLI(t)
	l := &ledger{p: p}
	last, _ := p.soak(kills(t), max(first.wall, time.Second)/8, l.look, args...)
	l.complete(60, 4, whole.predictions())
	if last.stdout != first.stdout {
		t.Errorf("table\n%s\nand undisturbed\n%s", last.stdout, first.stdout)
	}
}

// Trainers in processes outlive bench: every job is begun once, however often
// bench is killed.
func TestTrainersSurviveBench(t *testing.T) {
	python, log := fakePython(t, "STANDIN_PAUSE=100ms")
	args := []string{"run", "fresh:tiny", "--suite", "sample", "--seeds", "6", "--executor", "process", "--python", python}
	whole := newCLI(t)
	quick, _ := fakePython(t)
	whole.run(0, append(args[:len(args)-1:len(args)-1], quick)...)
	p := newCLI(t)
	l := &ledger{p: p}
	p.soak(kills(t), 500*time.Millisecond, l.look, args...)
	l.complete(24, 4, whole.predictions())
	for id, n := range starts(t, log) {
		if n != 1 {
			t.Errorf("job %s was begun %d times", id.Short(), n)
		}
	}
}

// The next bench says that it found a running batch, and waits for it.
func TestNextRunAttaches(t *testing.T) {
	python, log := fakePython(t, "STANDIN_PAUSE=700ms")
	p := newCLI(t)
	args := []string{"run", "fresh:tiny", "--suite", "sample", "--seeds", "1", "--executor", "process", "--python", python}
	c := p.command(args...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first job is stored", func() bool { return len(p.stored("outcome.json")) > 0 })
	c.Process.Kill()
	c.Wait()
	r := p.run(0, args...)
	has(t, r.stderr, "a batch of an earlier run goes on", "[4/4]")
	if n := starts(t, log); len(n) != 4 {
		t.Errorf("%d jobs were begun", len(n))
	} else {
		for id, n := range n {
			if n != 1 {
				t.Errorf("job %s was begun %d times", id.Short(), n)
			}
		}
	}
	p.noBatches()
}

// Two programs on one HOME share the work.
func TestTwoAtOnce(t *testing.T) {
	python, log := fakePython(t, "STANDIN_PAUSE=20ms")
	for _, args := range [][]string{
		{"run", "baseline:majority", "--suite", "sample", "--seeds", "12"},
		{"run", "fresh:tiny", "--suite", "sample", "--seeds", "4", "--executor", "process", "--python", python},
	} {
		p := newCLI(t)
		p.run(0, "data", "build", "sample-ner", "sample-sentiment", "sample-acceptability", "sample-qa")
		var both sync.WaitGroup
		var out [2]result
		for i := range out {
			both.Go(func() { out[i] = p.try(append(args, "--json")...) })
		}
		both.Wait()
		ended := map[string]int{}
		for _, r := range out {
			if r.code != 0 {
				t.Errorf("exit code %d\n%s", r.code, r.stderr)
			}
			for _, e := range jsonLines(t, r.stdout) {
				if e["type"] == "job" {
					ended[e["job"].(string)]++
				}
			}
			if n := strings.Count(r.stderr, "waiting for it"); n > 12 {
				t.Errorf("it says %d times that it waits", n)
			}
		}
		for id, n := range ended {
			if n != 1 {
				t.Errorf("%s: job %s ended %d times", args[1], job.ID(id).Short(), n)
			}
		}
		if got := len(p.stored("outcome.json")); got != len(ended) {
			t.Errorf("%d jobs are stored, %d were reported", got, len(ended))
		}
		p.noBatches()
	}
	for id, n := range starts(t, log) {
		if n != 1 {
			t.Errorf("job %s was begun %d times", id.Short(), n)
		}
	}
}

// Ctrl-C: exit code 130, a word about what goes on, and the next run takes
// over; bench gc ends what goes on and keeps what has finished.
func TestInterrupt(t *testing.T) {
	for _, after := range []string{"run", "gc"} {
		t.Run(after, func(t *testing.T) {
			python, log := fakePython(t, "STANDIN_PAUSE=600ms")
			p := newCLI(t)
			args := []string{"run", "fresh:tiny", "--suite", "sample", "--seeds", "1", "--executor", "process", "--python", python}
			c := p.command(args...)
			var errs bytes.Buffer
			c.Stderr = &errs
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the first job is stored", func() bool { return len(p.stored("outcome.json")) > 0 })
			c.Process.Signal(os.Interrupt)
			c.Wait()
			if got := c.ProcessState.ExitCode(); got != 130 {
				t.Errorf("exit code %d, want 130", got)
			}
			has(t, errs.String(), "bench: interrupted; finished seeds are kept", "bench gc")
			if after == "run" {
				has(t, p.run(0, args...).stderr, "[4/4]")
			} else {
				begun := time.Now()
				has(t, p.run(0, "gc").stdout, "1 batches stopped")
				if took := time.Since(begun); took > 20*time.Second {
					t.Errorf("gc took %v", took)
				}
				kept := len(p.stored("outcome.json"))
				if kept == 0 || kept == 4 {
					t.Errorf("%d of 4 jobs are kept", kept)
				}
				p.noBatches()
				has(t, p.run(0, args...).stderr, "[4/4]")
			}
			again := 0
			for _, n := range starts(t, log) {
				again += n - 1
			}
			if again > 1 || after == "run" && again > 0 { // gc ends one job in its middle
				t.Errorf("%d jobs were begun again", again)
			}
			p.noBatches()
			has(t, p.run(0, "gc").stdout, "0 batches stopped")
		})
	}
}

// The second identical run has nothing to do, and needs no time for it.
func TestSecondRunIsInstant(t *testing.T) {
	p := newCLI(t)
	args := []string{"run", "baseline:majority", "--suite", "sample", "--seeds", "10"}
	first := p.run(0, args...)
	second := p.run(0, args...)
	t.Logf("first run %v, second %v", first.wall, second.wall)
	has(t, second.stderr, "nothing to do: all 40 jobs had ended before")
	if second.stdout != first.stdout {
		t.Errorf("got\n%s\nwant\n%s", second.stdout, first.stdout)
	}
	if second.wall > 3*time.Second { // 0.05 s on an idle machine
		t.Errorf("it took %v", second.wall)
	}
}

func BenchmarkNothingToDo(b *testing.B) {
	p := newCLI(b)
	args := []string{"run", "baseline:majority", "--suite", "sample", "--seeds", "10"}
	p.run(0, args...)
	for b.Loop() {
		p.run(0, args...)
	}
}
