package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
	"bench/runner/job"
)

//go:embed testdata/tiny_models.py
var tinyModels string

// makeModels makes six tiny transformers of six architectures, with a
// vocabulary of the sample data sets' training rows.
func makeModels(t *testing.T, python string) []string {
	t.Helper()
	p, dir := newCLI(t), t.TempDir()
	p.run(0, "data", "build", "sample-ner", "sample-sentiment", "sample-acceptability", "sample-qa")
	if out, err := exec.Command(python, "-c", tinyModels, filepath.Join(p.home, "datasets", "*", "train.jsonl"), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	models, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(models) != 6 {
		t.Fatalf("%d models, %v", len(models), err)
	}
	return models
}

// realSweep is a sweep of six tiny transformers on four data sets with three
// seeds, trained by the real trainer, on a home of its own.
type realSweep struct {
	*cli
	l     *ledger
	file  string
	hosts string // as bench gc takes them; "": none
}

// realLab has what all real sweeps share.
type realLab struct {
	models, python string // models: lines of a sweep's file
	far            *containertest.Extra
	whole          map[job.ID]string // predictions of one host
}

const localEngine = "unix:///var/run/docker.sock"

// sweep writes the file of a sweep, to which places adds lines. Batches by model
// start the trainer six times only: loading torch takes longer than these trainings.
func (lab *realLab) sweep(t *testing.T, hosts, places string) *realSweep {
	t.Helper()
	s := &realSweep{cli: newCLI(t), hosts: hosts}
	s.l, s.limit = &ledger{p: s.cli}, 40*time.Minute
	s.file = filepath.Join(t.TempDir(), "sweep.yaml")
	put(t, s.file, "suite: sample\nseeds: 3\nbatch: model\nprotocol: smoke\nset: [max_steps=40, eval_steps=40, learning_rate=0.005]\nthreads: 1\nmemory: 3g\nmodels:"+lab.models+places)
	return s
}

// two is a sweep on this machine's engine, which is shown folders, and on
// another one at this address, to which everything is sent. options are
// further lines of the sweep's file.
func (lab *realLab) two(t *testing.T, far, options string) *realSweep {
	t.Helper()
	return lab.sweep(t, "near="+localEngine+",far="+far,
		options+"executor: docker\nhosts:\n  - {name: near, address: "+localEngine+", slots: 2}\n  - {name: far, address: '"+far+"', slots: 2, transfer: copy}\n")
}

// check holds a sweep that has ended against the one on one host. again says
// whether what happened to it is a reason for second attempts.
func (s *realSweep) check(lab *realLab, again bool) {
	s.t.Helper()
	s.l.complete(soakJobs, soakCells, lab.whole)
	attempts, places := map[int]int{}, map[string]int{}
	for id, b := range s.stored("outcome.json") {
		var o job.Outcome
		if err := json.Unmarshal(b, &o); err != nil {
			s.t.Fatal(err)
		}
		attempts[o.Attempt]++
		places[o.Executor+" "+o.Host]++
		if o.Attempt > 1 && !again {
			s.t.Errorf("job %s took %d attempts", id.Short(), o.Attempt)
		}
	}
	s.t.Logf("jobs by attempts %v, by place %v", attempts, places)
	if s.hosts == "" {
		return
	}
	s.t.Logf("gc: %s", strings.ReplaceAll(strings.TrimSpace(s.run(0, "gc", "--host", s.hosts).stdout), "\n", "; "))
	instance, err := os.ReadFile(filepath.Join(s.home, "instance"))
	if err != nil {
		s.t.Fatal(err)
	}
	own := map[string]string{containers.LabelInstance: strings.TrimSpace(string(instance))}
	for _, e := range []*containers.Engine{containertest.Open(s.t), lab.far.Open()} {
		left, err := e.Find(s.t.Context(), own)
		volumes, err2 := e.Volumes(s.t.Context(), own)
		if len(left)+len(volumes) != 0 || err != nil || err2 != nil {
			s.t.Errorf("after bench gc %d containers and %d volumes are left: %v, %v", len(left), len(volumes), err, err2)
		}
	}
}

// start starts the sweep; the error comes when it has ended.
func (s *realSweep) start() (ended <-chan error, said *spoken) {
	s.t.Helper()
	c := s.command("sweep", s.file)
	said = &spoken{}
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	return done, said
}

// disturb runs the sweep, and does something to it again and again, each time
// when some jobs more were stored, until it was done often enough or the sweep
// has ended, which must not be before it was done once.
func (s *realSweep) disturb(times, jobs int, what func()) {
	s.t.Helper()
	ended, said := s.start()
	over := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatalf("bench sweep: %v\n%s", err, said)
		}
	}
	done := 0
	for next := jobs; done < times; time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-ended:
			if over(err); done == 0 {
				s.t.Fatal("the sweep was over before anything happened to it")
			}
			s.t.Logf("it happened %d times", done)
			return
		default:
		}
		if len(s.stored("outcome.json")) >= next {
			next += jobs
			what()
			s.l.look()
			done++
		}
	}
	over(<-ended)
	s.t.Logf("it happened %d times", done)
	if s.t.Failed() {
		s.t.Log(said)
	}
}

