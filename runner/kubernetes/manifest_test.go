package kubernetes

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
)

// manifests are what bench sends to a cluster, for two configurations.
func manifests() map[string]any {
	plain := Options{
		Place:   Place{Namespace: "lab", Instance: "0123456789ab", Claim: "work", Path: "/mnt/work"},
		Image:   "registry.example.org/bench-trainer:0123456789ab",
		User:    1000,
		Group:   1000,
		Limits:  runner.Limits{CPUs: 2, MemoryBytes: 8 << 30},
		Version: "devel-0123456789ab+changes",
	}
	plain.fill()
	full := plain
	full.Path, full.Folder = "", "projects/bench"
	full.Queue, full.GPUResource, full.PriorityClass, full.RuntimeClass, full.ServiceAccount = "team-a", "nvidia.com/mig-1g.18gb", "low", "nvidia", "trainer"
	full.NodeSelector = map[string]string{"gpu": "h200", "disk": "fast"}
	full.Tolerations = []Toleration{{Key: "nvidia.com/gpu", Operator: "Exists", Effect: "NoSchedule"}}
	full.PullSecrets = []string{"registry"}
	full.Limits = runner.Limits{CPUs: 1.5, MemoryBytes: 16<<30 + 1, Time: 90*time.Minute + time.Millisecond}
	batch := job.BatchID([]job.ID{"one"})
	r := order{batch: batch, name: plain.jobName(batch), run: "RUN", in: plain.runFolder(batch, "RUN") + "/in", out: plain.runFolder(batch, "RUN") + "/out", threads: 2}
	g := r
	g.model, g.gpu = full.modelFolder("abc"), true
	g.in, g.out = full.runFolder(batch, "RUN")+"/in", full.runFolder(batch, "RUN")+"/out"
	stored := full
	stored.Claim, stored.Store, stored.Entrypoint = "", Store{URL: "s3://work/some/where", Endpoint: "https://s3.example.org", Region: "eu-north-1"}, []string{"/opt/bench/bin/python", "-m", "bench_trainer"}
	s := open(stored.Place, stored).volume.(*store).arrange(g, []byte("plan"), address{"s3.example.org", []string{"192.0.2.1", "2001:db8::1"}, 443})
	return map[string]any{
		"job-store.json": stored.manifest(g, s), "secret.json": s.objects[0], "networkpolicy-store.json": s.objects[1],
		"job.json": plain.manifest(r, claimed(plain.Claim, r)), "job-gpu.json": full.manifest(g, claimed(full.Claim, g)), "networkpolicy.json": plain.isolation(),
		"helper.json": (&remote{c: open(full.Place, full), o: full}).helper(),
	}
}

// BENCH_UPDATE=1 writes the files anew. They name the programs in folder pod
// instead of holding them.
func TestManifests(t *testing.T) {
	for name, m := range manifests() {
		got, err := json.MarshalIndent(m, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		for text, name := range map[string]string{transfer: `"pod/transfer.py"`, cutOff: `"pod/guard.py"`} {
			program, _ := json.Marshal(text)
			got = bytes.ReplaceAll(got, program, []byte(name))
		}
		path := filepath.Join("testdata", name)
		if os.Getenv("BENCH_UPDATE") != "" {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v; it is now\n%s", path, err, got)
		}
	}
}

// An API server takes the manifests, with no field that it does not know, in a
// namespace whose pods are held to the level "restricted".
func TestRealManifests(t *testing.T) {
	newRealLab(t)
	for name := range manifests() {
		out, err := exec.Command("kubectl", "create", "--dry-run=server", "--validate=strict", "-f", filepath.Join("testdata", name)).CombinedOutput()
		if err != nil || strings.Contains(string(out), "would violate PodSecurity") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

func TestLabelValue(t *testing.T) {
	for in, want := range map[string]string{
		"devel-0123456789ab+changes": "devel-0123456789ab-changes",
		"v1.2.3":                     "v1.2.3",
		"+x+":                        "x",
		"":                           "",
		strings.Repeat("a", 70):      strings.Repeat("a", 63),
	} {
		if got := labelValue(in); got != want {
			t.Errorf("labelValue(%q) = %q, want %q", in, got, want)
		}
	}
}
