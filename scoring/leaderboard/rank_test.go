package leaderboard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"bench/scoring/stats"
)

// around makes replicates with this centre and spread; those of one seed go up
// and down together.
func around(centre, spread float64, seed uint64) []float64 {
	g := rand.New(rand.NewPCG(seed, 0))
	out := make([]float64, 1000)
	for i := range out {
		out[i] = centre + spread*g.NormFloat64()
	}
	return out
}

func TestDenseRanks(t *testing.T) {
	for _, c := range []struct {
		what    string
		medians []float64
		spread  float64
		paired  bool
		higher  bool
		want    string
	}{
		{"apart", []float64{1, 3, 2}, .01, false, false, "[1 3 2]"},
		{"the higher, the better", []float64{1, 3, 2}, .01, false, true, "[3 1 2]"},
		{"one group", []float64{1, 1.1, 1.2}, 1, false, false, "[1 1 1]"},
		// 1 and 1.3 are apart, 1.15 is near both: it stands with the first of the
		// group, and 1.3 founds the next, though it is as near to 1.15.
		{"the anchor decides", []float64{1.15, 1, 1.3}, .09, false, false, "[1 1 2]"},
		{"no rank is left out", []float64{1, 1.01, 2, 2.01, 3}, .1, false, false, "[1 1 2 2 3]"},
		{"replicates are compared one by one", []float64{1, 1.01}, 1, true, false, "[1 2]"},
	} {
		var replicates [][]float64
		for i, m := range c.medians {
			seed := uint64(i)
			if c.paired {
				seed = 7
			}
			replicates = append(replicates, around(m, c.spread, seed))
		}
		var got []int
		for _, r := range denseRanks(c.medians, replicates, c.higher) {
			if r.Lo != r.Hi {
				t.Errorf("%s: %v is no rank", c.what, r)
			}
			got = append(got, r.Lo)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	if got := denseRanks(nil, nil, false); len(got) != 0 {
		t.Errorf("no models: %v", got)
	}
	if got := denseRanks([]float64{5}, [][]float64{{5}}, false); got[0] != (stats.Ranks{Lo: 1, Hi: 1}) {
		t.Errorf("one model: %v", got)
	}
}
