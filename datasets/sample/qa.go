package sample

import (
	"strings"
	"unicode/utf8"

	"bench/datasets"
)

// fact is something a person can have: how it is told, how it is asked for, and
// what the answer may be. <P> stands for the person, <A> for the answer.
type fact struct {
	tell, ask []string
	answers   func(d *draw) string
}

func oneOf(list ...string) func(*draw) string {
	return func(d *draw) string { return pick(d, list) }
}

var facts = []fact{
	{
		tell:    []string{"<P> bor i <A>.", "I <A> bor <P>."},
		ask:     []string{"Hvor bor <P>?", "I hvilken by bor <P>?"},
		answers: func(d *draw) string { return pick(d, towns) },
	},
	{
		tell:    []string{"<P> arbejder som <A>.", "<P> er uddannet <A>."},
		ask:     []string{"Hvad arbejder <P> som?", "Hvilket arbejde har <P>?"},
		answers: oneOf("bager", "læge", "tømrer", "lærer", "fisker", "maler", "dommer", "gartner", "pilot", "kok"),
	},
	{
		tell:    []string{"<P> har købt <A>.", "I går købte <P> <A>."},
		ask:     []string{"Hvad har <P> købt?", "Hvad købte <P>?"},
		answers: func(d *draw) string { return pick(d, boughtArticles) + " " + pick(d, boughtThings) },
	},
	{
		tell:    []string{"<P> rejser om <A>.", "Om <A> rejser <P>."},
		ask:     []string{"Hvornår rejser <P>?", "Hvilken dag rejser <P>?"},
		answers: oneOf("mandagen", "tirsdagen", "onsdagen", "torsdagen", "fredagen", "lørdagen", "søndagen"),
	},
	{
		tell:    []string{"<P> er <A> år gammel.", "<P> fyldte <A> år i maj."},
		ask:     []string{"Hvor gammel er <P>?", "Hvor mange år er <P>?"},
		answers: func(d *draw) string { return digits(31 + 2*d.n(15)) },
	},
}

var (
	people         = []string{"Anna", "Lars", "Mette", "Søren", "Freja", "Jógvan", "Sigrún", "Åse", "Peter", "Ingrid", "Þóra", "Niels", "Guðrún", "Emil"}
	towns          = []string{"Ravnsborg", "Nordby", "Kongsvig", "Fuglesund", "Sildrup", "Birkeø", "Østerhavn", "Møllev", "Stenby", "Vinterborg", "Anevig", "Havnsund"}
	boughtArticles = []string{"en rød", "en gammel", "en lille", "en grøn"}
	boughtThings   = []string{"bil", "båd", "cykel", "hund", "guitar", "hat"}
	qaFillers      = []string{
		"Vinden kom fra nord.", "Der var ingen is på søen.", "Ingen så noget til katten.", "Toget var forsinket igen.", "Kaffen blev hurtigt kold.",
		"Børnene legede bag huset.", "Alle talte om vejret.", "Hunden sov under bordet.", "Lyset brændte hele natten.", "Posten kom først ved middag.",
	}
)

// longContext is how many filler sentences make a context that does not fit
// into one window of a model with 256 positions (192 of them per window).
const longContext = 36

// qaRow draws a context about two or three people, each with a fact of their
// own kind, and a question about one of these facts. In half of the rows
// somebody else has a fact of the kind that is asked for, so that the kind of
// the answer does not give it away. Every answer is in the context once, so it
// has one place.
func qaRow(d *draw, n int) (datasets.Row, []string) {
	who := distinct(d, 2+d.n(2), func(d *draw) string { return pick(d, people) })
	kinds := []int{0, 1, 2, 3, 4}
	shuffle(d, kinds)
	kinds = kinds[:len(who)]
	if n%2 == 0 {
		kinds[1] = kinds[0] // the first is the one that is asked for
	}
	var told []string
	answers := map[string]bool{}
	var answer string
	for i, p := range who {
		f := facts[kinds[i]]
		a := f.answers(d)
		for answers[a] {
			a = f.answers(d)
		}
		answers[a] = true
		if i == 0 {
			answer = a
		}
		told = append(told, capitalise(fill(pick(d, f.tell), p, a)))
	}
	asked := told[0]
	fillers := d.n(2)
	// Long contexts are rare in training, where each widens a whole batch.
	if n%64 == 63 || d.test && n%16 == 15 {
		fillers = longContext
	}
	for range fillers {
		told = append(told, pick(d, qaFillers))
	}
	shuffle(d, told)
	context := strings.Join(told, " ")
	at := strings.Index(context, asked)
	at += strings.Index(asked, answer)
	row := datasets.Row{
		Question: fill(pick(d, facts[kinds[0]].ask), who[0], ""), Context: context,
		Answers: &datasets.Answers{Text: []string{answer}, Start: []int{utf8.RuneCountInString(context[:at])}},
	}
	return row, []string{context}
}

func fill(template, person, answer string) string {
	return strings.NewReplacer("<P>", person, "<A>", answer).Replace(template)
}

// distinct draws n different values.
func distinct(d *draw, n int, from func(*draw) string) []string {
	var out []string
	seen := map[string]bool{}
	for len(out) < n {
		if v := from(d); !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

func digits(n int) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}) }
