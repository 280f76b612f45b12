package datasets

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// examples are the rows of docs/formats.md, in canonical form.
var examples = []struct {
	kind Kind
	line string
}{
	{NER, `{"id":"dev-3","tokens":["Åse","Vik","bor","her"],"labels":["B-PER","I-PER","O","O"],"text":"Åse Vik bor her"}`},
	{Sentiment, `{"id":"review-12","text":"Maden var kold .","label":"negative"}`},
	{Acceptability, `{"id":"s17/1","text":"Hun bor i Vik.","label":"correct","corruption_type":null}`},
	{Acceptability, `{"id":"s17/2","text":"Hun i bor Vik.","label":"incorrect","corruption_type":"flip_neighbours","corruption_indices":[1,2]}`},
	{QA, `{"id":"q9","question":"Hvor bor hun?","context":"Hun bor i Vik.","answers":{"text":["Vik"],"answer_start":[10]}}`},
	{Speed, `{"id":"1","text":"…"}`},
}

// The documented rows are what is written and read, to the byte.
func TestDocumentedRows(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		if !strings.Contains(string(doc), "`"+e.line+"`") {
			t.Errorf("docs/formats.md does not have %s", e.line)
		}
		row, err := ParseRow([]byte(e.line), e.kind)
		if err != nil {
			t.Errorf("%s: %v", e.line, err)
			continue
		}
		if got, err := row.AppendJSON(nil, e.kind); err != nil || string(got) != e.line {
			t.Errorf("written: %s, error %v", got, err)
		}
	}
}

func TestParseRowIsStrict(t *testing.T) {
	for _, test := range []struct {
		kind Kind
		line string
		msg  string
	}{
		{Sentiment, `{"id":"1","text":"a","label":"b","extra":1}`, "extra"},
		{Sentiment, `{"id":"1","text":"a"`, "EOF"},
		{Sentiment, `{"id":"1","text":"a"}}`, "more after"},
		{Sentiment, `{"id":"1","text":"a"} {}`, "more after"},
		{Sentiment, `{"text":"a"}`, "without id"},
		{Sentiment, `{"id":1,"text":"a"}`, "cannot unmarshal"},
		{Sentiment, "{\"id\":\"1\",\"text\":\"\xff\"}", "UTF-8"},
		{NER, `{"id":"1","tokens":["a","b"],"labels":["O"],"text":"a"}`, "1 labels for 2 tokens"},
		{QA, `{"id":"1","question":"q","context":"æøå","answers":{"text":["å"],"answer_start":[4]}}`, "code point 4"},
		{QA, `{"id":"1","question":"q","context":"æøå","answers":{"text":["å"],"answer_start":[9223372036854775807]}}`, "not at code point"},
		{QA, `{"id":"1","question":"q","context":"æøå","answers":{"text":["å"],"answer_start":[-1]}}`, "code point -1"},
		{QA, `{"id":"1","question":"q","context":"æøå","answers":{"text":["å"],"answer_start":[]}}`, "0 answer starts"},
		{Sentiment, `{"id":"1","label":"a"}`, "without text"},
		{Acceptability, `{"id":"1","label":"correct"}`, "without text"},
		{Acceptability, `{"id":"1","text":"a","label":"correct","corruption_type":null,"corruption_indices":[1]}`, "without corruption_type"},
		{NER, `{"id":"1","text":"a"}`, "without tokens"},
		{NER, `{"id":"1","tokens":["a"]}`, "without tokens or text"},
		{QA, `{"id":"1","context":"a"}`, "without question"},
		{"parsing", `{"id":"1"}`, "unknown kind"},
	} {
		if _, err := ParseRow([]byte(test.line), test.kind); err == nil || !strings.Contains(err.Error(), test.msg) {
			t.Errorf("%s: error %v, want %q", test.line, err, test.msg)
		}
	}
}

