package recipes

import (
	"bytes"

	"bench/datasets"
	"bench/datasets/fetch"
)

func dane() Recipe {
	return Recipe{
		Name: "dane", Kind: datasets.NER, Version: 1, Languages: []string{"da"},
		Licence:  "CC BY-SA 4.0",
		Citation: "Hvingelby, Pauli, Barrett, Rosted, Lidegaard and Søgaard (2020): DaNE: A Named Entity Resource for Danish. LREC 2020.",
		Homepage: "https://github.com/alexandrainst/danlp",
		Seed:     4242, Sizes: standard,
		Sources: []fetch.Source{{URL: "https://danlp-downloads.alexandra.dk/datasets/ddt.zip"}},
		Make: func(in *Input) (*Output, error) {
			types := map[string]string{"PER": "PER", "LOC": "LOC", "ORG": "ORG", "MISC": "MISC"}
			var rows []datasets.Row
			for _, part := range []string{"train", "dev", "test"} {
				b, file, err := in.unzip(0, "ddt."+part+".conllu")
				if err != nil {
					return nil, err
				}
				all, err := sentences(bytes.NewReader(b), file)
				if err != nil {
					return nil, err
				}
				more, err := namedSentences(all, types)
				if err != nil {
					return nil, err
				}
				rows = append(rows, more...)
			}
			return in.draw(rows, 0)
		},
	}
}
