package results_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"bench/scoring"
	"bench/scoring/results"
)

var mcc = []scoring.Metric{{Name: "mcc", Lo: -1, Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "macro_f1", Hi: 1, Scale: 100}}

// record makes a record with one replicate for each MCC.
func record(model string, scores ...float64) results.Record {
	r := results.Record{
		Bench:           "0.1.0",
		Finished:        time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC),
		Model:           results.Model{ID: model, Revision: "c0ffee", Kind: "hub", Parameters: 90057, MaxLength: 128, Vocabulary: 220},
		Dataset:         results.Dataset{Name: "scala-da", Digest: "d1", Task: "acceptability", TaskVersion: 1, Languages: []string{"da"}, TestRows: 2048},
		Protocol:        "paper",
		Hyperparameters: json.RawMessage(`{"learning_rate":2e-5}`),
		Trainer:         "t1",
		Versions:        map[string]string{"torch": "2.15.0"},
	}
	for i, x := range scores {
		r.Replicates = append(r.Replicates, results.Replicate{
			Seed: 4242 + i, Job: fmt.Sprintf("job%d", i), Scores: scoring.Scores{"mcc": scoring.Num(x), "macro_f1": scoring.Num(x/2 + 0.5)},
			Steps: 330, BestStep: 270, MicroBatch: 16, Accumulation: 2, Precision: "fp32", Device: "cpu", DeviceName: "a processor", Executor: "process", Host: "here",
			Seconds: results.Seconds{Load: 1, Tokenize: 0.5, Train: 8, Predict: 0.5}, PeakMemoryMB: results.Memory{Host: 512}, Attempt: 1,
		})
	}
	r.Summarize(mcc)
	return r
}

func TestSummarize(t *testing.T) {
	r := record("a/b", .053, -.004, 0, .501, .577, .541, .513, .396, .500, .542)
	got := r.Summary["mcc"]
	// See scoring/stats for where these come from; ×100.
	if got.N != 10 || math.Abs(got.Mean.X-36.19) > 1e-12 || math.Abs(got.Median.X-50.05) > 1e-12 ||
		math.Abs(got.HalfWidthT.X-17.41630704042233) > 1e-11 || math.Abs(got.HalfWidthZ.X-15.090004514541702) > 1e-12 {
		t.Errorf("summary of MCC is %+v", got)
	}
	if !slices.Equal(r.Collapsed, []int{4243, 4244}) || !slices.Equal(got.Warnings, []string{"2 of 10 seeds collapsed (4243, 4244): look at the median too"}) {
		t.Errorf("collapsed %v, warnings %q", r.Collapsed, got.Warnings)
	}
	if len(r.Summary["macro_f1"].Warnings) > 0 || len(r.Summary) != 2 {
		t.Errorf("summaries are %v", r.Summary)
	}
	if r.WallSeconds != 100 || r.GPUSeconds != 0 || r.EnergyKWh != nil || r.CO2eKg != nil {
		t.Errorf("on a CPU: %v s, %v GPU s, %v kWh, %v kg", r.WallSeconds, r.GPUSeconds, r.EnergyKWh, r.CO2eKg)
	}
	for i := range r.Replicates {
		r.Replicates[i].Device, r.Replicates[i].GPUs = "cuda", 2
	}
	slices.Reverse(r.Replicates)
	r.Summarize(mcc)
	// 100 s on two GPUs: 200 s × 250 W = 50 kJ = 0.01388… kWh.
	if r.GPUSeconds != 200 || math.Abs(*r.EnergyKWh-50.0/3600) > 1e-15 || math.Abs(*r.CO2eKg-8.0/3600) > 1e-15 {
		t.Errorf("on two GPUs: %v GPU s, %v kWh, %v kg", r.GPUSeconds, *r.EnergyKWh, *r.CO2eKg)
	}
	if diff := cmp.Diff(r.Summary["mcc"], got); diff != "" || r.Replicates[0].Seed != 4242 {
		t.Errorf("the order of replicates matters: %s", diff)
	}
}

