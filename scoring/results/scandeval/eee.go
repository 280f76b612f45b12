package scandeval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"bench/scoring/results"
)

// parseEEE reads an "Every Eval Ever" record. Its details become fields with
// the names of the older layouts, so that both are treated alike.
func parseEEE(o object) (results.Record, []string, error) {
	var rec results.Record
	im := &results.Imported{Format: EEE}
	var library struct {
		Version string `json:"version"`
		Details object `json:"additional_details"`
	}
	var model struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		Details object `json:"additional_details"`
	}
	json.Unmarshal(o["eval_library"], &library)
	json.Unmarshal(o["model_info"], &model)
	d := library.Details
	var rawText, languages string
	switch {
	case !take(d, "dataset", &rec.Dataset.Name):
		return rec, nil, errors.New("no eval_library.additional_details.dataset")
	case !take(d, "task", &im.Task):
		return rec, nil, errors.New("no eval_library.additional_details.task")
	case !take(d, "raw_results", &rawText):
		return rec, nil, errors.New("no raw scores (eval_library.additional_details.raw_results)")
	}
	if im.Model = model.ID; im.Model == "" {
		im.Model = model.Name
	}
	if im.Model == "" {
		return rec, nil, errors.New("no model_info.id")
	}
	if take(d, "languages", &languages) && json.Unmarshal([]byte(languages), &rec.Dataset.Languages) != nil {
		return rec, nil, fmt.Errorf("eval_library.additional_details.languages is not a list: %.60q", languages)
	}
	var iterations []object
	mended, _ := mend([]byte(rawText))
	if err := json.Unmarshal(mended, &iterations); err != nil {
		return rec, nil, fmt.Errorf("eval_library.additional_details.raw_results: %w", err)
	}
	var stamp string
	if take(o, "evaluation_timestamp", &stamp) {
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return rec, nil, fmt.Errorf("evaluation_timestamp %.40q is not a time", stamp)
		}
		rec.Finished = at.UTC().Truncate(time.Second)
	}
	im.Version = library.Version
	var embedded string
	isOwn := take(d, "bench", &embedded)
	flags := object{}
	for k, v := range d {
		flags[k] = unquote(v)
	}
	for k, v := range model.Details {
		flags[k] = unquote(v)
	}
	totals := eeeTotals(o["evaluation_results"])
	notes, err := fill(&rec, im, flags, iterations, totals)
	if err != nil {
		return rec, nil, err
	}
	// What was taken out above is made again when it is exported; the rest of the
	// library's and the model's details stays as it is.
	o["eval_library"] = with(o["eval_library"], "additional_details", raw(d))
	im.Fields = o
	if isOwn {
		rec, notes = own(json.RawMessage(embedded), rec, notes)
	}
	return rec, notes, nil
}

// unquote turns "true" and "false" in strings into booleans.
func unquote(v json.RawMessage) json.RawMessage {
	var s string
	if json.Unmarshal(v, &s) == nil && (s == "true" || s == "false") {
		return json.RawMessage(s)
	}
	return v
}

// with sets one field of a JSON object.
func with(o json.RawMessage, key string, v json.RawMessage) json.RawMessage {
	m := object{}
	json.Unmarshal(o, &m)
	m[key] = v
	return raw(m)
}

// eeeTotals reads the means of evaluation_results by name.
func eeeTotals(b json.RawMessage) object {
	var list []struct {
		Name    string `json:"evaluation_name"`
		Details struct {
			Score json.RawMessage `json:"score"`
		} `json:"score_details"`
	}
	totals := object{}
	if json.Unmarshal(b, &list) == nil {
		for _, r := range list {
			if len(bytes.TrimSpace(r.Details.Score)) > 0 {
				totals[r.Name] = r.Details.Score
			}
		}
	}
	return totals
}
