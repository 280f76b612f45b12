package mirror

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"bench/datasets/fetch"
)

type origin struct {
	*httptest.Server
	files    map[string]string
	requests []string
}

func serve(t *testing.T, files map[string]string) *origin {
	o := &origin{files: files}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.requests = append(o.requests, r.URL.Path)
		text, ok := o.files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(text))
	}))
	t.Cleanup(o.Close)
	return o
}

func blob(text string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
	return hex.EncodeToString(sum[:])
}

func fill(t *testing.T, dir string, get Getter, wanted []Wanted) map[string]State {
	t.Helper()
	out := map[string]State{}
	if err := Fill(t.Context(), dir, get, wanted, func(e Event) { out[e.URL] = e.State }); err != nil {
		t.Fatal(err)
	}
	return out
}

// Two passes over a server that lacks one file at first; what is there is not
// asked for again; and the result serves as a mirror without the server.
func TestFill(t *testing.T) {
	o := serve(t, map[string]string{"/a/b.txt": "one", "/a": "two", "/q": "three"})
	wanted := []Wanted{
		{Source: fetch.Source{URL: o.URL + "/a", GitBlob: blob("two")}, Licence: "CC0 1.0"},
		{Source: fetch.Source{URL: o.URL + "/a/b.txt"}, Licence: "CC BY 4.0"},
		{Source: fetch.Source{URL: o.URL + "/q?x=1"}},
		{Source: fetch.Source{URL: o.URL + "/late"}},
		{Source: fetch.Source{URL: o.URL + "/a"}},
		{Source: fetch.Source{URL: "/somewhere/own.csv"}},
	}
	dir := filepath.Join(t.TempDir(), "mirror")
	f := &fetch.Fetcher{Dir: t.TempDir(), Tries: 1, Pause: time.Millisecond}
	got := fill(t, dir, f, wanted)
	want := map[string]State{o.URL + "/a": New, o.URL + "/a/b.txt": New, o.URL + "/q?x=1": New, o.URL + "/late": Missing, "/somewhere/own.csv": Local}
	for u, s := range want {
		if got[u] != s {
			t.Errorf("%s: %s, want %s", u, got[u], s)
		}
	}
	if len(got) != len(want) {
		t.Errorf("told of %v", got)
	}

	o.files["/late"], o.requests = "four", nil
	got = fill(t, dir, f, wanted)
	if got[o.URL+"/a"] != Kept || got[o.URL+"/late"] != New || !slices.Equal(o.requests, []string{"/late"}) {
		t.Errorf("second pass: %v, requests %v", got, o.requests)
	}

	o.Close()
	m, err := fetch.OpenMirror(dir)
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := m.Entry(o.URL + "/a"); e.Licence != "CC0 1.0" || e.GitBlob != blob("two") || e.Bytes != 3 {
		t.Errorf("entry %+v", e)
	}
	serving := &fetch.Fetcher{Dir: t.TempDir(), Mirror: m, Offline: true}
	for path, text := range map[string]string{"/a": "two", "/a/b.txt": "one", "/q?x=1": "three", "/late": "four"} {
		file, err := serving.Fetch(t.Context(), fetch.Source{URL: o.URL + path})
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(file.Path); path != "/q?x=1" && string(b) != text {
			t.Errorf("%s holds %q", path, b)
		}
	}
}

