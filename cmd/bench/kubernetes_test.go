package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bench/containers"
	"bench/runner/job"
)

// fakeCluster is a stand-in for kubectl and a cluster, whose pods run the
// stand-in for a trainer. It returns the environment of bench, and a file for
// --kubernetes.
func fakeCluster(t *testing.T) (env []string, file string) {
	t.Helper()
	trainer, err := exec.LookPath("standin-trainer")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubectl := filepath.Join(dir, "kubectl")
	if out, err := exec.Command("go", "build", "-o", kubectl, "bench/runner/kubernetes/fakekubectl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	volume := filepath.Join(dir, "cluster", "volumes", "work")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "kubernetes.yaml")
	writeFile(t, file, fmt.Sprintf("kubectl: %s\nimage: registry.example.org/mine@sha256:%s\npvc: {claim: work, path: %s}\npoll: 50ms\n", kubectl, strings.Repeat("0", 64), volume))
	return []string{"BENCH_FAKE_KUBE=" + filepath.Join(dir, "cluster"), "BENCH_FAKE_TRAINER=" + trainer}, file
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// byCell are the stored predictions by data set and seed: trainers differ, and
// so do the ids of jobs.
func (p *cli) byCell() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	predictions := p.predictions()
	for id, b := range p.stored("spec.json") {
		var s job.Spec
		if err := json.Unmarshal(b, &s); err != nil {
			p.t.Fatal(err)
		}
		out[fmt.Sprint(s.Dataset, " ", s.Seed)] = predictions[id]
	}
	return out
}

// Batches are Jobs of a cluster; bench is killed again and again meanwhile.
// Every prediction is that of a run in processes here.
func TestKubernetesSurvivesBench(t *testing.T) {
	env, file := fakeCluster(t)
	python, _ := fakePython(t)
	args := []string{"run", "fresh:tiny", "--suite", "sample", "--seeds", "3", "--set", "max_steps=100", "--executor"}
	here := newCLI(t)
	here.run(0, append(args, "process", "--python", python)...)

	args = append(args, "kubernetes", "--kubernetes", file)
	whole := newCLI(t)
	whole.env = env
	whole.run(0, args...)
	p := newCLI(t)
	p.env = env
	l := &ledger{p: p}
	p.soak(kills(t)/2, time.Second, l.look, args...)
	l.complete(12, 4, whole.predictions())
	if !maps.Equal(p.byCell(), here.byCell()) {
		t.Error("the predictions are not those of a run in processes")
	}
	has(t, p.run(0, "gc", "--kubernetes", file).stdout, "0 batches stopped")
	has(t, p.run(0, "doctor", "--kubernetes", file).stdout, "ok       kubernetes", "claim work")
	eventually(t, "no kubectl outlives its bench", func() bool {
		left, err := filepath.Glob("/proc/[0-9]*/cmdline")
		return err == nil && !slices.ContainsFunc(left, func(path string) bool {
			b, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(b), filepath.Join(filepath.Dir(file), "kubectl")+"\x00proxy")
		})
	})
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "cluster", "volumes", "work", "bench", "*", "batches", "*"))
	if len(left) > len(whole.records()) || err != nil { // of the other home, at most
		t.Errorf("left in the volume: %v, %v", left, err)
	}
}

