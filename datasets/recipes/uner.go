package recipes

import (
	"fmt"
	"strings"

	"bench/datasets"
	"bench/datasets/raw"
)

// unerRecipe returns the recipe of a data set of Universal NER. base is the
// number of its sentences; files are names and git blob ids ("": not known) in
// the repository.
func unerRecipe(language string, base int, repository, commit string, files ...[2]string) Recipe {
	r := Recipe{
		Name: "uner-" + language, Kind: datasets.NER, Version: 1, Languages: []string{language}, Suite: Extra,
		Licence:  "CC BY-SA 4.0",
		Citation: "Mayhew, Blevins, Liu, Šuppa, Gonen and others (2024): Universal NER: A Gold-Standard Multilingual Named Entity Recognition Benchmark. NAACL 2024.",
		Homepage: "https://github.com/UniversalNER/" + repository,
		Seed:     4242, Sizes: standard, Base: base,
		Notes: []string{
			"there is no MISC",
			"the source's parts are pooled, and val, test and train drawn from all, as the benchmark does with its other treebanks",
		},
		Make: makeUNER,
	}
	for _, f := range files {
		r.Sources = append(r.Sources, github("UniversalNER/"+repository, commit, f[0], f[1]))
	}
	return r
}

func makeUNER(in *Input) (*Output, error) {
	// "-" marks words that were left without a tag: derivations of names.
	types := map[string]string{"PER": "PER", "LOC": "LOC", "ORG": "ORG"}
	var rows []datasets.Row
	mended := 0
	for i := range in.Files {
		if !in.Have(i) {
			continue
		}
		more, k, err := in.unerRows(i, types)
		if err != nil {
			return nil, err
		}
		rows, mended = append(rows, more...), mended+k
	}
	out, err := in.draw(rows, len(rows))
	return noteMended(out, mended), err
}

func (in *Input) unerRows(i int, types map[string]string) (rows []datasets.Row, mended int, err error) {
	b, err := in.Read(i)
	if err != nil {
		return nil, 0, err
	}
	file := in.Name(i)
	blocks, err := raw.ReadColumns(b, file)
	if err != nil {
		return nil, 0, err
	}
	seen := ids{}
	for _, block := range blocks {
		if n := len(block.Rows[0].Fields); n != 5 {
			return nil, 0, raw.Errorf(file, block.Rows[0].Line, "%d columns instead of 5", n)
		}
		for k, r := range block.Rows {
			if r.Fields[0] != fmt.Sprint(k+1) {
				return nil, 0, raw.Errorf(file, r.Line, "word number %q after %d", r.Fields[0], k)
			}
			if r.Fields[2] == "-" {
				r.Fields[2] = "O"
			}
		}
		row, k, err := tagged(block, file, 1, 2, types)
		if err != nil {
			return nil, 0, err
		}
		mended += k
		for _, c := range block.Comments {
			if v, ok := strings.CutPrefix(c, "# sent_id = "); ok {
				row.ID = v
			} else if v, ok := strings.CutPrefix(c, "# text = "); ok {
				row.Text = v
			}
		}
		if row.ID == "" {
			return nil, 0, raw.Errorf(file, block.Line, "sentence without sent_id")
		}
		if err := seen.add(row.ID, file, block.Line); err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, 0, raw.Errorf(file, 0, "the file has no sentences")
	}
	return rows, mended, nil
}
