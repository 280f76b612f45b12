package scandiqa

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	date     = regexp.MustCompile(`([0-9]{4})-([0-9]{2})-([0-9]{2})`)
	decimal0 = regexp.MustCompile(`([0-9]+)\.0([^0-9]|$)`)
	integer  = regexp.MustCompile(`^[0-9]+(\.0)?$`)
	visible  = regexp.MustCompile(`[a-zæøåA-ZÆØÅ0-9]`)
)

// Variants returns the ways to write an answer in a text in language lang that
// follow from the answer alone, in no particular order and with repeats: as it
// is; the English answer, unless that is ""; without "the"; without full stops,
// and without commas, before which no digit follows; a date YYYY-MM-DD spelt
// out, and its year; with "." for "," or the other way round; without ".0"; and
// the words of an integer up to 20. They are what is translated for
// [Candidates].
func Variants(answer, answerEN string, lang Lang) []string {
	v := []string{answer}
	if answerEN != "" {
		v = append(v, answerEN)
	}
	the := strings.NewReplacer("the", "", "The", "")
	v = append(v, trim(the.Replace(answer)), trim(without(answer, '.')), trim(without(answer, ',')))
	v = append(v, dates(answer, lang)...)
	switch {
	case strings.Contains(answer, "."):
		v = append(v, strings.ReplaceAll(answer, ".", ","))
	case strings.Contains(answer, ","):
		v = append(v, strings.ReplaceAll(answer, ",", "."))
	}
	if decimal0.MatchString(answer) {
		v = append(v, decimal0.ReplaceAllString(answer, "$1$2"))
	}
	if integer.MatchString(answer) {
		// An integer that is too long to be a number has no words.
		if n, err := strconv.Atoi(strings.TrimSuffix(answer, ".0")); err == nil {
			v = append(v, numberWords(lang, n)...)
		}
	}
	return v
}

// Candidates returns what is looked for in a context in language lang when the
// answer is the given one: the [Variants], their translations, and, if the
// answer is a number word of English, Danish, Swedish or Norwegian, the number
// in digits, in that language's words and in those of lang. Without those that
// have no letter and no digit, each once; longest first (in code points), equal
// lengths in the order of their code points.
func Candidates(answer, answerEN string, lang Lang, translations []string) []string {
	c := append(Variants(answer, answerEN, lang), translations...)
	for _, l := range numeralLanguages {
		for _, e := range numerals[l] {
			if slices.Contains(e.words, answer) {
				c = append(c, strconv.Itoa(e.n))
				c = append(c, e.words...)
				c = append(c, numberWords(lang, e.n)...)
			}
		}
	}
	c = slices.DeleteFunc(c, func(s string) bool { return !visible.MatchString(s) })
	slices.SortFunc(c, func(a, b string) int {
		return cmp.Or(cmp.Compare(utf8.RuneCountInString(b), utf8.RuneCountInString(a)), strings.Compare(a, b))
	})
	return slices.Compact(c)
}

// Span is an answer in a context. Start counts code points.
type Span struct {
	Text  string
	Start int
}

// Locate returns the first place of the first candidate that occurs in the
// context in any mix of cases, with the letters of the context.
func Locate(context string, candidates []string) (Span, bool) {
	// Rune by rune, so that positions in the two agree.
	low := strings.ToLower(context)
	for _, c := range candidates {
		c = strings.ToLower(c)
		at := strings.Index(low, c)
		if at < 0 {
			continue
		}
		start := utf8.RuneCountInString(low[:at])
		runes := []rune(context)
		return Span{string(runes[start : start+utf8.RuneCountInString(c)]), start}, true
	}
	return Span{}, false
}

func trim(s string) string { return strings.TrimFunc(s, isSpace) }

// without removes each mark that is not followed by a digit.
func without(s string, mark byte) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] == mark && (i+1 == len(s) || s[i+1] < '0' || s[i+1] > '9') {
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// dates spells out the first date of an answer.
func dates(answer string, lang Lang) []string {
	m := date.FindStringSubmatch(answer)
	if m == nil {
		return nil
	}
	// Digits only, and few of them: they are numbers.
	year, _ := strconv.Atoi(m[1])
	month, _ := strconv.Atoi(m[2])
	day, _ := strconv.Atoi(m[3])
	if month < 1 || month > 12 {
		return nil
	}
	name := months[lang][month-1]
	return []string{
		fmt.Sprintf("%d %s %d", day, name, year), fmt.Sprintf("%d %s, %d", day, name, year),
		fmt.Sprintf("%s %d %d", name, day, year), fmt.Sprintf("%s %d, %d", name, day, year),
		strconv.Itoa(year),
	}
}

// spoken says whether a text has a letter: one without is the same in all
// languages.
func spoken(s string) bool { return strings.IndexFunc(s, unicode.IsLetter) >= 0 }
