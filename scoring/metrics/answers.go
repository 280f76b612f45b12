package metrics

import (
	"strings"
	"unicode"
)

// Answers scores one question the way the metric of SQuAD 2.0 does.
//
// golds are the accepted answers; those with nothing left after Normalize do
// not count, and when none is left the question has no answer and "" is the
// right prediction. em is 1 if the normalised prediction equals a normalised
// gold answer, else 0. f1 is the largest harmonic mean, over gold answers, of
// the precision and recall of the prediction's words as a multiset; when either
// side has no words it is 1 if both have none, else 0. Both are in [0, 1].
func Answers(golds []string, pred string) (em, f1 float64) {
	p := Normalize(pred)
	words := fields(p)
	answerable := false
	for _, gold := range golds {
		g := Normalize(gold)
		if g == "" {
			continue
		}
		answerable = true
		if g == p {
			return 1, 1
		}
		f1 = max(f1, overlap(fields(g), words))
	}
	if !answerable && p == "" {
		return 1, 1
	}
	return 0, f1
}

// overlap is the F1 of two multisets of words.
func overlap(gold, pred []string) float64 {
	same := 0
	left := make(map[string]int, len(gold))
	for _, w := range gold {
		left[w]++
	}
	for _, w := range pred {
		if left[w] > 0 {
			left[w]--
			same++
		}
	}
	if same == 0 {
		return 0
	}
	precision := float64(same) / float64(len(pred))
	recall := float64(same) / float64(len(gold))
	return 2 * precision * recall / (precision + recall)
}

func fields(normalised string) []string {
	if normalised == "" {
		return nil
	}
	return strings.Split(normalised, " ")
}

// Normalize prepares an answer for comparison, exactly as SQuAD's evaluation
// does in Python: lower case, then no ASCII punctuation, then no English
// articles (a, an, the, as whole words), then single spaces between words and
// none around them. All languages are treated alike, so that scores can be
// compared with published ones.
//
// Python's notions are kept where they differ from Go's: the lower case of
// U+0130 has two code points and Σ becomes ς at the end of a word; U+001C to
// U+001F are white space; a combining mark is not part of a word, so that a
// decomposed "å" is the article "a" and a mark.
func Normalize(s string) string {
	var kept []rune
	for _, r := range pythonLower(s) {
		if !asciiPunctuation(r) {
			kept = append(kept, r)
		}
	}
	var b strings.Builder
	b.Grow(len(s))
	space := false // white space is due before the next character
	for i := 0; i < len(kept); {
		if pythonSpace(kept[i]) {
			space = true
			i++
			continue
		}
		j := i + 1
		if pythonWord(kept[i]) {
			for j < len(kept) && pythonWord(kept[j]) {
				j++
			}
			if article(kept[i:j]) {
				space = true
				i = j
				continue
			}
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		for _, r := range kept[i:j] {
			b.WriteRune(r)
		}
		i = j
	}
	return b.String()
}

func article(word []rune) bool {
	switch len(word) {
	case 1:
		return word[0] == 'a'
	case 2:
		return word[0] == 'a' && word[1] == 'n'
	case 3:
		return word[0] == 't' && word[1] == 'h' && word[2] == 'e'
	}
	return false
}

// asciiPunctuation is Python's string.punctuation.
func asciiPunctuation(r rune) bool {
	return r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~'
}

// pythonWord is \w of Python's re on str: str.isalnum, or an underscore.
func pythonWord(r rune) bool {
	if r < 0x80 {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r == '_'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r)
}

// pythonSpace is str.isspace, which is where str.split cuts: Unicode's white
// space and the four separators of ASCII.
func pythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// pythonLower is str.lower: the full case mapping of Unicode, which differs
// from the simple one in two places.
func pythonLower(s string) []rune {
	in := []rune(s)
	out := make([]rune, 0, len(in))
	for i, r := range in {
		switch {
		case r >= 'A' && r <= 'Z':
			out = append(out, r+'a'-'A')
		case r < 0x80:
			out = append(out, r)
		case r == 'İ':
			out = append(out, 'i', 0x307)
		case r == 'Σ' && finalSigma(in, i):
			out = append(out, 'ς')
		default:
			out = append(out, unicode.ToLower(r))
		}
	}
	return out
}

// finalSigma says whether the Σ at in[i] ends a word: a cased letter stands
// before it and none after it, looking past characters that case ignores.
func finalSigma(in []rune, i int) bool {
	j := i - 1
	for j >= 0 && caseIgnorable(in[j]) {
		j--
	}
	if j < 0 || !cased(in[j]) {
		return false
	}
	j = i + 1
	for j < len(in) && caseIgnorable(in[j]) {
		j++
	}
	return j == len(in) || !cased(in[j])
}

// cased and caseIgnorable are the properties Cased and Case_Ignorable of
// Unicode (chapter 3.13).
func cased(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) || unicode.Is(unicode.Other_Lowercase, r) || unicode.Is(unicode.Other_Uppercase, r)
}

func caseIgnorable(r rune) bool {
	switch r {
	case '\'', '.', ':', 0xb7, 0x387, 0x55f, 0x5f4, 0x2018, 0x2019, 0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a:
		return true // Word_Break is MidLetter, MidNumLet or Single_Quote
	}
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}