// What is wrong with the mapping is said at once, with its line; what is wrong
// with the cluster too.
func TestKubernetesIsNotThere(t *testing.T) {
	env, file := fakeCluster(t)
	p := newCLI(t)
	p.env = append(env, "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "fresh:tiny", "--dataset", "sample-ner", "--seeds", "1", "--executor", "kubernetes"}
	r := p.run(64, args...)
	has(t, r.stderr, "nothing says where")
	for name, c := range map[string]struct {
		text string
		code int
		says []string
	}{
		"unknown key":      {"image: x\nclaim: y\n", 64, []string{":2: there is no key claim"}},
		"no image":         {"pvc: {claim: work}\n", 64, []string{"image is missing", "bench image push"}},
		"a tag may move":   {"image: mine:latest\npvc: {claim: work}\n", 64, []string{"@sha256:"}},
		"volume and store": {string(good) + "store: {url: 's3://work/x', endpoint: 'http://127.0.0.1:1'}\n", 64, []string{"there are both pvc and store"}},
		"wrong store":      {strings.Replace(string(good), "pvc:", "entrypoint: [/trainer]\nstore: {url: work, endpoint: 'http://127.0.0.1:1'}\n#", 1), 64, []string{"is not s3://BUCKET/PREFIX"}},
		"no entrypoint":    {strings.Replace(string(good), "pvc:", "store: {url: 's3://work/x', endpoint: 'http://127.0.0.1:1'}\n#", 1), 64, []string{"entrypoint: [PROGRAM"}},
		"no key":           {strings.Replace(string(good), "pvc:", "entrypoint: [/trainer]\nstore: {url: 's3://work/x', endpoint: 'http://127.0.0.1:1'}\n#", 1), 4, []string{"no login for the object store", "AWS_ACCESS_KEY_ID"}},
		"no claim":         {strings.Replace(string(good), "claim: work", "claim: play", 1), 4, []string{"has no PersistentVolumeClaim play", "get pvc"}},
		"not mounted":      {strings.Replace(string(good), "path: /", "path: /nowhere/", 1), 4, []string{"cannot be written to", "leave out path:"}},
		"no such context":  {string(good) + "context: nowhere\n", 4, []string{"kubectl has no such context", "get-contexts"}},
		"no kubectl":       {string(good)[strings.Index(string(good), "\n")+1:] + "kubectl: kubectl-that-is-not-there\nnamespace: lab\n", 4, []string{"kubectl is not there"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := filepath.Join(t.TempDir(), "k.yaml")
			writeFile(t, other, c.text)
			begun := time.Now()
			r := p.run(c.code, append(args, "--kubernetes", other)...)
			has(t, r.stderr, append(c.says, "bench: error:")...)
			if c.code == 4 {
				has(t, p.try("doctor", "--kubernetes", other).stdout, append(c.says, "missing  kubernetes")...)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// The embedded trainer's image starts as bench thinks.
func TestTrainerEntrypoint(t *testing.T) {
	text, err := os.ReadFile("../../containers/trainer/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(trainerEntrypoint)
	_, got, _ := strings.Cut(string(text), "\nENTRYPOINT ")
	if got = strings.ReplaceAll(strings.TrimSpace(got), ", ", ","); got != string(want) {
		t.Errorf("ENTRYPOINT is %s, want %s", got, want)
	}
}

// kubernetesLab is the cluster of .ci/kubernetes.sh, on which an image takes the
// trainer's name.
func kubernetesLab(t *testing.T, image string) (lab, trainer string) {
	t.Helper()
	lab = os.Getenv("BENCH_TEST_KUBERNETES")
	need(t, "kubernetes", lab != "", "no cluster: .ci/kubernetes.sh up DIR starts one, then BENCH_TEST_KUBERNETES=DIR")
	trainer = "docker.io/library/" + containers.TrainerImage()
	for _, node := range []string{"1", "2"} {
		if out, err := exec.Command("ctr", "--address", filepath.Join(lab, "run", "containerd-"+node+".sock"), "-n", "k8s.io", "images", "tag", "--force",
			"docker.io/library/"+image, trainer).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return lab, trainer
}

// A small sweep on the cluster of .ci/kubernetes.sh: two models, four data sets,
// two seeds, with one bench killed in the middle, equal to a run here.
func TestKubernetesRealSweep(t *testing.T) {
	lab, image := kubernetesLab(t, "bench-test-kubestandin:test")
	sweep := filepath.Join(t.TempDir(), "sweep.yaml")
	writeFile(t, sweep, fmt.Sprintf(`models: ["fresh:tiny", "%s"]
suite: sample
seeds: 2
set: [max_steps=300]
executor: kubernetes
memory: 256m
threads: 1
device: cpu
kubernetes:
  image: %s
  entrypoint: [/trainer]
  pvc: {claim: work, path: %s/volume}
  poll: 500ms
  start_timeout: 5m
`, "baseline:majority", image, lab))
	p := newCLI(t)
	p.env = []string{"KUBECONFIG=" + filepath.Join(lab, "kubeconfig-user")}
	c := p.command("sweep", sweep)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a job of a pod is stored", func() bool {
		for _, b := range p.stored("outcome.json") {
			if strings.Contains(string(b), `"executor": "kubernetes"`) {
				return true
			}
		}
		return false
	})
	c.Process.Kill()
	c.Wait()
	r := p.run(0, "sweep", sweep)
	t.Logf("%s", r.stderr)
	python, _ := fakePython(t)
	here := newCLI(t)
	here.run(0, "run", "fresh:tiny", "--suite", "sample", "--seeds", "2", "--set", "max_steps=300", "--executor", "process", "--python", python)
	want := here.byCell()
	for id, b := range p.stored("outcome.json") {
		var o job.Outcome
		if err := json.Unmarshal(b, &o); err != nil || o.State != job.OK {
			t.Errorf("job %s: %v %s", id.Short(), err, b)
		}
	}
	got := map[string]string{}
	predictions := p.predictions()
	for id, b := range p.stored("spec.json") {
		var s job.Spec
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		if s.Model == "fresh:tiny" {
			got[fmt.Sprint(s.Dataset, " ", s.Seed)] = predictions[id]
		}
	}
	if len(got) != 8 || !maps.Equal(got, want) {
		t.Errorf("%d predictions are not those of a run here (%d)", len(got), len(want))
	}
	p.noBatches()
}

// The real trainer, in pods that get their data and models through a volume and
// through an object store, predicts what it predicts in processes, to the byte.
func TestKubernetesRealTrainer(t *testing.T) {
	lab, image := kubernetesLab(t, "bench-test-kubetorch:test")
	if shown, _ := os.ReadFile(filepath.Join(lab, "trainer.image")); strings.TrimSpace(string(shown)) != containers.TrainerImage() {
		t.Skipf("the Docker engine had no image %s when the cluster was started: bench image build makes it", containers.TrainerImage())
	}
	endpoint, err := os.ReadFile(filepath.Join(lab, "store.endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	python := firstPython(t)
	args := []string{"run", "fresh:tiny", makeModels(t, python)[0], "--suite", "sample", "--protocol", "smoke", "--set", "max_steps=10", "--set", "eval_steps=10", "--set", "learning_rate=0.01",
		"--seeds", "1", "--batch", "model", "--threads", "1", "--memory", "3g", "--device", "cpu"}
	here := newCLI(t)
	here.run(0, append(args, "--executor", "process", "--python", python)...)
	want := here.predictions()
	if len(want) != 8 {
		t.Fatalf("%d predictions", len(want))
	}
	for name, way := range map[string]string{
		"volume": fmt.Sprintf("pvc: {claim: work, path: %s/volume}", lab),
		"store":  fmt.Sprintf("store: {url: 's3://work/trainer', endpoint: '%s', region: lab}", strings.TrimSpace(string(endpoint))),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kubernetes.yaml")
			writeFile(t, file, fmt.Sprintf("image: %s\nruntime_class: trainer\npoll: 500ms\nstart_timeout: 5m\n%s\n", image, way))
			p := newCLI(t)
			p.limit = 8 * time.Minute
			p.env = []string{"KUBECONFIG=" + filepath.Join(lab, "kubeconfig-user"), "AWS_ACCESS_KEY_ID=lab", "AWS_SECRET_ACCESS_KEY=lab-secret"}
			p.run(0, append(args, "--executor", "kubernetes", "--kubernetes", file)...)
			if got := p.predictions(); !maps.Equal(got, want) {
				t.Errorf("%d predictions are not those of processes", len(got))
			}
			p.run(0, "gc", "--kubernetes", file)
		})
	}
}