// Energy that was measured is taken as it was; the rest is 250 W, or what is
// assumed for it later.
func TestUsage(t *testing.T) {
	r := record("a/b", .5, .5, .5, .5)
	for i := range r.Replicates { // 10 s each
		r.Replicates[i].Device, r.Replicates[i].GPUs = "cuda", 1
	}
	r.Replicates[0].Energy = &results.Energy{Joules: 3000, Source: "nvml"}
	r.Replicates[1].Energy = &results.Energy{Joules: 4000, Source: "estimate"} // on a card of 400 W
	r.Replicates[2].GPUShare = 0.5                                             // an old program's would have neither
	r.Replicates[3].Device, r.Replicates[3].Energy = "cpu", &results.Energy{Source: "none"}
	r.Summarize(mcc)
	// 3 kJ + 4 kJ + 5 s × 250 W
	if r.GPUSeconds != 25 || math.Abs(*r.EnergyKWh-8250/3.6e6) > 1e-15 || math.Abs(*r.CO2eKg-8250/3.6e6*.16) > 1e-15 || r.EnergySource != "estimate | nvml" {
		t.Errorf("%v GPU s, %v kWh (%s), %v kg", r.GPUSeconds, *r.EnergyKWh, r.EnergySource, *r.CO2eKg)
	}
	var u results.Usage
	for _, p := range r.Replicates {
		u.Add(p.Usage())
	}
	got := results.Rates{WattsPerGPU: 700, CO2eKgPerKWh: 1, PricePerGPUHour: 36}.Cost(u)
	// 3 kJ + 15 s × 700 W; 25 s at 36 an hour
	if want := (results.Cost{GPUHours: 25. / 3600, KWh: 13500 / 3.6e6, CO2eKg: 13500 / 3.6e6, Price: .25}); math.Abs(got.KWh-want.KWh) > 1e-15 || got.CO2eKg != got.KWh || got.GPUHours != want.GPUHours || math.Abs(got.Price-want.Price) > 1e-12 {
		t.Errorf("at other rates %+v, want %+v", got, want)
	}
	if u.WallSeconds != 40 || u.EstimatedSeconds != 15 {
		t.Errorf("usage %+v", u)
	}
}

func TestSummarizeFew(t *testing.T) {
	one := record("a/b", 0.5).Summary["mcc"]
	if one.Mean != scoring.Num(50) || one.HalfWidthT.Undefined == "" || one.HalfWidthZ.Undefined == "" || len(one.Warnings) != 1 {
		t.Errorf("one replicate: %+v", one)
	}
	r := record("a/b")
	r.Failures = []results.Failure{{Seed: 4242, Job: "j", Failure: "oom", Message: "out of memory at micro-batch 1"}}
	r.Summarize(mcc)
	if s := r.Summary["mcc"]; s.N != 0 || s.Mean.Undefined == "" {
		t.Errorf("no replicate: %+v", s)
	}
	if err := r.Validate(); err != nil {
		t.Errorf("a record of failures only: %v", err)
	}
}

func TestMergeVersions(t *testing.T) {
	got := results.MergeVersions(map[string]string{"torch": "2.15.0", "python": "3.12"}, map[string]string{"torch": "2.2.2"}, nil, map[string]string{"torch": "2.15.0"})
	if diff := cmp.Diff(map[string]string{"torch": "2.15.0 | 2.2.2", "python": "3.12"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		says  string
		spoil func(*results.Record)
	}{
		{"no model.id", func(r *results.Record) { r.Model.ID = "" }},
		{"no dataset.name", func(r *results.Record) { r.Dataset.Name = "" }},
		{"no dataset.task", func(r *results.Record) { r.Dataset.Task = "" }},
		{"no protocol", func(r *results.Record) { r.Protocol = "" }},
		{"no time", func(r *results.Record) { r.Finished = time.Time{} }},
		{"neither replicates nor failures", func(r *results.Record) { r.Replicates = nil }},
		{"seed 4242 is there twice", func(r *results.Record) { r.Replicates[1].Seed = 4242 }},
		{"seed 4243 is there twice", func(r *results.Record) { r.Failures = []results.Failure{{Seed: 4243, Failure: "nan"}} }},
		{"no kind of failure", func(r *results.Record) { r.Failures = []results.Failure{{Seed: 1}} }},
		{"seed 4242 has no scores", func(r *results.Record) { r.Replicates[0].Scores = nil }},
		{"collapsed seed 7", func(r *results.Record) { r.Collapsed = []int{7} }},
		{"not a JSON object", func(r *results.Record) { r.Hyperparameters = json.RawMessage(`[1]`) }},
		{"not a JSON object", func(r *results.Record) { r.Hyperparameters = json.RawMessage(`{`) }},
		{"NaN", func(r *results.Record) { r.WallSeconds = math.NaN() }},
		{"NaN", func(r *results.Record) { r.Replicates[0].Scores["mcc"] = scoring.Value{X: math.NaN()} }},
		{"+Inf", func(r *results.Record) { r.Replicates[0].Seconds.Train = math.Inf(1) }},
	} {
		r := record("a/b", 0.5, 0.6)
		c.spoil(&r)
		l := results.Open(t.TempDir())
		err := l.Append(r)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want an error about %q, got %v", c.says, err)
		}
		if _, err := os.Stat(l.Path()); err == nil {
			t.Errorf("%s: something was written", c.says)
		}
	}
}

