package conllu

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// row makes a row from its first two columns and MISC.
func row(id, form, misc string) string {
	return id + "\t" + form + "\t_\tNOUN\t_\t_\t_\t_\t_\t" + misc + "\n"
}

const sample = "# sent_id = a-1\n# text = Hun gik ad\u2011hjem.\n" +
	"1-2\tHungik\t_\t_\t_\t_\t_\t_\t_\t_\n" +
	"1\tHun\thun\tPRON\t_\tCase=Nom\t2\tnsubj\t_\tname=O\n" +
	"2\tgik\tgå\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No|name=B-PER\n" +
	"2.1\tda\t_\t_\t_\t_\t_\t_\t2:x\t_\n" +
	"3\thjem .\thjem\tADV\t_\t_\t2\tadvmod\t_\tname=a=b\n\n" +
	"# plain comment\n1\tJa\tja\tINTJ\t_\t_\t0\troot\t_\t_\n\n"

func TestRead(t *testing.T) {
	all, err := ReadAll(strings.NewReader(sample), "a.conllu")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("%d sentences", len(all))
	}
	s := all[0]
	if s.ID() != "a-1" || s.Text() != "Hun gik ad\u2011hjem." || s.Line != 1 || all[1].Line != 9 || all[1].ID() != "" {
		t.Errorf("id %q, text %q, lines %d and %d", s.ID(), s.Text(), s.Line, all[1].Line)
	}
	if len(s.Rows) != 5 || s.Rows[0].Kind != Range || s.Rows[0].Last != 2 || s.Rows[3].Kind != Empty || s.Rows[3].Sub != 1 {
		t.Errorf("rows %+v", s.Rows)
	}
	words := s.Words()
	if len(words) != 3 || words[0].Form != "Hun" || words[2].Form != "hjem ." || words[1].Head != 0 || words[1].Line != 5 {
		t.Errorf("words %+v", words)
	}
	for i, want := range []string{"O", "B-PER", "a=b"} {
		if got, ok := words[i].MiscValue("name"); !ok || got != want {
			t.Errorf("name of word %d is %q", i+1, got)
		}
	}
	if _, ok := words[0].MiscValue("nam"); ok {
		t.Error("found a key that is only a prefix")
	}
	var out []byte
	for _, s := range all {
		out = s.AppendTo(out)
	}
	if string(out) != sample {
		t.Errorf("written again:\n%s", out)
	}
}

// What editors and operating systems do to line ends must not change a thing.
func TestReadTolerates(t *testing.T) {
	want, err := ReadAll(strings.NewReader(sample), "x")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"CRLF":                  strings.ReplaceAll(sample, "\n", "\r\n"),
		"no last blank line":    strings.TrimSuffix(sample, "\n"),
		"no last line end":      strings.TrimSuffix(sample, "\n\n"),
		"byte order mark":       "\ufeff" + sample,
		"CRLF without last end": strings.TrimSuffix(strings.ReplaceAll(sample, "\n", "\r\n"), "\r\n\r\n"),
	} {
		got, err := ReadAll(iotest.HalfReader(strings.NewReader(text)), "x")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: error %v, sentences\n%+v, want\n%+v", name, err, got, want)
		}
	}
	if got, err := ReadAll(strings.NewReader("\n\n"+strings.ReplaceAll(sample, "\n\n", "\n\n\n\n")), "x"); err != nil || len(got) != 2 {
		t.Errorf("more blank lines: %d sentences, error %v", len(got), err)
	}
	for _, text := range []string{"", "\n", "\r\n\r\n", "\ufeff"} {
		if got, err := ReadAll(strings.NewReader(text), "x"); err != nil || len(got) != 0 {
			t.Errorf("%q: %d sentences, error %v", text, len(got), err)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	ok := row("1", "a", "_")
	for name, test := range map[string]struct {
		text string
		line int
		msg  string
	}{
		"nine columns":         {ok + "2\tb\t_\t_\t_\t_\t_\t_\t_\n", 2, "9 columns instead of 10"},
		"eleven columns":       {"1\tb\t_\t_\t_\t_\t_\t_\t_\t_\t_\n", 1, "11 columns instead of 10"},
		"blanks, not tabs":     {"1 b _ _ _ _ _ _ _ _\n", 1, "separated by tabs"},
		"line of white space":  {ok + " \n", 2, "1 column instead of 10"},
		"empty column":         {"1\t\t_\t_\t_\t_\t_\t_\t_\t_\n", 1, "column 2 is empty"},
		"word left out":        {ok + row("3", "c", "_"), 2, "word number 3 after 1"},
		"word twice":           {ok + ok, 2, "word number 1 after 1"},
		"starts at two":        {row("2", "a", "_"), 1, "word number 2 after 0"},
		"letters":              {row("x", "a", "_"), 1, `"x" is no word number`},
		"leading zero":         {row("01", "a", "_"), 1, "no word number"},
		"sign":                 {row("+1", "a", "_"), 1, "no word number"},
		"huge":                 {row("99999999999999999999", "a", "_"), 1, "no word number"},
		"range turned round":   {row("2-1", "a", "_"), 1, "no word number"},
		"range late":           {ok + row("1-2", "ab", "_"), 2, "must stand before"},
		"range too long":       {row("1-3", "abc", "_") + ok + row("2", "b", "_"), 1, "beyond the last word"},
		"ranges overlap":       {row("1-3", "x", "_") + ok + row("2", "b", "_") + row("3-4", "y", "_") + row("3", "c", "_") + row("4", "d", "_"), 4, "overlaps"},
		"empty node misplaced": {ok + row("2.1", "e", "_"), 2, "empty node 2.1 after word 1"},
		"empty node number":    {ok + row("1.2", "e", "_"), 2, "where 1.1 is next"},
		"empty node zero":      {ok + row("1.0", "e", "_"), 2, "no word number"},
		"comment inside":       {ok + "# text = b\n" + ok, 2, "blank line"},
		"comments alone":       {"# text = b\n\n" + ok, 1, "without words"},
		"range alone":          {row("1-2", "x", "_"), 1, "without words"},
		"head out of range":    {"1\ta\t_\t_\t_\t_\t2\t_\t_\t_\n", 1, "has head 2"},
		"own head":             {"1\ta\t_\t_\t_\t_\t1\t_\t_\t_\n", 1, "has head 1"},
		"head no number":       {"1\ta\t_\t_\t_\t_\tx\t_\t_\t_\n", 1, `head "x"`},
		"head of a range":      {"1-2\ta\t_\t_\t_\t_\t0\t_\t_\t_\n" + ok + row("2", "b", "_"), 1, "must be _"},
		"Latin-1":              {ok + row("2", "bl\xe5", "_"), 2, "UTF-8"},
		"second sentence":      {ok + "\n\n# c\n" + row("2", "b", "_"), 5, "word number 2 after 0"},
		"endless line":         {"1\t" + strings.Repeat("x", maxLine), 1, "more than"},
	} {
		got, err := ReadAll(strings.NewReader(test.text), "bad.conllu")
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: error %v, sentences %v", name, err, got)
			continue
		}
		if syntax.Hint() == "" || syntax.File != "bad.conllu" || syntax.Line != test.line || !strings.Contains(syntax.Msg, test.msg) {
			t.Errorf("%s: %v, want line %d, %q", name, err, test.line, test.msg)
		}
	}
}

