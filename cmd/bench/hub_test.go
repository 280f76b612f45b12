package main

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/datasets/hub/hubtest"
)

const secret = "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"

// world is a Hub, a small data set of the user's own, and bench with a stand-in
// for the trainer.
type world struct {
	*cli
	hub    *hubtest.Server
	cache  string
	python string
	starts string // log of the stand-in
}

func newWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	w := &world{cli: newCLI(t), hub: hubtest.New(), cache: filepath.Join(t.TempDir(), "hf")}
	t.Cleanup(w.hub.Close)
	w.python, w.starts = fakePython(t, settings...)
	w.env = []string{"HF_ENDPOINT=" + w.hub.URL, "HF_HOME=" + w.cache, "HF_HUB_OFFLINE=", "HF_TOKEN=" + secret}
	return w
}

// args is a run of the models on a small data set.
func (w *world) args(models ...string) []string {
	w.t.Helper()
	return append(append([]string{"run"}, models...), "--catalog", smallCatalogue(w.t), "--dataset", "small-reviews", "--seeds", "1",
		"--executor", "process", "--python", w.python)
}

// smallCatalogue makes a data set that a model has trained on in a second.
func smallCatalogue(t testing.TB) string {
	t.Helper()
	var rows strings.Builder
	rows.WriteString("text,label\n")
	for i := range 60 {
		rows.WriteString([]string{"Maden var god,positive\n", "Maden var kold,negative\n", "Maden var som ventet,neutral\n"}[i%3])
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "reviews.csv"), rows.String())
	path := filepath.Join(dir, "own.yaml")
	put(t, path, `version: 1
datasets:
  - name: small-reviews
    task: sentiment
    languages: [da]
    licence: private
    format: csv
    file: reviews.csv
    split: {val: 0.2, test: 0.2, seed: 4242}
`)
	return path
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// noSecret checks that the token was not written to any file or to the screen.
func (w *world) noSecret(r result) {
	w.t.Helper()
	if strings.Contains(r.stdout+r.stderr, secret) {
		w.t.Errorf("the token is on the screen:\n%s%s", r.stdout, r.stderr)
	}
	for _, dir := range []string{w.home, w.cache} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if bytes.Contains(b, []byte(secret)) {
				w.t.Errorf("the token is in %s", path)
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			w.t.Error(err)
		}
	}
}

// A model is resolved to a commit, downloaded once and trained; then it is in
// the cache, also without a network. The token goes to the Hub and nowhere else.
func TestModelFromTheHub(t *testing.T) {
	w := newWorld(t, "STANDIN_ENV=1")
	files := hubtest.Model()
	files["README.md"] = []byte("---\nlicense: mit\n---\n# A model\n")
	repo := w.hub.Add("org/closed", files)
	repo.Set(func(r *hubtest.Repo) { r.Gated, r.Readers = "auto", []string{secret} })
	r := w.run(0, w.args("org/closed")...)
	has(t, r.stdout, "org/closed  sentiment  small-reviews")
	w.noSecret(r)
	for _, q := range w.hub.Requests() {
		if q.Storage && q.Authorized {
			t.Error("the storage behind the Hub was given the token")
		}
	}
	rs := w.records()
	if len(rs) != 1 || rs[0].Model.ID != "org/closed" || rs[0].Model.Revision != repo.Head("main") || rs[0].Model.Kind != "hub" {
		t.Errorf("records: %+v", rs)
	}

	has(t, w.run(0, w.args("org/closed")...).stderr, "nothing to do")
	if got := w.hub.Requests(); len(got) > 3 {
		t.Errorf("a model in the cache took %d requests", len(got))
	}

	w.env = append(w.env, "HF_HUB_OFFLINE=1")
	has(t, w.run(0, w.args("org/closed@"+repo.Head("main"))...).stderr, "nothing to do")
	has(t, w.run(0, append(w.args("org/closed"), "--seeds", "2")...).stderr, "[2/2]")
	w.hub.Close() // nobody answers, and nobody said so
	w.env = append(w.env, "HF_HUB_OFFLINE=0")
	has(t, w.run(0, append(w.args("org/closed"), "--seeds", "3")...).stderr, "[3/3]", "from the cache")
	r = w.run(4, w.args("org/other")...)
	has(t, r.stderr, "org/other", "hint: ")
	w.noSecret(r)
	if rs = w.records(); rs[len(rs)-1].Model.Licence != "mit" || len(rs[len(rs)-1].Replicates) != 3 {
		t.Errorf("the last record: %+v", rs[len(rs)-1].Model)
	}
	if n := len(starts(t, w.starts)); n != 3 {
		t.Errorf("%d jobs were begun, want 3", n)
	}
}

