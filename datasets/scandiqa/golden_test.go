package scandiqa

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bench/datasets/datasetstest"
	"bench/datasets/raw"
)

// golden calls f with every row of a golden file, which was made by running the
// original builder with a translator that returns what it is given.
func golden[T any](t *testing.T, name string, f func(T)) int {
	t.Helper()
	rows := datasetstest.Golden[T](t, "golden/qa/"+name)
	for _, row := range rows {
		f(row)
	}
	return len(rows)
}

func TestCandidatesGolden(t *testing.T) {
	type row struct {
		Lang       Lang
		Answer     string
		Candidates []string
	}
	n := golden(t, "scandiqa-candidates.jsonl.gz", func(r row) {
		got := Candidates(r.Answer, "", r.Lang, nil)
		slices.Sort(got)
		if diff := cmp.Diff(r.Candidates, got); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", r.Lang, r.Answer, diff)
		}
	})
	if n != 1493 {
		t.Errorf("%d rows, want 1493", n)
	}
}

func TestCleaningGolden(t *testing.T) {
	type row struct {
		Fn, In, Out string
	}
	n := golden(t, "scandiqa-cleaning.jsonl", func(r row) {
		got := CleanText(r.In)
		if r.Fn == "question" {
			got = CleanQuestion(r.In)
		}
		if got != r.Out {
			t.Errorf("%s of %q: %q, want %q", r.Fn, r.In, got, r.Out)
		}
	})
	if n != 325 {
		t.Errorf("%d rows, want 325", n)
	}
}

func TestExtractGolden(t *testing.T) {
	contexts := map[string][]string{} // the source numbers some questions alike
	for prefix, pattern := range map[string]string{
		"norquad-test-":       "ltgoslo/NorQuAD/*/data/evaluation/all/test_dataset_flattened.json",
		"norquad-validation-": "ltgoslo/NorQuAD/*/data/evaluation/all/validation_dataset_flattened.json",
		"squadsv-":            "susumu2357/SQuAD_v2_sv/*/data/squad_dev_v2_sv.json",
	} {
		files, err := filepath.Glob(filepath.Join(datasetstest.Shared(t, "mirror/files/raw.githubusercontent.com"), filepath.FromSlash(pattern)))
		if err != nil || len(files) != 1 {
			t.Skipf("no contexts for %s: %v %v", prefix, files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		questions, err := raw.ReadSQuAD(b, files[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range questions {
			contexts[prefix+q.ID] = append(contexts[prefix+q.ID], q.Context)
		}
	}
	type row struct {
		Lang   Lang
		ID     string
		Answer string
		Gold   int `json:"gold_start"`
		Found  *struct {
			Answer string
			Start  int `json:"answer_start"`
		}
	}
	checked, absent := 0, 0
	golden(t, "scandiqa-extract.jsonl.gz", func(r row) {
		context, ok := contextWith(contexts[r.ID], r.Answer, r.Gold)
		if !ok {
			absent++
			return
		}
		checked++
		got, ok := Locate(context, Candidates(r.Answer, "", r.Lang, nil))
		if ok != (r.Found != nil) {
			t.Errorf("%s: found %v, want %v", r.ID, ok, r.Found != nil)
		} else if ok && (got != Span{r.Found.Answer, r.Found.Start}) {
			t.Errorf("%s: %q in %q: %+v, want %+v", r.ID, r.Answer, context, got, *r.Found)
		}
	})
	// Six rows are of the data set's own page, whose contexts are not in the
	// mirror.
	if checked != 1756 || absent != 6 {
		t.Errorf("%d extractions checked, %d contexts absent", checked, absent)
	}
}

// contextWith returns the context that has the answer at start.
func contextWith(contexts []string, answer string, start int) (string, bool) {
	for _, c := range contexts {
		if r := []rune(c); start <= len(r) && strings.HasPrefix(string(r[start:]), answer) {
			return c, true
		}
	}
	return "", false
}

func TestLocate(t *testing.T) {
	for _, c := range []struct {
		name, context string
		candidates    []string
		want          Span
		ok            bool
	}{
		{"longest first", "I 1969, den 20. juli 1969.", []string{"20. juli 1969", "1969"}, Span{"20. juli 1969", 12}, true},
		{"letters of the context", "Ærø er en ø", []string{"ÆRØ"}, Span{"Ærø", 0}, true},
		{"code points, not bytes", "Åååå Øst", []string{"øst"}, Span{"Øst", 5}, true},
		// The lower-case form of İ has two code points in Unicode's full mapping.
		{"longer lower case before", "İstanbul og Ankara", []string{"ankara"}, Span{"Ankara", 12}, true},
		{"absent", "intet her", []string{"noget"}, Span{}, false},
		{"no candidates", "intet her", nil, Span{}, false},
	} {
		got, ok := Locate(c.context, c.candidates)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestCandidatesOwn(t *testing.T) {
	for _, c := range []struct {
		answer, en string
		lang       Lang
		more, want []string
	}{
		{"nul", "", English, nil, []string{"nul", "0"}}, // English has no word for it
		{"tolv", "twelve", Danish, []string{"Twelve men"}, []string{"Twelve men", "tolfte", "tolvte", "twelve", "tolv", "12"}},
		{"2001-13-01", "", Danish, nil, []string{"2001-13-01"}}, // no such month
		{"10.05", "", Danish, nil, []string{"10,05", "10.05"}},
		{"???", "", Danish, nil, []string{}},
		{"99999999999999999999", "", Danish, nil, []string{"99999999999999999999"}},
	} {
		if diff := cmp.Diff(c.want, Candidates(c.answer, c.en, c.lang, c.more)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.answer, diff)
		}
	}
}
