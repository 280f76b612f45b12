package kept

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bench/runner/job"
)

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.json")
	var got struct{ A int }
	if err := ReadJSON(path, &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := WriteJSON(path, map[string]int{"A": 7}); err != nil {
		t.Fatal(err)
	}
	if err := ReadJSON(path, &got); err != nil || got.A != 7 || Size(path) != 8 {
		t.Errorf("%+v, %d bytes, %v", got, Size(path), err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := ReadJSON(path, &got); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a torn file: %v", err)
	}
	for range 2 {
		if err := Remove(path); err != nil || Size(path) != 0 {
			t.Errorf("removed: %v", err)
		}
	}
}

// The first end counts, for all who wait; who gives up waiting is told why.
func TestEnd(t *testing.T) {
	e := NewEnd()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := e.Wait(ctx); !errors.Is(err, why) || e.Over() {
		t.Errorf("gave up: %v", err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if x, err := e.Wait(t.Context()); x.Code != 3 || err != nil {
				t.Errorf("%+v, %v", x, err)
			}
		})
	}
	e.Set(job.Exit{Code: 3}, nil)
	e.Set(job.Exit{}, why)
	wait.Wait()
	<-e.Done()
	if x, err := e.Wait(ctx); x.Code != 3 || err != nil {
		t.Errorf("an end that is there: %+v, %v", x, err)
	}
}

func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, part := range []struct {
		offset int64
		text   string
	}{{0, "first "}, {6, "second"}, {12, " a third that is too long"}} {
		l, err := OpenLog(path, part.offset, 10)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if n, err := l.Write([]byte(part.text)); n != len(part.text) || err != nil {
				t.Error(n, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); !strings.HasPrefix(got, "first second\nbench: the rest is left out: it printed too much\n") {
		t.Errorf("%q", got)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
func (failing) Close() error               { return nil }

// Who cannot read a trainer's file and who cannot write it down must tell them
// apart: the first is the job's failure, the second is this machine's.
func TestTake(t *testing.T) {
	to := filepath.Join(t.TempDir(), "taken")
	if err := Take(io.NopCloser(strings.NewReader("all of it")), to); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(to); err != nil || string(text) != "all of it" {
		t.Errorf("%q, %v", text, err)
	}
	cut := errors.New("cut")
	err := Take(failing{cut}, to)
	if _, local := errors.AsType[LocalError](err); local || !errors.Is(err, cut) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if text, _ := os.ReadFile(to); string(text) != "all of it" {
		t.Errorf("half a file took the place of the whole one: %q", text)
	}
	err = Take(io.NopCloser(strings.NewReader("x")), filepath.Join(to, "below a file"))
	if _, local := errors.AsType[LocalError](err); !local {
		t.Errorf("a file that cannot be written: %v", err)
	}
}

func TestRefused(t *testing.T) {
	text, err := Refused("j1", errors.New("a link"))
	if err != nil {
		t.Fatal(err)
	}
	var o job.TrainerOutcome
	if err := json.Unmarshal(text, &o); err != nil || o.Job != "j1" || o.State != job.Failed || o.Failure != job.FailureOutput ||
		!strings.Contains(o.Message, "a link") || o.Version != job.ProtocolVersion {
		t.Errorf("%+v, %v", o, err)
	}
}
