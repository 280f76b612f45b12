package scandeval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"bench/scoring"
	"bench/scoring/results"
)

// Format returns rec as one line of a layout: Nested, Flat or EEE. Parse gives
// rec again: if the layout has no place for something, the line carries the
// whole record in a field "bench", which other readers skip.
func Format(rec results.Record, layout string) ([]byte, error) {
	write := legacy
	if layout == EEE {
		write = eee
	}
	if layout != Nested && layout != Flat && layout != EEE {
		return nil, fmt.Errorf("there is no layout %q", layout)
	}
	line, err := write(rec, layout, nil)
	if err != nil {
		return nil, err
	}
	want, err := rec.Fingerprint()
	if err != nil {
		return nil, err
	}
	mended, _ := mend(line)
	if back, notes, err := Parse(mended); err == nil && len(notes) == 0 && rec.Imported != nil {
		back.Bench = rec.Bench
		if got, err := back.Fingerprint(); err == nil && got == want {
			return line, nil
		}
	}
	full, err := rec.JSON()
	if err != nil {
		return nil, err
	}
	return write(rec, layout, full)
}

// Write exports records, one a line.
func Write(w io.Writer, recs []results.Record, layout string) error {
	for _, r := range recs {
		line, err := Format(r, layout)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", r.Model.ID, r.Dataset.Name, err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// pair is one field of a JSON object, and pairs are an object whose keys keep
// their order.
type (
	pair struct {
		key   string
		value json.RawMessage
	}
	pairs []pair
)

func (p *pairs) set(key string, v json.RawMessage) { *p = append(*p, pair{key, v}) }

func (p pairs) json() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, kv := range p {
		if i > 0 {
			b.WriteString(", ")
		}
		b.Write(raw(kv.key))
		b.WriteString(": ")
		b.Write(kv.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func list(items []json.RawMessage) json.RawMessage {
	return append(append([]byte{'['}, bytes.Join(sliceOf(items), []byte(", "))...), ']')
}

func sliceOf(items []json.RawMessage) [][]byte {
	out := make([][]byte, len(items))
	for i, b := range items {
		out[i] = b
	}
	return out
}

// number is v as these layouts have it: NaN for a value that is not there.
func number(v scoring.Value, percent bool) json.RawMessage {
	switch {
	case v.Undefined != "":
		return marker
	case percent:
		return json.RawMessage(percentText(v.X))
	}
	return raw(v.X)
}

// iterations are the raw scores of rec, and totals their means and half-widths.
func iterations(rec results.Record) (list []json.RawMessage, totals pairs) {
	t := foreign(rec.Dataset.Task)
	inf := inferences(rec.Protocol)
	for i, r := range rec.Replicates {
		var it pairs
		for _, metric := range sortedKeys(r.Scores) {
			if key, ok := rawName(t, metric, inf); ok {
				it.set(key, number(r.Scores[metric], t.percent && isKnown(t, metric)))
			}
		}
		if rec.Imported != nil && i < len(rec.Imported.Raw) {
			for _, key := range sortedKeys(rec.Imported.Raw[i]) {
				it.set(key, rec.Imported.Raw[i][key])
			}
		}
		list = append(list, it.json())
	}
	for _, metric := range sortedKeys(rec.Summary) {
		if key, ok := rawName(t, metric, inf); ok {
			totals.set(key, number(rec.Summary[metric].Mean, false))
			totals.set(key+"_se", number(rec.Summary[metric].HalfWidthZ, false))
		}
	}
	return list, totals
}

func isKnown(t task, metric string) bool {
	return slices.ContainsFunc(t.metrics, func(m scoring.Metric) bool { return m.Name == metric })
}

func names(rec results.Record) (model, task string) {
	if rec.Imported != nil {
		return rec.Imported.Model, rec.Imported.Task
	}
	model = rec.Model.ID
	if rec.Model.Revision != "" {
		model += "@" + rec.Model.Revision
	}
	return model, foreign(rec.Dataset.Task).theirs
}

func legacy(rec results.Record, layout string, embedded json.RawMessage) ([]byte, error) {
	model, task := names(rec)
	its, totals := iterations(rec)
	fields := object{}
	if rec.Imported != nil && rec.Imported.Format != EEE {
		for k, v := range rec.Imported.Fields {
			fields[k] = v
		}
	}
	var rest struct {
		Raw   object `json:"raw"`
		Total object `json:"total"`
	}
	others := object{} // of results
	if b, ok := fields["results"]; ok {
		delete(fields, "results")
		if err := json.Unmarshal(b, &rest); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &others); err != nil {
			return nil, err
		}
		delete(others, "raw")
		delete(others, "total")
	}
	// What the source's totals say of its own counts, also where it is not what
	// the iterations give.
	totals = slices.DeleteFunc(totals, func(p pair) bool { _, ok := rest.Total[p.key]; return ok })
	for _, k := range sortedKeys(rest.Total) {
		totals.set(k, rest.Total[k])
	}
	languages, rawJSON := "languages", list(its)
	if layout == Nested {
		languages = "dataset_languages"
		splits := pairs{}
		splits.set("test", rawJSON)
		for _, k := range sortedKeys(rest.Raw) {
			splits.set(k, rest.Raw[k])
		}
		rawJSON = splits.json()
	}
	var res, o pairs
	res.set("raw", rawJSON)
	res.set("total", totals.json())
	for _, k := range sortedKeys(others) {
		res.set(k, others[k])
	}
	o.set("dataset", raw(rec.Dataset.Name))
	o.set("task", raw(task))
	if rec.Dataset.Languages != nil {
		o.set(languages, raw(rec.Dataset.Languages))
	}
	o.set("model", raw(model))
	o.set("results", res.json())
	for key, n := range map[string]int64{"num_model_parameters": rec.Model.Parameters, "max_sequence_length": int64(rec.Model.MaxLength), "vocabulary_size": int64(rec.Model.Vocabulary)} {
		if _, ok := fields[key]; !ok && (n > 0 || rec.Imported == nil) {
			fields[key] = raw(n)
		}
	}
	if rec.Imported != nil && rec.Imported.Version != "" {
		key := "scandeval_version"
		if bytes.HasPrefix([]byte(rec.Protocol), []byte("euroeval")) {
			key = "euroeval_version"
		}
		fields[key] = raw(rec.Imported.Version)
	}
	if embedded != nil {
		fields["bench"] = embedded
	}
	for _, k := range sortedKeys(fields) {
		o.set(k, fields[k])
	}
	return unmend(o.json()), nil
}

func eee(rec results.Record, _ string, embedded json.RawMessage) ([]byte, error) {
	model, task := names(rec)
	its, _ := iterations(rec)
	o := object{}
	library, info := object{}, object{}
	details, modelDetails := object{}, object{}
	if rec.Imported != nil && rec.Imported.Format == EEE {
		for k, v := range rec.Imported.Fields {
			o[k] = v
		}
		json.Unmarshal(o["eval_library"], &library)
		json.Unmarshal(library["additional_details"], &details)
	} else {
		library["name"] = raw("bench")
		library["version"] = raw(rec.Bench)
		if rec.Imported != nil {
			library["name"], library["version"] = raw("scandeval"), raw(rec.Imported.Version)
		}
		stamp := strconv.FormatInt(rec.Finished.Unix(), 10)
		if rec.Finished.IsZero() {
			stamp = "0"
		}
		o["schema_version"] = raw("0.2.1")
		o["evaluation_id"] = raw(rec.Dataset.Name + "/" + model + "/" + stamp)
		o["retrieved_timestamp"] = raw(stamp)
		o["source_metadata"] = raw(map[string]string{
			"source_name": "bench", "source_type": "evaluation_run", "source_organization_name": "bench", "evaluator_relationship": "third_party",
		})
		info["name"], info["id"] = raw(model), raw(model)
		modelDetails["num_model_parameters"] = raw(strconv.FormatInt(rec.Model.Parameters, 10))
		modelDetails["max_sequence_length"] = raw(strconv.Itoa(rec.Model.MaxLength))
		modelDetails["vocabulary_size"] = raw(strconv.Itoa(rec.Model.Vocabulary))
		modelDetails["generative"], modelDetails["merge"] = raw("false"), raw("false")
		modelDetails["generative_type"] = json.RawMessage("null")
		info["additional_details"] = raw(modelDetails)
		o["model_info"] = raw(info)
		o["evaluation_results"] = evaluationResults(rec)
	}
	if !rec.Finished.IsZero() {
		o["evaluation_timestamp"] = raw(rec.Finished.UTC().Format(time.RFC3339))
	}
	details["dataset"], details["task"] = raw(rec.Dataset.Name), raw(task)
	if rec.Dataset.Languages != nil {
		details["languages"] = raw(string(raw(rec.Dataset.Languages)))
	}
	details["raw_results"] = raw(string(unmend(list(its))))
	if embedded != nil {
		details["bench"] = raw(string(embedded))
	}
	library["additional_details"] = raw(details)
	o["eval_library"] = raw(library)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		return nil, err
	}
	return unmend(bytes.TrimRight(b.Bytes(), "\n")), nil
}

// evaluationResults lists the means, each with its interval: the shown one, by
// Student's t.
func evaluationResults(rec results.Record) json.RawMessage {
	out := []any{}
	t, inf := foreign(rec.Dataset.Task), inferences(rec.Protocol)
	for _, metric := range sortedKeys(rec.Summary) {
		key, ok := rawName(t, metric, inf)
		s := rec.Summary[metric]
		if !ok || s.Mean.Undefined != "" {
			continue
		}
		score := map[string]any{"score": s.Mean.X, "details": map[string]string{"num_failed_instances": "0"}}
		uncertainty := map[string]any{"num_samples": s.N}
		if s.HalfWidthT.Undefined == "" {
			uncertainty["confidence_interval"] = map[string]any{
				"lower": s.Mean.X - s.HalfWidthT.X, "upper": s.Mean.X + s.HalfWidthT.X, "confidence_level": 0.95, "method": "student-t",
			}
		}
		score["uncertainty"] = uncertainty
		r := map[string]any{
			"evaluation_name": key,
			"source_data":     map[string]string{"dataset_name": rec.Dataset.Name, "source_type": "hf_dataset"},
			"score_details":   score,
		}
		if t.ours != "speed" {
			r["metric_config"] = map[string]any{"lower_is_better": false, "score_type": "continuous", "min_score": 0, "max_score": 100}
		}
		out = append(out, r)
	}
	return raw(out)
}
