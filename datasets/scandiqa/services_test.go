package scandiqa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var quick = Patience{Tries: 3, Pause: time.Millisecond, Timeout: 5 * time.Second}

// fake is a server that speaks like DeepL, Google Translate, and OpenAI's chat
// and embeddings. It "translates" by putting the target language in front.
type fake struct {
	*httptest.Server
	mu sync.Mutex
	// translated counts how often each text was translated, by "lang text";
	// embedded how often each one was embedded.
	translated, embedded map[string]int
	requests             int
	// refuse, if set, may answer a request in place of the service.
	refuse func(n int, w http.ResponseWriter, r *http.Request, texts []string) bool
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{translated: map[string]int{}, embedded: map[string]int{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var ask struct {
		Text     []string
		Target   string `json:"target_lang"`
		Q        []string
		GTarget  string `json:"target"`
		Input    []string
		Messages []struct{ Content string }
	}
	if err := json.Unmarshal(body, &ask); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	texts := append(append(append([]string{}, ask.Text...), ask.Q...), ask.Input...)
	if len(ask.Messages) == 2 {
		texts = []string{ask.Messages[1].Content}
	}
	f.mu.Lock()
	f.requests++
	n, refuse := f.requests, f.refuse
	f.mu.Unlock()
	if refuse != nil && refuse(n, w, r, texts) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	translate := func(key string) []map[string]string {
		var out []map[string]string
		for _, text := range texts {
			lang := strings.ToLower(ask.Target + ask.GTarget)
			f.translated[lang+" "+text]++
			out = append(out, map[string]string{key: lang + ": " + text})
		}
		return out
	}
	var answer any
	switch r.URL.Path {
	case "/v2/translate":
		answer = map[string]any{"translations": translate("text")}
	case "/language/translate/v2":
		answer = map[string]any{"data": map[string]any{"translations": translate("translatedText")}}
	case "/v1/chat/completions":
		f.translated["chat "+texts[0]]++
		answer = map[string]any{"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": "chat: " + texts[0]}}}}
	case "/v1/embeddings":
		var data []any
		for i, text := range texts {
			f.embedded[text]++
			data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": bag(text)})
		}
		answer = map[string]any{"object": "list", "data": data}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

// bag is a vector that counts words: texts with the same words are near.
func bag(text string) []float32 {
	v := make([]float32, 64)
	v[0] = 0.01
	for _, w := range strings.Fields(strings.ToLower(text)) {
		h := 7
		for _, c := range w {
			h = (h*31 + int(c)) % 63
		}
		v[1+h]++
	}
	return v
}

func (f *fake) services() map[string]Translator {
	return map[string]Translator{
		"deepl":  &DeepL{URL: f.URL, Key: "secret", Patience: quick},
		"google": &Google{URL: f.URL, Key: "secret", Patience: quick},
		"chat":   &Chat{URL: f.URL + "/v1", Model: "m", Key: "secret", Patience: quick},
	}
}

func TestTranslators(t *testing.T) {
	f := newFake(t)
	f.refuse = func(_ int, w http.ResponseWriter, r *http.Request, _ []string) bool {
		// Each service takes its key in its own way, and never in the URL.
		want := map[string][2]string{
			"/v2/translate":          {"Authorization", "DeepL-Auth-Key secret"},
			"/language/translate/v2": {"X-Goog-Api-Key", "secret"},
			"/v1/chat/completions":   {"Authorization", "Bearer secret"},
		}[r.URL.Path]
		if r.Method != http.MethodPost || r.Header.Get(want[0]) != want[1] || r.URL.RawQuery != "" {
			http.Error(w, "wrong request", 400)
			return true
		}
		return false
	}
	for name, want := range map[string][]string{"deepl": {"nb: et", "nb: to"}, "google": {"no: et", "no: to"}, "chat": {"chat: et", "chat: to"}} {
		for _, from := range []Lang{English, ""} {
			got, err := f.services()[name].Translate(t.Context(), []string{"et", "to"}, from, Norwegian)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
	}
}

func TestServiceErrors(t *testing.T) {
	answer := func(status int, body string) func(int, http.ResponseWriter, *http.Request, []string) bool {
		return func(_ int, w http.ResponseWriter, _ *http.Request, _ []string) bool {
			w.WriteHeader(status)
			io.WriteString(w, body)
			return true
		}
	}
	for _, c := range []struct {
		name     string
		service  string
		refuse   func(int, http.ResponseWriter, *http.Request, []string) bool
		want     Kind
		requests int
	}{
		{"wrong key", "deepl", answer(403, "Forbidden"), Denied, 1},
		{"quota used up", "deepl", answer(456, `{"message":"Quota Exceeded"}`), Quota, 1},
		{"too many requests", "deepl", answer(429, ""), Busy, 3},
		{"out of order", "deepl", answer(503, ""), Unavailable, 3},
		{"too long", "deepl", answer(413, ""), TooLong, 1},
		{"no JSON", "deepl", answer(200, "<html>"), BadAnswer, 1},
		{"moved", "deepl", answer(404, ""), BadAnswer, 1},
		{"daily quota", "google", answer(403, `{"error":{"message":"Daily Limit Exceeded","errors":[{"reason":"dailyLimitExceeded"}]}}`), Quota, 1},
		{"rate", "google", answer(403, `{"error":{"errors":[{"reason":"userRateLimitExceeded"}]}}`), Busy, 3},
		{"wrong key", "google", answer(400, `{"error":{"message":"API key not valid.","details":[{"reason":"API_KEY_INVALID"}]}}`), Denied, 1},
		{"not allowed", "google", answer(403, `{"error":{"errors":[{"reason":"forbidden"}]}}`), Denied, 1},
		{"wrong key", "chat", answer(401, `{"error":{"message":"Incorrect API key"}}`), Denied, 1},
		{"no money", "chat", answer(429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`), Quota, 1},
		{"rate", "chat", answer(429, `{"error":{"message":"Rate limit","code":"rate_limit_exceeded"}}`), Busy, 3},
		{"too long", "chat", answer(400, `{"error":{"message":"maximum context length","code":"context_length_exceeded"}}`), TooLong, 1},
		{"cut off", "chat", answer(200, `{"choices":[{"finish_reason":"length","message":{"content":"halv"}}]}`), TooLong, 1},
		{"empty", "chat", answer(200, `{"choices":[{"finish_reason":"stop","message":{"content":" "}}]}`), BadAnswer, 1},
		{"no choices", "chat", answer(200, `{"choices":[]}`), BadAnswer, 1},
		{"no JSON", "chat", answer(502, "<html>Bad gateway</html>"), Unavailable, 3},
	} {
		t.Run(c.service+" "+c.name, func(t *testing.T) {
			f := newFake(t)
			f.refuse = c.refuse
			_, err := f.services()[c.service].Translate(t.Context(), []string{"tekst"}, English, Danish)
			var e *Error
			if !errors.As(err, &e) || e.Kind != c.want || e.Hint() == "" || e.Where == "" {
				t.Fatalf("%#v, want kind %q with a hint", err, c.want)
			}
			if f.requests != c.requests {
				t.Errorf("%d requests, want %d", f.requests, c.requests)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

// TestTransient checks that a service which fails twice, in each way there is,
// is asked a third time.
func TestTransient(t *testing.T) {
	for name, fail := range map[string]func(w http.ResponseWriter, r *http.Request){
		"429 with a time": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Retry-After", "0"); w.WriteHeader(429) },
		"500":             func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) },
		"hangs":           func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"breaks off":      func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		"breaks off later": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "99")
			w.Write([]byte("{"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.refuse = func(n int, w http.ResponseWriter, r *http.Request, _ []string) bool {
				if n <= 2 {
					fail(w, r)
				}
				return n <= 2
			}
			p := quick
			p.Timeout = 300 * time.Millisecond
			for _, tr := range []Translator{&DeepL{URL: f.URL, Key: "k", Patience: p}, &Chat{URL: f.URL + "/v1", Model: "m", Patience: p}} {
				f.requests = 0
				if _, err := tr.Translate(t.Context(), []string{"tekst"}, English, Danish); err != nil || f.requests != 3 {
					t.Errorf("%s: %v after %d requests", tr.Name(), err, f.requests)
				}
			}
		})
	}
}

// TestCancelled checks that Ctrl-C ends a wait at once.
func TestCancelled(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.refuse = func(_ int, w http.ResponseWriter, _ *http.Request, _ []string) bool {
		w.Header().Set("Retry-After", "200")
		w.WriteHeader(429)
		time.AfterFunc(10*time.Millisecond, cancel)
		return true
	}
	start := time.Now()
	_, err := (&DeepL{URL: f.URL, Key: "k"}).Translate(ctx, []string{"tekst"}, English, Danish)
	if !errors.Is(err, context.Canceled) || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

func TestEmbeddings(t *testing.T) {
	f := newFake(t)
	var texts []string
	for i := range 2*embedBatch + 3 {
		texts = append(texts, fmt.Sprint("ord ", i))
	}
	e := &Embeddings{URL: f.URL + "/v1", Patience: quick}
	got, err := e.Embed(t.Context(), texts)
	if err != nil || len(got) != len(texts) || f.requests != 3 {
		t.Fatalf("%d embeddings in %d requests, %v", len(got), f.requests, err)
	}
	for i, v := range got {
		if diff := cmp.Diff(bag(texts[i]), v); diff != "" {
			t.Fatalf("text %d: %s", i, diff)
		}
	}
	for name, body := range map[string]string{
		"one is missing": `{"data":[{"index":0,"embedding":[1,2]}]}`,
		"two of one":     `{"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}`,
		"no such text":   `{"data":[{"index":0,"embedding":[1,2]},{"index":7,"embedding":[1,2]}]}`,
		"other length":   `{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,2,3]}]}`,
		"zero":           `{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[0,0]}]}`,
		"empty":          `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`,
	} {
		f.refuse = func(_ int, w http.ResponseWriter, _ *http.Request, _ []string) bool {
			io.WriteString(w, body)
			return true
		}
		var bad *Error
		if _, err := e.Embed(t.Context(), []string{"a", "b"}); !errors.As(err, &bad) || bad.Kind != BadAnswer {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLongText checks that a text which a service finds too long is translated
// in pieces, none lost, and that other texts of its batch are not asked for
// again.
func TestLongText(t *testing.T) {
	f := newFake(t)
	f.refuse = func(_ int, w http.ResponseWriter, _ *http.Request, texts []string) bool {
		n := 0
		for _, text := range texts {
			n += len([]rune(text))
		}
		if n > 700 {
			w.WriteHeader(413)
		}
		return n > 700
	}
	m, err := openMemory(t.Context(), t.TempDir(), f.services()["deepl"], 2, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	lines := strings.Repeat("linje æøå\n", 100)
	sentences := strings.Repeat("En sætning til. ", 50) + "Slut"
	solid := strings.Repeat("æ", 1234)
	texts := []string{"kort", lines, sentences, solid, "kort", "også kort"}
	if err := m.learn(t.Context(), texts, English, Danish, nil); err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		got, _ := m.get(text, English, Danish)
		if strings.ReplaceAll(got, "da: ", "") != text {
			t.Errorf("%.40q became %.80q", text, got)
		}
	}
	f.mu.Lock()
	for text, n := range f.translated {
		if n > 1 {
			t.Errorf("%.40q was translated %d times", text, n)
		}
	}
	requests := f.requests
	f.mu.Unlock()
	if err := m.learn(t.Context(), texts, English, Danish, nil); err != nil || f.requests != requests {
		t.Errorf("%v, %d more requests for what is known", err, f.requests-requests)
	}
}

// TestShortTextRefused checks that a text of ordinary length is not cut up when
// a service refuses the request.
func TestShortTextRefused(t *testing.T) {
	f := newFake(t)
	f.refuse = func(_ int, w http.ResponseWriter, _ *http.Request, _ []string) bool {
		http.Error(w, "Value for 'target_lang' not supported.", 400)
		return true
	}
	m, err := openMemory(t.Context(), t.TempDir(), f.services()["deepl"], 1, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = m.learn(t.Context(), []string{"a b", "c d"}, English, Danish, nil)
	if err == nil || !strings.Contains(err.Error(), "not supported") || f.requests > 2 {
		t.Errorf("%v after %d requests", err, f.requests)
	}
}

func TestPieces(t *testing.T) {
	for _, text := range []string{
		"", "kort", strings.Repeat("x", 501), strings.Repeat("Ord. ", 200), strings.Repeat("a\n", 400), "\n\n" + strings.Repeat("å", 900) + "\n",
	} {
		whole := ""
		for _, p := range pieces(text) {
			whole += p.text + p.between
		}
		if whole != text {
			t.Errorf("%.20q: pieces make %.20q", text, whole)
		}
	}
}