// A mirror made from a mirror keeps its notes, so that a stand-in stays one.
// A damaged file is fetched again, and entries of others stay.
func TestFromMirror(t *testing.T) {
	const u = "https://example.org/x"
	o := serve(t, map[string]string{"/x": "rebuilt"})
	first := t.TempDir()
	f := &fetch.Fetcher{Dir: t.TempDir(), Tries: 1}
	fill(t, first, f, []Wanted{{Source: fetch.Source{URL: o.URL + "/x"}}})
	m, err := openIndex(first)
	if err != nil {
		t.Fatal(err)
	}
	e := m.entries[0]
	e.URL, e.Note = u, "reconstructed: no lemmas"
	m.put(e)
	if err := m.write(); err != nil {
		t.Fatal(err)
	}
	from, err := fetch.OpenMirror(first)
	if err != nil {
		t.Fatal(err)
	}

	second := t.TempDir()
	wanted := []Wanted{{Source: fetch.Source{URL: u, GitBlob: blob("upstream")}, Licence: "CC0 1.0"}}
	get := &fetch.Fetcher{Dir: t.TempDir(), Mirror: from, Offline: true}
	if got := fill(t, second, get, wanted); got[u] != New {
		t.Fatalf("%v", got)
	}
	m, err = openIndex(second)
	if err != nil {
		t.Fatal(err)
	}
	if e := m.entries[0]; !e.StandIn() || e.GitBlob != "" {
		t.Errorf("entry %+v", e)
	}
	path := filepath.Join(second, m.entries[0].Path)
	if err := os.WriteFile(path, []byte("damaged"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := fill(t, second, get, wanted); got[u] != New {
		t.Errorf("damaged file: %v", got)
	}
	if b, _ := os.ReadFile(path); string(b) != "rebuilt" {
		t.Errorf("the file holds %q", b)
	}
	if got := fill(t, second, get, nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if m, _ := openIndex(second); len(m.entries) != 1 {
		t.Error("an entry is lost")
	}
}

func TestBadFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(`{"version": 1, "fil`), 0o666); err != nil {
		t.Fatal(err)
	}
	err := Fill(t.Context(), dir, &fetch.Fetcher{}, nil, nil)
	if e, ok := errors.AsType[*fetch.Error](err); !ok || e.Kind != fetch.BadMirror {
		t.Errorf("error %v", err)
	}
	err = Fill(t.Context(), filepath.Join(dir, "index.json", "below"), &fetch.Fetcher{}, nil, nil)
	if e, ok := errors.AsType[*fetch.Error](err); !ok || e.Kind != fetch.Unreadable {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fresh := t.TempDir()
	err = Fill(ctx, fresh, &fetch.Fetcher{Dir: t.TempDir()}, []Wanted{{Source: fetch.Source{URL: "https://example.org/"}}}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestPathOf(t *testing.T) {
	for u, want := range map[string]string{
		"https://example.org/a/b.conllu": "files/example.org/a/b.conllu",
		"https://example.org:8000/a":     byDigest("https://example.org:8000/a"),
		"https://example.org/../etc":     byDigest("https://example.org/../etc"),
		"https://example.org/a?b":        byDigest("https://example.org/a?b"),
		"https://example.org/":           byDigest("https://example.org/"),
	} {
		if got := pathOf(u); got != want {
			t.Errorf("%s: %s, want %s", u, got, want)
		}
	}
}

// A download that was cut off goes on where it stopped when the mirror is
// filled again.
func TestResume(t *testing.T) {
	content := make([]byte, 300_000)
	for i := range content {
		content[i] = byte(i >> 3)
	}
	var ranges []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", `"1"`)
		if len(ranges) == 1 {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			w.Write(content[:100_000])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "a", time.Time{}, bytes.NewReader(content))
	}))
	defer s.Close()
	dir := t.TempDir()
	f := &fetch.Fetcher{Dir: t.TempDir(), Tries: 1, Pause: time.Millisecond}
	wanted := []Wanted{{Source: fetch.Source{URL: s.URL + "/a"}}}
	if got := fill(t, dir, f, wanted); got[s.URL+"/a"] != Missing {
		t.Errorf("%v", got)
	}
	if m, err := fetch.OpenMirror(dir); err != nil || len(m.URLs()) != 0 {
		t.Errorf("a mirror without files: %v", err)
	}
	if got := fill(t, dir, f, wanted); got[s.URL+"/a"] != New || !slices.Equal(ranges, []string{"", "bytes=100000-"}) {
		t.Errorf("%v, ranges %q", got, ranges)
	}
}
