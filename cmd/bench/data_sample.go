package main

import (
	"fmt"
	"strings"
	"unicode"

	"bench/datasets"
)

// showRows prints n rows, evenly spread. Of sentences that were made incorrect it
// prints n pairs instead, one under the other, with what was changed between
// brackets.
func (a *app) showRows(k datasets.Kind, rows []datasets.Row, n int) error {
	if pairs := correctAndNot(rows); k == datasets.Acceptability && len(pairs) > 0 {
		n = min(n, len(pairs))
		for j := range n {
			a.showPair(pairs[j*len(pairs)/n])
		}
		return nil
	}
	n = min(n, len(rows))
	for j := range n {
		text, err := rows[j*len(rows)/n].AppendJSON(nil, k)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", text)
	}
	return nil
}

// correctAndNot returns the pairs of rows of one sentence, the correct one first,
// in the order of the incorrect ones.
func correctAndNot(rows []datasets.Row) (pairs [][2]datasets.Row) {
	correct := map[string]datasets.Row{}
	for _, r := range rows {
		if sentence, _, ok := cutLast(r.ID, "/"); ok && r.Corruption == nil {
			correct[sentence] = r
		}
	}
	for _, r := range rows {
		sentence, _, _ := cutLast(r.ID, "/")
		if c, ok := correct[sentence]; ok && r.Corruption != nil {
			pairs = append(pairs, [2]datasets.Row{c, r})
		}
	}
	return pairs
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func (a *app) showPair(p [2]datasets.Row) {
	sentence, _, _ := cutLast(p[1].ID, "/")
	how := p[1].Corruption
	words := make([]string, len(how.Indices))
	for i, at := range how.Indices {
		words[i] = fmt.Sprint(at)
	}
	good, bad := marked(p[0].Text, p[1].Text)
	fmt.Fprintf(a.stdout, "%s  %s %s\n  correct    %s\n  incorrect  %s\n", sentence, how.Type, strings.Join(words, ","), good, bad)
}

// marked returns two texts with brackets around what they do not share at their
// beginning and end. Brackets stand between words, never inside one.
func marked(a, b string) (string, string) {
	x, y := []rune(a), []rune(b)
	start := 0
	for start < min(len(x), len(y)) && x[start] == y[start] {
		start++
	}
	end := 0
	for end < min(len(x), len(y))-start && x[len(x)-1-end] == y[len(y)-1-end] {
		end++
	}
	inWord := func(t []rune, at int) bool {
		return at > 0 && at < len(t) && wordly(t[at-1]) && wordly(t[at])
	}
	for inWord(x, start) || inWord(y, start) {
		start--
	}
	for inWord(x, len(x)-end) || inWord(y, len(y)-end) {
		end--
	}
	mark := func(t []rune) string {
		return string(t[:start]) + "[" + string(t[start:len(t)-end]) + "]" + string(t[len(t)-end:])
	}
	return mark(x), mark(y)
}

func wordly(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }
