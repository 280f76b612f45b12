package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// ShapiroWilk tests whether x was drawn from a normal distribution. w, in (0, 1],
// is near 1 for a normal sample; p is the chance of a w as small. Weights and
// p-value are Royston's approximations (Applied Statistics algorithm AS R94,
// 1995), good for 3 to 5,000 values. Equal values, other numbers of values and
// values that are not finite are errors.
func ShapiroWilk(x []float64) (w, p float64, err error) {
	n := len(x)
	if n < 3 || n > 5000 {
		return 0, 0, fmt.Errorf("stats: the Shapiro–Wilk test takes 3 to 5,000 values, not %d", n)
	}
	s := slices.Sorted(slices.Values(x))
	span := s[n-1] - s[0]
	if !(span > 0) || math.IsInf(span, 0) || math.IsNaN(s[0]) { // a NaN is sorted to the front
		return 0, 0, fmt.Errorf("stats: the Shapiro–Wilk test takes finite values that are not all equal")
	}
	a := royston(n)
	for i := range s {
		s[i] /= span
	}
	mean := Mean(s)
	squares, cross, weights := 0.0, 0.0, 0.0
	for i, v := range s {
		c := 0.0 // the weights are antisymmetric; in the middle there is none
		switch {
		case i < n/2:
			c = -a[i]
		case n-1-i < n/2:
			c = a[n-1-i]
		}
		squares += (v - mean) * (v - mean)
		cross += c * (v - mean)
		weights += c * c
	}
	root := math.Sqrt(weights * squares)
	rest := max(0, (root-cross)*(root+cross)/(weights*squares)) // 1 − w, without its loss of digits
	w = 1 - rest
	if n == 3 {
		return w, min(1, max(0, 6/math.Pi*(math.Asin(math.Sqrt(w))-math.Asin(math.Sqrt(.75))))), nil
	}
	if rest == 0 {
		return w, 1, nil
	}
	y, size := math.Log(rest), float64(n)
	var mu, sigma float64
	if n <= 11 {
		gamma := polynomial(size, -2.273, .459)
		if y >= gamma {
			return w, 0, nil
		}
		y = -math.Log(gamma - y)
		mu = polynomial(size, .544, -.39978, .025054, -6.714e-4)
		sigma = math.Exp(polynomial(size, 1.3822, -.77857, .062767, -.0020322))
	} else {
		mu = polynomial(math.Log(size), -1.5861, -.31082, -.083751, .0038915)
		sigma = math.Exp(polynomial(math.Log(size), -.4803, -.082676, .0030302))
	}
	return w, distuv.UnitNormal.CDF((mu - y) / sigma), nil
}

// royston returns the weights of the larger half of n values, the largest first.
func royston(n int) []float64 {
	a := make([]float64, n/2)
	if n == 3 {
		a[0] = math.Sqrt(.5)
		return a
	}
	sum := 0.0
	for i := range a { // expected normal order statistics, by Blom
		a[i] = -distuv.UnitNormal.Quantile((float64(i+1) - .375) / (float64(n) + .25))
		sum += 2 * a[i] * a[i]
	}
	u := 1 / math.Sqrt(float64(n))
	first := polynomial(u, 0, .221157, -.147981, -2.07119, 4.434685, -2.706056) + a[0]/math.Sqrt(sum)
	fixed, left, scale := 1, sum-2*a[0]*a[0], 1-2*first*first
	second := 0.0
	if n > 5 {
		second = polynomial(u, 0, .042981, -.293762, -1.752461, 5.682633, -3.582633) + a[1]/math.Sqrt(sum)
		fixed, left, scale = 2, left-2*a[1]*a[1], scale-2*second*second
		a[1] = second
	}
	a[0] = first
	for i := fixed; i < len(a); i++ {
		a[i] /= math.Sqrt(left / scale)
	}
	return a
}

// polynomial is Σ c[i]·xⁱ.
func polynomial(x float64, c ...float64) float64 {
	out := 0.0
	for _, v := range slices.Backward(c) {
		out = out*x + v
	}
	return out
}
