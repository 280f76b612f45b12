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

// Training of the QA baselines; chosen by trial on the sample suite
// and on other splits of Norwegian questions.
var spanSchedule = schedule{rate: 0.3, epochs: 10, patience: 2}

// choice is a list of candidates. For each of the model's classes one of them is
// right: gold[k] for class k.
//
// The score of a candidate is the sum of the scores of its parts, which many
// candidates share. Parts below 0 are left out. With no list of candidates,
// every part is one.
type choice struct {
	parts      []vector
	candidates [][3]int
	gold       []int
}

// judge is working space for choices.
type judge struct {
	part, candidate [][]float64 // by class
	one             []float64
}

// scores returns the scores of all candidates, one list for each class. They
// are good until the next call.
func (j *judge) scores(m *linear, c choice) [][]float64 {
	if j.one == nil {
		j.one = make([]float64, m.classes)
		j.part, j.candidate = make([][]float64, m.classes), make([][]float64, m.classes)
	}
	for k := range j.part {
		j.part[k], j.candidate[k] = j.part[k][:0], j.candidate[k][:0]
	}
	for _, x := range c.parts {
		m.scores(x, j.one)
		for k, s := range j.one {
			j.part[k] = append(j.part[k], s)
		}
	}
	if c.candidates == nil {
		return j.part
	}
	for k, part := range j.part {
		for _, parts := range c.candidates {
			sum := 0.0
			for _, i := range parts {
				if i >= 0 {
					sum += part[i]
				}
			}
			j.candidate[k] = append(j.candidate[k], sum)
		}
	}
	return j.candidate
}

// learn takes one step on a choice.
func (j *judge) learn(m *linear, c choice, rate float32) {
	scores := j.scores(m, c)
	for k, gold := range c.gold {
		softmax(scores[k], gold)
		scores[k][gold]--
		if c.candidates == nil {
			continue
		}
		part := j.part[k]
		clear(part)
		for n, parts := range c.candidates {
			for _, i := range parts {
				if i >= 0 {
					part[i] += scores[k][n]
				}
			}
		}
	}
	for i, x := range c.parts {
		for k := range j.one {
			j.one[k] = j.part[k][i]
		}
		m.update(x, j.one, rate)
	}
}

// trainChoices fits a model that chooses candidates: the probabilities of a
// class are the softmax of its scores over the candidates. One choice is one
// step; the weights of the epoch with the lowest validation loss are kept.
func trainChoices(ctx context.Context, p *problem, classes int, train, val []choice, s schedule) (*linear, error) {
	m := newLinear(classes)
	for _, c := range train {
		for _, x := range c.parts {
			m.admit(x)
		}
	}
	m.allocate()
	for _, c := range val {
		m.recognise(c)
	}
	random := p.random(1)
	kept := keeper{patience: s.patience}
	step := 0
	var j judge
	for range s.epochs {
		for _, i := range random.Perm(len(train)) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			j.learn(m, train[i], s.rate)
			step++
		}
		if len(val) == 0 {
			continue
		}
		loss := 0.0
		for _, c := range val {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			scores := j.scores(m, c)
			for k, gold := range c.gold {
				loss += softmax(scores[k], gold)
			}
		}
		loss /= float64(len(val) * classes)
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

// recognise turns the features of a choice that is not for training into rows.
func (m *linear) recognise(c choice) choice {
	for i, x := range c.parts {
		c.parts[i] = m.known(x)
	}
	return c
}

// fitPassages makes the choices of training and validation passages and fits a
// model to them.
func fitPassages(ctx context.Context, p *problem, classes int, train, val []*passage, choose func(*passage) (choice, bool)) (*linear, error) {
	trainChosen, err := choices(ctx, train, choose)
	if err != nil {
		return nil, err
	}
	valChosen, err := choices(ctx, val, choose)
	if err != nil {
		return nil, err
	}
	p.endPhase("tokenize")
	m, err := trainChoices(ctx, p, classes, trainChosen, valChosen, spanSchedule)
	if err != nil {
		return nil, err
	}
	p.endPhase("train")
	return m, nil
}

// choices computes the choices of passages: those for which choose has one.
func choices(ctx context.Context, passages []*passage, choose func(*passage) (choice, bool)) ([]choice, error) {
	var out []choice
	for _, v := range passages {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if c, ok := choose(v); ok {
			out = append(out, c)
		}
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
	x, b, none := newIDF(p.train), newBuilder(), hasNone(p.train)
	passages := x.readAll(p.train)
	limit := longest(passages)
	choose := func(v *passage) (choice, bool) {
		first, last, ok := v.goldSpan()
		if !ok {
			first, last = len(v.words), len(v.words)
		}
		return choice{parts: v.places(b, none), gold: []int{first, last}}, ok || none
	}
	m, err := fitPassages(ctx, p, 2, passages, x.readAll(p.val), choose)
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
		scores := j.scores(m, m.recognise(choice{parts: v.places(b, none)}))
		answer := spanPrediction{ID: row.ID}
		begun := none
		if none {
			answer.Score = scores[0][len(v.words)] + scores[1][len(v.words)]
		}
		for i := range v.words {
			for last := i; last < len(v.words) && last < i+limit && v.sentence[last] == v.sentence[i]; last++ {
				if total := scores[0][i] + scores[1][last]; !begun || total > answer.Score {
					answer.Text, answer.Score, begun = v.text(i, last), total, true
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
		p.place(b, i)
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
