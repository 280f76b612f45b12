package scandeval

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bench/scoring"
	"bench/scoring/results"
	"bench/scoring/stats"
)

// firstSeed is the seed of the first iteration; iteration i has firstSeed + i.
const firstSeed = 4242

// Parse reads one record of any layout. Notes say what in it is odd without
// making it useless.
func Parse(line []byte) (rec results.Record, notes []string, err error) {
	var o object
	if err := json.Unmarshal(line, &o); err != nil {
		return rec, nil, err
	}
	if o == nil {
		return rec, nil, errors.New("null is not a record")
	}
	if _, ok := o["eval_library"]; ok {
		rec, notes, err = parseEEE(o)
	} else {
		rec, notes, err = parseLegacy(o)
	}
	if err == nil {
		err = rec.Validate()
	}
	return rec, notes, err
}

// own takes bench's own record out of an exported one. It counts only if its
// scores are those of the line: who edits an exported file means the file.
func own(embedded json.RawMessage, rec results.Record, notes []string) (results.Record, []string) {
	var full results.Record
	if err := json.Unmarshal(embedded, &full); err != nil || full.Validate() != nil {
		return rec, append(notes, "the field \"bench\" is not a record of bench: it was left out")
	}
	same := full.Model.ID == rec.Model.ID && full.Dataset.Name == rec.Dataset.Name && len(full.Replicates) == len(rec.Replicates)
	for i := 0; same && i < len(full.Replicates); i++ {
		want, got := rawScores(full, i), rawScores(rec, i)
		same = len(want) == len(got)
		for key, v := range want {
			w, ok := got[key]
			same = same && ok && v.X == w.X && (v.Undefined == "") == (w.Undefined == "")
		}
	}
	if !same {
		return rec, append(notes, "the line was changed after bench exported it: the field \"bench\" was left out")
	}
	return full, nil
}

// rawScores are the scores of replicate i by their names in a file.
func rawScores(rec results.Record, i int) scoring.Scores {
	out := scoring.Scores{}
	for metric, v := range rec.Replicates[i].Scores {
		if key, ok := rawName(foreign(rec.Dataset.Task), metric, inferences(rec.Protocol)); ok {
			out[key] = v
		}
	}
	return out
}

func parseLegacy(o object) (results.Record, []string, error) {
	var rec results.Record
	var res struct {
		Raw   json.RawMessage `json:"raw"`
		Total object          `json:"total"`
	}
	im := &results.Imported{Format: Nested}
	if !take(o, "model", &im.Model) || im.Model == "" {
		return rec, nil, errors.New("no model")
	}
	if !take(o, "dataset", &rec.Dataset.Name) {
		return rec, nil, errors.New("no dataset")
	}
	if !take(o, "task", &im.Task) {
		return rec, nil, errors.New("no task")
	}
	resultsJSON := o["results"]
	if !take(o, "results", &res) {
		return rec, nil, errors.New("no results")
	}
	if !take(o, "dataset_languages", &rec.Dataset.Languages) {
		take(o, "languages", &rec.Dataset.Languages)
	}
	rest := object{} // of results
	var all object
	if json.Unmarshal(resultsJSON, &all) == nil {
		for k, v := range all {
			if k != "raw" && k != "total" {
				rest[k] = v
			}
		}
	}
	var iterations []object
	if err := json.Unmarshal(res.Raw, &iterations); err == nil {
		im.Format = Flat
	} else {
		var splits object
		if json.Unmarshal(res.Raw, &splits) != nil || !take(splits, "test", &iterations) {
			return rec, nil, errors.New("no raw scores of the test split (results.raw.test, or a list in results.raw)")
		}
		if len(splits) > 0 {
			rest["raw"] = raw(splits)
		}
	}
	embedded, isOwn := o["bench"]
	delete(o, "bench")
	notes, err := fill(&rec, im, o, iterations, res.Total)
	if err != nil {
		return rec, nil, err
	}
	if len(res.Total) > 0 {
		rest["total"] = raw(res.Total)
	}
	if len(rest) > 0 {
		o["results"] = raw(rest)
	}
	if len(o) > 0 {
		im.Fields = o
	}
	if isOwn {
		rec, notes = own(embedded, rec, notes)
	}
	return rec, notes, nil
}

