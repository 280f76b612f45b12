package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"

	"github.com/gofrs/flock"
)

// What runs is seen from another terminal, also when the bench that began it is
// gone; a job's log can be read while it runs and when it has ended.
func TestStatusAndLogs(t *testing.T) {
	python, _ := fakePython(t, "STANDIN_PAUSE=4s", "STANDIN_ENV=1")
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
	// One that waits in the batch has its log; one that failed before says so.
	var last string
	for _, e := range jsonLines(t, p.run(0, "status", "--json").stdout) {
		for _, id := range e["left"].([]any) {
			last = id.(string)
		}
	}
	r := p.run(0, "logs", last[:10])
	has(t, r.stdout, "PATH=")
	has(t, r.stderr, "job "+job.ID(last).Short()+" waits in batch ")
	before := filepath.Join(job.Store{Home: p.home}.Dir(job.ID(last)), "trainer.log")
	if err := os.MkdirAll(filepath.Dir(before), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, before, "an earlier attempt\n")
	r = p.run(0, "logs", last)
	has(t, r.stdout, "PATH=")
	has(t, r.stderr, "it has ended before: the log of that time is "+before)
	if err := os.RemoveAll(filepath.Dir(before)); err != nil {
		t.Fatal(err)
	}
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
	python, _ := fakePython(t, "STANDIN_PAUSE=3s") // long beside what looking takes
	quick, _ := fakePython(t)
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
	has(t, p.run(0, "status").stdout, "has died or cannot write here at ") // its lock is free
	paths, err := filepath.Glob(filepath.Join(p.home, "sweeps", "mine", "runs", "*.json"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	path := paths[0]
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
	has(t, p.run(0, "status", "--json").stdout, `{"type":"sweep","schema":2,"name":"mine"`, `"state":"silent"`)
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
	if err := os.Rename(quick, python); err != nil {
		t.Fatal(err)
	}
	p.run(0, "sweep", file)
	if out := p.run(0, "status", "--json").stdout; out != "" {
		t.Errorf("after its end:\n%s", out)
	}
}

// Two benches at one sweep are one sweep: what each did adds up, a dead one is
// told by its lock, and what it took is told with what is to come.
func TestStatusOfTwoProcesses(t *testing.T) {
	p := newCLI(t)
	runs := filepath.Join(p.home, "sweeps", "both", "runs")
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	if err := os.MkdirAll(runs, 0o777); err != nil {
		t.Fatal(err)
	}
	process := func(name, host, state, rest string, began, ago time.Duration) {
		put(t, filepath.Join(runs, name+".json"), `{"schema":2,"name":"both","file":"/f.yaml","host":"`+host+`","pid":7,"began":"`+at(ago+began)+`","updated":"`+at(ago)+`","state":"`+state+`","total":100,`+rest+
			`,"rates":{"co2e_kg_per_kwh":0.5,"price_per_gpu_hour":2}}`)
		put(t, filepath.Join(runs, name+".lock"), "")
	}
	// A had 10 jobs to begin with and 4 h of a GPU; B and C began when more had ended.
	process("a", "ha", "running", `"done":30,"cached":10,"ran":20,"failed":1,"batches":2,"pace":72,"job_pace":0.2,"used_before":{"gpu_seconds":14400,"wall_seconds":14400,"joules":3600000},"used":{"gpu_seconds":7200,"wall_seconds":7200,"joules":3600000}`, 100*time.Second, 2*time.Second)
	process("b", "hb", "running", `"done":28,"cached":18,"ran":10,"batches":3,"pace":36,"job_pace":0.1,"slot_seconds_left":36000,"used_before":{"gpu_seconds":1,"wall_seconds":1,"joules":1},"used":{"gpu_seconds":3600,"wall_seconds":3600,"joules":1200000}`, 100*time.Second, time.Second)
	process("c", "hc", "running", `"done":21,"cached":16,"ran":5,"batches":4,"pace":72,"job_pace":0.1,"used_before":{},"used":{"gpu_seconds":3600,"wall_seconds":3600,"joules":0}`, 50*time.Second, 10*time.Second)
	for _, name := range []string{"a", "b"} {
		l := flock.New(filepath.Join(runs, name+".lock"))
		if err := l.Lock(); err != nil {
			t.Fatal(err)
		}
		defer l.Unlock()
	}
	// 10 + 20 + 10 + 5 jobs; 8 GPU hours in 8 h at 8.4 MJ. Of the 72 jobs that B knows
	// to be open 55 are: 36,000 s × 55/72.
	out := p.run(0, "status").stdout
	has(t, out, "sweep both: 45 of 100 jobs, 1 failed, about ", "; 5 batches run, watched by process 7 on ha and process 7 on hb\n",
		"  used 8.00 GPU hours, 2.33 kWh, 1.17 kg CO2e, price 16.00; about 7.64 GPU hours, 2.23 kWh, 1.11 kg CO2e, price 15.28 to come\n")
	s := jsonLines(t, p.run(0, "status", "--json").stdout)[0]
	if s["done"] != 45. || s["batches"] != 5. || s["state"] != "running" || len(s["processes"].([]any)) != 3 || s["processes"].([]any)[2].(map[string]any)["state"] != "silent" {
		t.Errorf("%v", s)
	}
	// 27,500 s of a slot, of which A and B get 108 done in a second; C is dead.
	if left := s["seconds_left"].(float64); left < 254 || left > 255 {
		t.Errorf("%v seconds to go, want 254.6", left)
	}
	// What the others wrote is forgotten when nobody lives; here two do.
	process("a", "ha", "finished", `"done":100,"cached":10,"ran":20,"used_before":{},"used":{}`, 100*time.Second, 0)
	if s := jsonLines(t, p.run(0, "status", "--json").stdout)[0]; s["state"] != "running" {
		t.Errorf("one of two has finished: %v", s)
	}
	process("b", "hb", "finished", `"done":100,"cached":18,"ran":10,"used_before":{},"used":{}`, 100*time.Second, 0)
	if out := p.run(0, "status", "--json").stdout; out != "" {
		t.Errorf("both have finished: %s", out)
	}
}

// How long the rest takes is told by the later half of the time so far, and by what
// its jobs are expected to take: with hosts that come, and long jobs first, all jobs
// since the beginning would say something else.
func TestPaceOfASweep(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	p := &pace{began: began}
	after := func(minutes float64) time.Time { return began.Add(time.Duration(minutes * float64(time.Minute))) }
	if work, jobs := p.lately(after(1)); work != 0 || jobs != 0 || remaining(work, jobs, 9, 9) != 0 {
		t.Errorf("nothing has ended: %v, %v", work, jobs)
	}
	// One slot for 10 minutes, then two: jobs of 60 s, later of 30 s.
	for m := 1.; m <= 10; m++ {
		p.ended(after(m), 60)
	}
	if work, jobs := p.lately(after(10)); work != 1 || jobs != 1./60 {
		t.Errorf("one slot: %v, %v", work, jobs)
	}
	for m := 10.5; m <= 30; m += .5 {
		p.ended(after(m), 30)
		p.ended(after(m), 30)
	}
	work, jobs := p.lately(after(30))
	if work != 2 || jobs != 4./60 || len(p.marks) > 64 {
		t.Errorf("two slots: %v, %v, %d marks", work, jobs, len(p.marks))
	}
	if by, number := remaining(work, jobs, 7200, 100), remaining(work, jobs, 0, 100); by != 3600 || number != 1500 {
		t.Errorf("by work %v, by number %v", by, number)
	}
}

// A batch that runs far longer than expected stands out.
func TestStatusTellsStragglers(t *testing.T) {
	for _, c := range []struct {
		ran, expected, want float64
	}{{1000, 0, 0}, {100, 50, 0}, {161, 50, 3.22}, {704, 320, 2.2}, {700, 330, 0}} {
		now := time.Now()
		r := runner.Running{Started: now.Add(-time.Duration(c.ran * float64(time.Second))), Expected: c.expected}
		if got := r.Late(now); got != c.want {
			t.Errorf("%v s of %v: %v, want %v", c.ran, c.expected, got, c.want)
		}
	}
	if (runner.Running{Expected: 1}).Late(time.Now()) != 0 {
		t.Error("a batch that has not begun is late")
	}
}
