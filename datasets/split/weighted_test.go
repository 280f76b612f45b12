package split

import (
	"errors"
	"slices"
	"testing"
)

// Expected values by numpy 1.26.4 and pandas 2.1.4:
//
//	frame = pandas.DataFrame({"x": range(6286)})
//	weights = lambda f: [5.0 if (i * 7919) % 5 < 2 else 1.0 for i in f["x"]]
//	val = frame.sample(256, random_state=4242, weights=weights(frame))
//	rest = frame[~frame.index.isin(val.index)]; test = rest.sample(2048, …) …
func TestChainWeighted(t *testing.T) {
	weights := make([]float64, 6286)
	for i := range weights {
		weights[i] = 1
		if i*7919%5 < 2 {
			weights[i] = 5
		}
	}
	parts, rest, err := ChainWeighted(weights, 4242, 256, 2048, 1024)
	if err != nil || len(rest) != 6286-256-2048-1024 {
		t.Fatalf("%d left over, error %v", len(rest), err)
	}
	for i, want := range []struct {
		first, last []int
		sum         int // of (i+1)·row
	}{
		{[]int{2043, 5912, 5745, 1800, 4915, 4131, 3329, 2107}, []int{1472, 2460, 2154, 6054}, 110238545},
		{[]int{2020, 5900, 5728, 1780, 4889, 4109, 3299, 2080}, []int{609, 2729, 4825, 225}, 6568103593},
		{[]int{1994, 5883, 5698, 1778, 4828, 4010, 3219, 2054}, []int{5807, 3631, 2219, 5212}, 1691196092},
	} {
		sum := 0
		for k, row := range parts[i] {
			sum += (k + 1) * row
		}
		if got := parts[i]; !slices.Equal(got[:8], want.first) || !slices.Equal(got[len(got)-4:], want.last) || sum != want.sum {
			t.Errorf("part %d: %v … %v, sum %d", i, got[:8], got[len(got)-4:], sum)
		}
	}
	// One row outweighs all others, and all are drawn in the end.
	if got, err := SampleWeighted([]float64{1, 1, 1, 100, 1, 1}, 6, 1); err != nil || !slices.Equal(got, []int{3, 0, 1, 2, 4, 5}) {
		t.Errorf("%v, error %v", got, err)
	}
	var size *SizeError
	if _, _, err := ChainWeighted([]float64{1, 2}, 1, 3); !errors.As(err, &size) {
		t.Errorf("error %v", err)
	}
}
