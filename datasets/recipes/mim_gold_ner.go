package recipes

import (
	"archive/zip"
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/raw"
)

func mimGoldNER() Recipe {
	const page = "https://repository.clarin.is/repository/xmlui/handle/20.500.12537/230"
	return Recipe{
		Name: "mim-gold-ner", Kind: datasets.NER, Version: 1, Languages: []string{"is"},
		Licence:  "MIM-GOLD licence: to be accepted by each user, not to be republished",
		Citation: "Ingólfsdóttir, Guðjónsson and Loftsson (2020): Named Entity Recognition for Icelandic: Annotated Corpus and Models. SLSP 2020. MIM-GOLD-NER 2.0: CLARIN-IS, 20.500.12537/230.",
		Homepage: page,
		Seed:     4242, Sizes: standard,
		Sources: []fetch.Source{{
			URL: page, Page: true,
			Manual: "accept the licence of MIM-GOLD-NER 2.0 at " + page + " and get MIM-GOLD-2_0.zip there",
		}},
		Notes: []string{
			"Date, Time, Money and Percent are no names, as in the benchmark",
			"how the published splits were drawn is not known: the genres are pooled, in the order of their files' names, and val, test and train drawn from all",
		},
		Make: func(in *Input) (*Output, error) {
			b, err := in.Read(0)
			if err != nil {
				return nil, err
			}
			files, err := raw.Zip(bytes.NewReader(b), int64(len(b)), in.Name(0))
			if err != nil {
				return nil, err
			}
			slices.SortFunc(files, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
			var rows []datasets.Row
			mended := 0
			for _, z := range files {
				genre, isText := strings.CutSuffix(path.Base(z.Name), ".txt")
				if !isText || strings.HasPrefix(strings.ToLower(genre), "readme") || strings.HasPrefix(strings.ToLower(genre), "licen") {
					continue
				}
				b, err := in.entry(0, z)
				if err != nil {
					return nil, err
				}
				file := in.Name(0) + "!" + z.Name
				blocks, err := raw.ReadColumns(b, file)
				if err != nil {
					return nil, err
				}
				for n, block := range blocks {
					if len(block.Rows[0].Fields) < 2 {
						return nil, raw.Errorf(file, block.Rows[0].Line, "1 column, where a word and its tag are wanted")
					}
					row, k, err := tagged(block, file, 0, 1, icelandicTypes)
					if err != nil {
						return nil, err
					}
					mended += k
					row.ID = fmt.Sprintf("%s-%d", genre, n+1)
					rows = append(rows, row)
				}
			}
			if len(rows) == 0 {
				return nil, raw.Errorf(in.Name(0), 0, "no file *.txt with sentences in the archive: is it MIM-GOLD-2_0.zip?")
			}
			out, err := in.draw(rows, 0)
			return noteMended(out, mended), err
		},
	}
}

// noteMended notes how many tags of the whole source were mended.
func noteMended(out *Output, mended int) *Output {
	if out != nil && mended > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d tags I- of the source that continue no entity begin one here", mended))
	}
	return out
}
