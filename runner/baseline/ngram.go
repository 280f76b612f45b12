package baseline

import (
	"context"
	"fmt"
	"slices"

	"bench/datasets"
)

// ngram is logistic regression over hashed n-grams: of characters and words of
// a text (classification), of a word and its neighbours (NER), and of words and
// their relation to the question (QA).
func ngram(ctx context.Context, p *problem) (*result, error) {
	switch p.head {
	case headSequence:
		return ngramClasses(ctx, p)
	case headTokens:
		return ngramTokens(ctx, p)
	case headSpans:
		return ngramSpans(ctx, p)
	}
	return nil, p.unsupported("ngram", "classification, NER and QA")
}

// Training of the classifier; chosen by trial on the sample suite
// and on other splits of Swedish and Norwegian reviews.
var classSchedule = schedule{rate: 0.15, epochs: 30, patience: 4}

func ngramClasses(ctx context.Context, p *problem) (*result, error) {
	class := p.classIndex()
	b := newBuilder()
	examples := func(rows []datasets.Row) ([]labelled, error) {
		out := make([]labelled, 0, len(rows))
		for i, row := range rows {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			k, ok := class[row.Label]
			if !ok {
				return nil, &inputError{fmt.Errorf("row %s has the label %q, which is none of %q", row.ID, row.Label, p.labels)}
			}
			out = append(out, labelled{textVector(b, row.Text), k})
		}
		return out, nil
	}
	m, err := fitRows(ctx, p, examples, classSchedule)
	if err != nil {
		return nil, err
	}
	r := &result{}
	scores := make([]float64, len(p.labels))
	for i, row := range p.test {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m.scores(m.known(textVector(b, row.Text)), scores)
		best := slices.Index(scores, slices.Max(scores))
		named := make(map[string]float64, len(scores))
		for k, s := range scores {
			named[p.labels[k]] = s
		}
		r.predictions = append(r.predictions, classPrediction{row.ID, p.labels[best], named})
	}
	return r, nil
}

// Lengths of the n-grams of a text.
const (
	maxWordGram = 3
	minCharGram = 2
	maxCharGram = 5
)

// textVector holds the n-grams of one to three words, with the borders of the
// text as words, and of two to five characters, across words.
func textVector(b *builder, text string) vector {
	words := split(text)
	at := func(i int) string {
		if i < 0 || i >= len(words) {
			return "\x00"
		}
		return words[i].lower
	}
	for i := -1; i < len(words); i++ {
		h := kind('w')
		for n := range maxWordGram {
			if i+n > len(words) {
				break
			}
			h = h.text(at(i + n))
			b.add(h)
		}
	}
	runes := []rune{' '}
	for _, w := range words {
		runes = append(append(runes, []rune(w.lower)...), ' ')
	}
	for i := range runes {
		h := kind('c')
		for n := 1; n <= maxCharGram && i+n <= len(runes); n++ {
			h = h.rune(runes[i+n-1])
			if n >= minCharGram {
				b.add(h.stop())
			}
		}
	}
	return b.vector()
}
