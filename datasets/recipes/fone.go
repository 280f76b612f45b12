package recipes

import (
	"fmt"
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/raw"
	"bench/datasets/split"
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
			"as in the benchmark, sentences with names are drawn five times as often as others, so that splits have more names than the corpus",
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
			var weights []float64
			mended := 0
			for n, block := range blocks {
				row, k, err := tagged(block, in.Name(0), word, tag, icelandicTypes)
				if err != nil {
					return nil, err
				}
				mended += k
				row.ID = fmt.Sprintf("sosialurin-%d", n+1)
				rows, weights = append(rows, row), append(weights, foneWeight(block, tag))
			}
			size := in.Recipe.Sizes
			parts, _, err := split.ChainWeighted(weights, in.Recipe.Seed, size.Val, size.Test, size.Train)
			if err != nil {
				return nil, fmt.Errorf("val, test and train drawn from %d rows: %w", len(rows), err)
			}
			return noteMended(&Output{Rows: map[datasets.Split][]datasets.Row{
				datasets.Val: pick(rows, parts[0]), datasets.Test: pick(rows, parts[1]), datasets.Train: pick(rows, parts[2]),
			}}, mended), nil
		},
	}
}

// foneWeight is the weight of a sentence in the benchmark's draw: 5 if it has two
// different tags after the types are mapped, else 1.
func foneWeight(b raw.Block, tag int) float64 {
	tags := map[string]bool{}
	for _, r := range b.Rows {
		prefix, kind, _ := strings.Cut(r.Fields[tag], "-")
		if icelandicTypes[kind] == "O" || prefix == "O" {
			prefix, kind = "O", ""
		}
		tags[prefix+"-"+kind] = true
	}
	if len(tags) > 1 {
		return 5
	}
	return 1
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
