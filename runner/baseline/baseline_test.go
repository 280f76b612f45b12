package baseline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"bench/datasets"
	"bench/datasets/sample"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
	"bench/tasks"
	"bench/tasks/all"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is an algorithm for the contract suite: it answers at once, but
// pauses before every job but the first.
func scripted(pause time.Duration) algorithm {
	return algorithm{"scripted", 1, func(ctx context.Context, p *problem) (*result, error) {
		if p.seed != job.FirstSeed {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return majority(ctx, p)
	}}
}

func TestContract(t *testing.T) {
	var pause time.Duration
	runnertest.TestExecutor(t, runnertest.Factory{
		Open: func(*testing.T) runner.Executor {
			e := New(Options{}).(*executor)
			e.algorithms = append(e.algorithms, scripted(pause))
			return e
		},
		Prepare: func(t *testing.T, d job.Dir, jobs int, s stub.Script) (job.Batch, string) {
			if !reflect.DeepEqual(s, stub.Script{Pause: s.Pause}) {
				return job.Batch{}, "a baseline is no process: no signals, no exit code of its own, no lingering"
			}
			pause = s.Pause
			b := runnertest.WriteBatch(t, d, jobs, s)
			b.Model.ID = Prefix + "scripted"
			write(t, d, b, map[string]map[datasets.Split][]datasets.Row{"none": {
				datasets.Train: {{ID: "1", Text: "ja", Label: "correct"}, {ID: "2", Text: "nej", Label: "incorrect"}},
				datasets.Val:   {{ID: "1", Text: "ja", Label: "correct"}}, datasets.Test: {{ID: "1", Text: "ja"}},
			}})
			return b, ""
		},
	})
}

// write writes the in folder of a batch.
func write(t testing.TB, d job.Dir, b job.Batch, data map[string]map[datasets.Split][]datasets.Row) {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(d.In(), "batch.json"), text)
	for _, set := range b.Datasets {
		for _, s := range datasets.Splits {
			var buf bytes.Buffer
			if err := datasets.WriteRows(&buf, datasets.Kind(set.Task), data[set.Name][s]); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(d.In(), set.Dir, string(s)+".jsonl"), buf.Bytes())
		}
	}
}

func put(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// suite is the sample suite, generated once.
var suite = func() map[string]map[datasets.Split][]datasets.Row {
	out := map[string]map[datasets.Split][]datasets.Row{}
	for _, name := range sample.Names() {
		_, rows, err := sample.Generate(name)
		if err != nil {
			panic(err)
		}
		out[name] = rows
	}
	return out
}()

func taskOf(name string) tasks.Task {
	t, err := all.Lookup(strings.TrimPrefix(name, "sample-"))
	if err != nil {
		panic(err)
	}
	return t
}

// batchOf makes a batch of one model over sample data sets, with these seeds.
func batchOf(t testing.TB, d job.Dir, model string, names []string, seeds ...int) job.Batch {
	t.Helper()
	b := job.Batch{Version: job.ProtocolVersion, Model: job.Model{ID: Prefix + model}, Hyperparameters: job.Protocols()[0].Hyperparameters}
	blind := map[string]map[datasets.Split][]datasets.Row{}
	var ids []job.ID
	for _, name := range names {
		info := taskOf(name).Info()
		b.Datasets = append(b.Datasets, job.Dataset{Name: name, Task: info.Name, Head: info.Head, Labels: info.Labels, Languages: []string{"da"}, Dir: "data/" + name})
		rows := map[datasets.Split][]datasets.Row{datasets.Train: suite[name][datasets.Train], datasets.Val: suite[name][datasets.Val]}
		for _, r := range suite[name][datasets.Test] {
			rows[datasets.Test] = append(rows[datasets.Test], r.Blind())
		}
		blind[name] = rows
		for _, seed := range seeds {
			id := job.Spec{Dataset: name, Model: model, Seed: seed}.ID()
			ids = append(ids, id)
			b.Jobs = append(b.Jobs, job.Job{ID: id, Dataset: name, Seed: seed})
		}
	}
	b.ID = job.BatchID(ids)
	write(t, d, b, blind)
	return b
}

// do runs a batch to its end.
func do(t testing.TB, b job.Batch, d job.Dir) job.Exit {
	t.Helper()
	h, err := New(Options{}).Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	x, err := h.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func outcome(t testing.TB, d job.Dir, id job.ID) job.TrainerOutcome {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.Out(), string(id), "outcome.json"))
	if err != nil {
		t.Fatal(err)
	}
	var o job.TrainerOutcome
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		t.Fatal(err)
	}
	return o
}

