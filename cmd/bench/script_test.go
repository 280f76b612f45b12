package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bench/runner/process"
	"bench/runner/runnertest/standin"

	"github.com/rogpeppe/go-internal/testscript"
)

// Every script runs the real program, as a process of its own. The test program
// is also the supervisor that bench starts itself as, and a trainer.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == process.SuperviseArg {
		main()
	}
	testscript.Main(m, map[string]func(){"bench": main, "standin-trainer": standin.Main})
}

// required says whether the part must be there (BENCH_TEST_REQUIRE, a comma
// list) rather than skipped.
func required(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), part)
}

// need skips or fails a test for want of a part.
func need(t *testing.T, part string, there bool, why string) {
	t.Helper()
	if there {
		return
	}
	if required(part) {
		t.Fatalf("%s is required: %s", part, why)
	}
	t.Skipf("%s: %s", part, why)
}

// shared is the folder with the real corpora.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "..", "shared"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(dir, "mirror", "index.json"))
	need(t, "shared", err == nil, "there is no "+dir)
	return dir
}

func scripts(t *testing.T, dir string, env map[string]string) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", dir),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("BENCH_UPDATE") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("BENCH_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("HF_HUB_OFFLINE", "1")
			e.Setenv("DOCKER_HOST", "unix://"+filepath.Join(e.WorkDir, "no-engine.sock"))
			for k, v := range env {
				e.Setenv(k, v)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits CODE PROGRAM ARGS… runs a program that must end with this code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var e *exec.ExitError
	if errors.As(err, &e) {
		got = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func TestScripts(t *testing.T) { scripts(t, "script", nil) }

// TestCorpora runs what needs the real corpora.
func TestCorpora(t *testing.T) {
	scripts(t, "corpora", map[string]string{"MIRROR": filepath.Join(shared(t), "mirror")})
}

// example is a "$ bench …" line of a document and the output that follows it.
type example struct {
	line    int
	command string
	want    string
}

// examples reads the examples of a document: in a fenced block, a line
// "$ bench ARGS" and what it writes to stdout, up to the next command or the
// end of the block.
func examples(text string) []example {
	var out []example
	var open *example
	for i, l := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(l, "$ bench "):
			out = append(out, example{line: i + 1, command: strings.TrimPrefix(l, "$ ")})
			open = &out[len(out)-1]
		case strings.HasPrefix(l, "```"):
			open = nil
		case open != nil:
			open.want += l + "\n"
		}
	}
	return out
}

// TestExamples runs every example of the README and the manual and compares
// what it writes to stdout. BENCH_UPDATE=1 writes down what there is now.
func TestExamples(t *testing.T) {
	bench, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../../README.md", "../../docs/manual.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := examples(string(text))
		if len(found) == 0 {
			t.Errorf("%s has no examples", file)
		}
		home, updated := t.TempDir(), string(text)
		for _, e := range found {
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(file), e.line), func(t *testing.T) {
				c := exec.Command(bench, strings.Fields(e.command)[1:]...)
				c.Dir = t.TempDir()
				c.Env = append(os.Environ(), "BENCH_HOME="+home, "DOCKER_HOST=unix:///nonexistent.sock", "HF_HUB_OFFLINE=1")
				got, err := c.Output()
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				if strings.TrimRight(string(got), "\n") == strings.TrimRight(e.want, "\n") {
					return
				}
				if os.Getenv("BENCH_UPDATE") == "" {
					t.Errorf("%s\ngot:\n%s\nwant:\n%s", e.command, got, e.want)
					return
				}
				updated = strings.Replace(updated, "$ "+e.command+"\n"+e.want, "$ "+e.command+"\n"+strings.TrimRight(string(got), "\n")+"\n", 1)
			})
		}
		if updated != string(text) {
			if err := os.WriteFile(file, []byte(updated), 0o644); err != nil {
				t.Error(err)
			}
		}
	}
}
