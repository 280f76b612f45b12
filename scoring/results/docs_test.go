package results_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bench/scoring/results"
)

// TestDocumented: docs/formats.md names every field of a record.
func TestDocumented(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## Records\n")
	if !ok && !strings.HasPrefix(string(b), "## Records\n") {
		t.Fatal("docs/formats.md has no section Records")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for _, v := range []any{results.Record{}, results.Model{}, results.Dataset{}, results.Replicate{}, results.Energy{}, results.Seconds{}, results.Memory{}, results.Failure{}, results.Summary{}, results.Imported{}} {
		for f := range reflect.TypeOf(v).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%T: field %s is not described", v, name)
			}
		}
	}
}
