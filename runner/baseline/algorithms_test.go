package baseline

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/runner/job"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            nil,
		"Åse bor i Tórshavn.":         {"Åse", "bor", "i", "Tórshavn", "."},
		"Pris: 3.500,50 kr.":          {"Pris", ":", "3.500,50", "kr", "."},
		"f.eks. e-mail – nej":         {"f.eks", ".", "e-mail", "–", "nej"},
		"Han kom.Hun gik":             {"Han", "kom", ".", "Hun", "gik"},
		"«Ja», sagde hun…":            {"«", "Ja", "»", ",", "sagde", "hun", "…"},
		"a\n\tb":                      {"a", "b"},
		"þú-\u0301x":                  {"þú-\u0301x"},
		"slut-":                       {"slut", "-"},
		"ødelagt \xff byte":           {"ødelagt", "\xff", "byte"},
		"nul\u0301 og 😀":              {"nul\u0301", "og", "😀"},
		"1.":                          {"1", "."},
		"200-300 m²":                  {"200-300", "m", "²"},
		"Jógvan Guðmundsson, 41 år":   {"Jógvan", "Guðmundsson", ",", "41", "år"},
		"ordet \"hus\" (n.) betyder…": {"ordet", "\"", "hus", "\"", "(", "n", ".", ")", "betyder", "…"},
	} {
		var got []string
		for _, w := range split(text) {
			got = append(got, w.text)
			if text[w.start:w.end] != w.text {
				t.Errorf("%q: word %q is not at %d-%d", text, w.text, w.start, w.end)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("split(%q) = %q, want %q", text, got, want)
		}
	}
}

// Words and what is between them make up the text; words hold no spaces.
func TestSplitLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		at := 0
		for _, w := range split(text) {
			if w.start < at || w.end <= w.start || w.end > len(text) || strings.TrimSpace(text[at:w.start]) != "" {
				t.Fatalf("word %q at %d-%d after %d", w.text, w.start, w.end, at)
			}
			at = w.end
		}
		if strings.TrimSpace(text[at:]) != "" {
			t.Fatalf("rest %q", text[at:])
		}
	})
}

