package recipes

import (
	"strings"

	"bench/datasets"
	"bench/datasets/conllu"
)

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
	for _, s := range all {
		row, err := namedSentence(s, types)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
