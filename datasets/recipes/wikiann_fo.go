package recipes

import (
	"fmt"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/raw"
)

func wikiannFO() Recipe {
	const repository, commit = "ScandEval/ScandEval", "528cf260"
	return Recipe{
		Name: "wikiann-fo", Kind: datasets.NER, Version: 1, Languages: []string{"fo"},
		Licence:  "none named; derived from Wikipedia (CC BY-SA)",
		Citation: "Pan, Zhang, May, Nothman, Knight and Ji (2017): Cross-lingual Name Tagging and Linking for 282 Languages. ACL 2017.",
		Homepage: "https://github.com/ScandEval/ScandEval",
		Seed:     4242, Sizes: standard,
		Sources: []fetch.Source{
			github(repository, commit, "datasets/wikiann-fo/train.jsonl", "0db202478276fc89072cd2e11375077df82e889f"),
			github(repository, commit, "datasets/wikiann-fo/test.jsonl", "ce948670201b6506f9ab2287585fb7a7938b98f0"),
		},
		Notes: []string{
			"labels are automatic, not corrected by people; there is no MISC",
			"how the published splits were drawn is not known: all original test rows are test rows here, the rest is drawn",
			"the text of a row is its tokens with blanks between them: the source's own text ends in a control character in place of the full stop",
		},
		Make: func(in *Input) (*Output, error) {
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
					var v struct {
						Doc    string   `json:"doc"`
						Tokens []string `json:"tokens"`
						Tags   []string `json:"ner_tags"`
					}
					if err := l.Decode(in.Name(i), &v, true); err != nil {
						return nil, err
					}
					if len(v.Tokens) != len(v.Tags) {
						return nil, raw.Errorf(in.Name(i), l.Number, "%d tags for %d tokens", len(v.Tags), len(v.Tokens))
					}
					for _, tag := range v.Tags {
						if !slices.Contains([]string{"O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"}, tag) {
							return nil, raw.Errorf(in.Name(i), l.Number, "unknown tag %q", tag)
						}
					}
					if len(v.Tokens) == 0 { // there is one such row, and nothing to learn from it
						continue
					}
					parts[i] = append(parts[i], datasets.Row{
						ID: fmt.Sprintf("%s-%d", part, l.Number), Tokens: v.Tokens, Labels: v.Tags, Text: strings.Join(v.Tokens, " "),
					})
				}
			}
			return in.topUp(parts[0], parts[1])
		},
	}
}
