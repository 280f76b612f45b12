package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bench/internal/ui"
	"bench/scoring/compare"
)

// versus is one pair of several models.
type versus struct {
	a, b   string
	pairs  []pair
	left   []unpaired
	report *compare.Report
}

// compareAll compares each of several models with each, under one protocol, and
// corrects over all pairs.
func (a *app) compareAll(ctx context.Context, names []string, f compareFlags) error {
	for i, n := range names {
		if slices.Contains(names[:i], n) {
			return usage("name each model once", "%s is named twice", n)
		}
	}
	recs, err := a.records()
	if err != nil {
		return err
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	models, err := candidates(recs, names, f)
	if err != nil {
		return err
	}
	if f.protocol == "" {
		f.protocol = commonProtocol(models)
	}
	var all []*versus
	var none error
	for i, one := range models {
		for _, other := range models[i+1:] {
			v := &versus{a: one.name, b: other.name}
			if v.pairs, v.left, err = pairsOf(one, other, f); err != nil {
				none = errors.Join(none, err)
				fmt.Fprintln(a.stderr, "bench: warning:", plain(strings.ReplaceAll(err.Error(), "\n  ", "; ")))
				continue
			}
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return none
	}
	e := newEstimator(ctx, home, f, func(model, dataset string) { fmt.Fprintf(a.stderr, "bench: %s: %s read\n", dataset, model) })
	var reports []*compare.Report
	for _, v := range all {
		if v.report, err = a.report(e, v.pairs, f); err != nil {
			return err
		}
		reports = append(reports, v.report)
	}
	compare.Correct(reports...)
	if a.json {
		for _, v := range all {
			if err := a.encodeComparison(*v, f); err != nil {
				return err
			}
		}
		return nil
	}
	a.compareAllText(names, all)
	if few := f.tooFew(reports...); few != "" {
		fmt.Fprintln(a.stdout, few)
	}
	return nil
}

// commonProtocol is the one under which most can be compared.
func commonProtocol(models []candidate) string {
	n := map[string]int{}
	for i, one := range models {
		for _, other := range models[i+1:] {
			for protocol, pairs := range paired(one, other) {
				n[protocol] += len(pairs)
			}
		}
	}
	best := ""
	for _, protocol := range slices.Sorted(maps.Keys(n)) {
		if n[protocol] > n[best] {
			best = protocol
		}
	}
	return best
}

func (a *app) compareAllText(names []string, all []*versus) {
	number := map[string]string{}
	for i, n := range names {
		number[n] = fmt.Sprint(i + 1)
		fmt.Fprintf(a.stdout, "%s %s\n", number[n], plain(n))
	}
	fmt.Fprintf(a.stdout, "protocol %s\n\n", all[0].pairs[0].a.Protocol)
	var rows [][]string
	differ := 0
	for _, v := range all {
		o := v.report.Overall
		interval, better := "", ""
		if o.Known {
			interval = fmt.Sprintf("%+.2f … %+.2f", o.Lo, o.Hi)
		}
		switch o.Better {
		case "a":
			better = number[v.a]
		case "b":
			better = number[v.b]
		}
		if better != "" {
			differ++
		}
		rows = append(rows, []string{
			number[v.a] + " − " + number[v.b], fmt.Sprintf("%.2f", o.A), fmt.Sprintf("%.2f", o.B), fmt.Sprintf("%+.2f", o.Difference), interval,
			pText(o.P), pText(o.Holm), better, fmt.Sprintf("%d/%d/%d", v.report.Better, v.report.Worse, v.report.Open),
		})
	}
	fmt.Fprintln(a.stdout, ui.Table([]string{"models", ">first", ">second", ">difference", "95 %", ">p", ">corrected", ">better", ">data sets"}, rows))
	fmt.Fprintf(a.stdout, "%d of %s differ overall (p corrected over all of them at most 0.05); data sets: first better/second better/not told apart\n", differ, plural(len(all), "pair"))
	left, scores, tests := map[string]int{}, 0, 0
	for _, v := range all {
		for _, l := range v.left {
			left[l.Dataset]++
		}
		for _, r := range v.report.Results {
			tests++
			if r.Basis != "predictions" {
				scores++
			}
		}
	}
	if scores > 0 {
		fmt.Fprintf(a.stdout, "note: in %d of %s only the recorded scores are compared, whose spread is that of the seeds\n", scores, plural(tests, "comparison"))
	}
	for _, set := range slices.Sorted(maps.Keys(left)) {
		fmt.Fprintf(a.stdout, "left out: %s in %d of %s\n", plain(set), left[set], plural(len(all), "pair"))
	}
}
