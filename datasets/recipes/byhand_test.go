package recipes

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/datasets/datasetstest"
	"bench/datasets/fetch"
	"bench/datasets/raw"
)

// given makes the input of a recipe whose one source a person gets by hand.
func given(t *testing.T, r Recipe, name string, content []byte) *Input {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := fetch.Given(r.Sources[0], path)
	if err != nil {
		t.Fatal(err)
	}
	return &Input{Recipe: &r, Files: []fetch.File{f}}
}

// byHand returns files of the layout of corpora that are in no mirror.
func byHand(t *testing.T, name string) (file string, content []byte) {
	t.Helper()
	sentence := func(i int, sep string) string {
		words := []string{
			fmt.Sprintf("Anna%d", i), "B-Person", "Vik", "I-Person", "búði", "O", "í", "O", "Nes", "B-Location",
			fmt.Sprintf("%d.", i), "B-Date", "mai", "I-Date", ".", "O",
		}
		var b strings.Builder
		for k := 0; k < len(words); k += 2 {
			b.WriteString(words[k] + sep + words[k+1] + "\n")
		}
		return b.String() + "\n"
	}
	var text strings.Builder
	for i := range 4000 {
		text.WriteString(sentence(i, "\t"))
	}
	if name == "fone" {
		return "train.txt", []byte(text.String())
	}
	return "MIM-GOLD-2_0.zip", zipOf(t, map[string]string{
		"MIM-GOLD-2_0/": "", "MIM-GOLD-2_0/README.txt": "about the corpus\n",
		"MIM-GOLD-2_0/books.txt": text.String(), "MIM-GOLD-2_0/blog.txt": "Leikur\tI-Organization\nKR\tI-Organization\n\n" + sentence(1, "\t"),
		"__MACOSX/._blog.txt": "\x00",
	})
}

func zipOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, files[name])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestByHand(t *testing.T) {
	for _, name := range []string{"mim-gold-ner", "fone"} {
		file, content := byHand(t, name)
		in := given(t, recipe(t, name), file, content)
		out, err := in.Recipe.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		var all []datasets.Row
		for _, s := range datasets.Splits {
			all = append(all, out.Rows[s]...)
		}
		for _, r := range all {
			want := []string{"B-PER", "I-PER", "O", "O", "B-LOC", "O", "O", "O"}
			if r.Tokens[0] == "Leikur" {
				want = []string{"B-ORG", "I-ORG"}
			}
			if !slices.Equal(r.Labels, want) {
				t.Fatalf("%s: %+v", name, r)
			}
		}
		if name == "mim-gold-ner" && !slices.ContainsFunc(out.Notes, func(n string) bool { return strings.HasPrefix(n, "1 tags I-") }) {
			t.Errorf("notes %q", out.Notes)
		}
	}
	// The columns of FoNE stood the other way round once.
	_, content := byHand(t, "fone")
	var swapped strings.Builder
	for line := range strings.Lines(string(content)) {
		if a, b, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			line = b + "\t" + a + "\n"
		}
		swapped.WriteString(line)
	}
	one, two := given(t, recipe(t, "fone"), "a", content), given(t, recipe(t, "fone"), "b", []byte(swapped.String()))
	a, errA := one.Recipe.Make(one)
	b, errB := two.Recipe.Make(two)
	if errA != nil || errB != nil || fmt.Sprint(a.Rows) != fmt.Sprint(b.Rows) {
		t.Errorf("swapped columns: %v, %v", errA, errB)
	}
}

// All sentences of the sample read as its golden has them: names by hand, no
// word lost. The golden also shows what the original loses.
func TestSUC3Golden(t *testing.T) {
	type sentence struct {
		ID     string `json:"sentence"`
		Tokens []string
		Tags   []string `json:"ner_tags"`
	}
	want := datasetstest.Golden[sentence](t, "golden/ner/suc3-sample.jsonl.gz")
	in := input(t, recipe(t, "suc3"))
	n := 0
	err := in.sucRows(func(r datasets.Row, line int) error {
		w := want[n]
		if n++; r.ID != w.ID || !slices.Equal(r.Tokens, w.Tokens) || !slices.Equal(r.Labels, w.Tags) {
			t.Fatalf("line %d: %+v, want %+v", line, r, w)
		}
		return nil
	})
	if err != nil || n != 2900 {
		t.Fatalf("%d sentences, error %v", n, err)
	}
}