// variant is what, beside the version, decides under which protocol a score was
// made.
type variant struct {
	Generative bool  `json:"generative"`
	FewShot    *bool `json:"few_shot"`
	Validation *bool `json:"validation_split"`
	Bits       *bool `json:"use_bits_per_character"`
}

// fill makes rec from iterations and what else is known. Of totals it leaves
// what does not follow from the iterations.
func fill(rec *results.Record, im *results.Imported, o object, iterations []object, totals object) ([]string, error) {
	if len(iterations) == 0 {
		return nil, errors.New("no raw scores: without them there is neither an interval nor a comparison")
	}
	t, _ := lookup(im.Task)
	rec.Dataset.Task, rec.Imported, rec.Hyperparameters = t.ours, im, json.RawMessage("{}")
	program, short := "scandeval", false
	for _, it := range iterations {
		_, s := it["test_speed_short"]
		short = short || s
	}
	if im.Version == "" && !take(o, "scandeval_version", &im.Version) && take(o, "euroeval_version", &im.Version) {
		program = "euroeval"
	}
	if im.Format == EEE {
		program = "euroeval"
	}
	var v variant
	json.Unmarshal(raw(o), &v) // fields of another type say nothing
	rec.Protocol = protocol(program, im.Version, im.Model, o, v, short)
	rec.Model.ID, rec.Model.Revision = splitModel(im.Model)
	rec.Model.Kind = "hub"
	if strings.HasPrefix(rec.Model.ID, "fresh-") {
		rec.Model.Kind = "fresh"
	}
	lift(o, "num_model_parameters", &rec.Model.Parameters)
	rec.Model.MaxLength = liftInt(o, "max_sequence_length")
	rec.Model.Vocabulary = liftInt(o, "vocabulary_size")
	return scores(rec, im, t, iterations, totals)
}

// protocol names the era and the variant of a score: scores of different ones
// are not the same quantity. Records say their version since 9.2; before that,
// the fields that they have tell the era.
func protocol(program, version, model string, o object, v variant, speedShort bool) string {
	major, _, _ := strings.Cut(version, ".")
	_, shots := o["few_shot"]
	switch {
	case version != "":
	case program == "euroeval":
		major = "?"
	case shots:
		major = "9"
	case speedShort:
		major = "8"
	default:
		major = "5-v8"
	}
	name := program + ":v" + major
	var set []string
	_, remark, _ := strings.Cut(model, " (") // "org/name (zero-shot, val)", in old leaderboard files
	if v.Validation != nil && *v.Validation || v.Validation == nil && strings.Contains(remark, "val") {
		set = append(set, "split=val")
	}
	if v.Generative && v.FewShot != nil && !*v.FewShot || v.FewShot == nil && strings.Contains(remark, "zero-shot") {
		set = append(set, "shots=0")
	}
	if v.Bits != nil && *v.Bits {
		set = append(set, "metric=bpc")
	}
	if len(set) > 0 {
		name += "{" + strings.Join(set, ",") + "}"
	}
	return name
}

// inferences says whether speed under a protocol counts inferences: until
// ScandEval 7. Without a version that is assumed where nothing says otherwise.
func inferences(protocol string) bool {
	major, ok := strings.CutPrefix(protocol, "scandeval:v")
	return !ok && !strings.HasPrefix(protocol, "euroeval:") || slices.Contains([]string{"5-v8", "5", "6", "7"}, strings.SplitN(major, "{", 2)[0])
}

// splitModel takes a revision out of id@revision and id@revision#parameter, and
// the words in brackets that old leaderboard files put behind the id.
func splitModel(s string) (id, revision string) {
	id, _, _ = strings.Cut(s, " (")
	id, parameter, hasParameter := strings.Cut(id, "#")
	id, revision, _ = strings.Cut(id, "@")
	if hasParameter {
		id += "#" + parameter
	}
	return id, revision
}

