package baseline

import (
	"context"
	"slices"

	"bench/datasets"
)

// maxAnswer bounds the answers that are looked for, in words.
const maxAnswer = 12

// longest returns the length in words that 98 % of the training answers keep
// to, at most maxAnswer: longer candidates cost time and are hardly ever right.
func longest(rows []*passage) int {
	var lengths []int
	for _, v := range rows {
		if first, last, ok := v.goldSpan(); ok {
			lengths = append(lengths, last-first+1)
		}
	}
	if len(lengths) == 0 {
		return 1
	}
	slices.Sort(lengths)
	return min(maxAnswer, lengths[(len(lengths)-1)*98/100])
}

// Training of the QA baselines; chosen on the validation rows of the sample
// suite and of Norwegian questions.
var spanSchedule = schedule{rate: 1, epochs: 8, patience: 2}

// choice is a list of candidates. For each of the model's classes one of them is
// right: gold[k] for class k.
type choice struct {
	candidates []vector
	gold       []int
}

// scoreAll returns the scores of all candidates, one list for each class.
func (m *linear) scoreAll(candidates []vector, out [][]float64) [][]float64 {
	for len(out) < m.classes {
		out = append(out, nil)
	}
	one := make([]float64, m.classes)
	for k := range out {
		out[k] = out[k][:0]
	}
	for _, x := range candidates {
		m.scores(x, one)
		for k, s := range one {
			out[k] = append(out[k], s)
		}
	}
	return out
}

// trainChoices fits a model that chooses candidates: the probabilities of a
// class are the softmax of its scores over the candidates. One choice is one
// step; the weights of the epoch with the lowest validation loss are kept.
// choose returns the choice of a row, and whether it has one. It is called anew
// in each epoch, because all candidates of all rows may not fit into memory.
func trainChoices(ctx context.Context, p *problem, classes int, rows, val []*passage, s schedule, choose func(*passage) (choice, bool)) (*linear, error) {
	m := newLinear(classes)
	random := p.random(1)
	kept := keeper{patience: s.patience}
	step := 0
	var probabilities [][]float64
	gradient := make([]float64, classes)
	for range s.epochs {
		for _, i := range random.Perm(len(rows)) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			step++
			c, ok := choose(rows[i])
			if !ok {
				continue
			}
			probabilities = m.scoreAll(c.candidates, probabilities)
			for k, gold := range c.gold {
				softmax(probabilities[k], gold)
				probabilities[k][gold]--
			}
			for j, x := range c.candidates {
				for k := range gradient {
					gradient[k] = probabilities[k][j]
				}
				m.update(x, gradient, s.rate)
			}
		}
		loss, n := 0.0, 0
		for _, v := range val {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if c, ok := choose(v); ok {
				probabilities = m.scoreAll(c.candidates, probabilities)
				for k, gold := range c.gold {
					loss += softmax(probabilities[k], gold)
				}
				n += classes
			}
		}
		if n == 0 {
			continue
		}
		loss /= float64(n)
		if err := p.validated(step, loss); err != nil {
			return nil, err
		}
		if kept.stop(p, m, step, loss) {
			break
		}
	}
	kept.restore(m)
	p.outcome.Steps = step
	p.outcome.Parameters = m.nonZero()
	return m, nil
}

// readAll cuts rows into passages.
func readAll(ctx context.Context, x idf, rows []datasets.Row) ([]*passage, error) {
	out := make([]*passage, len(rows))
	for i, row := range rows {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out[i] = x.read(row)
	}
	return out, nil
}

// hasNone says whether questions without an answer are among the rows.
func hasNone(rows []datasets.Row) bool {
	return slices.ContainsFunc(rows, func(r datasets.Row) bool {
		_, ok := firstAnswer(r)
		return !ok
	})
}

// ngramSpans chooses the first and the last word of an answer by a linear model
// over the words around and the question's beginning; where training has
// questions without an answer, "none" is one more place to choose.
func ngramSpans(ctx context.Context, p *problem) (*result, error) {
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
	m, err := trainChoices(ctx, p, 2, train, val, spanSchedule, func(v *passage) (choice, bool) {
		first, last, ok := v.goldSpan()
		if !ok {
			first, last = len(v.words), len(v.words)
		}
		if !ok && !none {
			return choice{}, false
		}
		return choice{v.places(b, none), []int{first, last}}, true
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
		scores = m.scoreAll(v.places(b, none), scores)
		answer := spanPrediction{ID: row.ID}
		begun := none
		if none {
			answer.Score = scores[0][len(v.words)] + scores[1][len(v.words)]
		}
		for i := range v.words {
			for j := i; j < len(v.words) && j < i+limit && v.sentence[j] == v.sentence[i]; j++ {
				if total := scores[0][i] + scores[1][j]; !begun || total > answer.Score {
					answer.Text, answer.Score, begun = v.text(i, j), total, true
				}
			}
		}
		r.predictions = append(r.predictions, answer)
	}
	return r, nil
}

// places computes the features of every word as the border of an answer, and
// of "none" if that can be chosen.
func (p *passage) places(b *builder, none bool) []vector {
	out := make([]vector, 0, len(p.words)+1)
	for i := range p.words {
		p.place(b, 0, i)
		k := kind('o')
		b.add(k.text("rank").number(small(p.rank(p.sentence[i]))))
		b.add(k.text("asked").number(boolean(p.inQuestion(i))))
		out = append(out, b.vector())
	}
	if none {
		p.nowhere(b)
		out = append(out, b.vector())
	}
	return out
}

// nowhere adds the features of a question without an answer.
func (p *passage) nowhere(b *builder) {
	b.add(kind('0'))
	for _, key := range p.key {
		b.add(key.text("none"))
	}
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