// drawRecord makes any valid record.
func drawRecord(t *rapid.T) results.Record {
	r := record(rapid.StringMatching(`[a-zæøå<&>" ]{1,12}`).Draw(t, "model"))
	value := rapid.Custom(func(t *rapid.T) scoring.Value {
		if why := rapid.SampledFrom([]string{"", "", "no rows"}).Draw(t, "undefined"); why != "" {
			return scoring.Value{Undefined: why}
		}
		return scoring.Num(rapid.Float64().Draw(t, "score"))
	})
	for i := range rapid.IntRange(1, 4).Draw(t, "replicates") {
		r.Replicates = append(r.Replicates, results.Replicate{Seed: i, Scores: scoring.Scores{"mcc": value.Draw(t, "mcc"), "macro_f1": value.Draw(t, "macro F1")},
			Device: rapid.SampledFrom([]string{"cpu", "cuda"}).Draw(t, "device"), GPUs: 1, Seconds: results.Seconds{Train: rapid.Float64Range(0, 1e6).Draw(t, "seconds")}})
	}
	if rapid.Bool().Draw(t, "failed") {
		r.Failures = []results.Failure{{Seed: 99, Failure: "nan", Message: rapid.String().Draw(t, "message")}}
	}
	r.Finished = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "finished"), 0).UTC()
	r.Summarize(mcc)
	return r
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		l := results.At(filepath.Join(dir, fmt.Sprint(n), "r.jsonl"))
		var want []results.Record
		for range rapid.IntRange(1, 3).Draw(rt, "records") {
			r := drawRecord(rt)
			if err := l.Append(r); err != nil {
				rt.Fatal(err)
			}
			r.Schema = results.Schema
			want = append(want, r)
		}
		got, warnings, err := l.Read()
		if err != nil || len(warnings) > 0 {
			rt.Fatalf("%v, %v", err, warnings)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestBytesAreRepeated(t *testing.T) {
	var first []byte
	for range 5 {
		l := results.Open(t.TempDir())
		r := record("a/<b>", 0.5, 0.6)
		r.Finished = r.Finished.In(time.FixedZone("", 3600)).Add(123 * time.Millisecond)
		if err := l.Append(r); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(l.Path())
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if string(b) != string(first) {
			t.Errorf("%s\nand\n%s", first, b)
		}
	}
	for _, want := range []string{`"schema":1,`, `"finished":"2026-11-20T08:30:00Z"`, `"id":"a/<b>"`, `"failures":[]`, `"collapsed":[]`, `"hyperparameters":{"learning_rate":2e-5}`} {
		if !strings.Contains(string(first), want) {
			t.Errorf("no %s in %s", want, first)
		}
	}
}

func TestNewest(t *testing.T) {
	at := func(r results.Record, hour int) results.Record {
		r.Finished = time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC)
		return r
	}
	old, fresh := at(record("a/b", 0.5, 0.6), 8), at(record("a/b", 0.5, 0.6), 9)
	fresh.Bench = "0.2.0" // not part of the identity
	few := at(record("a/b", 0.5), 10)
	other := at(record("c/d", 0.1), 7)
	kept, superseded := results.Newest([]results.Record{old, other, few, fresh})
	if diff := cmp.Diff([]results.Record{other, fresh}, kept); diff != "" {
		t.Errorf("kept: %s", diff)
	}
	if diff := cmp.Diff([]results.Record{old, few}, superseded); diff != "" {
		t.Errorf("superseded: %s", diff)
	}
	if kept, _ := results.Newest([]results.Record{fresh, fresh, old}); len(kept) != 1 || kept[0].Bench != "0.2.0" {
		t.Errorf("of equal records: %v", kept)
	}
	for name, change := range map[string]func(*results.Record){
		"model":           func(r *results.Record) { r.Model.ID = "x" },
		"revision":        func(r *results.Record) { r.Model.Revision = "x" },
		"remote code":     func(r *results.Record) { r.RemoteCode = true },
		"data set":        func(r *results.Record) { r.Dataset.Name = "x" },
		"digest":          func(r *results.Record) { r.Dataset.Digest = "x" },
		"task version":    func(r *results.Record) { r.Dataset.TaskVersion = 2 },
		"protocol":        func(r *results.Record) { r.Protocol = "smoke" },
		"hyperparameters": func(r *results.Record) { r.Hyperparameters = json.RawMessage(`{"learning_rate":1e-3}`) },
		"trainer":         func(r *results.Record) { r.Trainer = "x" },
	} {
		r := at(record("a/b", 0.5, 0.6), 11)
		change(&r)
		if kept, _ := results.Newest([]results.Record{old, r}); len(kept) != 2 {
			t.Errorf("a record of another %s supersedes", name)
		}
	}
	spaced := at(record("a/b", 0.5, 0.6), 11)
	spaced.Hyperparameters = json.RawMessage(`{ "learning_rate": 2e-5 }`)
	if spaced.Identity() != old.Identity() {
		t.Error("white space in hyper-parameters matters")
	}
}

