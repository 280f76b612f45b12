package metrics

import (
	"fmt"

	"bench/scoring"
)

// Tag is a BIO tag as a number: 0 is O, 2k−1 is B- and 2k is I- of entity type
// k = 1, 2, … These are the positions in a label list O, B-X, I-X, B-Y, I-Y, …
type Tag int

// Outside is the tag of a word that belongs to no entity.
const Outside Tag = 0

// Type returns the entity type of t, 0 for Outside.
func (t Tag) Type() int { return (int(t) + 1) / 2 }

func (t Tag) begins() bool { return t%2 == 1 }

// Entities counts entities of one document or of many: counts of documents add
// up to those of their concatenation, because no entity crosses a boundary.
type Entities struct {
	Gold, Pred, Correct int
}

// Add adds the counts of other documents.
func (e *Entities) Add(f Entities) {
	e.Gold += f.Gold
	e.Pred += f.Pred
	e.Correct += f.Correct
}

// CountEntities counts the entities of one document, as seqeval 1.2.2 does in
// its default mode and conlleval before it: an entity starts at B-X, and also
// at I-X when the tag before is not of type X (O, the document's start, another
// type); it goes on while I-X follows. A predicted entity is correct if gold
// has one with the same first word, last word and type.
//
// Tags of the entity type without are read as O, in gold and prediction; 0
// leaves all types in. gold and pred must be of equal length; CountEntities
// panics otherwise.
func CountEntities(gold, pred []Tag, without int) Entities {
	if len(gold) != len(pred) {
		panic(fmt.Sprintf("metrics: %d gold tags and %d predicted ones", len(gold), len(pred)))
	}
	var e Entities
	// The entities that are open before word i: their type, 0 for none, and
	// where they started.
	var goldType, goldStart, predType, predStart int
	for i := 0; i <= len(gold); i++ {
		g, p := Outside, Outside // after the last word all entities end
		if i < len(gold) {
			g, p = gold[i], pred[i]
			if without != 0 && g.Type() == without {
				g = Outside
			}
			if without != 0 && p.Type() == without {
				p = Outside
			}
		}
		goldCut := g.Type() != goldType || g.begins()
		predCut := p.Type() != predType || p.begins()
		if goldCut && predCut && goldType != 0 && goldType == predType && goldStart == predStart {
			e.Correct++
		}
		if goldCut {
			if goldType, goldStart = g.Type(), i; goldType != 0 {
				e.Gold++
			}
		}
		if predCut {
			if predType, predStart = p.Type(), i; predType != 0 {
				e.Pred++
			}
		}
	}
	return e
}

// Precision is Correct / Pred, 0 when nothing is predicted.
func (e Entities) Precision() float64 { return ratio(e.Correct, e.Pred) }

// Recall is Correct / Gold, 0 when there is nothing to find.
func (e Entities) Recall() float64 { return ratio(e.Correct, e.Gold) }

// F1 is the micro-averaged F1 over all entity types, 2·Correct / (Gold + Pred),
// in [0, 1]. It is 0 when there are no entities at all, as in seqeval.
func (e Entities) F1() scoring.Value { return scoring.Num(ratio(2*e.Correct, e.Gold+e.Pred)) }

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
