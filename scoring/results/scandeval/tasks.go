// Package scandeval reads and writes the result files of ScandEval and of its
// successor EuroEval: the JSON lines of ScandEval 5 to 16, with the raw scores
// under a split or as a flat list, and EuroEval's "Every Eval Ever" records.
//
// Nothing of a file is dropped in silence: what a results.Record has no place
// for is kept in its Imported part, and Report counts every line by its kind.
package scandeval

import (
	"fmt"
	"strconv"
	"strings"

	"bench/scoring"
)

// The layouts, as results.Imported.Format names them.
const (
	Nested = "scandeval"      // results.raw.test, dataset_languages
	Flat   = "scandeval-flat" // results.raw is the list, languages
	EEE    = "eee"            // Every Eval Ever 0.2.1
)

// unseen is why a NaN of a file has no value.
const unseen = "NaN in the source"

// task pairs the reference's name of a task with ours.
type task struct {
	theirs, ours string
	percent      bool // its raw scores are percents, not shares
	metrics      []scoring.Metric
}

var known = []task{
	{"named-entity-recognition", "ner", false, []scoring.Metric{
		{Name: "micro_f1", Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "micro_f1_no_misc", Hi: 1, Scale: 100, ZeroIsChance: true}}},
	{"sentiment-classification", "sentiment", false, []scoring.Metric{
		{Name: "mcc", Lo: -1, Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "macro_f1", Hi: 1, Scale: 100}}},
	{"linguistic-acceptability", "acceptability", false, []scoring.Metric{
		{Name: "mcc", Lo: -1, Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "macro_f1", Hi: 1, Scale: 100}}},
	{"question-answering", "qa", true, []scoring.Metric{
		{Name: "em", Hi: 1, Scale: 100, ZeroIsChance: true}, {Name: "f1", Hi: 1, Scale: 100, ZeroIsChance: true}}},
	{"speed", "speed", false, []scoring.Metric{
		{Name: "inferences_per_second", Scale: 1}, {Name: "tokens_per_second", Scale: 1}, {Name: "tokens_per_second_short", Scale: 1}}},
}

// lookup finds a task by its foreign name. Question answering is called reading
// comprehension since ScandEval 13.
func lookup(theirs string) (task, bool) {
	if theirs == "reading-comprehension" {
		theirs = "question-answering"
	}
	for _, t := range known {
		if t.theirs == theirs {
			return t, true
		}
	}
	return task{theirs: theirs, ours: theirs}, false
}

// foreign finds a task by our name.
func foreign(ours string) task {
	for _, t := range known {
		if t.ours == ours {
			return t
		}
	}
	return task{theirs: ours, ours: ours}
}

// metricName turns the name of a raw value into that of a metric; false if it
// is no score. Until ScandEval 7 speed was measured in inferences, later in tokens.
func metricName(t task, key string, inferences bool) (string, bool) {
	name, ok := strings.CutPrefix(key, "test_")
	if !ok {
		return "", false
	}
	switch name {
	case "loss", "runtime", "samples_per_second", "steps_per_second":
		return "", false
	}
	if t.ours == "speed" {
		switch {
		case name == "speed" && inferences:
			return "inferences_per_second", true
		case name == "speed":
			return "tokens_per_second", true
		case name == "speed_short":
			return "tokens_per_second_short", true
		}
	}
	return name, true
}

// rawName is the inverse of metricName.
func rawName(t task, metric string, inferences bool) (string, bool) {
	if t.ours == "speed" {
		switch {
		case metric == "inferences_per_second", metric == "tokens_per_second" && !inferences:
			return "test_speed", true
		case metric == "tokens_per_second_short":
			return "test_speed_short", true
		}
		return "", false // both cannot be told apart in this layout
	}
	return "test_" + metric, true
}

// shift reads text, a JSON number, times 10^places. It moves the decimal point,
// so that a number and its hundredth go to and fro without a rounding.
func shift(text string, places int) (float64, error) {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if ok {
		e, err := strconv.Atoi(exponent)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", text)
		}
		places += e
	}
	x, err := strconv.ParseFloat(mantissa+"e"+strconv.Itoa(places), 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number in the range of float64", text)
	}
	return x, nil
}

// percentText writes the share x as a percentage that shift(…, −2) reads as x.
func percentText(x float64) string {
	short := strconv.FormatFloat(x*100, 'g', -1, 64)
	if back, err := shift(short, -2); err == nil && back == x {
		return short
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	e, err := strconv.Atoi(exponent)
	if err != nil {
		return short // not a finite number; such scores are never written
	}
	return mantissa + "e" + strconv.Itoa(e+2)
}
