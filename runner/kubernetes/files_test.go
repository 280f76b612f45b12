package kubernetes

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/internal/hostile"
	"bench/runner/job"
	"bench/runner/kept"
)

// A log that is cut and asked for again arrives once and whole, although the
// times of its lines are not in order, and fewer of them may come again than
// came before.
func TestLogGoesOn(t *testing.T) {
	dir := t.TempDir()
	begun := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	type entry struct {
		at   time.Time
		text string
	}
	var all []entry
	var wantLog, wantEvents strings.Builder
	for i := range 5000 {
		// stdout and stderr are stamped apart: now and then one is a little early.
		at := begun.Add(time.Duration(i)*time.Millisecond - time.Duration(i%3)*2*time.Millisecond)
		if i%700 == 699 { // or much, on a busy machine
			at = at.Add(-3 * time.Second)
		}
		text := fmt.Sprintln("line", i)
		if i%2 == 0 {
			text = fmt.Sprintf("{\"event\":\"warn\",\"message\":\"%d\"}\n", i)
			wantEvents.WriteString(text)
		} else {
			wantLog.WriteString(text)
		}
		all = append(all, entry{at, text})
	}
	// serve is what an API server gives of the first n lines.
	serve := func(since time.Time, n int) io.Reader {
		var b strings.Builder
		for i, e := range all[:n] {
			if n == 1001 && (i == 3 || i == 600) {
				continue
			}
			if !e.at.Before(since.Truncate(time.Second)) {
				fmt.Fprintf(&b, "%s %s", e.at.Format(time.RFC3339Nano), e.text)
			}
		}
		return strings.NewReader(b.String())
	}
	log, err := kept.OpenLog(filepath.Join(dir, "log"), 0, kept.MaxLog)
	if err != nil {
		t.Fatal(err)
	}
	events, err := kept.OpenLog(filepath.Join(dir, "events"), 0, kept.MaxLog)
	if err != nil {
		t.Fatal(err)
	}
	l := &copier{log: log, events: events}
	for _, n := range []int{0, 7, 7, 999, 1001, 1500, 2503, 4999, 5000, 5000} {
		l.resume()
		if err := l.copy(serve(l.since, n)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"log": wantLog.String(), "events": wantEvents.String()} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %d bytes, want %d; %v", name, len(got), len(want), err)
		}
	}
}

func TestLogLines(t *testing.T) {
	dir := t.TempDir()
	log, _ := kept.OpenLog(filepath.Join(dir, "log"), 0, kept.MaxLog)
	events, _ := kept.OpenLog(filepath.Join(dir, "events"), 0, kept.MaxLog)
	l := &copier{log: log, events: events}
	long := strings.Repeat("x", maxLine+100)
	in := "2026-11-21T12:00:00.1Z {\"not an event\":1}\n" +
		"2026-11-21T12:00:00.2Z {\"event\": \"start\"}\n" +
		"2026-11-21T12:00:00.3Z without a line end{\"event\":\"eval\"}\n" + // as containerd 1.6 and a kubelet 1.33 give it
		"2026-11-21T12:00:00.4Z " + long + "\n" +
		"2026-11-21T12:00:00.5Z \n" +
		"2026-11-21T12:00:00.6Z the end"
	if err := l.copy(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "log")); string(got) != "{\"not an event\":1}\nwithout a line end\n"+long+"\n\nthe end" {
		t.Errorf("log: %.200q", got)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "events")); string(got) != "{\"event\": \"start\"}\n{\"event\":\"eval\"}\n" {
		t.Errorf("events: %q", got)
	}
}

// An archive of a helper pod is not believed: it was made where a stranger's
// program wrote.
func TestUnpack(t *testing.T) {
	const id = "0123456789abcdef"
	archive := func(headers ...tar.Header) io.Reader {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Typeflag == tar.TypeReg {
				w.Write(make([]byte, h.Size))
			}
		}
		w.Close()
		return &b
	}
	for _, name := range []string{"../outcome.json", "/etc/passwd", id + "/../../outcome.json", id + "/other", "ABC/outcome.json", "outcome.json", id + "//outcome.json"} {
		if err := unpack(archive(tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1}), t.TempDir()); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := unpack(archive(tar.Header{Typeflag: tar.TypeReg, Name: id + "/outcome.json"}, tar.Header{Typeflag: tar.TypeReg, Name: id + "/outcome.json"}), t.TempDir()); err == nil {
		t.Error("a file was written over another")
	}
	for kind, h := range map[string]tar.Header{
		"link":   {Typeflag: tar.TypeSymlink, Name: id + "/outcome.json", Linkname: "/etc/passwd"},
		"hard":   {Typeflag: tar.TypeLink, Name: id + "/outcome.json", Linkname: "/etc/passwd"},
		"pipe":   {Typeflag: tar.TypeFifo, Name: id + "/outcome.json"},
		"folder": {Typeflag: tar.TypeDir, Name: id + "/outcome.json"},
	} {
		dir := t.TempDir()
		if err := unpack(archive(h), dir); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if b, err := hostile.ReadFile(dir, id+"/outcome.json", 100); err == nil || os.IsNotExist(err) {
			t.Errorf("%s: read %q, %v", kind, b, err)
		}
	}
	dir := t.TempDir()
	if err := unpack(archive(tar.Header{Typeflag: tar.TypeReg, Name: id + "/predictions.jsonl", Size: 5}, tar.Header{Typeflag: tar.TypeReg, Name: id + "/outcome.json", Size: 3}), dir); err != nil {
		t.Error(err)
	}
	if b, err := hostile.ReadFile(dir, id+"/predictions.jsonl", 100); err != nil || len(b) != 5 {
		t.Errorf("%q, %v", b, err)
	}
}

// A snapshot of the Hub's cache is copied as files.
func TestSnapshotFiles(t *testing.T) {
	repo := filepath.Join(t.TempDir(), "models--org--name")
	snapshot := filepath.Join(repo, "snapshots", "abc")
	for path, text := range map[string]string{"blobs/1": "{}", "blobs/2": "weights", "snapshots/abc/plain.txt": "x", "snapshots/abc/.git/config": "secret"} {
		path = filepath.Join(repo, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"config.json": "../../blobs/1", "model.safetensors": "../../blobs/2"} {
		if err := os.Symlink(to, filepath.Join(snapshot, link)); err != nil {
			t.Fatal(err)
		}
	}
	m := job.Model{ID: "org/name", Revision: "abc", Path: snapshot}
	read, err := kept.ReadSnapshot(m)
	if err != nil || len(read.Files) != 3 {
		t.Fatalf("%v, %v", read, err)
	}
	files := sources(read.Files)
	volume := mounted{root: t.TempDir()}
	key := modelKey(m, files)
	if err := volume.put(t.Context(), "a/models/"+key, files, false); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"config.json": "{}", "model.safetensors": "weights", "plain.txt": "x"} {
		path := filepath.Join(volume.root, "a/models", key, name)
		i, err := os.Lstat(path)
		if err != nil || i.Mode() != 0o644 {
			t.Errorf("%s: %v, %v", name, i, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(volume.root, "a/models/.part*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