// killSSH kills the ssh of a bench whose tunnels are in this folder.
func killSSH(t *testing.T, folder string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		line, err := os.ReadFile(path)
		var pid int
		if err == nil && strings.Contains(string(line), folder) && strings.Contains(string(line), "ssh") {
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil && pid != os.Getpid() {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// Six tiny transformers of six architectures, trained by the real trainer on
// two hosts at once, on Slurm and in processes, predict what they predict on
// one host, to the byte, whatever happens meanwhile.
func TestRealSweep(t *testing.T) {
	long(t)
	engineWithImage(t)
	lab := &realLab{python: firstPython(t), far: containertest.StartSharing(t, containers.TrainerImage())}
	for _, m := range makeModels(t, lab.python) {
		lab.models += "\n  - " + m
	}
	lab.models += "\n"

	one := lab.sweep(t, localEngine, "executor: docker\nhosts: ["+localEngine+"]\nslots: 4\n")
	one.run(0, "sweep", one.file)
	lab.whole = one.predictions()
	different := map[string]bool{}
	for _, text := range lab.whole {
		different[text] = true
	}
	if len(different) < soakJobs*3/4 { // some predict no entity at all
		t.Errorf("only %d of %d predictions differ from each other: the comparison is worth little", len(different), soakJobs)
	}
	one.check(lab, false)

	for _, test := range []struct {
		name string
		f    func(t *testing.T)
	}{
		{"two hosts", func(t *testing.T) {
			s := lab.two(t, lab.far.Host, "")
			s.run(0, "sweep", s.file)
			s.check(lab, false)
		}},
		{"bench is killed", func(t *testing.T) {
			s := lab.two(t, lab.far.Host, "")
			if _, made := s.soak(15, 4*time.Second, s.l.look, "sweep", s.file); made != 15 {
				t.Errorf("all was done after %d kills", made)
			}
			s.check(lab, false)
		}},
		{"a host dies", func(t *testing.T) {
			s := lab.two(t, lab.far.Host, "patience: 20s\n")
			s.disturb(1, 12, func() {
				lab.far.PowerCut()
				time.Sleep(30 * time.Second)
				lab.far.Up()
			})
			s.check(lab, true)
		}},
		{"Slurm", func(t *testing.T) {
			c := slurmCluster(t)
			s := lab.sweep(t, "", "executor: slurm\nslots: 4\ndevice: cpu\npython: "+lab.python+"\nslurm: {partition: gpu, poll: 500ms}\n")
			s.env = []string{"SLURM_CONF=" + c.Conf}
			s.disturb(2, 20, func() { // one node's daemon, then the other's
				i := len(s.stored("outcome.json")) / 40 % 2
				c.KillNode(i)
				time.Sleep(2 * time.Second)
				if err := c.StartNode(i); err != nil {
					t.Fatal(err)
				}
			})
			s.check(lab, false)
		}},
		{"in processes", func(t *testing.T) {
			s := lab.sweep(t, "", "executor: process\nslots: 4\ndevice: cpu\npython: "+lab.python+"\n")
			s.run(0, "sweep", s.file)
			s.check(lab, false)
		}},
		{"an engine is killed", func(t *testing.T) {
			s := lab.two(t, lab.far.Host, "")
			s.disturb(5, 8, func() {
				lab.far.Kill()
				time.Sleep(rand.N(3 * time.Second))
				lab.far.Up()
			})
			s.check(lab, false)
		}},
		{"the connection is cut", func(t *testing.T) {
			server := containertest.StartSSH(t)
			tunnels := t.TempDir()
			s := lab.two(t, "ssh://engine"+strings.TrimPrefix(lab.far.Host, "unix://"), "")
			s.env = []string{"XDG_RUNTIME_DIR=" + tunnels}
			n := 0
			s.disturb(10, 5, func() {
				if n++; n%2 == 1 {
					killSSH(t, tunnels)
					return
				}
				server.Kill()
				time.Sleep(rand.N(3 * time.Second))
				server.Up()
			})
			s.check(lab, false)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			begun := time.Now()
			test.f(t)
			t.Logf("%.0f s", time.Since(begun).Seconds())
		})
	}
}
