package metrics_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bench/scoring/metrics"
)

func drawClasses(t *rapid.T) (k int, gold, pred []int) {
	k = rapid.IntRange(1, 6).Draw(t, "classes")
	class := rapid.IntRange(0, k-1)
	n := rapid.IntRange(1, 60).Draw(t, "items")
	return k, rapid.SliceOfN(class, n, n).Draw(t, "gold"), rapid.SliceOfN(class, n, n).Draw(t, "pred")
}

func TestClassificationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, gold, pred := drawClasses(t)
		m := confuse(k, gold, pred)
		mcc, f1 := m.MCC(), m.MacroF1()
		if mcc.Undefined != "" || f1.Undefined != "" {
			t.Fatalf("undefined over %d items: %v, %v", len(gold), mcc, f1)
		}
		if mcc.X < -1 || mcc.X > 1 || f1.X < 0 || f1.X > 1 {
			t.Fatalf("out of range: MCC %v, macro F1 %v", mcc, f1)
		}
		if other := confuse(k, pred, gold); other.MCC() != mcc || other.MacroF1() != f1 {
			t.Fatalf("not symmetric in gold and prediction: %v and %v", other.MCC(), mcc)
		}
		order := rapid.Permutation(indices(len(gold))).Draw(t, "order")
		if other := confuse(k, at(gold, order), at(pred, order)); other.MCC() != mcc || other.MacroF1() != f1 {
			t.Fatal("depends on the order of items")
		}
		names := rapid.Permutation(indices(k)).Draw(t, "names")
		if other := confuse(k, at(names, gold), at(names, pred)); math.Abs(other.MCC().X-mcc.X) > 1e-12 || math.Abs(other.MacroF1().X-f1.X) > 1e-12 {
			t.Fatal("depends on the names of classes")
		}
		right := confuse(k, gold, gold)
		if want := constantOr1(gold); right.MCC().X != want || right.MacroF1().X != 1 {
			t.Fatalf("perfect prediction: MCC %v, macro F1 %v", right.MCC(), right.MacroF1())
		}
		if k == 2 {
			flipped := confuse(2, gold, at([]int{1, 0}, pred))
			if flipped.MCC().X != -mcc.X {
				t.Fatalf("MCC of the opposite is %v, not −%v", flipped.MCC(), mcc)
			}
		}
	})
}

// constantOr1 is the MCC of a perfect prediction: 0 if there is one class only.
func constantOr1(gold []int) float64 {
	if slices.Min(gold) == slices.Max(gold) {
		return 0
	}
	return 1
}

