package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bench/internal/atomicfile"
)

func aSpec() Spec {
	p, err := NewProtocol("paper", nil)
	if err != nil {
		panic(err)
	}
	return Spec{
		Schema: SpecSchema, Task: "ner", TaskVersion: 1, Dataset: "dane", DatasetDigest: "d1", Model: "org/name", ModelRevision: "c0ffee",
		Protocol: p.Name, Hyperparameters: p.Hyperparameters, Trainer: "t1", Seed: FirstSeed,
	}
}

// Every field of a spec, those of its hyper-parameters included, is part of
// the id: a change of any gives another job.
func TestIDDependsOnEveryField(t *testing.T) {
	base := aSpec().ID()
	if base != aSpec().ID() {
		t.Fatal("equal specs have different ids")
	}
	var walk func(path string, v reflect.Value, s *Spec)
	walk = func(path string, v reflect.Value, s *Spec) {
		for i := range v.NumField() {
			name := path + v.Type().Field(i).Name
			f := v.Field(i)
			if name == "Schema" { // set by ID itself
				continue
			}
			old := reflect.New(f.Type()).Elem()
			old.Set(f)
			switch f.Kind() {
			case reflect.String:
				f.SetString(f.String() + "x")
			case reflect.Int:
				f.SetInt(f.Int() + 1)
			case reflect.Float64:
				f.SetFloat(f.Float() + 0.125)
			case reflect.Bool:
				f.SetBool(!f.Bool())
			case reflect.Pointer:
				x := 0.5
				f.Set(reflect.ValueOf(&x))
			case reflect.Struct:
				walk(name+".", f, s)
				continue
			default:
				t.Fatalf("field %s is of kind %s: teach this test to change it", name, f.Kind())
			}
			if s.ID() == base {
				t.Errorf("changing %s does not change the id", name)
			}
			f.Set(old)
		}
	}
	s := aSpec()
	walk("", reflect.ValueOf(&s).Elem(), &s)
	if s.ID() != base {
		t.Error("the test did not put back what it changed")
	}
}

// The id of one spec, so that a change of its canonical form cannot go unseen:
// it would make every finished job run again.
func TestIDIsStable(t *testing.T) {
	// printf %s '{"schema":1,"task":"ner",…,"seed":4242}' | sha256sum, over the JSON that a failure prints
	const want = "e84cf3f7e046bd3b1b173d7e1228fa8b979cc991e35cb6df2904ac17ed3906fe"
	b, _ := json.Marshal(aSpec())
	if got := aSpec().ID(); got != want {
		t.Errorf("id %s, want %s; canonical form:\n%s", got, want, b)
	}
}

func TestBatchIDIgnoresOrder(t *testing.T) {
	if BatchID([]ID{"a", "b"}) != BatchID([]ID{"b", "a"}) {
		t.Error("the order of jobs changes the batch's id")
	}
	if BatchID([]ID{"a", "b"}) == BatchID([]ID{"ab"}) {
		t.Error("different jobs have one batch id")
	}
}

func TestProtocolNames(t *testing.T) {
	for _, c := range []struct {
		name      string
		overrides []string
		want      string
	}{
		{"paper", nil, "paper"},
		{"paper", []string{"learning_rate=1e-3"}, "paper{learning_rate=0.001}"},
		{"paper", []string{"learning_rate=0.0010"}, "paper{learning_rate=0.001}"},
		{"paper", []string{"learning_rate=2e-5", "batch_size=32"}, "paper"}, // nothing changes
		{"smoke", []string{"max_steps=30", "dropout=0"}, "smoke{dropout=0,max_steps=30}"},
		{"scandeval-v7", []string{"precision=bf16"}, "scandeval-v7{precision=bf16}"},
	} {
		p, err := NewProtocol(c.name, c.overrides)
		if err != nil {
			t.Errorf("%s %v: %v", c.name, c.overrides, err)
		} else if p.Name != c.want {
			t.Errorf("%s %v is called %s, want %s", c.name, c.overrides, p.Name, c.want)
		}
	}
}

