package recipes

import (
	"strings"

	"bench/datasets"
)

// speedText is what the reference system times models on: 2,600 characters,
// which most models cut off at their maximal length.
var speedText = strings.Repeat("This is a dummy document. ", 100)

// speed is no corpus: its one test row is the text that a model is timed on,
// once for each seed. The other splits hold it too, for models that make their
// vocabulary from the training rows. It belongs to no language, so to all.
func speed() Recipe {
	return Recipe{
		Name: "speed", Kind: datasets.Speed, Version: 1,
		Languages: []string{"da", "nb", "nn", "sv", "is", "fo"},
		Licence:   "CC0 1.0", Citation: "the speed benchmark of ScandEval 6 and 7",
		Sizes: Sizes{Train: 1, Val: 1, Test: 1},
		Notes: []string{"times depend on the machine: compare only those of one machine"},
		Make: func(*Input) (*Output, error) {
			rows := map[datasets.Split][]datasets.Row{}
			for _, s := range datasets.Splits {
				rows[s] = []datasets.Row{{ID: string(s), Text: speedText}}
			}
			return &Output{Rows: rows}, nil
		},
	}
}
