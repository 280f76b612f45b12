package slurm

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/runner/job"
)

// node runs a batch script as a node would, with these programs in PATH.
func node(t *testing.T, p program, programs map[string]string) (code int, w *witness, calls string) {
	t.Helper()
	dir := job.Dir(filepath.Join(t.TempDir(), "a: b, 'c'"))
	p.run, p.in, p.events, p.log = filepath.Join(string(dir), "slurm", "x"), dir.In(), dir.Events(), dir.Log()
	for _, d := range []string{p.run, p.in, dir.Out()} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	script, err := p.script()
	if err != nil {
		t.Fatal(err)
	}
	calls = commands(t, programs)
	c := exec.Command("/bin/bash", save(t, script))
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + t.TempDir(), "SLURM_JOB_ID=7", "SLURMD_NODENAME=n1", "SLURM_CPUS_ON_NODE=3", "SECRET=hunter2", "CUDA_VISIBLE_DEVICES=1"}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	if len(out) > 0 {
		t.Errorf("the script said to Slurm: %s", out)
	}
	log, _ := os.ReadFile(p.log)
	t.Logf("log:\n%s", log)
	h := &handle{at: &station{}, d: dir, r: record{Run: "x"}}
	if w, err = h.read(); err != nil {
		t.Log(err)
	}
	text, _ := os.ReadFile(calls)
	if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(c.Env[2], "TMPDIR="), "*")); len(left) > 0 {
		t.Errorf("left on the node: %v", left)
	}
	return c.ProcessState.ExitCode(), w, string(text)
}

// save keeps a script in a file, as Slurm does.
func save(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every container program gets the walls that it has.
func TestContainers(t *testing.T) {
	for _, test := range []struct {
		program string
		image   string
		has     []string
		network string
	}{
		{"apptainer", "/images/i.sif", []string{"--silent run", "--containall", "--no-home", "--cleanenv", "--no-privs", "--net --network none", "/in:/bench/in:ro", "/batch.json:/bench/in/batch.json:ro",
			"/out:/bench/out:rw", "/model:/bench/model:ro", "OMP_NUM_THREADS=3", "HF_HUB_OFFLINE=1", "CUDA_VISIBLE_DEVICES=1", "/images/i.sif --batch /bench/in/batch.json --out /bench/out"}, "cut"},
		{"singularity", "/images/i.sif", []string{"--containall", "--network none"}, "cut"},
		{"podman", "/images/i.tar", []string{"run --rm", "--network none", "--read-only", "--cap-drop all", "no-new-privileges", "--userns keep-id", "/bench/model:ro", "sha256:1234 --batch /bench/in/batch.json"}, "cut"},
		{"podman-hpc", "/images/i.tar", []string{"--gpu", "--network none"}, "cut"},
		{"srun", "/images/i.sqsh", []string{"--container-image=/images/i.sqsh", "--container-readonly", "--no-container-mount-home", "/out:/bench/out:rw", "OMP_NUM_THREADS=3"}, "open"},
	} {
		t.Run(test.program, func(t *testing.T) {
			p := program{batch: "b", model: "/models/m", image: test.image, runtimes: []string{"apptainer", "singularity", "podman-hpc", "podman"}}
			if test.program == "srun" {
				p.runtimes = []string{"pyxis"}
			}
			// Whether the binds lead somewhere is tried with the real program.
			body := `case $1 in load) echo "Loaded image: sha256:1234"; exit;; --help) echo "  --container-image=[USER@][REGISTRY#]IMAGE"; exit;; esac; exit 7`
			code, w, calls := node(t, p, map[string]string{test.program: body})
			if code != 7 || w == nil || w.Code != 7 || w.Network != test.network || w.Node != "n1" {
				t.Errorf("exit code %d, witness %+v", code, w)
			}
			for _, s := range test.has {
				if !strings.Contains(calls, s) {
					t.Errorf("%q is not in\n%s", s, calls)
				}
			}
			if strings.Contains(calls, "hunter2") {
				t.Errorf("a secret reaches the container:\n%s", calls)
			}
		})
	}
}

// A node without any of the programs does not run the batch.
func TestNoContainerProgram(t *testing.T) {
	p := program{batch: "b", image: "/images/i.sif", runtimes: []string{"nosuch-program"}}
	if code, w, _ := node(t, p, nil); code != exitNoFolder || w != nil {
		t.Errorf("exit code %d, witness %+v", code, w)
	}
}

// A second start of the same script leaves at once.
func TestStartedTwice(t *testing.T) {
	p := program{batch: "b", argv: []string{"/bin/true"}}
	if code, w, _ := node(t, p, nil); code != 0 || w == nil {
		t.Fatalf("exit code %d, witness %+v", code, w)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "begun"), 0o777); err != nil {
		t.Fatal(err)
	}
	p.run, p.in, p.events, p.log = dir, dir, filepath.Join(dir, "e"), filepath.Join(dir, "l")
	script, err := p.script()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/bash", save(t, script))
	c.Run()
	if got := c.ProcessState.ExitCode(); got != exitAgain {
		t.Errorf("exit code %d, want %d", got, exitAgain)
	}
}

