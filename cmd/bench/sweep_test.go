package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/containers/containertest"
	"bench/datasets/hub/hubtest"
)

// sweepFileOf writes a sweep's file into a folder of its own.
func sweepFileOf(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sweep.yaml")
	put(t, path, text)
	return path
}

// Whatever is wrong with a sweep is said within ten seconds, at its line, with
// what to do: exit code 64 for the file, 4 for what is outside of it.
func TestBadSweeps(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })
	const good = "models: [baseline:ngram]\nsuite: sample\n"
	const trained = "models: [fresh:tiny]\nsuite: sample\nseeds: 1\nexecutor: docker\n"
	cases := []struct {
		name, text string
		code       int
		want       []string
	}{
		{"unknown key", good + "sedes: 3\n", 64, []string{"sweep.yaml:3: there is no key sedes; did you mean seeds?", "hint: mend the file"}},
		{"key twice", good + "suite: paper\n", 64, []string{`sweep.yaml:3: mapping key "suite" already defined at line 2`}},
		{"two documents", good + "---\n" + good, 64, []string{"second document"}},
		{"a list", "- baseline:ngram\n", 64, []string{"sweep.yaml:1: a list stands where a mapping"}},
		{"not YAML", "models: [baseline:ngram\nsuite: sample\n", 64, []string{"sweep.yaml:2: did not find", "hint: it is YAML"}},
		{"models are no list", "models: baseline:ngram\nsuite: sample\n", 64, []string{`sweep.yaml:1: "baselin..." stands where a list is wanted`}},
		{"no models", "models: []\nsuite: sample\n", 64, []string{"sweep.yaml:1: no models"}},
		{"model twice", "models:\n- baseline:ngram\n- {name: 'baseline:ngram', priority: 2}\nsuite: sample\n", 64, []string{"sweep.yaml:3: model baseline:ngram is there already, at ", "sweep.yaml:2"}},
		{"same model twice", "models: ['./m', '././m']\nsuite: sample\n", 64, []string{"sweep.yaml:1: model ././m is ./m, which is there already, at "}},
		{"no such baseline", "models: [baseline:oracle]\nsuite: sample\n", 64, []string{`sweep.yaml:1: there is no baseline "oracle"; there are`}},
		{"bad name", "models:\n- baseline:ngram\n- org/model/more\nsuite: sample\n", 64, []string{"sweep.yaml:3: model org/model/more: ", "hint: name a model as org/name"}},
		{"file of names missing", "models: [{file: gone.txt}]\nsuite: sample\n", 64, []string{"sweep.yaml:1: open ", "gone.txt: no such file"}},
		{"name and file", "models: [{file: a, name: b}]\nsuite: sample\n", 64, []string{"sweep.yaml:1: a model is a name, or a mapping"}},
		{"priority", "models: [{name: 'baseline:ngram', priority: high}]\nsuite: sample\n", 64, []string{`sweep.yaml:1: model: priority is "high"; it is a whole number from`}},
		{"no data sets", "models: [baseline:ngram]\n", 64, []string{"which data sets? Give suite"}},
		{"suite", "models: [baseline:ngram]\nsuite: papper\n", 64, []string{`sweep.yaml:2: there is no suite "papper"; there are paper, extra, sample, all`}},
		{"data set", "models: [baseline:ngram]\ndatasets: [sample-ner,\n  dane2, sample-ner]\n", 64, []string{"sweep.yaml:3: ", "dane2", "sweep.yaml:3: data set sample-ner is there already, at line 2"}},
		{"task", good + "tasks: [ner, nre]\n", 64, []string{`sweep.yaml:3: there is no task "nre"; there are ner, sentiment`}},
		{"language", good + "languages: [da, dk]\n", 64, []string{`sweep.yaml:3: no data set is in the language "dk"; there are da`}},
		{"nothing selected", good + "languages: [is]\n", 64, []string{"no data set is selected"}},
		{"no seeds", good + "seeds: 0\n", 64, []string{"sweep.yaml:3: seeds is 0; it is a number from 1 to"}},
		{"negative seeds", good + "seeds: -3\n", 64, []string{"sweep.yaml:3: seeds is -3"}},
		{"half a seed", good + "seeds: 2.5\n", 64, []string{`sweep.yaml:3: "2.5" stands where a whole number is wanted`}},
		{"no slots", good + "slots: 0\n", 64, []string{"sweep.yaml:3: slots is 0; it is a number from 1 to"}},
		{"negative threads", good + "threads: -1\n", 64, []string{"sweep.yaml:3: threads and slots cannot be negative"}},
		{"memory", good + "memory: much\n", 64, []string{`sweep.yaml:3: memory: "much" is not a size`, "hint: such as 800m or 16g"}},
		{"too much memory", good + "memory: 900t\n", 64, []string{"sweep.yaml:3: memory is 900t", "between 64m and 64t"}},
		{"too little memory", good + "memory: 16\n", 64, []string{"sweep.yaml:3: memory is 16,", "such as 16g"}},
		{"timeout without a unit", good + "timeout: 6\n", 64, []string{`sweep.yaml:3: "6" stands where a time, such as 6h or 30m is wanted`}},
		{"negative timeout", good + "timeout: -6h\n", 64, []string{"sweep.yaml:3: timeout is -6h0m0s"}},
		{"protocol", good + "protocol: papers\n", 64, []string{"sweep.yaml:3: ", "papers"}},
		{"hyper-parameter", good + "set: [learning_rat=1]\n", 64, []string{"sweep.yaml:3: ", "learning_rat"}},
		{"executor", good + "executor: moon\n", 64, []string{"sweep.yaml:3: executor moon: choose one of auto, baseline, docker"}},
		{"device", good + "device: tpu\n", 64, []string{"sweep.yaml:3: device tpu: choose one of auto, cpu, cuda"}},
		{"batch", good + "batch: all\n", 64, []string{"sweep.yaml:3: batch all: choose one of seed, model, job"}},
		{"remote code in a process", "models: [{name: a/b, allow_remote_code: true}]\nsuite: sample\nexecutor: process\n", 64, []string{"allow_remote_code: code from a model's repository is not run outside", "hint: use executor docker"}},
		{"negative price", good + "price: -1\n", 64, []string{"sweep.yaml:3: price is -1; it is what a GPU hour costs, such as 2.5, from 0 to"}},
		{"limit without a price", good + "limits: {price: 10}\n", 64, []string{"sweep.yaml:3: limits: a limit of the price needs price"}},
		{"limit of nothing", good + "model_limits:\n  gpu_hours: 0\n", 64, []string{"sweep.yaml:3: model_limits: gpu_hours is 0; it is a number above 0"}},
		{"unknown limit", good + "limits: {gpuhours: 3}\n", 64, []string{"sweep.yaml:3: there is no key gpuhours; there are gpu_hours, kwh, price"}},
		{"host twice", good + "hosts: [ssh://a, ssh://a]\n", 64, []string{"sweep.yaml:3: host ssh://a is there already, at line 3"}},
		{"one host under two names", good + "hosts:\n- {name: a, address: ssh://c}\n- {name: b, address: ssh://c}\n", 64, []string{"sweep.yaml:5: host b is host a, at line 4: both are ssh://c"}},
		{"hosts without docker", good + "executor: process\nhosts: [ssh://a]\n", 64, []string{"sweep.yaml:4: hosts are for executor docker"}},
		{"slots of a host", good + "hosts: [{address: ssh://a, slots: 0}]\n", 64, []string{`sweep.yaml:3: host: slots is "0"`}},
		{"many things", "modles: [a]\nsuite: moon\nseeds: 0\nmemory: -4g\n", 64, []string{"sweep.yaml:1: there is no key modles; did you mean models?", "sweep.yaml:2: there is no suite", "sweep.yaml:3: seeds is 0", `sweep.yaml:4: memory: "-4g" is not a size`, "no models"}},
		{"query without end", "models: [{hub: {rule: any}}]\nsuite: sample\n", 64, []string{"sweep.yaml:1: model: hub means the whole Hub: say language"}},
		{"query of nothing", "models: [{hub: da}]\nsuite: sample\n", 64, []string{"sweep.yaml:1: model: hub is a mapping, such as {language: da"}},
		{"wrong queries", "models:\n- hub:\n    langauge: da\n    limit: 0\n    max_parameters: big\n    sort: size\n    tags: [a, a]\nsuite: sample\n", 64, []string{"sweep.yaml:3: hub: there is no key langauge; there are language, tags",
			`sweep.yaml:4: hub: limit is "0"`, `sweep.yaml:5: hub: max_parameters is "big"; it is a number such as 1000, 500M or 1.5B`, `sweep.yaml:6: hub: sort is "size"; choose one of downloads`, "sweep.yaml:7: hub: tags has a twice"}},
		{"wrong groups", "models:\n- hub:\n    groups: nordic\n    exclude: ['[']\nsuite: sample\n", 64, []string{`sweep.yaml:3: hub: groups has "nordic"; there are multilingual, geotrend`, `sweep.yaml:4: hub: exclude has "[", which is no pattern such as org/*`}},
		{"query twice", "models:\n- hub: {language: da}\n- hub: {language: [da]}\nsuite: sample\n", 64, []string{"sweep.yaml:3: this query is there already, at "}},
		{"name of the sweep", good + "name: a/b\n", 64, []string{`sweep.yaml:3: name is "a/b"; it is made of letters`}},
		{"query offline", "models: [{hub: {language: da}}]\nsuite: sample\n", 4, []string{"sweep.yaml:1: search for models {\"languages\":[\"da\"]}: the Hub may not be asked", "hint: unset HF_HUB_OFFLINE"}},

		{"nobody at the host", trained + "hosts: ['tcp://127.0.0.1:1?tls=no']\n", 4, []string{"127.0.0.1:1", "hint: "}},
		{"a host that says nothing", trained + "hosts: ['tcp://" + deaf.Addr().String() + "?tls=no']\n", 4, []string{deaf.Addr().String(), "hint: "}},
		{"a host of no name", trained + "hosts: ['tcp://no-such-host.invalid:2375?tls=no']\n", 4, []string{"no-such-host.invalid", "hint: "}},
		{"two that do not answer", trained + "hosts: ['unix:///nowhere/1.sock', 'ssh://no-such-host.invalid']\n", 4, []string{"/nowhere/1.sock", "hint: "}},
		{"no such model", "models: [org/model]\nsuite: sample\n", 4, []string{"org/model", "hint: "}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newCLI(t)
			r := p.run(c.code, "sweep", "--dry-run", sweepFileOf(t, c.text))
			has(t, r.stderr, append(c.want, "bench: error: ")...)
			if r.wall > 10*time.Second {
				t.Errorf("it took %v", r.wall)
			}
			if strings.Contains(r.stderr, "unmarshal") || strings.Contains(r.stderr, "--executor") {
				t.Errorf("the words are not those of the file:\n%s", r.stderr)
			}
			// Without --dry-run the same is said.
			if again := p.run(c.code, "sweep", sweepFileOf(t, c.text)); again.wall > 10*time.Second {
				t.Errorf("without --dry-run it took %v", again.wall)
			}
		})
	}
}

