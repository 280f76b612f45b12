package recipes

import (
	"fmt"
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/raw"
	"bench/datasets/split"
)

func norec() Recipe {
	const repository, commit = "ltgoslo/norec_sentence", "7918ed9b9811436a26fde1210c057fe73841f043"
	return Recipe{
		Name: "norec", Kind: datasets.Sentiment, Version: 1, Languages: []string{"nb", "nn"},
		Licence:  "CC BY-NC 4.0",
		Citation: "Øvrelid, Mæhlum, Barnes and Velldal (2020): A Fine-Grained Sentiment Dataset for Norwegian. LREC 2020.",
		Homepage: "https://github.com/ltgoslo/norec_sentence",
		Seed:     4242, Sizes: standard,
		Sources: []fetch.Source{
			github(repository, commit, "3class/train.json", "0bb0443b5f531b93b74b838024d0c1e2e5191920"),
			github(repository, commit, "3class/dev.json", "4dc251c4056b0ad219a958b68f1eca8ff3b0b3e4"),
			github(repository, commit, "3class/test.json", "ac0b1db5f136f66f8edf1263baeec76e24c46315"),
		},
		Notes: []string{
			"sentences of reviews, not whole reviews: what the benchmark calls NoReC is the three-class NoReC_sentence",
			"how the published splits were drawn is not known: here train is drawn from the original train rows; test is the original test rows and whole reviews of the original dev rows; val is drawn from the other reviews of dev, so that no review is in two splits",
		},
		Make: func(in *Input) (*Output, error) {
			var parts [3][]datasets.Row
			for i := range parts {
				rows, err := norecRows(in, i)
				if err != nil {
					return nil, err
				}
				parts[i] = rows
			}
			size := in.Recipe.Sizes
			drawn, err := split.Sample(len(parts[0]), size.Train, in.Recipe.Seed)
			if err != nil {
				return nil, fmt.Errorf("train drawn from the %d rows of %s: %w", len(parts[0]), in.Name(0), err)
			}
			train := pick(parts[0], drawn)
			test, rest := reviews(parts[1], size.Test-len(parts[2]), in.Recipe.Seed)
			if drawn, err = split.Sample(len(rest), size.Val, in.Recipe.Seed); err != nil {
				return nil, fmt.Errorf("val drawn from the %d rows of %s that are not in test: %w", len(rest), in.Name(1), err)
			}
			return &Output{
				Rows: map[datasets.Split][]datasets.Row{
					datasets.Train: train, datasets.Val: pick(rest, drawn), datasets.Test: append(parts[2], test...),
				},
			}, nil
		},
	}
}

func norecRows(in *Input, i int) ([]datasets.Row, error) {
	type sentence struct {
		ID    string `json:"sent_id"`
		Text  string `json:"text"`
		Label string `json:"label"`
	}
	b, err := in.Read(i)
	if err != nil {
		return nil, err
	}
	sentences, lines, err := raw.ReadArray[sentence](b, in.Name(i))
	if err != nil {
		return nil, err
	}
	var rows []datasets.Row
	for k, s := range sentences {
		switch s.Label {
		case "Positive", "Neutral", "Negative":
		default:
			return nil, raw.Errorf(in.Name(i), lines[k], "unknown label %q", s.Label)
		}
		rows = append(rows, datasets.Row{ID: s.ID, Text: s.Text, Label: strings.ToLower(s.Label)})
	}
	return rows, nil
}

// reviews draws whole reviews until they have n sentences, the last one cut to
// fit; rest are the sentences of the reviews that were not drawn. The review of
// a sentence is the first part of its id.
func reviews(rows []datasets.Row, n int, seed uint32) (drawn, rest []datasets.Row) {
	var names []string
	of := map[string][]datasets.Row{}
	for _, r := range rows {
		name, _, _ := strings.Cut(r.ID, "-")
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], r)
	}
	for _, k := range split.NewRandomState(seed).Permutation(len(names)) {
		review := of[names[k]]
		if len(drawn) < n {
			drawn = append(drawn, review[:min(len(review), n-len(drawn))]...)
		} else {
			rest = append(rest, review...)
		}
	}
	return drawn, rest
}