func TestWordParts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{shape("Møller-2"), "Xx-d"}, {shape("NATO"), "X"}, {shape("3.500"), "d.d"}, {shape(""), ""},
		{prefix("åbner", 2), "åb"}, {prefix("å", 3), "å"}, {suffix("kødet", 3), "det"}, {suffix("ø", 2), "ø"}, {suffix("på", 1), "å"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestBuilderCountsOnce(t *testing.T) {
	b := newBuilder()
	for range 3 {
		b.add(kind('w').text("a"))
		b.add(kind('w').text("b"))
	}
	v := b.vector()
	if len(v.index) != 2 || math.Abs(float64(v.scale)-1/math.Sqrt2) > 1e-7 {
		t.Errorf("vector is %+v, want two features of length 1 together", v)
	}
	b.add(kind('w').text("a"))
	if again := b.vector(); len(again.index) != 1 || again.index[0] != v.index[0] {
		t.Errorf("the second vector is %+v", again)
	}
	if v.index[0] == v.index[1] || kind('w').text("ab").text("c").bucket() == kind('w').text("a").text("bc").bucket() {
		t.Error("names run together")
	}
}

// One step of AdaGrad by hand: probabilities ½ ½, derivative ∓½ of the scores,
// scale 1 for a single feature: the first step is ±rate, whatever the derivative.
func TestFirstStep(t *testing.T) {
	m := newLinear(2)
	m.admit(vector{[]uint32{9, 8}, 1})
	x := vector{[]uint32{7}, 1}
	m.admit(x)
	m.allocate()
	if other := m.known(vector{[]uint32{1, 7, 2, 8}, 1}); !slices.Equal(x.index, []uint32{2}) || !slices.Equal(other.index, []uint32{2, 1}) {
		t.Errorf("rows are %v and %v", x.index, other.index)
	}
	scores := make([]float64, 2)
	m.scores(x, scores)
	if loss := softmax(scores, 1); math.Abs(loss-math.Ln2) > 1e-12 {
		t.Errorf("loss is %v, want ln 2", loss)
	}
	scores[1]--
	m.update(x, scores, 0.3)
	m.scores(x, scores)
	if math.Abs(scores[0]+0.3) > 1e-5 || math.Abs(scores[1]-0.3) > 1e-5 {
		t.Errorf("scores after a step are %v, want ∓0.3", scores)
	}
	m.update(x, []float64{negligible / 2, -negligible / 2}, 0.3)
	if got := m.weights[4:6]; math.Abs(float64(got[0])+0.3) > 1e-5 {
		t.Errorf("a negligible derivative moved the weights to %v", got)
	}
	if n := m.nonZero(); n != 2 {
		t.Errorf("%d weights in use, want 2", n)
	}
}

// The derivative that learn passes on is that of the loss: by finite differences.
func TestChoiceGradient(t *testing.T) {
	c := choice{
		parts:      []vector{{[]uint32{1, 2}, 0.7}, {[]uint32{3}, 1}, {[]uint32{2, 4}, 0.5}},
		candidates: [][3]int{{0, 1, -1}, {0, 2, 1}, {2, -1, -1}}, gold: []int{1},
	}
	m := newLinear(1)
	for _, x := range c.parts {
		m.admit(x)
	}
	m.allocate()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range m.weights {
		m.weights[i] = r.Float32() - 0.5
	}
	var j judge
	loss := func() float64 {
		s := slices.Clone(j.scores(m, c)[0])
		return softmax(s, c.gold[0])
	}
	const h = 1e-2
	want := make([]float64, len(m.weights))
	for i := range want {
		old := m.weights[i]
		m.weights[i] = old + h
		up := loss()
		m.weights[i] = old - h
		want[i] = (up - loss()) / (2 * h)
		m.weights[i] = old
	}
	before := slices.Clone(m.weights)
	j.learn(m, c, 0.1)
	for i, d := range want {
		moved := m.weights[i] - before[i]
		if math.Abs(d) < 1e-3 && moved == 0 {
			continue
		}
		if (moved < 0) != (d > 0) {
			t.Errorf("weight %d moved by %v, the derivative is %v", i, moved, d)
		}
	}
}

// Viterbi finds what trying all labellings finds.
func TestViterbi(t *testing.T) {
	labels := []string{"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}
	rapid.Check(t, func(t *rapid.T) {
		m := newPerceptron(labels)
		n := rapid.IntRange(1, 4).Draw(t, "words")
		weight := rapid.IntRange(-5, 5)
		var x []vector
		for i := range n {
			x = append(x, vector{[]uint32{uint32(i)}, 1})
			for k := range labels {
				m.emission[i*len(labels)+k] = float64(weight.Draw(t, "emission"))
			}
		}
		for i := range m.transition {
			m.transition[i] = float64(weight.Draw(t, "transition"))
		}
		total := func(y []int) float64 {
			sum, before := 0.0, len(labels)
			for i, k := range y {
				sum += m.step(before, k) + m.emission[i*len(labels)+k]
				before = k
			}
			return sum
		}
		best := math.Inf(-1)
		y := make([]int, n)
		for code := range int(math.Pow(float64(len(labels)), float64(n))) {
			for i := range y {
				y[i] = code % len(labels)
				code /= len(labels)
			}
			best = max(best, total(y))
		}
		var v viterbi
		if got := m.decode(x, &v); total(got) != best {
			t.Fatalf("decode gives %v with %v, the best is %v", got, total(got), best)
		}
	})
}

func TestNoOrphans(t *testing.T) {
	m := newPerceptron([]string{"O", "B-PER", "I-PER", "B-LOC", "I-LOC"})
	m.emission[2], m.emission[5+4] = 9, 9 // I-PER, I-LOC wanted
	var v viterbi
	got := m.decode([]vector{{[]uint32{0}, 1}, {[]uint32{1}, 1}}, &v)
	if want := []int{3, 4}; !slices.Equal(got, want) {
		t.Errorf("labels are %v, want B-LOC I-LOC", got)
	}
}

// The averages by the trick are those of adding up all weights after each sentence.
func TestAveraging(t *testing.T) {
	m := newPerceptron([]string{"O", "B-PER"})
	r := rand.New(rand.NewPCG(3, 4))
	sums, n := make([]float64, 8), 0.0
	var v viterbi
	for range 50 {
		s := tagged{x: []vector{{[]uint32{uint32(r.IntN(4))}, 1}}, gold: []int{r.IntN(2)}}
		if got := m.decode(s.x, &v); !slices.Equal(got, s.gold) {
			m.learn(s, got)
		}
		m.time++
		for i := range sums {
			sums[i] += m.emission[i]
		}
		n++
	}
	mean := m.averaged()
	for i, s := range sums {
		// The trick counts the weights before the first sentence too: 51 states.
		if want := s / (n + 1); math.Abs(mean.emission[i]-want) > 1e-12 {
			t.Errorf("weight %d is %v, want %v", i, mean.emission[i], want)
		}
	}
}

func TestPassage(t *testing.T) {
	row := datasets.Row{
		Question: "Hvor bor Åse?",
		Context:  "Þóra bor i Møllev. Åse kender alle. Hun bor i Østerhavn.\nDet regner.",
		Answers:  &datasets.Answers{Text: []string{"Østerhavn"}, Start: []int{46}},
	}
	x := newIDF([]datasets.Row{row, row})
	p := x.read(row)
	if got, want := len(p.first)-1, 4; got != want {
		t.Fatalf("%d sentences, want %d: %v", got, want, p.first)
	}
	first, last, ok := p.goldSpan()
	if !ok || p.text(first, last) != "Østerhavn" {
		t.Errorf("gold span is %d-%d, %v", first, last, ok)
	}
	// "bor" is in two of four sentences, "Åse" in one, once each although the
	// context is there twice: log(5/2) and log(5/1); "hvor" was never seen.
	want := map[string]float64{"hvor": math.Log(5), "bor": math.Log(2.5), "åse": math.Log(5)}
	if diff := cmp.Diff(want, p.content); diff != "" {
		t.Error("weights of the question:", diff)
	}
	bor, aase := math.Log(2.5), math.Log(5)
	weights := []float64{bor + neighbour*aase, aase + 2*neighbour*bor, bor + neighbour*aase, neighbour * bor}
	for i, w := range weights {
		if math.Abs(p.weight[i]-w) > 1e-12 {
			t.Errorf("sentence %d weighs %v, want %v", i, p.weight[i], w)
		}
	}
	if want := []int{1, 0, 2, 3}; !slices.Equal(p.order, want) {
		t.Errorf("order is %v, want %v", p.order, want)
	}
	if before, after := p.nearest(first); before != 2 || after != 0 {
		t.Errorf("nearest words of the question: %d before, %d after; want 2 and none", before, after)
	}
}

// An answer inside a word counts as the word; one that is only a space as none.
func TestGoldSpanInsideWord(t *testing.T) {
	row := datasets.Row{Context: "en tømrerhandel her", Answers: &datasets.Answers{Text: []string{"tømrer"}, Start: []int{3}}}
	p := newIDF(nil).read(row)
	if first, last, ok := p.goldSpan(); !ok || p.text(first, last) != "tømrerhandel" {
		t.Errorf("span is %d-%d, %v", first, last, ok)
	}
	row.Answers = &datasets.Answers{Text: []string{" "}, Start: []int{2}}
	if _, _, ok := newIDF(nil).read(row).goldSpan(); ok {
		t.Error("a space is no answer")
	}
}

// qaProblem makes a problem whose questions with "findes" have no answer.
func qaProblem(t *testing.T) *problem {
	d := job.Dir(t.TempDir())
	tr, err := open(d, builtin())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.log.Close(); tr.events.Close() })
	names := []string{"Anna", "Lars", "Mette", "Søren", "Freja", "Åse"}
	towns := []string{"Nordby", "Havnsund", "Stenby", "Birkeø"}
	var rows []datasets.Row
	for i := range 96 {
		name, town := names[i%len(names)], towns[i/2%len(towns)]
		row := datasets.Row{ID: name, Context: name + " bor i " + town + ".", Question: "Hvor bor " + name + "?", Answers: &datasets.Answers{Text: []string{town}, Start: []int{len([]rune(name)) + 7}}}
		if i%3 == 0 {
			row.Question, row.Answers = "Hvad findes ikke hos "+name+"?", &datasets.Answers{}
		}
		rows = append(rows, row)
	}
	return &problem{
		head: headSpans, seed: 1, train: rows[:64], val: rows[64:80], test: rows[80:], batch: tr,
		outcome: &job.TrainerOutcome{Seconds: map[string]float64{}},
	}
}

