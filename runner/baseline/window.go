package baseline

import (
	"context"
	"slices"
)

// windows is how many sentences of a context are searched for the answer.
const windows = 5

// window picks the sentences of the context that share the most with the
// question, by the idf of what they share, and ranks the spans of
// words in them by a linear model over their borders, their length,
// and their place.
func window(ctx context.Context, p *problem) (*result, error) {
	if p.head != headSpans {
		return nil, p.unsupported("window", headSpans)
	}
	x, b, none := newIDF(p.train), newBuilder(), hasNone(p.train)
	passages := x.readAll(p.train)
	limit := longest(passages)
	choose := func(v *passage) (choice, bool) {
		spans := v.spans(limit)
		first, last, ok := v.goldSpan()
		right := slices.Index(spans, [2]int{first, last})
		if !ok && none {
			right = len(spans)
		}
		if right < 0 { // not in the windows, or too long: nothing to learn here
			return choice{}, false
		}
		c := v.candidates(b, spans, none)
		c.gold = []int{right}
		return c, true
	}
	m, err := fitPassages(ctx, p, 1, passages, x.readAll(p.val), choose)
	if err != nil {
		return nil, err
	}
	r := &result{}
	var j judge
	for _, row := range p.test {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		v := x.read(row)
		spans := v.spans(limit)
		answer := spanPrediction{ID: row.ID}
		for i, s := range j.scores(m, m.recognise(v.candidates(b, spans, none)))[0] {
			if i > 0 && s <= answer.Score {
				continue
			}
			answer.Score, answer.Text = s, ""
			if i < len(spans) {
				answer.Text = v.text(spans[i][0], spans[i][1])
			}
		}
		r.predictions = append(r.predictions, answer)
	}
	return r, nil
}

// spans lists the candidates of up to longest words, first and last word, best
// window first. They neither begin nor end with punctuation.
func (p *passage) spans(longest int) [][2]int {
	var out [][2]int
	for _, s := range p.order[:min(windows, len(p.order))] {
		for i := p.first[s]; i < p.first[s+1]; i++ {
			if !inWords(p.words[i].text) {
				continue
			}
			for j := i; j < min(p.first[s+1], i+longest); j++ {
				if inWords(p.words[j].text) {
					out = append(out, [2]int{i, j})
				}
			}
		}
	}
	return out
}

// traits are what a span as a whole tells, beside its borders.
type traits struct {
	rank, length, asked, capitals int
	only                          string // the only word
}

// candidates computes the features of spans, and of no answer if there may be
// none. The parts of a span are its first word, its last word and its traits.
func (p *passage) candidates(b *builder, spans [][2]int, none bool) choice {
	var c choice
	borders := map[int]int{} // word → its part as a first word; the one after is that as a last
	border := func(word int) int {
		i, ok := borders[word]
		if !ok {
			p.place(b, word)
			i = len(c.parts)
			v := b.vector()
			c.parts = append(c.parts, v, v.other())
			borders[word] = i
		}
		return i
	}
	whole := map[traits]int{}
	for _, s := range spans {
		t := p.traits(s[0], s[1])
		i, ok := whole[t]
		if !ok {
			i = len(c.parts)
			c.parts = append(c.parts, p.traitsVector(b, t))
			whole[t] = i
		}
		c.candidates = append(c.candidates, [3]int{border(s[0]), border(s[1]) + 1, i})
	}
	if none {
		p.nowhere(b)
		c.candidates = append(c.candidates, [3]int{len(c.parts), -1, -1})
		c.parts = append(c.parts, b.vector())
	}
	return c
}

func (p *passage) traits(first, last int) traits {
	t := traits{rank: small(p.rank(p.sentence[first])), length: small(last - first + 1)}
	asked := 0
	for i := first; i <= last; i++ {
		if p.inQuestion(i) {
			asked++
		}
		if p.words[i].text != p.words[i].lower {
			t.capitals++
		}
	}
	t.asked, t.capitals = small(asked), small(t.capitals)
	if first == last {
		t.only = p.words[first].lower
	}
	return t
}

func (p *passage) traitsVector(b *builder, t traits) vector {
	for _, k := range []hash{kind('S'), p.key[0].number('S'), p.key[1].number('S')} {
		b.add(k.text("rank").number(t.rank))
		b.add(k.text("length").number(t.length))
		b.add(k.text("asked").number(t.asked))
		b.add(k.text("capitals").number(t.capitals).number(t.length))
		b.add(k.text("both").number(t.rank).number(t.asked))
	}
	if t.only != "" {
		b.add(p.key[1].text("only").text(t.only))
	}
	return b.vector()
}
