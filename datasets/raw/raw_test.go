package raw

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func wantSyntax(t *testing.T, name string, err error, line int, msg string) {
	t.Helper()
	var s *SyntaxError
	if !errors.As(err, &s) {
		t.Errorf("%s: error %v", name, err)
		return
	}
	if s.File != "f" || s.Line != line || !strings.Contains(s.Msg, msg) {
		t.Errorf("%s: %v, want line %d, %q", name, err, line, msg)
	}
}

func TestReadTable(t *testing.T) {
	for name, text := range map[string]string{
		"LF":   "a,b\n1,\"x, \"\"y\"\"\nz\"\n2,ø\n",
		"CRLF": "a,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n2,ø",
		"BOM":  "\ufeffa,b\n1,\"x, \"\"y\"\"\nz\"\n2,ø\n",
	} {
		got, err := ReadTable([]byte(text), "f", ',')
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []TableRow{{2, []string{"1", "x, \"y\"\nz"}}, {4, []string{"2", "ø"}}}
		if !reflect.DeepEqual(got.Rows, want) || !reflect.DeepEqual(got.Columns, []string{"a", "b"}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	tab, err := ReadTable([]byte("a\tb\n1\tc, d\n"), "f", '\t')
	if err != nil || tab.Rows[0].Values[1] != "c, d" {
		t.Errorf("%+v, error %v", tab, err)
	}
	if _, err := tab.Column("c"); err == nil || !strings.Contains(err.Error(), "a, b") {
		t.Errorf("error %v", err)
	}
	for name, test := range map[string]struct {
		text string
		line int
		msg  string
	}{
		"empty":       {"", 0, "empty"},
		"short":       {"a,b\n1,2\n3\n", 3, "1 fields, the header has 2"},
		"open quote":  {"a,b\n1,\"2\n", 2, "quote"},
		"stray quote": {"a,b\n1,x\"2\n", 2, "quote"},
		"twice":       {"a,a\n", 1, "twice"},
		"Latin-1":     {"a,b\n1,bl\xe5\n", 2, "UTF-8"},
	} {
		_, err := ReadTable([]byte(test.text), "f", ',')
		wantSyntax(t, name, err, test.line, test.msg)
	}
}

func TestReadLines(t *testing.T) {
	lines, err := ReadLines([]byte("\ufeff{\"a\":1}\r\n\n {\"a\":2}"), "f")
	if err != nil || len(lines) != 2 || lines[1].Number != 3 {
		t.Fatalf("%+v, error %v", lines, err)
	}
	var v struct {
		A int `json:"a"`
	}
	if err := lines[1].Decode("f", &v, true); err != nil || v.A != 2 {
		t.Errorf("%+v, error %v", v, err)
	}
	for text, msg := range map[string]string{
		`{"b":1}`:    "unknown field",
		`{"a":"x"}`:  `field "a" holds a JSON string`,
		`{"a":1`:     "truncated",
		`{"a":1}}`:   "more after",
		`{"a":1} {}`: "more after",
		`{"a":01}`:   "invalid character",
	} {
		lines, err := ReadLines([]byte("\n"+text), "f")
		if err != nil {
			t.Fatal(err)
		}
		wantSyntax(t, text, lines[0].Decode("f", &v, true), 2, msg)
	}
	_, err = ReadLines([]byte("{}\n\xff\n"), "f")
	wantSyntax(t, "bytes", err, 2, "UTF-8")
}

func TestReadArray(t *testing.T) {
	type element struct{ A int }
	got, lines, err := ReadArray[element]([]byte("[\n{\"a\":1},\n\n{\"a\":2}\n]\n"), "f")
	if err != nil || !reflect.DeepEqual(got, []element{{1}, {2}}) || !reflect.DeepEqual(lines, []int{2, 4}) {
		t.Errorf("%v at %v, error %v", got, lines, err)
	}
	if got, _, err := ReadArray[element]([]byte("[]"), "f"); err != nil || len(got) != 0 {
		t.Errorf("%v, error %v", got, err)
	}
	for name, test := range map[string]struct {
		text string
		line int
		msg  string
	}{
		"object":    {"{}", 1, "JSON array"},
		"unknown":   {"[{\"a\":1},\n{\"b\":1}]", 2, "unknown field"},
		"truncated": {"[{\"a\":1},\n{\"a\":", 2, "truncated"},
		"no end":    {"[{\"a\":1}\n", 2, "truncated"},
		"more":      {"[]\n[]", 1, "more after"},
		"syntax":    {"[\n{\"a\":x}]", 2, "invalid character"},
		"empty":     {"", 1, "truncated"},
	} {
		_, _, err := ReadArray[element]([]byte(test.text), "f")
		wantSyntax(t, name, err, test.line, test.msg)
	}
}

func TestReadColumns(t *testing.T) {
	want := []Block{
		{Line: 3, Rows: []BlockRow{{3, []string{"Anna", "B-PER"}}, {4, []string{"#", "O"}}}},
		{Line: 6, Comments: []string{"# id = 2"}, Rows: []BlockRow{{7, []string{"Ja", "O"}}}},
	}
	for name, text := range map[string]string{
		"tabs":   "-DOCSTART-\tO\n\nAnna\tB-PER\n#\tO\n\n# id = 2\nJa\tO\n",
		"blanks": "-DOCSTART- O\r\n\r\nAnna B-PER\r\n#  O\r\n\r\n# id = 2\r\nJa O",
	} {
		got, err := ReadColumns([]byte(text), "f")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
	}
	// A tab keeps blanks inside a field.
	got, err := ReadColumns([]byte("46 000\tO\n"), "f")
	if err != nil || got[0].Rows[0].Fields[0] != "46 000" {
		t.Errorf("%+v, error %v", got, err)
	}
	for name, test := range map[string]struct {
		text string
		line int
		msg  string
	}{
		"widths":         {"a\tO\n\nb\tO\tx\n", 3, "3 columns"},
		"comments alone": {"# one\n\na\tO\n", 1, "without a sentence"},
		"bytes":          {"a\tO\n\xff\tO\n", 2, "UTF-8"},
	} {
		_, err := ReadColumns([]byte(test.text), "f")
		wantSyntax(t, name, err, test.line, test.msg)
	}
}

const squad = `{"version": "v2.0", "data": [
{"title": "T", "paragraphs": [{"context": "Øen ligger i \ud83d\ude09 havet.", "qas": [
 {"id": 7, "question": "Hvor?", "answers": [{"text": "havet", "answer_start": 15, "answer_end": 20}]},
 {"id": "q-2", "question": "Hvem?", "answers": [], "is_impossible": true}]}]},
{"paragraphs": []}], "more": {"a": []}}
`

func TestReadSQuAD(t *testing.T) {
	got, err := ReadSQuAD([]byte(squad), "f")
	if err != nil {
		t.Fatal(err)
	}
	context := "Øen ligger i 😉 havet."
	want := []Question{
		{Line: 2, ID: "7", Title: "T", Context: context, Question: "Hvor?", Answers: []Answer{{"havet", 15}}},
		{Line: 2, ID: "q-2", Title: "T", Context: context, Question: "Hvem?", Impossible: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for name, test := range map[string]struct {
		text string
		line int
		msg  string
	}{
		"bytes":        {strings.Replace(squad, "15", "19", 1), 2, "code point 19"},
		"negative":     {strings.Replace(squad, "15", "-1", 1), 2, "code point -1"},
		"huge":         {strings.Replace(squad, "15", "9223372036854775807", 1), 2, "code point 9223372036854775807"},
		"no start":     {strings.Replace(squad, `"answer_start": 15, `, "", 1), 2, "no answer_start"},
		"no answer":    {strings.Replace(squad, `, "is_impossible": true`, "", 1), 2, "is_impossible"},
		"no id":        {strings.Replace(squad, `"id": 7, `, "", 1), 2, "no id"},
		"null id":      {strings.Replace(squad, `"id": 7`, `"id": null`, 1), 2, "no id"},
		"truncated":    {squad[:len(squad)-30], 5, "truncated"},
		"array":        {"[]", 1, "no SQuAD file"},
		"other":        {"{\"rows\": []}", 1, `no field "data"`},
		"data no list": {"{\n\"data\": {}}", 2, "no array"},
		"wrong type":   {strings.Replace(squad, `"Hvor?"`, "5", 1), 4, "JSON number"},
		"empty":        {"", 1, "truncated"},
	} {
		_, err := ReadSQuAD([]byte(test.text), "f")
		wantSyntax(t, name, err, test.line, test.msg)
	}
}

// Whatever the bytes, the readers end with a result or an error.
func FuzzReaders(f *testing.F) {
	f.Add([]byte(squad))
	f.Add([]byte("a,b\n1,\"x\ny\"\n"))
	f.Add([]byte("a\tO\n\n# c\nb\tO\n"))
	f.Add([]byte("[{\"A\":1},{\"A\":2}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ReadTable(b, "f", ',')
		ReadColumns(b, "f")
		ReadArray[struct{ A int }](b, "f")
		if lines, err := ReadLines(b, "f"); err == nil {
			for _, l := range lines {
				var v map[string]any
				l.Decode("f", &v, false)
			}
		}
		if questions, err := ReadSQuAD(b, "f"); err == nil {
			for _, q := range questions {
				for _, a := range q.Answers {
					if !IsSpan([]rune(q.Context), a.Text, a.Start) {
						t.Fatalf("%+v", q)
					}
				}
			}
		}
	})
}