func TestUnanswerable(t *testing.T) {
	for name, run := range map[string]func(context.Context, *problem) (*result, error){"ngram": ngram, "window": window} {
		p := qaProblem(t)
		r, err := run(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range p.test {
			want := ""
			if len(row.Answers.Text) > 0 {
				want = row.Answers.Text[0]
			}
			if got := r.predictions[i].(spanPrediction).Text; got != want {
				t.Errorf("%s: %s → %q, want %q", name, row.Question, got, want)
			}
		}
	}
}

// Contexts without words, and test rows without anything, are no fault.
func TestEmptyTexts(t *testing.T) {
	for name, run := range map[string]func(context.Context, *problem) (*result, error){"majority": majority, "ngram": ngram, "window": window} {
		p := qaProblem(t)
		p.test = []datasets.Row{{ID: "1", Question: "?", Context: " "}, {ID: "2"}}
		if r, err := run(t.Context(), p); err != nil || len(r.predictions) != 2 {
			t.Errorf("%s on empty contexts: %v, %v", name, r, err)
		}
	}
	p := qaProblem(t)
	p.head, p.labels = headTokens, []string{"O", "B-PER"}
	p.train = []datasets.Row{{ID: "1", Tokens: []string{"Anna"}, Labels: []string{"B-PER"}}, {ID: "2"}}
	p.val, p.test = nil, []datasets.Row{{ID: "3"}, {ID: "4", Tokens: []string{"", "Anna"}}}
	for name, run := range map[string]func(context.Context, *problem) (*result, error){"majority": majority, "ngram": ngram, "tagger": tagger} {
		r, err := run(t.Context(), p)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, row := range p.test {
			if got := r.predictions[i].(tokensPrediction).Labels; got == nil || len(got) != len(row.Tokens) {
				t.Errorf("%s: %d words, labels %v", name, len(row.Tokens), got)
			}
		}
	}
}

func BenchmarkTextVector(b *testing.B) {
	f := newBuilder()
	rows := suite["sample-sentiment"][datasets.Train]
	for i := range b.N {
		textVector(f, rows[i%len(rows)].Text)
	}
}

func BenchmarkTokenVectors(b *testing.B) {
	f := newBuilder()
	rows := suite["sample-ner"][datasets.Train]
	for i := range b.N {
		tokenVectors(f, rows[i%len(rows)].Tokens)
	}
}

func BenchmarkEpoch(b *testing.B) {
	f := newBuilder()
	var train []labelled
	for i, row := range suite["sample-sentiment"][datasets.Train] {
		train = append(train, labelled{textVector(f, row.Text), i % 3})
	}
	m, r, scores := newLinear(3), rand.New(rand.NewPCG(1, 1)), make([]float64, 3)
	for _, e := range train {
		m.admit(e.x)
	}
	m.allocate()
	b.ResetTimer()
	for range b.N {
		if err := m.epoch(b.Context(), train, r, 0.1, scores); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	m := newPerceptron([]string{"O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER", "B-MISC", "I-MISC"})
	f := newBuilder()
	var x [][]vector
	for _, row := range suite["sample-ner"][datasets.Train] {
		x = append(x, tokenVectors(f, row.Tokens))
	}
	var v viterbi
	b.ResetTimer()
	for i := range b.N {
		m.decode(x[i%len(x)], &v)
	}
}
