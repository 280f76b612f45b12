package scala

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"bench/datasets/conllu"
	"bench/datasets/datasetstest"
)

// golden is a sentence with all corruptions that the program of ScandEval
// v9.3.2 can make of it.
type golden struct {
	SentID      string `json:"sent_id"`
	UDText      string `json:"ud_text"`
	Tokens, Pos []string
	Text        string
	DeleteAt    []int `json:"delete_at"`
	Deletions   []string
	FlipLeft    []int `json:"flip_left"`
	Flips       []string
	BreaksRules []int `json:"flip_breaks_paper_rules"`
	EqualsOwn   []int `json:"flip_equals_original"`
}

func goldens(t *testing.T, name string) []golden {
	t.Helper()
	return datasetstest.Golden[golden](t, "golden/scala/"+name+".jsonl.gz")
}

// treebanks are those of the goldens, with the numbers of sentences left after
// each filter in the original program (its own counts).
var treebanks = []struct {
	golden, language string
	files            []string
	counts           []int
}{
	{"da_ddt", "da", []string{"UD_Danish-DDT/*/da_ddt-ud-train", "UD_Danish-DDT/*/da_ddt-ud-dev", "UD_Danish-DDT/*/da_ddt-ud-test"},
		[]int{5512, 5501, 4953, 4597, 4158, 3823, 3823, 3823}},
	{"fo_farpahc", "fo", []string{"UD_Faroese-FarPaHC/*/fo_farpahc-ud-train", "UD_Faroese-FarPaHC/*/fo_farpahc-ud-dev", "UD_Faroese-FarPaHC/*/fo_farpahc-ud-test"},
		[]int{1621, 1619, 1596, 1535, 1226, 1214, 1214, 1214}},
	{"is_modern", "is", []string{"UD_Icelandic-Modern/*/is_modern-ud-train", "UD_Icelandic-Modern/*/is_modern-ud-dev", "UD_Icelandic-Modern/*/is_modern-ud-test"},
		[]int{3464, 3396, 3273, 3133, 3133, 3088, 3088, 3088}},
	{"no_bokmaal-devtest", "nb", []string{"UD_Norwegian-Bokmaal/*/no_bokmaal-ud-dev", "UD_Norwegian-Bokmaal/*/no_bokmaal-ud-test"},
		[]int{4348, 4318, 3798, 3465, 3460, 3102, 3102, 3102}},
	{"", "nn", []string{"UD_Norwegian-Nynorsk/*/no_nynorsk-ud-dev", "UD_Norwegian-Nynorsk/*/no_nynorsk-ud-test"},
		[]int{3401, 3355, 2950, 2770, 2770, 2444, 2444, 2444}},
	{"", "sv", []string{"UD_Swedish-Talbanken/*/sv_talbanken-ud-train", "UD_Swedish-Talbanken/*/sv_talbanken-ud-dev", "UD_Swedish-Talbanken/*/sv_talbanken-ud-test"},
		[]int{6026, 5998, 5428, 4975, 4975, 4873, 4872, 4872}},
}

