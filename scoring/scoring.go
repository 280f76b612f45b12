// Package scoring holds what all parts of scoring share: what a metric is and
// what a score is.
package scoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Metric describes one number that a task reports.
type Metric struct {
	Name   string  // as in records: micro_f1, mcc, em, …
	Lo, Hi float64 // range of the raw value; Hi is +Inf for speed
	Scale  float64 // raw × Scale is what people read: 100 for shares, 1 for speed
	// ZeroIsChance: who has learnt nothing gets about 0, as with MCC or entity
	// F1 but not with macro-F1. Only of such a metric can collapsed trainings be
	// told by their scores (stats.Collapsed).
	ZeroIsChance bool
}

// Value is a score: a finite number or the reason why there is none. The zero
// Value is the number 0. In JSON it is a number or {"undefined": "why"}.
type Value struct {
	X         float64
	Undefined string
}

// Scores maps metric names to values.
type Scores map[string]Value

// Num makes a Value of x. A NaN or an infinity becomes Undefined.
func Num(x float64) Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Value{Undefined: "not a finite number"}
	}
	return Value{X: x}
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.Undefined != "" {
		return json.Marshal(map[string]string{"undefined": v.Undefined})
	}
	if math.IsNaN(v.X) || math.IsInf(v.X, 0) {
		return nil, fmt.Errorf("scoring: %v is not a score; use Num", v.X)
	}
	return json.Marshal(v.X)
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value) UnmarshalJSON(b []byte) error {
	if len(bytes.Trim(b, "0123456789+-.eE")) == 0 { // a number; null must not become 0
		x, err := strconv.ParseFloat(string(b), 64)
		if err != nil {
			return fmt.Errorf("scoring: %s is not a number in the range of float64", b)
		}
		*v = Value{X: x}
		return nil
	}
	var u struct {
		Undefined string `json:"undefined"`
	}
	if err := json.Unmarshal(b, &u); err != nil || u.Undefined == "" {
		return fmt.Errorf("scoring: %s is neither a number nor {\"undefined\": why}", b)
	}
	*v = Value{Undefined: u.Undefined}
	return nil
}
