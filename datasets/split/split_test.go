package split

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// vectors were made by testdata/vectors.py with numpy 1.24.2, pandas 1.5.3 and
// scikit-learn 1.2.1.
type vectors struct {
	RandomState []struct {
		Seed         uint32
		Raw          []uint32
		Permutations map[string][]int
	} `json:"random_state"`
	Generator []struct {
		Seed     string
		Integers []struct {
			N      int
			Values []int
		}
		Raw          []string
		Permutations map[string][]int
	}
	Bootstrap []struct {
		Seed             uint64
		N, Replicates    int
		First, Last      [][]int
		Unique, Weighted []int
	}
	Chain []struct {
		N, Rest int
		Sizes   []int
		Parts   [][]int
	}
	Stratified []struct {
		Labels      []string
		Train, Test int
		Seed        uint32
		TrainRows   []int `json:"train_rows"`
		TestRows    []int `json:"test_rows"`
	}
}

func load(t *testing.T) vectors {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRandomState(t *testing.T) {
	// First output of numpy.random.RandomState(4242).
	if got := NewRandomState(4242).Uint32(); got != 1395647406 {
		t.Errorf("first output %d", got)
	}
	for _, v := range load(t).RandomState {
		r := NewRandomState(v.Seed)
		var raw []uint32
		for range 700 {
			raw = append(raw, r.Uint32())
		}
		if !slices.Equal(raw[680:], v.Raw) {
			t.Errorf("seed %d: raw %v, want %v", v.Seed, raw[680:], v.Raw)
		}
		r = NewRandomState(v.Seed)
		for _, n := range []int{1, 2, 10, 257} {
			if got, want := r.Permutation(n), v.Permutations[strconv.Itoa(n)]; !slices.Equal(got, want) {
				t.Errorf("seed %d: permutation(%d) = %v, want %v", v.Seed, n, got, want)
			}
		}
	}
}

func TestGenerator(t *testing.T) {
	for _, v := range load(t).Generator {
		seed, err := strconv.ParseUint(v.Seed, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		g := NewGenerator(seed)
		for _, draw := range v.Integers {
			for i, want := range draw.Values {
				if got := g.IntN(draw.N); got != want {
					t.Fatalf("seed %d: draw %d from [0, %d) is %d, want %d", seed, i, draw.N, got, want)
				}
			}
		}
		for _, want := range v.Raw {
			if got := strconv.FormatUint(g.Uint64(), 10); got != want {
				t.Errorf("seed %d: raw %s, want %s", seed, got, want)
			}
		}
		for _, n := range []int{1, 2, 11, 300} {
			if got, want := g.Permutation(n), v.Permutations[strconv.Itoa(n)]; !slices.Equal(got, want) {
				t.Errorf("seed %d: permutation(%d) = %v, want %v", seed, n, got, want)
			}
		}
	}
}

func TestBootstrap(t *testing.T) {
	for _, v := range load(t).Bootstrap {
		rows := Bootstrap(v.Seed, v.N, v.Replicates)
		for i, row := range rows {
			unique, weighted := map[int]bool{}, 0
			for j, x := range row {
				unique[x] = true
				weighted += (j + 1) * x
			}
			if !slices.Equal(row[:min(10, v.N)], v.First[i]) || !slices.Equal(row[v.N-3:], v.Last[i]) ||
				len(unique) != v.Unique[i] || weighted != v.Weighted[i] {
				t.Errorf("seed %d, n %d, row %d differs from numpy's", v.Seed, v.N, i)
			}
			if !slices.Equal(row, BootstrapRow(v.Seed, v.N, i)) {
				t.Errorf("seed %d, n %d: BootstrapRow(%d) is another row", v.Seed, v.N, i)
			}
		}
	}
	// The numbers of unique questions per iteration in the reference system's
	// published ScandiQA results (2,048 test rows, seed 4242).
	want := []int{1291, 1290, 1294, 1284, 1295, 1297, 1317, 1289, 1275, 1288}
	for i, row := range Bootstrap(4242, 2048, 10) {
		slices.Sort(row)
		if got := len(slices.Compact(row)); got != want[i] {
			t.Errorf("row %d: %d unique indices, want %d", i, got, want[i])
		}
	}
	if rows := Bootstrap(1, 0, 2); len(rows) != 2 || len(rows[0]) != 0 {
		t.Errorf("no rows to draw from: %v", rows)
	}
}

func TestChain(t *testing.T) {
	for _, v := range load(t).Chain {
		parts, rest, err := Chain(v.N, 4242, v.Sizes...)
		if err != nil {
			t.Fatal(err)
		}
		if len(rest) != v.Rest {
			t.Errorf("n %d: %d rows are left, want %d", v.N, len(rest), v.Rest)
		}
		for i := range parts {
			if !slices.Equal(parts[i], v.Parts[i]) {
				t.Errorf("n %d, part %d: %v, want %v", v.N, i, parts[i], v.Parts[i])
			}
		}
	}
	var short *SizeError
	if _, _, err := Chain(10, 4242, 4, 7); !errors.As(err, &short) || short.Want != 7 || short.Have != 6 {
		t.Errorf("too few rows: %v", err)
	}
}

func TestStratified(t *testing.T) {
	for i, v := range load(t).Stratified {
		train, test, err := Stratified(v.Labels, v.Train, v.Test, v.Seed)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(train, v.TrainRows) || !slices.Equal(test, v.TestRows) {
			t.Errorf("case %d:\n got %v %v\nwant %v %v", i, train, test, v.TrainRows, v.TestRows)
		}
	}
	for name, labels := range map[string][]string{
		"too few rows":      {"a", "a", "b", "b"},
		"a label once":      {"a", "a", "a", "a", "a", "a", "b"},
		"part below labels": {"a", "a", "b", "b", "c", "c", "d", "d", "d"},
	} {
		var short *SizeError
		if _, _, err := Stratified(labels, 3, 3, 1); !errors.As(err, &short) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Whatever the labels, both parts are disjoint, have their sizes, and no
// label's share is off by a row or more.
func TestStratifiedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 20, 80).Draw(t, "labels")
		train := rapid.IntRange(3, 10).Draw(t, "train")
		test := rapid.IntRange(3, 10).Draw(t, "test")
		a, b, err := Stratified(labels, train, test, rapid.Uint32().Draw(t, "seed"))
		if err != nil {
			var short *SizeError
			if !errors.As(err, &short) {
				t.Fatal(err)
			}
			return
		}
		all := slices.Sorted(slices.Values(append(slices.Clone(a), b...)))
		if len(a) != train || len(b) != test || len(slices.Compact(all)) != train+test {
			t.Fatalf("parts %v and %v", a, b)
		}
		total, got := map[string]int{}, map[string]int{}
		for _, l := range labels {
			total[l]++
		}
		for _, row := range a {
			got[labels[row]]++
		}
		for l, n := range total {
			share := float64(n) * float64(train) / float64(len(labels))
			if d := float64(got[l]) - share; d <= -1 || d >= 1 {
				t.Fatalf("label %s: %d rows, share %.2f", l, got[l], share)
			}
		}
	})
}