func TestProtocolReportsAllProblems(t *testing.T) {
	_, err := NewProtocol("paper", []string{"learning_rate=fast", "steps=3", "batch_size=0", "batch_size=4", "nonsense"})
	if !errors.Is(err, ErrProtocol) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"learning_rate=fast", `no hyper-parameter "steps"`, "batch_size=0 must be ≥ 1", "batch_size is set twice", `"nonsense" is not of the form`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if _, err := NewProtocol("papper", nil); err == nil || !strings.Contains(err.Error(), "scandeval-v7") {
		t.Errorf("an unknown protocol does not list the known ones: %v", err)
	}
}

// Values from facts §1.1 of the reference system, and the paper's patience.
func TestProtocolValues(t *testing.T) {
	ps := Protocols()
	paper, v7, smoke := ps[0], ps[1], ps[2]
	if h := paper.Hyperparameters; h.LearningRate != 2e-5 || h.MaxSteps != 10000 || h.WarmupRatio != 0.01 || h.BatchSize != 32 || h.EvalSteps != 30 || h.PatienceSteps != 90 || h.MaxGradNorm != 1 || h.Precision != "fp32" {
		t.Errorf("paper: %+v", h)
	}
	if v7.Hyperparameters.PatienceSteps != 60 || !v7.Scoring.CollapseIDs || !v7.Scoring.DropTruncated {
		t.Errorf("scandeval-v7: %+v", v7)
	}
	if smoke.Hyperparameters.LearningRate != 1e-3 || smoke.Hyperparameters.MaxSteps != 1200 {
		t.Errorf("smoke: %+v", smoke.Hyperparameters)
	}
}

func TestReadPredictionsAligns(t *testing.T) {
	in := `{"id":"b","label":"x"}` + "\n" + `{"id":"a","label":"y"}` + "\n"
	got, err := ReadPredictions(strings.NewReader(in), "p", []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	if string(got[0]) != `{"id":"a","label":"y"}` || string(got[1]) != `{"id":"b","label":"x"}` {
		t.Errorf("got %s", got)
	}
}

func TestReadPredictionsNamesWhatDoesNotMatch(t *testing.T) {
	in := `{"id":"a"}` + "\n" + `{"id":"a"}` + "\n" + `{"id":"z"}` + "\n"
	_, err := ReadPredictions(strings.NewReader(in), "p", []string{"a", "b", "c"})
	var e *AlignError
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	want := AlignError{Missing: []string{"b", "c"}, Extra: []string{"z"}, Doubled: []string{"a"}, NMissing: 2, NExtra: 1, NDoubled: 1}
	if !reflect.DeepEqual(*e, want) {
		t.Errorf("got %+v", *e)
	}
}

func TestReadPredictionsRefusesGarbage(t *testing.T) {
	for name, in := range map[string]string{
		"torn":    `{"id":"a"`,
		"no id":   `{"label":"x"}` + "\n",
		"array":   `[1]` + "\n",
		"number":  `{"id":3}` + "\n",
		"endless": `{"id":"a","label":"` + strings.Repeat("x", MaxPredictionLine) + `"}` + "\n",
	} {
		if _, err := ReadPredictions(strings.NewReader(in), "p", []string{"a"}); err == nil || !strings.HasPrefix(err.Error(), "p:1:") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestReadPredictionsAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfDistinct(rapid.String(), func(s string) string { return s }).Draw(t, "ids")
		var b bytes.Buffer
		for _, id := range rapid.Permutation(ids).Draw(t, "order") {
			line, _ := json.Marshal(map[string]string{"id": id})
			b.Write(append(line, '\n'))
		}
		got, err := ReadPredictions(&b, "p", ids)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ids {
			var row struct{ ID string }
			if err := json.Unmarshal(got[i], &row); err != nil {
				t.Fatal(err)
			}
			if row.ID != ids[i] {
				t.Fatalf("row %d is %q, want %q", i, row.ID, ids[i])
			}
		}
	})
}

