// Package datasetstest finds the corpora and reference outputs that tests of
// data sets compare with. They are no part of the repository, but lie beside it.
package datasetstest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Shared returns a path below the folder of shared test data, which is next to
// the repository's. Without it the test is skipped, or fails if
// BENCH_TEST_REQUIRE lists "shared".
func Shared(t testing.TB, path string) string {
	t.Helper()
	p := filepath.Join(root(t), "..", "shared", filepath.FromSlash(path))
	if _, err := os.Stat(p); err != nil {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "shared") {
			t.Fatal(err)
		}
		t.Skip("no shared test data: ", err)
	}
	return p
}

// root returns the folder of the repository.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("the test runs outside of the repository")
		}
		dir = up
	}
}

// Golden reads a reference output of Shared: JSON lines, compressed if the name
// ends with .gz.
func Golden[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(Shared(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	var out []T
	for d := json.NewDecoder(bufio.NewReaderSize(r, 1<<20)); ; {
		var v T
		if err := d.Decode(&v); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, v)
	}
}