// endless gives the same bytes again and again, up to n of them.
type endless struct {
	text string
	at   int
	n    int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && e.n > 0 {
		k := copy(p[n:min(int64(len(p)), int64(n)+e.n)], e.text[e.at:])
		e.at = (e.at + k) % len(e.text)
		n, e.n = n+k, e.n-int64(k)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Two gigabytes in one line, and in one sentence, end in an error before they
// fill memory.
func TestBounded(t *testing.T) {
	for msg, text := range map[string]string{"line of more than": "x", "blank lines missing": "# comment\n"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadAll(&endless{text: text, n: 2 << 30}, "big.conllu")
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "big.conllu:1: ") || !strings.Contains(err.Error(), msg) {
			t.Errorf("error %v, want %q", err, msg)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 256<<20 {
			t.Errorf("%s: %d MiB allocated", msg, got>>20)
		}
	}
}

func TestReaderError(t *testing.T) {
	broken := errors.New("disk gone")
	r := NewReader(iotest.ErrReader(broken), "a")
	if r.Scan() || !errors.Is(r.Err(), broken) || r.Scan() {
		t.Errorf("error %v", r.Err())
	}
}

// All treebanks at hand are read, and written again byte for byte.
func TestRealTreebanks(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared")
	var files []string
	for _, pattern := range []string{"ud/*/*.conllu", "mirror/files/*/UniversalDependencies/*/*/*.conllu", "mirror/files/*/ltgoslo/norne/*/ud/*/*.conllu"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		if strings.Contains(os.Getenv("BENCH_TEST_REQUIRE"), "shared") {
			t.Fatal("BENCH_TEST_REQUIRE asks for treebanks, there are none")
		}
		t.Skip("no treebanks in " + root)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all, err := ReadAll(bytes.NewReader(b), f)
		if err != nil {
			t.Error(err)
			continue
		}
		var out []byte
		for _, s := range all {
			out = s.AppendTo(out)
		}
		if !bytes.Equal(bytes.TrimRight(out, "\n"), bytes.TrimRight(b, "\n")) {
			t.Errorf("%s: written again it differs", f)
		}
	}
}

// What is read can be written, and reads the same again; nothing makes the
// reader panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("\ufeff# a\r\n" + row("1", "a", "_")))
	f.Add([]byte(row("1-2", "x", "_") + row("1", "a", "_") + row("1.1", "e", "_") + row("2", "b", "_")))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := ReadAll(bytes.NewReader(b), "f")
		if err != nil {
			return
		}
		var out []byte
		for _, s := range first {
			out = s.AppendTo(out)
		}
		second, err := ReadAll(bytes.NewReader(out), "f")
		if err != nil {
			t.Fatalf("cannot read what was written: %v\n%q", err, out)
		}
		if len(first) != len(second) {
			t.Fatalf("%d sentences became %d", len(first), len(second))
		}
		var again []byte
		for _, s := range second {
			again = s.AppendTo(again)
		}
		if !bytes.Equal(out, again) {
			t.Fatalf("not stable:\n%q\n%q", out, again)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	text := []byte(strings.Repeat(sample, 2000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r := NewReader(bytes.NewReader(text), "x")
		for r.Scan() {
		}
		if r.Err() != nil {
			b.Fatal(r.Err())
		}
	}
}
