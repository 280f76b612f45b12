package scandeval_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"bench/scoring"
	"bench/scoring/results/scandeval"
)

// fixture is one version's record, written here by the facts about its layout
// (facts/scandeval.md §5.1 and §5.2 of the reference material): which fields came
// when, and which were renamed.
type fixture struct {
	name   string
	line   string
	format string
	// protocol, and what the first iteration says
	protocol string
	version  string
	task     string
	model    string
	scores   scoring.Scores
	fields   []string // that are kept as they are
}

// raws writes raw scores of two iterations, nested under the split or flat.
func raws(nested bool, a, b string) string {
	list := "[{" + a + "}, {" + b + "}]"
	if nested {
		return `{"test": ` + list + `}`
	}
	return list
}

var (
	sentiment = [2]string{`"test_loss": 0.9, "test_mcc": 0.5, "test_macro_f1": 0.7, "test_runtime": 1.5, "test_samples_per_second": 99.1, "test_steps_per_second": 3.2`, `"test_loss": 0.8, "test_mcc": 0.75, "test_macro_f1": 0.875, "test_runtime": 1.6, "test_samples_per_second": 98.1, "test_steps_per_second": 3.1`}
	mcc       = scoring.Scores{"mcc": scoring.Num(.5), "macro_f1": scoring.Num(.7)}
)

func record5(task, dataset, languages, raw, total, more string) string {
	return fmt.Sprintf(`{"dataset": %q, "task": %q, %s, "model": "org/m@v1", "results": {"raw": %s, "total": {%s}}, "num_model_parameters": 124445952, "max_sequence_length": 512, "vocabulary_size": 50005%s}`, dataset, task, languages, raw, total, more)
}

