package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"bench/runner/job"
	"bench/scoring/results"
)

// The clock of a machine is set again and again while bench works, and bench is
// killed in between: nothing is ended by a time limit too early, or too late, and no
// job, loss or line of status has a time that cannot be.
func TestMachinesClock(t *testing.T) {
	whole := newCLI(t)
	python, _ := fakePython(t)
	args := []string{"run", "fresh:tiny", "baseline:majority", "--suite", "sample", "--seeds", "12", "--executor", "process", "--python"}
	whole.run(0, append(args, python)...)
	want := whole.predictions()
	m := newLab(t).machine("lonely", nil)
	m.on()
	const limit = 90 * time.Second // of a batch, which takes six
	command := strings.Join(args, " ") + " " + m.python("STANDIN_PAUSE=1500ms") + fmt.Sprintf(" --timeout %v --slots 2", limit)
	over := make(chan struct{})
	go func() {
		defer close(over)
		begun := time.Now()
		for kills := 0; ; kills++ {
			seconds := 0.0
			if kills < 4 {
				seconds = 8 + 12*rand.Float64()
			}
			out, err := m.try(m.bench(seconds, command))
			if err == nil {
				t.Logf("done after %d kills and %v", kills, time.Since(begun).Round(time.Second))
				return
			}
			if !strings.Contains(err.Error(), "exit status 137") || kills > 8 {
				t.Errorf("%v\n%s", err, out)
				return
			}
		}
	}()
	steps := []string{"now +2 hours", "now -4 hours", "@86400", "2038-01-20", "2100-02-28 23:59:59", "1999-12-31", "2026-10-25 02:59:59"}
	set := 0
	for ended := false; !ended; set++ {
		select {
		case <-over:
			ended = true
		case <-time.After(2 * time.Second):
			to := steps[set%len(steps)]
			m.do(fmt.Sprintf("date -s %q", to))
			out := m.do(m.bench(0, "status"))
			for field := range strings.FieldsSeq(out) {
				if len(field) > 1 && field[0] == '-' && field[1] >= '0' && field[1] <= '9' {
					t.Errorf("the clock was set to %s, and status shows %s:\n%s", to, field, out)
				}
			}
		}
	}
	t.Logf("the clock was set %d times", set)
	m.do(m.bench(0, "gc"))
	p := newCLI(t)
	m.fetch("/mnt/home", p.home)
	l := &ledger{p: p}
	l.complete(96, 8, want)
	for id, n := range m.begun() {
		if n != 1 {
			t.Errorf("job %s was begun %d times", id.Short(), n)
		}
	}
	for id := range l.stored {
		o, _, err := job.Store{Home: p.home}.Outcome(id)
		if took := o.Finished.Sub(o.Started); err != nil || took < 0 || took > limit {
			t.Errorf("job %s took %v by its outcome: %v", id.Short(), took, err)
		}
	}
	losses, err := results.OpenLosses(p.home).Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range losses { // of baselines, which run in bench itself and die with it
		if took := l.Ended.Sub(l.Started); l.Executor == "process" || took < 0 || took > limit || l.Usage.WallSeconds > limit.Seconds() {
			t.Errorf("lost: %+v", l)
		}
	}

	// A limit that is reached ends the batch when it is.
	for _, to := range []string{"now -3 hours", "now +3 hours"} {
		m.python("STANDIN_PAUSE=10m")
		begun := time.Now()
		go func() { time.Sleep(5 * time.Second); m.do(fmt.Sprintf("date -s %q", to)) }()
		out, err := m.try("rm -rf /mnt/home; " + m.bench(0, "run fresh:tiny --task ner --suite sample --seeds 1 --executor process --python /usr/bin/python-standin --timeout 15s"))
		took := time.Since(begun)
		if err == nil || !strings.Contains(out, "timeout") || took < 15*time.Second || took > 60*time.Second {
			t.Errorf("clock set to %s: limit of 15 s, and it ended after %v: %v\n%s", to, took, err, out)
		}
	}
}

// The disk that HOME is on gets full in the middle of a run, at the machine itself and at the
// server of an NFS client, whose writes fail only when a file is closed: the run ends with exit 4, or jobs
// say that there is no room, and the same command goes on when there is.
func TestMachinesFullDisk(t *testing.T) {
	whole := newCLI(t)
	python, _ := fakePython(t)
	args := []string{"run", "fresh:tiny", "baseline:majority", "--suite", "sample", "--seeds", "10", "--slots", "2", "--executor", "process", "--python"}
	whole.run(0, append(args, python)...)
	want := whole.predictions()
	fill := func(t *testing.T, m, disk *machine, folder, home string) {
		m.python("STANDIN_PAUSE=300ms")
		command := m.bench(0, strings.Join(args, " ")+" /usr/bin/python-standin")
		p := newCLI(t)
		l := &ledger{p: p}
		for n := range 4 {
			over := make(chan error, 1)
			go func() { _, err := m.try(command); over <- err }()
			for { // until some jobs have ended
				if len(over) > 0 || strings.Count(disk.do("find "+home+"/jobs -name outcome.json 2>/dev/null; true"), "\n") > 4+12*n {
					break
				}
				time.Sleep(200 * time.Millisecond)
			}
			disk.do("dd if=/dev/zero of=" + folder + "/filler bs=64k 2>/dev/null; sync; true")
			err := <-over
			disk.do("rm " + folder + "/filler")
			if err == nil {
				t.Logf("the disk was full %d times before all was done", n)
				break
			}
			if !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("a full disk: %v", err)
			}
			disk.fetch(home, p.home)
			l.made = nil // what the trainer could not write whole is written again
			l.look()
			t.Logf("full: %d jobs are stored", len(l.stored))
		}
		if out, err := m.try(command); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		disk.fetch(home, p.home)
		l.made = nil
		l.complete(80, 8, want)
	}
	t.Run("ext4", func(t *testing.T) {
		m := newLab(t).machine("lonely", newDisk(t, 160, 3))
		m.on()
		m.do("mkfs.ext4 -q -b 4096 /dev/nbd0 && mount /dev/nbd0 /mnt")
		fill(t, m, m, "/mnt", "/mnt/home")
	})
	t.Run("NFS", func(t *testing.T) {
		s := newNFSLab(t, nfsVersions[0], 160, 1)
		fill(t, s.clients[0], s.server, "/mnt/export", "/mnt/export/home")
	})
}
