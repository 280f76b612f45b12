package recipes

import (
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/raw"
)

func suc3() Recipe {
	const folder = "https://spraakbanken.gu.se/lb/resurser/meningsmangder/"
	return Recipe{
		Name: "suc3", Kind: datasets.NER, Version: 1, Languages: []string{"sv"},
		Licence:  "CC BY-SA 4.0 (the version with sentences in random order)",
		Citation: "Gustafson-Capková and Hartmann (2006): Manual of the Stockholm Umeå Corpus version 2.0. Stockholm University. SUC 3.0: Språkbanken, University of Gothenburg.",
		Homepage: "https://spraakbanken.gu.se/en/resources/suc3",
		Seed:     4242, Sizes: standard, Base: 74245,
		Sources: []fetch.Source{{
			URL: folder + "suc3.xml.bz2", Also: folder + "suc3.xml",
			Manual: "get suc3.xml.bz2 (SUC 3.0, sentences in random order) from https://spraakbanken.gu.se/en/resources/suc3, where its licence is shown; it is read packed or unpacked",
		}},
		Notes: []string{"only the names that people marked count, not those that a program found"},
		Make: func(in *Input) (*Output, error) {
			n := 0
			if err := in.sucRows(func(row datasets.Row, line int) error { n++; return nil }); err != nil {
				return nil, err
			}
			parts, err := in.drawAt(n, n)
			if err != nil {
				return nil, err
			}
			// The file may be of any size, so only the rows that were drawn are
			// ever held: it is read once more for them.
			splits := []datasets.Split{datasets.Val, datasets.Test, datasets.Train}
			type place struct {
				split datasets.Split
				at    int
			}
			wanted := map[int]place{}
			out := &Output{Base: n, Rows: map[datasets.Split][]datasets.Row{}}
			for k, part := range parts {
				out.Rows[splits[k]] = make([]datasets.Row, len(part))
				for at, i := range part {
					wanted[i] = place{splits[k], at}
				}
			}
			seen, i := ids{}, 0
			err = in.sucRows(func(row datasets.Row, line int) error {
				p, ok := wanted[i]
				i++
				if !ok {
					return nil
				}
				out.Rows[p.split][p.at] = row
				return seen.add(row.ID, in.Name(0), line)
			})
			return out, err
		},
	}
}

// sucRows hands the rows of the corpus to f, in its order.
func (in *Input) sucRows(f func(row datasets.Row, line int) error) error {
	types := map[string]string{
		"person": "PER", "place": "LOC", "inst": "ORG",
		"animal": "MISC", "event": "MISC", "myth": "MISC", "other": "MISC", "product": "MISC", "work": "MISC",
	}
	r, file, err := raw.Open(in.Files[0].Path, in.Name(0), ".xml")
	if err != nil {
		return err
	}
	defer r.Close()
	return raw.ReadNames(r, file, func(s raw.NamedSentence) error {
		if s.ID == "" {
			return raw.Errorf(file, s.Line, "a sentence without an id")
		}
		if len(s.Words) == 0 {
			return nil
		}
		row := datasets.Row{ID: s.ID}
		for _, w := range s.Words {
			tag := "O"
			if w.Name != "" {
				mapped, ok := types[w.Name]
				if !ok {
					return raw.Errorf(file, w.Line, "unknown type %q of a name; there are %s", w.Name, listed(types))
				}
				tag = "I-" + mapped
				if w.First {
					tag = "B-" + mapped
				}
			}
			row.Tokens, row.Labels = append(row.Tokens, w.Text), append(row.Labels, tag)
		}
		row.Text = strings.Join(row.Tokens, " ")
		return f(row, s.Line)
	})
}