// A trainer must not learn the answer from a test row.
func TestBlind(t *testing.T) {
	for _, e := range examples {
		row, err := ParseRow([]byte(e.line), e.kind)
		if err != nil {
			t.Fatal(err)
		}
		line, err := row.Blind().AppendJSON(nil, e.kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, gold := range []string{"label", "corruption", "answer"} {
			if strings.Contains(string(line), gold) {
				t.Errorf("blind row %s", line)
			}
		}
		if _, err := ParseRow(line, e.kind); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func rows(t *testing.T, lines string, k Kind) []Row {
	t.Helper()
	r, err := ReadRows(strings.NewReader(lines), "rows", k)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadRows(t *testing.T) {
	const a, b = `{"id":"1","text":"a","label":"x"}` + "\n", `{"id":"2","text":"b","label":"x"}` + "\n"
	if got := rows(t, a+b, Sentiment); len(got) != 2 || got[1].Text != "b" {
		t.Errorf("%+v", got)
	}
	for text, msg := range map[string]string{
		a + strings.TrimSpace(b): "f:2: torn line",
		a + b + a:                `f:3: id "1" is taken by line 1`,
		a + "\n":                 "f:2: ",
		a + "{}\n":               "f:2: row without text",
	} {
		if _, err := ReadRows(strings.NewReader(text), "f", Sentiment); err == nil || !strings.Contains(err.Error(), msg) {
			t.Errorf("%q: error %v, want %q", text, err, msg)
		}
	}
}

func TestWriteOpenVerify(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	if _, err := Open(dir); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("error %v", err)
	}
	all := map[Split][]Row{
		Train: rows(t, `{"id":"1","tokens":["Åse"],"labels":["B-PER"],"text":"Åse"}`+"\n", NER),
		Val:   rows(t, `{"id":"2","tokens":["a","b"],"labels":["B-LOC","B-LOC"],"text":"a b"}`+"\n", NER),
		Test:  rows(t, `{"id":"3","tokens":["<&>"],"labels":["O"],"text":"<&>"}`+"\n", NER),
	}
	meta := Meta{Name: "mine", Kind: NER, Languages: []string{"da"}, Sources: []SourceRecord{}}
	written, err := Write(dir, meta, all)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(d.Meta, written.Meta) || d.Counts[Val].Labels["LOC"] != 2 || d.Counts[Train].Rows != 1 {
		t.Errorf("read %+v, written %+v", d.Meta, written.Meta)
	}
	if err := d.Verify(); err != nil {
		t.Error(err)
	}
	// SHA-256 by Python's hashlib of "bench dataset 1\nner\ntrain 1\n" and so on,
	// written out by hand from docs/formats.md.
	const want = "b1102e6abde88cf32ede947f2e5d766dd839c6dc13e507b9915a791be43cac10"
	if d.Digest != want {
		t.Errorf("digest %s, want %s", d.Digest, want)
	}
	meta.Partial = &Partial{Missing: []string{"u"}, Scale: 0.5}
	if partial, err := Write(filepath.Join(t.TempDir(), "p"), meta, all); err != nil || partial.Digest == d.Digest {
		t.Errorf("partial: digest the same, or error %v", err)
	}
	if err := os.WriteFile(d.Path(Test), []byte(`{"id":"3","tokens":["x"],"labels":["O"],"text":"x"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var changed *DigestError
	if err := d.Verify(); !errors.As(err, &changed) || changed.Dataset != "mine" || changed.Hint() == "" {
		t.Errorf("error %v", err)
	}
	for text, msg := range map[string]string{
		`{"schema":2}`:       "schema 2",
		`{"schema":1,"x":1}`: `unknown field "x"`,
		`{"schema":1`:        "EOF",
	} {
		if err := os.WriteFile(filepath.Join(dir, "dataset.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), msg) || !strings.Contains(err.Error(), "dataset.json") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

// Any text survives writing and reading, and equal rows give equal bytes.
func TestRowRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringN(1, 8, -1)
		k := rapid.SampledFrom(Kinds).Draw(t, "kind")
		r := Row{ID: word.Draw(t, "id")}
		switch k {
		case NER:
			r.Tokens = rapid.SliceOfN(word, 1, 5).Draw(t, "tokens")
			r.Labels = make([]string, len(r.Tokens))
			for i := range r.Labels {
				r.Labels[i] = rapid.SampledFrom([]string{"O", "B-PER", "I-PER"}).Draw(t, "label")
			}
			r.Text = strings.Join(r.Tokens, " ")
		case QA:
			r.Question, r.Context = word.Draw(t, "question"), rapid.StringN(1, 30, -1).Draw(t, "context")
			runes := []rune(r.Context)
			from := rapid.IntRange(0, len(runes)).Draw(t, "from")
			r.Answers = &Answers{Text: []string{string(runes[from:])}, Start: []int{from}}
		case Acceptability:
			r.Text, r.Label = word.Draw(t, "text"), "incorrect"
			r.Corruption = &Corruption{"delete", []int{rapid.IntRange(0, 9).Draw(t, "index")}}
		default:
			r.Text, r.Label = word.Draw(t, "text"), word.Draw(t, "label")
		}
		line, err := r.AppendJSON(nil, k)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseRow(line, k)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%s: read %+v, error %v, written %+v", line, got, err, r)
		}
		if strings.ContainsRune(string(line), '\n') {
			t.Fatalf("line end in %q", line)
		}
	})
}

func FuzzParseRow(f *testing.F) {
	for _, e := range examples {
		f.Add(e.line, string(e.kind))
	}
	f.Fuzz(func(t *testing.T, line, kind string) {
		row, err := ParseRow([]byte(line), Kind(kind))
		if err != nil {
			return
		}
		out, err := row.AppendJSON(nil, Kind(kind))
		if err != nil {
			t.Fatalf("%q was read, but not written: %v", line, err)
		}
		again, err := ParseRow(out, Kind(kind))
		if err != nil {
			t.Fatalf("%q was written, but not read: %v", out, err)
		}
		second, err := again.AppendJSON(nil, Kind(kind))
		if err != nil || string(second) != string(out) {
			t.Fatalf("%q, then %q, error %v", out, second, err)
		}
	})
}
