package scala

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Every corruption that the original makes, string by string, and no other.
func TestScandEvalGoldens(t *testing.T) {
	for _, tb := range treebanks {
		if tb.golden == "" {
			continue
		}
		n := 0
		r := rand.New(rand.NewPCG(1, 1))
		for _, g := range goldens(t, tb.golden) {
			s := Sentence{ID: g.SentID, Words: g.Tokens, Tags: g.Pos}
			if got := s.ScandEvalSwappable(); !slices.Equal(got, g.FlipLeft) {
				t.Fatalf("%s: swappable %v, want %v", g.SentID, got, g.FlipLeft)
			}
			for k, i := range g.FlipLeft {
				if got := s.ScandEvalSwap(i); got != g.Flips[k] {
					t.Errorf("%s: %q, want %q", g.SentID, got, g.Flips[k])
				}
				n++
			}
			for k, i := range g.DeleteAt {
				if got := s.ScandEvalDelete(i); got != g.Deletions[k] {
					t.Errorf("%s: %q, want %q", g.SentID, got, g.Deletions[k])
				}
				n++
			}
			for range 3 {
				c, ok := s.ScandEvalDraw(r.IntN)
				if !ok || !slices.Contains(g.Flips, c.Text) && !slices.Contains(g.Deletions, c.Text) {
					t.Errorf("%s: drawn %+v", g.SentID, c)
				}
			}
		}
		t.Logf("%s: %d corruptions", tb.golden, n)
	}
}

// Without a candidate there is no endless loop.
func TestScandEvalNothing(t *testing.T) {
	for _, tags := range [][]string{{"ADJ", "ADJ"}, {"PUNCT"}, {"NOUN", "NOUN"}} {
		s := Sentence{Words: make([]string, len(tags)), Tags: tags}
		if c, ok := s.ScandEvalDraw(rand.New(rand.NewPCG(1, 1)).IntN); ok {
			t.Errorf("%v: drawn %+v", tags, c)
		}
	}
}

// Values are Python's: "Levi's".title() and so on.
func TestPythonTitle(t *testing.T) {
	for in, want := range map[string]string{
		"levi's": "Levi'S", "f.eks.": "F.Eks.", "15-årige": "15-Årige", "EU-rettsaktene": "Eu-Rettsaktene", "s k": "S K", "": "", "ÅR": "År",
	} {
		if got := pythonTitle(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
