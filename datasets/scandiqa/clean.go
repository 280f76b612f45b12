package scandiqa

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// CleanQuestion returns a question as the data set shows it: each run of white
// space is one space, the first letter is in title case and all others in lower
// case, nothing around it, and a question mark at the end.
func CleanQuestion(q string) string {
	var b strings.Builder
	space := false
	for _, r := range q {
		if isSpace(r) {
			if !space {
				b.WriteByte(' ')
			}
			space = true
			continue
		}
		space = false
		b.WriteRune(r)
	}
	q = b.String()
	// As str.capitalize does it: a leading space counts as the first letter.
	if first, n := utf8.DecodeRuneInString(q); n > 0 {
		q = string(unicode.ToTitle(first)) + cases.Lower(language.Und).String(q[n:])
	}
	q = strings.TrimFunc(q, isSpace)
	if !strings.HasSuffix(q, "?") {
		q += "?"
	}
	return q
}

var reference = regexp.MustCompile(`\[([0-9]+|citation needed)\]`)

// CleanText returns a context or an answer in NFKC, without Wikipedia's
// reference marks ("[12]", "[citation needed]") and without white space around
// it.
func CleanText(s string) string {
	return strings.TrimFunc(reference.ReplaceAllString(norm.NFKC.String(s), ""), isSpace)
}

// isSpace is Python's str.isspace of one character: the four separators of
// ASCII are white space there.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }
