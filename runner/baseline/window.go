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
	x := newIDF(p.train)
	train, err := readAll(ctx, x, p.train)
	if err != nil {
		return nil, err
	}
	val, err := readAll(ctx, x, p.val)
	if err != nil {
		return nil, err
	}
	none, limit := hasNone(p.train), longest(train)
	b := newBuilder()
	p.endPhase("tokenize")
	m, err := trainChoices(ctx, p, 1, train, val, spanSchedule, func(v *passage) (choice, bool) {
		spans := v.spans(limit)
		first, last, ok := v.goldSpan()
		right := slices.Index(spans, [2]int{first, last})
		if !ok && none {
			right = len(spans)
		}
		if right < 0 { // not in the windows, or too long: nothing to learn here
			return choice{}, false
		}
		return choice{v.candidates(b, spans, none), []int{right}}, true
	})
	if err != nil {
		return nil, err
	}
	p.endPhase("train")
	r := &result{}
	var scores [][]float64
	for _, row := range p.test {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		v := x.read(row)
		spans := v.spans(limit)
		scores = m.scoreAll(v.candidates(b, spans, none), scores)
		answer := spanPrediction{ID: row.ID}
		for i, s := range scores[0] {
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

// candidates computes the features of spans, and of no answer if there may be
// none. Those of a border are computed once for all spans that share it.
func (p *passage) candidates(b *builder, spans [][2]int, none bool) []vector {
	borders := map[[2]int][]uint32{}
	border := func(side, i int) {
		index, ok := borders[[2]int{side, i}]
		if !ok {
			at := len(b.index)
			p.place(b, side, i)
			borders[[2]int{side, i}] = slices.Clone(b.index[at:])
			return
		}
		for _, i := range index {
			b.addBucket(i)
		}
	}
	var out []vector
	for _, s := range spans {
		first, last := s[0], s[1]
		border(0, first)
		border(1, last)
		asked, capitals := 0, 0
		for i := first; i <= last; i++ {
			if p.inQuestion(i) {
				asked++
			}
			if p.words[i].text != p.words[i].lower {
				capitals++
			}
		}
		rank, length := small(p.rank(p.sentence[first])), small(last-first+1)
		for _, k := range []hash{kind('S'), p.key[0].number('S'), p.key[1].number('S')} {
			b.add(k.text("rank").number(rank))
			b.add(k.text("length").number(length))
			b.add(k.text("asked").number(small(asked)))
			b.add(k.text("capitals").number(small(capitals)).number(length))
			b.add(k.text("both").number(rank).number(small(asked)))
		}
		if first == last {
			b.add(p.key[1].text("only").text(p.words[first].lower))
		}
		out = append(out, b.vector())
	}
	if none {
		p.nowhere(b)
		out = append(out, b.vector())
	}
	return out
}
