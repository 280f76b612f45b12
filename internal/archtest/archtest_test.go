// Package archtest keeps the layers of docs/design.md.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed lists, for each package tree, the trees of this module that it may
// import. The longest matching prefix counts. internal/ui is for the command.
var allowed = map[string][]string{
	"cmd/bench":          {"*"},
	"internal":           {},
	"datasets":           {"datasets", "internal/atomicfile"},
	"scoring":            {"scoring"},
	"scoring/results":    {"scoring", "internal/atomicfile"},
	"tasks":              {"tasks", "datasets", "scoring"},
	"runner/job":         {"internal/atomicfile"},
	"runner":             {"runner/job", "runner/schedule", "tasks", "datasets", "scoring", "internal/atomicfile", "internal/hostile", "internal/procid"},
	"runner/runnertest":  {"runner", "runner/job", "datasets", "internal"},
	"runner/baseline":    {"runner", "runner/job", "datasets", "internal/atomicfile"},
	"runner/process":     {"runner", "runner/job", "runner/kept", "runner/runnertest", "containers/trainer", "internal"},
	"runner/docker":      {"runner", "runner/job", "runner/kept", "runner/runnertest", "containers", "internal"},
	"runner/kubernetes":  {"runner", "runner/job", "runner/kept", "runner/runnertest", "internal"},
	"runner/schedule":    {},
	"runner/kept":        {"runner", "runner/job", "internal/atomicfile", "internal/content"},
	"runner/pool":        {"runner", "runner/job", "runner/schedule", "internal/atomicfile"},
	"runner/slurm":       {"runner", "runner/job", "runner/kept", "runner/runnertest", "internal"},
	"containers":         {"internal/sshlink", "internal/atomicfile", "internal/content", "internal/hostile", "containers/trainer"},
	"containers/trainer": {},
}

// owned lists outside modules that one tree alone may import.
var owned = map[string]string{
	"github.com/docker/docker": "containers",
	"github.com/spf13/cobra":   "cmd/bench",
}

func TestLayers(t *testing.T) {
	root := filepath.Join("..", "..")
	// The files are read here and not by "go list", so that the test's cache
	// knows of every one of them.
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "docs") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(rel)
		rule, ok := longest(dir)
		if !ok {
			t.Errorf("%s: folder %s has no place in the design: say in archtest what it may import", path, dir)
			return nil
		}
		test := strings.HasSuffix(path, "_test.go")
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			for module, owner := range owned {
				if within(name, module) && !within(dir, owner) {
					t.Errorf("%s imports %s, which only %s may", path, name, owner)
				}
			}
			own, ok := strings.CutPrefix(name, "bench/")
			// Tests may look further, as long as they stay in their module.
			if !ok || test || slices.Contains(allowed[rule], "*") || within(own, rule) && rule != "runner" {
				continue
			}
			if !slices.ContainsFunc(allowed[rule], func(a string) bool { return own == a || within(own, a) && a != "runner" }) {
				t.Errorf("%s: %s may not import %s (allowed: %s)", path, dir, own, strings.Join(allowed[rule], ", "))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func longest(dir string) (string, bool) {
	best, ok := "", false
	for rule := range allowed {
		if within(dir, rule) && len(rule) >= len(best) {
			best, ok = rule, true
		}
	}
	return best, ok
}

func within(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }
