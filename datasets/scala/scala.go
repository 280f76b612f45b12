// Package scala makes linguistic-acceptability data out of treebanks: correct
// sentences, and sentences made incorrect by deleting one word or by swapping
// two neighbours, under rules on parts of speech that make it likely that the
// result is ungrammatical (Nielsen 2023, "ScandEval: A Benchmark for
// Scandinavian Natural Language Processing", §4.3).
//
// The rules are those of the paper; where the paper's own program deviates from
// them or damages sentences in ways that a model could learn instead of
// grammar, this package follows the paper:
//
//  1. Adjectives, adverbs, punctuation, determiners and numerals are not
//     deleted; nor are symbols, as in the program.
//  2. A noun or proper noun with another beside it is not deleted.
//  3. Swapped words have different parts of speech.
//  4. Punctuation and symbols are not swapped.
//  5. The case of the first letters is mended when the first word moves or is
//     deleted, so that it gives nothing away; see [Sentence.Delete].
//
// Words are the words of the treebank: neither multi-word ranges nor empty
// nodes, which repeat what the words say.
package scala

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sentence is a sentence of a treebank.
type Sentence struct {
	ID       string
	Text     string // running text, as the treebank gives it
	Words    []string
	Tags     []string // universal parts of speech, one for each word
	Language string   // BCP 47
}

// The rules' classes of parts of speech.
var (
	undeletable = []string{"ADJ", "ADV", "PUNCT", "SYM", "DET", "NUM"}
	nominal     = []string{"NOUN", "PROPN"}
	unswappable = []string{"PUNCT", "SYM"}
)

// Deletable returns the positions of the words that rules 1 and 2 allow to
// delete, in ascending order.
func (s Sentence) Deletable() []int {
	var at []int
	for i, tag := range s.Tags {
		switch {
		case slices.Contains(undeletable, tag):
		case slices.Contains(nominal, tag) && (i > 0 && slices.Contains(nominal, s.Tags[i-1]) ||
			i+1 < len(s.Tags) && slices.Contains(nominal, s.Tags[i+1])):
		default:
			at = append(at, i)
		}
	}
	return at
}

// Swappable returns the positions i for which rules 3 and 4 allow to swap the
// words i and i+1, in ascending order.
func (s Sentence) Swappable() []int {
	var at []int
	for i := range len(s.Tags) - 1 {
		a, b := s.Tags[i], s.Tags[i+1]
		if a != b && !slices.Contains(unswappable, a) && !slices.Contains(unswappable, b) {
			at = append(at, i)
		}
	}
	return at
}

// Delete returns the text of the sentence without word i. If that was the
// first, the next one takes its capital: a sentence of a corpus that begins
// with a small letter would be known as incorrect for no grammatical reason.
// Words that begin with anything but a letter, and words with a capital inside
// ("iPhone"), stay as they are; and nothing is raised if the sentence began
// with a small letter before.
func (s Sentence) Delete(i int) string {
	words := slices.Delete(slices.Clone(s.Words), i, i+1)
	if i == 0 && len(words) > 0 {
		words[0] = s.raise(words[0])
	}
	return Join(words)
}

// Swap returns the text of the sentence with the words i and i+1 swapped. At
// the start the new first word takes the capital, as in [Sentence.Delete], and
// the old one loses it unless it keeps it everywhere: proper nouns, words with
// a capital inside ("EU", "McDonald"), and the Danish pronoun "I".
func (s Sentence) Swap(i int) string {
	words := slices.Clone(s.Words)
	words[i], words[i+1] = words[i+1], words[i]
	if i == 0 {
		words[0] = s.raise(words[0])
		if s.Tags[0] != "PROPN" && !(s.Language == "da" && s.Tags[0] == "PRON" && s.Words[0] == "I") {
			words[1] = lower(words[1])
		}
	}
	return Join(words)
}

// raise gives a word that comes to stand first the capital of a first word.
func (s Sentence) raise(word string) string {
	if r, _ := utf8.DecodeRuneInString(s.Words[0]); unicode.IsLower(r) && !hasUpper(s.Words[0]) {
		return word
	}
	if hasUpper(word) {
		return word
	}
	r, n := utf8.DecodeRuneInString(word)
	return string(unicode.ToTitle(r)) + word[n:]
}

func lower(word string) string {
	r, n := utf8.DecodeRuneInString(word)
	if hasUpper(word[n:]) {
		return word
	}
	return string(unicode.ToLower(r)) + word[n:]
}

func hasUpper(s string) bool { return strings.ContainsFunc(s, unicode.IsUpper) }

// Join makes running text of words: no blank before . , ; : ? ! ) ] } and after
// ( [ {, and, if the number of straight quotes is even, none inside a pair of
// them. Correct and incorrect sentences are both joined like this, also where
// the treebank's text has other spacing, so that spacing tells nothing.
func Join(words []string) string {
	spaced := strings.Join(words, " ")
	text := make([]byte, 0, len(spaced))
	for i := range len(spaced) {
		if spaced[i] == ' ' && (i+1 < len(spaced) && strings.IndexByte(".,;:?!)]}", spaced[i+1]) >= 0 ||
			i > 0 && strings.IndexByte("([{", spaced[i-1]) >= 0) {
			continue
		}
		text = append(text, spaced[i])
	}
	if bytes.Count(text, []byte(`"`))%2 != 0 {
		return string(text)
	}
	return string(tightenQuotes(text))
}

// tightenQuotes takes the blanks off the inside of "quoted" text. Quotes pair
// from left to right; one that has no blank after it, or whose partner has none
// before it, pairs with nothing.
func tightenQuotes(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		open := bytes.IndexByte(text, '"')
		if open < 0 {
			break
		}
		inner := text[open+1:]
		n := bytes.IndexByte(inner, '"')
		if n < 3 || inner[0] != ' ' || inner[n-1] != ' ' {
			out, text = append(out, text[:open+1]...), inner
			continue
		}
		out = append(out, text[:open+1]...)
		out = append(append(out, inner[1:n-1]...), '"')
		text = inner[n+1:]
	}
	return append(out, text...)
}

// Filter is one condition on the sentences that are used.
type Filter struct {
	Name string
	Keep func(Sentence) bool
}

// Filters returns the conditions in their order. They hold state (which texts
// were seen) and serve for one pass over the sentences of one treebank.
func Filters() []Filter {
	seen := map[string]bool{}
	return []Filter{
		{"text not seen before", func(s Sentence) bool {
			first := !seen[s.Text]
			seen[s.Text] = true
			return first
		}},
		{"more than 5 words", func(s Sentence) bool { return len(s.Words) > 5 }},
		{"more than 5 parts of speech", func(s Sentence) bool {
			tags := slices.Sorted(slices.Values(s.Tags))
			return len(slices.Compact(tags)) > 5
		}},
		{"even number of quotes", func(s Sentence) bool { return strings.Count(s.Text, `"`)%2 == 0 }},
		{"begins with a word", func(s Sentence) bool { return !slices.Contains(unswappable, s.Tags[0]) }},
		{"at most one =", func(s Sentence) bool { return strings.Count(s.Text, "=") <= 1 }},
		{"no SLUTORD", func(s Sentence) bool { return !strings.Contains(s.Text, "SLUTORD") }},
	}
}

// Usable returns the sentences that pass all filters, in their order.
func Usable(all []Sentence) []Sentence {
	filters := Filters()
	var out []Sentence
next:
	for _, s := range all {
		for _, f := range filters {
			if !f.Keep(s) {
				continue next
			}
		}
		out = append(out, s)
	}
	return out
}
