package catalog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/recipes"
)

// write makes a folder with a catalogue and data files, and returns the path of
// the catalogue.
func write(t *testing.T, yaml string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["catalog.yaml"] = yaml
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "catalog.yaml")
}

// makeOne loads a catalogue of one data set and makes its rows.
func makeOne(t *testing.T, path string) (*recipes.Output, error) {
	t.Helper()
	all, err := Load(path)
	if err != nil {
		return nil, err
	}
	r := all[0]
	in := &recipes.Input{Recipe: &r}
	for _, s := range r.Sources {
		f, err := (&fetch.Fetcher{}).Fetch(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		in.Files = append(in.Files, f)
	}
	return r.Make(in)
}

// set writes the YAML of one data set.
func set(task, format, more string) string {
	return fmt.Sprintf("version: 1\ndatasets:\n  - name: mine\n    task: %s\n    languages: [da, nb-NO]\n    licence: private\n    format: %s\n%s", task, format, more)
}

const files = "    files: {train: train, val: val, test: test}\n"

// Every format and task, with the same three rows in each file but the labels.
func TestFormats(t *testing.T) {
	sentiment := datasets.Row{ID: "train-1", Text: "Den, her\ner \"god\" å", Label: "positive"}
	acceptable := datasets.Row{ID: "7", Text: "Hun sover nu.", Label: "correct"}
	question := datasets.Row{
		ID: "train-1", Question: "Hvor bor Åse?", Context: "😉 Åse bor i Vik.",
		Answers: &datasets.Answers{Text: []string{"Vik"}, Start: []int{12}},
	}
	unanswered := datasets.Row{ID: "train-2", Question: "Hvem?", Context: "Ingen.", Answers: &datasets.Answers{Text: []string{}, Start: []int{}}}
	named := datasets.Row{ID: "train-1", Tokens: []string{"Åse", "Vik", "bor", "i", "Nord", "Vik"}, Labels: []string{"B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC"}, Text: "Åse Vik bor i Nord Vik"}
	own := named
	own.ID, own.Text = "s-1", "Åse Vik bor i Nord Vik!"
	plain := named
	plain.Labels = []string{"B-PER", "B-PER", "O", "O", "B-LOC", "O"}

	conllu := "# sent_id = s-1\n# text = Åse Vik bor i Nord Vik!\n"
	for i, w := range named.Tokens {
		if i == 4 {
			conllu += "5-6\tNordVik\t_\t_\t_\t_\t_\t_\t_\tname=O\n"
		}
		conllu += fmt.Sprintf("%d\t%s\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|ner=%s|x=y\n", i+1, w, named.Labels[i])
	}
	squad := `{"data":[{"title":"t","paragraphs":[{"context":"😉 Åse bor i Vik.","qas":[{"id":"%s","question":"Hvor bor Åse?","answers":[{"text":"Vik","answer_start":12}]}]}]}]}`

	for name, test := range map[string]struct {
		yaml, train string
		want        []datasets.Row
	}{
		"csv sentiment": {
			set("sentiment", "csv", files+"    columns: {text: review, label: stars}\n    labels: {\"1\": negative, \"5\": positive}\n"),
			"stars,review\r\n5,\"Den, her\r\ner \"\"god\"\" å\"\r\n", []datasets.Row{sentiment},
		},
		"csv with a semicolon": {
			set("sentiment", "csv", files+"    separator: \";\"\n"),
			"text;label\n\"Den, her\ner \"\"god\"\" å\";positive\n", []datasets.Row{sentiment},
		},
		"tsv acceptability": {
			set("acceptability", "tsv", files+"    columns: {id: nr}\n    labels: {\"0\": incorrect, \"1\": correct}\n"),
			"nr\ttext\tlabel\n7\tHun sover nu.\t1\n", []datasets.Row{acceptable},
		},
		"jsonl acceptability": {
			set("acceptability", "jsonl", files+"    columns: {id: nr}\n    labels: {\"true\": correct}\n"),
			`{"text":"Hun sover nu.","label":true,"nr":7,"more":[1]}` + "\n", []datasets.Row{acceptable},
		},
		"csv qa": {
			set("qa", "csv", files),
			"question,context,answer,answer_start\nHvor bor Åse?,😉 Åse bor i Vik.,Vik,12\nHvem?,Ingen.,,\n", []datasets.Row{question, unanswered},
		},
		"jsonl qa": {
			set("qa", "jsonl", files),
			`{"question":"Hvor bor Åse?","context":"😉 Åse bor i Vik.","answers":{"text":["Vik"],"answer_start":[12]}}` + "\n" +
				`{"question":"Hvem?","context":"Ingen.","answers":{"text":[],"answer_start":[]}}`, []datasets.Row{question, unanswered},
		},
		"jsonl qa, flat": {
			set("qa", "jsonl", files+"    columns: {answer: svar}\n"),
			`{"question":"Hvor bor Åse?","context":"😉 Åse bor i Vik.","svar":"Vik","answer_start":12}` + "\n" +
				`{"question":"Hvem?","context":"Ingen.","svar":null}`, []datasets.Row{question, unanswered},
		},
		"squad": {set("qa", "squad", files), fmt.Sprintf(squad, "q1"), []datasets.Row{{
			ID: "q1", Question: question.Question, Context: question.Context, Answers: question.Answers}}},
		"jsonl ner": {
			set("ner", "jsonl", files+"    columns: {labels: ner_tags}\n"),
			`{"tokens":["Åse","Vik","bor","i","Nord","Vik"],"ner_tags":["B-PER","I-PER","O","O","B-LOC","I-LOC"]}`, []datasets.Row{named},
		},
		"conllu": {set("ner", "conllu", files+"    key: ner\n"), conllu, []datasets.Row{own}},
		"conll": {
			set("ner", "conll", files),
			"-DOCSTART- -X- O\n\nÅse X B-PER\nVik X I-PER\nbor X O\ni X O\nNord X B-LOC\nVik X I-LOC\n", []datasets.Row{named},
		},
		"conll, columns and labels": {
			set("ner", "conll", files+"    columns: {token: 2, tag: 3}\n    labels: {PERSON: PER, STED: LOC, TID: O, \"0\": O}\n"),
			"# id 1\n1\tÅse\tB-PERSON\tO\n2\tVik\tI-PERSON\tO\n3\tbor\t0\tO\n4\ti\tB-TID\tO\n5\tNord\tB-STED\tO\n6\tVik\tI-STED\tO\n", []datasets.Row{named},
		},
		"conll iob1": {
			set("ner", "conll", files+"    scheme: iob1\n"),
			"Åse I-PER\nVik B-PER\nbor O\ni O\nNord I-LOC\nVik O\n", []datasets.Row{plain},
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := test.train
			if strings.Contains(test.yaml, "id: nr") {
				other = strings.Replace(other, "7", "8", 1)
			}
			if name == "squad" {
				other = fmt.Sprintf(squad, "q2")
			}
			third := strings.NewReplacer("q2", "q3", "s-1", "s-3").Replace(other)
			if strings.Contains(test.yaml, "id: nr") {
				third = strings.Replace(other, "8", "9", 1)
			}
			out, err := makeOne(t, write(t, test.yaml, map[string]string{
				"train": test.train, "val": strings.Replace(other, "s-1", "s-2", 1), "test": third,
			}))
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Rows[datasets.Train]; !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v\nwant %+v", got, test.want)
			}
			if len(out.Rows[datasets.Val]) != len(test.want) || len(out.Rows[datasets.Test]) != len(test.want) {
				t.Errorf("%d val and %d test rows", len(out.Rows[datasets.Val]), len(out.Rows[datasets.Test]))
			}
		})
	}
}

