package stats_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bench/scoring/stats"
)

// correlation as golden/treebanks/stats.json has it.
type correlated struct {
	N          int        `json:"n"`
	K          int        `json:"n_covariates"`
	Rho        float64    `json:"rho"`
	CI         [2]float64 `json:"ci95"`
	R2         float64    `json:"rho2"`
	Adj        float64    `json:"adj_rho2"`
	P          float64    `json:"p"`
	Power      float64    `json:"power"`
	Data, X, Y string
	Covariates []string
	XValues    []float64   `json:"x_values"`
	YValues    []float64   `json:"y_values"`
	Columns    [][]float64 `json:"covariate_values"`
}

type crossValidated struct {
	Coef     []float64
	Score    float64 `json:"regression_score"`
	EV       float64 `json:"explained_variance"`
	MAE      float64
	Spearman float64 `json:"spearman_leakage_vs_las"`
	Folds    []struct {
		Rows [2]int `json:"test_index"`
		Coef []float64
		EV   float64 `json:"explained_variance"`
		MAE  float64
	}
}

// treebankStats is golden/treebanks/stats.json of the reference material: values
// by numpy 1.24.2, scipy 1.10.1, scikit-learn 1.2.1 or closed formulas (its field
// about; the formulas are in facts/treebanks.md §3.4).
type treebankStats struct {
	UD25         struct{ Columns map[string]json.RawMessage } `json:"data_ud25_subset"`
	UD26         struct{ Columns map[string]json.RawMessage } `json:"data_ud26_subset"`
	Correlations []correlated                                 `json:"spearman_and_partial_spearman"`
	Published    struct {
		Rows []struct {
			Where      string
			Rho        float64 `json:"rho_printed"`
			N          int
			K          int `json:"n_covariates"`
			Recomputed correlated
		}
	} `json:"published_rows_paper_b"`
	Regressions []struct {
		Coef, SE, T, P []float64
		R2             float64
		Adj            float64 `json:"adj_r2"`
		DF             int     `json:"residual_dof"`
		Data           string
		Predictors     []string
		RelImp         []float64 `json:"relimp"`
	} `json:"multilinear_regression_relative_importance"`
	Background struct {
		Cases []struct {
			Data         string
			Coef1, Coef2 []float64
			Norm1        []float64 `json:"normalised1"`
			Norm2        []float64 `json:"normalised2"`
			Rho          map[string]struct{ After1, After2 float64 }
		}
	} `json:"background_removal"`
	Leakage struct {
		Rows         [][5]any
		Undirected5  crossValidated `json:"undirected_5fold"`
		Directed5    crossValidated `json:"directed_5fold"`
		Undirected3  crossValidated `json:"undirected_3fold_as_soegaard"`
		WithoutError crossValidated `json:"undirected_5fold_without_Basque"`
	} `json:"paper_a_regression"`
	Metrics []struct {
		Y, Pred []float64
		EV      float64 `json:"explained_variance"`
		MAE, R2 float64
	} `json:"regression_metrics"`
	ShapiroWilk []struct {
		Name   string
		Values []float64
		W, P   float64
	} `json:"shapiro_wilk"`
	Wasserstein []struct {
		U, V []float64
		UW   []float64 `json:"u_weights"`
		VW   []float64 `json:"v_weights"`
		W1   float64
		Note string
	} `json:"wasserstein_1"`
}

func (s treebankStats) column(t *testing.T, data, name string) []float64 {
	t.Helper()
	columns := map[string]map[string]json.RawMessage{"data_ud25_subset": s.UD25.Columns, "data_ud26_subset": s.UD26.Columns}[data]
	log := strings.HasPrefix(name, "log_")
	var out []float64
	if err := json.Unmarshal(columns[strings.TrimPrefix(name, "log_")], &out); err != nil {
		t.Fatalf("%s of %s: %v", name, data, err)
	}
	for i := range out {
		if log {
			out[i] = math.Log(out[i])
		}
	}
	return out
}

