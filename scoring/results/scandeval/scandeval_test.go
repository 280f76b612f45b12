package scandeval_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bench/scoring"
	"bench/scoring/results"
	"bench/scoring/results/scandeval"
)

func importer(t testing.TB, there ...results.Record) *scandeval.Importer {
	t.Helper()
	im, err := scandeval.NewImporter(there, func(name string) bool { return name != "never-heard-of" })
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func read(t testing.TB, text string) *scandeval.Importer {
	t.Helper()
	im := importer(t)
	if err := im.Read("file.jsonl", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return im
}

// Lines of every layout, written for this test.
const (
	v6  = `{"dataset": "scala-da", "task": "linguistic-acceptability", "dataset_languages": ["da"], "model": "org/m", "results": {"raw": {"test": [{"test_loss": 0.5, "test_mcc": 0.5, "test_macro_f1": 0.7}, {"test_loss": 0.4, "test_mcc": 0.7, "test_macro_f1": 0.8}]}, "total": {"test_mcc": 60.0, "test_mcc_se": 19.6, "test_macro_f1": 75.0, "test_macro_f1_se": 9.8}}, "num_model_parameters": 1000, "max_sequence_length": 512, "vocabulary_size": 99}`
	v9  = `{"dataset": "scandiqa-da", "task": "question-answering", "dataset_languages": ["da"], "model": "org/m@abc", "results": {"raw": {"test": [{"test_em": 12.5, "test_f1": 33.3}], "train": [{"train_em": 50.0}]}, "total": {"test_em": 12.5, "test_em_se": NaN, "test_f1": 33.3, "test_f1_se": NaN}}, "num_model_parameters": -1, "max_sequence_length": 1000000000000000019884624838656, "vocabulary_size": 99, "few_shot": true, "validation_split": false}`
	v12 = `{"dataset": "norne-nb", "task": "named-entity-recognition", "dataset_languages": ["nb"], "model": "org/gen (few-shot, val)", "results": {"raw": {"test": [{"test_micro_f1": 0.25, "test_micro_f1_no_misc": 0.5}, {"test_micro_f1": NaN, "test_micro_f1_no_misc": 0.5}]}, "total": {"test_micro_f1": NaN, "test_micro_f1_se": NaN, "test_micro_f1_no_misc": 50.0, "test_micro_f1_no_misc_se": 0.0}}, "num_model_parameters": 7, "max_sequence_length": 8, "vocabulary_size": 9, "merge": false, "generative": true, "few_shot": false, "validation_split": true, "scandeval_version": "12.6.1"}`
	v15 = `{"dataset": "never-heard-of", "task": "logic", "languages": ["is"], "model": "org/m#thinking", "results": {"raw": [{"test_accuracy": 0.5}, {"test_accuracy": 0.75}], "total": {"test_accuracy": 62.5, "test_accuracy_se": 24.5}}, "num_model_parameters": 7, "max_sequence_length": 8, "vocabulary_size": 9, "generative": true, "generative_type": "reasoning", "few_shot": true, "validation_split": null, "euroeval_version": "15.1.0"}`
	v17 = `{"schema_version": "0.2.1", "evaluation_id": "swerec/org/m/1", "evaluation_timestamp": "2026-03-01T10:00:00+00:00", "retrieved_timestamp": "1", "source_metadata": {"source_name": "EuroEval"}, "model_info": {"name": "org/m@def#x", "id": "org/m@def#x", "additional_details": {"num_model_parameters": "1000", "max_sequence_length": "512", "vocabulary_size": "99", "merge": "false", "generative": "false", "generative_type": null}}, "eval_library": {"name": "euroeval", "version": "17.1.0", "additional_details": {"dataset": "swerec", "languages": "[\"sv\"]", "task": "sentiment-classification", "few_shot": null, "validation_split": "true", "raw_results": "[{\"test_mcc\": 0.5, \"test_macro_f1\": NaN, \"failed_instances\": []}, {\"test_mcc\": 0.7, \"test_macro_f1\": 0.8, \"failed_instances\": []}]"}}, "evaluation_results": [{"evaluation_name": "test_mcc", "source_data": {"dataset_name": "swerec"}, "score_details": {"score": 60.0}}]}`
)

func TestLayouts(t *testing.T) {
	im := read(t, strings.Join([]string{v6, v9, v12, v15, v17}, "\n\n"))
	r := im.Report()
	if r.New != 5 || r.Records != 5 || r.Blank != 4 || len(r.Torn)+len(r.Unreadable)+len(r.Duplicates)+len(r.Repeats) != 0 {
		t.Fatalf("%+v", r)
	}
	type view struct {
		Model, Revision, Dataset, Task, Protocol, Format, Version string
		Parameters                                                int64
		MaxLength, N                                              int
		First                                                     scoring.Scores
	}
	var got []view
	for _, r := range im.Records() {
		got = append(got, view{r.Model.ID, r.Model.Revision, r.Dataset.Name, r.Dataset.Task, r.Protocol, r.Imported.Format, r.Imported.Version, r.Model.Parameters, r.Model.MaxLength, len(r.Replicates), r.Replicates[0].Scores})
	}
	want := []view{
		{"org/m", "", "scala-da", "acceptability", "scandeval:v5-v8", "scandeval", "", 1000, 512, 2, scoring.Scores{"mcc": scoring.Num(.5), "macro_f1": scoring.Num(.7)}},
		{"org/m", "abc", "scandiqa-da", "qa", "scandeval:v9", "scandeval", "", 0, 0, 1, scoring.Scores{"em": scoring.Num(.125), "f1": scoring.Num(.333)}},
		{"org/gen", "", "norne-nb", "ner", "scandeval:v12{split=val,shots=0}", "scandeval", "12.6.1", 7, 8, 2, scoring.Scores{"micro_f1": scoring.Num(.25), "micro_f1_no_misc": scoring.Num(.5)}},
		{"org/m#thinking", "", "never-heard-of", "logic", "euroeval:v15", "scandeval-flat", "15.1.0", 7, 8, 2, scoring.Scores{"accuracy": scoring.Num(.5)}},
		{"org/m#x", "def", "swerec", "sentiment", "euroeval:v17{split=val}", "eee", "17.1.0", 1000, 512, 2, scoring.Scores{"mcc": scoring.Num(.5), "macro_f1": {Undefined: "NaN in the source"}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if r.NaN != 5 {
		t.Errorf("%d NaN, want 5 (those inside raw_results are read with them)", r.NaN)
	}
	if d := cmp.Diff(map[string]int{"never-heard-of": 1}, r.Datasets); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]int{"logic": 1}, r.Tasks); d != "" {
		t.Error(d)
	}
	if s := im.Records()[3].Summary["accuracy"]; s.Mean.X != 62.5 {
		t.Errorf("a share that bench does not know is shown as %v, want 62.5 as its total has it", s.Mean)
	}
	// The total of the third line says NaN for a metric with one value of two.
	if len(r.Odd) == 0 || !strings.Contains(r.Odd[0].Why, "test_micro_f1 is") {
		t.Errorf("odd: %v", r.Odd)
	}
}

// Old leaderboard files say in the model's name how it was evaluated.
func TestRemarks(t *testing.T) {
	for name, want := range map[string]string{
		"org/m": "scandeval:v5-v8", "org/m (val)": "scandeval:v5-v8{split=val}", "org/m (zero-shot, val)": "scandeval:v5-v8{split=val,shots=0}", "org/m (few-shot)": "scandeval:v5-v8",
	} {
		got := read(t, strings.Replace(v6, `"org/m"`, `"`+name+`"`, 1)).Records()[0]
		if got.Protocol != want || got.Model.ID != "org/m" || got.Imported.Model != name {
			t.Errorf("%s: %s of %s", name, got.Protocol, got.Model.ID)
		}
	}
}

// TestNothingDropped: whatever a file holds is counted under one kind.
func TestNothingDropped(t *testing.T) {
	other := strings.Replace(v6, `"test_mcc": 0.5,`, `"test_mcc": 0.25,`, 1)
	lines := []string{
		v6, "", v6, // a duplicate
		other,    // the same thing with other scores, and a total that does not fit
		v9[:200], // torn
		v9 + v12, // a lost line end
		`{"a": 1}`, "null", "7",
		strings.Replace(v6, `"test": [`, `"train": [`, 1), // no raw scores
		strings.Replace(v6, "0.5, \"test_macro", "1e999, \"test_macro", 1),
		v15,
	}
	im := read(t, "\ufeff"+strings.Join(lines, "\r\n"))
	r := im.Report()
	got := []int{r.Lines, r.Blank, len(r.Torn), len(r.Unreadable), r.Records, r.New, len(r.Duplicates), len(r.Repeats)}
	if want := []int{12, 1, 1, 5, 6, 5, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("lines, blank, torn, unreadable, records, new, duplicates, repeats: %v, want %v\n%+v", got, want, r)
	}
	if !slices.ContainsFunc(r.Odd, func(p scandeval.Problem) bool { return p.Line == 4 && strings.Contains(p.Why, "test_mcc is 60.0") }) {
		t.Errorf("the total that does not follow from its iterations is not told: %v", r.Odd)
	}
	// What is in the log already is a duplicate.
	again := importer(t, im.Records()...)
	if err := again.Read("file.jsonl", strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	if r := again.Report(); r.New != 0 || len(r.Duplicates) != 6 {
		t.Errorf("second import: %d new, %d duplicates", r.New, len(r.Duplicates))
	}
}

func back(t testing.TB, rec results.Record, layout string) results.Record {
	t.Helper()
	line, err := scandeval.Format(rec, layout)
	if err != nil {
		t.Fatal(err)
	}
	im := importer(t)
	if err := im.Read("x", bytes.NewReader(line)); err != nil {
		t.Fatal(err)
	}
	if len(im.Records()) != 1 || len(im.Report().Odd) != 0 {
		t.Fatalf("%s\n%+v", line, im.Report())
	}
	return im.Records()[0]
}

func same(t testing.TB, want, got results.Record) {
	t.Helper()
	a, err := want.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	b, err := got.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		x, _ := json.MarshalIndent(want, "", " ")
		y, _ := json.MarshalIndent(got, "", " ")
		t.Fatalf("import(export(x)) is not x:\n%s", cmp.Diff(string(x), string(y)))
	}
}

func TestForeignThereAndBack(t *testing.T) {
	for _, rec := range read(t, strings.Join([]string{v6, v9, v12, v15, v17}, "\n")).Records() {
		for _, layout := range []string{scandeval.Nested, scandeval.Flat, scandeval.EEE} {
			same(t, rec, back(t, rec, layout))
		}
	}
	line, err := scandeval.Format(read(t, v6).Records()[0], scandeval.Nested)
	if err != nil || strings.Contains(string(line), `"bench"`) {
		t.Errorf("a record that its own layout can hold needs no field of ours: %s %v", line, err)
	}
}

// TestGolden: the reference's own file goes in and out without a loss.
func TestGolden(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "shared", "golden", "leaderboard", "scandeval-2023-results.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "shared") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	im := importer(t)
	if err := im.Read("golden", bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	r := im.Report()
	// facts §5.1: 1,912 records of 134 models; one speed record is there twice,
	// with other scores.
	if r.Records != 1912 || r.New != 1912 || len(r.Repeats) != 1 || len(r.Torn)+len(r.Unreadable)+len(r.Odd)+r.NaN+len(r.Tasks) != 0 {
		t.Errorf("records %d, new %d, repeats %v, torn %v, unreadable %v, odd %d %v", r.Records, r.New, r.Repeats, r.Torn, r.Unreadable, len(r.Odd), r.Odd[:min(3, len(r.Odd))])
	}
	// facts §0.1: every exact match of ScandiQA is k/N, with N the number of
	// distinct rows of the seed's bootstrap sample.
	distinct := []float64{1291, 1290, 1294, 1284, 1295, 1297, 1317, 1289, 1275, 1288}
	models := map[string]bool{}
	for i, rec := range im.Records() {
		models[rec.Model.ID] = true
		for j, p := range rec.Replicates {
			if em, ok := p.Scores["em"]; ok {
				if k := em.X * distinct[j]; math.Abs(k-math.Round(k)) > 1e-6 {
					t.Fatalf("%s on %s, seed %d: %v is no share of %v questions", rec.Model.ID, rec.Dataset.Name, p.Seed, em, distinct[j])
				}
			}
		}
		if i%97 == 0 {
			same(t, rec, back(t, rec, scandeval.Nested))
			same(t, rec, back(t, rec, scandeval.EEE))
		}
	}
	if len(models) != 134 {
		t.Errorf("%d models, want 134", len(models))
	}
}

var metricsOf = map[string][]scoring.Metric{
	"ner":   {{Name: "micro_f1", Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "micro_f1_no_misc", Hi: 1, Scale: 100}},
	"qa":    {{Name: "em", Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "f1", Hi: 1, Scale: 100}},
	"speed": {{Name: "inferences_per_second", Scale: 1}, {Name: "tokens_per_second", Scale: 1}},
	"other": {{Name: "distance", Lo: math.Inf(-1), Hi: math.Inf(1), Scale: 1}},
}

func record() *rapid.Generator[results.Record] {
	return rapid.Custom(func(t *rapid.T) results.Record {
		task := rapid.SampledFrom([]string{"ner", "qa", "speed", "other"}).Draw(t, "task")
		rec := results.Record{
			Bench: "v1", Finished: time.Unix(rapid.Int64Range(1, 4e9).Draw(t, "finished"), 0).UTC(),
			Model:    results.Model{ID: rapid.StringMatching(`[a-z]{1,5}/[a-zæøå"<\\]{1,5}`).Draw(t, "id"), Revision: rapid.StringMatching(`[0-9a-f]{0,4}`).Draw(t, "revision"), Kind: "hub", Parameters: rapid.Int64Range(0, 1<<40).Draw(t, "parameters")},
			Dataset:  results.Dataset{Name: "d", Digest: "beef", Task: task, TaskVersion: 1, Languages: []string{"da"}, TestRows: 2048, Partial: rapid.Bool().Draw(t, "partial")},
			Protocol: rapid.SampledFrom([]string{"paper", "paper{learning_rate=0.001}"}).Draw(t, "protocol"), Trainer: "t",
			Hyperparameters: json.RawMessage(`{"learning_rate":2e-05}`), Versions: map[string]string{"torch": "2.2"},
		}
		for i := range rapid.IntRange(1, 10).Draw(t, "seeds") {
			s := scoring.Scores{}
			for _, m := range metricsOf[task] {
				s[m.Name] = scoring.Num(rapid.Float64Range(0, 1).Draw(t, m.Name))
				if rapid.IntRange(0, 19).Draw(t, "none") == 0 {
					s[m.Name] = scoring.Value{Undefined: fmt.Sprintf("why %d", i)}
				}
			}
			p := results.Replicate{Seed: 4242 + 2*i, Job: "j", Scores: s, Steps: i, Device: "cuda", GPUs: 1, Seconds: results.Seconds{Train: float64(i)}}
			if source := rapid.SampledFrom([]string{"", "nvml", "power", "estimate"}).Draw(t, "source"); source != "" { // "": an old program's
				p.Energy = &results.Energy{Joules: rapid.Float64Range(0, 1e9).Draw(t, "joules"), Source: source}
				p.GPUShare = rapid.SampledFrom([]float64{0, .125, .5}).Draw(t, "share")
			}
			rec.Replicates = append(rec.Replicates, p)
		}
		if rapid.Bool().Draw(t, "failed") {
			rec.Failures = []results.Failure{{Seed: 4243, Job: "k", Failure: "oom", Message: "no\nmemory"}}
		}
		rec.Summarize(metricsOf[task])
		return rec
	})
}

// TestThereAndBack: import(export(x)) = x for records of our own.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rec := record().Draw(rt, "record")
		layout := rapid.SampledFrom([]string{scandeval.Nested, scandeval.Flat, scandeval.EEE}).Draw(rt, "layout")
		same(t, rec, back(t, rec, layout))
	})
}

// TestScoresAlone: a reader that knows nothing of our field gets every score to
// the last bit.
func TestScoresAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rec := record().Draw(rt, "record")
		if rec.Dataset.Task == "speed" {
			rt.Skip("the layout has one speed")
		}
		line, err := scandeval.Format(rec, scandeval.Nested)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(line, []byte(`, "bench": `))
		end := bytes.Index(line, []byte(`, "max_sequence_length"`))
		got := read(t, string(line[:at])+string(line[end:])).Records()
		if len(got) != 1 {
			t.Fatalf("%s", line)
		}
		for i, r := range rec.Replicates {
			for name, v := range r.Scores {
				w := got[0].Replicates[i].Scores[name]
				if v.X != w.X || (v.Undefined == "") != (w.Undefined == "") {
					t.Fatalf("%s of iteration %d: %v became %v", name, i, v, w)
				}
			}
		}
	})
}