func predictions(t testing.TB, d job.Dir, id job.ID) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.Out(), string(id), "predictions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// score scores the predictions of a job by the task's first metric.
func score(t testing.TB, d job.Dir, j job.Job) float64 {
	t.Helper()
	gold := suite[j.Dataset][datasets.Test]
	ids := make([]string, len(gold))
	for i, r := range gold {
		ids[i] = r.ID
	}
	lines, err := job.ReadPredictions(bytes.NewReader(predictions(t, d, j.ID)), "predictions.jsonl", ids)
	if err != nil {
		t.Fatal(err)
	}
	task := taskOf(j.Dataset)
	meta, _, err := sample.Generate(j.Dataset)
	if err != nil {
		t.Fatal(err)
	}
	ds, err := datasets.Write(t.TempDir(), meta, suite[j.Dataset])
	if err != nil {
		t.Fatal(err)
	}
	scores, err := task.Score(ds.Meta, gold, lines, nil, tasks.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	v := scores[task.Info().Metrics[0].Name]
	if v.Undefined != "" {
		return 0
	}
	return v.X
}

// goldenPredictions holds the beginnings of SHA-256 sums of predictions.jsonl
// for seed 4242 on amd64 (elsewhere products and sums may be fused, and so be
// rounded otherwise). When one changes because the algorithm did, raise the
// algorithm's version; when the sample data did, put in what the test says.
var goldenPredictions = map[string]string{
	"majority/sample-ner":           "5444db3e006d",
	"majority/sample-sentiment":     "33b79bb2988d",
	"majority/sample-acceptability": "38591cffaa32",
	"majority/sample-qa":            "e181578e111d",
	"ngram/sample-ner":              "025d8b62d414",
	"ngram/sample-sentiment":        "aa00deb2e857",
	"ngram/sample-acceptability":    "fa65301a2e44",
	"ngram/sample-qa":               "9061fed4b9de",
	"tagger/sample-ner":             "74d8ec105cb9",
	"window/sample-qa":              "d0370660ce26",
}

// Scores on the sample suite, seed 4242, were in per cent (first metric):
// majority 0, 0, 0, 26; ngram 80, 81, 74, 95; tagger 79; window 95. The bounds
// leave room for other machines' rounding, and say what the suite is for: it
// tells models apart.
func TestLearns(t *testing.T) {
	for _, c := range []struct {
		model, set string
		lo, hi     float64
	}{
		{"majority", "sample-ner", 0, 0}, {"majority", "sample-sentiment", 0, 0}, {"majority", "sample-acceptability", 0, 0},
		{"majority", "sample-qa", 0.15, 0.35},
		{"ngram", "sample-ner", 0.72, 0.88}, {"ngram", "sample-sentiment", 0.72, 0.88}, {"ngram", "sample-acceptability", 0.65, 0.9},
		{"ngram", "sample-qa", 0.85, 0.98},
		{"tagger", "sample-ner", 0.72, 0.88}, {"window", "sample-qa", 0.85, 0.99},
	} {
		t.Run(c.model+"/"+c.set, func(t *testing.T) {
			d := job.Dir(t.TempDir())
			b := batchOf(t, d, c.model, []string{c.set}, 4242, 4243)
			if x := do(t, b, d); x != (job.Exit{}) {
				t.Fatalf("exit is %+v", x)
			}
			for _, j := range b.Jobs {
				o := outcome(t, d, j.ID)
				if o.State != job.OK || o.Job != j.ID || o.Version != job.ProtocolVersion {
					t.Fatalf("outcome is %+v", o)
				}
				if c.model != "majority" && (o.Steps == 0 || o.BestStep == 0 || len(o.ValidationLosses) == 0 || o.Parameters == 0) {
					t.Errorf("outcome tells nothing of the training: %+v", o)
				}
				got := score(t, d, j)
				t.Logf("seed %d: %.4f", j.Seed, got)
				if got < c.lo || got > c.hi {
					t.Errorf("seed %d: score is %.4f, want %.2f … %.2f", j.Seed, got, c.lo, c.hi)
				}
			}
			sum := sha256.Sum256(predictions(t, d, b.Jobs[0].ID))
			name := c.model + "/" + c.set
			if got := hex.EncodeToString(sum[:6]); runtime.GOARCH == "amd64" && got != goldenPredictions[name] {
				t.Errorf("predictions are not what they were:\n\t%q: %q,", name, got)
			}
			same := bytes.Equal(predictions(t, d, b.Jobs[0].ID), predictions(t, d, b.Jobs[1].ID))
			if same != (c.model == "majority") {
				t.Errorf("two seeds give the same predictions: %v", same)
			}
		})
	}
}

// TestSameBytes runs jobs alone on one processor, and together on all.
func TestSameBytes(t *testing.T) {
	for model, sets := range map[string][]string{"ngram": sample.Names(), "tagger": {"sample-ner"}, "window": {"sample-qa"}} {
		d := job.Dir(t.TempDir())
		b := batchOf(t, d, model, sets, 7, 8)
		do(t, b, d)
		for _, j := range b.Jobs {
			if j.Seed != 7 {
				continue
			}
			alone := job.Dir(t.TempDir())
			old := runtime.GOMAXPROCS(1)
			do(t, batchOf(t, alone, model, []string{j.Dataset}, 7), alone)
			runtime.GOMAXPROCS(old)
			if !bytes.Equal(predictions(t, d, j.ID), predictions(t, alone, j.ID)) {
				t.Errorf("%s on %s: the predictions differ with what else runs", model, j.Dataset)
			}
		}
	}
}

func TestEvents(t *testing.T) {
	d := job.Dir(t.TempDir())
	b := batchOf(t, d, "ngram", []string{"sample-sentiment"}, 4242)
	do(t, b, d)
	text, err := os.ReadFile(d.Events())
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for line := range bytes.Lines(text) {
		var e struct {
			Event string
			Job   job.ID
		}
		if err := json.Unmarshal(line, &e); err != nil || e.Job != b.Jobs[0].ID {
			t.Errorf("event %s: %v", line, err)
		}
		kinds = append(kinds, e.Event)
	}
	if got := slices.Compact(kinds); !slices.Equal(got, []string{"start", "eval", "job-done"}) {
		t.Errorf("events are %v", got)
	}
}

// failing runs one job on tiny data that f may spoil, with an extra algorithm.
func failing(t *testing.T, model string, extra algorithm, f func(b *job.Batch, data map[datasets.Split][]datasets.Row)) (job.Exit, job.TrainerOutcome, string) {
	t.Helper()
	d := job.Dir(t.TempDir())
	b := job.Batch{
		Version: job.ProtocolVersion, ID: "x", Model: job.Model{ID: Prefix + model},
		Datasets: []job.Dataset{{Name: "s", Task: "sentiment", Head: headSequence, Labels: []string{"negative", "neutral", "positive"}, Dir: "data/s"}},
		Jobs:     []job.Job{{ID: "j1", Dataset: "s", Seed: 1}},
	}
	data := map[datasets.Split][]datasets.Row{
		datasets.Train: {{ID: "1", Text: "god", Label: "positive"}, {ID: "2", Text: "dårlig", Label: "negative"}},
		datasets.Val:   {{ID: "3", Text: "god", Label: "positive"}}, datasets.Test: {{ID: "4", Text: "god"}},
	}
	f(&b, data)
	write(t, d, b, map[string]map[datasets.Split][]datasets.Row{"s": data})
	e := New(Options{}).(*executor)
	e.algorithms = append(e.algorithms, extra)
	h, err := e.Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	x, err := h.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(d.Log())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(d.Out(), "j1", "outcome.json")); errors.Is(err, fs.ErrNotExist) {
		return x, job.TrainerOutcome{}, string(log)
	}
	return x, outcome(t, d, "j1"), string(log)
}

