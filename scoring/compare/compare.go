// Package compare says whether two models differ, on each data set and overall.
package compare

import (
	"fmt"
	"math"

	"bench/scoring/stats"
)

// The methods. All of them test the difference of the models' mean scores over
// seeds on the whole test split.
const (
	Bootstrap     = "bootstrap"     // paired bootstrap over items and seeds
	Randomisation = "randomisation" // approximate randomisation over items and seeds
	Student       = "t"             // Student's t of the hierarchical error
)

// Methods lists them, the default first.
var Methods = []string{Bootstrap, Randomisation, Student}

// Input is two models on one data set.
type Input struct {
	Dataset, Task, Metric string
	Weight                float64 // in the overall score
	Scale                 float64 // from raw scores to those that people read

	// A and B are the recorded scores of the seeds, raw, each on its own sample of
	// the test split. They decide where there are no predictions.
	A, B []float64

	// Of are the models, estimated from their predictions on the same items by the
	// same resamples; nil: there are none, and Why says why.
	Of [2]*stats.Hierarchy
	// Pool mixes the predictions of the first seeds of both models, as many of
	// each as the one with fewer has; asked for with Randomisation alone.
	Pool func() (stats.Pool, error)
	Why  string
}

// Result is the comparison on one data set, on the scale that people read.
type Result struct {
	Dataset string  `json:"dataset"`
	Task    string  `json:"task"`
	Metric  string  `json:"metric"`
	Weight  float64 `json:"weight"`
	// Basis is "predictions" (items and seeds are sources of error, models are
	// compared item by item) or "scores" (Welch's t of the recorded scores: the
	// seeds alone).
	Basis  string  `json:"basis"`
	Why    string  `json:"why,omitempty"` // there are no predictions
	Method string  `json:"method"`
	SeedsA int     `json:"seeds_a"`
	SeedsB int     `json:"seeds_b"`
	Items  int     `json:"items,omitempty"`
	A      float64 `json:"a"`
	B      float64 `json:"b"`
	// HalfA and HalfB are those of the models' own hierarchical 95 % intervals,
	// over seeds and items; of recorded scores, over seeds.
	HalfA      *float64 `json:"half_width_a,omitempty"`
	HalfB      *float64 `json:"half_width_b,omitempty"`
	Difference float64  `json:"difference"` // A − B
	SE         float64  `json:"se"`
	Known      bool     `json:"interval"` // lo and hi are an interval: the error is known
	Lo         float64  `json:"lo"`
	Hi         float64  `json:"hi"`
	P          float64  `json:"p"`
	Holm       float64  `json:"p_holm"`
	Bonferroni float64  `json:"p_bonferroni"`
	Better     string   `json:"better"` // "a", "b", or "" if they cannot be told apart
	// Needed is what a true difference of this size would take to be found in
	// four cases of five.
	Needed stats.Plan `json:"needed"`

	estimate stats.Estimate
}

// Report is the whole comparison.
type Report struct {
	Results []Result `json:"datasets"`
	// Overall is the difference of the weighted means of all data sets, with the
	// propagated error and Student's t.
	Overall Result `json:"overall"`
	Better  int    `json:"a_better"` // data sets, after Holm's correction
	Worse   int    `json:"b_better"`
	Open    int    `json:"open"`
}

// Alpha is the level of the tests.
const Alpha = 1 - stats.Level

// Models compares two models on several data sets. A method for which a data set
// has no predictions falls back to the recorded scores there. o is for the
// randomisation; the bootstrap has been drawn with the estimates.
func Models(in []Input, method string, o stats.Resampling) (*Report, error) {
	r := &Report{}
	var w []float64
	var e []stats.Estimate
	for _, i := range in {
		var one Result
		var err error
		if i.Of[0] != nil {
			one, err = byPredictions(i, method, o)
		} else {
			one, err = byScores(i)
		}
		if err != nil {
			return nil, fmt.Errorf("data set %s: %w", i.Dataset, err)
		}
		r.Results = append(r.Results, one)
		w, e = append(w, i.Weight), append(e, one.estimate)
	}
	all := Result{Dataset: "overall", Basis: "data sets", Method: Student}
	for _, one := range r.Results {
		all.Weight += one.Weight
		all.A += one.Weight * one.A
		all.B += one.Weight * one.B
	}
	all.set(stats.Combine(w, e))
	r.Overall = all
	Correct(r)
	return r, nil
}

