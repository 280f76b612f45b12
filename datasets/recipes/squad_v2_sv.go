package recipes

import (
	"bench/datasets"
	"bench/datasets/fetch"
)

func squadV2SV() Recipe {
	const repository, commit = "susumu2357/SQuAD_v2_sv", "4bbd3fd1402798c16dfb08ccc3bb49bd445cce95"
	return Recipe{
		Name: "squad-v2-sv", Kind: datasets.QA, Version: 1, Languages: []string{"sv"}, Suite: Extra,
		Licence:  "Apache 2.0; the questions CC BY-SA 4.0",
		Citation: "Rajpurkar, Jia and Liang (2018): Know What You Don't Know: Unanswerable Questions for SQuAD. ACL 2018. Swedish translation by machine: Okazawa (2021), SQuAD_v2_sv.",
		Homepage: "https://github.com/" + repository,
		Seed:     4242, Sizes: standard,
		Sources: []fetch.Source{github(repository, commit, "data/squad_dev_v2_sv.json", "2c9ee26427741fbfffeffd4899556f1231c48810")},
		Notes: []string{
			"translated by machine; about half of the questions have no answer in their paragraph",
			"drawn from the source's 11,156 development questions; no paragraph is in two splits",
		},
		Make: func(in *Input) (*Output, error) {
			rows, err := in.squadRows(0)
			if err != nil {
				return nil, err
			}
			return in.drawContexts(rows), nil
		},
	}
}
