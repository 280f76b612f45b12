//go:build linux

package slurm

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bench/runner/job"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// probe is what the image's entrypoint, /bin/sh /bench/in/probe.sh, is to do.
const probe = `
echo "user $(id -u)"
grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status
echo "interfaces $(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | tr '\n' ' ')"
touch /x 2>/dev/null && echo "root is writable"
touch /bench/in/x 2>/dev/null && echo "in is writable"
touch /bench/model/x 2>/dev/null && echo "model is writable"
echo kept >/bench/out/kept && echo "out is writable"
echo scratch >/tmp/scratch && echo "tmp is writable"
echo "model $(cat /bench/model/snapshots/ab/config.json)"
grep -o '"path": "[^"]*"' /bench/in/batch.json
ls /root /home 2>/dev/null
env
echo "arguments $*"
exit 7
`

// The walls of a real Apptainer, from inside. It does not run as root without
// CAP_SYS_RESOURCE, so the test is for an ordinary user. BENCH_TEST_APPTAINER
// names a saved Docker image with a shell and the entrypoint
// ["/bin/sh", "/bench/in/probe.sh"].
func TestApptainer(t *testing.T) {
	image := os.Getenv("BENCH_TEST_APPTAINER")
	if image == "" {
		t.Skip("BENCH_TEST_APPTAINER names no image")
	}
	t.Setenv("SECRET_TOKEN", "hunter2")
	t.Setenv("SLURM_JOB_ID", "7")
	root := filepath.Join(t.TempDir(), "with: odd, 'characters'")
	cache := filepath.Join(root, "hub", "models--org--name")
	snapshot := filepath.Join(cache, "snapshots", "ab")
	d := job.Dir(filepath.Join(root, "batch"))
	for _, dir := range []string{snapshot, filepath.Join(cache, "blobs"), d.Out()} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(cache, "blobs", "1"), []byte("of the blob"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../blobs/1", filepath.Join(snapshot, "config.json")); err != nil {
		t.Fatal(err)
	}
	i, err := OpenImage(t.Context(), image, "", filepath.Join(root, "images"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	b := runnertest.WriteBatch(t, d, 1, stub.Script{})
	b.Model.Path = snapshot
	if err := os.WriteFile(filepath.Join(d.In(), "probe.sh"), []byte(probe), 0o666); err != nil {
		t.Fatal(err)
	}
	h := &handle{e: New(Options{}), at: &station{site: here{}}, b: b, d: d, r: record{Run: "x"}}
	script, err := h.prepare(t.Context(), Program{Image: i})
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/bash", save(t, script))
	said, err := c.CombinedOutput()
	if c.ProcessState == nil || len(said) > 0 {
		t.Fatalf("%v %s", err, said)
	}
	text := read(t, d.Log()) + read(t, d.Events())
	t.Log(text)
	if got := c.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code %d, want 7", got)
	}
	if w, err := h.read(); err != nil || w == nil || w.Code != 7 || w.Runtime != "apptainer" || w.Network != "cut" {
		t.Errorf("witness %+v, %v", w, err)
	}
	has(t, text, "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "interfaces lo \n", "out is writable", "tmp is writable", "model of the blob",
		`"path": "/bench/model/snapshots/ab"`, "HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1", "arguments --batch /bench/in/batch.json --out /bench/out")
	for _, s := range []string{"hunter2", "root is writable", "in is writable", "model is writable", "user 0"} {
		if strings.Contains(text, s) {
			t.Errorf("%q is in the log", s)
		}
	}
	if got := read(t, filepath.Join(h.out(), "kept")); got != "kept\n" {
		t.Errorf("out holds %q", got)
	}
}
