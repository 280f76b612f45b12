package recipes

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/datasets/datasetstest"
	"bench/datasets/fetch"
	"bench/datasets/scala"
)

func recipe(t *testing.T, name string) Recipe {
	t.Helper()
	for _, r := range All() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no recipe %s", name)
	return Recipe{}
}

// input fetches the sources of r from the mirror. Sources that it does not have
// make it partial.
func input(t *testing.T, r Recipe) *Input {
	t.Helper()
	m, err := fetch.OpenMirror(datasetstest.Shared(t, "mirror"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fetch.Fetcher{Dir: t.TempDir(), Mirror: m, Offline: true}
	if r.Name == "mim-gold-ner" || r.Name == "fone" {
		file, content := byHand(t, r.Name)
		return given(t, r, file, content)
	}
	in := &Input{Recipe: &r, Files: make([]fetch.File, len(r.Sources))}
	for i, s := range r.Sources {
		file, err := f.Fetch(t.Context(), s)
		if err != nil {
			in.Partial = true
			continue
		}
		in.Files[i] = file
	}
	in.Partial = in.Partial || len(in.Doubtful()) > 0
	return in
}

func run(t *testing.T, name string) (*Input, *Output) {
	t.Helper()
	in := input(t, recipe(t, name))
	out, err := in.Recipe.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

// Every recipe makes what its Sizes say, with ids that are unique and labels of
// its task. Exceptions are those of the corpora.
func TestSizes(t *testing.T) {
	sizes := map[string]Sizes{
		// 1,214 usable sentences: the published scala-fo has 1,024 test rows too.
		"scala-fo": {1024, 256, 1024}, "scala-fo-scandeval": {1024, 256, 1024},
		// 944 of 4,752 questions are at hand: 1024, 256 and 2048 times 0.19865.
		"norquad": {203, 50, 406},
		// A sample of 2,900 of 74,245 sentences: times 0.03906.
		"suc3": {39, 9, 79},
	}
	for _, r := range append(All(), Sample()...) {
		t.Run(r.Name, func(t *testing.T) {
			in := input(t, r)
			out, err := r.Make(in)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := sizes[r.Name]
			if !ok {
				want = r.Sizes
			}
			got := Sizes{len(out.Rows[datasets.Train]), len(out.Rows[datasets.Val]), len(out.Rows[datasets.Test])}
			if got != want {
				t.Errorf("sizes %v, want %v", got, want)
			}
			// The sources that cannot be had are the training parts of these.
			if partial := slices.Contains([]string{"scala-nb", "scala-nn", "norquad", "suc3", "uner-nb", "uner-nn"}, strings.TrimSuffix(r.Name, "-scandeval")); partial != in.Partial {
				t.Errorf("partial %v", in.Partial)
			}
			if r.Base > 0 && !in.Partial && out.Base != r.Base && r.Name != "norne-nb" && r.Name != "norne-nn" {
				t.Errorf("%d base rows, the recipe says %d", out.Base, r.Base)
			}
			seen := map[string]bool{}
			for _, s := range datasets.Splits {
				for _, row := range out.Rows[s] {
					if row.ID == "" || seen[row.ID] {
						t.Fatalf("id %q is empty or there twice", row.ID)
					}
					seen[row.ID] = true
					for _, l := range row.Labels {
						if l != "O" && !slices.Contains([]string{"PER", "LOC", "ORG", "MISC"}, l[2:]) {
							t.Fatalf("%s: label %s", row.ID, l)
						}
					}
				}
			}
		})
	}
}

// Tokens, labels and text equal those that the original recipe makes of the
// same files.
func TestNERGoldens(t *testing.T) {
	type sentence struct {
		SentID string `json:"sent_id"`
		Tokens []string
		Tags   []string `json:"ner_tags"`
		Doc    string
	}
	for _, test := range []struct {
		golden, data string
		types        map[string]string
		rows         func(in *Input) ([]datasets.Row, error)
	}{
		{"norne-nob-dev", "norne-nb", norneTypes, nil},
		{"norne-nob-test", "norne-nb", norneTypes, nil},
	} {
		want := datasetstest.Golden[sentence](t, "golden/ner/"+test.golden+".jsonl.gz")
		in := input(t, recipe(t, test.data))
		i := 1
		if strings.HasSuffix(test.golden, "test") {
			i = 2
		}
		sentences, err := in.treebank(i)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := namedSentences(sentences, test.types)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != len(want) {
			t.Fatalf("%s: %d rows, want %d", test.golden, len(rows), len(want))
		}
		for k, r := range rows {
			w := want[k]
			if r.ID != w.SentID || r.Text != w.Doc || !slices.Equal(r.Tokens, w.Tokens) || !slices.Equal(r.Labels, w.Tags) {
				t.Fatalf("%s: row %d is %+v, want %+v", test.golden, k, r, w)
			}
		}
	}
	// DaNE's three files are in one archive and pooled: look rows up.
	want := map[string]sentence{}
	for _, part := range []string{"train", "dev", "test"} {
		for _, s := range datasetstest.Golden[sentence](t, "golden/ner/dane-"+part+".jsonl.gz") {
			want[s.SentID] = s
		}
	}
	_, out := run(t, "dane")
	for _, s := range datasets.Splits {
		for _, r := range out.Rows[s] {
			w := want[r.ID]
			if r.Text != w.Doc || !slices.Equal(r.Tokens, w.Tokens) || !slices.Equal(r.Labels, w.Tags) {
				t.Fatalf("dane: %+v, want %+v", r, w)
			}
		}
	}
}

// Members of the pooled splits, by pandas:
//
//	frame = pandas.DataFrame({"x": range(5512)}); val = frame.sample(256, random_state=4242) …
func TestDaneMembers(t *testing.T) {
	var ids []string
	for _, part := range []string{"train", "dev", "test"} {
		for _, s := range datasetstest.Golden[struct {
			SentID string `json:"sent_id"`
		}](t, "golden/ner/dane-"+part+".jsonl.gz") {
			ids = append(ids, s.SentID)
		}
	}
	_, out := run(t, "dane")
	for part, want := range map[datasets.Split][]int{
		datasets.Val: daneVal, datasets.Test: daneTest, datasets.Train: daneTrain,
	} {
		for k, i := range want {
			if got := out.Rows[part][k].ID; got != ids[i] {
				t.Errorf("%s row %d is %s, want %s", part, k, got, ids[i])
			}
		}
	}
}

func TestSwerecGolden(t *testing.T) {
	type review struct{ Text, Label string }
	want := datasetstest.Golden[review](t, "golden/sentiment/swerec.jsonl.gz")
	in, out := run(t, "swerec")
	rows, err := swerecRows(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, r := range rows {
		if (review{r.Text, r.Label}) != want[i] {
			t.Fatalf("row %d is %+v, want %+v", i, r, want[i])
		}
	}
	b, err := os.ReadFile(datasetstest.Shared(t, "golden/sentiment/swerec-split-rows.json"))
	if err != nil {
		t.Fatal(err)
	}
	var members map[datasets.Split][]int
	if err := json.Unmarshal(b, &members); err != nil {
		t.Fatal(err)
	}
	for part, at := range members {
		if got := out.Rows[part]; !reflect.DeepEqual(got, pick(rows, at)) {
			t.Errorf("%s: %d rows, not those of the original in its order", part, len(got))
		}
	}
}

// Every pair of rows of every ScaLA data set: the correct one is the sentence,
// the incorrect one is among what the rules allow, both are in one split.
func TestScalaRows(t *testing.T) {
	for _, language := range []string{"da", "sv", "nb", "nn", "is", "fo"} {
		t.Run(language, func(t *testing.T) {
			in, out := run(t, "scala-"+language)
			byID := map[string]scala.Sentence{}
			correct := map[string]bool{}
			for i := range in.Files {
				if !in.Have(i) {
					continue
				}
				sentences, err := in.treebank(i)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range sentences {
					s := scala.Sentence{ID: c.ID(), Language: language}
					for _, w := range c.Words() {
						s.Words, s.Tags = append(s.Words, w.Form), append(s.Tags, w.UPOS)
					}
					byID[s.ID] = s
					correct[scala.Join(s.Words)] = true
				}
			}
			types, firsts, firstCorrect := map[string]int{}, 0, 0
			for _, part := range datasets.Splits {
				pair := map[string][]datasets.Row{}
				for _, r := range out.Rows[part] {
					id := r.ID[:len(r.ID)-2]
					pair[id] = append(pair[id], r)
					if strings.HasSuffix(r.ID, "/1") {
						firsts++
						if r.Label == "correct" {
							firstCorrect++
						}
					}
					s := byID[id]
					if r.Label == "correct" {
						if r.Corruption != nil || r.Text != scala.Join(s.Words) {
							t.Fatalf("%+v", r)
						}
						continue
					}
					if correct[r.Text] {
						t.Fatalf("correct sentence is called incorrect: %+v", r)
					}
					types[r.Corruption.Type]++
					i := r.Corruption.Indices
					switch r.Corruption.Type {
					case scala.Delete:
						if !slices.Contains(s.Deletable(), i[0]) || r.Text != s.Delete(i[0]) {
							t.Fatalf("%+v", r)
						}
					case scala.Flip:
						if !slices.Contains(s.Swappable(), i[0]) || i[1] != i[0]+1 || r.Text != s.Swap(i[0]) {
							t.Fatalf("%+v", r)
						}
					default:
						t.Fatalf("%+v", r)
					}
				}
				for id, rows := range pair {
					if len(rows) != 2 || rows[0].Label == rows[1].Label {
						t.Fatalf("%s: %d rows of sentence %s", part, len(rows), id)
					}
				}
			}
			n := types[scala.Delete] + types[scala.Flip]
			if share := float64(types[scala.Delete]) / float64(n); math.Abs(share-0.5) > 0.05 {
				t.Errorf("%.3f of the corruptions are deletions", share)
			}
			// The id must not tell which row is correct.
			if share := float64(firstCorrect) / float64(firsts); math.Abs(share-0.5) > 0.05 {
				t.Errorf("%.3f of the ids /1 are correct rows", share)
			}
		})
	}
}

// No review is in two splits, and all original test rows are test rows.
func TestNorec(t *testing.T) {
	in, out := run(t, "norec")
	where := map[string]datasets.Split{}
	for _, part := range []datasets.Split{datasets.Val, datasets.Test, datasets.Train} {
		for _, r := range out.Rows[part] {
			review, _, _ := strings.Cut(r.ID, "-")
			if other, ok := where[review]; ok && other != part {
				t.Fatalf("review %s is in %s and %s", review, other, part)
			}
			where[review] = part
		}
	}
	original, err := norecRows(in, 2)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(out.Rows[datasets.Test][:len(original)], original) {
		t.Error("the original test rows are not the first test rows")
	}
}

// What a source says wrongly is named with its line.
func TestSourceErrors(t *testing.T) {
	for _, test := range []struct{ data, text, msg string }{
		{"norne-nb", "# sent_id = 1\n1\tAnna\t_\t_\t_\t_\t_\t_\t_\tname=B-GOD\n", ":2: unknown tag name=B-GOD"},
		{"norne-nb", "# sent_id = 1\n1\tAnna\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n", ":2: word without name="},
		{"norne-nb", "1\tAnna\t_\t_\t_\t_\t_\t_\t_\tname=O\n", ":1: sentence without sent_id"},
		{"norne-nb", "1\tAnna\n", ":1: 2 columns"},
		{"angry-tweets", `{"text":"a","label":"neutral"}` + "\n" + `{"text":"a","label":"glad"}`, `:2: unknown label "glad"`},
		{"wikiann-fo", `{"doc":"a","tokens":["a","b"],"ner_tags":["O"]}`, ":1: 1 tags for 2 tokens"},
		{"wikiann-fo", `{"doc":"a","tokens":["a"],"ner_tags":["B-MISC"]}`, `:1: unknown tag "B-MISC"`},
		{"norec", "[\n" + `{"sent_id":"1-1","text":"a","label":"neutral"}]`, `:2: unknown label "neutral"`},
		{"swerec", "index,text,rating\r\r\n1,bra,positive\r\r\n2,bra,bra\r\r\n", `:3: unknown rating "bra"`},
		{"swerec", "index,text\n1,bra\n", `:1: no column "rating"`},
		{"norquad", `{"data":[{"paragraphs":[{"context":"abc","qas":[{"id":1,"question":"q","answers":[{"text":"c","answer_start":1}]}]}]}]}`, "code point 1"},
		{"dane", "no archive", "no zip archive"},
		{"dane", string(zipOf(t, map[string]string{"ddt.train.conllu": ""})), "!ddt.train.conllu: the file is empty"},
		{"dane", string(zipOf(t, map[string]string{"../ddt.train.conllu": "x"})), "outside of its folder"},
		{"dane", string(zipOf(t, map[string]string{"ddt.txt": "x"})), "no file ddt.train.conllu in the archive; there are: ddt.txt"},
		{"dane", "", ": the file is empty"},
		{"norne-nb", "\n\n", ": the file is empty"},
		{"norne-nb", strings.Repeat("# sent_id = 1\n1\tAnna\t_\t_\t_\t_\t_\t_\t_\tname=O\n\n", 2), `:4: the id "1" is that of line 1, too`},
		{"scala-da", strings.Repeat("# sent_id = 1\n1\tAnna\t_\t_\t_\t_\t_\t_\t_\t_\n\n", 2), `:4: the id "1" is that of line 1, too`},
		{"scala-da", "# sent_id = 1\n1\tAnna\t_\t_\t_\t_\t_\t_\t_\t_\n2\n", ":3: 1 columns instead of 10"},
		{"uner-da", "# sent_id = 1\n1\tAnna\tB-MISC\t-\t-\n", `:2: unknown tag "B-MISC" of the word "Anna"; there are O, and B- and I- with LOC, ORG, PER`},
		{"uner-da", "1\tAnna\tB-PER\t-\t-\n", ":1: sentence without sent_id"},
		{"uner-da", "# sent_id = 1\n1\tAnna\tB-PER\t-\t-\n3\tVik\tI-PER\t-\t-\n", `:3: word number "3" after 1`},
		{"uner-da", "# sent_id = 1\n1\tAnna\tB-PER\n", ":2: 3 columns instead of 5"},
		{"uner-da", strings.Repeat("# sent_id = 1\n1\tAnna\tB-PER\t-\t-\n\n", 2), `:4: the id "1" is that of line 1, too`},
		{"uner-da", "\n", ": the file has no sentences"},
		{"xquad-en", `{"data":[{"paragraphs":[{"context":"abc","qas":[{"id":"1","question":"q","answers":[{"text":"c","answer_start":2}]},` + "\n" +
			`{"id":"1","question":"q","answers":[{"text":"c","answer_start":2}]}]}]}]}`, `the id "1" is that of line 1, too`},
		{"squad-v2-sv", `{"data":[{"paragraphs":[{"context":"abc","qas":[{"id":"1","question":"q","answers":[]}]}]}]}`, "not marked"},
	} {
		r := recipe(t, test.data)
		path := filepath.Join(t.TempDir(), "source")
		if err := os.WriteFile(path, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		in := &Input{Recipe: &r, Files: make([]fetch.File, len(r.Sources))}
		for i := range in.Files {
			in.Files[i].Path = path
		}
		_, err := r.Make(in)
		if err == nil || !strings.Contains(err.Error(), r.Sources[0].URL) || !strings.Contains(err.Error(), test.msg) {
			t.Errorf("%s: error %v, want %q", test.data, err, test.msg)
		}
	}
}

// Names are unique, and everything that a person wants to know is there.
func TestRegistry(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range append(All(), Sample()...) {
		if r.Origin == BuiltIn && r.Suite == "" || (r.Suite == Variant) != (r.VariantOf != "") {
			t.Errorf("%s: suite %q, variant of %q", r.Name, r.Suite, r.VariantOf)
		}
		if seen[r.Name] || r.Version < 1 || r.Licence == "" || r.Citation == "" || len(r.Languages) == 0 || r.Make == nil || r.Origin == "" {
			t.Errorf("recipe %+v", r)
		}
		seen[r.Name] = true
		for _, s := range r.Sources {
			if s.Page && s.Manual == "" {
				t.Errorf("%s: how does a person get %s?", r.Name, s.URL)
			}
			if s.GitBlob != "" && len(s.GitBlob) != 40 {
				t.Errorf("%s: pin %q of %s", r.Name, s.GitBlob, s.URL)
			}
		}
	}
}

func TestCapitalize(t *testing.T) {
	for in, want := range map[string]string{"": "", "hEJ": "Hej", "ÅR": "År", "1 MAN": "1 man", "øRE Å": "Øre å"} {
		if got := capitalize(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func ExampleInput_SizesFor() {
	in := &Input{Recipe: &Recipe{Base: 4752}, Partial: true}
	fmt.Println(in.SizesFor(standard, 944, 936))
	fmt.Println(in.SizesFor(standard, 944, 4000))
	// Output:
	// {203 50 406}
	// {1024 256 2048}
}

// The first rows of each split of 5,512 rows, as TestDaneMembers says.
var (
	daneVal   = []int{4599, 5291, 3131, 1376, 5022, 2435, 3253, 4477, 3563, 2086, 910, 433}
	daneTest  = []int{465, 603, 2581, 2399, 4093, 2998, 4390, 330, 2689, 3101, 5312, 4435}
	daneTrain = []int{2131, 1743, 2791, 2537, 2285, 4443, 1547, 511, 2230, 3950, 1095, 555}
)

// The variant by the original's rules: the same sentences in the same splits and
// order, corrupted as its goldens have it.
func TestScandEvalRules(t *testing.T) {
	type sentence struct {
		ID                     string `json:"sent_id"`
		Text                   string
		Deletions, Flips       []string
		FlipLeft               []int `json:"flip_left"`
		BreaksRules, EqualsOwn []int
	}
	golden := map[string]sentence{}
	for _, s := range datasetstest.Golden[sentence](t, "golden/scala/fo_farpahc.jsonl.gz") {
		golden[s.ID] = s
	}
	_, paper := run(t, "scala-fo")
	in, out := run(t, "scala-fo-scandeval")
	if in.Recipe.VariantOf != "scala-fo" || in.Recipe.Suite != Variant {
		t.Errorf("%+v", in.Recipe)
	}
	other := 0
	for _, part := range datasets.Splits {
		for i, r := range out.Rows[part] {
			p := paper.Rows[part][i]
			if r.ID != p.ID || r.Label != p.Label {
				t.Fatalf("%s row %d is %s %s, by the paper's rules %s %s", part, i, r.ID, r.Label, p.ID, p.Label)
			}
			g := golden[r.ID[:len(r.ID)-2]]
			switch {
			case r.Label == "correct" && r.Text != g.Text:
				t.Errorf("%+v, want %q", r, g.Text)
			case r.Label == "incorrect" && r.Corruption.Type == scala.Delete && !slices.Contains(g.Deletions, r.Text),
				r.Label == "incorrect" && r.Corruption.Type == scala.Flip && !slices.Contains(g.Flips, r.Text):
				t.Errorf("%+v is none of the original's", r)
			}
			if r.Text != p.Text {
				other++
			}
		}
	}
	if other == 0 {
		t.Error("the variant is the data set")
	}
}
