package scandiqa

import (
	"encoding/json"
	"io"
	"unicode/utf8"
)

// MKQAURL is where Apple publishes MKQA.
const MKQAURL = "https://raw.githubusercontent.com/apple/ml-mkqa/main/dataset/mkqa.jsonl.gz"

// question is a question of MKQA, cleaned, in all languages that matter.
type question struct {
	id int64
	// text and answer are by language. An answer is the first one; "" if the
	// question has none.
	text, answer map[Lang]string
}

// readMKQA reads MKQA, in the order of the file. digest is the SHA-256 of the
// file. What is not MKQA is a *Error with file and line.
func readMKQA(path string) (questions []question, digest string, err error) {
	l, err := openLines(path)
	if err != nil {
		return nil, "", err
	}
	defer l.Close()
	seen := map[int64]int{}
	for {
		b, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, "", err
		}
		if !utf8.Valid(b) {
			return nil, "", l.bad("not valid UTF-8")
		}
		var j struct {
			ID      *int64            `json:"example_id"`
			Queries map[string]string `json:"queries"`
			Answers map[string][]struct {
				Text *string `json:"text"`
			} `json:"answers"`
		}
		if err := json.Unmarshal(b, &j); err != nil {
			return nil, "", l.bad("no question of MKQA: %v", err)
		}
		if j.ID == nil {
			return nil, "", l.bad("no question of MKQA: it has no example_id")
		}
		if first, ok := seen[*j.ID]; ok {
			return nil, "", l.bad("example_id %d is taken by line %d", *j.ID, first)
		}
		seen[*j.ID] = l.line
		q := question{*j.ID, map[Lang]string{}, map[Lang]string{}}
		for _, lang := range []Lang{English, Danish, Norwegian, Swedish} {
			// The English question is "query"; only the others are needed of queries.
			text, ok := j.Queries[string(lang)]
			if lang != English {
				if !ok || text == "" {
					return nil, "", l.bad("no question in language %q", lang)
				}
				q.text[lang] = CleanQuestion(text)
			}
			answers := j.Answers[string(lang)]
			if len(answers) == 0 {
				return nil, "", l.bad("no answer in language %q", lang)
			}
			if t := answers[0].Text; t != nil {
				q.answer[lang] = CleanText(*t)
			}
		}
		questions = append(questions, q)
	}
	if len(questions) == 0 {
		l.line = 1
		return nil, "", l.bad("the file is empty")
	}
	digest, err = l.sha256()
	return questions, digest, err
}
