package scala

import (
	"slices"
	"strings"
	"unicode"

	"bench/datasets"
)

// The functions of this file make what ScandEval's own program (version 9.3.2)
// makes, where that is not what the paper says or not what this package does,
// so that its data can be looked at and measured. They are for no other use.
// The differences:
//
//   - range rows and empty nodes count as words (the caller hands them in);
//   - some swaps break rules 3 and 4, see ScandEvalSwappable;
//   - words that come to stand first or second change their case by the
//     program's rule, and nothing is raised when the first word is deleted;
//   - a corruption that gives the sentence itself, or another correct one, is
//     not refused.

// ScandEvalSwappable returns the positions i for which ScandEval's program can
// come to swap the words i and i+1, in ascending order: see scandEvalSecond.
func (s Sentence) ScandEvalSwappable() []int {
	can := make([]bool, len(s.Words))
	for _, i := range s.scandEvalCandidates() {
		for _, j := range s.scandEvalSecond(i) {
			can[min(i, j)] = true
		}
	}
	var at []int
	for i, ok := range can {
		if ok {
			at = append(at, i)
		}
	}
	return at
}

// scandEvalCandidates returns the words that the program draws the first of a
// swap from: words with a neighbour of another part of speech, neither being
// punctuation. If there is only one, it does not swap.
func (s Sentence) scandEvalCandidates() []int {
	good := make([]bool, len(s.Words))
	for _, i := range s.Swappable() {
		good[i], good[i+1] = true, true
	}
	var at []int
	for i, ok := range good {
		if ok {
			at = append(at, i)
		}
	}
	return at
}

// scandEvalSecond returns the neighbours that word i can be swapped with, the
// right one first if there are two, which then have equal chances. Where the
// right one will not do, the left one is taken unseen.
func (s Sentence) scandEvalSecond(i int) []int {
	last := len(s.Words) - 1
	fits := func(j int) bool {
		return s.Tags[j] != s.Tags[i] && !slices.Contains(unswappable, s.Tags[j])
	}
	pronAux := func(j int) bool {
		a, b := s.Tags[i], s.Tags[j]
		return a == "PRON" && b == "AUX" || a == "AUX" && b == "PRON"
	}
	switch {
	case i == 0:
		return []int{1}
	case i == last:
		return []int{last - 1}
	case !fits(i+1) || pronAux(i+1):
		return []int{i - 1}
	case !fits(i - 1):
		return []int{i + 1}
	}
	return []int{i + 1, i - 1}
}

// ScandEvalDelete returns the text of the sentence without word i.
func (s Sentence) ScandEvalDelete(i int) string {
	return Join(slices.Delete(slices.Clone(s.Words), i, i+1))
}

// ScandEvalSwap returns the text of the sentence with the words i and i+1
// swapped. At the start, the first word becomes pythonTitle and the second small,
// but for words all of whose letters are capitals.
func (s Sentence) ScandEvalSwap(i int) string {
	words := slices.Clone(s.Words)
	words[i], words[i+1] = words[i+1], words[i]
	if i == 0 {
		if !allUpper(words[0]) {
			words[0] = pythonTitle(words[0])
		}
		if !allUpper(words[1]) {
			words[1] = strings.ToLower(words[1])
		}
	}
	return Join(words)
}

// ScandEvalDraw makes an incorrect sentence of s as the program does: a swap or
// a deletion with equal chance, drawn anew until there is one. It returns false
// if there is none of either; the program would not end then.
func (s Sentence) ScandEvalDraw(intn func(n int) int) (Corrupted, bool) {
	deletions, candidates := s.Deletable(), s.scandEvalCandidates()
	if len(deletions) == 0 && len(candidates) < 2 {
		return Corrupted{}, false
	}
	for {
		switch {
		case intn(2) == 0 && len(candidates) >= 2:
			i := candidates[intn(len(candidates))]
			second := s.scandEvalSecond(i)
			j := second[0]
			if len(second) > 1 {
				j = second[intn(2)]
			}
			i = min(i, j)
			return Corrupted{s.ScandEvalSwap(i), datasets.Corruption{Type: Flip, Indices: []int{i, i + 1}}}, true
		case len(deletions) > 0:
			i := deletions[intn(len(deletions))]
			return Corrupted{s.ScandEvalDelete(i), datasets.Corruption{Type: Delete, Indices: []int{i}}}, true
		}
	}
}

// pythonTitle is Python's str.title: a letter after a letter becomes small, any
// other takes its title case.
func pythonTitle(s string) string {
	after := false
	return strings.Map(func(r rune) rune {
		cased := unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
		switch {
		case !cased:
		case after:
			r = unicode.ToLower(r)
		default:
			r = unicode.ToTitle(r)
		}
		after = cased
		return r
	}, s)
}

// allUpper is Python's str.isupper: there are letters, and all are capitals.
func allUpper(s string) bool {
	return hasUpper(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLower(r) || unicode.IsTitle(r) })
}
