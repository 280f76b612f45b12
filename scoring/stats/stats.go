// Package stats turns scores of replicates into what people read: a mean, an
// interval and the warnings that go with them.
package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"bench/scoring"
)

// Level is the confidence level of every interval.
const Level = 0.95

// Z is the half-width of a 95 % interval in standard errors, as the reference
// system has it: two digits, and the normal distribution whatever the number of
// replicates. With ten replicates such an interval holds the mean in 92 % of
// cases only; HalfT keeps what it promises.
const Z = 1.96

// Summary describes the replicates of one metric.
type Summary struct {
	N      int           // replicates with a score
	Mean   scoring.Value // arithmetic
	Median scoring.Value // of an even number, the mean of the two in the middle
	SD     scoring.Value // of the sample: √(Σ(x−mean)² / (n−1))
	// HalfT is the half-width of the interval that is shown: t·SD/√n, with t the
	// 0.975 quantile of Student's distribution of n−1 degrees of freedom.
	HalfT scoring.Value
	// HalfZ is that of the reference system: 1.96·SD/√n.
	HalfZ scoring.Value
	// Warnings are for the reader; they do not stop the analysis.
	Warnings []error
}

// Summarize describes x, the scores of replicates. Those without a value are
// left out, with a warning. Without a score everything is Undefined; of one
// score mean and median are the score itself, and there is no interval.
func Summarize(x []scoring.Value) Summary {
	var xs []float64
	why := ""
	for _, v := range x {
		if v.Undefined != "" {
			why = v.Undefined
			continue
		}
		xs = append(xs, v.X)
	}
	s := Summary{N: len(xs)}
	if left := len(x) - len(xs); left > 0 {
		s.Warnings = append(s.Warnings, fmt.Errorf("%d of %d replicates have no score: %s", left, len(x), why))
	}
	if len(xs) == 0 {
		none := scoring.Value{Undefined: "no replicate has a score"}
		s.Mean, s.Median, s.SD, s.HalfT, s.HalfZ = none, none, none, none, none
		return s
	}
	mean := Mean(xs)
	s.Mean, s.Median = scoring.Num(mean), scoring.Num(Median(xs))
	if len(xs) == 1 {
		one := scoring.Value{Undefined: "one replicate has no spread"}
		s.SD, s.HalfT, s.HalfZ = one, one, one
		s.Warnings = append(s.Warnings, fmt.Errorf("one replicate: no interval; two are needed, ten are usual"))
		return s
	}
	sd := SD(xs)
	se := sd / math.Sqrt(float64(len(xs)))
	s.SD = scoring.Num(sd)
	s.HalfT = scoring.Num(TQuantile(len(xs)-1) * se)
	s.HalfZ = scoring.Num(Z * se)
	return s
}

// Mean is the arithmetic mean of x, which must not be empty.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// SD is the sample standard deviation of x, √(Σ(x−mean)² / (n−1)). x must have
// two values at least; of equal values it is exactly 0.
func SD(x []float64) float64 {
	if slices.Min(x) == slices.Max(x) {
		return 0 // the mean of equal values need not be that value to the last bit
	}
	mean, sum := Mean(x), 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}

// Median is the middle of x, or the mean of its two middle values. x must not
// be empty; it is left as it is.
func Median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	half := len(s) / 2
	if len(s)%2 == 1 {
		return s[half]
	}
	return s[half-1]/2 + s[half]/2
}

// TQuantile is the 0.975 quantile of Student's t distribution with df ≥ 1
// degrees of freedom.
func TQuantile(df int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}.Quantile(0.5 + Level/2)
}

// The limits of Collapsed, as shares.
const (
	CollapsedBelow = 0.05
	LearntAbove    = 0.30
)

// Collapsed returns the indices of the replicates that look like trainings that
// learnt nothing although the model can learn: a score below 0.05 where the
// best replicate of the same model and data set is above 0.30. Such trainings
// are part of the mean, as the reference system averages them in (8 % of its
// classification results of 2023 hold one), but they must be shown.
//
// x are raw scores of a metric with scoring.Metric.ZeroIsChance, not percents;
// of others (macro-F1, speed) a low score says nothing. Replicates without a
// value are neither low nor the best. A model none of whose replicates is above
// 0.30 has no collapsed ones: it may just be bad.
func Collapsed(x []scoring.Value) []int {
	var low []int
	learnt := false
	for i, v := range x {
		switch {
		case v.Undefined != "":
		case v.X > LearntAbove:
			learnt = true
		case v.X < CollapsedBelow:
			low = append(low, i)
		}
	}
	if !learnt {
		return nil
	}
	return low
}

// PopulationSD is √(Σ(x−mean)² / n), 0 of no or of equal values.
func PopulationSD(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	n := float64(len(x))
	return SD(x) * math.Sqrt((n-1)/n)
}
