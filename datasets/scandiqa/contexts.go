package scandiqa

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// passage is an English context and its question.
type passage struct {
	id             int64
	title, context string
}

// fate counts what became of the questions.
type fate struct {
	Questions    int `json:"questions"`
	Yes          int `json:"yes"`           // the answer is "yes"
	NoParagraph  int `json:"no_paragraph"`  // there is no context
	NoAnswer     int `json:"no_answer"`     // the answer is not in the translation
	Unanswerable int `json:"unanswerable"`  // kept, though the benchmark does not draw them
	Answerable   int `json:"answerable"`    // kept
	WrongLength  int `json:"wrong_length"`  // answerable, but not drawn for its length
	FromLong     int `json:"long_answers"`  // contexts that are long answers
	FromChoice   int `json:"by_similarity"` // contexts that were chosen by similarity
}

// chosen is a line of the store of choices.
type chosen struct {
	Key    string  `json:"key"` // of model, question and paragraphs
	ID     int64   `json:"id"`  // for readers
	Model  string  `json:"model"`
	Choice int     `json:"choice"` // which of the paragraphs
	Cosine float64 `json:"cosine"`
}

// choose returns the passages of the questions, in the order of MKQA. Similarity
// is computed once for a question; later builds read it. Pages are read one by
// one: all together may not fit into memory.
func (b *Builder) choose(ctx context.Context, questions []question, states []string, f *fate) ([]passage, error) {
	known := map[string]int{}
	s, err := openStore(ctx, filepath.Join(b.Dir, "choices.jsonl"), b.log, func(line []byte) error {
		var c chosen
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		known[c.Key] = c.Choice
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	answers := map[int64]string{}
	for _, q := range questions {
		answers[q.id] = q.answer[English]
	}
	contexts, seen := map[int64]passage{}, map[int64]bool{}
	for _, state := range states {
		err := eachPage(state, &pagesHeader{}, func(p page) error {
			answer, wanted := answers[p.ID]
			if !wanted || seen[p.ID] {
				return ctx.Err()
			}
			seen[p.ID] = true
			if len(seen)%500 == 0 {
				b.log("contexts: %d of %d chosen", len(seen), len(questions))
			}
			text := ""
			if p.Yes {
				f.Yes++
				return nil
			}
			if p.Long != nil {
				text = *p.Long
				f.FromLong++
			} else if options := options(p.Paragraphs, answer); len(options) > 0 {
				choice, err := b.nearest(ctx, s, known, p, options)
				if err != nil {
					return err
				}
				text = CleanText(options[choice])
				f.FromChoice++
			}
			if text == "" {
				f.NoParagraph++
				return nil
			}
			contexts[p.ID] = passage{p.ID, p.Title, text}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var out []passage
	for _, q := range questions {
		if p, ok := contexts[q.id]; ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// options returns the paragraphs that may be the context of a question without
// long answer: all of them if there is no answer; else those that hold the
// longest candidate of the English answer that any of them holds.
func options(paragraphs []string, answer string) []string {
	if answer == "" {
		return paragraphs
	}
	var clean, low []string
	for _, p := range paragraphs {
		if p = CleanText(p); utf8.RuneCountInString(p) > minParagraph {
			clean, low = append(clean, p), append(low, strings.ToLower(p))
		}
	}
	for _, c := range Candidates(answer, "", English, nil) {
		var with []string
		for i := range clean {
			if strings.Contains(low[i], strings.ToLower(c)) {
				with = append(with, clean[i])
			}
		}
		if len(with) > 0 {
			return with
		}
	}
	return nil
}

// nearest returns which of the options has the highest cosine with the question;
// of equal ones the first.
func (b *Builder) nearest(ctx context.Context, s *store, known map[string]int, p page, options []string) (int, error) {
	if len(options) == 1 {
		return 0, nil
	}
	if b.Embedder == nil {
		return 0, &Error{Kind: NoService, Detail: "choosing contexts needs an embedding service, and none is named", Advice: nameEmbeddings}
	}
	key := b.choiceKey(p.Question, options)
	if i, ok := known[key]; ok && i >= 0 && i < len(options) {
		return i, nil
	}
	vectors, err := b.Embedder.Embed(ctx, append([]string{p.Question}, options...))
	if err != nil {
		return 0, err
	}
	if len(vectors) != len(options)+1 {
		return 0, &Error{Kind: BadAnswer, Where: b.Embedder.Name(), Detail: fmt.Sprintf("%d embeddings of %d texts", len(vectors), len(options)+1)}
	}
	best, highest := 0, cosine(vectors[0], vectors[1])
	for i, v := range vectors[2:] {
		if c := cosine(vectors[0], v); c > highest {
			best, highest = i+1, c
		}
	}
	known[key] = best
	return best, s.add(chosen{key, p.ID, b.Embedder.Name(), best, highest})
}

func (b *Builder) choiceKey(question string, options []string) string {
	h := sha256.New()
	for _, s := range append([]string{b.Embedder.Name(), question}, options...) {
		fmt.Fprintf(h, "%d %s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}
