package baseline

import (
	"context"
	"slices"

	"bench/datasets"
)

// tagged is a sentence ready for training.
type tagged struct {
	x    []vector
	gold []int
}

// perceptron is an averaged structured perceptron (Collins 2002) with
// first-order transitions: the score of a labelling is the sum, over the words,
// of the weights of the word's features with its label and of the transition
// from the label before. Averages are kept by the trick of adding each update
// once more, weighted with the time at which it was made.
type perceptron struct {
	classes     int
	emission    []float64 // feature × class
	transition  []float64 // class before (classes: the sentence's start) × class
	emissionSum []float64
	transSum    []float64
	time        float64
	forbidden   []bool // like transition: I-X after anything but B-X and I-X
}

func newPerceptron(labels []string) *perceptron {
	n := len(labels)
	m := &perceptron{
		classes: n, emission: make([]float64, buckets*n), emissionSum: make([]float64, buckets*n),
		transition: make([]float64, (n+1)*n), transSum: make([]float64, (n+1)*n), forbidden: make([]bool, (n+1)*n), time: 1,
	}
	for from := range n + 1 {
		for to, l := range labels {
			if len(l) > 2 && l[:2] == "I-" {
				m.forbidden[from*n+to] = from == n || len(labels[from]) < 2 || labels[from][1:] != l[1:]
			}
		}
	}
	return m
}

// never is the score of what may not be: finite, so that sums stay finite.
const never = -1e12

// viterbi is working space for decoding.
type viterbi struct {
	score, next []float64
	back        [][]int
}

// decode returns the labels with the highest score; ties go to the label that
// comes first.
func (m *perceptron) decode(x []vector, v *viterbi) []int {
	if len(x) == 0 {
		return nil
	}
	n := m.classes
	v.score, v.next = slices.Grow(v.score[:0], n)[:n], slices.Grow(v.next[:0], n)[:n]
	for len(v.back) < len(x) {
		v.back = append(v.back, make([]int, n))
	}
	emit := make([]float64, n)
	for i, features := range x {
		clear(emit)
		for _, f := range features.index {
			for k, w := range m.emission[int(f)*n:][:n] {
				emit[k] += w
			}
		}
		for k := range n {
			best, from := never*2, n
			if i == 0 {
				best = m.step(n, k)
			} else {
				for before := range n {
					if s := v.score[before] + m.step(before, k); s > best {
						best, from = s, before
					}
				}
			}
			v.next[k], v.back[i][k] = best+emit[k], from
		}
		v.score, v.next = v.next, v.score
	}
	labels := make([]int, len(x))
	k := slices.Index(v.score, slices.Max(v.score))
	for i := len(x) - 1; i >= 0; i-- {
		labels[i] = k
		k = v.back[i][k]
	}
	return labels
}

func (m *perceptron) step(from, to int) float64 {
	at := from*m.classes + to
	if m.forbidden[at] {
		return never
	}
	return m.transition[at]
}

// learn moves the weights from a wrong labelling towards the right one.
func (m *perceptron) learn(s tagged, wrong []int) {
	n := m.classes
	before, wrongBefore := n, n
	for i, right := range s.gold {
		w := wrong[i]
		if right != w {
			for _, f := range s.x[i].index {
				m.change(m.emission, m.emissionSum, int(f)*n+right, 1)
				m.change(m.emission, m.emissionSum, int(f)*n+w, -1)
			}
		}
		if right != w || before != wrongBefore {
			m.change(m.transition, m.transSum, before*n+right, 1)
			m.change(m.transition, m.transSum, wrongBefore*n+w, -1)
		}
		before, wrongBefore = right, w
	}
}

func (m *perceptron) change(weights, sums []float64, at int, by float64) {
	weights[at] += by
	sums[at] += m.time * by
}

// averaged returns a model with the mean of all weights since the start.
func (m *perceptron) averaged() *perceptron {
	mean := func(weights, sums []float64) []float64 {
		out := make([]float64, len(weights))
		for i, w := range weights {
			if w != 0 || sums[i] != 0 {
				out[i] = w - sums[i]/m.time
			}
		}
		return out
	}
	return &perceptron{
		classes: m.classes, forbidden: m.forbidden,
		emission: mean(m.emission, m.emissionSum), transition: mean(m.transition, m.transSum),
	}
}

// Training of the tagger: the averages converge within some epochs.
const (
	taggerEpochs   = 12
	taggerPatience = 3
)

// tagger is an averaged structured perceptron for NER.
func tagger(ctx context.Context, p *problem) (*result, error) {
	if p.head != headTokens {
		return nil, p.unsupported("tagger", headTokens)
	}
	p.outcome.Precision = "fp64"
	class := p.classIndex()
	b := newBuilder()
	examples := func(rows []datasets.Row) ([]tagged, error) {
		var out []tagged
		for i, row := range rows {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			ks, err := gold(row, class)
			if err != nil {
				return nil, err
			}
			out = append(out, tagged{tokenVectors(b, row.Tokens), ks})
		}
		return out, nil
	}
	train, err := examples(p.train)
	if err != nil {
		return nil, err
	}
	val, err := examples(p.val)
	if err != nil {
		return nil, err
	}
	p.endPhase("tokenize")
	m, err := trainTagger(ctx, p, train, val)
	if err != nil {
		return nil, err
	}
	p.endPhase("train")
	r := &result{}
	var v viterbi
	for i, row := range p.test {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		labels := make([]string, 0, len(row.Tokens))
		for _, k := range m.decode(tokenVectors(b, row.Tokens), &v) {
			labels = append(labels, p.labels[k])
		}
		r.predictions = append(r.predictions, tokensPrediction{row.ID, labels})
	}
	return r, nil
}

// trainTagger returns the averaged model after the epoch with the fewest wrong
// words on the validation rows; that share is the validation loss.
func trainTagger(ctx context.Context, p *problem, train, val []tagged) (*perceptron, error) {
	m := newPerceptron(p.labels)
	random := p.random(1)
	var v viterbi
	var best *perceptron
	bestLoss, worse := 2.0, 0
	for epoch := range taggerEpochs {
		for n, i := range random.Perm(len(train)) {
			if n%checkEvery == 0 && ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if got := m.decode(train[i].x, &v); !slices.Equal(got, train[i].gold) {
				m.learn(train[i], got)
			}
			m.time++
		}
		step := (epoch + 1) * len(train)
		p.outcome.Steps = step
		mean := m.averaged()
		if len(val) == 0 {
			best, p.outcome.BestStep = mean, step
			continue
		}
		loss := mean.wrong(val, &v)
		if err := p.validated(step, loss); err != nil {
			return nil, err
		}
		if loss < bestLoss {
			best, bestLoss, worse = mean, loss, 0
			p.outcome.BestStep = step
		} else if worse++; worse >= taggerPatience {
			break
		}
	}
	for _, w := range best.emission {
		if w != 0 {
			p.outcome.Parameters++
		}
	}
	return best, nil
}

// wrong returns the share of words with a wrong label.
func (m *perceptron) wrong(rows []tagged, v *viterbi) float64 {
	wrong, all := 0, 0
	for _, s := range rows {
		for i, k := range m.decode(s.x, v) {
			all++
			if k != s.gold[i] {
				wrong++
			}
		}
	}
	return float64(wrong) / float64(max(all, 1))
}
