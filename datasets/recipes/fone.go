package recipes

import (
	"fmt"
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/raw"
)

func fone() Recipe {
	const page, commit, file = "https://huggingface.co/datasets/vesteinn/sosialurin-faroese-ner", "faf5f2d246d5d2a1db8acff8d3def391b2b807c9", "sosialurin.faroese.ner.train.txt"
	return Recipe{
		Name: "fone", Kind: datasets.NER, Version: 1, Languages: []string{"fo"}, Suite: Extra,
		Licence:  "CC BY 4.0",
		Citation: "Snæbjarnarson, Simonsen, Glavaš and Vulić (2023): Transfer to a Low-Resource Language via Close Relatives: The Case Study on Faroese. NoDaLiDa 2023.",
		Homepage: page,
		Seed:     4242, Sizes: standard,
		Sources: []fetch.Source{{
			URL:    page + "/resolve/" + commit + "/" + file,
			Manual: "get " + file + " from " + page + "/tree/" + commit,
		}},
		Notes: []string{
			"Date, Time, Money and Percent are no names",
			"sentences are drawn evenly, not those with names five times as often, as the benchmark does",
		},
		Make: func(in *Input) (*Output, error) {
			b, err := in.Read(0)
			if err != nil {
				return nil, err
			}
			blocks, err := raw.ReadColumns(b, in.Name(0))
			if err != nil {
				return nil, err
			}
			if len(blocks) == 0 {
				return nil, raw.Errorf(in.Name(0), 0, "no sentences in the file")
			}
			word, tag, err := tagColumn(blocks, in.Name(0))
			if err != nil {
				return nil, err
			}
			var rows []datasets.Row
			mended := 0
			for n, block := range blocks {
				row, k, err := tagged(block, in.Name(0), word, tag, icelandicTypes)
				if err != nil {
					return nil, err
				}
				mended += k
				row.ID = fmt.Sprintf("sosialurin-%d", n+1)
				rows = append(rows, row)
			}
			out, err := in.draw(rows, 0)
			return noteMended(out, mended), err
		},
	}
}

// tagColumn tells the columns of words and tags: the owner swapped them once.
func tagColumn(blocks []raw.Block, file string) (word, tag int, err error) {
	if n := len(blocks[0].Rows[0].Fields); n != 2 {
		return 0, 0, raw.Errorf(file, blocks[0].Line, "%d columns, where a word and its tag are wanted", n)
	}
	for _, b := range blocks {
		for _, r := range b.Rows {
			prefix, kind, _ := strings.Cut(r.Fields[0], "-")
			if _, known := icelandicTypes[kind]; r.Fields[0] != "O" && (!known || prefix != "B" && prefix != "I") {
				return 0, 1, nil
			}
		}
	}
	return 1, 0, nil
}
