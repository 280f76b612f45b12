package scandiqa

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOtherMKQA checks that pages which were read for other questions do not
// pass for those of these.
func TestOtherMKQA(t *testing.T) {
	f := newFake(t)
	b := builder(t, f)
	if _, err := b.Build(t.Context(), Danish, small, 4242); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(b.MKQA)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	old, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	b.MKQA = filepath.Join(t.TempDir(), "mkqa.jsonl.gz")
	// The page of this one is in the files, but no question wanted it before.
	writeGzip(t, b.MKQA, append(strings.Split(strings.TrimSpace(string(old)), "\n"), mkqaRow(900_001, "x", "x", "hvad er det her")))
	out, err := b.Build(t.Context(), Danish, small, 4242)
	if err != nil || !strings.HasPrefix(out.Notes[0], "30 questions") {
		t.Errorf("%v, %+v", err, out)
	}
	f.once(t)
}

// TestOneOption checks that no service is needed where there is nothing to
// choose.
func TestOneOption(t *testing.T) {
	b := &Builder{}
	if at, err := b.nearest(t.Context(), nil, nil, page{}, []string{"one"}); at != 0 || err != nil {
		t.Errorf("%d, %v", at, err)
	}
}

// TestRetryAfter checks that a service which says how long to wait is waited
// for, and that one which does not is asked less and less often.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		wait, want time.Duration
	}{
		{90 * time.Second, 180 * time.Second}, // twice
		{time.Hour, 10 * time.Minute},         // never longer than five minutes
		{0, 3 * time.Second},                  // 1 s and 2 s
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, n := time.Now(), 0
			err := Patience{}.do(t.Context(), func(context.Context) error {
				if n++; n < 3 {
					return &Error{Kind: Busy, wait: c.wait}
				}
				return nil
			})
			if got := time.Since(begun); err != nil || got != c.want {
				t.Errorf("asked to wait %v: %v after %v, want %v", c.wait, err, got, c.want)
			}
		})
	}
}
