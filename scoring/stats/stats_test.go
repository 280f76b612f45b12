package stats_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bench/scoring"
	"bench/scoring/stats"
)

func values(x ...float64) []scoring.Value {
	var out []scoring.Value
	for _, v := range x {
		out = append(out, scoring.Num(v))
	}
	return out
}

func near(got scoring.Value, want, tolerance float64) bool {
	return got.Undefined == "" && math.Abs(got.X-want) <= tolerance*math.Max(1, math.Abs(want))
}

// scipy 1.17: python -c "from scipy.stats import t; print([float(t.ppf(.975, n)) for n in (1,2,3,4,5,9,19,29,99,999)])"
func TestTQuantile(t *testing.T) {
	for df, want := range map[int]float64{
		1: 12.706204736174694, 2: 4.302652729749462, 3: 3.1824463052837078, 4: 2.7764451051977934, 5: 2.5705818356363146,
		9: 2.262157162798205, 19: 2.0930240544083087, 29: 2.045229642132703, 99: 1.9842169515864174, 999: 1.9623414611334493,
	} {
		if got := stats.TQuantile(df); math.Abs(got-want) > 1e-11*want {
			t.Errorf("t with %d degrees of freedom is %.17g, want %.17g", df, got, want)
		}
	}
}

// The scores of xlm-roberta-base on scala-nn in the published results of 2023.
var scalaNN = values(.053, -.004, 0, .501, .577, .541, .513, .396, .500, .542)

// The values are those of
//
//	python -c "import numpy as np; from scipy import stats as s
//	x = np.array([5.3, -.4, 0, 50.1, 57.7, 54.1, 51.3, 39.6, 50, 54.2]) / 100
//	print(x.mean(), np.median(x), x.std(ddof=1), s.t.interval(.95, 9, x.mean(), s.sem(x))[1] - x.mean(), 1.96 * s.sem(x))"
func TestSummarize(t *testing.T) {
	s := stats.Summarize(scalaNN)
	if s.N != 10 || len(s.Warnings) != 0 {
		t.Errorf("%d replicates, warnings %v", s.N, s.Warnings)
	}
	for _, c := range []struct {
		what string
		got  scoring.Value
		want float64
	}{
		{"mean", s.Mean, 0.3619}, {"median", s.Median, 0.5005}, {"SD", s.SD, 0.2434631845315062}, {"t half-width", s.HalfT, 0.1741630704042233}, {"normal half-width", s.HalfZ, 0.15090004514541702},
	} {
		if !near(c.got, c.want, 1e-12) {
			t.Errorf("%s is %v, want %.17g", c.what, c.got, c.want)
		}
	}
}

func TestFewReplicates(t *testing.T) {
	s := stats.Summarize(values(0.25))
	if s.Mean != scoring.Num(0.25) || s.Median != scoring.Num(0.25) || s.SD.Undefined == "" || s.HalfT.Undefined == "" || s.HalfZ.Undefined == "" || len(s.Warnings) != 1 {
		t.Errorf("one replicate: %+v", s)
	}
	s = stats.Summarize(nil)
	if s.N != 0 || s.Mean.Undefined == "" || s.Median.Undefined == "" || s.HalfT.Undefined == "" {
		t.Errorf("no replicate: %+v", s)
	}
	s = stats.Summarize(append(values(0.2, 0.4), scoring.Value{Undefined: "no rows to score"}))
	if s.N != 2 || !near(s.Mean, 0.3, 1e-15) || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].Error(), "1 of 3 replicates") {
		t.Errorf("one replicate without a score: %+v", s)
	}
	s = stats.Summarize(values(0.1, 0.1, 0.1))
	if s.SD != scoring.Num(0) || s.HalfT != scoring.Num(0) {
		t.Errorf("equal replicates: %+v", s)
	}
}

func TestSummaryProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 30).Draw(t, "scores")
		kept := slices.Clone(x)
		s := stats.Summarize(values(x...))
		if !slices.Equal(x, kept) {
			t.Fatal("the scores were changed")
		}
		lo, hi := slices.Min(x), slices.Max(x)
		for _, v := range []scoring.Value{s.Mean, s.Median} {
			if v.Undefined != "" || v.X < lo-1e-15 || v.X > hi+1e-15 {
				t.Fatalf("centre %v outside of [%v, %v]", v, lo, hi)
			}
		}
		if s.SD.X < 0 || s.HalfT.X < s.HalfZ.X*0.999 || len(s.Warnings) > 0 {
			t.Fatalf("%+v", s)
		}
		slices.Reverse(x)
		if r := stats.Summarize(values(x...)); math.Abs(r.Mean.X-s.Mean.X) > 1e-14 || math.Abs(r.HalfT.X-s.HalfT.X) > 1e-12 || r.Median != s.Median {
			t.Fatalf("depends on the order: %+v and %+v", s, r)
		}
	})
}

func TestCollapsed(t *testing.T) {
	for _, c := range []struct {
		x    []scoring.Value
		want []int
	}{
		{scalaNN, []int{1, 2}},
		{values(0, 0.01, 0.2), nil},
		{values(0.049, 0.3), nil},
		{values(0.049, 0.301), []int{0}},
		{values(0.05, 0.9), nil},
		{append(values(-0.2, 0.9), scoring.Value{Undefined: "no rows"}), []int{0}},
		{nil, nil},
	} {
		if got := stats.Collapsed(c.x); !slices.Equal(got, c.want) {
			t.Errorf("collapsed of %v: %v, want %v", c.x, got, c.want)
		}
	}
}

// TestPublishedResults holds means and half-widths of all published results of
// the reference system of 2023, and the number of those with collapsed seeds:
// 78 of 929 classification results (facts/scandeval.md 0.9 of the reference material).
func TestPublishedResults(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "golden", "leaderboard", "scandeval-2023-results.jsonl")
	b, err := os.ReadFile(path)
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "shared") {
			t.Fatal(err)
		}
		t.Skipf("no shared reference results: %v", err)
	}
	in := bufio.NewScanner(bytes.NewReader(b))
	in.Buffer(nil, 1<<20)
	classified, collapsed, checked := 0, 0, 0
	for in.Scan() {
		if len(in.Bytes()) == 0 {
			continue
		}
		var r struct {
			Task, Model, Dataset string
			Results              struct {
				Raw struct {
					Test []map[string]float64
				}
				Total map[string]float64
			}
		}
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		scale := 100.0
		if r.Task == "question-answering" || r.Task == "speed" {
			scale = 1
		}
		for metric, want := range r.Results.Total {
			if strings.HasSuffix(metric, "_se") {
				continue
			}
			var x []scoring.Value
			for _, seed := range r.Results.Raw.Test {
				x = append(x, scoring.Num(seed[metric]))
			}
			s := stats.Summarize(x)
			half := r.Results.Total[metric+"_se"]
			if !near(scoring.Num(s.Mean.X*scale), want, 1e-12) || !near(scoring.Num(s.HalfZ.X*scale), half, 1e-12) {
				t.Errorf("%s on %s: %s is %v ± %v, published %v ± %v", r.Model, r.Dataset, metric, s.Mean.X*scale, s.HalfZ.X*scale, want, half)
			}
			checked++
			if metric == "test_mcc" {
				classified++
				if len(stats.Collapsed(x)) > 0 {
					collapsed++
				}
			}
		}
	}
	if classified != 929 || collapsed != 78 {
		t.Errorf("%d of %d classification results have collapsed seeds, want 78 of 929", collapsed, classified)
	}
	t.Logf("%d means and half-widths", checked)
}