func TestStoreKeepsJobs(t *testing.T) {
	s := Store{Home: t.TempDir()}
	spec := aSpec()
	if _, ended, err := s.Outcome(spec.ID()); ended || err != nil {
		t.Fatalf("a job that never ran: ended %v, %v", ended, err)
	}
	lines := []json.RawMessage{json.RawMessage(`{"id":"1","text":"ð"}`), json.RawMessage(`{"id":"2","text":""}`)}
	o := Outcome{TrainerOutcome: TrainerOutcome{State: OK, Steps: 3}}
	for range 2 { // saving twice is saving once
		if err := s.Save(spec, o, lines, []byte("log\n")); err != nil {
			t.Fatal(err)
		}
	}
	got, ended, err := s.Outcome(spec.ID())
	if err != nil || !ended || got.Steps != 3 || got.Job != spec.ID() {
		t.Fatalf("got %+v, %v, %v", got, ended, err)
	}
	back, err := s.Predictions(spec.ID(), []string{"1", "2"})
	if err != nil || !reflect.DeepEqual(back, lines) {
		t.Fatalf("got %s, %v", back, err)
	}
	if again, err := s.Spec(spec.ID()); err != nil || again.ID() != spec.ID() {
		t.Fatalf("got %+v, %v", again, err)
	}
}

// A crash between any two writes leaves a job that has not ended: outcome.json
// comes last.
func TestStoreWithoutOutcomeHasNotEnded(t *testing.T) {
	s := Store{Home: t.TempDir()}
	spec := aSpec()
	if err := s.Save(spec, Outcome{TrainerOutcome: TrainerOutcome{State: OK}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.Dir(spec.ID()), "outcome.json")); err != nil {
		t.Fatal(err)
	}
	if _, ended, err := s.Outcome(spec.ID()); ended || err != nil {
		t.Errorf("ended %v, %v", ended, err)
	}
}

