package scandiqa

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBeautifulSoup compares with what the original's parser makes of pages; see
// testdata/pages_html.py.
func TestBeautifulSoup(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "pages_html.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Pages []struct {
			HTML, Text string
			Paragraphs []string
		}
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	for _, p := range want.Pages {
		got, err := longAnswer([]byte(p.HTML), 0, len(p.HTML))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p.Text, got); diff != "" {
			t.Errorf("text of %.60q (-want +got):\n%s", p.HTML, diff)
		}
		texts, err := paragraphs([]byte(p.HTML))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Paragraphs) == 0 {
			p.Paragraphs = nil
		}
		if diff := cmp.Diff(p.Paragraphs, texts); diff != "" {
			t.Errorf("paragraphs of %.60q (-want +got):\n%s", p.HTML, diff)
		}
	}
}

func TestByteRange(t *testing.T) {
	html := []byte("<p>på æ</p><p>svar</p>") // the second paragraph begins at byte 13
	if got, err := longAnswer(html, 13, 24); err != nil || got != "svar" {
		t.Errorf("%q, %v", got, err)
	}
	for _, r := range [][2]int{{-2, 4}, {4, 2}, {0, 99}} {
		if _, err := longAnswer(html, r[0], r[1]); err == nil {
			t.Errorf("bytes %v of %d: no error", r, len(html))
		}
	}
}

// TestDeepPage checks that a page whose elements all lie in each other does not
// fill the memory.
func TestDeepPage(t *testing.T) {
	if _, err := paragraphs([]byte(strings.Repeat("<p>tekst ", 30_000))); err == nil {
		t.Error("no error")
	}
}

func FuzzPage(f *testing.F) {
	f.Add("<p>a<span>b</p>c</span>&amp;<script>x")
	f.Add("<table><tr><td><!-- </td></tr>")
	f.Fuzz(func(t *testing.T, page string) {
		if _, err := paragraphs([]byte(page)); err != nil {
			t.Skip(err)
		}
		if text := scan([]byte(page), nil); len(text) > 4*len(page) {
			t.Errorf("%d bytes of text in a page of %d", len(text), len(page))
		}
	})
}