// A model that has moved is found under its new name, and said to have moved;
// a new commit is another model, trained anew.
func TestModelMoves(t *testing.T) {
	w := newWorld(t)
	repo := w.hub.Add("old/name", hubtest.Model())
	w.run(0, w.args("old/name")...)
	w.hub.Rename("old/name", "new/name")
	r := w.run(0, w.args("old/name")...)
	has(t, r.stderr, "new/name")
	files := hubtest.Model()
	files["model.safetensors"] = hubtest.Safetensors(1<<10, 7)
	repo.Commit("main", files)
	r = w.run(0, w.args("new/name")...)
	has(t, r.stderr, "[1/1]")
	if rs := w.records(); rs[len(rs)-1].Model.Revision != repo.Head("main") {
		t.Errorf("the record is of %s, the newest commit is %s", rs[len(rs)-1].Model.Revision, repo.Head("main"))
	}
}

// What can be wrong with a model on the Hub: exit code 4, a message of its own
// and what to do. Nothing is trained, and no record is made.
func TestModelThatCannotBeHad(t *testing.T) {
	cases := []struct {
		name  string
		model string
		spoil func(*hubtest.Server, *hubtest.Repo)
		want  []string
	}{
		{"missing", "org/modle", nil, []string{"org/modle", "hint: check the spelling"}},
		{"revision", "org/model@v9", nil, []string{"v9", "hint: see "}},
		{"gated", "org/model", func(_ *hubtest.Server, r *hubtest.Repo) { r.Gated = "auto" }, []string{"hint: accept the terms on "}},
		{"disabled", "org/model", func(_ *hubtest.Server, r *hubtest.Repo) { r.Disabled = true }, []string{"switched it off", "hint: choose another model"}},
		{"rate limited", "org/model", func(s *hubtest.Server, _ *hubtest.Repo) {
			s.Inject(hubtest.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"86400"}}})
		}, []string{"HTTP 429", "24h", "hint: wait and run the same command again"}},
		{"corrupted", "org/model", func(s *hubtest.Server, _ *hubtest.Repo) {
			s.Inject(hubtest.Fault{Storage: true, Path: "model.safetensors", Corrupt: true})
		}, []string{"model.safetensors", "hint: run it again; if it stays, a proxy"}},
		{"not a hub", "org/model", func(s *hubtest.Server, _ *hubtest.Repo) {
			s.Inject(hubtest.Fault{Status: http.StatusOK, Body: "<html>Please log in</html>"})
		}, []string{"hint: check HF_ENDPOINT"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			repo := w.hub.Add("org/model", hubtest.Model())
			if c.spoil != nil {
				c.spoil(w.hub, repo)
			}
			r := w.run(4, w.args(c.model)...)
			has(t, r.stderr, append(c.want, "bench: error: ")...)
			w.noSecret(r)
			if len(w.records()) > 0 || len(w.stored("outcome.json")) > 0 || len(starts(t, w.starts)) > 0 {
				t.Error("something was trained or recorded")
			}
			w.noBatches()
			if c.spoil == nil {
				return
			}
			w.hub.Mend()
			repo.Gated, repo.Disabled = "", false
			w.run(0, w.args(c.model)...)
		})
	}
}

// Connections that are cut off are taken up where they broke; a Hub that never
// sends the whole file is said so.
func TestModelCutOff(t *testing.T) {
	t.Run("mends", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.hub.Add("org/model", hubtest.Model())
		w.hub.Inject(hubtest.Fault{Storage: true, Path: "model.safetensors", Cut: 300 << 10, Times: 2})
		w.run(0, w.args("org/model")...)
	})
	t.Run("stays", func(t *testing.T) {
		if os.Getenv("BENCH_TEST_LONG") == "" {
			t.Skip("takes half a minute, since bench tries it again and again; set BENCH_TEST_LONG")
		}
		t.Parallel()
		w := newWorld(t)
		w.hub.Add("org/model", hubtest.Model())
		w.hub.Inject(hubtest.Fault{Storage: true, Path: "model.safetensors", Cut: 1})
		r := w.run(4, w.args("org/model")...)
		has(t, r.stderr, "model.safetensors", "hint: run the same command again later")
		w.noSecret(r)
	})
}

// One model that cannot be had does not keep the others from being trained.
func TestOneModelOfTwoCannotBeHad(t *testing.T) {
	w := newWorld(t)
	w.hub.Add("org/good", hubtest.Model())
	w.hub.Add("org/bad", hubtest.Model()).Gated = "manual"
	r := w.run(3, w.args("org/good", "org/bad")...)
	has(t, r.stdout, "org/good")
	has(t, r.stderr, "org/bad", "hint: accept the terms on")
	if n := strings.Count(r.stderr, "has to be accepted") + strings.Count(r.stderr, "have to be accepted"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, r.stderr)
	}
}
