package results_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bench/scoring/results"
)

// With appendEnv set this program is no test but appends records named
// NAME-0, NAME-1, … to a log until it is killed or COUNT are written, and says
// so after each: "HOME NAME COUNT".
const appendEnv = "BENCH_TEST_APPENDER"

func TestMain(m *testing.M) {
	if s := os.Getenv(appendEnv); s != "" {
		f := strings.Split(s, "\x1f")
		count, err := strconv.Atoi(f[2])
		if err != nil {
			panic(err)
		}
		for i := range count {
			name := fmt.Sprintf("%s-%d", f[1], i)
			if err := results.Open(f[0]).Append(record(name, 0.5, 0.6)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println(name)
		}
		return
	}
	os.Exit(m.Run())
}

// appender starts this program as one that appends.
func appender(t *testing.T, home, name string, count int) (*exec.Cmd, *bytes.Buffer) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s\x1f%s\x1f%d", appendEnv, home, name, count))
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, &said
}

// models returns how often each model is in the log.
func models(t *testing.T, l *results.Log) (map[string]int, []error) {
	rs, warnings, err := l.Read()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, r := range rs {
		n[r.Model.ID]++
	}
	return n, warnings
}

func TestAppendAtOnce(t *testing.T) {
	home := t.TempDir()
	const programs, routines, each = 3, 4, 20
	var all sync.WaitGroup
	for p := range programs {
		c, _ := appender(t, home, fmt.Sprintf("program%d", p), each)
		all.Go(func() {
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	l := results.Open(home)
	for g := range routines {
		all.Go(func() {
			for i := range each {
				if err := l.Append(record(fmt.Sprintf("routine%d-%d", g, i), 0.5)); err != nil {
					t.Error(err)
				}
				if _, warnings, err := l.Read(); err != nil || len(warnings) > 0 {
					t.Errorf("while others write: %v, %v", err, warnings)
				}
			}
		})
	}
	all.Wait()
	got, warnings := models(t, l)
	if len(warnings) > 0 || len(got) != (programs+routines)*each {
		t.Errorf("%d records, warnings %v", len(got), warnings)
	}
	for m, n := range got {
		if n != 1 {
			t.Errorf("%s is there %d times", m, n)
		}
	}
}

// TestKill kills programs that append, again and again: what they said was
// written must be there, whole, once.
func TestKill(t *testing.T) {
	home := t.TempDir()
	l := results.Open(home)
	said := map[string]bool{}
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		var programs []*exec.Cmd
		var outs []*bytes.Buffer
		for p := range 2 {
			c, out := appender(t, home, fmt.Sprintf("r%d.%d", round, p), 1_000_000)
			programs, outs = append(programs, c), append(outs, out)
		}
		time.Sleep(time.Duration(50+rand.IntN(100)) * time.Millisecond)
		for i, c := range programs {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			var ended *exec.ExitError
			if err := c.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the program ended by itself: %v", err)
			}
			in := bufio.NewScanner(outs[i])
			for in.Scan() {
				said[in.Text()] = true
			}
		}
	}
	got, warnings := models(t, l)
	for m := range said {
		if got[m] != 1 {
			t.Errorf("%s was written %d times", m, got[m])
		}
	}
	// A program killed after its write and before its word is in the log too.
	if extra := len(got) - len(said); extra < 0 || extra > 2*rounds {
		t.Errorf("%d records, %d were promised", len(got), len(said))
	}
	for _, w := range warnings {
		t.Log(w) // lines that the kill tore: reported, and no record of those promised
	}
	if len(said) < rounds {
		t.Errorf("only %d records in %d rounds", len(said), rounds)
	}
	t.Logf("%d records kept, %d torn lines", len(said), len(warnings))
}

// TestTornAnywhere cuts the log all over its last line, as a crash would, and
// goes on.
func TestTornAnywhere(t *testing.T) {
	home := t.TempDir()
	l := results.Open(home)
	for _, m := range []string{"first", "second"} {
		if err := l.Append(record(m, 0.5)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	start := bytes.IndexByte(whole, '\n') + 1
	for cut := start; cut <= len(whole); cut++ {
		nearEnd := cut < start+3 || cut > len(whole)-4
		if cut%3 != 0 && !nearEnd {
			continue
		}
		if err := os.WriteFile(l.Path(), whole[:cut], 0o666); err != nil {
			t.Fatal(err)
		}
		got, warnings := models(t, l)
		wantSecond, wantTorn := 0, 1
		switch {
		case cut == start:
			wantTorn = 0
		case cut >= len(whole)-1: // only the newline is missing, or nothing
			wantSecond, wantTorn = 1, 0
		}
		if got["first"] != 1 || got["second"] != wantSecond || len(warnings) != wantTorn {
			t.Fatalf("cut at %d of %d: %v, %v", cut, len(whole), got, warnings)
		}
		if cut%21 != 0 && !nearEnd { // an append costs an fsync
			continue
		}
		if err := l.Append(record("third", 0.5)); err != nil {
			t.Fatal(err)
		}
		got, warnings = models(t, l)
		if got["first"] != 1 || got["second"] != wantSecond || got["third"] != 1 || len(warnings) != wantTorn {
			t.Fatalf("cut at %d of %d and gone on: %v, %v", cut, len(whole), got, warnings)
		}
		for _, w := range warnings {
			var torn *results.TornError
			if !errors.As(w, &torn) || torn.Line != 2 || torn.Last || !strings.Contains(w.Error(), "results.jsonl:2: torn line") {
				t.Fatalf("warning is %v", w)
			}
		}
		after, err := os.ReadFile(l.Path())
		if err != nil || !bytes.HasPrefix(after, whole[:cut]) {
			t.Fatal("what was in the log is not in it any more")
		}
	}
}

func TestTornLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	for _, text := range []string{`{"schema":1,"ben`, "\x00\x00\x00\x00", "\xff"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		_, warnings, err := results.At(path).Read()
		var torn *results.TornError
		if err != nil || len(warnings) != 1 || !errors.As(warnings[0], &torn) || !torn.Last || torn.Line != 1 {
			t.Errorf("%q: %v, %v", text, warnings, err)
		}
	}
}

// TestNoSpace fills a small device: what was there stays, and nothing of the
// record that did not fit.
func TestNoSpace(t *testing.T) {
	home := t.TempDir()
	l := results.Open(home)
	if err := l.Append(record("first", 0.5)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	// A limit on the size of files stands for a full disk: the first write is
	// cut short, the second fails.
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	small := old
	small.Cur = uint64(len(before) + 100)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	err = l.Append(record("second", 0.5))
	if e := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); e != nil {
		t.Fatal(e)
	}
	if err == nil || !strings.Contains(err.Error(), "second on scala-da is not written") {
		t.Errorf("error is %v", err)
	}
	after, err := os.ReadFile(l.Path())
	if err != nil || !bytes.Equal(after, before) {
		t.Errorf("the log has %d bytes, had %d; %v", len(after), len(before), err)
	}
	if err := l.Append(record("second", 0.5)); err != nil {
		t.Fatal(err)
	}
	if got, warnings := models(t, l); got["second"] != 1 || len(warnings) > 0 {
		t.Errorf("%v, %v", got, warnings)
	}
}

func BenchmarkRead(b *testing.B) {
	l := results.Open(b.TempDir())
	r := record("a/b", .1, .2, .3, .4, .5, .6, .7, .8, .9, .95)
	for range 200 {
		if err := l.Append(r); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if rs, _, err := l.Read(); err != nil || len(rs) != 200 {
			b.Fatal(len(rs), err)
		}
	}
}

// What another process has recorded since the log was read is not recorded again.
func TestAppendNew(t *testing.T) {
	home := t.TempDir()
	mine, other := results.Open(home), results.Open(home)
	if err := other.Append(record("before", 0.5)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(mine.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"both", "theirs"} {
		if err := other.Append(record(name, 0.5)); err != nil {
			t.Fatal(err)
		}
	}
	same := func(old, r results.Record) bool { return old.Identity() == r.Identity() }
	rs := []results.Record{record("before", 0.5), record("both", 0.5), record("mine", 0.5)}
	added, size, err := mine.AppendNew(rs, info.Size(), same)
	if err != nil || len(added) != 2 || added[0].Model.ID != "before" || added[1].Model.ID != "mine" {
		t.Fatalf("added %v: %v", added, err)
	}
	if info, err = os.Stat(mine.Path()); err != nil || info.Size() != size {
		t.Errorf("the log has %v bytes, not %d: %v", info.Size(), size, err)
	}
	if added, again, err := mine.AppendNew(rs[1:], 0, same); err != nil || len(added) != 0 || again != size {
		t.Errorf("again: added %v, %d bytes: %v", added, again, err)
	}
	all, _, err := mine.Read()
	if err != nil || len(all) != 5 {
		t.Errorf("%d records: %v", len(all), err)
	}
}
