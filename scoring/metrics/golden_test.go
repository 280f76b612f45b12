package metrics_test

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/scoring/metrics"
)

// golden is ../shared/golden/metrics.json.gz beside the repository. Its values
// come from scikit-learn 1.2.1, seqeval 1.2.2 (default mode) and squad_v2 of
// huggingface/evaluate, as its "source" says.
type golden struct {
	Classification []struct {
		K          int
		Gold, Pred []int
		MCC        float64
		MacroF1    float64 `json:"macro_f1"`
	}
	NER []goldenNER
	QA  []struct {
		Gold   []string
		Pred   string
		EM, F1 float64
	}
}

type goldenNER struct {
	Gold, Pred        [][]string
	MicroF1           float64 `json:"micro_f1"`
	Precision, Recall float64
	NoMisc            *float64 `json:"micro_f1_no_misc"`
}

func loadGolden(t testing.TB) golden {
	path := filepath.Join("..", "..", "..", "shared", "golden", "metrics.json.gz")
	f, err := os.Open(path)
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "shared") {
			t.Fatal(err)
		}
		t.Skipf("no shared golden outputs: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.NewDecoder(z).Decode(&g); err != nil {
		t.Fatal(err)
	}
	if len(g.Classification) == 0 || len(g.NER) == 0 || len(g.QA) == 0 {
		t.Fatal("golden outputs are empty")
	}
	return g
}

const tolerance = 1e-12

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s = %.17g, want %.17g", what, got, want)
	}
}

func TestGoldenClassification(t *testing.T) {
	for _, c := range loadGolden(t).Classification {
		m := confuse(c.K, c.Gold, c.Pred)
		near(t, "MCC", m.MCC().X, c.MCC)
		near(t, "macro F1", m.MacroF1().X, c.MacroF1)
	}
}

func confuse(k int, gold, pred []int) *metrics.Confusion {
	m := metrics.NewConfusion(k)
	for i := range gold {
		m.Add(gold[i], pred[i])
	}
	return m
}

var labels = []string{"O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER", "B-MISC", "I-MISC"}

const misc = 4

func tags(t testing.TB, labelled []string) []metrics.Tag {
	out := make([]metrics.Tag, len(labelled))
	for i, l := range labelled {
		k := slices.Index(labels, l)
		if k < 0 {
			t.Fatalf("unknown label %q", l)
		}
		out[i] = metrics.Tag(k)
	}
	return out
}

func TestGoldenEntities(t *testing.T) {
	noMisc := 0
	for _, c := range loadGolden(t).NER {
		var all, without metrics.Entities
		for i := range c.Gold {
			g, p := tags(t, c.Gold[i]), tags(t, c.Pred[i])
			all.Add(metrics.CountEntities(g, p, 0))
			without.Add(metrics.CountEntities(g, p, misc))
		}
		near(t, "micro F1", all.F1().X, c.MicroF1)
		near(t, "precision", all.Precision(), c.Precision)
		near(t, "recall", all.Recall(), c.Recall)
		if c.NoMisc != nil {
			noMisc++
			near(t, "micro F1 without MISC", without.F1().X, *c.NoMisc)
		}
	}
	if noMisc == 0 {
		t.Error("no golden value without MISC")
	}
}

func TestGoldenAnswers(t *testing.T) {
	for _, c := range loadGolden(t).QA {
		em, f1 := metrics.Answers(c.Gold, c.Pred)
		near(t, "EM", em, c.EM)
		near(t, "F1", f1, c.F1)
		if t.Failed() {
			t.Fatalf("gold %q, prediction %q", c.Gold, c.Pred)
		}
	}
}