// at returns from[i] for each i.
func at(from, i []int) []int {
	out := make([]int, len(i))
	for k := range i {
		out[k] = from[i[k]]
	}
	return out
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestNothingToScore(t *testing.T) {
	m := metrics.NewConfusion(2)
	if m.MCC().Undefined == "" || m.MacroF1().Undefined == "" {
		t.Errorf("scores of nothing: %v, %v", m.MCC(), m.MacroF1())
	}
	// No entities anywhere: seqeval gives 0 (zero_division).
	e := metrics.CountEntities(make([]metrics.Tag, 5), make([]metrics.Tag, 5), 0)
	if e != (metrics.Entities{}) || e.F1().X != 0 || e.F1().Undefined != "" {
		t.Errorf("entities of nothing: %v, F1 %v", e, e.F1())
	}
}

// entity is an entity found by entities, below.
type entity struct{ kind, first, last int }

// entities finds the entities of one document by seqeval's two predicates
// (end_of_chunk and start_of_chunk for the tags O, B and I), one after the
// other and on one side at a time, to hold CountEntities to.
func entities(tags []metrics.Tag) map[entity]bool {
	prefix := func(t metrics.Tag) byte { return "OBI"[min(int(t), 2-int(t)%2)] }
	out := map[entity]bool{}
	prev, begin := metrics.Outside, 0
	for i, t := range append(slices.Clone(tags), metrics.Outside) {
		was, is, sameType := prefix(prev), prefix(t), prev.Type() == t.Type()
		if was == 'B' && is == 'B' || was == 'B' && is == 'O' || was == 'I' && is == 'B' || was == 'I' && is == 'O' || was != 'O' && !sameType {
			out[entity{prev.Type(), begin, i - 1}] = true
		}
		if is == 'B' || was == 'O' && is == 'I' || is != 'O' && !sameType {
			begin = i
		}
		prev = t
	}
	return out
}

func TestEntityProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 15).Draw(t, "words")
		tag := rapid.Map(rapid.IntRange(0, 6), func(i int) metrics.Tag { return metrics.Tag(i) })
		gold, pred := rapid.SliceOfN(tag, n, n).Draw(t, "gold"), rapid.SliceOfN(tag, n, n).Draw(t, "pred")
		got := metrics.CountEntities(gold, pred, 0)
		g, p := entities(gold), entities(pred)
		want := metrics.Entities{Gold: len(g), Pred: len(p)}
		for e := range g {
			if p[e] {
				want.Correct++
			}
		}
		if got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if f := got.F1(); f.Undefined != "" || f.X < 0 || f.X > 1 {
			t.Fatalf("F1 is %v", f)
		}
		if r := metrics.CountEntities(pred, gold, 0); r.Gold != got.Pred || r.Pred != got.Gold || r.Correct != got.Correct {
			t.Fatalf("not symmetric: %+v and %+v", got, r)
		}
		if r := metrics.CountEntities(gold, gold, 0); r.Correct != r.Gold || r.Pred != r.Gold || r.Gold > 0 && r.F1().X != 1 {
			t.Fatalf("perfect prediction: %+v", r)
		}
		// Leaving a type out is the same as writing O for it.
		without := rapid.IntRange(1, 3).Draw(t, "without")
		erase := func(in []metrics.Tag) []metrics.Tag {
			out := slices.Clone(in)
			for i := range out {
				if out[i].Type() == without {
					out[i] = metrics.Outside
				}
			}
			return out
		}
		if a, b := metrics.CountEntities(gold, pred, without), metrics.CountEntities(erase(gold), erase(pred), 0); a != b {
			t.Fatalf("without type %d: %+v, want %+v", without, a, b)
		}
		// Counts of two documents are those of both in a row with O between.
		both := func(in []metrics.Tag) []metrics.Tag {
			return append(append(slices.Clone(in), metrics.Outside), in...)
		}
		sum := got
		sum.Add(got)
		if r := metrics.CountEntities(both(gold), both(pred), 0); r != sum {
			t.Fatalf("two documents: %+v, want %+v", r, sum)
		}
	})
}

func TestAnswerProperties(t *testing.T) {
	text := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "an", "the", "The", "by", "København", "1776", ",", "“x”", "  ", "a\u030a", "Σας", "\x1f"}), 0, 6),
		func(words []string) string { return strings.Join(words, " ") })
	rapid.Check(t, func(t *rapid.T) {
		golds := rapid.SliceOfN(text, 0, 4).Draw(t, "golds")
		pred := text.Draw(t, "pred")
		em, f1 := metrics.Answers(golds, pred)
		if em != 0 && em != 1 || f1 < 0 || f1 > 1 || em > f1 {
			t.Fatalf("EM %v, F1 %v", em, f1)
		}
		reversed := slices.Clone(golds)
		slices.Reverse(reversed)
		if e, f := metrics.Answers(reversed, pred); e != em || f != f1 {
			t.Fatal("depends on the order of gold answers")
		}
		if e, f := metrics.Answers(append(golds, pred), pred); metrics.Normalize(pred) != "" && (e != 1 || f != 1) {
			t.Fatalf("perfect prediction: EM %v, F1 %v", e, f)
		}
		norm := metrics.Normalize(pred)
		if again := metrics.Normalize(norm); again != norm {
			t.Fatalf("Normalize(%q) = %q, again %q", pred, norm, again)
		}
	})
}

func BenchmarkCountEntities(b *testing.B) {
	docs := loadGolden(b).NER
	long := slices.IndexFunc(docs, func(d goldenNER) bool { return len(d.Gold) == 400 })
	var gold, pred [][]metrics.Tag
	for i := range docs[long].Gold {
		gold, pred = append(gold, tags(b, docs[long].Gold[i])), append(pred, tags(b, docs[long].Pred[i]))
	}
	for b.Loop() {
		var e metrics.Entities
		for i := range gold {
			e.Add(metrics.CountEntities(gold[i], pred[i], 0))
		}
	}
}

func BenchmarkMCC(b *testing.B) {
	c := loadGolden(b).Classification[3] // 2,048 items of two classes
	for b.Loop() {
		confuse(c.K, c.Gold, c.Pred).MCC()
	}
}

func BenchmarkAnswers(b *testing.B) {
	golds := []string{"den 4. juli 1776", "København, Danmark"}
	for b.Loop() {
		metrics.Answers(golds, "i København, om sommeren 1776")
	}
}
