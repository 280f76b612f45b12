package sample

import (
	"strings"
	"unicode/utf8"

	"bench/datasets"
)

// fact is something a person can have: how it is told with the person's name,
// how it is asked for, how it is told of a pronoun, and what the answer may be. <P> stands for the person, <A> for the answer.
type fact struct {
	tell    []string
	pronoun string
	ask     []string
	answers func(d *draw) string
}

func oneOf(list ...string) func(*draw) string {
	return func(d *draw) string { return pick(d, list) }
}

var facts = []fact{
	{
		tell:    []string{"<P> bor i <A>.", "I <A> bor <P>."},
		ask:     []string{"Hvor bor <P>?", "I hvilken by bor <P>?"},
		pronoun: "<P> bor i <A>.",
		answers: func(d *draw) string { return pick(d, towns) },
	},
	{
		tell:    []string{"<P> arbejder som <A>.", "<P> er uddannet <A>."},
		ask:     []string{"Hvad arbejder <P> som?", "Hvilket arbejde har <P>?"},
		pronoun: "<P> arbejder som <A>.",
		answers: oneOf("bager", "læge", "tømrer", "lærer", "fisker", "maler", "dommer", "gartner", "pilot", "kok"),
	},
	{
		tell:    []string{"<P> har købt <A>.", "I går købte <P> <A>."},
		ask:     []string{"Hvad har <P> købt?", "Hvad købte <P>?"},
		pronoun: "<P> har købt <A>.",
		answers: func(d *draw) string { return pick(d, boughtArticles) + " " + pick(d, boughtThings) },
	},
	{
		tell:    []string{"<P> rejser om <A>.", "Om <A> rejser <P>."},
		ask:     []string{"Hvornår rejser <P>?", "Hvilken dag rejser <P>?"},
		pronoun: "<P> rejser om <A>.",
		answers: oneOf("mandagen", "tirsdagen", "onsdagen", "torsdagen", "fredagen", "lørdagen", "søndagen"),
	},
	{
		tell:    []string{"<P> er <A> år gammel.", "<P> fyldte <A> år i maj."},
		ask:     []string{"Hvor gammel er <P>?", "Hvor mange år er <P>?"},
		pronoun: "<P> er <A> år gammel.",
		answers: func(d *draw) string { return digits(31 + 2*d.n(15)) },
	},
}

// person is a name with the pronoun that stands for it.
type person struct{ name, pronoun string }

var (
	people = []person{
		{"Anna", "Hun"}, {"Lars", "Han"}, {"Mette", "Hun"}, {"Søren", "Han"}, {"Freja", "Hun"}, {"Jógvan", "Han"}, {"Sigrún", "Hun"},
		{"Åse", "Hun"}, {"Peter", "Han"}, {"Emil", "Han"}, {"Þóra", "Hun"}, {"Niels", "Han"}, {"Guðrún", "Hun"}, {"Tróndur", "Han"},
	}
	doings         = []string{"er glad i dag", "kender alle", "sover længe", "sang i går"}
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

// qaRow draws a context about three or four people, each with a fact, and a
// question about one of these facts. In half of the rows somebody else has a
// fact of the same kind, so that the kind of the answer does not give it away;
// and many facts are told of a pronoun, so that the name stands one
// sentence earlier. Every answer is in the context once, so it has one place.
func qaRow(d *draw, n int) (datasets.Row, []string) {
	who := distinct(d, 3+d.n(2), func(d *draw) person { return pick(d, people) })
	kinds := []int{0, 1, 2, 3, 4}
	shuffle(d, kinds)
	kinds = kinds[:len(who)]
	if n%2 == 0 {
		kinds[1] = kinds[0] // the first is the one that is asked for
	}
	var told []string
	answers := map[string]bool{}
	var asked, answer string
	for i, p := range who {
		f := facts[kinds[i]]
		a := f.answers(d)
		for answers[a] {
			a = f.answers(d)
		}
		answers[a] = true
		tell := capitalise(fill(pick(d, f.tell), p.name, a))
		if d.chance(45) {
			tell = p.name + " " + pick(d, doings) + ". " + fill(f.pronoun, p.pronoun, a)
		}
		if i == 0 {
			asked, answer = tell, a
		}
		told = append(told, tell)
	}
	fillers := d.n(2)
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
		Question: fill(pick(d, facts[kinds[0]].ask), who[0].name, ""), Context: context,
		Answers: &datasets.Answers{Text: []string{answer}, Start: []int{utf8.RuneCountInString(context[:at])}},
	}
	return row, []string{context}
}

func fill(template, person, answer string) string {
	return strings.NewReplacer("<P>", person, "<A>", answer).Replace(template)
}

// distinct draws n different values.
func distinct[T comparable](d *draw, n int, from func(*draw) T) []T {
	var out []T
	seen := map[T]bool{}
	for len(out) < n {
		if v := from(d); !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

func digits(n int) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}) }
