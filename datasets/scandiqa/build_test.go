package scandiqa

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"bench/datasets"
	"bench/datasets/recipes"
)

// filler makes a paragraph long enough to be a context.
const filler = " This sentence says nothing about anything, and it stands here so that the paragraph is longer than two hundred characters, which is what a paragraph must be to be a context at all; now it certainly is."

// mkqaRow is a question in the layout of MKQA, with answers as they are in
// English; "": none.
func mkqaRow(id int64, en, nordic string, question string) string {
	answer := func(text string) []any {
		if text == "" {
			return []any{map[string]any{"type": "unanswerable", "text": nil}}
		}
		return []any{map[string]any{"type": "entity", "entity": "Q1", "text": text, "aliases": []string{"x"}}, map[string]any{"type": "entity", "text": "second answer"}}
	}
	b, err := json.Marshal(map[string]any{
		"example_id": id, "query": "the question",
		"queries": map[string]any{"da": question, "no": question, "sv": question, "de": "frage"},
		"answers": map[string]any{"en": answer(en), "da": answer(nordic), "no": answer(nordic), "sv": answer(nordic), "de": answer("x")},
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// nqRow is an example in the layout of Natural Questions. long is the text of
// the long answer in the page, or "".
func nqRow(id int64, question, title, page, long, yesNo string) string {
	start := strings.Index(page, long)
	end := start + len(long)
	if long == "" {
		start, end = -1, -1
	}
	b, err := json.Marshal(map[string]any{
		"document_html": page, "document_title": title, "document_tokens": []any{map[string]any{"token": `"example_id": 5`, "html_token": false}},
		"example_id": id, "question_text": question,
		"annotations": []any{map[string]any{"annotation_id": 1, "yes_no_answer": yesNo, "long_answer": map[string]any{"start_byte": start, "end_byte": end, "candidate_index": 0}}},
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func writeGzip(t *testing.T, path string, lines []string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	for _, l := range lines {
		fmt.Fprintln(z, l)
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// small are sizes that the sources below suffice for.
var small = recipes.Sizes{Train: 8, Val: 4, Test: 6}

// sources writes MKQA and Natural Questions in two files: some questions of each
// kind, and further pages that belong to none.
func sources(t *testing.T) (mkqa, nq string) {
	t.Helper()
	dir := t.TempDir()
	var questions []string
	pages := [2][]string{}
	add := func(q, p string) {
		questions = append(questions, q)
		i := len(questions) % 2
		pages[i] = append(pages[i], p, nqRow(int64(900_000+len(questions)), "other", "Other", "<p>x</p>", "", "NONE"))
	}
	// 1: a long answer, with an answer in other letters.
	add(mkqaRow(1, "The Otto Hansen", "Otto Hansen", "hvem  byggede Møllen"),
		nqRow(1, "who built the mill", "Mill (building)", "<h1>æøå</h1><p>The mill was built by OTTO HANSEN[3] in 1901.</p>", "<p>The mill was built by OTTO HANSEN[3] in 1901.</p>", "NONE"))
	// 2: a date.
	add(mkqaRow(2, "1969-07-20", "1969-07-20", "hvornår var det "),
		nqRow(2, "when was it", "Landing", "<p>It was on july 20, 1969 that it came down.</p>", "<p>It was on july 20, 1969 that it came down.</p>", "NONE"))
	// 3: no long answer; the nearest of the paragraphs with the longest candidate.
	add(mkqaRow(3, "Vestby", "Vestby", "hvor ligger fabrikken?"),
		nqRow(3, "where is the factory", "Factory", "<p>Vestby is a town."+filler+"</p><p>The factory where cups are made is in Vestby: where is the factory."+filler+"</p><p>where is the factory where is the factory."+filler+"</p><p>Vestby: where is the factory</p>", "", "NONE"))
	// 4: neither long answer nor answer: unanswerable, kept but not drawn.
	add(mkqaRow(4, "", "", "hvad er meningen"),
		nqRow(4, "what is the point", "Point", "<p>Other things."+filler+"</p><span>what is the point, what is it."+filler+"</span>", "", "NONE"))
	// 5: yes.
	add(mkqaRow(5, "yes", "ja", "er det sådan"), nqRow(5, "is it so", "So", "<p>It is so.</p>", "<p>It is so.</p>", "YES"))
	// 6: an answer, but no paragraph has it.
	add(mkqaRow(6, "Nowhere", "Ingensteds", "hvor er det"), nqRow(6, "where is it", "It", "<p>Everywhere."+filler+"</p>", "", "NONE"))
	// 7: the answer gets lost in the translation.
	add(mkqaRow(7, "Brown", "Brun", "hvilken farve"), nqRow(7, "which colour", "Colour", "<p>Its colour is dark.</p>", "<p>Its colour is dark.</p>", "NONE"))
	// 8: the answer is the title.
	add(mkqaRow(8, "Cable layer", "Cable layer", "hvilket lag er det"),
		nqRow(8, "which layer", "Cable layer", "<p>It is the lowest of all that there are.</p>", "<p>It is the lowest of all that there are.</p>", "NO"))
	// 9: a context that is too short to be drawn.
	add(mkqaRow(9, "Bo", "Bo", "hvem er kort her"), nqRow(9, "who", "Bo", "<p>Bo!</p>", "<p>Bo!</p>", "NONE"))
	for i := int64(10); i < 30; i++ {
		name := fmt.Sprintf("Person%d", i)
		text := fmt.Sprintf("<p>The boat number %d was sailed by %s for many years.</p>", i, name)
		add(mkqaRow(i, name, name, fmt.Sprintf("hvem sejlede båden med nummer %d", i)), nqRow(i, "who sailed", fmt.Sprintf("Boat %d", i), "<h1>Boat</h1>"+text, text, "NONE"))
	}
	mkqa = filepath.Join(dir, "mkqa.jsonl.gz")
	writeGzip(t, mkqa, questions)
	nq = filepath.Join(dir, "nq")
	if err := os.Mkdir(nq, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, p := range pages {
		writeGzip(t, filepath.Join(nq, fmt.Sprintf("nq-train-%02d.jsonl.gz", i)), p)
	}
	return mkqa, nq
}

func builder(t *testing.T, f *fake) *Builder {
	t.Helper()
	mkqa, nq := sources(t)
	return &Builder{
		Dir: filepath.Join(t.TempDir(), "state"), MKQA: mkqa, NaturalQuestions: nq,
		Embedder:   &Embeddings{URL: f.URL + "/v1", Patience: quick},
		Translator: f.services()["deepl"], Parallel: 2,
	}
}

// once fails if a service was asked for anything twice.
func (f *fake) once(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for text, n := range f.translated {
		if n > 1 {
			t.Errorf("%.60q was translated %d times", text, n)
		}
	}
	for text, n := range f.embedded {
		if n > 1 && !strings.HasPrefix(text, "w") { // two questions may be the same words
			t.Errorf("%.60q was embedded %d times", text, n)
		}
	}
}

func stateRows(t *testing.T, b *Builder, lang Lang) map[string]row {
	t.Helper()
	f, err := os.Open(filepath.Join(b.Dir, "rows-"+string(lang)+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := map[string]row{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var r row
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows[r.ID] = r
	}
	return rows
}

func TestBuild(t *testing.T) {
	f := newFake(t)
	b := builder(t, f)
	out, err := b.Build(t.Context(), Danish, small, 4242)
	if err != nil {
		t.Fatal(err)
	}
	rows := stateRows(t, b, Danish)
	third := "The factory where cups are made is in Vestby: where is the factory." + filler
	fourth := "what is the point, what is it." + filler
	for id, want := range map[string]row{
		"1": {"1", "Hvem byggede møllen?", "Mill (building)\nda: The mill was built by OTTO HANSEN in 1901.", "OTTO HANSEN", 42, "Mill (building)", "The mill was built by OTTO HANSEN in 1901.", "OTTO HANSEN"},
		"2": {"2", "Hvornår var det?", "Landing\nda: It was on july 20, 1969 that it came down.", "july 20, 1969", 22, "Landing", "It was on july 20, 1969 that it came down.", "july 20, 1969"},
		"3": {"3", "Hvor ligger fabrikken?", "Factory\nda: " + third, "Vestby", 50, "Factory", third, "Vestby"},
		"4": {"4", "Hvad er meningen?", "Point\nda: " + fourth, "", -1, "Point", fourth, ""},
		"8": {"8", "Hvilket lag er det?", "Cable layer\nda: It is the lowest of all that there are.", "Cable layer", 0, "Cable layer", "It is the lowest of all that there are.", ""},
	} {
		if diff := cmp.Diff(want, rows[id]); diff != "" {
			t.Errorf("question %s (-want +got):\n%s", id, diff)
		}
	}
	for _, id := range []string{"5", "6", "7"} {
		if r, ok := rows[id]; ok {
			t.Errorf("question %s should have been left out: %+v", id, r)
		}
	}
	seen := map[string]bool{}
	for s, n := range map[datasets.Split]int{datasets.Train: small.Train, datasets.Val: small.Val, datasets.Test: small.Test} {
		if len(out.Rows[s]) != n {
			t.Errorf("%s has %d rows, want %d", s, len(out.Rows[s]), n)
		}
		for _, r := range out.Rows[s] {
			if seen[r.ID] || r.ID == "4" || r.ID == "9" {
				t.Errorf("row %s is drawn twice, or should not be drawn", r.ID)
			}
			seen[r.ID] = true
			line, err := r.AppendJSON(nil, datasets.QA)
			if err == nil {
				_, err = datasets.ParseRow(line, datasets.QA)
			}
			if err != nil {
				t.Errorf("row %s: %v", r.ID, err)
			}
		}
	}
	want := "29 questions of MKQA: 1 left out as yes questions, 1 without context, 1 whose answer is not in the translated context; 1 unanswerable, not drawn; 25 answerable, 1 of them not drawn for their length"
	if out.Notes[0] != want {
		t.Errorf("note %q, want %q", out.Notes[0], want)
	}
	f.once(t)

	// The same again asks nobody, needs Natural Questions no more, and gives the
	// same; on one processor, too.
	before := f.requests
	if err := os.RemoveAll(b.NaturalQuestions); err != nil {
		t.Fatal(err)
	}
	b.NaturalQuestions = ""
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	again, err := b.Build(t.Context(), Danish, small, 4242)
	if err != nil || f.requests != before {
		t.Fatalf("%v, %d more requests", err, f.requests-before)
	}
	if diff := cmp.Diff(out, again); diff != "" {
		t.Errorf("built twice:\n%s", diff)
	}

	// Another language shares what does not depend on it.
	embedded := maps.Clone(f.embedded)
	if _, err := b.Build(t.Context(), Swedish, small, 4242); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(embedded, f.embedded); diff != "" {
		t.Errorf("embedded again for another language:\n%s", diff)
	}
	f.once(t)
}

func TestPlainAnswers(t *testing.T) {
	f := newFake(t)
	b := builder(t, f)
	b.PlainAnswers = true
	if _, err := b.Build(t.Context(), Norwegian, small, 4242); err != nil {
		t.Fatal(err)
	}
	if len(f.translated) != 27 { // one context for each of 29 questions but two
		t.Errorf("%d texts were translated, want 27: %q", len(f.translated), slices.Collect(maps.Keys(f.translated)))
	}
}

// TestInterrupted stops a build at each of its requests in turn, in each way
// there is, and goes on: nothing that was answered is asked for again, and the
// result is that of an undisturbed build.
func TestInterrupted(t *testing.T) {
	undisturbed := newFake(t)
	b := builder(t, undisturbed)
	b.Parallel = 1
	want, err := b.Build(t.Context(), Danish, small, 4242)
	if err != nil {
		t.Fatal(err)
	}
	for name, stop := range map[string]struct {
		do   func(cancel func(), w http.ResponseWriter) bool
		want func(error) bool
	}{
		"quota": {
			func(_ func(), w http.ResponseWriter) bool { w.WriteHeader(456); return true },
			func(err error) bool {
				var e *Error
				return errors.As(err, &e) && (e.Kind == Quota && strings.Contains(e.Hint(), "nothing is lost") || e.Where != "DeepL")
			},
		},
		// The process dies when the answer is under way: the request may be charged
		// again, which no client can help.
		"killed": {
			func(cancel func(), w http.ResponseWriter) bool { cancel(); return true },
			func(err error) bool { return errors.Is(err, context.Canceled) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			b := builder(t, f)
			b.Parallel = 1
			stopped := 0
			for at := 1; ; at++ {
				ctx, cancel := context.WithCancel(t.Context())
				n := 0
				f.refuse = func(_ int, w http.ResponseWriter, _ *http.Request, _ []string) bool {
					// One request gets through in each run; the next is the last.
					if n++; n == 2 {
						return stop.do(cancel, w)
					}
					return false
				}
				got, err := b.Build(ctx, Danish, small, 4242)
				cancel()
				if err == nil {
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("after %d stops (-undisturbed +stopped):\n%s", stopped, diff)
					}
					break
				}
				if stopped++; !stop.want(err) || stopped > 100 {
					t.Fatalf("stop %d: %v", stopped, err)
				}
				if err := appendTorn(b.Dir, at); err != nil {
					t.Fatal(err)
				}
			}
			if stopped < 3 {
				t.Errorf("stopped %d times only", stopped)
			}
			f.once(t)
		})
	}
}

// appendTorn leaves what a process leaves that dies while it writes.
func appendTorn(dir string, n int) error {
	name := []string{"translations.jsonl", "choices.jsonl"}[n%2]
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(`{"by":"deepl","te`)
	return errors.Join(err, f.Close())
}

func TestDamagedStore(t *testing.T) {
	f := newFake(t)
	b := builder(t, f)
	if _, err := b.Build(t.Context(), Danish, small, 4242); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"translations.jsonl", "choices.jsonl"} {
		path := filepath.Join(b.Dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, slices.Concat([]byte("\x00\x00\n"), whole), 0o666); err != nil {
			t.Fatal(err)
		}
		var e *Error
		if _, err := b.Build(t.Context(), Danish, small, 4242); !errors.As(err, &e) || e.Kind != BadState || e.Where != path+":1" || e.Hint() == "" {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	state := b.pagesFile(filepath.Join(b.NaturalQuestions, "nq-train-00.jsonl.gz"))
	if err := os.Truncate(state, 100); err != nil {
		t.Fatal(err)
	}
	b.NaturalQuestions = ""
	var e *Error
	if _, err := b.Build(t.Context(), Danish, small, 4242); !errors.As(err, &e) || e.Kind != BadState || e.Where != state {
		t.Errorf("%v", err)
	}
}

func TestNeeds(t *testing.T) {
	_, err := (&Builder{Dir: t.TempDir()}).Build(t.Context(), Danish, small, 1)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Natural Questions", "embedding service", "translation service"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
	f := newFake(t)
	b := builder(t, f)
	b.MKQA = "/nowhere/mkqa.jsonl.gz"
	var e *Error
	if _, err := b.Build(t.Context(), Danish, small, 1); !errors.As(err, &e) || e.Kind != NoSource {
		t.Errorf("%v", err)
	}
	b = builder(t, f)
	b.NaturalQuestions = t.TempDir()
	if _, err := b.Build(t.Context(), Danish, small, 1); !errors.As(err, &e) || e.Kind != NoSource || !strings.Contains(e.Hint(), "--from") {
		t.Errorf("%v", err)
	}
	b = builder(t, f)
	if err := os.Remove(filepath.Join(b.NaturalQuestions, "nq-train-01.jsonl.gz")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Build(t.Context(), Danish, small, 1); !errors.As(err, &e) || e.Kind != Incomplete {
		t.Errorf("%v", err)
	}
	b = builder(t, f)
	if _, err := b.Build(t.Context(), Danish, recipes.Sizes{Train: 1024, Val: 256, Test: 2048}, 1); !errors.As(err, &e) || e.Kind != TooFew {
		t.Errorf("%v", err)
	}
}

func TestBadSources(t *testing.T) {
	good := mkqaRow(1, "a", "b", "c")
	for name, c := range map[string]struct{ lines, where string }{
		"empty":       {"", ":1: the file is empty"},
		"no JSON":     {good + "\n{", ":2: no question"},
		"no id":       {`{"queries":{}}`, ":1: no question"},
		"doubled":     {good + "\n" + good, ":2: example_id 1 is taken by line 1"},
		"no Danish":   {strings.ReplaceAll(good, `"da"`, `"xx"`), `language "da"`},
		"not UTF-8":   {"{\"a\":\"\xff\"}", ":1: not valid UTF-8"},
		"no answers":  {strings.ReplaceAll(good, `"text":"b"`, `"txet":"b"`) + "\n[]", ":2: no question"},
		"wrong types": {`{"example_id":"1"}`, ":1: no question"},
	} {
		path := filepath.Join(t.TempDir(), "mkqa.jsonl")
		if err := os.WriteFile(path, []byte(c.lines), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readMKQA(path); err == nil || !strings.Contains(err.Error(), c.where) {
			t.Errorf("MKQA, %s: %v", name, err)
		}
	}

	line := nqRow(1, "q", "T", "<p>long</p>", "long", "NONE")
	for name, c := range map[string]struct{ line, want string }{
		"no JSON":      {`{"example_id":1,`, ":2: no example"},
		"no id":        {`{"document_html":"x"}`, "no example_id"},
		"simplified":   {`{"example_id":1,"document_text":"x","annotations":[{}]}`, "simplified release"},
		"test split":   {`{"example_id":1,"document_html":"x","annotations":[]}`, "test split"},
		"wrong range":  {strings.Replace(line, `"end_byte":7`, `"end_byte":77`, 1), "example 1: the long answer is at bytes 3 to 77 of a page of 11 bytes"},
		"nested pages": {nqRow(1, "q", "T", strings.Repeat("<p>tekst ", 30_000), "", "NONE"), "lie in each other"},
	} {
		path := filepath.Join(t.TempDir(), "nq.jsonl")
		if err := os.WriteFile(path, []byte(nqRow(7, "q", "T", "x", "", "NONE")+"\n"+c.line+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		_, _, err := readNaturalQuestions(t.Context(), path, map[int64]bool{1: true})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ":2: ") {
			t.Errorf("Natural Questions, %s: %v", name, err)
		}
	}

	// A download that broke off, and a line without end.
	path := filepath.Join(t.TempDir(), "nq.jsonl.gz")
	writeGzip(t, path, slices.Repeat([]string{line}, 2000))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()/2); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if _, _, err := readNaturalQuestions(t.Context(), path, nil); !errors.As(err, &e) || e.Kind != BadSource || !strings.Contains(e.Detail, "too early") {
		t.Errorf("%v", err)
	}
	l, err := openLines(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.limit = 100
	if _, err := l.next(); !errors.As(err, &e) || !strings.Contains(e.Detail, "longer than 100") {
		t.Errorf("%v", err)
	}
}

// TestTwoAtOnce builds two languages at the same time: they share state, and
// nothing is asked twice.
func TestTwoAtOnce(t *testing.T) {
	f := newFake(t)
	b := builder(t, f)
	var waited atomic.Bool
	b.Log = func(format string, _ ...any) {
		if strings.HasPrefix(format, "waiting") {
			waited.Store(true)
		}
	}
	held, err := openMemory(t.Context(), b.Dir, b.Translator, 1, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	for _, lang := range []Lang{Danish, Swedish} {
		g.Go(func() error {
			_, err := b.Build(t.Context(), lang, small, 4242)
			return err
		})
	}
	for !waited.Load() {
		time.Sleep(time.Millisecond)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	f.once(t)
}

// BenchmarkNaturalQuestions reads pages that no question wants: MB/s of unpacked
// JSON.
func BenchmarkNaturalQuestions(b *testing.B) {
	path := filepath.Join(b.TempDir(), "nq-train-00.jsonl")
	line := nqRow(2, "q", "T", strings.Repeat("<p>side om en by ved vandet</p>", 1<<15), "", "NONE") + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 32)), 0o666); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(32 * len(line)))
	for b.Loop() {
		if _, _, err := readNaturalQuestions(b.Context(), path, map[int64]bool{1: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPage takes a page apart: MB/s of HTML.
func BenchmarkPage(b *testing.B) {
	page := []byte(strings.Repeat("<div><p>En by ved <b>vandet</b>, som er <a href='#x'>gammel</a>."+filler+"</p></div>", 2000))
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if _, err := paragraphs(page); err != nil {
			b.Fatal(err)
		}
	}
}

// TestStreaming checks that the memory that reading takes does not grow with the
// file: 256 MB of pages that no question wants.
func TestStreaming(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nq-train-00.jsonl.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(nqRow(2, "q", "T", strings.Repeat("<p>side</p>", 1<<20/8), "", "NONE") + "\n")
	for range 256 << 20 / len(line) {
		if _, err := z.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := readNaturalQuestions(t.Context(), path, map[int64]bool{1: true}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
		t.Errorf("reading 256 MB took %d bytes of memory", got)
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(nqRow(1, "q", "T", "<p>long</p>", "long", "NONE")))
	f.Add([]byte(`{"example_id": 5, "annotations":[{"long_answer":{"start_byte":-5,"end_byte":3}}],"document_html":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := parsePage(line)
		if id, ok := exampleID(line); err == nil && ok && id != p.ID && strings.Count(string(line), "example_id") == 1 {
			t.Errorf("id %d found, %d read", id, p.ID)
		}
	})
}
