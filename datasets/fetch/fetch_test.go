package fetch

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func gitBlob(b []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...))
	return hex.EncodeToString(sum[:])
}

func content(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// server is a real HTTP server whose answers a test can change.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []http.Header
	handle   func(n int, w http.ResponseWriter, r *http.Request) // n counts from 1
}

func serve(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{handle: handle}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Header.Clone())
		n := len(s.requests)
		s.mu.Unlock()
		s.handle(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// file serves b as a file with an ETag, with ranges.
func file(w http.ResponseWriter, r *http.Request, b []byte) {
	w.Header().Set("ETag", `"`+sha(b)[:8]+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
}

// cut sends the headers of b and its first n bytes, then drops the connection.
func cut(w http.ResponseWriter, b []byte, n int) {
	w.Header().Set("ETag", `"`+sha(b)[:8]+`"`)
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.WriteHeader(http.StatusOK)
	w.Write(b[:n])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func fetcher(t *testing.T) *Fetcher {
	return &Fetcher{Dir: t.TempDir(), Pause: time.Millisecond, Stall: 5 * time.Second}
}

func wantKind(t *testing.T, err error, kind Kind) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want one of kind %q", err, kind)
	}
	if e.Kind != kind {
		t.Fatalf("error %q is of kind %q, want %q", e, e.Kind, kind)
	}
	if e.Hint() == "" {
		t.Errorf("error %q has no hint", e)
	}
	return e
}

// whole checks that no file that counts as whole is anything but b.
func whole(t *testing.T, f *Fetcher, b []byte) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(f.Dir, "*", "*"))
	for _, p := range paths {
		if filepath.Ext(p) != "" {
			continue
		}
		if got, err := os.ReadFile(p); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s: %d bytes under the final name, error %v", p, len(got), err)
		}
	}
}

func TestDownload(t *testing.T) {
	want := content(300_000)
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { file(w, r, want) })
	f := fetcher(t)
	var seen int64
	f.Progress = func(_ string, done, total int64) {
		seen = done
		if total != int64(len(want)) {
			t.Errorf("total %d", total)
		}
	}
	src := Source{URL: s.URL + "/a", SHA256: sha(want), GitBlob: gitBlob(want)}
	for i, origin := range []Origin{FromNetwork, FromCache, FromCache} {
		f.Offline = i == 2
		got, err := f.Fetch(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(got.Path)
		if err != nil || !bytes.Equal(b, want) || got.SHA256 != sha(want) || got.Bytes != int64(len(want)) || got.Origin != origin {
			t.Errorf("fetch %d: %+v, %d bytes, error %v", i, got, len(b), err)
		}
	}
	if s.count() != 1 || seen != int64(len(want)) {
		t.Errorf("%d requests, progress up to %d", s.count(), seen)
	}
	if left, _ := filepath.Glob(filepath.Join(f.Dir, "*", "*.part*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// A downloaded file that rotted on disk is got again.
	f.Offline = false
	path := f.slot(src.URL).path
	if err := os.WriteFile(path, want[:100], 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Fetch(t.Context(), src); err != nil || got.Origin != FromNetwork {
		t.Errorf("after damage: %+v, error %v", got, err)
	}
	whole(t, f, want)
}

// The connection breaks twice; what came is kept and continued, not sent again.
func TestResume(t *testing.T) {
	want := content(1 << 20)
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 1:
			cut(w, want, 400_000)
		case 2:
			if r.Header.Get("Range") == "" {
				t.Error("second request asks for everything")
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 400000-%d/%d", len(want)-1, len(want)))
			w.Header().Set("Content-Length", fmt.Sprint(len(want)-400_000))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(want[400_000:700_000])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			file(w, r, want)
		}
	})
	f := fetcher(t)
	got, err := f.Fetch(t.Context(), Source{URL: s.URL, SHA256: sha(want)})
	if err != nil || got.Bytes != int64(len(want)) {
		t.Fatalf("%+v, error %v", got, err)
	}
	if h := s.requests[2]; h.Get("Range") != "bytes=700000-" || h.Get("If-Range") == "" {
		t.Errorf("third request: Range %q, If-Range %q", h.Get("Range"), h.Get("If-Range"))
	}
	whole(t, f, want)
}

// A process that died in the middle leaves a part; the next one goes on.
func TestResumeInNextProcess(t *testing.T) {
	want := content(500_000)
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n <= 2 {
			cut(w, want, 200_000)
		}
		file(w, r, want)
	})
	f := fetcher(t)
	f.Tries = 1
	_, err := f.Fetch(t.Context(), Source{URL: s.URL})
	if e := wantKind(t, err, Truncated); !strings.Contains(e.Error(), "200000 of 500000") || e.Gone() {
		t.Errorf("message %q, gone %v", e, e.Gone())
	}
	whole(t, f, want)
	next := &Fetcher{Dir: f.Dir, Tries: 1}
	s.handle = func(n int, w http.ResponseWriter, r *http.Request) { file(w, r, want) }
	if _, err := next.Fetch(t.Context(), Source{URL: s.URL, SHA256: sha(want)}); err != nil {
		t.Fatal(err)
	}
	if got := s.requests[1].Get("Range"); got != "bytes=200000-" {
		t.Errorf("Range %q", got)
	}
}

