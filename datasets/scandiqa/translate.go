package scandiqa

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

// Translator is a translation service.
type Translator interface {
	// Name names service and model: what another one translated is not taken
	// for this one's.
	Name() string
	// Batch is how many texts one request may have.
	Batch() int
	// Translate translates each text, in order. from is "" if the language of the
	// texts is not known. Errors of the service are *Error; one of kind TooLong
	// says that the texts should be sent in smaller parts.
	Translate(ctx context.Context, texts []string, from, to Lang) ([]string, error)
}

// translated is a line of the store of translations.
type translated struct {
	By          string `json:"by"`
	From        Lang   `json:"from,omitempty"`
	To          Lang   `json:"to"`
	Text        string `json:"text"`
	Translation string `json:"translation"`
}

// memory is what was translated so far, in memory and on disk. All languages
// share it.
type memory struct {
	store *store
	by    Translator
	mu    sync.RWMutex
	known map[[sha256.Size]byte]string
	// parallel is how many requests are under way at a time.
	parallel int
}

func openMemory(ctx context.Context, dir string, by Translator, parallel int, log func(string, ...any)) (*memory, error) {
	m := &memory{by: by, known: map[[sha256.Size]byte]string{}, parallel: max(1, parallel)}
	s, err := openStore(ctx, filepath.Join(dir, "translations.jsonl"), log, func(line []byte) error {
		var t translated
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		m.known[memoryKey(t.By, t.From, t.To, t.Text)] = t.Translation
		return nil
	})
	m.store = s
	return m, err
}

func (m *memory) Close() error { return m.store.Close() }

func memoryKey(by string, from, to Lang, text string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%d %s %s %s %s", len(by), by, from, to, text))
}

// get returns a translation, and whether it is known.
func (m *memory) get(text string, from, to Lang) (string, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, ok := m.known[memoryKey(m.by.Name(), from, to, text)]
	return t, ok
}

// maxBatchBytes bounds the texts of one request together, well below what the
// services take. A longer text goes alone.
const maxBatchBytes = 20_000

// learn makes sure that all texts are known, asking for each at most once. What
// was answered before an error is kept. progress may be nil; its calls do not
// overlap.
func (m *memory) learn(ctx context.Context, texts []string, from, to Lang, progress func(done, total int)) error {
	var missing []string
	seen := map[string]bool{}
	for _, t := range texts {
		if _, ok := m.get(t, from, to); !ok && !seen[t] {
			seen[t] = true
			missing = append(missing, t)
		}
	}
	var batches [][]string
	for i := 0; i < len(missing); {
		n, size := 0, 0
		for i+n < len(missing) && n < m.by.Batch() && (n == 0 || size+len(missing[i+n]) <= maxBatchBytes) {
			size += len(missing[i+n])
			n++
		}
		batches = append(batches, missing[i:i+n])
		i += n
	}
	var mu sync.Mutex
	done := 0
	// After an error nothing new is asked, but what is under way, and charged,
	// comes to its end.
	var failed atomic.Bool
	var g errgroup.Group
	g.SetLimit(m.parallel)
	for _, batch := range batches {
		if failed.Load() || ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if _, err := m.ask(ctx, batch, from, to); err != nil {
				failed.Store(true)
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done += len(batch)
			if progress != nil {
				progress(done, len(missing))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// ask translates a batch, in parts where it is too long for the service, and
// writes down what comes.
func (m *memory) ask(ctx context.Context, batch []string, from, to Lang) ([]string, error) {
	got, err := m.by.Translate(ctx, batch, from, to)
	var e *Error
	switch {
	case err == nil && len(got) != len(batch):
		return nil, &Error{Kind: BadAnswer, Where: m.by.Name(), Detail: fmt.Sprintf("%d translations of %d texts", len(got), len(batch))}
	case err == nil:
		return got, m.keep(batch, got, from, to)
	case !errors.As(err, &e) || e.Kind != TooLong:
		return nil, err
	case len(batch) > 1:
		var all []string
		for _, half := range [][]string{batch[:len(batch)/2], batch[len(batch)/2:]} {
			got, err := m.ask(ctx, half, from, to)
			if err != nil {
				return nil, err
			}
			all = append(all, got...)
		}
		return all, nil
	}
	parts := pieces(batch[0])
	if len(parts) == 1 {
		return nil, err // not for its length
	}
	var whole strings.Builder
	for _, p := range parts {
		translation := p.text
		if strings.TrimSpace(p.text) != "" {
			if known, ok := m.get(p.text, from, to); ok {
				translation = known
			} else {
				got, err := m.ask(ctx, []string{p.text}, from, to)
				if err != nil {
					return nil, err
				}
				translation = got[0]
			}
		}
		whole.WriteString(translation + p.between)
	}
	got = []string{whole.String()}
	return got, m.keep(batch, got, from, to)
}

func (m *memory) keep(texts, translations []string, from, to Lang) error {
	records := make([]any, len(texts))
	for i := range texts {
		records[i] = translated{m.by.Name(), from, to, texts[i], translations[i]}
	}
	if err := m.store.add(records...); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range texts {
		m.known[memoryKey(m.by.Name(), from, to, texts[i])] = translations[i]
	}
	return nil
}

// part is a part of a text and what stands between it and the next one.
type part struct{ text, between string }

// pieceLength is what a text is cut into when nothing else helps, in characters.
const pieceLength = 500

var sentenceEnd = regexp.MustCompile(`[.!?]["')\]]*\s+`)

// pieces cuts a text that is too long for a service: at the line end nearest to
// the middle; without one, into sentences; and a single sentence into parts of
// 500 characters. No character is lost. Shorter texts stay whole.
func pieces(text string) []part {
	if utf8.RuneCountInString(text) <= pieceLength {
		return []part{{text, ""}}
	}
	if best := middleLine(text); best >= 0 {
		return []part{{text[:best], "\n"}, {text[best+1:], ""}}
	}
	var out []part
	rest := text
	for {
		at := sentenceEnd.FindStringIndex(rest)
		if at == nil || at[1] == len(rest) {
			break
		}
		end := at[0] + len(strings.TrimRightFunc(rest[at[0]:at[1]], isSpace))
		out = append(out, part{rest[:end], rest[end:at[1]]})
		rest = rest[at[1]:]
	}
	if len(out) > 0 {
		return append(out, part{rest, ""})
	}
	runes := []rune(text)
	for i := 0; i < len(runes); i += pieceLength {
		out = append(out, part{string(runes[i:min(i+pieceLength, len(runes))]), ""})
	}
	return out
}

// middleLine returns where the line end nearest to the middle is that has text
// on both sides, or -1.
func middleLine(text string) int {
	best, middle := -1, len(text)/2
	for i := range len(text) {
		if text[i] == '\n' && strings.TrimSpace(text[:i]) != "" && strings.TrimSpace(text[i:]) != "" &&
			(best < 0 || abs(i-middle) < abs(best-middle)) {
			best = i
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }
