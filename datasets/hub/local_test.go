package hub_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bench/datasets/hub"
	"bench/datasets/hub/hubtest"
)

func sha256of(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// folder writes files, all of them old.
func folder(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "min model")
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		age(t, path, time.Hour)
	}
	return dir
}

func age(t *testing.T, path string, d time.Duration) {
	t.Helper()
	then := time.Now().Add(-d)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func local(t *testing.T, dir string, o hub.Options, memo string) hub.Snapshot {
	t.Helper()
	s, err := hub.Local(t.Context(), dir, o, memo)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLocal(t *testing.T) {
	t.Parallel()
	files := hubtest.Model()
	dir := folder(t, files)
	memo := filepath.Join(t.TempDir(), "memo", "digests.json")
	first := local(t, dir, hub.Options{}, memo)
	if !slices.Equal(first.Files, chosen) || first.Path != dir || first.Pickle {
		t.Errorf("%+v", first)
	}
	h := sha256.New()
	for _, n := range chosen {
		fmt.Fprintf(h, "%s\x00%s\n", n, sha256of(files[n]))
	}
	if want := hex.EncodeToString(h.Sum(nil)); first.Revision != want {
		t.Errorf("digest is %s, want %s", first.Revision, want)
	}
	// The digest is one of the content and of nothing else.
	if other := local(t, folder(t, files), hub.Options{}, ""); other.Revision != first.Revision {
		t.Error("a copy has another digest")
	}
	// Other files do not count, chosen ones do.
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("changed"), 0o666); err != nil {
		t.Fatal(err)
	}
	if again := local(t, dir, hub.Options{}, memo); again.Revision != first.Revision {
		t.Error("the README is part of the digest")
	}
	if code := local(t, dir, hub.Options{RemoteCode: true}, memo); code.Revision == first.Revision || !slices.Contains(code.Files, "modeling_custom.py") {
		t.Errorf("with code: %+v", code)
	}
	if err := os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte("changed\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	changed := local(t, dir, hub.Options{}, memo)
	if changed.Revision == first.Revision {
		t.Error("a changed vocabulary does not change the digest")
	}
	// What was written a moment ago is not trusted to stay: same size, and the
	// same time of change on coarse clocks.
	st, err := os.Stat(filepath.Join(dir, "vocab.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte("CHANGED\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "vocab.txt"), st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	if again := local(t, dir, hub.Options{}, memo); again.Revision == changed.Revision {
		t.Error("a change within the clock's resolution was missed")
	}
}

// A second look at a large model reads its metadata only.
func TestLocalMemo(t *testing.T) {
	t.Parallel()
	files := hubtest.Model()
	files["model.safetensors"] = hubtest.Safetensors(256<<20, 3)
	dir := folder(t, files)
	memo := filepath.Join(t.TempDir(), "digests.json")
	begin := time.Now()
	first := local(t, dir, hub.Options{}, memo)
	cold := time.Since(begin)
	begin = time.Now()
	if again := local(t, dir, hub.Options{}, memo); again.Revision != first.Revision {
		t.Error("the digest changed")
	}
	warm := time.Since(begin)
	t.Logf("256 MiB: %v, again %v", cold, warm)
	if warm > cold/5 {
		t.Errorf("the second look took %v, the first %v", warm, cold)
	}
	// A damaged memo costs time only.
	if err := os.WriteFile(memo, []byte("{torn"), 0o666); err != nil {
		t.Fatal(err)
	}
	if again := local(t, dir, hub.Options{}, memo); again.Revision != first.Revision {
		t.Error("the digest changed")
	}
}

func TestLocalErrors(t *testing.T) {
	t.Parallel()
	good := hubtest.Safetensors(256, 1)
	header := func(text string, data int) []byte {
		b := make([]byte, 8, 8+len(text)+data)
		b[0], b[1] = byte(len(text)), byte(len(text)>>8)
		return append(append(b, text...), make([]byte, data)...)
	}
	weights := func(b []byte) map[string][]byte {
		m := hubtest.Model()
		m["model.safetensors"] = b
		return m
	}
	pickle := func(b []byte) map[string][]byte {
		return map[string][]byte{"config.json": []byte("{}"), "vocab.txt": []byte("a"), "pytorch_model.bin": b}
	}
	without := func(name string) map[string][]byte {
		m := hubtest.Model()
		delete(m, name)
		return m
	}
	noTokenizer := without("tokenizer.json")
	delete(noTokenizer, "vocab.txt")
	noWeights := without("model.safetensors")
	delete(noWeights, "pytorch_model.bin")
	for name, c := range map[string]struct {
		files map[string][]byte
		kind  hub.Kind // "": fine
		says  string
	}{
		"good":                  {weights(good), "", ""},
		"no config":             {without("config.json"), hub.NoConfig, "config.json"},
		"no tokenizer":          {noTokenizer, hub.NoTokenizer, "tokenizer"},
		"no weights":            {noWeights, hub.NoWeights, "tf_model.h5"},
		"cut in the data":       {weights(good[:len(good)-1]), hub.BadFile, "cut off"},
		"cut in the header":     {weights(good[:20]), hub.BadFile, "cut off"},
		"cut in the length":     {weights(good[:5]), hub.BadFile, "cut off"},
		"empty":                 {weights(nil), hub.BadFile, "empty"},
		"too long":              {weights(append(bytes.Clone(good), 0)), hub.BadFile, "longer"},
		"pointer":               {weights([]byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")), hub.BadFile, "git lfs pull"},
		"web page":              {weights([]byte("<!DOCTYPE html><html>not found</html>")), hub.BadFile, "web page"},
		"impossible header":     {weights(bytes.Repeat([]byte{0xff}, 100)), hub.BadFile, "impossible length"},
		"header without JSON":   {weights(header("{abcd", 0)), hub.BadFile, "not JSON"},
		"gap":                   {weights(header(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8)), hub.BadFile, "gaps"},
		"overlap":               {weights(header(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`, 6)), hub.BadFile, "overlap"},
		"shape too large":       {weights(header(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4)), hub.BadFile, "as large as"},
		"shape that overflows":  {weights(header(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0)), hub.BadFile, "as large as"},
		"backwards":             {weights(header(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 4)), hub.BadFile, "impossible place"},
		"scalar and empty ones": {weights(header(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"I64","shape":[0,3],"data_offsets":[4,4]},"c":{"dtype":"NEW8","shape":[3],"data_offsets":[4,7]}}`, 7)), "", ""},
		"cut zip":               {pickle([]byte("PK\x03\x04 the rest is missing")), hub.BadFile, "cut off"},
		"old pickle":            {pickle([]byte("\x80\x02\x8a\nl\xfc\x9cF\xf9 j")), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, c.files)
			_, err := hub.Local(t.Context(), dir, hub.Options{}, "")
			if c.kind == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e, ok := errors.AsType[*hub.Error](err)
			if !ok || e.Kind != c.kind || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir) || e.Hint() == "" {
				t.Errorf("error is %v, want one of kind %s that says %q and names the folder", err, c.kind, c.says)
			}
		})
	}
	if _, err := hub.Local(t.Context(), filepath.Join(t.TempDir(), "nothing"), hub.Options{}, ""); !errors.Is(err, &hub.Error{Kind: hub.NoFolder}) {
		t.Errorf("no folder: %v", err)
	}
}