// What is wrong with an engine is said as soon, before anything is downloaded.
func TestBadSweepsOnAnEngine(t *testing.T) {
	e := containertest.Open(t)
	image := containertest.Image(t, e, "../../runner/runnertest/standin/trainer", "trainer")
	const trained = "models: [fresh:tiny]\nsuite: sample\nseeds: 1\nexecutor: docker\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"no GPUs", trained + "device: cuda\nimage: " + image + "\n", []string{"has no GPUs for containers", "hint: install NVIDIA's container toolkit there"}},
		{"wrong image", trained + "image: bench-no-such-image:1\n", []string{"bench-no-such-image:1", "hint: "}},
		{"more memory than there is", trained + "memory: 60t\nimage: " + image + "\n", []string{"GiB of memory, and a batch is to have 6.144e+04 GiB", "hint: lower --memory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newCLI(t)
			p.env = []string{"DOCKER_HOST=unix:///var/run/docker.sock"}
			r := p.run(4, "sweep", sweepFileOf(t, c.text))
			has(t, r.stderr, append(c.want, "bench: error: ")...)
			if r.wall > 10*time.Second {
				t.Errorf("it took %v", r.wall)
			}
			p.noBatches()
		})
	}
}

// A disk without room: exit code 4, and soon.
func TestSweepOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a small file system")
	}
	p := newCLI(t)
	if err := os.MkdirAll(p.home, 0o777); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "bench-test", p.home).CombinedOutput(); err != nil {
		t.Skipf("no small file system can be made here: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", p.home).Run() })
	r := p.run(4, "sweep", sweepFileOf(t, "models: [baseline:majority]\nsuite: sample\nseeds: 1\n"))
	has(t, r.stderr, "no space left", "hint: ")
	if r.wall > 10*time.Second {
		t.Errorf("it took %v", r.wall)
	}
}

