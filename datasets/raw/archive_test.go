package raw

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func zipped(t testing.TB, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, "content of "+name)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOpen(t *testing.T) {
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	io.WriteString(w, strings.Repeat("content", 1000))
	w.Close()
	for name, test := range map[string]struct {
		content []byte
		want    string // or part of the error after "!"
		inner   string
	}{
		"plain":         {[]byte("content"), "content", "f"},
		"zip":           {zipped(t, "a/", "a/x.xml", "LICENSE", "__MACOSX/x.xml", "a/.x.xml"), "content of a/x.xml", "f!a/x.xml"},
		"gzip":          {gz.Bytes(), strings.Repeat("content", 1000), "f"},
		"bzip2":         {[]byte("\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x23\x0d\xca\xfd\x00\x00\x00\x01\x80\x0a\x01\x84\x00\x20\x00\x21\x83\x41\x9a\x01\x53\x0b\x8b\xb9\x22\x9c\x28\x48\x11\x86\xe5\x7e\x80"), "content", "f"}, // by Python's bz2.compress(b"content")
		"half a gzip":   {gz.Bytes()[:gz.Len()-9], "!f: the packed file is truncated", "f"},
		"no bzip2":      {[]byte("BZh9 not that"), "!f: the packed file is damaged", "f"},
		"half a zip":    {zipped(t, "x.xml")[:40], "!f: no zip archive", ""},
		"above":         {zipped(t, "x.xml", "../y.txt"), `!a file "../y.txt" outside`, ""},
		"absolute":      {zipped(t, "/etc/x.xml"), `!a file "/etc/x.xml" outside`, ""},
		"Windows":       {zipped(t, `..\x.xml`), `!outside of its folder`, ""},
		"above, hidden": {zipped(t, "a/../../x.xml"), `!outside of its folder`, ""},
		"none":          {zipped(t, "x.txt"), "!no file *.xml", ""},
		"two":           {zipped(t, "x.xml", "y.xml"), "!two files *.xml in the archive, x.xml and y.xml", ""},
		"empty":         {nil, "!the file is empty", ""},
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, test.content, 0o644); err != nil {
			t.Fatal(err)
		}
		r, inner, err := Open(path, "f", ".xml")
		var got []byte
		if err == nil {
			if got, err = io.ReadAll(r); inner != test.inner {
				t.Errorf("%s: called %s", name, inner)
			}
			r.Close()
		}
		if msg, isErr := strings.CutPrefix(test.want, "!"); isErr {
			var s *SyntaxError
			if !errors.As(err, &s) || !strings.Contains(err.Error(), msg) || s.Hint() == "" {
				t.Errorf("%s: error %v, want %q", name, err, msg)
			}
			continue
		}
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %q, error %v", name, got, err)
		}
	}
	if _, _, err := Open(filepath.Join(t.TempDir(), "none"), "f", ".xml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// Lines without end in a file that is held as a whole.
func TestEndlessLines(t *testing.T) {
	long := append([]byte("a,b\n1,"), bytes.Repeat([]byte("x"), maxLine+1)...)
	for name, read := range map[string]func() error{
		"table":   func() error { _, err := ReadTable(long, "f", ','); return err },
		"lines":   func() error { _, err := ReadLines(long, "f"); return err },
		"columns": func() error { _, err := ReadColumns(long, "f"); return err },
	} {
		wantSyntax(t, name, read(), 2, "line of more than 16777216 bytes")
	}
}

// Whatever the bytes: files inside of the folder, or an error.
func FuzzZip(f *testing.F) {
	f.Add(zipped(f, "a/", "a/x.txt"))
	f.Add(zipped(f, "../x"))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := Zip(bytes.NewReader(b), int64(len(b)), "f")
		if s := (*SyntaxError)(nil); err != nil && !errors.As(err, &s) {
			t.Fatalf("error %v", err)
		}
		for _, z := range files {
			if !filepath.IsLocal(z.Name) {
				t.Fatalf("%q", z.Name)
			}
			if r, err := z.Open(); err == nil {
				io.Copy(io.Discard, io.LimitReader(r, 1<<20))
				r.Close()
			}
		}
	})
}