// A snapshot of the Hub's cache is shown with the files that its links lead to.
func TestShowModel(t *testing.T) {
	for path, want := range map[string][2]string{
		"/models/mine":                           {"/models/mine", "/bench/model"},
		"/hf/hub/models--org--name/snapshots/ab": {"/hf/hub/models--org--name", "/bench/model/snapshots/ab"},
	} {
		if folder, inside := showModel(path); folder != want[0] || inside != want[1] {
			t.Errorf("%s: %s, %s", path, folder, inside)
		}
	}
}

// The image of a saved Docker image is known by its id, whoever runs it.
func TestOpenImage(t *testing.T) {
	dir := t.TempDir()
	id := strings.Repeat("ab", 32)
	manifest, err := json.Marshal([]map[string]any{{"Config": "blobs/sha256/" + id, "RepoTags": []string{"bench-trainer:1"}, "Layers": []string{}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), manifest, 0o666); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "i.tar")
	if out, err := exec.Command("tar", "-C", dir, "-cf", file, "manifest.json").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for _, name := range []string{"i.sif", "i.zip"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("an image"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	open := func(name, program string) (Image, error) {
		return OpenImage(context.Background(), filepath.Join(dir, name), program, filepath.Join(dir, "cache"), &strings.Builder{})
	}
	calls := commands(t, map[string]string{"apptainer": `echo made >"$2"`})
	for range 2 {
		i, err := open("i.tar", "")
		if err != nil || i.Digest != "sha256:"+id || !slices.Equal(i.Names, []string{"bench-trainer:1"}) || filepath.Ext(i.File) != ".sif" || i.Runtimes[0] != "apptainer" {
			t.Errorf("%+v, %v", i, err)
		}
	}
	if text, err := os.ReadFile(calls); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("the file was made more than once, or not at all: %s %v", text, err)
	}
	commands(t, nil)
	if i, err := open("i.tar", ""); err != nil || i.File != file || i.Runtimes[0] != "podman-hpc" {
		t.Errorf("%+v, %v", i, err)
	}
	if i, err := open("i.sif", "singularity"); err != nil || !strings.HasPrefix(i.Digest, "sha256:") || !slices.Equal(i.Runtimes, []string{"singularity"}) {
		t.Errorf("%+v, %v", i, err)
	}
	for _, bad := range [][2]string{{"i.zip", ""}, {"nosuch.sif", ""}, {"i.sif", "podman"}, {"i.tar", "apptainer"}, {"i.tar", "pyxis"}} {
		if _, err := open(bad[0], bad[1]); err == nil {
			t.Errorf("%v is taken", bad)
		} else {
			t.Log(err)
		}
	}
}
