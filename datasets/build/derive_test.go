package build

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/datasets/hub"
	"bench/datasets/published"

	"github.com/parquet-go/parquet-go"
)

// A division is built from the parent, which is built if it is not there, and
// says what it is; twice gives equal bytes.
func TestDivide(t *testing.T) {
	b := without(t)
	parent, err := b.Open(t.Context(), "sample-acceptability", Options{})
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{parent.Digest: true}
	for _, name := range []string{"tune-dev", "tune-test", "resplit-dev", "resplit-test", "random5-1", "random5-2", "random5-1-s7"} {
		d, err := b.Open(t.Context(), parent.Name+"+"+name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if digests[d.Digest] {
			t.Errorf("%s has the digest of another one", d.Name)
		}
		digests[d.Digest] = true
		v := d.Division
		if v == nil || v.Of != parent.Name || v.OfDigest != parent.Digest || d.Kind != parent.Kind || d.Licence != parent.Licence {
			t.Errorf("%s: %+v", name, d.Meta)
		}
		if err := d.Verify(); err != nil {
			t.Error(err)
		}
		again := without(t)
		e, err := again.Build(t.Context(), d.Name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		x, y := content(t, d.Dir), content(t, e.Dir)
		for file := range x {
			if x[file] != y[file] {
				t.Errorf("%s: %s differs", d.Name, file)
			}
		}
	}
	if err := os.WriteFile(parent.Path(datasets.Val), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var changed *datasets.DigestError
	if _, err := b.Build(t.Context(), parent.Name+"+tune-dev", Options{}); !errors.As(err, &changed) {
		t.Errorf("a damaged parent: %v", err)
	}
	if _, err := b.Build(t.Context(), parent.Name, Options{}); err != nil {
		t.Fatal(err)
	}
	same, err := b.Open(t.Context(), parent.Name+"+standard", Options{})
	if err != nil || same.Digest != parent.Digest {
		t.Errorf("standard: %v", err)
	}
	for _, name := range []string{"sample-qa+tune", "sample-qb+tune-dev", "sample-qa+tune-dev+tune-dev"} {
		if _, err := b.Open(t.Context(), name, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	var unknown *UnknownError
	if _, err := b.Recipe("sample-qb+tune-dev"); !errors.As(err, &unknown) || unknown.Name != "sample-qb" {
		t.Errorf("error %v", err)
	}
	names, err := b.Select(Selection{Names: []string{parent.Name + "+tune-dev", "sample-qa"}})
	if err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
	var listed []string
	for _, i := range b.List() {
		if i.Origin == Divided {
			listed = append(listed, i.Name)
			if i.Status != Full {
				t.Errorf("%s: %s", i.Name, i.Status)
			}
		}
	}
	if len(listed) != 8 || !slices.IsSorted(listed) {
		t.Errorf("listed: %v", listed)
	}
}

// hubOf is a Hub with one data set on disk.
type hubOf struct{ dir string }

func (h hubOf) GetDataset(_ context.Context, id, _ string, choose hub.Choose, _ hub.Options) (hub.DatasetSnapshot, error) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	s := hub.DatasetSnapshot{ID: id, Commit: commit}
	names, err := choose([]string{"train.parquet", "val.parquet", "test.parquet"})
	for _, n := range names {
		s.Files = append(s.Files, hub.DatasetFile{Name: n, Path: filepath.Join(h.dir, n), URL: "https://example.org/" + commit + "/" + n, SHA256: strings.Repeat("0", 64)})
	}
	return s, err
}

func writeHub(t *testing.T, n int) hubOf {
	t.Helper()
	type row struct {
		Text  string `parquet:"text"`
		Label string `parquet:"label"`
	}
	dir := t.TempDir()
	for _, s := range datasets.Splits {
		var rows []row
		for i := range n {
			rows = append(rows, row{string(s) + strings.Repeat("!", i), []string{"positive", "negative"}[i%2]})
		}
		var b bytes.Buffer
		if err := parquet.Write(&b, rows); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, string(s)+".parquet"), b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return hubOf{dir}
}

// A data set of the Hub is built like any other, opened later without the Hub,
// divided, listed and described.
func TestFromHub(t *testing.T) {
	found, err := published.Get(t.Context(), writeHub(t, 20), published.Spec{ID: "org/reviews", Revision: "main", Languages: []string{"da"}})
	if err != nil {
		t.Fatal(err)
	}
	b := without(t)
	name := b.Add(found)
	d, err := b.Open(t.Context(), name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Sources) != 3 || !strings.HasPrefix(d.Sources[0].URL, "https://example.org/") || d.Counts[datasets.Test].Rows != 20 {
		t.Errorf("%+v", d.Meta)
	}
	later := without(t)
	later.Home = b.Home
	if again, err := later.Open(t.Context(), name, Options{}); err != nil || again.Digest != d.Digest {
		t.Errorf("later: %v", err)
	}
	if again, err := later.Build(t.Context(), name, Options{}); err != nil || len(again.Sources) != 3 {
		t.Errorf("built again: %v", err)
	}
	if half, err := later.Open(t.Context(), name+"+random4-1", Options{}); err != nil || half.Division.OfDigest != d.Digest || len(half.Sources) != 3 {
		t.Errorf("divided: %v", err)
	}
	var names []string
	for _, i := range later.List() {
		if i.Origin == published.Origin || i.Origin == Divided {
			names = append(names, i.Name)
		}
	}
	if !slices.Equal(names, []string{name, name + "+random4-1"}) {
		t.Errorf("listed: %v", names)
	}
	// What a catalogue defined that is not given any more is described, too.
	if err := os.Rename(later.Dir(name), later.Dir("my-own")); err != nil {
		t.Fatal(err)
	}
	if i, err := later.Show("my-own"); err != nil || i.Status != Orphan || i.Built == nil {
		t.Errorf("%+v, error %v", i, err)
	}
	if _, err := later.Show("../datasets/my-own"); err == nil {
		t.Error("a path was shown")
	}
}
