package hub_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/datasets/hub"
	"bench/datasets/hub/hubtest"
)

// pythons are interpreters with huggingface_hub.
func pythons(t *testing.T) []string {
	t.Helper()
	p := filepath.SplitList(os.Getenv("BENCH_TEST_PYTHONS"))
	if len(p) == 0 {
		const reason = "BENCH_TEST_PYTHONS names no Python with huggingface_hub"
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "python") {
			t.Fatal("python is required: " + reason)
		}
		t.Skip(reason)
	}
	return p
}

func python(t *testing.T, interpreter, script string, env ...string) string {
	t.Helper()
	c := exec.Command(interpreter, "-c", script)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_XET=1", "HF_HUB_DISABLE_PROGRESS_BARS=1"}, env...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out)
}

// The official client, offline, finds what bench put into the cache; and bench,
// offline, what the official client put there.
func TestOfficialClient(t *testing.T) {
	for _, interpreter := range pythons(t) {
		version := strings.TrimSpace(python(t, interpreter, "import huggingface_hub; print(huggingface_hub.__version__)"))
		t.Run(version, func(t *testing.T) {
			s := newServer(t)
			files := hubtest.Model()
			files["config.json"] = []byte(`{"model_type": "bert", "vocab_size": 5}`)
			repo := s.Add("org/model", files)
			repo.Commit("v1", files)
			commit := repo.Head("main")

			c := newClient(t, s)
			ours := get(t, c, hub.Options{})
			if _, err := c.Get(t.Context(), "org/model", "v1", hub.Options{}); err != nil {
				t.Fatal(err)
			}
			out := python(t, interpreter, `
import json, os
from huggingface_hub import snapshot_download, try_to_load_from_cache, hf_hub_download, scan_cache_dir
from transformers import AutoConfig
report = scan_cache_dir()
print(json.dumps({
    "main": snapshot_download("org/model"),
    "tag": snapshot_download("org/model", revision="v1", local_files_only=True),
    "commit": snapshot_download("org/model", revision=os.environ["COMMIT"], local_files_only=True),
    "weights": try_to_load_from_cache("org/model", "model.safetensors"),
    "vocab": hf_hub_download("org/model", "vocab.txt"),
    "absent": try_to_load_from_cache("org/model", "README.md"),
    "config": AutoConfig.from_pretrained("org/model").vocab_size,
    "warnings": [str(w) for w in report.warnings if "version.txt" not in str(w)],
    "repos": [[r.repo_id, r.nb_files, sorted(f.file_name for v in r.revisions for f in v.files)] for r in report.repos],
}))`, "HF_HUB_CACHE="+c.Cache, "HF_HUB_OFFLINE=1", "COMMIT="+commit)
			var got struct {
				Main, Tag, Commit, Weights, Vocab string
				Absent                            any
				Config                            int
				Warnings                          []string
				Repos                             [][]any
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got.Main != ours.Path || got.Tag != ours.Path || got.Commit != ours.Path || got.Weights != ours.Path+"/model.safetensors" ||
				got.Vocab != ours.Path+"/vocab.txt" || got.Absent != nil || got.Config != 5 || len(got.Warnings) > 0 || len(got.Repos) != 1 {
				t.Errorf("the official client sees %s, want everything in %s", out, ours.Path)
			}

			// The other way round, which also holds hubtest to the protocol.
			theirs := filepath.Join(t.TempDir(), "hub")
			python(t, interpreter, `
import json, os
from huggingface_hub import snapshot_download
patterns = json.loads(os.environ["PATTERNS"])
snapshot_download("org/model", allow_patterns=patterns)
snapshot_download("org/model", revision="v1", allow_patterns=patterns)`,
				"HF_HUB_CACHE="+theirs, "HF_ENDPOINT="+s.URL, `PATTERNS=["`+strings.Join(chosen, `","`)+`"]`)
			if a, b := tree(t, c.Cache), tree(t, theirs); !slices.Equal(a, b) {
				t.Errorf("the caches differ:\nbench:\n%s\nofficial:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
			offline := &hub.Client{Endpoint: s.URL, Cache: theirs, Offline: true}
			if found, err := offline.Get(t.Context(), "org/model", "main", hub.Options{}); err != nil || !slices.Equal(found.Files, chosen) || found.Revision != commit {
				t.Errorf("bench sees %+v, %v", found, err)
			}
		})
	}
}

// tree lists links, files with their content's digest, but for what differs
// between versions of the official client: lock files and its listings.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".locks" || d.Name() == "trees" {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Name() == "CACHEDIR.TAG" || d.Name() == "version.txt" { // the latter is of old versions of transformers
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out = append(out, rel+" -> "+target)
			return err
		}
		b, err := os.ReadFile(path)
		out = append(out, rel+" "+sha256of(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The official client lists of the stand-in what bench finds there, page after
// page: the addresses, the order and the Link header are those that it knows.
func TestOfficialListing(t *testing.T) {
	for _, interpreter := range pythons(t) {
		s := newServer(t)
		for i, id := range []string{"a/one", "a/two", "b/three", "b/four", "b/five"} {
			s.Add(id, hubtest.Model()).Set(func(r *hubtest.Repo) { r.Downloads, r.Tags = 1+i, []string{"da", "pytorch"} })
		}
		s.Add("b/other", hubtest.Model()).Set(func(r *hubtest.Repo) { r.Tags = []string{"sv"} })
		s.PageSize(2)
		for _, q := range []hub.Query{{Languages: []string{"da"}}, {Tags: []string{"pytorch", "da"}, Author: "b"}, {Text: "o", Limit: 3}} {
			found, err := newClient(t, s).Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			var ours []string
			for _, m := range found {
				ours = append(ours, m.ID+"@"+m.Commit)
			}
			args, err := json.Marshal(map[string]any{"filter": append(slices.Clone(q.Tags), q.Languages...), "author": q.Author, "search": q.Text, "limit": q.Limit})
			if err != nil {
				t.Fatal(err)
			}
			var theirs []string
			out := python(t, interpreter, `
import json, os
from huggingface_hub import HfApi
args = {k: v for k, v in json.loads(os.environ["ARGS"]).items() if v}
print(json.dumps([m.id + "@" + m.sha for m in HfApi().list_models(sort="downloads", expand=["sha", "downloads", "tags"], **args)]))`, "HF_ENDPOINT="+s.URL, "ARGS="+string(args))
			if err := json.Unmarshal([]byte(out), &theirs); err != nil || !slices.Equal(ours, theirs) || len(ours) == 0 {
				t.Errorf("%v: bench finds %v, the official client %v, %v", q, ours, theirs, err)
			}
		}
	}
}
