// Package profile describes a uniform data set by numbers: rows, labels,
// lengths, repeats, and what splits share. There is no text in a profile, so it
// may be kept and published where the data set may not; two builds that differ
// in their profiles differ in their rows.
package profile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"bench/datasets"
)

// Profile describes a data set.
type Profile struct {
	Name   string        `json:"name"`
	Kind   datasets.Kind `json:"task"`
	Digest string        `json:"digest"`
	Recipe int           `json:"recipe_version"`
	// Partial: sources were missing; the full data set has another profile.
	Partial bool      `json:"partial,omitempty"`
	Splits  []Split   `json:"splits"`  // train, val, test
	Overlap []Overlap `json:"overlap"` // of each two splits
}

// Split describes one split.
type Split struct {
	Name datasets.Split `json:"name"`
	Rows int            `json:"rows"`
	// Labels counts rows of each class; NER: entities by type; QA: answerable
	// and unanswerable questions.
	Labels map[string]int `json:"labels,omitempty"`
	// Corruptions counts the rows of each way of corrupting a sentence.
	Corruptions map[string]int `json:"corruptions,omitempty"`
	// Repeats is the number of rows whose content (see Content) an earlier row of
	// the split has.
	Repeats int `json:"repeats"`
	// Contradictions is the number of contents that rows of the split label in
	// more than one way.
	Contradictions int `json:"contradictions"`
	// Empty is the number of rows without any text.
	Empty int `json:"empty,omitempty"`
	// Characters of the text (QA: of the context), in Unicode code points.
	Characters Lengths `json:"characters"`
	// Words: tokens of NER, else runs between white space. QA: of the context.
	Words Lengths `json:"words"`
	// Questions are the characters of the questions; QA only.
	Questions *Lengths `json:"question_characters,omitempty"`
	// Answers are the characters of the first answers; QA only.
	Answers *Lengths `json:"answer_characters,omitempty"`
	// Entities is the number of words of the entities; NER only.
	Entities *Lengths `json:"entity_words,omitempty"`
}

// Overlap says how much of one split is in another one.
type Overlap struct {
	Of datasets.Split `json:"of"`
	In datasets.Split `json:"in"`
	// Rows of the split Of whose content a row of the split In has too.
	Rows int `json:"rows"`
	// SameLabel are those of them that have the same gold there.
	SameLabel int `json:"same_label"`
	// Contexts: questions of Of whose context is in In, with this or another
	// question; QA only.
	Contexts int `json:"contexts,omitempty"`
}

// Lengths is a distribution of lengths. Quantiles are the smallest values that
// at least this share of the values does not exceed (nearest rank), so they are
// whole numbers. All are 0 where there are no values.
type Lengths struct {
	Min    int     `json:"min"`
	P25    int     `json:"p25"`
	Median int     `json:"median"`
	P75    int     `json:"p75"`
	P95    int     `json:"p95"`
	Max    int     `json:"max"`
	Mean   float64 `json:"mean"` // rounded to hundredths
	// Histogram counts values in bins whose widths double:
	// 0, 1, 2–3, 4–7, 8–15, … up to the bin of Max.
	Histogram []int `json:"histogram"`
}

// Of describes a data set, which it reads as a whole.
func Of(d *datasets.Dataset) (Profile, error) {
	rows := map[datasets.Split][]datasets.Row{}
	for _, s := range datasets.Splits {
		r, err := d.Rows(s)
		if err != nil {
			return Profile{}, err
		}
		rows[s] = r
	}
	p := Rows(d.Kind, rows)
	p.Name, p.Digest, p.Recipe, p.Partial = d.Name, d.Digest, d.Recipe.Version, d.Partial != nil
	for i, s := range datasets.Splits {
		p.Splits[i].Labels = d.Counts[s].Labels
	}
	return p, nil
}

// Rows describes rows alone; Name, Digest, Recipe, Partial and the label counts
// stay empty.
func Rows(k datasets.Kind, rows map[datasets.Split][]datasets.Row) Profile {
	p := Profile{Kind: k, Overlap: []Overlap{}}
	for _, s := range datasets.Splits {
		p.Splits = append(p.Splits, describe(k, s, rows[s]))
	}
	for i, of := range datasets.Splits {
		for _, in := range datasets.Splits[:i] {
			p.Overlap = append(p.Overlap, overlap(k, of, in, rows[of], rows[in]))
		}
	}
	return p
}

// Content is what a model is shown of a row, as a key: the tokens (NER),
// question and context (QA), else the text. Rows with equal contents are
// repeats.
func Content(k datasets.Kind, r datasets.Row) string {
	switch k {
	case datasets.NER:
		return strings.Join(r.Tokens, "\x00")
	case datasets.QA:
		return r.Question + "\x00" + r.Context
	}
	return r.Text
}

