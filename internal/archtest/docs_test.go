package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReliabilityNamesTests: every test that docs/reliability.md names is there.
func TestReliabilityNamesTests(t *testing.T) {
	root := filepath.Join("..", "..")
	var code strings.Builder
	err := filepath.WalkDir(root, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), ".") && len(e.Name()) > 2 {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, "_test.go") && !(strings.HasPrefix(e.Name(), "test_") && strings.HasSuffix(p, ".py")) {
			return nil
		}
		b, err := os.ReadFile(p)
		code.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+|test_\\w+)`").FindAllStringSubmatch(string(doc), -1)
	if len(named) < 20 {
		t.Fatalf("docs/reliability.md names %d tests: it is read wrongly", len(named))
	}
	for _, n := range named {
		if !regexp.MustCompile(`(func|def) ` + n[1] + `\(`).MatchString(code.String()) {
			t.Errorf("docs/reliability.md names %s, which is no test", n[1])
		}
	}
}