func treebanks(t *testing.T) (s treebankStats) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "golden", "treebanks", "stats.json"))
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "shared") {
			t.Fatal(err)
		}
		t.Skipf("no shared reference results: %v", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Correlations) == 0 || len(s.Published.Rows) == 0 || len(s.Regressions) == 0 || len(s.Background.Cases) == 0 || len(s.Leakage.Rows) == 0 || len(s.Metrics) == 0 || len(s.ShapiroWilk) == 0 || len(s.Wasserstein) == 0 {
		t.Fatal("a part of the reference results was not read")
	}
	return s
}

// equals holds numbers against golden ones, to a relative 1e-9 if not said
// otherwise.
func equals(t *testing.T, what string, got, want []float64, tolerance ...float64) {
	t.Helper()
	limit := 1e-9
	if len(tolerance) > 0 {
		limit = tolerance[0]
	}
	if len(got) != len(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
		return
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > limit*max(1, math.Abs(want[i])) || math.IsNaN(got[i]) {
			t.Errorf("%s: %.17g, want %.17g", what, got, want)
			return
		}
	}
}

// powerDigits: gonum's quantile of Student's t is good to nine digits.
const powerDigits = 1e-8

func TestSpearmanGolden(t *testing.T) {
	s := treebanks(t)
	for _, c := range s.Correlations {
		x, y, covariates := c.XValues, c.YValues, c.Columns
		if c.Data != "" {
			x, y = s.column(t, c.Data, c.X), s.column(t, c.Data, c.Y)
			for _, name := range c.Covariates {
				covariates = append(covariates, s.column(t, c.Data, name))
			}
		}
		got, err := stats.Spearman(x, y, covariates...)
		if err != nil {
			t.Fatal(err)
		}
		if got.N != c.N || got.Covariates != c.K {
			t.Errorf("%+v", got)
		}
		what := c.Data + " " + c.X + strings.Join(c.Covariates, ",")
		equals(t, what, []float64{got.R, got.Lo, got.Hi, got.R2, got.AdjR2, got.P}, []float64{c.Rho, c.CI[0], c.CI[1], c.R2, c.Adj, c.P})
		equals(t, what, []float64{got.Power}, []float64{c.Power}, powerDigits)
	}
	for _, row := range s.Published.Rows {
		rho := row.Rho
		if rest, ok := strings.CutPrefix(row.Where, "T6 Com U2 tt "); ok && rest == "-0.428" { // the misprinted row
			rho = -.428
		}
		got, err := stats.NewCorrelation(rho, row.N, row.K)
		if err != nil {
			t.Fatal(err)
		}
		want := row.Recomputed
		equals(t, row.Where, []float64{got.Lo, got.Hi, got.R2, got.AdjR2, got.P}, []float64{want.CI[0], want.CI[1], want.R2, want.Adj, want.P})
		equals(t, row.Where, []float64{got.Power}, []float64{want.Power}, powerDigits)
	}
}

func TestRegressionGolden(t *testing.T) {
	s := treebanks(t)
	for _, r := range s.Regressions {
		var x [][]float64
		for _, name := range r.Predictors {
			x = append(x, s.column(t, r.Data, name))
		}
		y := s.column(t, r.Data, "LAS")
		got, err := stats.Linear(y, x...)
		if err != nil {
			t.Fatal(err)
		}
		what := r.Data + " " + strings.Join(r.Predictors, ",")
		equals(t, what+" coefficients", got.Coef, r.Coef)
		equals(t, what+" errors", got.SE, r.SE)
		equals(t, what+" t", got.T, r.T)
		equals(t, what+" p", got.P, r.P)
		equals(t, what+" R²", []float64{got.R2, got.AdjR2, float64(got.DF)}, []float64{r.R2, r.Adj, float64(r.DF)})
		shares, err := stats.Importance(y, x...)
		if err != nil {
			t.Fatal(err)
		}
		equals(t, what+" importance", shares, r.RelImp)
	}
	for _, m := range s.Metrics {
		equals(t, "metrics", []float64{stats.ExplainedVariance(m.Y, m.Pred), stats.MeanAbsoluteError(m.Y, m.Pred), stats.R2(m.Y, m.Pred)}, []float64{m.EV, m.MAE, m.R2})
	}
	for _, c := range s.Background.Cases {
		las, previous := s.column(t, c.Data, "LAS"), [][]float64{nil, c.Norm1, c.Norm2}
		for step, name := range []string{"log_train_tokens", "Ltest"} {
			x := s.column(t, c.Data, name)
			fit, err := stats.Linear(las, x)
			if err != nil {
				t.Fatal(err)
			}
			equals(t, "background", fit.Coef, [][]float64{c.Coef1, c.Coef2}[step])
			for i := range las {
				las[i] /= fit.Predict(x[i])
			}
			equals(t, "normalised", las, previous[step+1])
			for measure, want := range c.Rho {
				rho, err := stats.Spearman(s.column(t, c.Data, measure), las)
				if err != nil {
					t.Fatal(err)
				}
				equals(t, measure, []float64{rho.R}, []float64{[]float64{want.After1, want.After2}[step]})
			}
		}
	}
}

