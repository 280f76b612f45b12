// Package metrics holds pure metrics: no files, no data sets, no randomness.
//
// All of them are functions of counts that add up over rows or documents, so
// that a bootstrap sample is scored by summing what was counted once.
package metrics

import (
	"fmt"
	"math"

	"bench/scoring"
)

// noRows is why a metric over nothing has no value.
const noRows = "no rows to score"

// Confusion counts items by gold and predicted class.
type Confusion struct {
	classes int
	n       []int // n[gold·classes + pred]
}

// NewConfusion returns an empty table of classes × classes.
func NewConfusion(classes int) *Confusion {
	return &Confusion{classes: classes, n: make([]int, classes*classes)}
}

// Add counts one item. Classes are numbers in [0, classes); Add panics otherwise.
func (c *Confusion) Add(gold, pred int) {
	if gold < 0 || pred < 0 || gold >= c.classes || pred >= c.classes {
		panic(fmt.Sprintf("metrics: classes %d and %d in a table of %d", gold, pred, c.classes))
	}
	c.n[gold*c.classes+pred]++
}

// margins returns the number of items of each gold class, of each predicted
// class, the number of items on the diagonal and the number of all items.
func (c *Confusion) margins() (gold, pred []int, correct, all int) {
	gold, pred = make([]int, c.classes), make([]int, c.classes)
	for g := range c.classes {
		for p := range c.classes {
			n := c.n[g*c.classes+p]
			gold[g] += n
			pred[p] += n
			all += n
		}
		correct += c.n[g*c.classes+g]
	}
	return gold, pred, correct, all
}

// MCC returns the multi-class Matthews correlation R_K of Gorodkin (2004):
//
//	(c·s − Σ_k p_k·t_k) / sqrt((s² − Σ_k p_k²)·(s² − Σ_k t_k²))
//
// over s items, c of them correct, p_k and t_k the predicted and the true
// number of items of class k. It is in [−1, 1]. When gold or prediction is
// constant the denominator is 0; then MCC is 0, as scikit-learn has it: such a
// prediction knows nothing. Without items it is Undefined.
func (c *Confusion) MCC() scoring.Value {
	gold, pred, correct, _ := c.margins()
	return MCC(correct, gold, pred)
}

// MCC returns Confusion.MCC of a table of which only this is known: how many
// items are correct, and how many there are of each gold and of each predicted
// class. Both lists have one entry for each class and the same sum.
func MCC(correct int, gold, pred []int) scoring.Value {
	s := 0
	for _, n := range gold {
		s += n
	}
	if s == 0 {
		return scoring.Value{Undefined: noRows}
	}
	// Integers below 2⁵³ up to 9·10⁷ items, so only the last line rounds.
	cov, varGold, varPred := correct*s, s*s, s*s
	for k := range gold {
		cov -= gold[k] * pred[k]
		varGold -= gold[k] * gold[k]
		varPred -= pred[k] * pred[k]
	}
	if varGold == 0 || varPred == 0 {
		return scoring.Num(0)
	}
	return scoring.Num(float64(cov) / math.Sqrt(float64(varGold)*float64(varPred)))
}

// MacroF1 returns the mean over classes of 2·tp / (predicted + true), where a
// class counts if it occurs in gold or in prediction, as in scikit-learn's
// f1_score(average="macro"). It is in [0, 1]. Without items it is Undefined.
func (c *Confusion) MacroF1() scoring.Value {
	gold, pred, _, _ := c.margins()
	correct := make([]int, c.classes)
	for k := range correct {
		correct[k] = c.n[k*c.classes+k]
	}
	return MacroF1(correct, gold, pred)
}

// MacroF1 returns Confusion.MacroF1 of a table of which only this is known: how
// many items of each class are correct, and how many there are of each gold and
// of each predicted class.
func MacroF1(correct, gold, pred []int) scoring.Value {
	sum, classes := 0.0, 0
	for k := range gold {
		if gold[k]+pred[k] == 0 {
			continue
		}
		sum += 2 * float64(correct[k]) / float64(gold[k]+pred[k])
		classes++
	}
	if classes == 0 {
		return scoring.Value{Undefined: noRows}
	}
	return scoring.Num(sum / float64(classes))
}
