package raw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Question is one question of a SQuAD file.
type Question struct {
	Line       int    // where its article begins
	Article    int    // number of the article in the file, from 0
	ID         string // as in the file; numbers become their digits
	Title      string
	Context    string
	Question   string
	Answers    []Answer
	Impossible bool // version 2: the context does not answer it
}

// Answer is a span of the context. Start counts Unicode code points.
type Answer struct {
	Text  string
	Start int
}

type squadArticle struct {
	Title      string `json:"title"`
	Paragraphs []struct {
		Context   string `json:"context"`
		Questions []struct {
			ID         json.RawMessage `json:"id"`
			Question   string          `json:"question"`
			Impossible bool            `json:"is_impossible"`
			Answers    []struct {
				Text  string `json:"text"`
				Start *int   `json:"answer_start"`
			} `json:"answers"`
		} `json:"qas"`
	} `json:"paragraphs"`
}

// ReadSQuAD reads a file in the layout of SQuAD 1.1 or 2.0:
//
//	{"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question",
//	  "answers": [{"text", "answer_start"}], "is_impossible"}]}]}]}
//
// Further fields are skipped, as published files have many. An answer that is
// not in the context where it is said to be, a question without answer that is
// not marked impossible, and one without id are errors.
func ReadSQuAD(b []byte, file string) ([]Question, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if err := checkUTF8(b, file); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	bad := func(err error) ([]Question, error) {
		return nil, Errorf(file, lineAt(b, offsetOf(err, d, len(b))), "%s", jsonMessage(err))
	}
	if open, err := d.Token(); err != nil {
		return bad(err)
	} else if open != json.Delim('{') {
		return nil, Errorf(file, 1, "no SQuAD file: it begins with %v, not with {\"data\": …", open)
	}
	var out []Question
	found := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return bad(err)
		}
		if key != "data" {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return bad(err)
			}
			continue
		}
		found = true
		if open, err := d.Token(); err != nil {
			return bad(err)
		} else if open != json.Delim('[') {
			return nil, Errorf(file, lineAt(b, int(d.InputOffset())), "\"data\" is no array")
		}
		for n := 0; d.More(); n++ {
			line := lineAt(b, nextValue(b, int(d.InputOffset())))
			var a squadArticle
			if err := d.Decode(&a); err != nil {
				return bad(err)
			}
			questions, err := a.questions(file, line, n)
			if err != nil {
				return nil, err
			}
			out = append(out, questions...)
		}
		if _, err := d.Token(); err != nil {
			return bad(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return bad(err)
	}
	if !found {
		return nil, Errorf(file, 1, "no SQuAD file: there is no field \"data\"")
	}
	return out, nil
}

func (a squadArticle) questions(file string, line, n int) ([]Question, error) {
	var out []Question
	for _, p := range a.Paragraphs {
		context := []rune(p.Context)
		for _, q := range p.Questions {
			id := strings.Trim(string(q.ID), `"`)
			if len(q.ID) > 0 && q.ID[0] == '"' {
				if err := json.Unmarshal(q.ID, &id); err != nil {
					return nil, Errorf(file, line, "article %d: id %s: %v", n+1, q.ID, err)
				}
			}
			where := fmt.Sprintf("article %d, question %q", n+1, id)
			if id == "" || id == "null" {
				return nil, Errorf(file, line, "article %d: question %q has no id", n+1, q.Question)
			}
			out = append(out, Question{
				Line: line, Article: n, ID: id, Title: a.Title,
				Context: p.Context, Question: q.Question, Impossible: q.Impossible,
			})
			this := &out[len(out)-1]
			if q.Impossible {
				continue
			}
			if len(q.Answers) == 0 {
				return nil, Errorf(file, line, "%s has no answer and is not marked \"is_impossible\"", where)
			}
			for _, ans := range q.Answers {
				if ans.Start == nil {
					return nil, Errorf(file, line, "%s: answer %q has no answer_start", where, ans.Text)
				}
				if !IsSpan(context, ans.Text, *ans.Start) {
					return nil, Errorf(file, line, "%s: answer %q is not at code point %d of the context (do the offsets count bytes or UTF-16 units?)", where, ans.Text, *ans.Start)
				}
				this.Answers = append(this.Answers, Answer{ans.Text, *ans.Start})
			}
		}
	}
	return out, nil
}

// IsSpan says whether text stands at code point start of the context.
func IsSpan(context []rune, text string, start int) bool {
	span := []rune(text)
	return start >= 0 && start <= len(context)-len(span) && string(context[start:start+len(span)]) == text
}
