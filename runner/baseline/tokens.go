package baseline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bench/datasets"
)

// tokenVectors computes the features of every word of a sentence: the word
// itself, its prefixes, suffixes and shape, and those of its neighbours.
func tokenVectors(b *builder, tokens []string) []vector {
	lower := make([]string, len(tokens))
	shapes := make([]string, len(tokens))
	for i, t := range tokens {
		lower[i], shapes[i] = strings.ToLower(t), shape(t)
	}
	get := func(list []string, i int) string {
		if i < 0 || i >= len(list) {
			return "\x00"
		}
		return list[i]
	}
	out := make([]vector, len(tokens))
	for i, t := range tokens {
		b.add(kind('1'))
		b.add(kind('w').text(t))
		for n := 1; n <= 4; n++ {
			b.add(kind('p').text(prefix(lower[i], n)))
			b.add(kind('s').text(suffix(lower[i], n)))
		}
		grams := []rune("<" + lower[i] + ">")
		for at := 0; at+3 <= len(grams); at++ {
			b.add(kind('g').rune(grams[at]).rune(grams[at+1]).rune(grams[at+2]).stop())
		}
		first := ""
		if i == 0 {
			first = "first"
		}
		b.add(kind('h').text(shapes[i]).text(first))
		for d := -2; d <= 2; d++ {
			if d == 0 {
				continue
			}
			b.add(kind('n').number(d + 8).text(get(lower, i+d)))
			b.add(kind('m').number(d + 8).text(get(shapes, i+d)).text(shapes[i]))
			b.add(kind('e').number(d + 8).text(suffix(get(lower, i+d), 3)))
		}
		b.add(kind('b').text(get(lower, i-1)).text(lower[i]))
		b.add(kind('a').text(lower[i]).text(get(lower, i+1)))
		b.add(kind('x').text(get(lower, i-1)).text(get(lower, i+1)))
		b.add(kind('y').text(get(lower, i-2)).text(get(lower, i-1)))
		b.add(kind('z').text(get(shapes, i-1)).text(shapes[i]).text(get(shapes, i+1)))
		out[i] = b.vector()
	}
	return out
}

// gold returns the label numbers of a sentence.
func gold(row datasets.Row, class map[string]int) ([]int, error) {
	out := make([]int, len(row.Labels))
	for i, l := range row.Labels {
		k, ok := class[l]
		if !ok {
			return nil, &inputError{fmt.Errorf("row %s has the label %q, which is none of the data set's", row.ID, l)}
		}
		out[i] = k
	}
	return out, nil
}

// Training of the word classifier; chosen by trial on the sample suite
// and on other splits of Danish and Norwegian news.
var tokenSchedule = schedule{rate: 0.2, epochs: 15, patience: 2}

// ngramTokens classifies every word alone.
func ngramTokens(ctx context.Context, p *problem) (*result, error) {
	class := p.classIndex()
	b := newBuilder()
	examples := func(rows []datasets.Row) ([]labelled, error) {
		var out []labelled
		for i, row := range rows {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			ks, err := gold(row, class)
			if err != nil {
				return nil, err
			}
			for i, x := range tokenVectors(b, row.Tokens) {
				out = append(out, labelled{x, ks[i]})
			}
		}
		return out, nil
	}
	m, err := fitRows(ctx, p, examples, tokenSchedule)
	if err != nil {
		return nil, err
	}
	r := &result{}
	scores := make([]float64, len(p.labels))
	for i, row := range p.test {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		labels := make([]string, len(row.Tokens))
		for j, x := range tokenVectors(b, row.Tokens) {
			m.scores(m.known(x), scores)
			labels[j] = p.labels[slices.Index(scores, slices.Max(scores))]
		}
		r.predictions = append(r.predictions, tokensPrediction{row.ID, labels})
	}
	return r, nil
}
