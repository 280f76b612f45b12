package main

import (
	"fmt"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/profile"
	"bench/internal/ui"
)

// showProfile prints the statistics of a built data set, and a plot.
func (a *app) showProfile(d *datasets.Dataset) error {
	p, err := profile.Of(d)
	if err != nil {
		return err
	}
	if a.json {
		return a.encode("profile", p)
	}
	fmt.Fprintln(a.stdout)
	header := []string{"split", ">rows", ">repeats", ">contradictions", ">words: min", ">median", ">95 %", ">max", ">mean", "1, 2–3, 4–7, …"}
	var rows [][]string
	var words []profile.Lengths
	for _, s := range p.Splits {
		w := s.Words
		words = append(words, w)
		rows = append(rows, []string{
			string(s.Name), fmt.Sprint(s.Rows), fmt.Sprint(s.Repeats), fmt.Sprint(s.Contradictions),
			fmt.Sprint(w.Min), fmt.Sprint(w.Median), fmt.Sprint(w.P95), fmt.Sprint(w.Max), fmt.Sprintf("%.1f", w.Mean), strings.TrimRight(profile.Spark(w.Histogram[min(1, len(w.Histogram)):]), " "),
		})
	}
	fmt.Fprint(a.stdout, ui.Table(header, rows))
	fmt.Fprintln(a.stdout)
	for _, o := range p.Overlap {
		text := fmt.Sprintf("%s in %s: %d of %d rows", o.Of, o.In, o.Rows, rowsOf(p, o.Of))
		if o.Rows > 0 {
			text += fmt.Sprintf(", %d with the same label", o.SameLabel)
		}
		if o.Contexts > o.Rows {
			text += fmt.Sprintf("; %d questions about a context that is in both", o.Contexts)
		}
		fmt.Fprintf(a.stdout, "%-10s %s\n", "overlap", text)
	}
	what := "words in a row"
	if d.Kind == datasets.QA {
		what = "words in a context"
	}
	fmt.Fprintf(a.stdout, "\n%s, all splits\n", what)
	for _, l := range profile.Plot(together(words), 40) {
		fmt.Fprintln(a.stdout, l)
	}
	return nil
}

func rowsOf(p profile.Profile, s datasets.Split) int {
	i := slices.IndexFunc(p.Splits, func(x profile.Split) bool { return x.Name == s })
	return p.Splits[i].Rows
}

// together adds histograms; the other fields stay empty.
func together(all []profile.Lengths) profile.Lengths {
	var sum profile.Lengths
	for _, l := range all {
		for bin, n := range l.Histogram {
			if bin == len(sum.Histogram) {
				sum.Histogram = append(sum.Histogram, 0)
			}
			sum.Histogram[bin] += n
		}
	}
	return sum
}
