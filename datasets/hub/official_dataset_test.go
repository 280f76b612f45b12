package hub_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/datasets/hub"
)

// As TestOfficialClient, with a data set.
func TestOfficialClientDataset(t *testing.T) {
	chosen := []string{"README.md", "data/test-00000-of-00001.parquet", "data/train-00000-of-00001.parquet"}
	choose := func(names []string) ([]string, error) {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(chosen, n) }), nil
	}
	for _, interpreter := range pythons(t) {
		version := strings.TrimSpace(python(t, interpreter, "import huggingface_hub; print(huggingface_hub.__version__)"))
		t.Run(version, func(t *testing.T) {
			s := newServer(t)
			repo := s.AddDataset("org/reviews", map[string][]byte{
				"README.md": []byte("# Reviews\n"), ".gitattributes": []byte("*.parquet filter=lfs\n"), "other.csv": []byte("not taken\n"),
				"data/train-00000-of-00001.parquet": []byte("as large as it gets"), "data/test-00000-of-00001.parquet": []byte("small"),
			})
			c := newClient(t, s)
			ours, err := c.GetDataset(t.Context(), "org/reviews", "main", choose, hub.Options{})
			if err != nil || len(ours.Files) != 3 {
				t.Fatalf("%+v, %v", ours, err)
			}
			out := python(t, interpreter, `
import json
from huggingface_hub import hf_hub_download, scan_cache_dir
report = scan_cache_dir()
print(json.dumps({
    "train": hf_hub_download("org/reviews", "data/train-00000-of-00001.parquet", repo_type="dataset"),
    "types": [r.repo_type for r in report.repos],
    "warnings": [str(w) for w in report.warnings if "version.txt" not in str(w)],
}))`, "HF_HUB_CACHE="+c.Cache, "HF_HUB_OFFLINE=1")
			var got struct {
				Train           string
				Types, Warnings []string
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got.Train != ours.Files[2].Path || !slices.Equal(got.Types, []string{"dataset"}) || len(got.Warnings) > 0 {
				t.Errorf("the official client sees %s, want %+v", out, ours.Files)
			}

			theirs := filepath.Join(t.TempDir(), "hub")
			python(t, interpreter, `
from huggingface_hub import snapshot_download
snapshot_download("org/reviews", repo_type="dataset", allow_patterns=["README.md", "data/*"])`,
				"HF_HUB_CACHE="+theirs, "HF_ENDPOINT="+s.URL)
			if a, b := tree(t, c.Cache), tree(t, theirs); !slices.Equal(a, b) {
				t.Errorf("the caches differ:\nbench:\n%s\nofficial:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
			offline := &hub.Client{Endpoint: s.URL, Cache: theirs, Offline: true}
			if found, err := offline.GetDataset(t.Context(), "org/reviews", "main", choose, hub.Options{}); err != nil || found.Commit != repo.Head("main") || len(found.Files) != 3 {
				t.Errorf("bench sees %+v, %v", found, err)
			}
		})
	}
}
