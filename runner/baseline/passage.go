package baseline

import (
	"math"
	"slices"
	"strings"

	"bench/datasets"
)

// passage is a question and its context, cut into words and sentences.
type passage struct {
	row      datasets.Row
	words    []word
	sentence []int // of each word
	first    []int // first word of each sentence, and len(words)
	asked    []string
	content  map[string]float64 // idf of the question's stems
	key      [2]hash            // of the question's first word, and its first two
	// weight of each sentence for the question, and their order by it.
	weight []float64
	order  []int
}

// stem is a crude one: Scandinavian endings are suffixes.
func stem(lower string) string { return prefix(lower, 5) }

// idf holds log(n/df) of stems over the sentences of the training contexts;
// stems that are not in it count as seen once.
type idf struct {
	weights map[string]float64
	unseen  float64
}

func newIDF(rows []datasets.Row) idf {
	df := map[string]int{}
	sentences := 0
	seen := map[string]bool{}
	for _, row := range rows {
		if seen[row.Context] { // a context with several questions counts once
			continue
		}
		seen[row.Context] = true
		words := split(row.Context)
		here := map[string]bool{}
		for i, w := range words {
			if s := stem(w.lower); inWords(w.lower) && !here[s] {
				here[s] = true
				df[s]++
			}
			if endsSentence(row.Context, words, i) {
				sentences++
				clear(here)
			}
		}
	}
	x := idf{weights: make(map[string]float64, len(df)), unseen: math.Log(float64(sentences) + 1)}
	for s, n := range df {
		x.weights[s] = math.Log(float64(sentences+1) / float64(n))
	}
	return x
}

func (x idf) of(stem string) float64 {
	if w, ok := x.weights[stem]; ok {
		return w
	}
	return x.unseen
}

func inWords(s string) bool { return strings.ContainsFunc(s, inWord) }

// endsSentence says whether words[i] is the last of a sentence: a full stop,
// question mark or exclamation mark before a capital, or the end of a line.
func endsSentence(text string, words []word, i int) bool {
	if i+1 == len(words) {
		return true
	}
	if strings.Contains(text[words[i].end:words[i+1].start], "\n") {
		return true
	}
	switch words[i].text {
	case ".", "!", "?", "…":
		return words[i+1].text != words[i+1].lower || !inWords(words[i+1].text)
	}
	return false
}

// readAll reads rows.
func (x idf) readAll(rows []datasets.Row) []*passage {
	out := make([]*passage, len(rows))
	for i, row := range rows {
		out[i] = x.read(row)
	}
	return out
}

// neighbour is the share of a sentence's weight that the sentences beside it get:
// what "she" is, the sentence before says.
const neighbour = 0.3

// read cuts a row into a passage and weighs its sentences: the sum of the idf
// of the question's stems that a sentence contains, each once.
func (x idf) read(row datasets.Row) *passage {
	p := &passage{row: row, words: split(row.Context), content: map[string]float64{}}
	for _, w := range split(row.Question) {
		if inWords(w.lower) {
			p.asked = append(p.asked, w.lower)
			p.content[stem(w.lower)] = x.of(stem(w.lower))
		}
	}
	key := kind('q')
	for n := range 2 {
		if n < len(p.asked) {
			key = key.text(p.asked[n])
		}
		p.key[n] = key
	}
	p.first = append(p.first, 0)
	for i := range p.words {
		p.sentence = append(p.sentence, len(p.first)-1)
		if endsSentence(row.Context, p.words, i) {
			p.first = append(p.first, i+1)
		}
	}
	own := make([]float64, len(p.first)-1)
	found := map[string]bool{}
	for s := range own {
		clear(found)
		for _, w := range p.words[p.first[s]:p.first[s+1]] {
			if st := stem(w.lower); !found[st] {
				found[st] = true
				own[s] += p.content[st]
			}
		}
	}
	p.weight = slices.Clone(own)
	for s := range own {
		p.order = append(p.order, s)
		if s > 0 {
			p.weight[s] += neighbour * own[s-1]
		}
		if s+1 < len(own) {
			p.weight[s] += neighbour * own[s+1]
		}
	}
	slices.SortStableFunc(p.order, func(a, b int) int {
		switch {
		case p.weight[a] > p.weight[b]:
			return -1
		case p.weight[a] < p.weight[b]:
			return 1
		}
		return 0
	})
	return p
}

// goldSpan returns the first and last word of the first gold answer. An answer
// that begins or ends inside a word counts as that word.
func (p *passage) goldSpan() (first, last int, ok bool) {
	a, ok := firstAnswer(p.row)
	if !ok {
		return 0, 0, false
	}
	first, last = -1, -1
	for i, w := range p.words {
		if w.end > a.start && first < 0 {
			first = i
		}
		if w.start < a.end {
			last = i
		}
	}
	return first, last, first >= 0 && first <= last
}

// text returns the part of the context from word first to word last.
func (p *passage) text(first, last int) string {
	return p.row.Context[p.words[first].start:p.words[last].end]
}

// at returns the lower-case word i, or a mark beyond the ends.
func (p *passage) at(i int) string {
	if i < 0 || i >= len(p.words) {
		return "\x00"
	}
	return p.words[i].lower
}

// inQuestion says whether word i has a stem of the question.
func (p *passage) inQuestion(i int) bool {
	if i < 0 || i >= len(p.words) {
		return false
	}
	_, ok := p.content[stem(p.words[i].lower)]
	return ok
}

// nearest returns how many words before and after word i, within its sentence,
// the nearest word of the question is; 0 where there is none.
func (p *passage) nearest(i int) (before, after int) {
	s := p.sentence[i]
	for d := 1; i-d >= p.first[s] && before == 0; d++ {
		if p.inQuestion(i - d) {
			before = d
		}
	}
	for d := 1; i+d < p.first[s+1] && after == 0; d++ {
		if p.inQuestion(i + d) {
			after = d
		}
	}
	return before, after
}

// rank returns the place of sentence s by weight, 0 the first.
func (p *passage) rank(s int) int { return slices.Index(p.order, s) }

// small puts a number into one of a few classes.
func small(n int) int {
	switch {
	case n <= 4:
		return n
	case n <= 7:
		return 5
	case n <= 15:
		return 6
	}
	return 7
}

// place adds the features of word i as the border of an answer: what stands
// there and beside it, with the question's beginning.
func (p *passage) place(b *builder, i int) {
	w, h := p.words[i], shape(p.words[i].text)
	for n, key := range p.key {
		k := key.number(n)
		b.add(k.text("w").text(w.lower))
		b.add(k.text("h").text(h))
		b.add(k.text("s").text(suffix(w.lower, 3)))
		b.add(k.text("-1").text(p.at(i - 1)))
		b.add(k.text("+1").text(p.at(i + 1)))
	}
	k := kind('k')
	b.add(k.text("-2").text(p.at(i - 2)).text(p.at(i - 1)))
	b.add(k.text("+2").text(p.at(i + 1)).text(p.at(i + 2)))
	b.add(k.text("h").text(h))
	before, after := p.nearest(i)
	for _, k := range []hash{k, p.key[1]} {
		b.add(k.text("b").number(small(before)))
		b.add(k.text("a").number(small(after)))
		b.add(k.text("ba").number(small(before)).number(small(after)))
	}
}
