// Package transfer measures how well models of some languages do in others: the
// F-statistics of groups of languages, as in the ScandEval paper.
package transfer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// Table holds the score of one model for each language, in other languages.
type Table struct {
	Models  []string    `json:"models"`  // the language that each model was made for
	Columns []string    `json:"columns"` // the languages that were measured
	Scores  [][]float64 `json:"scores"`  // [model][column], in percent
}

// Group is the test of one group of languages.
type Group struct {
	Languages []string `json:"languages"`
	// F is the mean of the F-statistics of the group's columns.
	F float64 `json:"f"`
	// Columns has one for each language of the group, in its order.
	Columns []Column `json:"columns"`
}

// Name joins the languages, as da+no+sv.
func (g Group) Name() string { return strings.Join(g.Languages, "+") }

// Column is the analysis of variance of one column: the models whose language
// is in the group against the others.
type Column struct {
	Language string  `json:"language"`
	F        float64 `json:"f"`
	// P of F with 1 and N−2 degrees of freedom, if the scores were independent
	// and normal.
	P       float64 `json:"p"`
	Inside  float64 `json:"mean_inside"`  // mean of the models of the group
	Outside float64 `json:"mean_outside"` // mean of the others
}

// UndefinedError says that a group has no F-statistic.
type UndefinedError struct{ Group, Language, Problem string }

func (e *UndefinedError) Error() string {
	return fmt.Sprintf("group %s, column %s: %s", e.Group, e.Language, e.Problem)
}

// Read reads a table: a first line "model_language" and the columns' languages,
// then one line for each model, its language and its scores.
func Read(r io.Reader, name string) (*Table, error) {
	c := csv.NewReader(r)
	c.TrimLeadingSpace = true
	lines, err := c.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(lines) < 2 || len(lines[0]) < 2 {
		return nil, fmt.Errorf("%s: a table has a line with the languages of the columns and one for each model", name)
	}
	t := &Table{Columns: lines[0][1:]}
	var errs []error
	for i, l := range lines[1:] {
		if slices.Contains(t.Models, l[0]) {
			errs = append(errs, fmt.Errorf("%s:%d: a second model for %q", name, i+2, l[0]))
		}
		t.Models = append(t.Models, l[0])
		row := make([]float64, len(t.Columns))
		for j, s := range l[1:] {
			x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
			if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
				errs = append(errs, fmt.Errorf("%s:%d: %q in column %s is not a score", name, i+2, s, t.Columns[j]))
			}
			row[j] = x
		}
		t.Scores = append(t.Scores, row)
	}
	for j, l := range t.Columns {
		if slices.Index(t.Columns, l) != j {
			errs = append(errs, fmt.Errorf("%s:1: column %s is there twice", name, l))
		}
	}
	return t, errors.Join(errs...)
}

// F returns the F-statistic of one column for a group: the N scores of the
// column fall into those of models whose language is in the group and the rest,
// and
//
//	F = (SS_between / 1) / (SS_within / (N−2))
//
// Both parts must hold a model, and N must be 3 at least. F is +Inf if no score
// differs from the mean of its part.
func (t *Table) F(group []string, column int) (Column, error) {
	out := Column{Language: t.Columns[column]}
	var in, rest []float64
	for i, l := range t.Models {
		if slices.Contains(group, l) {
			in = append(in, t.Scores[i][column])
		} else {
			rest = append(rest, t.Scores[i][column])
		}
	}
	fail := func(problem string) (Column, error) {
		return out, &UndefinedError{strings.Join(group, "+"), out.Language, problem}
	}
	n := len(t.Models)
	switch {
	case len(in) == 0:
		return fail("no model is of its languages")
	case len(rest) == 0:
		return fail("all models are of its languages")
	case n < 3:
		return fail("three models are needed at least")
	}
	mean := func(x []float64) float64 {
		s := 0.0
		for _, v := range x {
			s += v
		}
		return s / float64(len(x))
	}
	out.Inside, out.Outside = mean(in), mean(rest)
	all := (out.Inside*float64(len(in)) + out.Outside*float64(len(rest))) / float64(n)
	between := float64(len(in))*(out.Inside-all)*(out.Inside-all) + float64(len(rest))*(out.Outside-all)*(out.Outside-all)
	within := 0.0
	for _, v := range in {
		within += (v - out.Inside) * (v - out.Inside)
	}
	for _, v := range rest {
		within += (v - out.Outside) * (v - out.Outside)
	}
	df := float64(n - 2)
	switch {
	case between == 0:
		out.F, out.P = 0, 1
	case within == 0:
		return fail("the scores within its two parts are all equal, so that F is infinite")
	default:
		out.F = between / (within / df)
		out.P = distuv.F{D1: 1, D2: df}.Survival(out.F)
	}
	return out, nil
}

// Groups tests every group of two languages or more of the columns: the pairs
// first, in the order of the columns. Groups without an F-statistic are left
// out and told in undefined.
func (t *Table) Groups() (groups []Group, undefined []error) {
	var masks []uint
	for m := uint(0); m < 1<<len(t.Columns); m++ {
		if len(t.pick(m)) >= 2 {
			masks = append(masks, m)
		}
	}
	slices.SortFunc(masks, func(a, b uint) int {
		x, y := t.pick(a), t.pick(b)
		if d := len(x) - len(y); d != 0 {
			return d
		}
		return slices.Compare(x, y)
	})
next:
	for _, m := range masks {
		var g Group
		picked := t.pick(m)
		for _, i := range picked {
			g.Languages = append(g.Languages, t.Columns[i])
		}
		for _, i := range picked {
			c, err := t.F(g.Languages, i)
			if err != nil {
				undefined = append(undefined, err)
				continue next
			}
			g.Columns = append(g.Columns, c)
			g.F += c.F / float64(len(picked))
		}
		groups = append(groups, g)
	}
	return groups, undefined
}

// pick returns the columns of a set.
func (t *Table) pick(set uint) []int {
	var out []int
	for i := range t.Columns {
		if set&(1<<i) != 0 {
			out = append(out, i)
		}
	}
	return out
}

// Best returns the group with the highest F, the first one of equals. groups
// must not be empty.
func Best(groups []Group) Group {
	best := groups[0]
	for _, g := range groups[1:] {
		if g.F > best.F {
			best = g
		}
	}
	return best
}
