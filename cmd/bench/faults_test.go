package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/runner/job"
)

// tinyBERT copies the small BERT of the reference outputs into a folder of its
// own. change gets its files and may change them.
func tinyBERT(t *testing.T, change func(map[string][]byte)) string {
	t.Helper()
	from := filepath.Join(shared(t), "golden", "peer", "models", "bert")
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	model := map[string][]byte{}
	for _, e := range entries {
		if model[e.Name()], err = os.ReadFile(filepath.Join(from, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	change(model)
	dir := t.TempDir()
	for name, b := range model {
		put(t, filepath.Join(dir, name), string(b))
	}
	return dir
}

// spoilWeights puts NaN into every weight of a safetensors file of F32.
func spoilWeights(file []byte) []byte {
	out := bytes.Clone(file)
	at := 8 + int(binary.LittleEndian.Uint64(out))
	for ; at+4 <= len(out); at += 4 {
		binary.LittleEndian.PutUint32(out[at:], math.Float32bits(float32(math.NaN())))
	}
	return out
}

// real trains with the first Python of BENCH_TEST_PYTHONS.
func real(t *testing.T, p *cli, model string, more ...string) []string {
	t.Helper()
	args := append([]string{"run", model, "--catalog", smallCatalogue(t), "--dataset", "small-reviews", "--seeds", "1", "--threads", "1",
		"--protocol", "smoke", "--executor", "process", "--python", firstPython(t)}, more...)
	if len(more) == 0 {
		args = append(args, "--set", "max_steps=20")
	}
	p.env = append(p.env, "TRANSFORMERS_VERBOSITY=error")
	return args
}

// Models that are broken, each in its own way, with the real trainer.
func TestBrokenModels(t *testing.T) {
	cases := []struct {
		name   string
		change func(map[string][]byte)
		code   int
		want   []string
	}{
		{"sound", func(map[string][]byte) {}, 0, []string{"[1/1]"}},
		{"NaN weights", func(m map[string][]byte) { m["model.safetensors"] = spoilWeights(m["model.safetensors"]) }, 1,
			[]string{": nan: ", "hint: "}},
		{"truncated weights", func(m map[string][]byte) { m["model.safetensors"] = m["model.safetensors"][:100_000] }, 4,
			[]string{"model.safetensors", "hint: get the file again"}},
		{"no tokenizer", func(m map[string][]byte) {
			maps.DeleteFunc(m, func(name string, _ []byte) bool { return strings.Contains(name, "token") || name == "vocab.txt" })
		}, 4, []string{"tokenizer", "hint: save the tokenizer"}},
		{"no weights", func(m map[string][]byte) { delete(m, "model.safetensors") }, 4, []string{"hint: bench needs model.safetensors"}},
		{"config of nothing", func(m map[string][]byte) { m["config.json"] = []byte(`{"model_type": "abacus"}`) }, 1, []string{"abacus"}},
	}
	firstPython(t)
	shared(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newCLI(t)
			r := p.run(c.code, real(t, p, tinyBERT(t, c.change))...)
			has(t, r.stderr, c.want...)
			if strings.Contains(r.stderr, "Traceback") && c.code != 1 {
				t.Errorf("a traceback:\n%s", r.stderr)
			}
			p.noBatches()
		})
	}
}

// A tiny real model goes from the Hub into a trained, recorded score.
func TestRealModelFromTheHub(t *testing.T) {
	firstPython(t)
	dir := tinyBERT(t, func(map[string][]byte) {})
	w := newWorld(t)
	model := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if model[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	repo := w.hub.Add("org/tiny-bert", model)
	r := w.run(0, real(t, w.cli, "org/tiny-bert")...)
	w.noSecret(r)
	rs := w.records()
	if len(rs) != 1 || rs[0].Model.Revision != repo.Head("main") || rs[0].Model.Parameters == 0 || rs[0].Replicates[0].Steps == 0 {
		t.Errorf("%+v", rs)
	}
}

// children lists the processes whose parent is pid.
func children(pid int) []int {
	var out []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		rest := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if parent, err := strconv.Atoi(rest[1]); err == nil && parent == pid {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			out = append(out, child)
		}
	}
	return out
}

// A trainer that is killed in the middle of a job is started again, and the
// record says that it took two attempts.
func TestKilledTrainerIsStartedAgain(t *testing.T) {
	t.Run("stand-in", func(t *testing.T) {
		python, log := fakePython(t, "STANDIN_DIE='"+filepath.Join(t.TempDir(), "died")+"'")
		p := newCLI(t)
		r := p.run(0, "run", "fresh:tiny", "--suite", "sample", "--seeds", "1", "--executor", "process", "--python", python)
		has(t, r.stderr, "killed by signal 9", "trying again", "[4/4]")
		begun := 0
		for _, n := range starts(t, log) {
			begun += n
		}
		if begun != 5 {
			t.Errorf("%d starts of 4 jobs, want 5", begun)
		}
		p.noBatches()
	})
	t.Run("python", func(t *testing.T) {
		firstPython(t)
		p := newCLI(t)
		args := real(t, p, tinyBERT(t, func(map[string][]byte) {}), "--set", "max_steps=500", "--set", "patience_steps=500", "--json")
		c := p.command(args...)
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var trainer int
		eventually(t, "the trainer works on a job", func() bool {
			for _, b := range files(t, filepath.Join(p.home, "batches", "*", "events.jsonl")) {
				for _, supervisor := range children(c.Process.Pid) {
					if kids := children(supervisor); len(kids) == 1 && bytes.Contains(b, []byte(`"start"`)) {
						trainer = kids[0]
						return true
					}
				}
			}
			return c.ProcessState != nil
		})
		syscall.Kill(trainer, syscall.SIGKILL)
		if err := c.Wait(); err != nil {
			t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
		}
		has(t, out.String(), "killed by signal 9")
		if rs := p.records(); len(rs) != 1 || rs[0].Replicates[0].Attempt != 2 {
			t.Errorf("%+v", rs)
		}
		p.noBatches()
	})
}

// A full disk: exit code 4 and what to do. Finished seeds are kept, and with
// more room the same command goes on.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a small file system")
	}
	p := newCLI(t)
	if err := os.MkdirAll(p.home, 0o777); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "bench-test", p.home).CombinedOutput(); err != nil {
		t.Skipf("no small file system can be made here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", p.home).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	p.run(0, "data", "build", "sample-ner", "sample-sentiment", "sample-acceptability", "sample-qa")
	// Somebody else fills the disk when the first seed has ended.
	args := []string{"run", "baseline:majority", "--suite", "sample", "--seeds", "20", "--slots", "1"}
	c := p.command(args...)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first seed has ended", func() bool { return len(p.stored("outcome.json")) > 0 })
	ballast := filepath.Join(p.home, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 80<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	c.Wait()
	if code := c.ProcessState.ExitCode(); code != 4 {
		t.Errorf("exit code %d\n%s", code, said.String())
	}
	has(t, said.String(), "no space left", "hint: make room")
	if n := strings.Count(said.String(), "bench: error"); n > 3 {
		t.Errorf("it says so too often:\n%s", said.String())
	}
	l := &ledger{p: p}
	l.look()
	if len(l.stored) == 0 {
		t.Fatal("the disk was full before the first seed had ended; the test needs more room")
	}
	r := p.run(4, args...)
	has(t, r.stderr, "no space left on the disk of "+p.home+" for this: 0 MiB are free, and about", "hint: make room")
	l.look()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	kept := len(l.stored)
	begun := time.Now()
	r = p.run(0, append(args, "--json")...)
	l.look()
	t.Logf("%d seeds had ended before the disk was full; the rest took %v", kept, time.Since(begun))
	var summary struct{ Cached, Ran int }
	for _, e := range jsonLines(t, r.stdout) {
		if e["type"] == "summary" {
			b, _ := json.Marshal(e)
			json.Unmarshal(b, &summary)
		}
	}
	if summary.Cached < kept || summary.Cached+summary.Ran != 80 {
		t.Errorf("%d seeds were kept, %+v", kept, summary)
	}
	for id, b := range l.stored {
		var o job.Outcome
		if err := json.Unmarshal(b, &o); err != nil || o.State != job.OK {
			t.Errorf("job %s: %v: %s", id.Short(), err, b)
		}
	}
	if rs := p.records(); len(rs) != 4 {
		t.Errorf("%d records", len(rs))
	}
	p.noBatches()
}