// What a machine that lost its power leaves of a job is not a job that has ended,
// and is replaced when the job is saved again.
func TestStoreTornByPowerLoss(t *testing.T) {
	home := t.TempDir()
	s := Store{Home: home, Disk: &atomicfile.Group{Dir: home}}
	spec := aSpec()
	o := Outcome{TrainerOutcome: TrainerOutcome{State: OK}}
	lines := []json.RawMessage{json.RawMessage(`{"id":"1"}`)}
	for _, name := range []string{"outcome.json", "predictions.jsonl.zst"} {
		if err := s.Save(spec, o, lines, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		if _, ended, err := s.Outcome(spec.ID()); !ended || err != nil {
			t.Fatalf("saved, but ended %v, %v", ended, err)
		}
		if err := os.Truncate(filepath.Join(s.Dir(spec.ID()), name), 0); err != nil {
			t.Fatal(err)
		}
		if _, ended, err := s.Outcome(spec.ID()); ended || err != nil {
			t.Errorf("with an empty %s: ended %v, %v", name, ended, err)
		}
	}
	if err := s.Save(spec, o, lines, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Predictions(spec.ID(), []string{"1"}); err != nil || len(got) != 1 {
		t.Errorf("saved once more: %s, %v", got, err)
	}

	// What a program left that was killed while it saved is no job, and goes.
	half := filepath.Join(filepath.Dir(s.Dir(spec.ID())), ".half.1-1.tmp")
	if err := os.Mkdir(half, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := s.Clean(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Error("half a job is left:", err)
	}
	if _, ended, err := s.Outcome(spec.ID()); !ended || err != nil {
		t.Errorf("a whole job was cleaned away: %v", err)
	}
}

func TestStoreRefusesForeignOutcome(t *testing.T) {
	s := Store{Home: t.TempDir()}
	spec, other := aSpec(), aSpec()
	other.Seed++
	if err := s.Save(other, Outcome{TrainerOutcome: TrainerOutcome{State: OK}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(s.Dir(spec.ID()), 0o777); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(filepath.Join(s.Dir(other.ID()), "outcome.json"))
	if err := os.WriteFile(filepath.Join(s.Dir(spec.ID()), "outcome.json"), b, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Outcome(spec.ID()); err == nil || !strings.Contains(err.Error(), string(other.ID())) {
		t.Errorf("got %v", err)
	}
}

// Equal predictions give equal files: a second run can be compared byte by byte.
func TestCompressIsRepeatable(t *testing.T) {
	lines := make([]json.RawMessage, 5000)
	for i := range lines {
		lines[i] = json.RawMessage(`{"id":"` + strings.Repeat("æ", i%50) + `"}`)
	}
	var a, b bytes.Buffer
	if err := errors.Join(compress(&a, lines), compress(&b, lines)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two runs of compress differ")
	}
}

func TestAccount(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	took := map[string]float64{"load": 1, "tokenize": 2, "train": 90, "predict": 7}
	for name, c := range map[string]struct {
		o       Outcome
		seconds float64 // of GPUs
		want    *Energy
	}{
		"processor":         {Outcome{TrainerOutcome: TrainerOutcome{Device: "cpu", Seconds: took}, GPUs: []string{"GPU-1"}}, 0, &Energy{0, EnergyNone}},
		"measured":          {Outcome{TrainerOutcome: TrainerOutcome{Device: "cuda", Seconds: took, Energy: &Energy{12345, EnergyNVML}}, GPUs: []string{"GPU-1"}}, 100, &Energy{12345, EnergyNVML}},
		"measured, shared":  {Outcome{TrainerOutcome: TrainerOutcome{Device: "cuda", Seconds: took, Energy: &Energy{12000, EnergyPower}}, GPUs: []string{"GPU-1"}, GPUShare: 0.25}, 25, &Energy{3000, EnergyPower}},
		"estimated":         {Outcome{TrainerOutcome: TrainerOutcome{Device: "cuda", Seconds: took}, GPUs: []string{"GPU-1", "GPU-2"}}, 200, &Energy{60000, EnergyEstimate}},
		"GPU not looked up": {Outcome{TrainerOutcome: TrainerOutcome{Device: "cuda", Seconds: took}}, 100, &Energy{30000, EnergyEstimate}},
		"killed with a GPU": {Outcome{GPUs: []string{"GPU-1"}, GPUShare: 0.5, Started: begin, Finished: begin.Add(time.Minute)}, 30, &Energy{9000, EnergyEstimate}},
		"killed without":    {Outcome{Started: begin, Finished: begin.Add(time.Minute)}, 0, nil},
	} {
		if got := c.o.GPUSeconds(); got != c.seconds {
			t.Errorf("%s: %v GPU seconds, want %v", name, got, c.seconds)
		}
		c.o.Account(300)
		if (c.o.Energy == nil) != (c.want == nil) || c.want != nil && *c.o.Energy != *c.want {
			t.Errorf("%s: %+v, want %+v", name, c.o.Energy, c.want)
		}
	}
}

func TestEnergyValid(t *testing.T) {
	for _, e := range []Energy{{-1, EnergyNVML}, {1e13, EnergyPower}, {1, EnergyNone}, {1, EnergyEstimate}, {1, "guess"}, {math.Inf(1), EnergyNVML}, {math.NaN(), EnergyNVML}} {
		if e.Valid() {
			t.Errorf("%+v is taken from a trainer", e)
		}
	}
	for _, e := range []Energy{{0, EnergyNone}, {0, EnergyNVML}, {1e6, EnergyPower}} {
		if !e.Valid() {
			t.Errorf("%+v is refused", e)
		}
	}
}
