package recipes

import (
	"fmt"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/raw"
)

func angryTweets() Recipe {
	const repository, commit = "ScandEval/ScandEval", "1fcc6c08"
	return Recipe{
		Name: "angry-tweets", Kind: datasets.Sentiment, Version: 1, Languages: []string{"da"},
		Licence:  "Twitter's developer policy; anonymised texts, not to be republished",
		Citation: "Pauli, Barrett, Lacroix and Hvingelby (2021): DaNLP: An open-source toolkit for Danish Natural Language Processing. NoDaLiDa 2021.",
		Homepage: "https://github.com/alexandrainst/danlp",
		Seed:     4242, Sizes: standard,
		Sources: []fetch.Source{
			github(repository, commit, "datasets/angry_tweets/train.jsonl", "029b9260ec584076ae43c4585dead369c5f6ea71"),
			github(repository, commit, "datasets/angry_tweets/test.jsonl", "9d03a8a1eaf694619a27688940b492079d6aaf47"),
		},
		Notes: []string{"all original test rows are test rows here, as in the published data; which training rows join them was never published and is drawn"},
		Make: func(in *Input) (*Output, error) {
			labels := map[string]string{"positiv": "positive", "neutral": "neutral", "negativ": "negative"}
			var parts [2][]datasets.Row
			for i, part := range []string{"train", "test"} {
				b, err := in.Read(i)
				if err != nil {
					return nil, err
				}
				lines, err := raw.ReadLines(b, in.Name(i))
				if err != nil {
					return nil, err
				}
				for _, l := range lines {
					var v struct{ Text, Label string }
					if err := l.Decode(in.Name(i), &v, true); err != nil {
						return nil, err
					}
					label, ok := labels[v.Label]
					if !ok {
						return nil, raw.Errorf(in.Name(i), l.Number, "unknown label %q", v.Label)
					}
					parts[i] = append(parts[i], datasets.Row{ID: fmt.Sprintf("%s-%d", part, l.Number), Text: v.Text, Label: label})
				}
			}
			return in.topUp(parts[0], parts[1])
		},
	}
}
