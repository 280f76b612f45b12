package split

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Sample returns the row numbers that pandas draws in
//
//	frame.sample(k, random_state=seed)
//
// from a frame of n rows: the first k of RandomState(seed).permutation(n).
// k = n shuffles. It is a *SizeError to ask for more than n.
func Sample(n, k int, seed uint32) ([]int, error) {
	if k > n || k < 0 {
		return nil, &SizeError{"sample", k, n}
	}
	return NewRandomState(seed).Permutation(n)[:k], nil
}

// Chain draws parts one after the other without replacement, each from the
// rows that the parts before left over, in their old order, and each with a
// generator seeded anew: the way in which the published data sets are split.
// It returns the row numbers of each part in the order drawn, and the rows left
// over, in ascending order. It is a *SizeError if the rows do not suffice.
func Chain(n int, seed uint32, sizes ...int) (parts [][]int, rest []int, err error) {
	return chain(n, sizes, func(rest []int, k int) ([]int, error) { return Sample(len(rest), k, seed) })
}

// ChainWeighted is Chain with [SampleWeighted]; weights has one for each row.
func ChainWeighted(weights []float64, seed uint32, sizes ...int) (parts [][]int, rest []int, err error) {
	return chain(len(weights), sizes, func(rest []int, k int) ([]int, error) {
		left := make([]float64, len(rest))
		for i, row := range rest {
			left[i] = weights[row]
		}
		return SampleWeighted(left, k, seed)
	})
}

func chain(n int, sizes []int, draw func(rest []int, k int) ([]int, error)) (parts [][]int, rest []int, err error) {
	rest = identity(n)
	for i, k := range sizes {
		drawn, err := draw(rest, k)
		if err != nil {
			return nil, nil, &SizeError{fmt.Sprintf("part %d of %d", i+1, len(sizes)), k, len(rest)}
		}
		gone := make([]bool, len(rest))
		part := make([]int, k)
		for j, at := range drawn {
			part[j], gone[at] = rest[at], true
		}
		parts = append(parts, part)
		var left []int
		for at, row := range rest {
			if !gone[at] {
				left = append(left, row)
			}
		}
		rest = left
	}
	return parts, rest, nil
}

// SampleWeighted returns the row numbers that pandas draws in
//
//	frame.sample(k, weights=weights, random_state=seed)
//
// without replacement: each row with a chance in proportion to its weight, which
// must be above 0. Rows are drawn in rounds, by the inverse of the cumulated
// weights of those that are left; repeats within a round count once. Weights
// should be whole numbers, whose sums are exact in any order.
func SampleWeighted(weights []float64, k int, seed uint32) ([]int, error) {
	if k > len(weights) || k < 0 {
		return nil, &SizeError{"weighted sample", k, len(weights)}
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	p := make([]float64, len(weights))
	for i, w := range weights {
		p[i] = w / sum
	}
	r := NewRandomState(seed)
	cdf := make([]float64, len(p))
	var found []int
	for len(found) < k {
		x := make([]float64, k-len(found))
		for i := range x {
			x[i] = r.float64()
		}
		for _, i := range found {
			p[i] = 0
		}
		total := 0.0
		for i, v := range p {
			total += v
			cdf[i] = total
		}
		for i := range cdf {
			cdf[i] /= total
		}
		inRound := map[int]bool{}
		for _, v := range x {
			// the first row whose cumulated weight is above v
			row := sort.Search(len(cdf), func(i int) bool { return cdf[i] > v })
			if !inRound[row] {
				inRound[row] = true
				found = append(found, row)
			}
		}
	}
	return found, nil
}

// Stratified returns the row numbers of scikit-learn's
//
//	train_test_split(rows, train_size=train, test_size=test,
//	                 stratify=labels, random_state=seed)
//
// where rows are numbered 0 … len(labels)−1: both parts keep the shares of the
// labels. Labels count in the order of their code points, as numpy.unique
// sorts them. Scikit-learn's own conditions hold: both sizes at least the
// number of labels and together at most len(labels), each label at least twice.
func Stratified(labels []string, train, test int, seed uint32) (trainRows, testRows []int, err error) {
	if train+test > len(labels) {
		return nil, nil, &SizeError{"stratified split", train + test, len(labels)}
	}
	members := map[string][]int{}
	for i, l := range labels {
		members[l] = append(members[l], i)
	}
	classes := make([]string, 0, len(members))
	for l, rows := range members {
		classes = append(classes, l)
		if len(rows) < 2 {
			return nil, nil, &SizeError{fmt.Sprintf("stratified split: label %q", l), 2, len(rows)}
		}
	}
	slices.Sort(classes) // of UTF-8 bytes: the order of code points
	if k := len(classes); train < k || test < k {
		return nil, nil, &SizeError{"stratified split: the smaller part must hold every label", k, min(train, test)}
	}
	counts := make([]int, len(classes))
	for c, l := range classes {
		counts[c] = len(members[l])
	}
	r := NewRandomState(seed)
	nTrain := r.shares(counts, train)
	for c := range counts {
		counts[c] -= nTrain[c]
	}
	nTest := r.shares(counts, test)
	for c, l := range classes {
		drawn := r.choose(members[l], len(members[l]))
		trainRows = append(trainRows, drawn[:nTrain[c]]...)
		testRows = append(testRows, drawn[nTrain[c]:nTrain[c]+nTest[c]]...)
	}
	trainRows = r.choose(trainRows, len(trainRows))
	return trainRows, r.choose(testRows, len(testRows)), nil
}

// shares splits k draws over classes in proportion to counts: whole shares
// first, then one more for the largest remainders; which of equal remainders
// get one is drawn. It is the mode of the multivariate hypergeometric
// distribution up to the rounding of the remainders, as scikit-learn takes it.
func (r *RandomState) shares(counts []int, k int) []int {
	total := 0
	for _, n := range counts {
		total += n
	}
	got, left := make([]int, len(counts)), k
	remainder := make([]float64, len(counts))
	for c, n := range counts {
		// In this order, for the rounding decides which remainders are equal.
		share := float64(n) / float64(total) * float64(k)
		whole := math.Floor(share)
		got[c], remainder[c] = int(whole), share-whole
		left -= int(whole)
	}
	values := slices.Clone(remainder)
	slices.Sort(values)
	values = slices.Compact(values)
	for i := len(values) - 1; i >= 0 && left > 0; i-- {
		var equal []int
		for c, v := range remainder {
			if v == values[i] {
				equal = append(equal, c)
			}
		}
		take := min(len(equal), left)
		for _, c := range r.choose(equal, take) {
			got[c]++
		}
		left -= take
	}
	return got
}
