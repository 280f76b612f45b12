package sample

import "bench/datasets"

// noun is something that can be judged, in the definite form, with its gender:
// Danish adjectives agree with it.
type noun struct {
	form   string
	neuter bool
}

// adjective has a form for either gender.
type adjective struct{ common, neuter string }

func (a adjective) with(n noun) string {
	if n.neuter {
		return a.neuter
	}
	return a.common
}

var judged = []noun{
	{"filmen", false}, {"maden", false}, {"bogen", false}, {"koncerten", false}, {"rejsen", false}, {"udstillingen", false},
	{"betjeningen", false}, {"musikken", false}, {"turen", false}, {"stemningen", false},
	{"hotellet", true}, {"værelset", true}, {"spillet", true}, {"museet", true}, {"køkkenet", true}, {"programmet", true},
	{"stykket", true}, {"cirkusset", true},
}

// polarity is −1, 0 or 1.
var polarAdjectives = map[int][]adjective{
	1: {{"god", "godt"}, {"smuk", "smukt"}, {"hyggelig", "hyggeligt"}, {"spændende", "spændende"}, {"fremragende", "fremragende"},
		{"morsom", "morsomt"}},
	-1: {{"dårlig", "dårligt"}, {"kedelig", "kedeligt"}, {"grim", "grimt"}, {"skuffende", "skuffende"}, {"elendig", "elendigt"},
		{"rodet", "rodet"}},
	0: {{"ny", "nyt"}, {"lang", "langt"}, {"kort", "kort"}, {"stor", "stort"}, {"gammel", "gammelt"}, {"dansk", "dansk"}},
}

var (
	intensifiers = []string{"meget", "virkelig", "ret", "utrolig"}
	negations    = []string{"ikke", "slet ikke", "bestemt ikke"}
	feelings     = map[int]string{1: "heldigvis", -1: "desværre"}
	judges       = []string{"min søster", "min bror", "naboen", "avisen", "læreren", "en ven"}
	settings     = []string{
		"vi kom klokken otte", "det regnede hele dagen", "min bror var med", "vi gik hjem til fods", "der var mange mennesker",
		"det var en lørdag", "vi sad længe ved døren", "billetten lå i lommen", "vi var fem i alt", "bussen kørte klokken ti",
	}
	visits = []string{"vi så %s i går", "vi hørte om %s i radioen", "vi talte om %s på vejen hjem", "de skrev om %s i avisen", "jeg tog et billede af %s"}
)

var polarityLabels = map[int]string{1: "positive", 0: "neutral", -1: "negative"}

// sentimentRow draws a small review of one to three sentences. Exactly one of
// them judges, and its construction decides the label; the others set the scene.
func sentimentRow(d *draw, n int) (datasets.Row, []string) {
	want := [...]int{1, -1, 0, 1, -1, 0, 1, -1}[n%8]
	sentences := []string{judgement(d, want)}
	for d.chance(35) && len(sentences) < 3 {
		s := pick(d, settings)
		if d.chance(50) {
			sentences = append(sentences, s)
		} else {
			sentences = append([]string{s}, sentences...)
		}
	}
	text := ""
	for i, s := range sentences {
		if i > 0 {
			text += " "
		}
		text += capitalise(s) + "."
	}
	return datasets.Row{Text: text, Label: polarityLabels[want]}, []string{text}
}

// describe says that n is an adjective of the given polarity, with or without
// an intensifier, which changes nothing.
func describe(d *draw, n noun, polarity int) string {
	a := pick(d, polarAdjectives[polarity]).with(n)
	if d.chance(40) {
		return pick(d, intensifiers) + " " + a
	}
	return a
}

// judgement draws a sentence whose polarity is want.
func judgement(d *draw, want int) string {
	a, b := pick(d, judged), pick(d, judged)
	for a == b {
		b = pick(d, judged)
	}
	if want == 0 {
		return neutralJudgement(d, a)
	}
	// Who is content rarely says so by negation: "not bad" is rarer than "not
	// good". A model can learn the one after the other.
	plain, near, far := 60, 18, 8
	if want > 0 {
		plain, near, far = 74, 9, 3
	}
	switch d.weighted(plain, near, far, 6, 6, 2) {
	case 0: // plain; now and then an adverb says it as well
		if d.chance(30) {
			return feelings[want] + " var " + a.form + " " + describe(d, a, want)
		}
		return a.form + " var " + describe(d, a, want)
	case 1: // negation beside the adjective
		return a.form + " var " + pick(d, negations) + " " + describe(d, a, -want)
	case 2: // negation far before the adjective
		return farNegation(d) + ", at " + a.form + " var " + describe(d, a, -want)
	case 3: // the main clause decides, and comes last
		return "selv om " + b.form + " var " + describe(d, b, -want*d.n(2)) + ", var " + a.form + " " + describe(d, a, want)
	case 4: // the main clause decides, and comes first
		return a.form + " var " + describe(d, a, want) + ", selv om " + b.form + " var " + describe(d, b, -want*d.n(2))
	}
	// the last word counts
	return b.form + " var " + describe(d, b, -want*d.n(2)) + ", men " + a.form + " var " + describe(d, a, want)
}

func farNegation(d *draw) string {
	if d.chance(50) {
		return "jeg synes ikke"
	}
	return "vi mente ikke"
}

func neutralJudgement(d *draw, a noun) string {
	switch d.weighted(30, 10, 25, 35) {
	case 0:
		return a.form + " var " + describe(d, a, 0)
	case 1:
		return a.form + " var " + pick(d, negations) + " " + describe(d, a, 0)
	case 2:
		before, after := cut(pick(d, visits))
		return before + a.form + after
	}
	// nobody knows
	return pick(d, []string{"jeg ved ikke", pick(d, judges) + " spurgte"}) + ", om " + a.form + " var " + describe(d, a, 1-2*d.n(2))
}
