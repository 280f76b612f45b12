package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Correlation is a correlation of two columns of n rows, from which the
// influence of k others may have been taken out, and how sure it is.
type Correlation struct {
	R          float64 `json:"r"`
	N          int     `json:"n"`
	Covariates int     `json:"covariates"` // k
	// Lo and Hi are Fisher's 95 % interval, tanh(artanh r ± z₀.₉₇₅/√(n−k−3)).
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
	// P is two-sided, of t = r·√(df/(1−r²)) with df = n−k−2.
	P  float64 `json:"p"`
	R2 float64 `json:"r2"`
	// AdjR2 is 1 − (1−r²)(n−1)/(n−k−2).
	AdjR2 float64 `json:"adj_r2"`
	// Power is the chance to find a true correlation of r at 5 %, two-sided:
	//
	//	Φ((z−zc)·√(N−3)) + Φ((−z−zc)·√(N−3))
	//
	// with N = n−k, z = artanh|r| + |r|/(2(N−1)), zc = artanh of the smallest
	// significant correlation, √(t²/(t²+N−2)) for t = t₀.₉₇₅,N₋₂.
	Power float64 `json:"power"`
}

// NewCorrelation says how sure a correlation r of n rows is, of which the
// influence of k covariates was taken out. It takes n ≥ k+4 and |r| ≤ 1.
func NewCorrelation(r float64, n, k int) (Correlation, error) {
	switch {
	case !(math.Abs(r) <= 1):
		return Correlation{}, fmt.Errorf("stats: %v is no correlation", r)
	case k < 0 || n < k+4:
		return Correlation{}, fmt.Errorf("stats: %d rows are too few for a correlation with %d covariates: %d are needed", n, k, max(k, 0)+4)
	}
	c := Correlation{R: r, N: n, Covariates: k, R2: r * r}
	df, below := float64(n-k-2), float64(n-k) // N of the power
	c.AdjR2 = 1 - (1-c.R2)*float64(n-1)/df
	if c.R2 == 1 {
		c.Lo, c.Hi, c.Power = r, r, 1
		return c, nil
	}
	c.P = 2 * distuv.StudentsT{Sigma: 1, Nu: df}.CDF(-math.Abs(r)*math.Sqrt(df/(1-c.R2)))
	half := distuv.UnitNormal.Quantile(0.5+Level/2) / math.Sqrt(below-3)
	c.Lo, c.Hi = math.Tanh(math.Atanh(r)-half), math.Tanh(math.Atanh(r)+half)
	t := tQuantile(below-2, 0.5+Level/2)
	critical := math.Atanh(math.Sqrt(t * t / (t*t + below - 2)))
	z, root := math.Atanh(math.Abs(r))+math.Abs(r)/(2*(below-1)), math.Sqrt(below-3)
	c.Power = distuv.UnitNormal.CDF((z-critical)*root) + distuv.UnitNormal.CDF((-z-critical)*root)
	return c, nil
}

// Spearman is the rank correlation of x and y, in which ties share the mean of
// their ranks. With covariates it is the partial one: the correlation of what
// linear regressions on the covariates' ranks leave of the ranks of x and y. All
// columns are of the same length. A column that is constant, or that the
// covariates determine, is an error.
func Spearman(x, y []float64, covariates ...[]float64) (Correlation, error) {
	for _, c := range append([][]float64{x, y}, covariates...) {
		if len(c) != len(x) {
			return Correlation{}, fmt.Errorf("stats: columns of %d and of %d rows", len(x), len(c))
		}
		if slices.ContainsFunc(c, math.IsNaN) {
			return Correlation{}, fmt.Errorf("stats: a column has a NaN, which has no rank")
		}
	}
	if len(x) < len(covariates)+4 {
		return NewCorrelation(0, len(x), len(covariates))
	}
	var ranks [][]float64
	for _, c := range covariates {
		ranks = append(ranks, FractionalRanks(c))
	}
	var left [2][]float64
	for i, column := range [][]float64{x, y} {
		r := FractionalRanks(column)
		fit, err := Linear(r, ranks...)
		if err != nil {
			return Correlation{}, err
		}
		left[i] = fit.Residuals
		if spread, all := sumSquares(left[i]), sumSquares(centred(r)); spread <= 1e-20*all || all == 0 {
			return Correlation{}, fmt.Errorf("stats: column %d of the correlation is constant, or follows from the covariates", i+1)
		}
	}
	return NewCorrelation(min(1, max(-1, dot(left[0], left[1])/math.Sqrt(sumSquares(left[0])*sumSquares(left[1])))), len(x), len(covariates))
}

// FractionalRanks are the ranks of x from 1, where equal values share the mean
// of theirs.
func FractionalRanks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			out[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return out
}

func centred(x []float64) []float64 {
	mean, out := Mean(x), make([]float64, len(x))
	for i, v := range x {
		out[i] = v - mean
	}
	return out
}

func sumSquares(x []float64) float64 { return dot(x, x) }

func dot(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}
