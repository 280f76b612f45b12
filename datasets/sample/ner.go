package sample

import (
	"strings"

	"bench/datasets"
)

// A template is a list of words; "a|b|c" is one of these words, and a word in
// angle brackets is a name to fill in: <PER>, <LOC>, <ORG>, <MISC>, or <AMB:PER>
// and so on: a name that does not show what it is the name of, so that the rest
// of the sentence must tell.
var nerTemplates = []string{
	"<PER> bor|blev|sad i <LOC> .",
	"<PER> og <PER> mødtes i <LOC> i går|aften|maj .",
	"<ORG> har åbnet|lukket|solgt et kontor i <LOC> .",
	"Direktøren|Formanden for <ORG> , <PER> , rejser til <LOC> .",
	"I <LOC> læser|elsker|kender alle <MISC> .",
	"Formanden|Direktøren takkede <ORG> og <ORG> for hjælpen .",
	"Vejen|Toget fra <LOC> til <LOC> er lukket|forsinket .",
	"Læreren læste højt af <MISC> , som <PER> har skrevet|fundet .",
	"I fredags|tirsdags|søndags vandt <PER> <MISC> .",
	"<PER> arbejder|rejser|skriver for <ORG> .",
	"Sidste år|uge solgte <ORG> <MISC> til <ORG> .",
	"Byen|Skolen sover , men <PER> går|løber en tur .",
	"Direktøren|Læreren talte længe|aldrig med <PER> .",
	"Romanen <AMB:MISC> handler om <LOC> .",
	"Banken <AMB:ORG> ligger i <LOC> .",
	"Hverken <AMB:PER> eller <PER> kender <LOC> .",

	// The words around tell.
	"<AMB:PER> sagde|mente|troede , at hun var træt|glad|syg .",
	"<AMB:LOC> ligger ved havet|søen|skoven|åen .",
	"<AMB:ORG> sælger både|huse|senge og biler|stole|borde .",
	"<AMB:MISC> kom på biblioteket i maj|juni|går|aftes .",
	"Vi|De|Mange kørte gennem <AMB:LOC> om natten|dagen|aftenen .",
	"Vi|De|Mange ringede til <AMB:PER> om natten|dagen|aftenen .",
	"I går|aftes|søndags læste vi|de|alle <AMB:MISC> hele dagen|natten .",
	"I går|aftes|søndags købte vi|de|alle aktier i <AMB:ORG> .",

	// The type is told late: <WHAT> is a word for the kind of the name before.
	"<AMB:?> er , som de|vi alle ved|siger , <WHAT> .",
	"<AMB:?> var , som de|vi alle ved|siger , <WHAT> .",
	"Mange|Nogle|Alle har hørt|læst om <AMB:?> , der er|var|blev <WHAT> .",
	"Mange|Nogle|Alle har hørt|læst om <AMB:?> , der ikke er|var <WHAT> .",
	"I <LOC> ved|siger|tror alle , at <AMB:?> er|var|bliver <WHAT> .",
	"Når <PER> taler om <AMB:?> , er det altid|ofte|aldrig som <WHAT> .",
}

// whats are the words that tell late what a name stands for.
var whats = map[string][]string{
	"PER":  {"en god læge", "en gammel lærer", "en ung kvinde", "en kendt maler"},
	"LOC":  {"en gammel by", "en god havn", "en ung by", "en kendt ø"},
	"ORG":  {"en kendt bank", "en gammel avis", "en ung klub", "en god forretning"},
	"MISC": {"en god roman", "en kendt film", "en ung opera", "en gammel sang"},
}

var entityKinds = []string{"PER", "LOC", "ORG", "MISC"}

// lateTemplates is how many of nerTemplates, at the end, tell late.
const lateTemplates = 6

var (
	orgHeads   = []string{"Foreningen", "Fonden", "Klubben"}
	orgTails   = []string{"A/S", "Bank", "Kommune", "Universitet", "Rederi"}
	titleHeads = []string{"Det", "Den", "De"}
	titleMids  = []string{"Stille", "Røde", "Sidste", "Lange"}
	titleTails = pool{known: []string{"Hav", "Vinter", "Rejse", "Nætter", "Fugle", "Have"}, kept: []string{"Sommer", "Breve"}}
	prizeEnds  = []string{"prisen", "festivalen", "løbet"}
	acronyms   = pool{known: []string{"NDF", "KVL", "DSR", "FBK", "HTS"}, kept: []string{"LNB", "GKS"}}
)

// nerRow draws a sentence with one to three names. In four rows of ten the kind
// of an ambiguous name is told late.
func nerRow(d *draw, _ int) (datasets.Row, []string) {
	var row datasets.Row
	add := func(label string, words ...string) {
		for i, w := range words {
			l := label
			if l != "O" {
				l = "B-" + label
				if i > 0 {
					l = "I-" + label
				}
			}
			row.Tokens, row.Labels = append(row.Tokens, w), append(row.Labels, l)
		}
	}
	early := len(nerTemplates) - lateTemplates
	from := nerTemplates[:early]
	if d.chance(40) {
		from = nerTemplates[early:]
	}
	told := pick(d, entityKinds)
	for _, w := range strings.Fields(pick(d, from)) {
		slot, ok := strings.CutPrefix(w, "<")
		slot = strings.TrimSuffix(slot, ">")
		kind, isAmbiguous := strings.CutPrefix(slot, "AMB:")
		switch {
		case !ok:
			add("O", pick(d, strings.Split(w, "|")))
		case slot == "WHAT":
			add("O", strings.Fields(pick(d, whats[told]))...)
		case isAmbiguous && kind == "?":
			add(told, ambiguous.from(d))
		case isAmbiguous:
			add(kind, ambiguous.from(d))
		default:
			add(kind, strings.Fields(entity(d, kind))...)
		}
	}
	row.Text = detokenise(row.Tokens)
	return row, []string{strings.Join(row.Tokens, " ")}
}

// entity draws a name whose form goes with its kind, more or less.
func entity(d *draw, kind string) string {
	switch kind {
	case "PER":
		switch d.weighted(35, 50, 15) {
		case 0:
			return firstNames.from(d)
		case 1:
			return firstNames.from(d) + " " + ambiguous.from(d)
		}
		return firstNames.from(d) + " " + firstNames.from(d) + " " + ambiguous.from(d)
	case "LOC":
		if d.chance(70) {
			return placeName(d)
		}
		return ambiguous.from(d)
	case "ORG":
		switch d.weighted(35, 25, 20, 20) {
		case 0:
			return ambiguous.from(d) + " " + pick(d, orgTails)
		case 1:
			return pick(d, orgHeads) + " " + ambiguous.from(d)
		case 2:
			return placeName(d) + " " + pick(d, orgTails)
		}
		return acronyms.from(d)
	}
	if d.chance(50) {
		return pick(d, titleHeads) + " " + pick(d, titleMids) + " " + titleTails.from(d)
	}
	return ambiguous.from(d) + pick(d, prizeEnds)
}

// detokenise writes tokens as running text: no space before . and ,
func detokenise(tokens []string) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 && t != "." && t != "," {
			b.WriteByte(' ')
		}
		b.WriteString(t)
	}
	return b.String()
}
