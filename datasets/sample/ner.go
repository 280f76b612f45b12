package sample

import (
	"strings"

	"bench/datasets"
)

// A template is a list of words; a word in angle brackets is a name to fill in:
// <PER>, <LOC>, <ORG>, <MISC>, or <AMB:PER> and so on: a name that does not
// show what it is the name of, so that the rest of the sentence must tell.
var nerTemplates = []string{
	"<PER> bor i <LOC> .",
	"<PER> og <PER> mødtes i <LOC> i går .",
	"<ORG> har åbnet et kontor i <LOC> .",
	"Direktøren for <ORG> , <PER> , rejser til <LOC> .",
	"I <LOC> læser alle <MISC> .",
	"Formanden takkede <ORG> og <ORG> for hjælpen .",
	"Vejen fra <LOC> til <LOC> er lukket .",
	"Læreren læste højt af <MISC> , som <PER> har skrevet .",
	"I fredags vandt <PER> <MISC> .",
	"<PER> arbejder for <ORG> .",
	"Sidste år solgte <ORG> <MISC> til <ORG> .",
	"Bussen til <LOC> kører ikke i dag .",

	"<AMB:PER> sagde , at hun var træt .",
	"<AMB:LOC> ligger ved havet .",
	"<AMB:ORG> sælger både og biler .",
	"<AMB:MISC> kom på biblioteket i maj .",
	"Vi kørte gennem <AMB:LOC> om natten .",
	"Vi ringede til <AMB:PER> om natten .",
	"I går læste vi <AMB:MISC> hele dagen .",
	"I går købte vi aktier i <AMB:ORG> .",

	// The type is told late.
	"<AMB:LOC> er , som de fleste ved , en by .",
	"<AMB:ORG> er , som de fleste ved , en bank .",
	"<AMB:PER> er , som de fleste ved , en læge .",
	"<AMB:MISC> er , som de fleste ved , en roman .",
	"Mange har hørt om <AMB:LOC> , der er en meget gammel by .",
	"Mange har hørt om <AMB:ORG> , der er en meget gammel bank .",
	"Mange har hørt om <AMB:PER> , der er en meget gammel læge .",
	"Mange har hørt om <AMB:MISC> , der er en meget gammel roman .",

	"Byen sover , men <PER> går en tur .",
	"Direktøren talte længe med <PER> .",
	"Romanen <AMB:MISC> handler om <LOC> .",
	"Banken <AMB:ORG> ligger i <LOC> .",
	"Hverken <AMB:PER> eller <PER> kender <LOC> .",
}

var (
	orgHeads   = []string{"Foreningen", "Fonden", "Klubben"}
	orgTails   = []string{"A/S", "Bank", "Kommune", "Universitet", "Rederi"}
	titleHeads = []string{"Det", "Den", "De"}
	titleMids  = []string{"Stille", "Røde", "Sidste", "Lange"}
	titleTails = pool{known: []string{"Hav", "Vinter", "Rejse", "Nætter", "Fugle", "Have"}, kept: []string{"Sommer", "Breve"}}
	prizeEnds  = []string{"prisen", "festivalen", "løbet"}
	acronyms   = pool{known: []string{"NDF", "KVL", "DSR", "FBK", "HTS"}, kept: []string{"LNB", "GKS"}}
)

// nerRow draws a sentence with one to three names.
func nerRow(d *draw, _ int) (datasets.Row, []string) {
	var row datasets.Row
	for _, w := range strings.Fields(pick(d, nerTemplates)) {
		slot, ok := strings.CutPrefix(w, "<")
		if !ok {
			row.Tokens = append(row.Tokens, w)
			row.Labels = append(row.Labels, "O")
			continue
		}
		slot = strings.TrimSuffix(slot, ">")
		var name []string
		kind, isAmbiguous := strings.CutPrefix(slot, "AMB:")
		if isAmbiguous {
			name = []string{ambiguous.from(d)}
		} else {
			name = strings.Fields(entity(d, kind))
		}
		for i, part := range name {
			prefix := "B-"
			if i > 0 {
				prefix = "I-"
			}
			row.Tokens = append(row.Tokens, part)
			row.Labels = append(row.Labels, prefix+kind)
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