// read returns the sentences of treebank files. With all rows, range rows and
// empty nodes count as words, which is how the original reads them.
func read(t *testing.T, language string, files []string, allRows bool) []Sentence {
	t.Helper()
	var out []Sentence
	for _, file := range files {
		paths, _ := filepath.Glob(filepath.Join(datasetstest.Shared(t, "mirror/files/raw.githubusercontent.com/UniversalDependencies"), file+".conllu"))
		if len(paths) != 1 {
			t.Fatalf("%s: %d files", file, len(paths))
		}
		f, err := os.Open(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		sentences, err := conllu.ReadAll(f, file)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range sentences {
			s := Sentence{ID: c.ID(), Text: c.Text(), Language: language}
			rows := c.Words()
			if allRows {
				rows = c.Rows
			}
			for _, r := range rows {
				s.Words, s.Tags = append(s.Words, r.Form), append(s.Tags, r.UPOS)
			}
			out = append(out, s)
		}
	}
	return out
}

func TestFilterCounts(t *testing.T) {
	for _, tb := range treebanks {
		for _, allRows := range []bool{true, false} {
			all := read(t, tb.language, tb.files, allRows)
			got := []int{len(all)}
			for _, f := range Filters() {
				all = slices.DeleteFunc(all, func(s Sentence) bool { return !f.Keep(s) })
				got = append(got, len(all))
			}
			if !slices.Equal(got, tb.counts) {
				t.Errorf("%s, all rows %v: %v sentences left, want %v", tb.language, allRows, got, tb.counts)
			}
		}
	}
}

// Positions equal those of the goldens: all deletions, and all swaps but those
// that break the paper's rules. Texts are equal too, but where the first word
// takes part: there the original's casing is at fault, and only letter case may
// differ.
func TestGoldenCandidates(t *testing.T) {
	for _, tb := range treebanks {
		if tb.golden == "" {
			continue
		}
		seen, mended := 0, 0
		for _, g := range goldens(t, tb.golden) {
			s := Sentence{ID: g.SentID, Text: g.UDText, Words: g.Tokens, Tags: g.Pos, Language: tb.language}
			if got := Join(s.Words); got != g.Text {
				t.Errorf("%s: joined %q, want %q", g.SentID, got, g.Text)
			}
			if got := s.Deletable(); !slices.Equal(got, g.DeleteAt) {
				t.Errorf("%s: deletable %v, want %v", g.SentID, got, g.DeleteAt)
			}
			var swaps []int
			text := map[int]string{}
			for k, i := range g.FlipLeft {
				if !slices.Contains(g.BreaksRules, i) {
					swaps, text[i] = append(swaps, i), g.Flips[k]
				}
			}
			if got := s.Swappable(); !slices.Equal(got, swaps) {
				t.Errorf("%s: swappable %v, want %v", g.SentID, got, swaps)
			}
			compare := func(i int, got, want string) {
				seen++
				if got == want {
					return
				}
				mended++
				if i != 0 || !strings.EqualFold(got, want) {
					t.Errorf("%s, word %d:\n got %q\nwant %q", g.SentID, i, got, want)
				}
			}
			for k, i := range g.DeleteAt {
				compare(i, s.Delete(i), g.Deletions[k])
			}
			for _, i := range swaps {
				compare(i, s.Swap(i), text[i])
			}
			checkStart(t, s)
		}
		t.Logf("%s: %d corruptions, %d with mended case", tb.golden, seen, mended)
	}
}

// checkStart checks the case of the first two words of what touches the first.
func checkStart(t *testing.T, s Sentence) {
	t.Helper()
	first := func(text string) rune {
		r, _ := utf8.DecodeRuneInString(text)
		return r
	}
	begin := first(s.Words[0])
	for _, i := range s.Deletable() {
		if i == 0 && unicode.IsUpper(begin) && unicode.IsLower(first(s.Delete(0))) && !hasUpper(s.Words[1]) {
			t.Errorf("%s: starts with a small letter: %q", s.ID, s.Delete(0))
		}
	}
	if at := s.Swappable(); len(at) == 0 || at[0] != 0 {
		return
	}
	text := s.Swap(0)
	if unicode.IsUpper(begin) && unicode.IsLower(first(text)) && !hasUpper(s.Words[1]) {
		t.Errorf("%s: starts with a small letter: %q", s.ID, text)
	}
	_, n := utf8.DecodeRuneInString(s.Words[0])
	if keep := s.Tags[0] == "PROPN" || hasUpper(s.Words[0][n:]); keep && !strings.Contains(text, s.Words[0]) {
		t.Errorf("%s: %q lost its capital in %q", s.ID, s.Words[0], text)
	}
	if hasUpper(s.Words[1]) && !strings.HasPrefix(text, s.Words[1]) {
		t.Errorf("%s: %q changed in %q", s.ID, s.Words[1], text)
	}
}

func TestCasing(t *testing.T) {
	sentence := func(language string, pairs ...string) Sentence {
		s := Sentence{Language: language}
		for i := 0; i < len(pairs); i += 2 {
			s.Words, s.Tags = append(s.Words, pairs[i]), append(s.Tags, pairs[i+1])
		}
		return s
	}
	for _, test := range []struct {
		s          Sentence
		swap, gone string // gone: without the first word
	}{
		{sentence("da", "Hun", "PRON", "sover", "VERB"), "Sover hun", "Sover"},
		{sentence("da", "Anna", "PROPN", "sover", "VERB"), "Sover Anna", "Sover"},
		{sentence("da", "EU", "NOUN", "kræver", "VERB"), "Kræver EU", "Kræver"},
		{sentence("da", "Levi's", "PROPN", "er", "AUX"), "Er Levi's", "Er"},
		{sentence("nb", "EU-rettsaktene", "NOUN", "gjelder", "VERB"), "Gjelder EU-rettsaktene", "Gjelder"},
		{sentence("da", "Så", "ADV", "f.eks.", "ADV"), "F.eks. så", "F.eks."},
		{sentence("da", "De", "DET", "15-årige", "ADJ"), "15-årige de", "15-årige"},
		{sentence("sv", "I", "ADP", "dag", "NOUN"), "Dag i", "Dag"},
		{sentence("nb", "Å", "PART", "lese", "VERB"), "Lese å", "Lese"},
		{sentence("da", "I", "ADP", "dag", "NOUN"), "Dag i", "Dag"},
		{sentence("da", "I", "PRON", "sover", "VERB"), "Sover I", "Sover"},
		{sentence("da", "Han", "PRON", "iPhone", "PROPN"), "iPhone han", "iPhone"},
		{sentence("da", "Her", "ADV", "Anna", "PROPN"), "Anna her", "Anna"},
		{sentence("da", "15", "NUM", "mand", "NOUN"), "Mand 15", "Mand"},
		{sentence("da", "og", "CCONJ", "hun", "PRON"), "hun og", "hun"}, // began small before
		{sentence("da", "iPhone", "NOUN", "virker", "VERB"), "Virker iPhone", "Virker"},
		{sentence("is", "Að", "SCONJ", "þýða", "VERB"), "Þýða að", "Þýða"},
		{sentence("da", "ÅRET", "NOUN", "gik", "VERB"), "Gik ÅRET", "Gik"},
	} {
		if got := test.s.Swap(0); got != test.swap {
			t.Errorf("swap: %q, want %q", got, test.swap)
		}
		if got := test.s.Delete(0); got != test.gone {
			t.Errorf("delete: %q, want %q", got, test.gone)
		}
	}
}

func TestJoin(t *testing.T) {
	for want, words := range map[string]string{
		"Hun sagde: \"Kom nu!\" (i går), tror jeg.": `Hun sagde : " Kom nu ! " ( i går ) , tror jeg .`,
		"én \" alene":   `én " alene`,
		"[a] {b} « c »": `[ a ] { b } « c »`,
	} {
		if got := Join(strings.Fields(words)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The same as three substitutions, over any words.
func TestJoinAsSubstitutions(t *testing.T) {
	before := regexp.MustCompile(` ([.,;:?!)\]}])`)
	after := regexp.MustCompile(`([(\[{]) `)
	quoted := regexp.MustCompile(`" ([^"]+) "`)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom([]string{"a", `"`, "(", ")", ",", ".", "å b", `""`, `x"`, "", " "})).Draw(t, "words")
		want := strings.Join(words, " ")
		want = after.ReplaceAllString(before.ReplaceAllString(want, "$1"), "$1")
		if strings.Count(want, `"`)%2 == 0 {
			want = quoted.ReplaceAllString(want, `"$1"`)
		}
		if got := Join(words); got != want {
			t.Fatalf("%q: %q, want %q", words, got, want)
		}
	})
}

// For any sentence: what is drawn obeys the rules, is never a correct sentence,
// and a sentence with any candidate can be drawn from.
func TestDraw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		s := Sentence{Language: "da"}
		for range n {
			s.Words = append(s.Words, rapid.SampledFrom([]string{"at", "At", "hus", "EU", "og", ",", "han"}).Draw(t, "word"))
			s.Tags = append(s.Tags, rapid.SampledFrom([]string{"NOUN", "VERB", "PUNCT", "PROPN", "ADJ", "PRON"}).Draw(t, "tag"))
		}
		known := map[string]bool{"Hus at": true, "han": true}
		correct := func(text string) bool { return known[text] }
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		got, ok := s.Draw(r.IntN, correct)
		possible := false
		for _, i := range s.Deletable() {
			text := s.Delete(i)
			possible = possible || text != Join(s.Words) && !correct(text) && !(i == 0 && n > 1 && s.Tags[1] == "PUNCT")
		}
		for _, i := range s.Swappable() {
			text := s.Swap(i)
			possible = possible || text != Join(s.Words) && !correct(text)
		}
		if ok != possible {
			t.Fatalf("drawn: %v, possible: %v", ok, possible)
		}
		if !ok {
			return
		}
		if got.Text == Join(s.Words) || known[got.Text] {
			t.Fatalf("correct sentence %q called incorrect", got.Text)
		}
		if got.How.Type == Delete && got.How.Indices[0] == 0 && n > 1 && s.Tags[1] == "PUNCT" {
			t.Fatalf("begins with punctuation: %q", got.Text)
		}
		switch i := got.How.Indices; got.How.Type {
		case Delete:
			if len(i) != 1 || !slices.Contains(s.Deletable(), i[0]) || got.Text != s.Delete(i[0]) {
				t.Fatalf("%+v", got)
			}
		case Flip:
			if len(i) != 2 || i[1] != i[0]+1 || !slices.Contains(s.Swappable(), i[0]) || got.Text != s.Swap(i[0]) {
				t.Fatalf("%+v", got)
			}
		default:
			t.Fatalf("%+v", got)
		}
	})
}

// Both types have equal chances, and so have all sites of a type.
func TestDrawIsUniform(t *testing.T) {
	s := Sentence{
		Words: []string{"Hun", "købte", "en", "bog", "i", "går", "."},
		Tags:  []string{"PRON", "VERB", "DET", "NOUN", "ADP", "ADV", "PUNCT"},
	}
	r := rand.New(rand.NewPCG(1, 2))
	count := map[string]int{}
	const n = 20000
	for range n {
		c, ok := s.Draw(r.IntN, func(string) bool { return false })
		if !ok {
			t.Fatal("nothing drawn")
		}
		count[c.Text]++
	}
	for _, sites := range []struct {
		at   []int
		make func(int) string
	}{{s.Deletable(), s.Delete}, {s.Swappable(), s.Swap}} {
		for _, i := range sites.at {
			want := n / 2 / len(sites.at)
			// Five standard deviations of the binomial distribution.
			if got := count[sites.make(i)]; math.Abs(float64(got-want)) > 5*math.Sqrt(float64(want)) {
				t.Errorf("%q drawn %d times, want about %d", sites.make(i), got, want)
			}
		}
	}
}