// Upstream replaces the file between two attempts.
func TestChangedBetweenAttempts(t *testing.T) {
	old, now := content(400_000), bytes.Repeat([]byte("new"), 100_000)
	for name, second := range map[string]func(http.ResponseWriter, *http.Request){
		"new ETag": func(w http.ResponseWriter, r *http.Request) { file(w, r, now) },
		"same ETag by mistake": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"`+sha(old)[:8]+`"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(now))
		},
		"shorter: 416": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", "bytes */300000")
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			file(w, r, now)
		},
		"another range than asked for": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", "bytes 0-9/300000")
				w.WriteHeader(http.StatusPartialContent)
				w.Write(now[:10])
				return
			}
			file(w, r, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					cut(w, old, 100_000)
				}
				second(w, r)
			})
			f := fetcher(t)
			got, err := f.Fetch(t.Context(), Source{URL: s.URL, SHA256: sha(now)})
			if err != nil || got.SHA256 != sha(now) {
				t.Fatalf("%+v, error %v", got, err)
			}
			whole(t, f, now)
		})
	}
}

// A server without validators cannot be asked to continue safely.
func TestNoValidator(t *testing.T) {
	want := content(300_000)
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(want)))
		if n == 1 {
			w.Write(want[:1000])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		w.Write(want)
	})
	f := fetcher(t)
	if _, err := f.Fetch(t.Context(), Source{URL: s.URL, SHA256: sha(want)}); err != nil {
		t.Fatal(err)
	}
	if got := s.requests[1].Get("Range"); got != "" {
		t.Errorf("Range %q", got)
	}
}

func TestStatus(t *testing.T) {
	for _, test := range []struct {
		status, requests int
		kind             Kind
		gone             bool
	}{
		{404, 1, Missing, true},
		{410, 1, Missing, true},
		{401, 1, Denied, true},
		{403, 1, Denied, true},
		{400, 1, Unavailable, true},
		{429, 3, Unavailable, true},
		{500, 3, Unavailable, true},
		{503, 3, Unavailable, true},
	} {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(test.status) })
		f := fetcher(t)
		f.Tries = 3
		_, err := f.Fetch(t.Context(), Source{URL: s.URL + "/x"})
		e := wantKind(t, err, test.kind)
		if s.count() != test.requests || e.Gone() != test.gone || !strings.Contains(e.Error(), fmt.Sprint(test.status)) {
			t.Errorf("%d: %d requests, gone %v, message %q", test.status, s.count(), e.Gone(), e)
		}
	}
}

func TestRetryAfterPasses(t *testing.T) {
	want := content(10)
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n < 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		file(w, r, want)
	})
	if _, err := fetcher(t).Fetch(t.Context(), Source{URL: s.URL}); err != nil {
		t.Fatal(err)
	}
}

