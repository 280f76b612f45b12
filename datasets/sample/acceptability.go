package sample

import (
	"slices"
	"strings"
	"sync"

	"bench/datasets"
	"bench/datasets/scala"
)

// word is a token with the part of speech that the grammar knows it has.
type word struct{ form, upos string }

// verb is a transitive verb in the forms that the patterns use.
type verb struct{ infinitive, past, participle string }

var (
	subjects    = []string{"hun", "han", "vi", "de", "jeg"}
	properNames = []string{"Anna", "Lars", "Freja", "Ólafur", "Åse"}
	objects     = []noun{
		{"bil", false}, {"båd", false}, {"kirke", false}, {"bog", false}, {"stol", false},
		{"have", false}, {"hus", true}, {"bord", true}, {"brev", true}, {"billede", true},
		{"tæppe", true}, {"vindue", true},
	}
	places     = []string{"byen", "skoven", "haven", "køkkenet", "huset", "skolen"}
	transitive = []verb{
		{"købe", "købte", "købt"}, {"male", "malede", "malet"}, {"finde", "fandt", "fundet"},
		{"se", "så", "set"}, {"sælge", "solgte", "solgt"}, {"tegne", "tegnede", "tegnet"},
	}
	attributes = []adjective{
		{"rød", "rødt"}, {"gammel", "gammelt"}, {"stor", "stort"}, {"ny", "nyt"}, {"grøn", "grønt"}, {"dyr", "dyrt"}, {"lys", "lyst"},
	}
	fronted     = []string{"nu", "derefter", "senere", "snart"}
	adverbs     = []string{"aldrig", "ofte", "ikke", "altid"}
	perfect     = []string{"har", "havde"}
	modals      = []string{"vil", "kan", "skal", "må"}
	adpositions = []string{"i", "bag", "ved"}
	knows       = []string{"ved", "tror", "siger", "håber"}
)

// patterns are the sentences of the grammar, one slot a word. Danish is
// verb-second: what stands in front pushes the subject behind the finite verb.
// And an adverb precedes the finite verb in a subordinate clause but follows it
// in a main clause, which two neighbouring words do not show.
var patterns = []string{
	"subj perf part det attr obj prep place .",
	"subj perf adv part det attr obj .",
	"front perf subj part det attr obj .",
	"front perf subj adv part det attr obj .",
	"subj modal inf det attr obj prep place .",
	"subj modal adv inf det attr obj .",
	"front modal subj inf det attr obj .",
	"subj know , at subj adv perf part det attr obj .",
	"subj know , at subj adv modal inf det attr obj .",
	"subj past adv det attr obj prep place .",
	"front past subj det attr obj prep place .",
}

// sentence fills the slots of a pattern. Determiner, adjective and noun agree.
func sentence(d *draw, pattern string) []word {
	o, v := pick(d, objects), pick(d, transitive)
	var out []word
	add := func(form, upos string) { out = append(out, word{form, upos}) }
	for _, slot := range strings.Fields(pattern) {
		switch slot {
		case "subj":
			if d.chance(25) {
				add(pick(d, properNames), "PROPN")
			} else {
				add(pick(d, subjects), "PRON")
			}
		case "perf":
			add(pick(d, perfect), "AUX")
		case "modal":
			add(pick(d, modals), "AUX")
		case "know":
			add(pick(d, knows), "VERB")
		case "past":
			add(v.past, "VERB")
		case "part":
			add(v.participle, "VERB")
		case "inf":
			add(v.infinitive, "VERB")
		case "det":
			if o.neuter {
				add("et", "DET")
			} else {
				add("en", "DET")
			}
		case "attr":
			add(pick(d, attributes).with(noun{neuter: o.neuter}), "ADJ")
		case "obj":
			add(o.form, "NOUN")
		case "prep":
			add(pick(d, adpositions), "ADP")
		case "place":
			add(pick(d, places), "NOUN")
		case "adv":
			add(pick(d, adverbs), "ADV")
		case "front":
			add(pick(d, fronted), "ADV")
		case "at":
			add("at", "SCONJ")
		default: // punctuation
			add(slot, "PUNCT")
		}
	}
	out[0].form = capitalise(out[0].form)
	return out
}

// acceptabilityRow draws a sentence, corrupted in every other row. No correct
// sentence serves twice, corrupted or not.
func acceptabilityRow(d *draw, n int) (datasets.Row, []string) {
	s := sentence(d, pick(d, patterns))
	source := treebank(s)
	correct := scala.Join(source.Words)
	if n%2 == 0 {
		return datasets.Row{Text: correct, Label: "correct"}, []string{correct}
	}
	bad := corrupt(d, s, source)
	return datasets.Row{Text: bad.Text, Label: "incorrect", Corruption: &bad.How}, []string{correct, bad.Text}
}

// treebank gives a sentence the form that the rules of ScaLA work on.
func treebank(s []word) scala.Sentence {
	t := scala.Sentence{Language: "da"}
	for _, w := range s {
		t.Words, t.Tags = append(t.Words, w.form), append(t.Tags, w.upos)
	}
	return t
}

// corrupt deletes a word or swaps two neighbours, each with probability ½, at a
// place that the rules of ScaLA allow. What comes out is never a sentence that
// the grammar could say.
func corrupt(d *draw, s []word, t scala.Sentence) scala.Corrupted {
	for {
		if d.chance(50) {
			i := pick(d, t.Deletable())
			if !grammatical()[tags(slices.Delete(slices.Clone(s), i, i+1))] {
				return scala.Corrupted{Text: t.Delete(i), How: datasets.Corruption{Type: scala.Delete, Indices: []int{i}}}
			}
			continue
		}
		i := pick(d, t.Swappable())
		swapped := slices.Clone(s)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		if !grammatical()[tags(swapped)] {
			return scala.Corrupted{Text: t.Swap(i), How: datasets.Corruption{Type: scala.Flip, Indices: []int{i, i + 1}}}
		}
	}
}

// tags names a sentence by what its grammaticality depends on: the part of
// speech of each word and, for verbs, which form it is. Names and pronouns are
// one class.
func tags(s []word) string {
	out := make([]string, len(s))
	for i, w := range s {
		switch {
		case w.upos == "PROPN":
			out[i] = "PRON"
		case w.upos == "VERB":
			out[i] = verbForm(w.form)
		case w.upos == "AUX" && slices.Contains(perfect, strings.ToLower(w.form)):
			out[i] = "AUX-perfect"
		default:
			out[i] = w.upos
		}
	}
	return strings.Join(out, " ")
}

func verbForm(form string) string {
	form = strings.ToLower(form)
	for _, v := range transitive {
		switch form {
		case v.infinitive:
			return "VERB-infinitive"
		case v.past:
			return "VERB-past"
		case v.participle:
			return "VERB-participle"
		}
	}
	return "VERB-knows"
}

// grammatical holds the tags of all sentences that are Danish although the
// corruption rules can make them: those of the patterns, and a question with
// the finite verb in front ("Har hun købt en rød bil i byen.").
var grammatical = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	d := &draw{src: newSource(0)}
	for _, p := range patterns {
		s := sentence(d, p)
		out[tags(s)] = true
		if s[0].upos == "PRON" || s[0].upos == "PROPN" {
			s[0], s[1] = s[1], s[0]
			out[tags(s)] = true
		}
	}
	return out
})
