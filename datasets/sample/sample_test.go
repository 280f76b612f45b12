package sample

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/datasets/scala"
)

// golden digests: a change of any row of any data set shows here. When it is
// wanted, raise Version and put in what the test says.
var golden = map[string]string{
	"sample-ner":           "0d8408b118de11f8b98bb1026bf8bba2906b126940de39336b3e4ae382e2fa9c",
	"sample-sentiment":     "f131b88069d69577088c378262f55f10c1d08c072144264c978a336aed509f50",
	"sample-acceptability": "0567a5abb2cf4531d0cb90b170ca34072b2515ec711fb0bd8fe7da7329a4826e",
	"sample-qa":            "42e649d77bc609ecc3a0ca447205cce420c104579c6993dcf106bb7ec7a8bd33",
}

func generate(t *testing.T, name string) (datasets.Meta, map[datasets.Split][]datasets.Row) {
	t.Helper()
	meta, rows, err := Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	return meta, rows
}

func TestDigests(t *testing.T) {
	for _, name := range Names() {
		meta, rows := generate(t, name)
		ds, err := datasets.Write(t.TempDir(), meta, rows)
		if err != nil {
			t.Fatal(err)
		}
		if ds.Digest != golden[name] {
			t.Errorf("%s has digest\n\t%q: %q,\nwant %q", name, name, ds.Digest, golden[name])
		}
		if err := ds.Verify(); err != nil {
			t.Error(err)
		}
		for split, want := range map[datasets.Split]int{datasets.Train: TrainRows, datasets.Val: ValRows, datasets.Test: TestRows} {
			if got := ds.Counts[split].Rows; got != want {
				t.Errorf("%s: %d rows in %s, want %d", name, got, split, want)
			}
		}
		if dir := os.Getenv("BENCH_SAMPLE_DIR"); dir != "" { // to look at the rows, or train on them
			if _, err := datasets.Write(filepath.Join(dir, name), meta, rows); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestUnknownName(t *testing.T) {
	if _, _, err := Generate("sample-parsing"); err == nil || !strings.Contains(err.Error(), "sample-qa") {
		t.Errorf("error is %v, want one that lists the data sets", err)
	}
}

// TestNothingTwice compares whole rows, and the sentences behind incorrect ones.
func TestNothingTwice(t *testing.T) {
	for _, name := range Names() {
		_, rows := generate(t, name)
		seen := map[[32]byte]string{}
		for _, split := range datasets.Splits {
			for _, r := range rows[split] {
				keys := []string{r.Text}
				if r.Context != "" {
					keys = []string{r.Context}
				}
				for _, k := range keys {
					h := sha256.Sum256([]byte(k))
					if other, ok := seen[h]; ok {
						t.Errorf("%s: %s and %s are the same: %s", name, other, r.ID, k)
					}
					seen[h] = r.ID
				}
			}
		}
	}
}

func TestNER(t *testing.T) {
	_, rows := generate(t, "sample-ner")
	names := map[datasets.Split]map[string]bool{}
	kinds := map[string]map[string]bool{} // name → labels in training
	for _, split := range datasets.Splits {
		names[split] = map[string]bool{}
		for _, r := range rows[split] {
			if len(r.Tokens) != len(r.Labels) {
				t.Fatalf("%s: %d tokens, %d labels", r.ID, len(r.Tokens), len(r.Labels))
			}
			previous := "O"
			for i, l := range r.Labels {
				if strings.HasPrefix(l, "I-") && (previous == "O" || previous[2:] != l[2:]) {
					t.Errorf("%s: %s after %s", r.ID, l, previous)
				}
				previous = l
				if l != "O" {
					names[split][r.Tokens[i]] = true
					if split == datasets.Train {
						if kinds[r.Tokens[i]] == nil {
							kinds[r.Tokens[i]] = map[string]bool{}
						}
						kinds[r.Tokens[i]][l] = true
					}
				}
			}
		}
	}
	unseen := 0
	for n := range names[datasets.Test] {
		if !names[datasets.Train][n] {
			unseen++
		}
	}
	if unseen < 20 {
		t.Errorf("only %d words of names in the test split are unseen in training", unseen)
	}
	for _, n := range ambiguous.known {
		for _, l := range []string{"B-PER", "B-LOC", "B-ORG", "B-MISC"} {
			if !kinds[n][l] {
				t.Errorf("%s is never %s in training: it is not ambiguous", n, l)
			}
		}
	}
}

func TestSentimentIsBalanced(t *testing.T) {
	_, rows := generate(t, "sample-sentiment")
	for _, split := range datasets.Splits {
		n := map[string]int{}
		for _, r := range rows[split] {
			n[r.Label]++
		}
		all := len(rows[split])
		if n["positive"] != all*3/8 || n["negative"] != all*3/8 || n["neutral"] != all/4 {
			t.Errorf("%s has %v", split, n)
		}
	}
}

// TestAcceptability undoes nothing, but checks what can be seen: the first
// letter gives nothing away, and each record of a corruption fits the text.
func TestAcceptability(t *testing.T) {
	_, rows := generate(t, "sample-acceptability")
	capital := regexp.MustCompile(`^\p{Lu}`)
	types := map[string]int{}
	for _, split := range datasets.Splits {
		for _, r := range rows[split] {
			if !capital.MatchString(r.Text) || !strings.HasSuffix(r.Text, ".") {
				t.Errorf("%s: %q", r.ID, r.Text)
			}
			if (r.Label == "incorrect") != (r.Corruption != nil) {
				t.Errorf("%s: label %s, corruption %v", r.ID, r.Label, r.Corruption)
			}
			if r.Corruption != nil {
				types[r.Corruption.Type]++
			}
		}
	}
	if d, f := types[scala.Delete], types[scala.Flip]; len(types) != 2 || d < f/2 || f < d/2 {
		t.Errorf("types of corruption: %v", types)
	}
}

// The grammar must know what it can say itself: verb-second order after a
// fronted adverb, and a question.
func TestGrammatical(t *testing.T) {
	for tagged, want := range map[string]bool{
		"PRON AUX-perfect VERB-participle DET ADJ NOUN ADP NOUN PUNCT": true,
		"AUX-perfect PRON VERB-participle DET ADJ NOUN ADP NOUN PUNCT": true,
		"ADV AUX-perfect PRON VERB-participle DET ADJ NOUN PUNCT":      true,
		"ADV PRON AUX-perfect VERB-participle DET ADJ NOUN PUNCT":      false,
	} {
		if got := grammatical()[tagged]; got != want {
			t.Errorf("grammatical(%s) = %v, want %v", tagged, got, want)
		}
	}
}

func TestQA(t *testing.T) {
	_, rows := generate(t, "sample-qa")
	long := 0
	for _, split := range datasets.Splits {
		for _, r := range rows[split] {
			if len(r.Answers.Text) != 1 || strings.Count(r.Context, r.Answers.Text[0]) != 1 {
				t.Errorf("%s: answer %q must be in the context once: %q", r.ID, r.Answers.Text, r.Context)
			}
			text, start := []rune(r.Answers.Text[0]), r.Answers.Start[0]
			if got := string([]rune(r.Context)[start : start+len(text)]); got != r.Answers.Text[0] {
				t.Errorf("%s: answer is %q, at its place stands %q", r.ID, r.Answers.Text[0], got)
			}
			if len(strings.Fields(r.Context)) > 128 {
				long++
			}
		}
	}
	if long < 60 {
		t.Errorf("only %d contexts are longer than 128 words", long)
	}
}

// The stream of choices is part of the data sets: PCG's output is defined, and
// nothing else is used. The values were made by PCG-DXSM written down anew in
// Python (state (4242 << 64) | 1, output × 1000 >> 64).
func TestDraw(t *testing.T) {
	d := &draw{src: newSource(1)}
	var got []int
	for range 8 {
		got = append(got, d.n(1000))
	}
	if want := []int{843, 154, 240, 422, 818, 491, 144, 763}; !slices.Equal(got, want) {
		t.Errorf("draws are %v, want %v", got, want)
	}
	x := []int{0, 1, 2, 3, 4, 5}
	shuffle(d, x)
	slices.Sort(x)
	if !slices.Equal(x, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("shuffle lost something: %v", x)
	}
}

func TestWriteIsRepeatable(t *testing.T) {
	for _, name := range Names() {
		var texts [2]bytes.Buffer
		for i := range texts {
			meta, rows := generate(t, name)
			for _, s := range datasets.Splits {
				if err := datasets.WriteRows(&texts[i], meta.Kind, rows[s]); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprintf(&texts[i], "%+v", meta)
		}
		if !bytes.Equal(texts[0].Bytes(), texts[1].Bytes()) {
			t.Errorf("%s: two calls differ", name)
		}
	}
}