// A sample is no corpus: it has to be asked for, and the data set is as small.
// However the file is packed, the rows are the same.
func TestSUC3Sample(t *testing.T) {
	in := input(t, recipe(t, "suc3"))
	in.Partial = false
	var e *fetch.Error
	if _, err := in.Recipe.Make(in); !errors.As(err, &e) || e.Kind != fetch.Incomplete || e.Hint() == "" {
		t.Fatalf("error %v", err)
	}
	in.Partial = true
	want, err := in.Recipe.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	xml, err := in.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write(xml)
	w.Close()
	for name, content := range map[string][]byte{
		"suc3.xml": xml, "suc3.xml.gz": gz.Bytes(),
		"suc3.zip": zipOf(t, map[string]string{"suc3/suc3.xml": string(xml), "suc3/LICENSE": "text"}),
	} {
		in := given(t, *in.Recipe, name, content)
		in.Partial = true
		got, err := in.Recipe.Make(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: other rows", name)
		}
	}
}

// What is wrong with a file of a person names the file, and the line if there
// is one.
func TestByHandErrors(t *testing.T) {
	suc := func(body string) string {
		return "<corpus>\n<text>\n" + body + "\n</text>\n</corpus>\n"
	}
	for _, test := range []struct{ data, file, content, msg string }{
		{"suc3", "a.xml", suc(`<sentence id="1"><name type="ship"><w>Vasa</w></name></sentence>`), `a.xml:3: unknown type "ship" of a name; there are animal, event`},
		{"suc3", "a.xml", suc(`<sentence><w>Vasa</w></sentence>`), "a.xml:3: a sentence without an id"},
		{"suc3", "a.xml", suc("<sentence id=\"1\"><w>Hej</w></sentence>"), "1 of the corpus' 74245 sentences"},
		{"suc3", "a.xml", "<corpus>\n<text>\n<sentence id=\"1\">\n<w>He", "a.xml:4: the file ends inside an element: it is truncated"},
		{"suc3", "a.xml", "", "a.xml: the file is empty"},
		{"suc3", "a.zip", string(zipOf(t, map[string]string{"../suc3.xml": suc("")})), `a.zip: the archive has a file "../suc3.xml" outside of its folder`},
		{"suc3", "a.zip", string(zipOf(t, map[string]string{"suc3.txt": ""})), "a.zip: no file *.xml in the archive"},
		{"suc3", "a.zip", string(zipOf(t, map[string]string{"a.xml": suc(""), "b.xml": suc("")})), "a.zip: two files *.xml in the archive, a.xml and b.xml"},
		{"suc3", "a.zip", string(zipOf(t, map[string]string{"a/a.xml": "<x"})), "a.zip!a/a.xml:1: the file ends in the middle"},
		{"suc3", "a.xml.gz", "\x1f\x8b", "a.xml.gz: gzip: "},
		{"suc3", "a.xml.bz2", "BZh9 but nothing packed", "a.xml.bz2: the packed file is damaged"},
		{"mim-gold-ner", "a.zip", "PK", "a.zip: no zip archive"},
		{"mim-gold-ner", "a.zip", string(zipOf(t, map[string]string{"../../a.txt": "Anna\tO\n"})), `a.zip: the archive has a file "../../a.txt" outside`},
		{"mim-gold-ner", "a.zip", string(zipOf(t, map[string]string{"README.txt": "Anna\tO\n"})), "a.zip: no file *.txt with sentences"},
		{"mim-gold-ner", "a.zip", string(zipOf(t, map[string]string{"blog.txt": "Anna\tO\n\nVik\tB-Ship\n"})), `a.zip!blog.txt:3: unknown tag "B-Ship" of the word "Vik"`},
		{"mim-gold-ner", "a.zip", string(zipOf(t, map[string]string{"blog.txt": "Anna\nVik\n"})), "a.zip!blog.txt:1: 1 column"},
		{"fone", "a.txt", "Anna\tO\nVik\tB-PER\n", `a.txt:2: unknown tag "B-PER"`},
		{"fone", "a.txt", "Anna\tX\tO\n", "a.txt:1: 3 columns"},
		{"fone", "a.txt", "\n\n", "a.txt: no sentences"},
		{"fone", "a.txt", "Anna\tO\n", "val, test and train drawn from 1 rows"},
	} {
		in := given(t, recipe(t, test.data), test.file, []byte(test.content))
		if _, err := in.Recipe.Make(in); err == nil || !strings.Contains(err.Error(), test.msg) {
			t.Errorf("%s: error %v, want %q", test.data, err, test.msg)
		}
	}
	// An id that is there twice: in a corpus that suffices, by drawing all of it.
	in := given(t, recipe(t, "suc3"), "a.xml", []byte(suc(strings.Repeat("<sentence id=\"1\"><w>Hej</w></sentence>\n", 8))))
	in.Recipe.Base, in.Recipe.Sizes = 8, Sizes{4, 2, 2}
	if _, err := in.Recipe.Make(in); err == nil || !strings.Contains(err.Error(), `a.xml:4: the id "1" is that of line 3, too`) {
		t.Errorf("error %v", err)
	}
}

