package main

import (
	"bytes"
	"testing"

	"bench/datasets"
)

func TestMarked(t *testing.T) {
	for _, test := range [][4]string{
		{"Hun bor her.", "Hun bor.", "Hun bor[ her].", "Hun bor[]."},
		{"Hun bor i Vik.", "Hun i bor Vik.", "Hun [bor i] Vik.", "Hun [i bor] Vik."},
		{"Nu sover hun.", "Sover nu hun.", "[Nu sover] hun.", "[Sover nu] hun."},
		{"Det er en stor sten", "Det er stor sten", "Det er [en ]stor sten", "Det er []stor sten"},
		{"En sang", "Sang", "[En sang]", "[Sang]"},
		{"a", "a", "a[]", "a[]"},
		{"han hanen", "hanen", "[han hanen]", "[hanen]"},
	} {
		a, b := marked(test[0], test[1])
		if a != test[2] || b != test[3] {
			t.Errorf("%q, %q: %q, %q, want %q, %q", test[0], test[1], a, b, test[2], test[3])
		}
	}
}

func TestShowPairs(t *testing.T) {
	flip := &datasets.Corruption{Type: "flip_neighbours", Indices: []int{1, 2}}
	var out bytes.Buffer
	a := &app{stdout: &out}
	rows := []datasets.Row{
		{ID: "s1/1", Text: "Hun i bor Vik.", Label: "incorrect", Corruption: flip},
		{ID: "s1/2", Text: "Hun bor i Vik.", Label: "correct"},
		{ID: "s2/1", Text: "Alene.", Label: "correct"},
	}
	if err := a.showRows(datasets.Acceptability, rows, 20); err != nil {
		t.Fatal(err)
	}
	if want := "s1  flip_neighbours 1,2\n  correct    Hun [bor i] Vik.\n  incorrect  Hun [i bor] Vik.\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	// Rows of a user's data set may have no partners.
	out.Reset()
	if err := a.showRows(datasets.Acceptability, rows[2:], 20); err != nil || out.String() != `{"id":"s2/1","text":"Alene.","label":"correct","corruption_type":null}`+"\n" {
		t.Errorf("%q, error %v", out.String(), err)
	}
}
