package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Wasserstein is the 1-Wasserstein (earth mover's) distance of two distributions
// on a line, ∫|F_u − F_v|: the mean distance by which mass must be moved to make
// one of the other, in the unit of the values. The values have weights, which
// are normalised; nil: all the same. No values, values that are not finite,
// weights of another number, below 0 or all 0 are errors.
func Wasserstein(u, v, uWeights, vWeights []float64) (float64, error) {
	type step struct{ at, mass float64 } // mass of u, less that of v
	var steps []step
	add := func(name string, x, w []float64, sign float64) error {
		if len(x) == 0 || w != nil && len(w) != len(x) {
			return fmt.Errorf("stats: %d values of %s with %d weights", len(x), name, len(w))
		}
		sum := float64(len(x))
		if w != nil {
			sum = Mean(w) * float64(len(w))
		}
		for i, at := range x {
			mass := 1.0
			if w != nil {
				mass = w[i]
			}
			if math.IsNaN(at) || math.IsInf(at, 0) || !(mass >= 0) || !(sum > 0) || math.IsInf(sum, 0) {
				return fmt.Errorf("stats: value %d of %s is %v with weight %v of %v", i+1, name, at, mass, sum)
			}
			steps = append(steps, step{at, sign * mass / sum})
		}
		return nil
	}
	if err := add("u", u, uWeights, 1); err != nil {
		return 0, err
	}
	if err := add("v", v, vWeights, -1); err != nil {
		return 0, err
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	ahead, moved := 0.0, 0.0
	for i, s := range steps[:len(steps)-1] {
		ahead += s.mass
		moved += math.Abs(ahead) * (steps[i+1].at - s.at)
	}
	return moved, nil
}