func TestCrossValidationGolden(t *testing.T) {
	s := treebanks(t)
	var names []string
	columns := make([][]float64, 4) // size, directed and undirected leakage, LAS
	for _, row := range s.Leakage.Rows {
		names = append(names, row[0].(string))
		for i := range columns {
			columns[i] = append(columns[i], row[i+1].(float64))
		}
	}
	size, directed, undirected, las := columns[0], columns[1], columns[2], columns[3]
	without := func(x []float64) []float64 {
		at := slices.Index(names, "UD_Basque-BDT")
		return slices.Delete(slices.Clone(x), at, at+1)
	}
	for _, c := range []struct {
		what             string
		want             crossValidated
		folds            int
		size, leaks, las []float64
	}{
		{"undirected", s.Leakage.Undirected5, 5, size, undirected, las},
		{"directed", s.Leakage.Directed5, 5, size, directed, las},
		{"three folds", s.Leakage.Undirected3, 3, size, undirected, las},
		{"without the misprinted row", s.Leakage.WithoutError, 5, without(size), without(undirected), without(las)},
	} {
		fit, err := stats.Linear(c.las, c.size, c.leaks)
		if err != nil {
			t.Fatal(err)
		}
		rho, err := stats.Spearman(c.leaks, c.las)
		if err != nil {
			t.Fatal(err)
		}
		equals(t, c.what, append(fit.Coef, fit.R2, rho.R), append(slices.Clone(c.want.Coef), c.want.Score, c.want.Spearman))
		folds, err := stats.CrossValidate(c.folds, c.las, c.size, c.leaks)
		if err != nil || len(folds) != len(c.want.Folds) {
			t.Fatalf("%d folds: %v", len(folds), err)
		}
		var ev, mae float64
		for i, f := range folds {
			want := c.want.Folds[i]
			if f.From != want.Rows[0] || f.To != want.Rows[1]+1 {
				t.Errorf("%s: fold %d has the rows %d to %d, want %v", c.what, i, f.From, f.To-1, want.Rows)
			}
			equals(t, c.what, append(f.Coef, f.ExplainedVariance, f.MAE), append(want.Coef, want.EV, want.MAE))
			ev, mae = ev+f.ExplainedVariance/float64(c.folds), mae+f.MAE/float64(c.folds)
		}
		equals(t, c.what, []float64{ev, mae}, []float64{c.want.EV, c.want.MAE})
	}
}

// The golden values are those of a faithful implementation in double precision;
// scipy's own are single precision.
func TestShapiroWilkGolden(t *testing.T) {
	for _, c := range treebanks(t).ShapiroWilk {
		w, p, err := stats.ShapiroWilk(c.Values)
		if err != nil {
			t.Fatal(err)
		}
		equals(t, c.Name, []float64{w, p}, []float64{c.W, c.P}, 1e-8)
	}
}