// lift moves a whole number that makes sense into *to; others stay.
func lift(o object, key string, to *int64) {
	text := string(o[key])
	var quoted string
	if json.Unmarshal(o[key], &quoted) == nil { // Every Eval Ever has numbers in strings
		text = quoted
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < 1<<53 {
		*to = n
		delete(o, key)
	}
}

func liftInt(o object, key string) int {
	var n int64
	lift(o, key, &n)
	return int(n)
}

// scores turns iterations into replicates.
func scores(rec *results.Record, im *results.Imported, t task, iterations []object, totals object) ([]string, error) {
	inf := inferences(rec.Protocol)
	shares := map[string]bool{} // metric → its raw values are percents
	metrics := slices.Clone(t.metrics)
	values := make([]map[string]json.RawMessage, len(iterations))
	names := map[string]string{}
	for i, it := range iterations {
		values[i] = map[string]json.RawMessage{}
		for key, v := range it {
			name, ok := metricName(t, key, inf)
			var x scoring.Value
			switch err := x.UnmarshalJSON(v); {
			case !ok:
				continue
			case err != nil && (v[0] == '-' || '0' <= v[0] && v[0] <= '9'):
				return nil, fmt.Errorf("iteration %d: %s: %w", i+1, key, err)
			case err != nil:
				continue
			}
			values[i][name], names[name] = v, key
			delete(it, key)
		}
		if len(values[i]) == 0 {
			return nil, fmt.Errorf("iteration %d has no score", i+1)
		}
		if len(it) > 0 && im.Raw == nil {
			im.Raw = make([]map[string]json.RawMessage, len(iterations))
		}
	}
	for i, it := range iterations {
		if im.Raw != nil {
			im.Raw[i] = it
		}
	}
	var notes []string
	for _, name := range sortedKeys(names) {
		at := slices.IndexFunc(metrics, func(m scoring.Metric) bool { return m.Name == name })
		ratio := ratioOfTotal(values, name, totals[names[name]])
		switch {
		case at < 0: // a metric that bench does not know keeps the scale it has
			m := scoring.Metric{Name: name, Scale: 1, Hi: math.Inf(1)}
			if ratio == 100 {
				m.Scale = 100
			}
			metrics = append(metrics, m)
		case metrics[at].Scale == 100:
			shares[name] = ratio == 1 || ratio != 100 && t.percent
		}
	}
	for i := range iterations {
		r := results.Replicate{Seed: firstSeed + i, Scores: scoring.Scores{}}
		for name, text := range values[i] {
			v := scoring.Value{Undefined: unseen}
			if text[0] != '{' {
				places := 0
				if shares[name] {
					places = -2
				}
				x, err := shift(string(text), places)
				if err != nil {
					return nil, fmt.Errorf("iteration %d: %s: %w", i+1, name, err)
				}
				v = scoring.Num(x)
			}
			r.Scores[name] = v
		}
		rec.Replicates = append(rec.Replicates, r)
	}
	rec.Summarize(measured(metrics, names))
	for _, name := range sortedKeys(names) {
		s := rec.Summary[name]
		for key, v := range map[string]scoring.Value{names[name]: s.Mean, names[name] + "_se": s.HalfWidthZ} {
			b, ok := totals[key]
			if !ok {
				continue
			}
			if !agrees(b, v) {
				notes = append(notes, fmt.Sprintf("total %s is %.40s, but its iterations give %s", key, b, valueText(v)))
				continue
			}
			delete(totals, key)
		}
	}
	slices.Sort(notes)
	return notes, nil
}

// measured leaves out the metrics that no iteration has.
func measured(metrics []scoring.Metric, names map[string]string) []scoring.Metric {
	return slices.DeleteFunc(metrics, func(m scoring.Metric) bool { _, ok := names[m.Name]; return !ok })
}

// ratioOfTotal is 100 if the total is 100 times the mean of the iterations, 1
// if it is the mean, and 0 if neither can be said.
func ratioOfTotal(values []map[string]json.RawMessage, name string, total json.RawMessage) int {
	var x []float64
	for _, v := range values {
		if f, err := strconv.ParseFloat(string(v[name]), 64); err == nil {
			x = append(x, f)
		}
	}
	sum, err := strconv.ParseFloat(string(total), 64)
	if err != nil || len(x) == 0 {
		return 0
	}
	mean := stats.Mean(x)
	switch {
	case math.Abs(mean) < 1e-12:
		return 0
	case math.Abs(sum/mean-100) < 1e-3:
		return 100
	case math.Abs(sum/mean-1) < 1e-5:
		return 1
	}
	return 0
}

func agrees(b json.RawMessage, v scoring.Value) bool {
	x, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return v.Undefined != ""
	}
	return v.Undefined == "" && math.Abs(x-v.X) <= 1e-6*math.Max(1, math.Abs(v.X))
}

func valueText(v scoring.Value) string {
	if v.Undefined != "" {
		return "none"
	}
	return strconv.FormatFloat(v.X, 'g', 8, 64)
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
