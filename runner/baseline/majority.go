package baseline

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"bench/datasets"
)

// majority answers the same always, without looking at the text:
//
//   - classification: the most frequent class of the training rows, with the
//     logarithms of the classes' shares as scores
//   - NER: O for every word
//   - QA: the empty answer if more than half of the training questions have
//     none. Otherwise the most frequent first answer of the training rows that
//     the context contains, else the empty answer.
//
// The seed changes nothing.
func majority(_ context.Context, p *problem) (*result, error) {
	var r *result
	switch p.head {
	case headSequence:
		r = majorityClass(p)
	case headTokens:
		r = &result{}
		for _, row := range p.test {
			labels := make([]string, len(row.Tokens))
			for i := range labels {
				labels[i] = "O"
			}
			r.predictions = append(r.predictions, tokensPrediction{row.ID, labels})
		}
	case headSpans:
		r = majorityAnswer(p)
	default:
		return nil, p.unsupported("majority", "classification, NER and QA")
	}
	return r, nil
}

func majorityClass(p *problem) *result {
	count := map[string]int{}
	for _, row := range p.train {
		count[row.Label]++
	}
	scores := map[string]float64{}
	best := p.labels[0]
	for _, l := range p.labels {
		// One more for each class, so that an unseen one has a finite score.
		scores[l] = math.Log(float64(count[l]+1) / float64(len(p.train)+len(p.labels)))
		if count[l] > count[best] {
			best = l
		}
	}
	r := &result{}
	for _, row := range p.test {
		r.predictions = append(r.predictions, classPrediction{row.ID, best, scores})
	}
	return r
}

func majorityAnswer(p *problem) *result {
	count := map[string]int{}
	none := 0
	for _, row := range p.train {
		if a, ok := firstAnswer(row); ok {
			count[a.text]++
		} else {
			none++
		}
	}
	var answers []string
	if 2*none <= len(p.train) {
		for a := range count {
			answers = append(answers, a)
		}
		slices.SortFunc(answers, func(a, b string) int { return cmp.Or(count[b]-count[a], strings.Compare(a, b)) })
	}
	r := &result{}
	for _, row := range p.test {
		answer := spanPrediction{ID: row.ID, Score: float64(none) / float64(len(p.train))}
		for _, a := range answers {
			if strings.Contains(row.Context, a) {
				answer.Text, answer.Score = a, float64(count[a])/float64(len(p.train))
				break
			}
		}
		r.predictions = append(r.predictions, answer)
	}
	return r
}

// span is a part of a context, in bytes.
type span struct {
	text       string
	start, end int
}

// firstAnswer returns the first gold answer of a row, if it has one.
func firstAnswer(row datasets.Row) (span, bool) {
	if row.Answers == nil || len(row.Answers.Text) == 0 || row.Answers.Text[0] == "" {
		return span{}, false
	}
	at := 0
	for i := range row.Context { // from code points to bytes
		if at == row.Answers.Start[0] {
			text := row.Answers.Text[0]
			return span{text, i, i + len(text)}, true
		}
		at++
	}
	return span{}, false
}
