package recipes

import "bench/datasets"

func xquadEN() Recipe { return xquad("en", "cc0e3e8b94910097d29d2e9df5f266e1b30b2810") }
func xquadDE() Recipe { return xquad("de", "ad18712bf213f26e1ac086d98b23a0d866665bfc") }

func xquad(language, blob string) Recipe {
	r := Recipe{
		Name: "xquad-" + language, Kind: datasets.QA, Version: 1, Languages: []string{language}, Suite: Extra,
		Licence:  "CC BY-SA 4.0",
		Citation: "Artetxe, Ruder and Yogatama (2020): On the Cross-lingual Transferability of Monolingual Representations. ACL 2020.",
		Homepage: "https://github.com/google-deepmind/xquad",
		Seed:     4242, Sizes: Sizes{Train: 512, Val: 128, Test: 512},
		Notes: []string{"the source has 1,190 questions and no splits; here no paragraph is in two splits, and the languages are split alike"},
		Make: func(in *Input) (*Output, error) {
			rows, err := in.squadRows(0)
			if err != nil {
				return nil, err
			}
			return in.drawContexts(rows), nil
		},
	}
	r.Sources = append(r.Sources, github("google-deepmind/xquad", "7d30520c717524000f0d9d2f9c10a069acd9d285", "xquad."+language+".json", blob))
	return r
}