// Correct corrects the p-values of several comparisons together, those of all
// data sets of all reports and those of all overall differences, and says anew
// who is better.
func Correct(reports ...*Report) {
	var sets, overall []*Result
	for _, r := range reports {
		overall = append(overall, &r.Overall)
		for k := range r.Results {
			sets = append(sets, &r.Results[k])
		}
	}
	for _, tests := range [][]*Result{sets, overall} {
		var p []float64
		for _, t := range tests {
			p = append(p, t.P)
		}
		holm, bonferroni := stats.Holm(p), stats.Bonferroni(p)
		for k, t := range tests {
			t.Holm, t.Bonferroni = holm[k], bonferroni[k]
			t.Better = winner(t.Difference, t.Holm)
		}
	}
	for _, r := range reports {
		r.Better, r.Worse, r.Open = 0, 0, 0
		for _, one := range r.Results {
			switch one.Better {
			case "a":
				r.Better++
			case "b":
				r.Worse++
			default:
				r.Open++
			}
		}
	}
}

func winner(difference, p float64) string {
	switch {
	case p > Alpha || difference == 0:
		return ""
	case difference > 0:
		return "a"
	}
	return "b"
}

// set fills in what follows from an estimate of the difference.
func (r *Result) set(e stats.Estimate) {
	r.estimate = e
	r.Difference, r.SE, r.P = e.Mean, e.SE, e.P()
	if half, ok := e.HalfWidth(); ok {
		r.Known, r.Lo, r.Hi = true, e.Mean-half, e.Mean+half
	}
}

func byPredictions(i Input, method string, o stats.Resampling) (Result, error) {
	a, b := i.Of[0], i.Of[1]
	out := Result{
		Dataset: i.Dataset, Task: i.Task, Metric: i.Metric, Weight: i.Weight, Basis: "predictions", Method: method,
		SeedsA: a.Runs, SeedsB: b.Runs, Items: a.Items,
	}
	c, err := stats.Versus(a, b)
	if err != nil {
		return out, err
	}
	out.set(scaled(c.Estimate, i.Scale))
	out.A, out.B = c.A.Mean*i.Scale, c.B.Mean*i.Scale
	out.HalfA, out.HalfB = half(c.A.Estimate, i.Scale), half(c.B.Estimate, i.Scale)
	out.Needed = c.PlanFor()
	switch method {
	case Bootstrap:
		out.Lo, out.Hi, out.P = c.Lo*i.Scale, c.Hi*i.Scale, c.PBootstrap
	case Randomisation:
		pool, err := i.Pool()
		if err != nil {
			return out, err
		}
		if out.P, err = stats.Randomise(pool, min(a.Runs, b.Runs), a.Items, o); err != nil {
			return out, err
		}
	}
	return out, nil
}

func byScores(i Input) (Result, error) {
	out := Result{
		Dataset: i.Dataset, Task: i.Task, Metric: i.Metric, Weight: i.Weight, Basis: "scores", Why: i.Why, Method: Student,
		SeedsA: len(i.A), SeedsB: len(i.B),
	}
	if len(i.A) == 0 || len(i.B) == 0 {
		return out, fmt.Errorf("a model has no score")
	}
	a, b := stats.Of(i.A), stats.Of(i.B)
	d := stats.Difference(a, b)
	out.set(scaled(d, i.Scale))
	out.A, out.B = a.Mean*i.Scale, b.Mean*i.Scale
	out.HalfA, out.HalfB = half(a, i.Scale), half(b, i.Scale)
	seeds := stats.Comparison{
		Estimate: d,
		A:        &stats.Hierarchy{Runs: len(i.A), SeedVar: a.SE * a.SE * float64(len(i.A))},
		B:        &stats.Hierarchy{Runs: len(i.B), SeedVar: b.SE * b.SE * float64(len(i.B))},
	}
	if d.DF > 0 && d.Mean != 0 {
		out.Needed.Seeds = seeds.PlanFor().Seeds
	}
	return out, nil
}

func scaled(e stats.Estimate, by float64) stats.Estimate {
	e.Mean *= by
	e.SE *= math.Abs(by)
	return e
}

func half(e stats.Estimate, scale float64) *float64 {
	h, ok := e.HalfWidth()
	if !ok {
		return nil
	}
	h *= scale
	return &h
}