// Gold is what is to be predicted of a row, as a key. How an incorrect
// sentence was made is no part of it.
func Gold(k datasets.Kind, r datasets.Row) string {
	switch k {
	case datasets.NER:
		return strings.Join(r.Labels, " ")
	case datasets.QA:
		if r.Answers == nil {
			return ""
		}
		return fmt.Sprintf("%q %d", r.Answers.Text, r.Answers.Start)
	}
	return r.Label
}

func describe(k datasets.Kind, name datasets.Split, rows []datasets.Row) Split {
	s := Split{Name: name, Rows: len(rows)}
	golds := map[string]map[string]bool{}
	var characters, words, questions, answers, entities []int
	for _, r := range rows {
		content := Content(k, r)
		if golds[content] == nil {
			golds[content] = map[string]bool{}
		} else {
			s.Repeats++
		}
		golds[content][Gold(k, r)] = true
		text := r.Text
		if k == datasets.QA {
			text = r.Context
			questions = append(questions, utf8.RuneCountInString(r.Question))
			if r.Answers != nil && len(r.Answers.Text) > 0 {
				answers = append(answers, utf8.RuneCountInString(r.Answers.Text[0]))
			}
		}
		if strings.TrimSpace(text) == "" {
			s.Empty++
		}
		characters = append(characters, utf8.RuneCountInString(text))
		if k == datasets.NER {
			words = append(words, len(r.Tokens))
			entities = append(entities, spans(r.Labels)...)
		} else {
			words = append(words, len(strings.Fields(text)))
		}
		if r.Corruption != nil {
			if s.Corruptions == nil {
				s.Corruptions = map[string]int{}
			}
			s.Corruptions[r.Corruption.Type]++
		}
	}
	for _, g := range golds {
		if len(g) > 1 {
			s.Contradictions++
		}
	}
	s.Characters, s.Words = lengths(characters), lengths(words)
	optional := func(x []int) *Lengths {
		l := lengths(x)
		return &l
	}
	switch k {
	case datasets.QA:
		s.Questions, s.Answers = optional(questions), optional(answers)
	case datasets.NER:
		s.Entities = optional(entities)
	}
	return s
}

// spans returns the lengths of the entities of a row, in words. An I- without
// a beginning belongs to none, as in the counts of a data set.
func spans(labels []string) []int {
	var out []int
	open := false
	for _, l := range labels {
		switch {
		case strings.HasPrefix(l, "B-"):
			out, open = append(out, 1), true
		case strings.HasPrefix(l, "I-") && open:
			out[len(out)-1]++
		default:
			open = false
		}
	}
	return out
}

func overlap(k datasets.Kind, of, in datasets.Split, rows, others []datasets.Row) Overlap {
	o := Overlap{Of: of, In: in}
	golds := map[string]map[string]bool{}
	contexts := map[string]bool{}
	for _, r := range others {
		c := Content(k, r)
		if golds[c] == nil {
			golds[c] = map[string]bool{}
		}
		golds[c][Gold(k, r)] = true
		contexts[r.Context] = true
	}
	for _, r := range rows {
		if g := golds[Content(k, r)]; g != nil {
			o.Rows++
			if g[Gold(k, r)] {
				o.SameLabel++
			}
		}
		if k == datasets.QA && contexts[r.Context] {
			o.Contexts++
		}
	}
	return o
}

func lengths(x []int) Lengths {
	l := Lengths{Histogram: []int{}}
	if len(x) == 0 {
		return l
	}
	x = slices.Clone(x)
	slices.Sort(x)
	at := func(share float64) int { return x[max(0, int(math.Ceil(share*float64(len(x))))-1)] }
	l.Min, l.P25, l.Median, l.P75, l.P95, l.Max = x[0], at(0.25), at(0.5), at(0.75), at(0.95), x[len(x)-1]
	sum := 0
	l.Histogram = make([]int, Bin(l.Max)+1)
	for _, v := range x {
		sum += v
		l.Histogram[Bin(v)]++
	}
	l.Mean = math.Round(100*float64(sum)/float64(len(x))) / 100
	return l
}

// Bin returns the bin of Lengths.Histogram that v ≥ 0 belongs to: 0 for 0, else
// 1 + ⌊log₂ v⌋.
func Bin(v int) int {
	b := 0
	for ; v > 0; v >>= 1 {
		b++
	}
	return b
}

// BinRange returns the smallest and the largest value of a bin.
func BinRange(bin int) (low, high int) {
	if bin == 0 {
		return 0, 0
	}
	return 1 << (bin - 1), 1<<bin - 1
}