func TestFailures(t *testing.T) {
	nothing := func(*job.Batch, map[datasets.Split][]datasets.Row) {}
	broken := func(err error) algorithm {
		return algorithm{"broken", 1, func(context.Context, *problem) (*result, error) { return nil, err }}
	}
	for _, c := range []struct {
		name, model string
		extra       algorithm
		spoil       func(b *job.Batch, data map[datasets.Split][]datasets.Row)
		code        int
		failure     job.Failure
		says        string
	}{
		{"tagger on sentiment", "tagger", algorithm{}, nothing, 0, job.FailureUnsupported, "token-classification"},
		{"window on sentiment", "window", algorithm{}, nothing, 0, job.FailureUnsupported, "question-answering"},
		{"unknown head", "ngram", algorithm{}, func(b *job.Batch, _ map[datasets.Split][]datasets.Row) { b.Datasets[0].Head = "speed" }, 0, job.FailureUnsupported, "speed"},
		{"unknown label", "ngram", algorithm{}, func(_ *job.Batch, d map[datasets.Split][]datasets.Row) { d[datasets.Train][1].Label = "mixed" }, 0, job.FailureInput, `"mixed"`},
		{"no training rows", "majority", algorithm{}, func(_ *job.Batch, d map[datasets.Split][]datasets.Row) { d[datasets.Train] = nil }, 0, job.FailureInput, "train.jsonl"},
		{"panic", "broken", algorithm{"broken", 1, func(context.Context, *problem) (*result, error) { panic("at the disco") }}, nothing, job.ExitTrainer, job.FailureTrainer, "disco"},
		{"not finite", "broken", algorithm{"broken", 1, func(_ context.Context, p *problem) (*result, error) {
			zero := 0.0
			return nil, p.validated(3, 1/zero)
		}}, nothing, 0, job.FailureNaN, "step 3"},
		{"disk", "broken", broken(&fs.PathError{Op: "write", Path: "x", Err: errors.New("no space")}), nothing, 0, job.FailureInfra, "no space"},
		{"other", "broken", broken(errors.New("odd")), nothing, job.ExitTrainer, job.FailureTrainer, "odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, o, log := failing(t, c.model, c.extra, c.spoil)
			if x.Code != c.code || o.State != job.Failed || o.Failure != c.failure || !strings.Contains(o.Message, c.says) || !strings.Contains(log, c.says) {
				t.Errorf("exit %+v, outcome %s %s %q, log %q; want exit %d, %s, and %q in message and log", x, o.State, o.Failure, o.Message, log, c.code, c.failure, c.says)
			}
		})
	}
	for name, spoil := range map[string]func(*job.Batch){
		"unknown model":    func(b *job.Batch) { b.Model.ID = "baseline:oracle" },
		"no baseline":      func(b *job.Batch) { b.Model.ID = "org/name" },
		"protocol":         func(b *job.Batch) { b.Version = 9 },
		"unknown data set": func(b *job.Batch) { b.Jobs[0].Dataset = "other" },
		"escaping job id":  func(b *job.Batch) { b.Jobs[0].ID = "../j1" },
	} {
		t.Run(name, func(t *testing.T) {
			x, _, log := failing(t, "majority", algorithm{}, func(b *job.Batch, _ map[datasets.Split][]datasets.Row) { spoil(b) })
			if x.Code != job.ExitInput || x.Detail == "" || !strings.Contains(log, "bad input") {
				t.Errorf("exit is %+v, log %q", x, log)
			}
		})
	}
}

