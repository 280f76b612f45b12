package trainer

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPython runs the Python tests with every Python of BENCH_TEST_PYTHONS, a list like PATH; each needs torch and
// transformers. They take minutes: the parity with the reference system's own runs is among them (all of its tasks with
// BENCH_TEST_PARITY=sentiment,acceptability,ner,qa).
func TestPython(t *testing.T) {
	pythons := filepath.SplitList(os.Getenv("BENCH_TEST_PYTHONS"))
	if len(pythons) == 0 {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "python") {
			t.Fatal("BENCH_TEST_REQUIRE asks for python, and BENCH_TEST_PYTHONS names none")
		}
		t.Skip("BENCH_TEST_PYTHONS is empty: set it to Pythons with torch and transformers, separated like PATH")
	}
	for _, python := range pythons {
		t.Run(strings.Trim(strings.ReplaceAll(python, "/", "_"), "_"), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), python, "-W", "ignore", filepath.Join("tests", "run.py"))
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Fatalf("%s: %v", python, err)
			}
		})
	}
}