func fixtures() []fixture {
	old, now := `"dataset_languages": ["sv"]`, `"languages": ["sv"]`
	total := `"test_mcc": 62.5, "test_mcc_se": 24.5, "test_macro_f1": 78.75, "test_macro_f1_se": 17.15`
	sent := func(languages string, nested bool, more string) string {
		return record5("sentiment-classification", "swerec", languages, raws(nested, sentiment[0], sentiment[1]), total, more)
	}
	return []fixture{
		{"v5 to v7", sent(old, true, ""), scandeval.Nested, "scandeval:v5-v8", "", "sentiment", "org/m", mcc, nil},
		{"v5 with --evaluate-train", strings.Replace(strings.Replace(sent(old, true, ""), `{"test": [`, `{"train": [{"train_mcc": 0.9}, {"train_mcc": 0.8}], "test": [`, 1), `"total": {`, `"total": {"train_mcc": 85.0, "train_mcc_se": 9.8, `, 1), scandeval.Nested, "scandeval:v5-v8", "", "sentiment", "org/m", mcc, []string{"results"}},
		{"v6 NER", record5("named-entity-recognition", "dane", `"dataset_languages": ["da"]`, raws(true, `"test_micro_f1": 0.8, "test_micro_f1_no_misc": 0.85`, `"test_micro_f1": 0.6, "test_micro_f1_no_misc": 0.65`), `"test_micro_f1": 70.0, "test_micro_f1_se": 19.6, "test_micro_f1_no_misc": 75.0, "test_micro_f1_no_misc_se": 19.6`, ""), scandeval.Nested, "scandeval:v5-v8", "", "ner", "org/m", scoring.Scores{"micro_f1": scoring.Num(.8), "micro_f1_no_misc": scoring.Num(.85)}, nil},
		{"v6 QA: raw scores are percents", record5("question-answering", "scandiqa-da", `"dataset_languages": ["da"]`, raws(true, `"test_em": 43.5, "test_f1": 50.25`, `"test_em": 45.5, "test_f1": 52.25`), `"test_em": 44.5, "test_em_se": 1.96, "test_f1": 51.25, "test_f1_se": 1.96`, ""), scandeval.Nested, "scandeval:v5-v8", "", "qa", "org/m", scoring.Scores{"em": scoring.Num(.435), "f1": scoring.Num(.5025)}, nil},
		{"v6.1 speed in inferences", record5("speed", "speed", `"dataset_languages": ["da", "sv", "nb"]`, raws(true, `"test_speed": 1.25`, `"test_speed": 1.75`), `"test_speed": 1.5, "test_speed_se": 0.49`, ""), scandeval.Nested, "scandeval:v5-v8", "", "speed", "org/m", scoring.Scores{"inferences_per_second": scoring.Num(1.25)}, nil},
		{"v8 speed in tokens", record5("speed", "speed", `"dataset_languages": ["da"]`, raws(true, `"test_speed": 1250.5, "test_speed_short": 150.5`, `"test_speed": 1750.5, "test_speed_short": 170.5`), `"test_speed": 1500.5, "test_speed_se": 490.0, "test_speed_short": 160.5, "test_speed_short_se": 19.6`, ""), scandeval.Nested, "scandeval:v8", "", "speed", "org/m", scoring.Scores{"tokens_per_second": scoring.Num(1250.5), "tokens_per_second_short": scoring.Num(150.5)}, nil},
		{"v9.0", sent(old, true, `, "few_shot": true, "validation_split": false`), scandeval.Nested, "scandeval:v9", "", "sentiment", "org/m", mcc, []string{"few_shot", "validation_split"}},
		{"v9.1.1", sent(old, true, `, "generative": true, "few_shot": false, "validation_split": true`), scandeval.Nested, "scandeval:v9{split=val,shots=0}", "", "sentiment", "org/m", mcc, []string{"generative"}},
		{"v9.2.0", sent(old, true, `, "generative": false, "few_shot": true, "validation_split": false, "scandeval_version": "9.2.0"`), scandeval.Nested, "scandeval:v9", "9.2.0", "sentiment", "org/m", mcc, nil},
		{"v10", sent(old, true, `, "generative": false, "few_shot": true, "validation_split": false, "scandeval_version": "10.0.1"`), scandeval.Nested, "scandeval:v10", "10.0.1", "sentiment", "org/m", mcc, nil},
		{"v11", sent(old, true, `, "generative": false, "few_shot": true, "validation_split": false, "scandeval_version": "11.0.0"`), scandeval.Nested, "scandeval:v11", "11.0.0", "sentiment", "org/m", mcc, nil},
		{"v12 with merge", sent(old, true, `, "merge": false, "generative": false, "few_shot": true, "validation_split": false, "scandeval_version": "12.11.0"`), scandeval.Nested, "scandeval:v12", "12.11.0", "sentiment", "org/m", mcc, []string{"merge"}},
		{"v13, question answering renamed", record5("reading-comprehension", "scandiqa-sv", old, raws(true, `"test_f1": 50.25, "test_em": 43.5`, `"test_f1": 52.25, "test_em": 45.5`), `"test_f1": 51.25, "test_f1_se": 1.96, "test_em": 44.5, "test_em_se": 1.96`, `, "merge": false, "generative": false, "generative_type": null, "few_shot": true, "validation_split": false, "scandeval_version": "13.0.0"`), scandeval.Nested, "scandeval:v13", "13.0.0", "qa", "org/m", scoring.Scores{"em": scoring.Num(.435), "f1": scoring.Num(.5025)}, []string{"generative_type"}},
		{"v14, languages renamed", sent(now, true, `, "merge": false, "generative": true, "generative_type": "base", "few_shot": true, "validation_split": true, "scandeval_version": "14.0.0"`), scandeval.Nested, "scandeval:v14{split=val}", "14.0.0", "sentiment", "org/m", mcc, []string{"generative_type"}},
		{"v14.4, flat", sent(now, false, `, "merge": false, "generative": true, "generative_type": "instruction_tuned", "few_shot": false, "validation_split": null, "scandeval_version": "14.4.0"`), scandeval.Flat, "scandeval:v14{shots=0}", "14.4.0", "sentiment", "org/m", mcc, nil},
		{"v15, EuroEval, with versions of packages", sent(now, false, `, "merge": false, "generative": false, "generative_type": null, "few_shot": null, "validation_split": false, "euroeval_version": "15.2.0", "transformers_version": "4.50.0", "torch_version": null, "vllm_version": null`), scandeval.Flat, "euroeval:v15", "15.2.0", "sentiment", "org/m", mcc, []string{"transformers_version", "torch_version"}},
		{"v16 with failed instances", strings.NewReplacer(`"test_loss": 0.9,`, `"failed_instances": [], "test_loss": 0.9,`, `"test_mcc": 62.5,`, `"test_mcc": 62.5, "num_failed_instances": 0,`).Replace(sent(now, false, `, "euroeval_version": "16.0.0", "use_bits_per_character": false, "commercially_licensed": true, "open": true, "trained_from_scratch": null`)), scandeval.Flat, "euroeval:v16", "16.0.0", "sentiment", "org/m", mcc, []string{"open", "results"}},
		{"v18, bits per character", everyEval(`"use_bits_per_character": "true", "few_shot": "true"`, "18.0.0"), scandeval.EEE, "euroeval:v18{metric=bpc}", "18.0.0", "sentiment", "org/m", mcc, nil},
		{"v17", everyEval(`"few_shot": null, "validation_split": "false", "transformers_version": "4.57.0", "torch_version": "2.8.0"`, "17.0.0"), scandeval.EEE, "euroeval:v17", "17.0.0", "sentiment", "org/m", mcc, nil},
	}
}