func TestEditedExport(t *testing.T) {
	rec := read(t, v6).Records()[0]
	rec.Imported, rec.Finished, rec.Protocol = nil, time.Unix(1e9, 0), "paper"
	line, err := scandeval.Format(rec, scandeval.Nested)
	if err != nil {
		t.Fatal(err)
	}
	im := read(t, strings.Replace(string(line), `"test_mcc": 0.5`, `"test_mcc": 0.75`, 1))
	got := im.Records()[0]
	if got.Replicates[0].Scores["mcc"].X != .75 || got.Protocol == "paper" || !strings.Contains(fmt.Sprint(im.Report().Odd), "changed after bench exported it") {
		t.Errorf("%v %s %v", got.Replicates[0].Scores, got.Protocol, im.Report().Odd)
	}
}

func TestModelIndex(t *testing.T) {
	var b bytes.Buffer
	if err := scandeval.WriteModelIndex(&b, read(t, v6).Records()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"model-index:", "- name: org/m", "type: text-classification", "type: matthews_correlation", "name: MCC", "name: macro-F1", "languages:", "value: 60", "half_width_95: 127.06"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, l := range []string{v6, v9, v12, v15, v17, v6[:100], "NaN", `"NaN`} {
		f.Add([]byte(l))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		im := importer(t)
		if err := im.Read("f", bytes.NewReader(line)); err != nil {
			t.Fatal(err)
		}
		r := im.Report()
		if r.New+len(r.Duplicates) != r.Records || len(im.Records()) != r.New {
			t.Fatalf("%+v", r)
		}
		for _, rec := range im.Records() {
			same(t, rec, back(t, rec, scandeval.Nested))
		}
	})
}
