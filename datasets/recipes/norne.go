package recipes

import (
	"bench/datasets"
	"bench/datasets/fetch"
)

const norneCommit = "bd311de55b5a7fc1255aee7b088364f8271c2330"

// norneTypes maps NorNE's nine entity types to the benchmark's four.
var norneTypes = map[string]string{
	"PER": "PER", "LOC": "LOC", "ORG": "ORG", "MISC": "MISC",
	"GPE_LOC": "LOC", "GPE_ORG": "ORG", "PROD": "MISC", "DRV": "MISC", "EVT": "MISC",
}

func norneNB() Recipe {
	return norne("nb", 20045,
		github("ltgoslo/norne", norneCommit, "ud/nob/no_bokmaal-ud-train.conllu", ""),
		github("ltgoslo/norne", norneCommit, "ud/nob/no_bokmaal-ud-dev.conllu", "769fa9384db98ef5b76ed4d0b3f4225648dc37ab"),
		github("ltgoslo/norne", norneCommit, "ud/nob/no_bokmaal-ud-test.conllu", "94dfee157a993d79b2dd8aae530f684a0e138461"))
}

func norneNN() Recipe {
	return norne("nn", 17575,
		github("ltgoslo/norne", norneCommit, "ud/nno/no_nynorsk-ud-train.conllu", ""),
		github("ltgoslo/norne", norneCommit, "ud/nno/no_nynorsk-ud-dev.conllu", "84c428d878ec34925f44810cdbf741e9743a251e"),
		github("ltgoslo/norne", norneCommit, "ud/nno/no_nynorsk-ud-test.conllu", "2994be9b13ecbdc348db149184ee4d7ec1df853c"))
}

func norne(language string, base int, sources ...fetch.Source) Recipe {
	return Recipe{
		Name: "norne-" + language, Kind: datasets.NER, Version: 1, Languages: []string{language},
		Licence:  "CC0 1.0 (annotations); the texts may not be republished as stand-alone texts",
		Citation: "Jørgensen, Aasmoe, Husevåg, Øvrelid and Velldal (2020): NorNE: Annotating Named Entities for Norwegian. LREC 2020.",
		Homepage: "https://github.com/ltgoslo/norne",
		Seed:     4242, Sizes: standard, Base: base, Sources: sources,
		Make: func(in *Input) (*Output, error) {
			var rows []datasets.Row
			for i := range in.Files {
				if !in.Have(i) {
					continue
				}
				sentences, err := in.treebank(i)
				if err != nil {
					return nil, err
				}
				more, err := namedSentences(sentences, norneTypes)
				if err != nil {
					return nil, err
				}
				rows = append(rows, more...)
			}
			return in.draw(rows, len(rows))
		},
	}
}
