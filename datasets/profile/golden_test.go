package profile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/datasets/build"
	"bench/datasets/fetch"
	"bench/datasets/profile"

	"github.com/google/go-cmp/cmp"
)

// The profiles of all data sets that can be built from the shared mirror are
// kept in testdata, so that a change of a recipe or of a source shows as a
// diff. BENCH_UPDATE=1 writes them anew.
func TestGolden(t *testing.T) {
	m, err := fetch.OpenMirror(filepath.Join("..", "..", "..", "shared", "mirror"))
	if err != nil {
		if strings.Contains(os.Getenv("BENCH_TEST_REQUIRE"), "shared") {
			t.Fatal(err)
		}
		t.Skip("no shared test data: ", err)
	}
	all, err := build.Recipes()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	b := &build.Builder{Home: home, Recipes: all, Fetcher: &fetch.Fetcher{Dir: filepath.Join(home, "downloads"), Mirror: m, Offline: true}}
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) {
			d, err := b.Open(t.Context(), r.Name, build.Options{Partial: true})
			if err != nil {
				if e, ok := errors.AsType[*build.MissingError](err); ok {
					t.Skip("cannot be built here: ", e)
				}
				t.Fatal(err)
			}
			p, err := profile.Of(d)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", r.Name+".json"), p)
		})
	}
}

func compare(t *testing.T, path string, p profile.Profile) {
	t.Helper()
	got, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if os.Getenv("BENCH_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: BENCH_UPDATE=1 go test ./datasets/profile writes it", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("the data set is another one (BENCH_UPDATE=1 accepts it):\n%s", d)
	}
}
