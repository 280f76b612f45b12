package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bench/datasets/scandiqa"
)

// scandiQAServer speaks like DeepL and like OpenAI's embeddings. Translations
// have the English text in them. It refuses with "quota exceeded" after quota
// requests, if that is not 0; it shows the requests that it answered.
func scandiQAServer(t *testing.T) (url string, quota, answered *atomic.Int64) {
	quota, answered = &atomic.Int64{}, &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ Text, Input []string }
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		if q := quota.Load(); q > 0 && answered.Load() >= q {
			w.WriteHeader(456)
			return
		}
		answered.Add(1)
		var out []any
		for i, text := range append(ask.Text, ask.Input...) {
			out = append(out, map[string]any{"text": "På dansk: " + text, "index": i, "embedding": []int{1 + i%3, len(text)}})
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"translations": out, "data": out})
	}))
	t.Cleanup(s.Close)
	return s.URL, quota, answered
}

// scandiQASources writes a mirror with MKQA, and a folder of Natural Questions:
// enough questions for a whole data set.
func scandiQASources(t *testing.T) (mirror, nq string) {
	t.Helper()
	var mkqa, pages bytes.Buffer
	zm, zp := gzip.NewWriter(&mkqa), gzip.NewWriter(&pages)
	filler := strings.Repeat("Nothing else is known of it, and so the text goes on. ", 5)
	for i := range 3500 {
		name := fmt.Sprintf("Skipper %c%d", 'A'+i%26, i)
		answer := fmt.Sprintf(`[{"type":"entity","text":%q}]`, name)
		fmt.Fprintf(zm, `{"example_id":%d,"queries":{"da":"hvem sejlede båd %d","no":"hvem seilte båt %d","sv":"vem seglade båt %d"},"answers":{"en":%s,"da":%s,"no":%s,"sv":%s}}`+"\n",
			i, i, i, i, answer, answer, answer, answer)
		html := fmt.Sprintf("<p>Boat %d was sailed by %s. %s</p>", i, name, filler)
		start, end := 0, len(html)
		if i%100 == 0 { // chosen by similarity
			html += strings.Replace(html, "was", "is", 1)
			start, end = -1, -1
		}
		fmt.Fprintf(zp, `{"document_html":%q,"document_title":"Boat %d","example_id":%d,"question_text":"who sailed boat %d","annotations":[{"yes_no_answer":"NONE","long_answer":{"start_byte":%d,"end_byte":%d}}]}`+"\n",
			html, i, i, i, start, end)
	}
	if err := zm.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zp.Close(); err != nil {
		t.Fatal(err)
	}
	mirror, nq = t.TempDir(), t.TempDir()
	sum := sha256.Sum256(mkqa.Bytes())
	put(t, filepath.Join(mirror, "mkqa.jsonl.gz"), mkqa.String())
	put(t, filepath.Join(mirror, "index.json"), fmt.Sprintf(`{"version":1,"files":[{"url":%q,"path":"mkqa.jsonl.gz","sha256":%q,"bytes":%d}]}`,
		scandiqa.MKQAURL, hex.EncodeToString(sum[:]), mkqa.Len()))
	put(t, filepath.Join(nq, "nq-train-00.jsonl.gz"), pages.String())
	return mirror, nq
}

func TestScandiQA(t *testing.T) {
	url, quota, answered := scandiQAServer(t)
	mirror, nq := scandiQASources(t)
	p := newCLI(t)
	p.env = []string{"DEEPL_API_KEY=" + secret, "BENCH_MIRROR=" + mirror}
	services := []string{"--embeddings-url", url + "/v1", "--translator", "deepl", "--translator-url", url}

	r := p.run(exitPrecondition, "data", "build", "scandiqa-da")
	for _, want := range []string{"Natural Questions is needed", "embedding service is needed", "translation service is needed", "--from DIR", "--embeddings-url", "--translator deepl"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not in:\n%s", want, r.stderr)
		}
	}
	p.run(exitUsage, "data", "build", "dane", "--translator", "deepl")
	p.run(exitPrecondition, "data", "build", "scandiqa-da", "--translator", "bing")

	quota.Store(60)
	build := append([]string{"data", "build", "scandiqa-da", "--from", nq}, services...)
	r = p.run(exitPrecondition, build...)
	if !strings.Contains(r.stderr, "quota of characters is used up") || !strings.Contains(r.stderr, "nothing is lost") {
		t.Errorf("the quota is not named:\n%s", r.stderr)
	}
	if _, err := os.Stat(filepath.Join(p.home, "datasets", "scandiqa-da")); err == nil {
		t.Error("half a data set is under the final name")
	}

	// Ctrl-C in the middle, then a death without notice, then to the end; the
	// sources are not needed again.
	quota.Store(0)
	for sig, code := range map[os.Signal]int{os.Interrupt: exitInterrupted, os.Kill: -1} {
		c := p.command(append([]string{"data", "build", "scandiqa-da"}, services...)...)
		var errs bytes.Buffer
		c.Stderr = &errs
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for begun := answered.Load(); answered.Load() < begun+20; {
			time.Sleep(time.Millisecond)
		}
		if err := c.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); c.ProcessState.ExitCode() != code {
			t.Fatalf("%v: %v\n%s", sig, err, errs.String())
		}
	}
	r = p.run(exitOK, append([]string{"data", "build", "scandiqa-da"}, services...)...)
	if !strings.Contains(r.stdout, "scandiqa-da  1024/256/2048 rows") || strings.Contains(r.stdout+r.stderr, secret) {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	p.run(exitOK, "data", "verify", "scandiqa-da")

	// All of it again, and from an undisturbed build: the same bytes, nothing asked.
	before := answered.Load()
	again := p.run(exitOK, "data", "build", "scandiqa-da")
	if again.stdout != r.stdout || answered.Load() != before {
		t.Errorf("%d more requests: %s%s", answered.Load()-before, again.stdout, again.stderr)
	}
	p.run(exitOK, "data", "split", "scandiqa-da")
	if answered.Load() != before {
		t.Errorf("%d requests for dividing what is built", answered.Load()-before)
	}
	other := newCLI(t)
	other.env = p.env
	whole := other.run(exitOK, build...)
	if whole.stdout != r.stdout {
		t.Errorf("stopped and undisturbed builds differ:\n%s%s", r.stdout, whole.stdout)
	}
	// Only requests that were under way at the end of a process, four at most each
	// time, are made again.
	if n := answered.Load() - before; before > n+2*4 {
		t.Errorf("%d requests with three stops, %d without", before, n)
	}
}
