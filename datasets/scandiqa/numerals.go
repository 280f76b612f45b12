package scandiqa

import "strings"

// numeral is a number from 0 to 20 and its words: cardinals, then ordinals.
type numeral struct {
	n     int
	words []string
}

// numeralLanguages lists the languages of number words in the order in which an
// answer is looked up.
var numeralLanguages = []Lang{English, Danish, Swedish, Norwegian}

// numerals has the number words of each language. English has no 0.
var numerals = map[Lang][]numeral{
	English: table(1, `one first, two second, three third, four fourth, five fifth, six sixth, seven seventh,
		eight eighth, nine ninth, ten tenth, eleven eleventh, twelve twelfth, thirteen thirteenth,
		fourteen fourteenth, fifteen fifteenth, sixteen sixteenth, seventeen seventeenth,
		eighteen eighteenth, nineteen nineteenth, twenty twentieth`),
	Danish: table(0, `nul, en et første, to andet anden, tre tredje, fire fjerde, fem femte, seks sjette,
		syv syvende, otte ottende, ni niende, ti tiende, elleve ellevte, tolv tolvte, tretten trettende,
		fjorten fjortende, femten femtende, seksten sekstende, sytten syttende, atten attende,
		nitten nittende, tyve tyvende`),
	Swedish: table(0, `noll, en ett första, två andra, tre tredje, fyra fjärde, fem femte, sex sjätte,
		sju sjunde, åtta åttonde, nio nionde, tio tionde, elva elfte, tolv tolfte, tretton trettonde,
		fjorton fjortonde, femton femtonde, sexton sextonde, sjutton sjuttonde, arton artonde,
		nitton nittonde, tjugo tjugonde`),
	Norwegian: table(0, `null, én éi ett éin eitt første, to annen andre, tre tredje, fire fjerde, fem femte,
		seks sjette, sju syv sjuende, åtte åttende, ni niende, ti tiende, elleve ellevte, tolv tolvte,
		tretten trettende, fjorten fjortende, femten femtende, seksten sekstende, sytten syttende,
		atten attende, nitten nittende, tjue tjuende`),
}

// months has the names of the months, January first, in lower case.
var months = map[Lang][]string{
	English:   strings.Fields("january february march april may june july august september october november december"),
	Danish:    strings.Fields("januar februar marts april maj juni juli august september oktober november december"),
	Swedish:   strings.Fields("januari februari mars april maj juni juli augusti september oktober november december"),
	Norwegian: strings.Fields("januar februar mars april mai juni juli august september oktober november desember"),
}

// table numbers lists of words from first.
func table(first int, words string) []numeral {
	var t []numeral
	for i, entry := range strings.Split(words, ",") {
		t = append(t, numeral{first + i, strings.Fields(entry)})
	}
	return t
}

// numberWords returns the words of n in a language, or nil.
func numberWords(lang Lang, n int) []string {
	for _, e := range numerals[lang] {
		if e.n == n {
			return e.words
		}
	}
	return nil
}
