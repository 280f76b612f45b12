package recipes

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/raw"
	"bench/datasets/split"
)

func swerec() Recipe {
	return Recipe{
		Name: "swerec", Kind: datasets.Sentiment, Version: 1, Languages: []string{"sv"},
		Licence:  "none stated by the source; not to be republished",
		Citation: "Svensson (2017): Sentiment Analysis With Convolutional Neural Networks: Classifying sentiment in Swedish reviews. Linnaeus University.",
		Homepage: "https://github.com/stoffesvensson/DeepLearning-ThesisWork-Convolutional",
		Seed:     4242, Sizes: standard,
		Sources: []fetch.Source{
			github("stoffesvensson/DeepLearning-ThesisWork-Convolutional", "f55db8ae82fa31ec87c3b924768e7fccbf86847d", "webscraper/datasetSameAmountPosNeg", "2ab4b32e46b0e31e8f4d557ad36d1c770e26b437"),
		},
		Notes: []string{
			"all letters but the first of a text are small, as in the source and the published data",
			"three reviews without text, one of each label, are kept because the published splits are drawn with them",
		},
		Make: func(in *Input) (*Output, error) {
			rows, err := swerecRows(in)
			if err != nil {
				return nil, err
			}
			// 2,304 rows are held out and split into val and test; train is drawn
			// from the others. All three draws keep the shares of the labels.
			size, seed := in.Recipe.Sizes, in.Recipe.Seed
			rest, held, err := stratified(rows, len(rows)-size.Val-size.Test, size.Val+size.Test, seed)
			if err != nil {
				return nil, fmt.Errorf("train, val and test drawn from the %d rows of %s: %w", len(rows), in.Name(0), err)
			}
			val, test, err := stratified(held, size.Val, size.Test, seed)
			if err != nil {
				return nil, fmt.Errorf("train, val and test drawn from the %d rows of %s: %w", len(rows), in.Name(0), err)
			}
			_, train, err := stratified(rest, len(rest)-size.Train, size.Train, seed)
			if err != nil {
				return nil, fmt.Errorf("train, val and test drawn from the %d rows of %s: %w", len(rows), in.Name(0), err)
			}
			return &Output{
				Rows: map[datasets.Split][]datasets.Row{datasets.Train: train, datasets.Val: val, datasets.Test: test},
			}, nil
		},
	}
}

// swerecRows returns the reviews without exact repeats.
func swerecRows(in *Input) (rows []datasets.Row, err error) {
	b, err := in.Read(0)
	if err != nil {
		return nil, err
	}
	// Lines end in CR CR LF, and a review has a CR inside.
	table, err := raw.ReadTable(bytes.ReplaceAll(b, []byte("\r"), nil), in.Name(0), ',')
	if err != nil {
		return nil, err
	}
	var at [3]int
	for i, column := range []string{"index", "text", "rating"} {
		if at[i], err = table.Column(column); err != nil {
			return nil, err
		}
	}
	type content struct{ text, label string }
	seen := map[content]bool{}
	for _, r := range table.Rows {
		c := content{capitalize(strings.TrimSpace(r.Values[at[1]])), r.Values[at[2]]}
		switch c.label {
		case "positive", "neutral", "negative":
		default:
			return nil, raw.Errorf(in.Name(0), r.Line, "unknown rating %q", c.label)
		}
		if seen[c] {
			continue
		}
		seen[c] = true
		rows = append(rows, datasets.Row{ID: fmt.Sprintf("review-%s", r.Values[at[0]]), Text: c.text, Label: c.label})
	}
	return rows, nil
}

// capitalize is Python's str.capitalize: the first character in title case, the
// others in lower case.
func capitalize(s string) string {
	if s == "" {
		return s
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToTitle(r)) + strings.ToLower(s[n:])
}

// stratified is split.Stratified on rows by their label.
func stratified(rows []datasets.Row, first, second int, seed uint32) (a, b []datasets.Row, err error) {
	labels := make([]string, len(rows))
	for i, r := range rows {
		labels[i] = r.Label
	}
	x, y, err := split.Stratified(labels, first, second, seed)
	if err != nil {
		return nil, nil, err
	}
	return pick(rows, x), pick(rows, y), nil
}
