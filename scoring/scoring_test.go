package scoring_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"bench/scoring"
)

func TestValueJSON(t *testing.T) {
	for v, want := range map[scoring.Value]string{
		scoring.Num(0.25):               "0.25",
		{}:                              "0",
		scoring.Num(math.NaN()):         `{"undefined":"not a finite number"}`,
		scoring.Num(math.Inf(-1)):       `{"undefined":"not a finite number"}`,
		{Undefined: "no rows to score"}: `{"undefined":"no rows to score"}`,
	} {
		b, err := json.Marshal(v)
		if err != nil || string(b) != want {
			t.Errorf("%#v is %s, %v; want %s", v, b, err, want)
		}
	}
	if b, err := json.Marshal(scoring.Value{X: math.NaN()}); err == nil {
		t.Errorf("NaN was written as %s", b)
	}
	for _, bad := range []string{`null`, `"0.5"`, `{}`, `{"undefined":""}`, `{"undefined":1}`, `[]`, `NaN`, `true`} {
		v := scoring.Num(7)
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("%s was read as %#v", bad, v)
		}
	}
}

func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := scoring.Num(rapid.Float64().Draw(t, "x"))
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var back scoring.Value
		if err := json.Unmarshal(b, &back); err != nil || back != v {
			t.Fatalf("%#v came back as %#v, %v", v, back, err)
		}
	})
}
