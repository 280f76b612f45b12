package baseline

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"bench/datasets"
)

// linear is a linear model over hashed features, trained by AdaGrad (Duchi,
// Hazan and Singer 2011): the step of each weight is rate/√(sum of its squared
// gradients). Features have rows in the order in which training shows them, so
// that the weights in use lie close together: weights[row*classes+k].
type linear struct {
	classes int
	rows    []uint32 // by bucket: row + 1, or 0 for features that training has not
	used    uint32
	weights []float32
	squares []float32
}

func newLinear(classes int) *linear { return &linear{classes: classes, rows: make([]uint32, buckets)} }

// admit gives the features of a training example rows; afterwards x.index holds
// rows. All examples must be admitted before any is learnt from.
func (m *linear) admit(x vector) {
	for j, i := range x.index {
		if m.rows[i] == 0 {
			m.used++
			m.rows[i] = m.used
		}
		x.index[j] = m.rows[i] - 1
	}
	m.weights, m.squares = nil, nil
}

// known turns the features of another example into rows, and leaves out those
// that have none, whose weights are 0.
func (m *linear) known(x vector) vector {
	n := 0
	for _, i := range x.index {
		if row := m.rows[i]; row != 0 {
			x.index[n] = row - 1
			n++
		}
	}
	return vector{x.index[:n], x.scale}
}

// allocate makes room for the weights of all admitted features.
func (m *linear) allocate() {
	m.weights = make([]float32, int(m.used)*m.classes)
	m.squares = make([]float32, int(m.used)*m.classes)
}

// scores writes the score of every class into out. x holds rows.
func (m *linear) scores(x vector, out []float64) {
	clear(out)
	for _, i := range x.index {
		w := m.weights[int(i)*m.classes:][:len(out)]
		for k := range out {
			out[k] += float64(w[k])
		}
	}
	for k := range out {
		out[k] *= float64(x.scale)
	}
}

// negligible is the size of a derivative that is not worth a step: what is
// right with a probability of 0.999 is left alone.
const negligible = 1e-3

// update takes one step along −gradient, the derivative of the loss by the
// scores. Classes with a negligible derivative are left out. x holds rows.
func (m *linear) update(x vector, gradient []float64, rate float32) {
	for k, d := range gradient {
		if math.Abs(d) < negligible {
			continue
		}
		g := float32(d) * x.scale
		for _, i := range x.index {
			at := int(i)*m.classes + k
			s := m.squares[at] + g*g
			m.squares[at] = s
			m.weights[at] -= rate * g / (float32(math.Sqrt(float64(s))) + 1e-6)
		}
	}
}

// nonZero counts the weights in use.
func (m *linear) nonZero() int64 {
	n := int64(0)
	for _, w := range m.weights {
		if w != 0 {
			n++
		}
	}
	return n
}

// softmax turns scores into probabilities in place and returns the negative
// log-probability of gold.
func softmax(scores []float64, gold int) float64 {
	top := slices.Max(scores)
	sum := 0.0
	for k, s := range scores {
		scores[k] = math.Exp(s - top)
		sum += scores[k]
	}
	for k := range scores {
		scores[k] /= sum
	}
	return -math.Log(max(scores[gold], math.SmallestNonzeroFloat64))
}

// labelled is a training example of a classifier.
type labelled struct {
	x    vector
	gold int
}

// schedule says how long a linear model is trained.
type schedule struct {
	rate     float32
	epochs   int // at most
	patience int // epochs without a lower validation loss
}

// checkEvery is how many examples pass between two looks at the context.
const checkEvery = 256

// fitRows makes the examples of the training and validation rows and fits a
// classifier of the problem's labels to them.
func fitRows(ctx context.Context, p *problem, examples func([]datasets.Row) ([]labelled, error), s schedule) (*linear, error) {
	train, err := examples(p.train)
	if err != nil {
		return nil, err
	}
	val, err := examples(p.val)
	if err != nil {
		return nil, err
	}
	p.endPhase("tokenize")
	m, err := trainSoftmax(ctx, p, len(p.labels), train, val, s)
	if err != nil {
		return nil, err
	}
	p.endPhase("train")
	return m, nil
}

// trainSoftmax fits a multinomial logistic regression, one example a step, and
// returns the model after the epoch with the lowest validation loss (without
// validation rows: after the last).
func trainSoftmax(ctx context.Context, p *problem, classes int, train, val []labelled, s schedule) (*linear, error) {
	m := newLinear(classes)
	for _, e := range train {
		m.admit(e.x)
	}
	m.allocate()
	for i, e := range val {
		val[i].x = m.known(e.x)
	}
	random := p.random(1)
	kept := keeper{patience: s.patience}
	scores := make([]float64, classes)
	step := 0
	for range s.epochs {
		if err := m.epoch(ctx, train, random, s.rate, scores); err != nil {
			return nil, err
		}
		step += len(train)
		if len(val) == 0 {
			continue
		}
		loss := 0.0
		for _, e := range val {
			m.scores(e.x, scores)
			loss += softmax(scores, e.gold)
		}
		loss /= float64(len(val))
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

func (m *linear) epoch(ctx context.Context, train []labelled, random *rand.Rand, rate float32, scores []float64) error {
	for n, i := range random.Perm(len(train)) {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e := train[i]
		m.scores(e.x, scores)
		softmax(scores, e.gold)
		scores[e.gold]--
		m.update(e.x, scores, rate)
	}
	return nil
}

// slight is the share by which a validation loss must fall to be worth another
// epoch.
const slight = 0.003

// keeper keeps the weights with the lowest validation loss.
type keeper struct {
	patience int
	weights  []float32
	loss     float64 // of weights
	mark     float64 // the loss from which progress is counted
	worse    int
}

// stop takes note of the loss after that many steps, and says whether training
// should end: no epoch of the last few brought more than a slight gain.
func (k *keeper) stop(p *problem, m *linear, step int, loss float64) bool {
	if k.weights == nil || loss < k.loss {
		k.weights, k.loss = append(k.weights[:0], m.weights...), loss
		p.outcome.BestStep = step
	}
	if k.mark == 0 || loss < k.mark*(1-slight) {
		k.mark, k.worse = loss, 0
		return false
	}
	k.worse++
	return k.worse >= k.patience
}

// restore puts the kept weights into m, if there are any.
func (k *keeper) restore(m *linear) {
	if k.weights != nil {
		m.weights = k.weights
	}
}