func TestLinesThatAreNoRecords(t *testing.T) {
	l := results.Open(t.TempDir())
	if err := l.Append(record("a/b", 0.5)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	good := strings.TrimSuffix(string(b), "\n")
	for _, c := range []struct{ line, says string }{
		{strings.Replace(good, `"schema":1`, `"schema":2`, 1), "schema 2, this bench reads 1"},
		{strings.Replace(good, `"schema":1,`, ``, 1), "no schema number"},
		{strings.Replace(good, `"trainer"`, `"coach"`, 1), "unknown field"},
		{strings.Replace(good, `"mcc":0.5`, `"mcc":null`, 1), "neither a number nor"},
		{strings.Replace(good, `"id":"a/b"`, `"id":""`, 1), "no model.id"},
		{`[]`, "cannot unmarshal array"},
		{`7`, "cannot unmarshal number"},
	} {
		if err := os.WriteFile(l.Path(), []byte(good+"\n\n"+c.line+"\n"+good+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		whole, bad := 0, 0
		for _, err := range l.All() {
			var le *results.LineError
			switch {
			case err == nil:
				whole++
			case errors.As(err, &le):
				bad++
				if le.Line != 3 || !strings.Contains(err.Error(), "results.jsonl:3: ") || !strings.Contains(err.Error(), c.says) {
					t.Errorf("want line 3 and %q, got %v", c.says, err)
				}
			default:
				t.Error(err)
			}
		}
		if whole != 2 || bad != 1 {
			t.Errorf("%s: %d records and %d errors", c.says, whole, bad)
		}
		if _, _, err := l.Read(); err == nil {
			t.Errorf("%s: Read has no error", c.says)
		}
	}
}

func TestNoLog(t *testing.T) {
	if rs, warnings, err := results.Open(t.TempDir()).Read(); err != nil || len(rs)+len(warnings) > 0 {
		t.Errorf("a log that does not exist: %v, %v, %v", rs, warnings, err)
	}
	if _, _, err := results.At(t.TempDir()).Read(); err == nil {
		t.Error("a folder was read as a log")
	}
}
