package raw

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

const names = `<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment -->
<corpus id="c">
 <text id="t">
  <sentence id="s1">
   <w pos="PM" lemma="|Anna|">Anna</w>
   <ne ex="ENAMEX" type="PRS"><name type="person"><w>Åse</w> <w> Vik </w></name></ne>
   <w>&amp;</w><w></w><w><![CDATA[<å>]]></w>
   <name type="place"><name type="person"><w>Nes</w></name><w>by</w></name><name type="work"><ne type="X"><w>Hav</w></ne></name>
  </sentence>
  <p><sentence id="s2"/></p>
 </text>
</corpus>
`

func readNames(r io.Reader) (all []NamedSentence, err error) {
	err = ReadNames(r, "f", func(s NamedSentence) error { all = append(all, s); return nil })
	return all, err
}

func TestReadNames(t *testing.T) {
	want := []NamedSentence{
		{5, "s1", []NamedWord{
			{6, "Anna", "", false}, {7, "Åse", "person", true}, {7, "Vik", "person", false},
			{8, "&", "", false}, {8, "<å>", "", false},
			{9, "Nes", "place", true}, {9, "by", "place", false}, {9, "Hav", "work", true},
		}},
		{11, "s2", nil},
	}
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(names), "byte by byte": iotest.OneByteReader(strings.NewReader(names)),
		"BOM": strings.NewReader("\ufeff" + names), "CRLF": strings.NewReader(strings.ReplaceAll(names, "\n", "\r\n")),
	} {
		got, err := readNames(r)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: error %v\n%+v, want\n%+v", name, err, got, want)
		}
	}
	stop := errors.New("enough")
	if err := ReadNames(strings.NewReader(names), "f", func(NamedSentence) error { return stop }); err != stop {
		t.Errorf("error %v", err)
	}
}

// A word is whole wherever the pieces end in which a file is read: the original
// loses those that a border of 32 KiB cuts.
func TestNoWordLost(t *testing.T) {
	for shift := range 40 {
		text := "<c>" + strings.Repeat(" ", 32<<10-30+shift) + "<sentence id=\"1\"><w>Högestads</w></sentence></c>"
		got, err := readNames(strings.NewReader(text))
		if err != nil || len(got) != 1 || len(got[0].Words) != 1 || got[0].Words[0].Text != "Högestads" {
			t.Fatalf("shift %d: %+v, error %v", shift, got, err)
		}
	}
}

func TestReadNamesErrors(t *testing.T) {
	// Each level tells ten of the one before: a billion laughs.
	bomb := "<!DOCTYPE c [\n<!ENTITY a \"ha\">\n"
	for i := 'b'; i < 'k'; i++ {
		bomb += fmt.Sprintf("<!ENTITY %c \"%s\">\n", i, strings.Repeat(fmt.Sprintf("&%c;", i-1), 10))
	}
	bomb += "]>\n<sentence id=\"1\"><w>&j;</w></sentence>"
	for name, test := range map[string]struct {
		text string
		line int
		msg  string
	}{
		"empty":             {"", 0, "no <sentence>"},
		"other XML":         {"<html>\n</html>\n", 0, "is it the right one"},
		"no XML":            {"Anna\tO\n", 0, "no <sentence>"},
		"cut in a word":     {names[:strings.Index(names, "Vik")+1], 7, "truncated"},
		"cut in a tag":      {names[:strings.Index(names, "lemma")+3], 6, "truncated"},
		"cut in an entity":  {names[:strings.Index(names, "&amp")+3], 8, "truncated"},
		"cut between":       {names[:strings.Index(names, "  <p>")], 11, "truncated"},
		"wrong end":         {"<c>\n<sentence id=\"1\">\n<w>a</x>", 3, "</x> closes what is not open"},
		"end alone":         {"<c></c>\n</c>", 2, "closes what is not open"},
		"crossed":           {"<c><sentence id=\"1\"><name type=\"place\"><w>a</name></w></sentence></c>", 1, "</name> closes"},
		"bomb":              {bomb, 12, "document type declaration"},
		"outer entity":      {"<!DOCTYPE c SYSTEM \"file:///etc/passwd\">\n<c/>", 1, "document type declaration"},
		"entity":            {"<c>\n<sentence id=\"1\"><w>&lol;</w></sentence></c>", 2, "entity"},
		"encoding":          {"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n<c/>", 1, "save the file as UTF-8"},
		"Latin-1":           {"<c>\n<sentence id=\"1\"><w>bl\xe5</w></sentence></c>", 2, "UTF-8"},
		"sentence inside":   {"<c>\n<sentence id=\"1\">\n<sentence id=\"2\"/>", 3, "inside the sentence of line 2"},
		"word outside":      {"<c>\n<w>a</w></c>", 2, "outside of a sentence"},
		"word in a word":    {"<c><sentence id=\"1\"><w>\n<w>a</w></w></sentence></c>", 2, "<w> inside a word"},
		"name without type": {"<c><sentence id=\"1\">\n<name><w>a</w></name></sentence></c>", 2, "<name> without a type"},
		"deep":              {strings.Repeat("<p>", 70), 1, "more than 64 elements"},
	} {
		got, err := readNames(strings.NewReader(test.text))
		wantSyntax(t, name, err, test.line, test.msg)
		if len(got) > 0 && name != "cut between" && !strings.HasPrefix(name, "no") && len(got) > 1 {
			t.Errorf("%s: %d sentences", name, len(got))
		}
	}
	if err := errors.New("disk gone"); true {
		if _, got := readNames(iotest.ErrReader(err)); !errors.Is(got, err) {
			t.Errorf("error %v", got)
		}
	}
}

