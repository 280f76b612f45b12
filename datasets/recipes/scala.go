package recipes

import (
	"fmt"
	"path"
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/scala"
	"bench/datasets/split"
)

// scalaRecipe returns the recipe of a ScaLA data set. Sizes are in rows: each
// base sentence gives one correct and one incorrect row of the same split.
func scalaRecipe(language string, base int, sources ...fetch.Source) Recipe {
	repository := strings.Split(strings.TrimPrefix(sources[0].URL, "https://raw.githubusercontent.com/"), "/")[1]
	return Recipe{
		Name: "scala-" + language, Kind: datasets.Acceptability, Version: 1, Languages: []string{language},
		Licence:  "CC BY-SA 4.0",
		Citation: "Nielsen (2023): ScandEval: A Benchmark for Scandinavian Natural Language Processing. NoDaLiDa 2023. Treebank: Universal Dependencies, " + repository + ".",
		Homepage: "https://github.com/UniversalDependencies/" + repository,
		Seed:     4242, Sizes: standard, Base: base, Sources: sources,
		Notes: []string{
			"base sentences are drawn as in the benchmark; the corruptions are the program's own (seeded, by the paper's rules), since the published ones were drawn without a seed",
		},
		Make: makeScala,
	}
}

// scandEvalRules returns the variant of a ScaLA recipe that corrupts sentences
// as ScandEval's own program does, flaws included. It is a data set of its own.
func scandEvalRules(r Recipe) Recipe {
	r.VariantOf, r.Rules, r.Suite = r.Name, "scandeval", Variant
	r.Name += "-scandeval"
	r.Notes = []string{
		"corrupted as by ScandEval's own program (9.3.2), which breaks some of the paper's rules, changes the case of words, and can call a correct sentence incorrect; for comparisons with " + r.VariantOf + " only",
		"the program draws without a seed, so the published corruptions cannot be drawn again: these are others of the same kind",
	}
	return r
}

// scalaSentences reads all treebanks at hand. With all rows, range rows and
// empty nodes are words.
func scalaSentences(in *Input, allRows bool) ([]scala.Sentence, error) {
	var all []scala.Sentence
	for i := range in.Files {
		if !in.Have(i) {
			continue
		}
		sentences, err := in.treebank(i)
		if err != nil {
			return nil, err
		}
		seen := ids{}
		part := strings.TrimSuffix(path.Base(in.Name(i)), ".conllu")
		for n, c := range sentences {
			s := scala.Sentence{ID: c.ID(), Text: c.Text(), Language: in.Recipe.Languages[0]}
			if s.ID == "" {
				s.ID = fmt.Sprintf("%s-%d", part, n+1)
			}
			if err := seen.add(s.ID, c.File, c.Line); err != nil {
				return nil, err
			}
			words := c.Words()
			if allRows {
				words = c.Rows
			}
			for _, w := range words {
				s.Words, s.Tags = append(s.Words, w.Form), append(s.Tags, w.UPOS)
			}
			if s.Text == "" {
				s.Text = scala.Join(s.Words)
			}
			all = append(all, s)
		}
	}
	return all, nil
}

func makeScala(in *Input) (*Output, error) {
	original := in.Recipe.Rules == "scandeval"
	all, err := scalaSentences(in, original)
	if err != nil {
		return nil, err
	}
	usable := scala.Usable(all)
	rows := in.Recipe.Sizes
	size := in.SizesFor(Sizes{rows.Train / 2, rows.Val / 2, rows.Test / 2}, len(all), len(usable))
	var notes []string
	// A treebank that is too small for the full test split gets half of it, or
	// half of that, as in the benchmark.
	for size.total() > len(usable) && size.Test > 128 {
		size.Test /= 2
	}
	if n := 2 * size.Test; n != rows.Test && !in.Partial {
		notes = append(notes, fmt.Sprintf("%d usable sentences suffice for %d test rows only", len(usable), n))
	}
	parts, _, err := split.Chain(len(usable), in.Recipe.Seed, size.Val, size.Test, size.Train)
	if err != nil {
		return nil, fmt.Errorf("val, test and train drawn from %d usable sentences: %w", len(usable), err)
	}

	correct := map[string]bool{}
	for _, s := range all {
		correct[scala.Join(s.Words)] = true
	}
	out := &Output{Base: len(all), Notes: notes, Rows: map[datasets.Split][]datasets.Row{}}
	g := split.NewGenerator(uint64(in.Recipe.Seed))
	for k, part := range []datasets.Split{datasets.Val, datasets.Test, datasets.Train} {
		var good, bad []datasets.Row
		for _, i := range parts[k] {
			s := usable[i]
			var c scala.Corrupted
			var ok bool
			if original {
				c, ok = s.ScandEvalDraw(g.IntN)
			} else {
				c, ok = s.Draw(g.IntN, func(text string) bool { return correct[text] })
			}
			if !ok {
				return nil, fmt.Errorf("sentence %s cannot be corrupted: %q", s.ID, s.Text)
			}
			good = append(good, datasets.Row{ID: s.ID, Text: scala.Join(s.Words), Label: "correct"})
			bad = append(bad, datasets.Row{ID: s.ID, Text: c.Text, Label: "incorrect", Corruption: &c.How})
		}
		out.Rows[part] = numberPairs(pick(append(good, bad...), split.NewRandomState(in.Recipe.Seed).Permutation(2*len(good))))
	}
	return out, nil
}

// numberPairs makes the ids of the two rows of each sentence differ, by the order
// in which they stand: an id that told which is the correct one would give the
// answers away.
func numberPairs(rows []datasets.Row) []datasets.Row {
	seen := map[string]int{}
	for i := range rows {
		id := rows[i].ID
		seen[id]++
		rows[i].ID = fmt.Sprintf("%s/%d", id, seen[id])
	}
	return rows
}