// Limits count what ended before. What is beyond them is not started, the plan
// says so beforehand, and the exit code is 3.
func TestSweepLimits(t *testing.T) {
	p := newCLI(t)
	const models = "models: [baseline:majority, {name: 'baseline:tagger', priority: 3}]\ndatasets: [sample-ner]\nprice: 2\n"
	p.run(0, "sweep", sweepFileOf(t, models+"seeds: 1\n"))
	// As if the first model's job had had two GPUs for an hour.
	for id, text := range p.stored("outcome.json") {
		var o map[string]any
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		spec := string(p.stored("spec.json")[id])
		if !strings.Contains(spec, "majority") {
			continue
		}
		o["device"], o["seconds"], o["gpus"] = "cuda", map[string]float64{"train": 3600}, []string{"GPU-a", "GPU-b"}
		text, _ = json.Marshal(o)
		put(t, filepath.Join(p.home, "jobs", string(id)[:2], string(id), "outcome.json"), string(text))
	}
	each := sweepFileOf(t, models+"seeds: 2\nmodel_limits: {gpu_hours: 1.5}\n")
	has(t, p.run(0, "sweep", "--dry-run", each).stderr, "the plan goes over the limit of baseline:majority: 4.00 of 1.50 GPU hours (2.00 used, 2.00 to come)", "all of it will take about 1 h 00 min")
	r := p.run(3, "sweep", each)
	has(t, r.stderr, "baseline:majority: 2 of 1.5 GPU hours are used: 1 jobs were not started", "[3/4]", "hint: what is recorded stays: raise limits")
	all := sweepFileOf(t, models+"seeds: 3\nlimits: {price: 4}\n")
	r = p.run(3, "sweep", all)
	has(t, r.stderr, "4 of 4 are spent: 3 jobs were not started")
	if n := len(p.stored("outcome.json")); n != 3 {
		t.Errorf("%d jobs have ended, want 3", n)
	}
	var total forecast
	for line := range strings.Lines(p.run(0, "sweep", "--json", "--dry-run", all).stdout) {
		if err := json.Unmarshal([]byte(line), &total); err != nil {
			t.Fatal(err)
		}
	}
	if len(total.Over) != 1 || total.Jobs != 6 || total.Done != 3 {
		t.Errorf("the forecast of all: %+v", total)
	}
	p.run(0, "sweep", sweepFileOf(t, models+"seeds: 3\nlimits: {price: 400, kwh: 100}\nmodel_limits: {gpu_hours: 2.5}\n"))
}

