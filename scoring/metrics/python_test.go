package metrics

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// python asks the Python on this machine, whose notions of text SQuAD's
// evaluation rests on.
func python(t *testing.T, program string, in []byte) []byte {
	path, err := exec.LookPath("python3")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "python") {
			t.Fatal(err)
		}
		t.Skipf("no Python to compare with: %v", err)
	}
	c := exec.Command(path, "-c", program)
	c.Stdin = bytes.NewReader(in)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCharactersAsPython compares every character that Python's version of
// Unicode assigns.
func TestCharactersAsPython(t *testing.T) {
	out := python(t, `
import re, unicodedata, json
word, all = re.compile(r"\w"), [chr(c) for c in range(0x110000)]
def where(f): # [first, behind the last] of each run of characters with f
    out, on = [], False
    for i, c in enumerate(all):
        if bool(f(c)) != on:
            out.append(i)
            on = not on
    return out + [len(all)] * on
print(json.dumps({"assigned": where(lambda c: unicodedata.category(c) not in ("Cn", "Cs")), "space": where(str.isspace), "word": where(word.match),
                  "lower": {c: c.lower() for c in all if c.lower() != c}}))`, nil)
	var want struct {
		Assigned, Space, Word []rune
		Lower                 map[string]string
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	in := func(runs []rune, r rune) bool { // an odd number of borders at or before r
		i, found := slices.BinarySearch(runs, r)
		return (i%2 == 1) != found
	}
	n := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !in(want.Assigned, r) {
			continue
		}
		n++
		lower, ok := want.Lower[string(r)]
		if !ok {
			lower = string(r)
		}
		if got := string(pythonLower(string(r))); got != lower {
			t.Errorf("lower case of %U is %q, Python has %q", r, got, lower)
		}
		if got := pythonSpace(r); got != in(want.Space, r) {
			t.Errorf("white space: %U is %v, in Python it is not", r, got)
		}
		if got := pythonWord(r); got != in(want.Word, r) {
			t.Errorf("word: %U is %v, in Python it is not", r, got)
		}
	}
	if n < 200_000 {
		t.Errorf("%d characters", n)
	}
}

// TestNormalizeAsPython compares whole strings with the four steps of SQuAD's
// normalisation, written down again in Python.
func TestNormalizeAsPython(t *testing.T) {
	pieces := []string{"a", "A", "an", "the", "THE", "then", "a1", "a_b", "å", "a\u030a", "“a”", "a-b", "the.", " ", "  ", "\t", "\u00a0", "\u2003", "\x1c", "\u200b",
		"Σ", "ΟΔΟΣ", "ΟΔΟΣ.", "Σ’Α", "İstanbul", "ß", "ẞ", "²", "Ⅷ", "½", "København,", "11.000", "kr.", "_", "a'", "l'an", "ª", "中", "\U0001d400", "%a", "\u0345Σ", "Ǆ"}
	var texts []string
	seed := uint32(1)
	next := func(n int) int {
		seed = seed*1664525 + 1013904223
		return int(seed>>8) % n
	}
	for range 20_000 {
		var b strings.Builder
		for range next(6) {
			b.WriteString(pieces[next(len(pieces))])
			if next(2) == 0 {
				b.WriteByte(' ')
			}
		}
		texts = append(texts, b.String())
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	out := python(t, `
import json, re, string, sys
def steps(s):
    s = "".join(c for c in s.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())
sys.stdin.reconfigure(encoding="utf-8")
print(json.dumps([steps(s) for s in json.load(sys.stdin)]))`, in)
	var want []string
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, s := range texts {
		if got := Normalize(s); got != want[i] {
			t.Errorf("Normalize(%q) = %q, Python has %q", s, got, want[i])
		}
	}
}