// generator gives n bytes of text: head once, body again and again.
type generator struct {
	head, body string
	at         int
	n          int64
	end        string
	ended      bool
}

func (g *generator) Read(p []byte) (int, error) {
	n := copy(p, g.head)
	g.head = g.head[n:]
	for n < len(p) {
		if g.n <= 0 && g.at == 0 { // whole bodies only
			if g.ended {
				break
			}
			k := copy(p[n:], g.end)
			g.end, n = g.end[k:], n+k
			g.ended = g.end == ""
			if g.ended {
				break
			}
			continue
		}
		k := copy(p[n:], g.body[g.at:])
		g.at = (g.at + k) % len(g.body)
		n, g.n = n+k, g.n-int64(k)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Two gigabytes of one tag, one text, one comment, one word or one sentence end
// in an error before they fill memory.
func TestReadNamesBounded(t *testing.T) {
	for name, g := range map[string]*generator{
		"tag":       {head: "<", body: "x"},
		"attribute": {head: "<c a=\"", body: "x"},
		"text":      {head: "<c>", body: "x"},
		"comment":   {head: "<!--", body: "x"},
		"word":      {head: "<sentence id=\"1\"><w>", body: "x"},
		"pieces":    {head: "<sentence id=\"1\"><w>", body: "<!-- -->xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
		"sentence":  {head: "<sentence id=\"1\">", body: "<w>a</w>"},
		"elements":  {head: "", body: "<p>"},
		"directive": {head: "<!DOCTYPE ", body: "x"},
	} {
		g.n = 2 << 30
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readNames(g)
		runtime.ReadMemStats(&after)
		var s *SyntaxError
		if !errors.As(err, &s) || s.Line != 1 || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: error %v", name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 256<<20 {
			t.Errorf("%s: %d MiB allocated", name, got>>20)
		}
	}
}

// Whatever the file: no panic, an error is a *SyntaxError, and what is read is
// whole words in numbered lines.
func FuzzReadNames(f *testing.F) {
	f.Add([]byte(names))
	f.Add([]byte(names[:200]))
	f.Add([]byte("<c><sentence><name type=\"a\"><w>x</w></name></sentence></c>"))
	f.Add([]byte("<!DOCTYPE c [<!ENTITY a \"b\">]><c>&a;</c>"))
	f.Add([]byte("<?xml version=\"1.0\" encoding=\"latin1\"?><w/>"))
	f.Add([]byte("<?xml version=\"0\"?>0"))
	f.Add([]byte("<a:w xmlns:a=\"x\"></a:w><![CDATA["))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := ReadNames(strings.NewReader(string(b)), "f", func(s NamedSentence) error {
			for _, w := range s.Words {
				if w.Line < s.Line || w.Text == "" || w.First && w.Name == "" {
					t.Fatalf("%+v", s)
				}
			}
			return nil
		})
		if s := (*SyntaxError)(nil); err != nil && !errors.As(err, &s) {
			t.Fatalf("error %v", err)
		}
	})
}

// peak asks for the memory in use while it reads.
type peak struct {
	r     io.Reader
	calls int
	max   uint64
}

func (p *peak) Read(b []byte) (int, error) {
	if p.calls++; p.calls%256 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.max = max(p.max, m.HeapInuse+m.StackInuse)
	}
	return p.r.Read(b)
}

// Two gigabytes of XML, with all attributes of the real corpus: speed, and the
// most memory in use. It takes minutes; with -short a fortieth of it is read.
func BenchmarkReadNames(b *testing.B) {
	body := `<sentence id="c76a8be4-c76f87a3">
`
	for i, w := range []string{"Hon", "läste", "en", "mycket", "lång", "bok", "i", "Göteborg", "igår", "."} {
		w = fmt.Sprintf(`<w pos="NN" msd="NN.UTR.SIN.IND.NOM" lemma="|%s|" lex="|%s..nn.1|" ref="%d" dephead="%d" deprel="SS">%s</w>
`, w, w, i+1, i, w)
		if i == 7 {
			w = "<ne ex=\"ENAMEX\" type=\"LOC\"><name type=\"place\">\n" + w + "</name></ne>\n"
		}
		body += w
	}
	body += "</sentence>\n"
	size := int64(2 << 30)
	if testing.Short() {
		size /= 40
	}
	b.SetBytes(size)
	for b.Loop() {
		words := 0
		in := &peak{r: &generator{head: "<corpus>\n", body: body, n: size, end: "</corpus>\n"}}
		if err := ReadNames(in, "big.xml", func(s NamedSentence) error { words += len(s.Words); return nil }); err != nil {
			b.Fatal(err)
		}
		if want := (int(size) + len(body) - 1) / len(body) * 10; words != want {
			b.Fatalf("%d words, want %d", words, want)
		}
		b.ReportMetric(float64(in.max)/(1<<20), "peak-MiB")
	}
}