// everyEval is a line of EuroEval's files since version 17.
func everyEval(details, version string) string {
	list := fmt.Sprintf(`[{%s}, {%s}]`, sentiment[0], sentiment[1])
	metric := func(name string, score, lower, upper float64) string {
		return fmt.Sprintf(`{"evaluation_name": %q, "source_data": {"dataset_name": "swerec", "source_type": "hf_dataset"}, "metric_config": {"lower_is_better": false, "score_type": "continuous", "min_score": 0, "max_score": 100}, "score_details": {"score": %v, "details": {"num_failed_instances": "0"}, "uncertainty": {"confidence_interval": {"lower": %v, "upper": %v, "confidence_level": 0.95, "method": "bootstrap"}, "num_samples": 2}}}`, name, score, lower, upper)
	}
	return fmt.Sprintf(`{"schema_version": "0.2.1", "evaluation_id": "swerec/org/m@v1/1760000000", "evaluation_timestamp": "2025-10-09T08:53:20.123456+00:00", "retrieved_timestamp": "1760000000", "source_metadata": {"source_name": "EuroEval", "source_type": "evaluation_run", "source_organization_name": "Alexandra Institute", "source_organization_url": "https://alexandra.dk", "evaluator_relationship": "third_party"}, "model_info": {"name": "org/m@v1", "id": "org/m@v1", "inference_engine": {"name": "transformers", "version": "4.57.0"}, "additional_details": {"num_model_parameters": "124445952", "max_sequence_length": "512", "vocabulary_size": "50005", "merge": "false", "generative": "true", "generative_type": "base", "open": true}}, "eval_library": {"name": "euroeval", "version": %q, "additional_details": {"dataset": "swerec", "languages": "[\"sv\"]", "task": "sentiment-classification", %s, "raw_results": %q}}, "evaluation_results": [%s, %s]}`,
		version, details, list, metric("test_mcc", 62.5, 38, 87), metric("test_macro_f1", 78.75, 61.6, 95.9))
}