// Batches are laid into slots longest first.
func TestMakespan(t *testing.T) {
	for _, c := range []struct {
		batches []float64
		slots   int
		want    float64
	}{{nil, 4, 0}, {[]float64{3}, 0, 3}, {[]float64{2, 2, 2, 3, 3}, 2, 7}, {[]float64{1, 9, 1, 1}, 3, 9}} {
		if got := makespan(c.batches, c.slots); got != c.want {
			t.Errorf("%v in %d slots: %v, want %v", c.batches, c.slots, got, c.want)
		}
	}
}

// A sweep's queries ask the Hub once. Started again, also when the Hub lists
// others or cannot be reached, it has the models that it had, at the commits that
// they had; --refresh asks again.
func TestSweepQuery(t *testing.T) {
	w := newWorld(t)
	add := func(id string, downloads int) *hubtest.Repo {
		r := w.hub.Add(id, hubtest.Model())
		r.Set(func(r *hubtest.Repo) { r.Downloads, r.Tags = downloads, []string{"da"} })
		return r
	}
	add("org/named", 900)
	first := add("org/first", 800)
	add("org/second", 700)
	add("org/too-7b", 950)
	add("other/one", 990)
	add("org/third", 10)
	commit := first.Head("main")
	file := sweepFileOf(t, "name: danish\nmodels:\n- org/named\n- {hub: {language: da, limit: 3, exclude: other/*, groups: geotrend}, priority: 2}\ndatasets: [small-reviews]\nseeds: 1\nexecutor: process\npython: "+w.python+"\n")
	args := []string{"sweep", "--catalog", smallCatalogue(t), file}
	dry := append([]string{"sweep", "--dry-run"}, args[1:]...)
	r := w.run(0, dry...)
	has(t, r.stderr, "sweep.yaml:4: 3 models of the Hub", "org/first  fill-mask  size not known  800 downloads", "Geotrend/bert-base-en-da-cased is left out: the Hub has no such model")
	has(t, r.stdout, "org/named   1", "org/first   1", "org/second  1", "all         3")

	// Others come up, and one that was found gets another commit.
	add("org/third", 5000)
	files := hubtest.Model()
	files["model.safetensors"] = hubtest.Safetensors(1<<10, 7)
	first.Commit("main", files)
	r = w.run(0, args...)
	has(t, r.stderr, "[3/3]")
	if strings.Contains(r.stderr, "800 downloads") {
		t.Error("the models are listed without --dry-run")
	}
	for _, rec := range w.records() {
		if rec.Model.ID == "org/third" || rec.Model.ID == "org/first" && rec.Model.Revision != commit {
			t.Errorf("trained %s at %s", rec.Model.ID, rec.Model.Revision)
		}
	}
	has(t, w.run(64, w.args("org/named", "org/named@main")...).stderr, "org/named and org/named@main are the same model, at commit ", "hint: leave out one")
	// Without the Hub, what was found is there all the same.
	w.env = append(w.env, "HF_HUB_OFFLINE=1")
	has(t, w.run(0, args...).stderr, "nothing to do")
	has(t, w.run(0, dry...).stdout, "all         3     3")
	w.run(4, append(args, "--refresh")...)
	w.env = append(w.env, "HF_HUB_OFFLINE=0")
	r = w.run(0, append(dry, "--refresh")...)
	has(t, r.stdout, "org/third  1", "org/first  1     0", "org/named  1     1")
	if strings.Contains(r.stdout, "second") {
		t.Errorf("still there after --refresh:\n%s", r.stdout)
	}
	// A model that was found and is gone does not keep the others from it.
	w.hub.Inject(hubtest.Fault{Path: "org/third", Status: http.StatusNotFound, Header: http.Header{"X-Error-Code": {"RepoNotFound"}}})
	r = w.run(3, args...)
	has(t, r.stderr, "org/third: ", "[3/3]", "hint: ")
	put(t, filepath.Join(w.home, "sweeps", "danish", "models.json"), "{")
	has(t, w.run(4, args...).stderr, "models.json is damaged", "hint: bench sweep --refresh")
}
