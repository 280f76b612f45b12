package stats

import (
	"fmt"
	"math"
	"math/bits"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Regression is a least-squares fit of a target on p predictors and a constant.
type Regression struct {
	Coef []float64 `json:"coef"` // of the constant first
	// SE, T and P are the coefficients' standard errors, their t and its two-sided
	// p, with DF = n−p−1 degrees of freedom. With DF 0 there are none.
	SE        []float64 `json:"se,omitempty"`
	T         []float64 `json:"t,omitempty"`
	P         []float64 `json:"p,omitempty"`
	DF        int       `json:"df"`
	R2        float64   `json:"r2"`     // 0 for a constant target
	AdjR2     float64   `json:"adj_r2"` // 1 − (1−R²)(n−1)/DF; R2 with DF 0
	Residuals []float64 `json:"-"`
}

// Linear fits y on the columns x by a QR decomposition. Columns of another
// length, fewer rows than coefficients, values that are no finite numbers and
// predictors that follow from the others are errors.
func Linear(y []float64, x ...[]float64) (*Regression, error) {
	n, p := len(y), len(x)
	if n < p+1 {
		return nil, fmt.Errorf("stats: %d rows are too few for %d coefficients", n, p+1)
	}
	design := mat.NewDense(n, p+1, nil)
	for i := range n {
		design.Set(i, 0, 1)
	}
	for j, column := range append([][]float64{y}, x...) {
		if len(column) != n {
			return nil, fmt.Errorf("stats: predictor %d has %d rows, the target %d", j, len(column), n)
		}
		for i, v := range column {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("stats: row %d of the regression holds %v", i+1, v)
			}
			if j > 0 {
				design.Set(i, j, v)
			}
		}
	}
	var qr mat.QR
	qr.Factorize(design)
	var upper mat.Dense
	qr.RTo(&upper)
	for j := range p + 1 {
		if norm := mat.Norm(design.ColView(j), 2); math.Abs(upper.At(j, j)) <= 1e-11*norm {
			return nil, fmt.Errorf("stats: predictor %d is constant, or follows from those before it", j)
		}
	}
	var coef mat.VecDense
	if err := qr.SolveVecTo(&coef, false, mat.NewVecDense(n, append([]float64(nil), y...))); err != nil {
		if _, badly := err.(mat.Condition); !badly { // columns of other scales: the check above decides
			return nil, fmt.Errorf("stats: %w", err)
		}
	}
	r := &Regression{Coef: coef.RawVector().Data, DF: n - p - 1, Residuals: make([]float64, n)}
	row := make([]float64, p)
	for i := range n {
		for j := range x {
			row[j] = x[j][i]
		}
		r.Residuals[i] = y[i] - r.Predict(row...)
	}
	left, all := sumSquares(r.Residuals), sumSquares(centred(y))
	if all > 0 {
		r.R2 = max(0, 1-left/all)
	}
	r.AdjR2 = r.R2
	if r.DF == 0 {
		return r, nil
	}
	r.AdjR2 = 1 - (1-r.R2)*float64(n-1)/float64(r.DF)
	t := distuv.StudentsT{Sigma: 1, Nu: float64(r.DF)}
	for j := range p + 1 { // the variance of coefficient j is σ² times the squared row j of R⁻¹
		unit, solved := mat.NewVecDense(p+1, nil), mat.NewVecDense(p+1, nil)
		unit.SetVec(j, 1)
		square := upper.Slice(0, p+1, 0, p+1).(*mat.Dense)
		if err := solved.SolveVec(square.T(), unit); err != nil {
			if _, badly := err.(mat.Condition); !badly {
				return nil, fmt.Errorf("stats: %w", err)
			}
		}
		se := math.Sqrt(left/float64(r.DF)) * mat.Norm(solved, 2)
		r.SE = append(r.SE, se)
		ratio := 0.0
		if r.Coef[j] != 0 {
			ratio = r.Coef[j] / se
		}
		r.T, r.P = append(r.T, ratio), append(r.P, min(1, 2*t.CDF(-math.Abs(ratio))))
	}
	return r, nil
}

// Predict is the fit for one row of predictors.
func (r *Regression) Predict(x ...float64) float64 {
	out := r.Coef[0]
	for j, v := range x {
		out += r.Coef[j+1] * v
	}
	return out
}