// TestEveryVersion: the records of every version since 5 are read as what they
// are, keep what a record has no place for, and come back from every layout.
func TestEveryVersion(t *testing.T) {
	var all []string
	for _, f := range fixtures() {
		all = append(all, f.line)
		im := read(t, "\n"+f.line+"\n") // the old program put a line end before each record
		r := im.Report()
		if r.New != 1 || r.Blank != 1 || len(r.Torn)+len(r.Unreadable)+len(r.Odd)+r.NaN != 0 || r.Layouts[f.format] != 1 {
			t.Errorf("%s: %+v", f.name, r)
			continue
		}
		rec := im.Records()[0]
		if rec.Protocol != f.protocol || rec.Imported.Version != f.version || rec.Dataset.Task != f.task || rec.Model.ID != f.model || rec.Model.Revision != "v1" {
			t.Errorf("%s: protocol %s, version %q, task %s, model %s at %s", f.name, rec.Protocol, rec.Imported.Version, rec.Dataset.Task, rec.Model.ID, rec.Model.Revision)
		}
		if rec.Model.Parameters != 124445952 || rec.Model.MaxLength != 512 || rec.Model.Vocabulary != 50005 || len(rec.Dataset.Languages) == 0 {
			t.Errorf("%s: %+v of %v", f.name, rec.Model, rec.Dataset.Languages)
		}
		if got := rec.Replicates[0].Scores; fmt.Sprint(got) != fmt.Sprint(f.scores) || len(rec.Replicates) != 2 || rec.Replicates[1].Seed != 4243 {
			t.Errorf("%s: %v, want %v", f.name, got, f.scores)
		}
		for _, field := range f.fields {
			if _, ok := rec.Imported.Fields[field]; !ok {
				t.Errorf("%s: field %s is lost; kept are %v", f.name, field, rec.Imported.Fields)
			}
		}
		for _, layout := range []string{scandeval.Nested, scandeval.Flat, scandeval.EEE} {
			same(t, rec, back(t, rec, layout))
		}
	}
	// All of them in one file: one counts of each, none is dropped.
	r := read(t, strings.Join(all, "\n")).Report()
	if r.New != len(all) || r.Lines != len(all) || len(r.Duplicates) != 0 {
		t.Errorf("a mixed file: %+v", r)
	}
}

// TestPasted: records that somebody laid out over several lines, or as a list.
func TestPasted(t *testing.T) {
	pretty := func(line string) string {
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(line), "", "  "); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	a, b := fixtures()[0].line, fixtures()[7].line
	broken := strings.Replace(pretty(a), `"test_macro_f1": 0.875`, `"test_macro_f1": NaN`, 1)
	for name, c := range map[string]struct {
		text                       string
		new, nan, torn, unreadable int // −1: whatever
	}{
		"two":               {pretty(a) + "\n" + pretty(b) + "\n", 2, 0, 0, 0},
		"a list":            {"[" + a + ",\n" + b + "]", 2, 0, 0, 0},
		"with a byte mark":  {"\ufeff\n" + pretty(a), 1, 0, 0, 0},
		"with a NaN":        {broken, 1, 1, 0, 0},
		"with another one":  {pretty(a) + "\n{\n\"a\": 1}\n" + pretty(b), 2, 0, 0, 1},
		"torn":              {pretty(a) + "\n" + pretty(b)[:300], 1, 0, 1, 0},
		"no record at all":  {"{\n\"a\": 1\n}", 0, 0, 3, 1},
		"lines stay lines":  {a + "\n" + pretty(b), 1, 0, -1, -1},
		"nothing":           {"", 0, 0, 0, 0},
		"an empty list":     {"[]", 0, 0, 0, 1},
		"a list of nothing": {"[1,\n2]", 0, 0, -1, -1},
	} {
		im := read(t, c.text)
		r := im.Report()
		if r.New != c.new || r.NaN != c.nan || c.torn >= 0 && len(r.Torn) != c.torn || c.unreadable >= 0 && len(r.Unreadable) != c.unreadable {
			t.Errorf("%s: %d new, %d NaN, torn %v, unreadable %v", name, r.New, r.NaN, r.Torn, r.Unreadable)
		}
		if lines := strings.Count(c.text, "\n"); r.Lines < lines || r.Lines > lines+1 {
			t.Errorf("%s: %d lines", name, r.Lines)
		}
		for _, rec := range im.Records() {
			same(t, rec, back(t, rec, scandeval.Nested))
		}
	}
	if r := read(t, pretty(a)+"\n{\n\"a\": 1}\n"+pretty(b)).Report(); r.Unreadable[0].Line != strings.Count(pretty(a), "\n")+2 {
		t.Errorf("%v", r.Unreadable)
	}
}
