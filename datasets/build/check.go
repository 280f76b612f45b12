package build

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"bench/datasets"
	"bench/datasets/raw"
	"bench/datasets/recipes"
)

// check looks for rows that no task could use. It stops at the first.
func check(r recipes.Recipe, rows map[datasets.Split][]datasets.Row) error {
	seen := map[string]datasets.Split{}
	for _, s := range datasets.Splits {
		if len(rows[s]) == 0 {
			return fmt.Errorf("no %s rows", s)
		}
		for _, row := range rows[s] {
			if other, ok := seen[row.ID]; ok {
				return fmt.Errorf("%s row %q: the id is taken by a row of %s", s, row.ID, other)
			}
			seen[row.ID] = s
			if err := checkRow(r.Kind, row); err != nil {
				return fmt.Errorf("%s row %q: %w", s, row.ID, err)
			}
		}
	}
	return nil
}

func checkRow(k datasets.Kind, r datasets.Row) error {
	for _, text := range []string{r.ID, r.Text, r.Question, r.Context} {
		if !utf8.ValidString(text) {
			return fmt.Errorf("text is not valid UTF-8")
		}
	}
	if r.ID == "" {
		return fmt.Errorf("no id")
	}
	switch k {
	case datasets.NER:
		return checkTags(r)
	case datasets.Acceptability:
		if r.Label != "correct" && r.Label != "incorrect" {
			return fmt.Errorf("label %q, neither correct nor incorrect", r.Label)
		}
		if r.Label == "correct" && r.Corruption != nil {
			return fmt.Errorf("a correct sentence with a corruption")
		}
	case datasets.Sentiment:
		if r.Label == "" {
			return fmt.Errorf("no label")
		}
	case datasets.QA:
		if r.Answers == nil || len(r.Answers.Text) != len(r.Answers.Start) {
			return fmt.Errorf("no answers")
		}
		context := []rune(r.Context)
		for i, text := range r.Answers.Text {
			if !raw.IsSpan(context, text, r.Answers.Start[i]) {
				return fmt.Errorf("answer %q is not at code point %d of the context", text, r.Answers.Start[i])
			}
		}
	}
	return nil
}

func checkTags(r datasets.Row) error {
	if len(r.Tokens) == 0 {
		return fmt.Errorf("no tokens")
	}
	if len(r.Labels) != len(r.Tokens) {
		return fmt.Errorf("%d labels for %d tokens", len(r.Labels), len(r.Tokens))
	}
	if i := slices.IndexFunc(r.Tokens, func(t string) bool { return strings.TrimSpace(t) == "" || !utf8.ValidString(t) }); i >= 0 {
		return fmt.Errorf("token %d is empty", i+1)
	}
	for _, l := range r.Labels {
		if prefix, kind, ok := strings.Cut(l, "-"); l != "O" && (!ok || prefix != "B" && prefix != "I" || kind == "") {
			return fmt.Errorf("label %q is none of O, B-…, I-…", l)
		}
	}
	return nil
}
