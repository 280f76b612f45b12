package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
	"bench/runner/job"
)

// A soak is a sweep of 6 models, 4 data sets and 3 seeds on two Docker hosts to
// which something happens. Whatever it is: what comes out is what one host makes
// undisturbed, no finished seed is lost or trained again, every record is there
// once, and nothing is left on the hosts. docs/reliability.md has the table.
type soak struct {
	*cli
	l       *ledger
	hosts   [2]*containertest.Extra
	engines [2]*containers.Engine
	file    string
	whole   map[job.ID]string // predictions of an undisturbed run on one host
}

// soaking says whether all of the soak is wanted (make soak); else the tests are
// the short form of it.
func soaking() bool { return os.Getenv("BENCH_TEST_SOAK") != "" }

func long(t *testing.T) {
	t.Helper()
	if !soaking() {
		t.Skip("part of the long soak: make soak")
	}
}

const (
	soakJobs  = 6 * 4 * 3
	soakCells = 6 * 4
)

// startSoak starts two hosts, one of which does not see this machine's disk if
// transfer is "copy". Jobs take the pause each; a host that is away is waited for
// with patience.
func startSoak(t *testing.T, pause, patience time.Duration, transfer string) *soak {
	t.Helper()
	s := &soak{cli: newCLI(t)}
	s.l = &ledger{p: s.cli}
	var image string
	for i := range s.hosts {
		s.hosts[i] = containertest.StartExtra(t, true, false)
		s.engines[i] = s.hosts[i].Open()
		image = containertest.Image(t, s.engines[i], "../../runner/runnertest/standin/trainer", "trainer")
	}
	dir := t.TempDir()
	var text strings.Builder
	fmt.Fprintf(&text, "suite: sample\nseeds: 3\nset: [max_steps=%d]\nexecutor: docker\nimage: %s\npatience: %v\nmodels:\n", pause.Milliseconds(), image, patience)
	for i := range 6 {
		model := filepath.Join(dir, fmt.Sprint("model-", i))
		if err := os.Mkdir(model, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"config.json": fmt.Sprintf(`{"model_type":"bert","hidden_size":%d}`, i), "model.safetensors": weights(100_000 + i), "vocab.txt": "[PAD]\n[UNK]\n"} {
			if err := os.WriteFile(filepath.Join(model, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&text, "  - %s\n", model)
	}
	one := text.String() + "hosts: [" + s.hosts[0].Host + "]\nslots: 4\n"
	fmt.Fprintf(&text, "hosts:\n  - {name: one, address: %s, slots: 2}\n  - {name: two, address: %s, slots: 2, transfer: %s}\n", s.hosts[0].Host, s.hosts[1].Host, transfer)
	s.file = filepath.Join(dir, "sweep.yaml")
	alone := filepath.Join(dir, "alone.yaml")
	for path, content := range map[string]string{s.file: text.String(), alone: one} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	undisturbed := newCLI(t)
	undisturbed.run(0, "sweep", alone)
	s.whole = undisturbed.predictions()
	return s
}

// weights is a file of weights with so many bytes in it.
func weights(n int) string {
	header := fmt.Sprintf(`{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, n, n)
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("w", n)
}

// spoken is what a program that still runs has said so far.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *spoken) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// begin starts the sweep and returns when some jobs are stored.
func (s *soak) begin(jobs int) (c *exec.Cmd, said *spoken) {
	s.t.Helper()
	c = s.command("sweep", s.file)
	said = &spoken{}
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.until(c, said, jobs)
	return c, said
}

func (s *soak) until(c *exec.Cmd, said *spoken, jobs int) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); len(s.stored("outcome.json")) < jobs; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.Process.Kill()
			c.Wait()
			s.t.Fatalf("%d jobs were never stored:\n%s", jobs, said)
		}
	}
}

func (s *soak) end(c *exec.Cmd, said *spoken) {
	s.t.Helper()
	if err := c.Wait(); err != nil {
		s.t.Fatalf("bench sweep: %v\n%s", err, said)
	}
}

// check looks at everything after the last run.
func (s *soak) check() {
	s.t.Helper()
	s.l.complete(soakJobs, soakCells, s.whole)
	r := s.run(0, "gc", "--host", s.hosts[0].Host+","+s.hosts[1].Host)
	s.t.Logf("gc: %s", strings.TrimSpace(r.stdout))
	for i, e := range s.engines {
		left, err := e.Find(s.t.Context(), map[string]string{containers.LabelInstance: ""})
		if err != nil || len(left) != 0 {
			s.t.Errorf("%d containers are left on host %d after bench gc: %v", len(left), i, err)
		}
	}
}

func TestSweepSurvivesItsOwnDeath(t *testing.T) {
	n := 4
	if soaking() {
		n = kills(t)
	}
	// The work takes longer than all kills together: 18 batches of 4 jobs, 4 at a time.
	s := startSoak(t, time.Duration(n)*110*time.Millisecond, 4*time.Second, "copy")
	if _, made := s.soak(n, 3*time.Second, s.l.look, "sweep", s.file); made != n {
		t.Errorf("all was done after %d kills, before the other %d", made, n-made)
	}
	s.check()
}

func TestSweepSurvivesTheDeathOfAHost(t *testing.T) {
	s := startSoak(t, 300*time.Millisecond, 4*time.Second, "copy")
	c, said := s.begin(8)
	s.hosts[1].PowerCut()
	eventually(t, "the host is given up", func() bool { return strings.Contains(said.String(), "host two: ") })
	s.l.look()
	s.hosts[1].Up() // it takes part again, and what it still holds of old batches harms nothing
	s.end(c, said)
	has(t, said.String(), "it is left alone for")
	s.check()
}

func TestSweepSurvivesEngines(t *testing.T) {
	long(t)
	s := startSoak(t, 100*time.Millisecond, time.Minute, "bind")
	c, said := s.begin(8)
	for i := range s.hosts {
		s.hosts[i].Kill()
		time.Sleep(rand.N(time.Second))
		s.hosts[i].Up()
		s.l.look()
	}
	s.end(c, said)
	s.check()
	for id, b := range s.stored("outcome.json") {
		var o job.Outcome
		if err := json.Unmarshal(b, &o); err != nil || o.Attempt != 1 {
			t.Errorf("job %s took %d attempts: a restarted engine is no reason for another one; %v", id.Short(), o.Attempt, err)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}

// Frozen for longer than it is waited for, a host loses its batches to the other
// one; thawed, its containers go on with what nobody waits for, and gc ends them.
func TestSweepSurvivesAFrozenEngine(t *testing.T) {
	long(t)
	s := startSoak(t, 300*time.Millisecond, 4*time.Second, "copy")
	c, said := s.begin(8)
	s.hosts[0].Freeze()
	eventually(t, "the host is given up", func() bool { return strings.Contains(said.String(), "host one: ") })
	s.l.look()
	s.hosts[0].Thaw()
	s.end(c, said)
	s.check()
}

// Two sweeps of one file on one HOME, and one of them is killed: each job runs
// once.
func TestTwoSweepsOfOneHome(t *testing.T) {
	long(t)
	s := startSoak(t, 100*time.Millisecond, 4*time.Second, "copy")
	a, _ := s.begin(4)
	b, saidB := s.begin(8)
	a.Process.Kill()
	a.Wait()
	s.l.look()
	s.end(b, saidB)
	s.check()
}
