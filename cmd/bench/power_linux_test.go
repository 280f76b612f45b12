package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/runner/job"
)

// The power goes again and again in the middle of a run, and each time any part of
// what the disk was not told to flush is lost: every file is whole or absent, every job
// that was reported is there, and the same command goes on.
func TestMachinesPower(t *testing.T) {
	cuts := 20
	if os.Getenv("BENCH_TEST_KILLS") != "" {
		cuts = kills(t)
	}
	l := newLab(t)
	d := newDisk(t, 512, 1)
	m := l.machine("lonely", d)
	m.on()
	m.do("mkfs.ext4 -q -b 4096 /dev/nbd0 && mount /dev/nbd0 /mnt")
	whole := newCLI(t)
	python, _ := fakePython(t)
	args := []string{"run", "fresh:tiny", "baseline:majority", "--suite", "sample", "--seeds", "20", "--executor", "process", "--python"}
	whole.run(0, append(args, python)...)
	want := whole.predictions()

	done, rounds, reports, torn := 0, 0, 0, 0
	for ; done < cuts; rounds++ {
		m.do("rm -rf /mnt/home; sync")
		p := newCLI(t)
		ledger := &ledger{p: p}
		reported := map[job.ID]bool{}
		for {
			m.python("STANDIN_PAUSE=200ms")
			c := m.command(m.bench(0, strings.Join(args, " ")+" /usr/bin/python-standin --json"))
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			c.Stderr = &errs
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			var timer *time.Timer
			dark := make(chan struct{}) // closed after the cut
			ahead := rand.N(14)         // lines to come before it
			said(out, func(line string) {
				var e struct {
					Type  string
					Job   job.ID
					State job.State
				}
				if json.Unmarshal([]byte(line), &e) != nil {
					return
				}
				if (e.Type == "plan" || e.Type == "job") && done < cuts {
					if ahead--; ahead < 0 && timer == nil {
						timer = time.AfterFunc(rand.N(500*time.Millisecond), func() { m.cut(); close(dark) })
					}
				}
				if e.Type == "job" && e.State == job.OK {
					reported[e.Job] = true
				}
			})
			err = c.Wait()
			if timer == nil || timer.Stop() {
				if err != nil {
					t.Fatalf("%v\n%s", err, errs.String())
				}
				break
			}
			<-dark
			done++
			m.on()
			m.do("mount /dev/nbd0 /mnt && mkdir -p /mnt/home")
			m.fetch("/mnt/home", p.home)
			torn += forgetTorn(t, p.home)
			ledger.made = nil // what was not stored yet may be gone with the power
			ledger.look()
			for id := range reported {
				if ledger.stored[id] == nil {
					t.Errorf("cut %d: job %s was reported and is lost", done, id.Short())
				}
			}
			for id, text := range p.predictions() {
				if text != want[id] {
					t.Errorf("cut %d: the predictions of job %s are not those of an undisturbed run", done, id.Short())
				}
			}
			t.Logf("cut %d: %d jobs reported, %d stored; %d torn so far, %d sectors lost", done, len(reported), len(ledger.stored), torn, d.lost)
		}
		reports += len(reported)
		m.fetch("/mnt/home", p.home)
		ledger.complete(160, 8, want)
	}
	t.Logf("%d cuts in %d runs, %d jobs, %d of them torn, %d sectors of %d bytes lost", done, rounds, reports, torn, d.lost, sectorSize)
}

// forgetTorn removes the jobs of a home that bench takes for not ended, and
// returns how many.
func forgetTorn(t *testing.T, home string) (n int) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(home, "jobs", "*", "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		_, ended, err := job.Store{Home: home}.Outcome(job.ID(filepath.Base(dir)))
		if err != nil {
			t.Fatal(err)
		}
		if !ended {
			n++
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}