func TestWassersteinGolden(t *testing.T) {
	for _, c := range treebanks(t).Wasserstein {
		got, err := stats.Wasserstein(c.U, c.V, c.UW, c.VW)
		if err != nil {
			t.Fatal(err)
		}
		equals(t, c.Note, []float64{got}, []float64{c.W1}, 1e-14)
	}
}

// TestRefused: what has no answer is an error, not a NaN.
func TestRefused(t *testing.T) {
	nan := math.NaN()
	line := []float64{1, 2, 3, 4, 5}
	for what, try := range map[string]func() error{
		"constant column":    func() error { _, err := stats.Spearman(line, []float64{1, 1, 1, 1, 1}); return err },
		"too few rows":       func() error { _, err := stats.Spearman(line[:3], line[:3]); return err },
		"too few for k":      func() error { _, err := stats.Spearman(line[:4], line[:4], line[:4]); return err },
		"other length":       func() error { _, err := stats.Spearman(line, line[:4]); return err },
		"NaN has no rank":    func() error { _, err := stats.Spearman(line, []float64{1, 2, nan, 4, 5}); return err },
		"own covariate":      func() error { _, err := stats.Spearman(line, []float64{2, 1, 4, 3, 5}, line); return err },
		"no correlation":     func() error { _, err := stats.NewCorrelation(nan, 10, 0); return err },
		"collinear":          func() error { _, err := stats.Linear(line, line, line); return err },
		"constant predictor": func() error { _, err := stats.Linear(line, []float64{2, 2, 2, 2, 2}); return err },
		"more coefficients":  func() error { _, err := stats.Linear(line[:2], line[:2], line[1:3]); return err },
		"NaN in regression":  func() error { _, err := stats.Linear(line, []float64{1, 2, nan, 4, 5}); return err },
		"one fold":           func() error { _, err := stats.CrossValidate(1, line, line); return err },
		"more folds":         func() error { _, err := stats.CrossValidate(6, line, line); return err },
		"two values":         func() error { _, _, err := stats.ShapiroWilk(line[:2]); return err },
		"equal values":       func() error { _, _, err := stats.ShapiroWilk([]float64{1, 1, 1}); return err },
		"NaN in test":        func() error { _, _, err := stats.ShapiroWilk([]float64{1, nan, 2, 3}); return err },
		"no values":          func() error { _, err := stats.Wasserstein(nil, line, nil, nil); return err },
		"weights of 0":       func() error { _, err := stats.Wasserstein(line[:1], line, []float64{0}, nil); return err },
		"infinite value":     func() error { _, err := stats.Wasserstein([]float64{math.Inf(1)}, line, nil, nil); return err },
		"negative weight":    func() error { _, err := stats.Wasserstein(line[:2], line, []float64{2, -1}, nil); return err },
	} {
		if try() == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if c, err := stats.Spearman(line, line); err != nil || c.R != 1 || c.P != 0 || c.Lo != 1 || c.Power != 1 {
		t.Errorf("equal columns: %+v %v", c, err)
	}
}

func TestCorrelationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(6, 20).Draw(t, "n")
		column := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(-9, 9).Draw(t, "x")) }), n, n)
		x, y, z := column.Draw(t, "x"), column.Draw(t, "y"), column.Draw(t, "z")
		c, err := stats.Spearman(x, y, z)
		if err != nil {
			t.Skip(err)
		}
		if !(c.Lo <= c.R && c.R <= c.Hi && -1 <= c.Lo && c.Hi <= 1 && 0 <= c.P && c.P <= 1 && 0 < c.Power && c.Power <= 1+1e-12 && c.AdjR2 <= c.R2+1e-12) {
			t.Fatalf("%+v", c)
		}
		same := func(what string, d stats.Correlation, err error, sign float64) {
			if err != nil || math.Abs(d.R-sign*c.R) > 1e-9 {
				t.Fatalf("%s: %v, want %v (%v)", what, d.R, sign*c.R, err)
			}
		}
		d, err := stats.Spearman(y, x, z)
		same("symmetry", d, err, 1)
		growing, falling := make([]float64, n), make([]float64, n)
		for i, v := range x {
			growing[i], falling[i] = math.Exp(v), -v
		}
		d, err = stats.Spearman(growing, y, z)
		same("a growing function", d, err, 1)
		d, err = stats.Spearman(falling, y, z)
		same("a falling function", d, err, -1)
		// By the formula for one covariate.
		xy, e1 := stats.Spearman(x, y)
		xz, e2 := stats.Spearman(x, z)
		yz, e3 := stats.Spearman(y, z)
		if e1 == nil && e2 == nil && e3 == nil {
			if want := (xy.R - xz.R*yz.R) / math.Sqrt((1-xz.R2)*(1-yz.R2)); math.Abs(c.R-want) > 1e-9 {
				t.Fatalf("%v, want %v", c.R, want)
			}
		}
	})
}

func TestRegressionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(5, 20).Draw(t, "n")
		column := rapid.SliceOfN(rapid.Float64Range(-10, 10), n, n)
		a, b, y := column.Draw(t, "a"), column.Draw(t, "b"), column.Draw(t, "y")
		r, err := stats.Linear(y, a, b)
		if err != nil {
			t.Skip(err)
		}
		if r.R2 < 0 || r.R2 > 1 || r.AdjR2 > r.R2+1e-12 {
			t.Fatalf("R² %v, adjusted %v", r.R2, r.AdjR2)
		}
		pred := make([]float64, n)
		for i := range y {
			pred[i] = y[i] - r.Residuals[i]
		}
		if d := stats.R2(y, pred) - r.R2; math.Abs(d) > 1e-6 && r.R2 > 0 {
			t.Fatalf("R² of the fit's predictions differs by %v", d)
		}
		if one, err := stats.Linear(y, a); err == nil && one.R2 > r.R2+1e-6 {
			t.Fatalf("a predictor more takes from R²: %v, %v", one.R2, r.R2)
		}
		shares, err := stats.Importance(y, a, b)
		if err != nil {
			t.Skip(err) // one of them alone is constant
		}
		if math.Abs(shares[0]+shares[1]-r.R2) > 1e-9 {
			t.Fatalf("shares %v of %v", shares, r.R2)
		}
		other, err := stats.Importance(y, b, a)
		if err != nil || math.Abs(other[0]-shares[1]) > 1e-9 {
			t.Fatalf("the order of predictors matters: %v, %v", shares, other)
		}
	})
}

func TestShapiroWilkProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(-1000, 1000).Draw(t, "x")) / 8 }), 3, 60).Draw(t, "x")
		w, p, err := stats.ShapiroWilk(x)
		if err != nil {
			t.Skip(err)
		}
		if !(w > 0 && w <= 1 && p >= 0 && p <= 1) {
			t.Fatalf("W %v, p %v", w, p)
		}
		moved := make([]float64, len(x))
		for i, v := range x {
			moved[len(x)-1-i] = 3 - v/4 // another order, scale, place and side
		}
		if v, _, err := stats.ShapiroWilk(moved); err != nil || math.Abs(v-w) > 1e-9 {
			t.Fatalf("%v after a linear map, %v before (%v)", v, w, err)
		}
	})
}

func TestWassersteinProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), 1, 12)
		u, v, w := values.Draw(t, "u"), values.Draw(t, "v"), values.Draw(t, "w")
		of := func(a, b []float64) float64 {
			d, err := stats.Wasserstein(a, b, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		d := of(u, v)
		if d < 0 || d > 200 || of(u, u) > 1e-12 || math.Abs(d-of(v, u)) > 1e-9 || d > of(u, w)+of(w, v)+1e-9 {
			t.Fatalf("no metric: %v", d)
		}
		if d < math.Abs(stats.Mean(u)-stats.Mean(v))-1e-9 {
			t.Fatalf("less than the difference of means: %v", d)
		}
		doubled, err := stats.Wasserstein(slices.Concat(u, u), v, nil, nil)
		if err != nil || math.Abs(doubled-d) > 1e-9 {
			t.Fatalf("every value twice: %v, want %v", doubled, d)
		}
	})
}
