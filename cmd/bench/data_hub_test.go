package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bench/datasets/hub/hubtest"

	"github.com/parquet-go/parquet-go"
)

// published makes the files of a small data set on a Hub. Rows of the test split
// below changed have another text than they would have without.
func publishedFiles(t *testing.T, changed int) map[string][]byte {
	t.Helper()
	type row struct {
		Text  string `parquet:"text"`
		Label string `parquet:"label"`
	}
	files := map[string][]byte{"README.md": []byte("---\nlanguage: da\nlicense: cc0-1.0\n---\n")}
	for split, n := range map[string]int{"train": 40, "val": 30, "test": 20} {
		var rows []row
		for i := range n {
			text := fmt.Sprintf("Anmeldelse nr. %d til %s", i, split)
			if split == "test" && i < changed {
				text += ", rettet"
			}
			rows = append(rows, row{text, []string{"positive", "neutral", "negative"}[i%3]})
		}
		var b bytes.Buffer
		if err := parquet.Write(&b, rows); err != nil {
			t.Fatal(err)
		}
		files["data/"+split+"-00000-of-00001.parquet"] = b.Bytes()
	}
	return files
}

// A data set of the Hub, by all commands that take one: run, build, show,
// compare, split, mirror; then from the mirror, on a machine without the Hub.
func TestHubDataset(t *testing.T) {
	w := newWorld(t)
	repo := w.hub.AddDataset("org/reviews", publishedFiles(t, 0))
	repo.Set(func(r *hubtest.Repo) { r.Private, r.Readers = true, []string{secret} })
	first := repo.Head("main")
	name := "hub--org--reviews@" + first[:12]
	r := w.run(0, "run", "baseline:majority", "--dataset", "hub:org/reviews", "--seeds", "1")
	if !strings.Contains(r.stdout, name) {
		t.Errorf("%s", r.stdout)
	}
	second := repo.Commit("main", publishedFiles(t, 5))
	r = w.run(0, "data", "build", "hub:org/reviews", "--json")
	var meta struct {
		Name, Licence string
		Languages     []string
		Sources       []struct{ URL, SHA256 string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &meta); err != nil {
		t.Fatal(err)
	}
	if meta.Name != "hub--org--reviews@"+second[:12] || meta.Licence != "cc0-1.0" || meta.Languages[0] != "da" || len(meta.Sources) != 4 || !strings.Contains(meta.Sources[0].URL, second) {
		t.Errorf("%+v", meta)
	}
	r = w.run(0, "data", "compare", name, "hub:org/reviews", "--list", "3")
	if !strings.Contains(r.stdout, "only A") || !strings.Contains(r.stderr, "7 more rows differ") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	r = w.run(0, "data", "compare", name, "hub:org/reviews", "--json")
	if n := strings.Count(r.stdout, `"type":"row"`); n != 10 || !strings.Contains(r.stdout, `"only_a":5,"only_b":5`) {
		t.Errorf("%d rows: %s", n, r.stdout)
	}
	r = w.run(0, "run", "baseline:majority", "--dataset", "hub:org/reviews@"+first+"+random3-1", "--seeds", "1")
	if !strings.Contains(r.stdout, name+"+random3-1") {
		t.Errorf("%s", r.stdout)
	}
	mirror := filepath.Join(t.TempDir(), "mirror")
	w.run(0, "data", "mirror", mirror, "hub:org/reviews@"+first)
	w.noSecret(r)

	away := newCLI(t) // another machine
	away.env = []string{"HF_HOME=" + t.TempDir()}
	away.run(4, "data", "build", "hub:org/reviews")
	r = away.run(0, "data", "build", "hub:org/reviews", "--mirror", mirror)
	want := w.run(0, "data", "build", "hub:org/reviews@"+first)
	if r.stdout != want.stdout {
		t.Errorf("from the mirror %s, from the Hub %s", r.stdout, want.stdout)
	}
	away.run(0, "data", "show", name) // without anything
}

func TestHubDatasetRefused(t *testing.T) {
	w := newWorld(t)
	gated := w.hub.AddDataset("org/gated", publishedFiles(t, 0))
	gated.Gated = "manual"
	type strange struct {
		Title string `parquet:"title"`
	}
	var b bytes.Buffer
	if err := parquet.Write(&b, []strange{{"x"}}); err != nil {
		t.Fatal(err)
	}
	w.hub.AddDataset("org/strange", map[string][]byte{"train.parquet": b.Bytes(), "val.parquet": b.Bytes(), "test.parquet": b.Bytes()})
	for _, test := range []struct {
		code          int
		name          string
		error, remedy string
	}{
		{4, "hub:org/gated", "terms have to be accepted", "/datasets/org/gated"},
		{4, "hub:org/missing", "no such data set on the Hub", "spelling"},
		{64, "hub:org/strange", "its columns are title", "--catalog"},
		{64, "hub:org/strange?task=speed", "no task", "hub:org/name?task="},
	} {
		r := w.run(test.code, "run", "baseline:majority", "--dataset", test.name)
		if !strings.Contains(r.stderr, test.error) || !strings.Contains(r.stderr, test.remedy) {
			t.Errorf("%s: %s", test.name, r.stderr)
		}
		w.noSecret(r)
	}
}

// A mirror is filled from a server that lacks a file, then from one that has it,
// and serves a build without the server.
func TestMirrorFromServer(t *testing.T) {
	var reviews strings.Builder
	reviews.WriteString("text,label\n")
	for i := range 60 {
		fmt.Fprintf(&reviews, "Anmeldelse nr. %d,%s\n", i, []string{"positive", "neutral", "negative"}[i%3])
	}
	var late atomic.Bool
	late.Store(true)
	var mu sync.Mutex
	var requests []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, r.URL.Path)
		mu.Unlock()
		if late.Load() && r.URL.Path == "/b.csv" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(reviews.String()))
	}))
	defer s.Close()
	dir := t.TempDir()
	catalogue, mirror := filepath.Join(dir, "own.yaml"), filepath.Join(dir, "mirror")
	text := "version: 1\ndatasets:\n"
	for _, n := range []string{"a", "b"} {
		text += fmt.Sprintf("  - name: own-%s\n    task: sentiment\n    languages: [da]\n    licence: CC0 1.0\n    format: csv\n    file: %s/%s.csv\n    split: {val: 0.2, test: 0.2, seed: 4242}\n", n, s.URL, n)
	}
	put(t, catalogue, text)
	p := newCLI(t)
	r := p.run(3, "data", "mirror", mirror, "own-a", "own-b", "--catalog", catalogue)
	if !strings.Contains(r.stderr, "own-b: "+s.URL+"/b.csv") || !strings.Contains(r.stderr, "hint: ") || !strings.Contains(r.stdout, "missing") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	p.run(4, "data", "mirror", filepath.Join(dir, "other"), "own-b", "--catalog", catalogue)
	late.Store(false)
	mu.Lock()
	requests = nil
	mu.Unlock()
	r = p.run(0, "data", "mirror", mirror, "own-a", "own-b", "--catalog", catalogue, "--json")
	mu.Lock()
	defer mu.Unlock()
	if len(requests) != 1 || !strings.Contains(r.stdout, `"state":"kept"`) || !strings.Contains(r.stdout, `"state":"new"`) {
		t.Errorf("requests %v: %s", requests, r.stdout)
	}
	s.Close()
	p = newCLI(t)
	p.run(0, "data", "build", "own-a", "own-b", "--catalog", catalogue, "--mirror", mirror)
	index, err := os.ReadFile(filepath.Join(mirror, "index.json"))
	if err != nil || !strings.Contains(string(index), `"licence": "CC0 1.0"`) {
		t.Errorf("%s %v", index, err)
	}
}
