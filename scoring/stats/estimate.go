package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is a number that was measured with an error: a mean and its standard
// error, which itself was estimated with DF degrees of freedom. DF 0 means that
// the error is not known, as with one replicate.
type Estimate struct {
	Mean float64 `json:"mean"`
	SE   float64 `json:"se"`
	DF   float64 `json:"df"`
}

// Of estimates the mean that x was drawn from: x̄, s/√n, n−1.
func Of(x []float64) Estimate {
	e := Estimate{Mean: Mean(x)}
	if len(x) > 1 {
		e.SE, e.DF = SD(x)/math.Sqrt(float64(len(x))), float64(len(x)-1)
	}
	return e
}

// Combine estimates Σ wᵢ·eᵢ of independent estimates. The standard error is
// √Σ wᵢ²·SEᵢ², its degrees of freedom are Welch's and Satterthwaite's,
//
//	(Σ wᵢ²SEᵢ²)² / Σ (wᵢ²SEᵢ²)²/DFᵢ
//
// If the error of one part with a weight is not known, that of the sum is not.
func Combine(w []float64, e []Estimate) Estimate {
	var out Estimate
	variance, below, known, df := 0.0, 0.0, true, 0.0
	for i, p := range e {
		if w[i] == 0 {
			continue
		}
		out.Mean += w[i] * p.Mean
		if p.DF == 0 {
			known = false
			continue
		}
		v := w[i] * w[i] * p.SE * p.SE
		variance += v
		below += v * v / p.DF
		df += p.DF
	}
	switch {
	case !known:
	case below == 0: // no part has an error
		out.DF = df
	default:
		out.SE, out.DF = math.Sqrt(variance), variance*variance/below
	}
	return out
}

// HalfWidth is that of the 95 % interval, t₀.₉₇₅·SE. ok is false if the error is
// not known.
func (e Estimate) HalfWidth() (half float64, ok bool) {
	if e.DF <= 0 {
		return 0, false
	}
	return tQuantile(e.DF, 0.5+Level/2) * e.SE, true
}

// P is the two-sided p-value of the hypothesis that the true mean is 0. Without
// a known error it is 1: nothing speaks against it.
func (e Estimate) P() float64 {
	switch {
	case e.DF <= 0, e.Mean == 0:
		return 1
	case e.SE == 0:
		return 0
	}
	return min(1, 2*distuv.StudentsT{Sigma: 1, Nu: e.DF}.CDF(-math.Abs(e.Mean/e.SE)))
}

func tQuantile(df, p float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(p)
}

// Bonferroni corrects p-values of several tests: min(1, m·p).
func Bonferroni(p []float64) []float64 {
	out := make([]float64, len(p))
	for i, v := range p {
		out[i] = min(1, v*float64(len(p)))
	}
	return out
}

// Holm corrects p-values of several tests by Holm's step-down rule: the k-th
// smallest of m is multiplied by m−k+1, and none is smaller than one before it.
// It controls the same error as Bonferroni and never gives a larger p.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(p))
	worst := 0.0
	for k, i := range order {
		worst = max(worst, min(1, p[i]*float64(len(p)-k)))
		out[i] = worst
	}
	return out
}

// Ranks is an interval of ranks, from 1.
type Ranks struct {
	Lo int `json:"lo"`
	Hi int `json:"hi"`
}

// RankIntervals says for each estimate which ranks it may have. It is compared
// with all others by Welch's test, Holm-corrected over these comparisons; Lo is
// 1 + the number of estimates that are better (p < 0.05), Hi the number of all
// less those that are worse. Each interval holds the true rank with 95 %
// confidence at least. higher says that a greater mean is better.
func RankIntervals(e []Estimate, higher bool) []Ranks {
	out := make([]Ranks, len(e))
	p := make([]float64, len(e)-min(1, len(e)))
	// Only p-values between α/m and α need their digits: below, Holm's rule always
	// rejects, above never. That most are outside shows from t alone, since the tails of
	// Student's distribution grow lighter with its degrees of freedom.
	const alpha, fewDF, normal = 1 - Level, 9.0, 1.95
	surely := tQuantile(fewDF, 1-alpha/float64(2*max(1, len(p)))) * 1.001
	for i := range e {
		others := p[:0]
		for j := range e {
			if j == i {
				continue
			}
			d := Difference(e[i], e[j])
			switch t := math.Abs(d.Mean) / d.SE; {
			case d.DF > 0 && t < normal:
				others = append(others, 1)
			case d.DF >= fewDF && t > surely:
				others = append(others, 0)
			default:
				others = append(others, d.P())
			}
		}
		r := Ranks{1, len(e)}
		for k, v := range Holm(others) {
			j := k
			if j >= i {
				j++
			}
			if v >= 1-Level {
				continue
			}
			if (e[j].Mean > e[i].Mean) == higher {
				r.Lo++
			} else {
				r.Hi--
			}
		}
		out[i] = r
	}
	return out
}

// Difference estimates a − b of independent estimates; its P is Welch's test.
func Difference(a, b Estimate) Estimate {
	return Combine([]float64{1, -1}, []Estimate{a, b})
}