// Importance shares the R² of a regression out among its predictors, as Lindeman,
// Merenda and Gold do (it is Shapley's value): a predictor's share is what it
// adds to R², averaged over all orders in which predictors can be added. The
// shares add up to R². There may be 12 predictors at most.
func Importance(y []float64, x ...[]float64) ([]float64, error) {
	p := len(x)
	if p > 12 {
		return nil, fmt.Errorf("stats: %d predictors have too many orders; 12 is the most", p)
	}
	r2 := make([]float64, 1<<p) // by set of predictors
	for set := range r2 {
		var in [][]float64
		for j := range x {
			if set>>j&1 == 1 {
				in = append(in, x[j])
			}
		}
		fit, err := Linear(y, in...)
		if err != nil {
			return nil, err
		}
		r2[set] = fit.R2
	}
	factorial := func(n int) float64 { return math.Gamma(float64(n + 1)) }
	out := make([]float64, p)
	for set := range r2 {
		before := bits.OnesCount(uint(set))
		for j := range x {
			if set>>j&1 == 0 {
				orders := factorial(before) * factorial(p-before-1) / factorial(p)
				out[j] += orders * (r2[set|1<<j] - r2[set])
			}
		}
	}
	return out, nil
}

// R2 is the share of the target's variance about its mean that predictions
// explain, 1 − Σ(y−ŷ)²/Σ(y−ȳ)², and ExplainedVariance the same without the
// error that all predictions share, 1 − Var(y−ŷ)/Var(y). Both are 1 at most, and
// 0 for a constant target. y and pred must be of equal length, and not empty.
func R2(y, pred []float64) float64 { return explained(sumSquares(differences(y, pred)), y) }

// ExplainedVariance is described with R2.
func ExplainedVariance(y, pred []float64) float64 {
	return explained(sumSquares(centred(differences(y, pred))), y)
}

func explained(left float64, y []float64) float64 {
	all := sumSquares(centred(y))
	if all == 0 {
		return 0
	}
	return 1 - left/all
}

// MeanAbsoluteError is the mean of |y−ŷ|.
func MeanAbsoluteError(y, pred []float64) float64 {
	sum := 0.0
	for _, d := range differences(y, pred) {
		sum += math.Abs(d)
	}
	return sum / float64(len(y))
}

func differences(y, pred []float64) []float64 {
	out := make([]float64, len(y))
	for i := range y {
		out[i] = y[i] - pred[i]
	}
	return out
}

// Fold is one part of a cross-validation: the fit on all other rows, and how
// well it predicts the rows from From to before To.
type Fold struct {
	From, To          int
	Coef              []float64
	ExplainedVariance float64
	MAE               float64
}

// CrossValidate fits a regression k times, each time without one of k blocks of
// consecutive rows, and scores it on that block. Rows are not shuffled; the first
// n mod k blocks have one row more. Means over the folds are the usual summary.
func CrossValidate(k int, y []float64, x ...[]float64) ([]Fold, error) {
	n := len(y)
	if k < 2 || k > n {
		return nil, fmt.Errorf("stats: %d rows cannot be cut into %d folds", n, k)
	}
	var out []Fold
	from := 0
	for i := range k {
		to := from + n/k
		if i < n%k {
			to++
		}
		without := func(c []float64) []float64 { return append(append([]float64(nil), c[:from]...), c[to:]...) }
		var train [][]float64
		for _, c := range x {
			if len(c) != n {
				return nil, fmt.Errorf("stats: a predictor has %d rows, the target %d", len(c), n)
			}
			train = append(train, without(c))
		}
		fit, err := Linear(without(y), train...)
		if err != nil {
			return nil, fmt.Errorf("fold %d: %w", i+1, err)
		}
		pred, row := make([]float64, to-from), make([]float64, len(x))
		for at := range pred {
			for j := range x {
				row[j] = x[j][from+at]
			}
			pred[at] = fit.Predict(row...)
		}
		out = append(out, Fold{from, to, fit.Coef, ExplainedVariance(y[from:to], pred), MeanAbsoluteError(y[from:to], pred)})
		from = to
	}
	return out, nil
}