func TestPins(t *testing.T) {
	got := content(1000)
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { file(w, r, got) })
	f := fetcher(t)
	other := sha([]byte("other"))
	_, err := f.Fetch(t.Context(), Source{URL: s.URL, SHA256: other})
	e := wantKind(t, err, Changed)
	if e.Want != other || e.Got != sha(got) || !strings.Contains(e.Error(), other) || !strings.Contains(e.Error(), sha(got)) || e.Gone() {
		t.Errorf("%+v", e)
	}
	_, err = f.Fetch(t.Context(), Source{URL: s.URL, GitBlob: gitBlob([]byte("other"))})
	wantKind(t, err, Changed)
	whole(t, f, nil) // a file that fails its pin is not kept
	if s.count() != 2 {
		t.Errorf("%d requests: a wrong digest does not get right by asking again", s.count())
	}
}

func TestStall(t *testing.T) {
	want := content(100_000)
	release := make(chan struct{})
	defer close(release)
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n > 1 {
			file(w, r, want)
			return
		}
		w.Header().Set("ETag", `"`+sha(want)[:8]+`"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(want)))
		w.Write(want[:5000])
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	f := fetcher(t)
	f.Stall = 200 * time.Millisecond
	if _, err := f.Fetch(t.Context(), Source{URL: s.URL, SHA256: sha(want)}); err != nil {
		t.Fatal(err)
	}
	if got := s.requests[1].Get("Range"); got != "bytes=5000-" {
		t.Errorf("Range %q", got)
	}
}

// Slow is not stalled: bytes that trickle in keep the attempt alive.
func TestSlow(t *testing.T) {
	want := content(20)
	s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(want)))
		for _, b := range want {
			w.Write([]byte{b})
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	})
	f := fetcher(t)
	f.Stall = 300 * time.Millisecond
	if _, err := f.Fetch(t.Context(), Source{URL: s.URL, SHA256: sha(want)}); err != nil || s.count() != 1 {
		t.Fatalf("error %v after %d requests", err, s.count())
	}
}

func TestOffline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String() + "/a"
	listener.Close() // nobody listens there now
	_, err = fetcher(t).Fetch(t.Context(), Source{URL: url})
	if e := wantKind(t, err, Offline); !e.Gone() || !strings.Contains(e.Error(), "2 attempts") {
		t.Errorf("%v", e)
	}
	f := fetcher(t)
	f.Offline = true
	_, err = f.Fetch(t.Context(), Source{URL: url})
	wantKind(t, err, Offline)
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := fetcher(t).Fetch(ctx, Source{URL: s.URL}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := fetcher(t).Fetch(ctx, Source{URL: s.URL}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Several fetchers on one folder, as several processes would be: one download.
func TestConcurrent(t *testing.T) {
	want := content(200_000)
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		file(w, r, want)
	})
	dir := t.TempDir()
	var wg sync.WaitGroup
	var failed atomic.Int32
	for range 6 {
		wg.Go(func() {
			f := &Fetcher{Dir: dir}
			if got, err := f.Fetch(t.Context(), Source{URL: s.URL, SHA256: sha(want)}); err != nil || got.Bytes != int64(len(want)) {
				t.Error(err)
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if s.count() != 1 {
		t.Errorf("%d requests", s.count())
	}
}

func TestLocalFile(t *testing.T) {
	want := content(1000)
	path := filepath.Join(t.TempDir(), "a b.csv")
	if err := os.WriteFile(path, want, 0o644); err != nil {
		t.Fatal(err)
	}
	f := fetcher(t)
	for _, url := range []string{path, "file://" + strings.ReplaceAll(path, " ", "%20"), "file://localhost" + strings.ReplaceAll(path, " ", "%20")} {
		src := Source{URL: url, SHA256: sha(want)}
		got, err := f.Fetch(t.Context(), src)
		if err != nil || got.Path != path || got.Origin != FromDisk || got.URL != url || !src.Local() {
			t.Errorf("%s: %+v, error %v", url, got, err)
		}
	}
	_, err := f.Fetch(t.Context(), Source{URL: path + "x"})
	wantKind(t, err, Missing)
	_, err = f.Fetch(t.Context(), Source{URL: "file://elsewhere/a"})
	wantKind(t, err, Missing)
	_, err = f.Fetch(t.Context(), Source{URL: filepath.Dir(path)})
	wantKind(t, err, Unreadable)
	_, err = f.Fetch(t.Context(), Source{URL: path, GitBlob: gitBlob(nil)})
	wantKind(t, err, Changed)
}

// mirror makes a mirror folder and returns it.
func mirror(t *testing.T, entries []MirrorEntry, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for path, b := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.MarshalIndent(map[string]any{"version": 1, "files": entries}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMirror(t *testing.T) {
	real, standIn := content(100), []byte("rebuilt from elsewhere")
	dir := mirror(t, []MirrorEntry{
		{URL: "https://example.org/real", Path: "files/real", SHA256: sha(real), Bytes: 100, Note: "the path may differ"},
		{URL: "https://example.org/rebuilt", Path: "files/rebuilt", SHA256: sha(standIn), Bytes: int64(len(standIn)), Note: "reconstructed: no lemmas"},
		{URL: "https://example.org/damaged", Path: "files/damaged", SHA256: sha(real), Bytes: 100},
		{URL: "https://example.org/lost", Path: "files/lost", SHA256: sha(real), Bytes: 100},
	}, map[string][]byte{"files/real": real, "files/rebuilt": standIn, "files/damaged": real[:50]})
	m, err := OpenMirror(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.URLs()) != 4 {
		t.Errorf("URLs %v", m.URLs())
	}
	f := fetcher(t)
	f.Mirror, f.Offline = m, true

	got, err := f.Fetch(t.Context(), Source{URL: "https://example.org/real", SHA256: sha(real)})
	if err != nil || got.Origin != FromMirror || got.StandIn || got.Note != "the path may differ" {
		t.Errorf("real: %+v, error %v", got, err)
	}
	_, err = f.Fetch(t.Context(), Source{URL: "https://example.org/real", SHA256: sha(standIn)})
	wantKind(t, err, Changed)
	// What says that it is not upstream's file is not held to upstream's digest.
	got, err = f.Fetch(t.Context(), Source{URL: "https://example.org/rebuilt", SHA256: sha(real)})
	if err != nil || !got.StandIn || got.Note != "reconstructed: no lemmas" || got.SHA256 != sha(standIn) {
		t.Errorf("stand-in: %+v, error %v", got, err)
	}
	for _, name := range []string{"damaged", "lost"} {
		_, err = f.Fetch(t.Context(), Source{URL: "https://example.org/" + name})
		if e := wantKind(t, err, BadMirror); e.Gone() {
			t.Errorf("%s: %v counts as gone", name, e)
		}
	}
	_, err = f.Fetch(t.Context(), Source{URL: "https://example.org/unknown"})
	if e := wantKind(t, err, Offline); !strings.Contains(e.Error(), dir) {
		t.Errorf("message %q does not name the mirror", e)
	}
}

func TestBadMirror(t *testing.T) {
	good := `{"version":1,"files":[{"url":"https://example.org/a","path":"a","sha256":"` + sha(nil) + `","bytes":0}]}`
	for name, test := range map[string]struct{ text, msg string }{
		"torn":          {good[:len(good)-10], "unexpected"},
		"torn line":     {"{\n\"version\": 1,\n\"files\": [\n{\"url\": ", "line 4"},
		"two documents": {good + "{}", "more after the end"},
		"unknown field": {strings.Replace(good, "bytes", "size", 1), "size"},
		"version":       {strings.Replace(good, `"version":1`, `"version":2`, 1), "version 2"},
		"escape":        {strings.Replace(good, `"path":"a"`, `"path":"../a"`, 1), "leaves the mirror"},
		"absolute":      {strings.Replace(good, `"path":"a"`, `"path":"/etc/passwd"`, 1), "leaves the mirror"},
		"no digest":     {strings.Replace(good, sha(nil), "12", 1), "no SHA-256"},
		"no url":        {strings.Replace(good, "https://example.org/a", "", 1), "no url"},
		"empty":         {"", "line 1"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := OpenMirror(dir)
		if e := wantKind(t, err, BadMirror); !strings.Contains(e.Error(), test.msg) || !strings.Contains(e.Error(), "index.json") {
			t.Errorf("%s: message %q, want %q", name, e, test.msg)
		}
	}
	_, err := OpenMirror(t.TempDir())
	wantKind(t, err, BadMirror)
	entry := MirrorEntry{URL: "https://example.org/a", Path: "a", SHA256: sha(nil)}
	_, err = OpenMirror(mirror(t, []MirrorEntry{entry, entry}, nil))
	if e := wantKind(t, err, BadMirror); !strings.Contains(e.Error(), "twice") {
		t.Errorf("message %q", e)
	}
}

// A disk of 1 MiB takes no file of 2 MiB, and afterwards is not left full.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs a small file system of its own: mount tmpfs: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	big, small := content(2<<20), content(1000)
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/big" {
			file(w, r, big)
		} else {
			file(w, r, small)
		}
	})
	f := &Fetcher{Dir: dir, Pause: time.Millisecond}
	_, err := f.Fetch(t.Context(), Source{URL: s.URL + "/big"})
	if e := wantKind(t, err, NoSpace); e.Gone() || s.count() != 1 {
		t.Errorf("gone %v, %d requests", e.Gone(), s.count())
	}
	if _, err := f.Fetch(t.Context(), Source{URL: s.URL + "/small", SHA256: sha(small)}); err != nil {
		t.Errorf("small file after the full disk: %v", err)
	}
	whole(t, f, small)
}

// Sources that a person has to get: the error says how, nothing is asked of a
// server that has a page only, and the file that the person has is checked.
func TestByHand(t *testing.T) {
	b := content(1000)
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	f := fetcher(t)
	page := Source{URL: s.URL + "/page", Page: true, Manual: "go there"}
	_, err := f.Fetch(t.Context(), page)
	if e := wantKind(t, err, ByHand); e.Hint() != "go there" || !e.Gone() {
		t.Errorf("hint %q", e.Hint())
	}
	if s.count() != 0 {
		t.Error("the page was asked for")
	}
	_, err = f.Fetch(t.Context(), Source{URL: s.URL + "/file", Manual: "go there"})
	if e := wantKind(t, err, Missing); e.Hint() != "go there" {
		t.Errorf("hint %q", e.Hint())
	}
	// A mirror has it, unpacked, under another name.
	m, err := OpenMirror(mirror(t, []MirrorEntry{{URL: "https://example.org/a.xml", Path: "a", SHA256: sha(b), Bytes: 1000, Note: "SAMPLE of it"}}, map[string][]byte{"a": b}))
	if err != nil {
		t.Fatal(err)
	}
	f.Mirror = m
	got, err := f.Fetch(t.Context(), Source{URL: "https://example.org/a.xml.bz2", Also: "https://example.org/a.xml", Page: true})
	if err != nil || got.URL != "https://example.org/a.xml.bz2" || !got.StandIn {
		t.Errorf("%+v, error %v", got, err)
	}
	path := filepath.Join(t.TempDir(), "given")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err = Given(page, path); err != nil || got.URL != page.URL || got.SHA256 != sha(b) || !strings.HasPrefix(got.Note, "given by hand") {
		t.Errorf("%+v, error %v", got, err)
	}
	page.SHA256 = sha(b)
	if got, err = Given(page, path); err != nil || got.Note != "" {
		t.Errorf("%+v, error %v", got, err)
	}
	page.SHA256 = sha(b[1:])
	_, err = Given(page, path)
	wantKind(t, err, Changed)
	_, err = Given(page, path+"x")
	wantKind(t, err, Missing)
}