func hundred() string {
	var b strings.Builder
	b.WriteString("text,label\n")
	for i := range 100 {
		fmt.Fprintf(&b, "tekst %d,neutral\n", i)
	}
	return b.String()
}

func TestFractions(t *testing.T) {
	single := write(t, set("sentiment", "csv", "    file: all.csv\n    split: {val: 0.1, test: 0.25, seed: 7}\n"), map[string]string{"all.csv": hundred()})
	out, err := makeOne(t, single)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range datasets.Splits {
		for _, r := range out.Rows[s] {
			if seen[r.ID] {
				t.Errorf("row %s is in two splits", r.ID)
			}
			seen[r.ID] = true
		}
	}
	if n := [3]int{len(out.Rows[datasets.Train]), len(out.Rows[datasets.Val]), len(out.Rows[datasets.Test])}; n != [3]int{65, 10, 25} || len(seen) != 100 {
		t.Errorf("sizes %v, %d ids", n, len(seen))
	}
	again, err := makeOne(t, single)
	if err != nil || !reflect.DeepEqual(again, out) {
		t.Errorf("another time other rows; error %v", err)
	}
	// A test file of its own, and val from train.
	out, err = makeOne(t, write(t, set("sentiment", "csv", "    files: {train: a, test: b}\n    split: {val: 0.2}\n"),
		map[string]string{"a": hundred(), "b": "text,label\nx,positive\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if n := [3]int{len(out.Rows[datasets.Train]), len(out.Rows[datasets.Val]), len(out.Rows[datasets.Test])}; n != [3]int{80, 20, 1} {
		t.Errorf("sizes %v", n)
	}
}

// A definition that changes the rows changes the recipe; a licence does not.
func TestDefinition(t *testing.T) {
	load := func(yaml string) recipes.Recipe {
		all, err := Load(write(t, yaml, map[string]string{}))
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	base := set("sentiment", "csv", "    file: a.csv\n    split: {val: 0.1, test: 0.1}\n")
	a, b := load(base), load(base+"    citation: somebody\n")
	if a.Definition != b.Definition || a.Definition == "" {
		t.Errorf("definitions %q and %q", a.Definition, b.Definition)
	}
	for _, other := range []string{
		strings.Replace(base, "0.1", "0.2", 1),
		base + "    labels: {a: b}\n",
		strings.Replace(base, "a.csv", "b.csv", 1),
	} {
		if load(other).Definition == a.Definition {
			t.Errorf("the same definition for\n%s", other)
		}
	}
	if r := load(base); r.Origin != recipes.Catalogue || !filepath.IsAbs(r.Sources[0].URL) || r.Seed != 4242 || len(r.Languages) != 2 {
		t.Errorf("%+v", r)
	}
	remote := load(strings.Replace(base, "a.csv", "{url: https://example.org/a.csv, sha256: "+strings.Repeat("ab", 32)+"}", 1))
	if s := remote.Sources[0]; s.URL != "https://example.org/a.csv" || s.SHA256 != strings.Repeat("ab", 32) {
		t.Errorf("%+v", s)
	}
}

// want checks that err is an *Error that has all these problems, in this order
// and no others: "LINE: part of the message".
func want(t *testing.T, err error, problems ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v", err)
	}
	if e.Hint() == "" {
		t.Error("no hint")
	}
	if len(e.Problems) != len(problems) {
		t.Errorf("%d problems, want %d:\n%v", len(e.Problems), len(problems), e)
		return
	}
	for i, p := range e.Problems {
		line, msg, _ := strings.Cut(problems[i], ": ")
		if fmt.Sprint(p.Line) != line || !strings.Contains(p.Msg, msg) {
			t.Errorf("problem %d: %v, want line %s, %q", i, p, line, msg)
		}
		if p.Remedy == "" || !strings.Contains(e.Error(), p.String()) {
			t.Errorf("problem without remedy, or not in the message: %v", p)
		}
	}
}

func TestStrict(t *testing.T) {
	_, err := Load(write(t, `version: 1
datasets:
  - name: My Reviews
    task: sentimental
    languages: [danish!]
    format: xls
    licence: private
    file: a.csv
    split: {val: 0.1, test: 2, sed: 1}
    colums: {text: x}
  - name: one
    task: ner
    languages: da
    licence: private
    format: csv
    file: a.csv
    split: {val: 0.1, test: 0.1}
  - name: two
    task: qa
    languages: [da]
    licence: private
    format: squad
    file: a.json
    files: {train: b.json, tset: c.json}
    columns: {id: nr}
    labels: {a: b}
    separator: ";"
  - name: two
    task: acceptability
    format: jsonl
    languages: [da]
    licence: private
    licence: private
    files: {train: a, val: b}
    columns: {txt: x}
    labels: {good: ok}
    scheme: bilou
  - just text
extra: 1
`, map[string]string{}))
	want(t, err,
		"3: \"My Reviews\" is no name",
		"4: no task \"sentimental\"",
		"5: \"danish!\" is no language code",
		"6: no format \"xls\"",
		"9: test \"2\" is no fraction",
		"9: split has no key \"sed\"",
		"10: no key \"colums\"",
		"15: format csv cannot hold data for ner",
		"24: files has no key \"tset\"",
		"24: both file and files",
		"25: squad has no columns",
		"26: questions have no labels",
		"27: key \"separator\" is for the format csv only",
		"28: the name \"two\" is taken by the data set in line 18",
		"33: key \"licence\" is there twice",
		"35: no column \"txt\"",
		"36: label \"good\" becomes \"ok\"",
		"37: no scheme \"bilou\"",
		"38: no mapping",
		"39: no key \"extra\"",
	)
	for name, test := range map[string]struct{ yaml, problem string }{
		"empty":         {"", "0: empty"},
		"no YAML":       {"version: 1\ndatasets: [a\n", "1: did not find"},
		"tabs":          {"version: 1\n\tdatasets: []\n", "2: "},
		"two documents": {"version: 1\ndatasets: []\n---\nversion: 1\n", "3: second YAML document"},
		"list":          {"- a\n", "1: no mapping"},
		"version":       {"version: 2\ndatasets: []\n", "1: version 2"},
		"no list":       {"version: 1\ndatasets: {}\n", "2: no list"},
		"no version":    {"datasets: []\n", "1: lacks the key \"version\""},
		"no files":      {set("sentiment", "csv", ""), "3: no files"},
		"no test":       {set("sentiment", "csv", "    files: {train: a, val: b}\n"), "3: no test rows"},
		"twice val":     {set("sentiment", "csv", files+"    split: {val: 0.1}\n"), "9: val has a file and a fraction"},
		"nothing left":  {set("sentiment", "csv", "    file: a\n    split: {val: 0.5, test: 0.5}\n"), "9: nothing for train"},
		"column word":   {set("ner", "conll", files+"    columns: {token: word}\n"), "9: no column number"},
		"sha256":        {set("ner", "conll", "    files: {train: {url: a, sha256: 12}, val: b, test: c}\n"), "8: no SHA-256"},
		"null":          {set("ner", "conll", "    file:\n    split: {val: 0.1, test: 0.1}\n"), "8: empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(write(t, test.yaml, map[string]string{}))
			want(t, err, test.problem)
		})
	}
	_, err = Load(filepath.Join(t.TempDir(), "none.yaml"))
	want(t, err, "0: no such file")
}

// Rows that do not fit are reported together, with the line of the data file.
func TestBadRows(t *testing.T) {
	for name, test := range map[string]struct {
		yaml, train string
		problems    []string
	}{
		"columns": {set("qa", "csv", files), "question,answer\nHvem?,ingen\n", []string{`1: no column "context"`, `1: no column "answer_start"`}},
		"labels": {set("sentiment", "csv", files+"    labels: {a: positive}\n"), "text,label\nx,a\ny,b\nz,\n",
			[]string{`3: label "b" is not mapped`, `4: label "" is not mapped`}},
		"no label":      {set("sentiment", "csv", files), "text,label\nx,\n", []string{"2: no label"}},
		"acceptability": {set("acceptability", "csv", files), "text,label\nx,good\n", []string{`2: label "good" is neither`}},
		"ids": {set("sentiment", "csv", files+"    columns: {id: nr}\n"), "nr,text,label\n1,x,a\n1,y,a\n,z,a\n",
			[]string{`3: the id "1" is taken by`, "4: the row has no id"}},
		"spans": {set("qa", "csv", files), "question,context,answer,answer_start\na,æøå,ø,2\nb,æøå,å,to\n",
			[]string{`2: answer "ø" is not at character 2`, `3: answer_start "to" is no number`}},
		"fields": {set("sentiment", "jsonl", files), "{\"text\":\"a\"}\n{\"label\":\"a\",\"txt\":1}\n", []string{`1: no field "label"`, `2: no field "text"`}},
		"types": {set("ner", "jsonl", files), `{"tokens":"Åse","labels":["O"]}` + "\n" + `{"tokens":["Åse"],"labels":["O","O"]}`,
			[]string{`1: field "tokens"`, "1: 1 labels for 0 tokens", "2: 2 labels for 1 tokens"}},
		"answers":  {set("qa", "jsonl", files), `{"question":"a","context":"abc","answers":{"text":["b"],"answer_start":[]}}`, []string{"1: 1 answer texts for 0 starts"}},
		"no start": {set("qa", "jsonl", files), `{"question":"a","context":"abc","answer":"b"}`, []string{"1: no answer_start"}},
		"tags": {set("ner", "conll", files), "Åse\tB-PER\nbor\tI-LOC\nher\tX\nnu\tB\n",
			[]string{`2: tag "I-LOC"`, `3: tag "X"`, `4: tag "B"`}},
		"types of entities": {set("ner", "conll", files+"    labels: {PER: PER}\n"), "Åse\tB-PER\nVik\tB-LOC\n", []string{`2: entity type "LOC" is not mapped`}},
		"tag column":        {set("ner", "conll", files+"    columns: {tag: 5}\n"), "Åse\tB-PER\n", []string{"1: the file has 2 columns"}},
		"key":               {set("ner", "conllu", files), "1\tÅse\t_\t_\t_\t_\t_\t_\t_\tner=O\n", []string{`1: no name=`, `1: tag ""`}},
		"empty":             {set("ner", "conll", files), "\n", []string{"0: no rows"}},
	} {
		t.Run(name, func(t *testing.T) {
			// The other two files have the right columns, and no rows to complain of.
			_, err := makeOne(t, write(t, strings.Replace(test.yaml, files, "    file: train\n    split: {val: 0.1, test: 0.1}\n", 1), map[string]string{"train": test.train}))
			want(t, err, test.problems...)
		})
	}
	// A file in quite another format ends the reading at once.
	for name, test := range map[string]struct{ yaml, train, msg string }{
		"csv":    {set("sentiment", "csv", files), "text,label\nx\n", "train:2: 1 fields"},
		"jsonl":  {set("sentiment", "jsonl", files), "text,label\n", "train:1: "},
		"conllu": {set("ner", "conllu", files), "Åse O\n", "train:1: 1 column"},
		"squad":  {set("qa", "squad", files), "[]", "train:1: no SQuAD file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := makeOne(t, write(t, test.yaml, map[string]string{"train": test.train, "val": test.train, "test": test.train}))
			if err == nil || !strings.Contains(err.Error(), test.msg) {
				t.Errorf("error %v", err)
			}
		})
	}
	many := "text,label\n" + strings.Repeat("x,b\n", 100)
	_, err := makeOne(t, write(t, set("sentiment", "csv", "    file: a\n    split: {val: 0.1, test: 0.1}\n    labels: {a: positive}\n"), map[string]string{"a": many}))
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) != maxProblems || e.More != 80 || !strings.Contains(e.Error(), "80 more") {
		t.Errorf("error %v", err)
	}
}

// SQuAD files that number questions alike still make unique ids.
func TestDoubledIDs(t *testing.T) {
	squad := `{"data":[{"paragraphs":[{"context":"ab","qas":[{"id":1,"question":"x","answers":[{"text":"a","answer_start":0}]}]}]}]}`
	out, err := makeOne(t, write(t, set("qa", "squad", files), map[string]string{"train": squad, "val": squad, "test": squad}))
	if err != nil {
		t.Fatal(err)
	}
	if id := out.Rows[datasets.Test][0].ID; id != "test-1-1" {
		t.Errorf("id %q", id)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(set("sentiment", "csv", files)))
	f.Add([]byte("a: &a [*a]\nversion: *a\n"))
	f.Add([]byte("version: 1\ndatasets:\n  - &x {name: a, <<: *x}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, problems := parse(b, "f")
		if len(problems) > 0 {
			return
		}
		for _, e := range entries {
			if _, err := e.recipe("."); err != nil {
				t.Fatal(err)
			}
		}
	})
}