// A missing file is bad input of the job that needs it, and of no other.
func TestMissingRows(t *testing.T) {
	d := job.Dir(t.TempDir())
	b := batchOf(t, d, "majority", []string{"sample-ner", "sample-qa"}, 1)
	if err := os.Remove(filepath.Join(d.In(), "data/sample-qa/val.jsonl")); err != nil {
		t.Fatal(err)
	}
	if x := do(t, b, d); x.Code != 0 {
		t.Errorf("exit is %+v", x)
	}
	if o := outcome(t, d, b.Jobs[0].ID); o.State != job.OK {
		t.Errorf("the job with all its rows: %+v", o)
	}
	if o := outcome(t, d, b.Jobs[1].ID); o.Failure != job.FailureInput || !strings.Contains(o.Message, "val.jsonl") {
		t.Errorf("the job without: %+v", o)
	}
}

func TestStopIsQuick(t *testing.T) {
	for model, set := range map[string]string{"ngram": "sample-qa", "tagger": "sample-ner", "window": "sample-qa"} {
		d := job.Dir(t.TempDir())
		seeds := make([]int, 40)
		for i := range seeds {
			seeds[i] = i
		}
		h, err := New(Options{}).Start(t.Context(), batchOf(t, d, model, []string{set}, seeds...), d)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // into the training, which takes seconds for all jobs
		begun := time.Now()
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("%s: Stop took %v", model, took)
		}
		if x, err := h.Wait(t.Context()); err != nil || !x.Stopped || x.Code != -1 {
			t.Errorf("%s: exit is %+v, %v", model, x, err)
		}
	}
}

func TestDigests(t *testing.T) {
	seen := map[string]string{}
	for _, n := range Names() {
		d := Digest(n)
		if len(d) != 64 || seen[d] != "" {
			t.Errorf("digest of %s is %q, that of %q", n, d, seen[d])
		}
		seen[d] = n
	}
	defer func() {
		if recover() == nil {
			t.Error("Digest of an unknown name must panic")
		}
	}()
	Digest("oracle")
}

func ExampleNames() {
	fmt.Println(Names())
	// Output: [majority ngram tagger window]
}