// No paragraph is in two splits, and the languages of XQuAD are split alike.
func TestContexts(t *testing.T) {
	var ids [2]string
	for i, name := range []string{"xquad-en", "xquad-de", "squad-v2-sv"} {
		_, out := run(t, name)
		where := map[string]datasets.Split{}
		for _, s := range datasets.Splits {
			for _, r := range out.Rows[s] {
				if other, ok := where[r.Context]; ok && other != s {
					t.Fatalf("%s: a paragraph is in %s and %s", name, s, other)
				}
				where[r.Context] = s
				if i < 2 {
					ids[i] += r.ID + " "
				}
			}
		}
	}
	if ids[0] != ids[1] {
		t.Error("xquad-en and xquad-de are not split alike")
	}
}

// The rows of Universal NER: three types, and text and tokens of the same
// sentences as the treebanks.
func TestUNER(t *testing.T) {
	for _, test := range []struct {
		data     string
		entities map[string]int // of all sentences: grep -c of B- tags in the files, and what is mended
		mended   int            // I- after another type, by awk
	}{
		{"uner-da", map[string]int{"PER": 1588, "LOC": 1079, "ORG": 1187}, 7},
		{"uner-nb", nil, 0}, {"uner-nn", nil, 0}, {"uner-sv", map[string]int{"PER": 296, "LOC": 641, "ORG": 249}, 0},
	} {
		in := input(t, recipe(t, test.data))
		got, mended := map[string]int{}, 0
		for i := range in.Files {
			if !in.Have(i) {
				continue
			}
			rows, k, err := in.unerRows(i, map[string]string{"PER": "PER", "LOC": "LOC", "ORG": "ORG"})
			if err != nil {
				t.Fatal(err)
			}
			mended += k
			for _, r := range rows {
				if strings.Count(r.Text, "") == 0 || !strings.Contains(r.Text, r.Tokens[0]) {
					t.Errorf("%s: text %q of %q", r.ID, r.Text, r.Tokens)
				}
				for _, l := range r.Labels {
					if strings.HasPrefix(l, "B-") {
						got[l[2:]]++
					}
				}
			}
		}
		if mended != test.mended {
			t.Errorf("%s: %d tags mended", test.data, mended)
		}
		if test.entities != nil && fmt.Sprint(got) != fmt.Sprint(test.entities) {
			t.Errorf("%s: entities %v, want %v", test.data, got, test.entities)
		}
	}
}

func TestFoneWeight(t *testing.T) {
	for tags, want := range map[string]float64{
		"O O": 1, "O B-Person": 5, "B-Person": 1, "B-Person I-Person": 5, "O B-Date I-Date": 1, "I-Person I-Person": 1, "B-Date B-Person": 5,
	} {
		var rows []raw.BlockRow
		for _, tag := range strings.Fields(tags) {
			rows = append(rows, raw.BlockRow{Fields: []string{"a", tag}})
		}
		if got := foneWeight(raw.Block{Rows: rows}, 1); got != want {
			t.Errorf("%s: %v", tags, got)
		}
	}
}
