package recipes

import (
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/conllu"
	"bench/datasets/raw"
)

// ids finds ids that are used twice: it holds the line of each.
type ids map[string]int

func (seen ids) add(id, file string, line int) error {
	if first, ok := seen[id]; ok {
		return raw.Errorf(file, line, "the id %q is that of line %d, too", id, first)
	}
	seen[id] = line
	return nil
}

// tagged makes a row of a sentence of a column file, with the word in column
// word and the tag in column tag, counted from 0. types maps entity types; "O"
// takes a type out, and one that is not in it is an error. A tag I- that
// continues nothing begins an entity: mended counts them.
func tagged(b raw.Block, file string, word, tag int, types map[string]string) (row datasets.Row, mended int, err error) {
	before := ""
	for _, r := range b.Rows {
		t := r.Fields[tag]
		prefix, kind, _ := strings.Cut(t, "-")
		mapped, known := types[kind]
		switch {
		case t == "O":
			kind = ""
		case !known || prefix != "B" && prefix != "I":
			return row, 0, raw.Errorf(file, r.Line, "unknown tag %q of the word %q; there are O, and B- and I- with %s", t, r.Fields[word], listed(types))
		case mapped == "O":
			t = "O"
		case prefix == "I" && kind != before:
			t = "B-" + mapped
			mended++
		default:
			t = prefix + "-" + mapped
		}
		before = kind
		row.Tokens, row.Labels = append(row.Tokens, r.Fields[word]), append(row.Labels, t)
	}
	row.Text = strings.Join(row.Tokens, " ")
	return row, mended, nil
}

func listed(types map[string]string) string {
	var names []string
	for name := range types {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// icelandicTypes are the types of MIM-GOLD-NER and, after it, of FoNE. Numbers
// and times are no names.
var icelandicTypes = map[string]string{
	"Person": "PER", "Location": "LOC", "Organization": "ORG", "Miscellaneous": "MISC",
	"Date": "O", "Time": "O", "Money": "O", "Percent": "O",
}

// namedSentence makes a row of a treebank sentence whose MISC column holds a
// BIO tag as name=TAG, wherever in the column it stands. types maps entity
// types; a type that is not in it is an error.
func namedSentence(s conllu.Sentence, types map[string]string) (datasets.Row, error) {
	row := datasets.Row{ID: s.ID(), Text: s.Text()}
	if row.ID == "" {
		return row, &conllu.SyntaxError{File: s.File, Line: s.Line, Msg: "sentence without sent_id"}
	}
	for _, w := range s.Words() {
		tag, ok := w.MiscValue("name")
		if !ok {
			return row, &conllu.SyntaxError{File: s.File, Line: w.Line, Msg: "word without name=: the file has no named entities"}
		}
		if tag != "O" {
			prefix, kind, _ := strings.Cut(tag, "-")
			mapped, ok := types[kind]
			if !ok || prefix != "B" && prefix != "I" {
				return row, &conllu.SyntaxError{File: s.File, Line: w.Line, Msg: "unknown tag name=" + tag}
			}
			tag = prefix + "-" + mapped
		}
		row.Tokens, row.Labels = append(row.Tokens, w.Form), append(row.Labels, tag)
	}
	if row.Text == "" {
		row.Text = strings.Join(row.Tokens, " ")
	}
	return row, nil
}

func namedSentences(all []conllu.Sentence, types map[string]string) ([]datasets.Row, error) {
	rows := make([]datasets.Row, 0, len(all))
	seen := ids{}
	for _, s := range all {
		row, err := namedSentence(s, types)
		if err != nil {
			return nil, err
		}
		if err := seen.add(row.ID, s.File, s.Line); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
