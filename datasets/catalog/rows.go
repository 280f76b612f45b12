package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"bench/datasets"
	"bench/datasets/conllu"
	"bench/datasets/raw"
	"bench/datasets/recipes"
	"bench/datasets/split"
)

// maxProblems bounds how many rows that do not fit are reported.
const maxProblems = 20

// reader turns data files into rows and collects what does not fit.
type reader struct {
	entry
	problems []Problem
	more     int
}

func (r *reader) bad(file string, line int, remedy, format string, a ...any) {
	if len(r.problems) == maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, Problem{file, line, fmt.Sprintf(format, a...), remedy})
}

// numbered is a row and the place it comes from.
type numbered struct {
	datasets.Row
	file string
	line int
}

func (e entry) make(in *recipes.Input, parts []part) (*recipes.Output, error) {
	r := &reader{entry: e}
	read := map[part][]numbered{}
	for i, p := range parts {
		b, err := in.Read(i)
		if err != nil {
			return nil, err
		}
		rows, err := r.rows(b, in.Name(i), p)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 && len(r.problems) == 0 {
			r.bad(in.Name(i), 0, "put rows into it", "the file has no rows")
		}
		read[p] = rows
	}
	r.identify(parts, read)
	if len(r.problems) > 0 {
		return nil, &Error{r.problems, r.more}
	}
	return e.divide(read)
}

// identify gives ids to rows. An id that a file gives is kept if all of the data
// set are different; rows without one are numbered by split.
func (r *reader) identify(parts []part, read map[part][]numbered) {
	given := r.Columns["id"] != "" // by the user, who should hear of repeats
	first := map[string]numbered{}
	unique := true
	for _, p := range parts {
		for _, row := range read[p] {
			other, taken := first[row.ID]
			if row.ID == "" || taken {
				unique = false
			}
			if given && row.ID == "" {
				r.bad(row.file, row.line, "give every row an id, or leave id out of columns", "the row has no id")
			} else if given && taken {
				r.bad(row.file, row.line, "make ids unique, or leave id out of columns", "the id %q is taken by %s:%d", row.ID, other.file, other.line)
			}
			first[row.ID] = row
		}
	}
	if unique || given {
		return
	}
	for _, p := range parts {
		for i := range read[p] {
			row := &read[p][i]
			if row.ID == "" {
				row.ID = fmt.Sprintf("%s-%d", p, i+1)
			} else {
				row.ID = fmt.Sprintf("%s-%d-%s", p, i+1, row.ID)
			}
		}
	}
}

// divide makes splits of files.
func (e entry) divide(read map[part][]numbered) (*recipes.Output, error) {
	out := &recipes.Output{Rows: map[datasets.Split][]datasets.Row{}}
	from := read["train"]
	if single, ok := read[all]; ok {
		from = single
	}
	take := func(at []int) []datasets.Row {
		rows := make([]datasets.Row, len(at))
		for k, i := range at {
			rows[k] = from[i].Row
		}
		return rows
	}
	fixed := func(rows []numbered) []datasets.Row {
		plain := make([]datasets.Row, len(rows))
		for i, r := range rows {
			plain[i] = r.Row
		}
		return plain
	}
	if e.Split == nil {
		for _, s := range datasets.Splits {
			out.Rows[s] = fixed(read[string(s)])
		}
		return out, nil
	}
	val := int(math.Round(e.Split.Val * float64(len(from))))
	test := int(math.Round(e.Split.Test * float64(len(from))))
	parts, rest, err := split.Chain(len(from), e.Split.Seed, val, test)
	if err != nil {
		return nil, fmt.Errorf("val and test drawn from %d rows: %w", len(from), err)
	}
	out.Rows[datasets.Train], out.Rows[datasets.Val], out.Rows[datasets.Test] = take(rest), take(parts[0]), take(parts[1])
	for _, s := range []datasets.Split{datasets.Val, datasets.Test} {
		if rows, ok := read[string(s)]; ok {
			out.Rows[s] = fixed(rows)
		}
	}
	return out, nil
}

func (r *reader) rows(b []byte, file string, p part) ([]numbered, error) {
	switch r.Format {
	case "csv", "tsv":
		return r.table(b, file)
	case "jsonl":
		return r.lines(b, file)
	case "conllu":
		return r.treebank(b, file)
	case "conll":
		return r.columns(b, file)
	case "squad":
		questions, err := raw.ReadSQuAD(b, file)
		if err != nil {
			return nil, err
		}
		var rows []numbered
		for _, q := range questions {
			row := datasets.Row{ID: q.ID, Question: q.Question, Context: q.Context, Answers: &datasets.Answers{Text: []string{}, Start: []int{}}}
			for _, a := range q.Answers {
				row.Answers.Text, row.Answers.Start = append(row.Answers.Text, a.Text), append(row.Answers.Start, a.Start)
			}
			rows = append(rows, numbered{row, file, q.Line})
		}
		return rows, nil
	}
	return nil, fmt.Errorf("format %q", r.Format)
}

func (r *reader) table(b []byte, file string) ([]numbered, error) {
	comma := ','
	if r.Format == "tsv" {
		comma = '\t'
	} else if r.Separator != "" {
		comma = []rune(r.Separator)[0]
	}
	t, err := raw.ReadTable(b, file, comma)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	required, optional := columnNames(r.Format, r.Task)
	for _, c := range append(required, optional...) {
		if _, mapped := r.Columns[c]; c == "id" && !mapped {
			continue
		}
		if at[c], err = t.Column(r.column(c)); err != nil {
			r.bad(file, 1, "the file has "+quoteList(t.Columns)+"; name the right one with columns: {"+c+": NAME}, and the separator with separator: \";\"", "no column %q", r.column(c))
		}
	}
	if len(r.problems) > 0 {
		return nil, nil
	}
	var rows []numbered
	for _, values := range t.Rows {
		get := func(c string) string {
			if i, ok := at[c]; ok {
				return values.Values[i]
			}
			return ""
		}
		row := datasets.Row{ID: get("id")}
		if r.Task == datasets.QA {
			row.Question, row.Context = get("question"), get("context")
			r.answer(&row, file, values.Line, get("answer"), get("answer_start"))
		} else {
			row.Text = get("text")
			row.Label = r.label(file, values.Line, get("label"))
		}
		rows = append(rows, numbered{row, file, values.Line})
	}
	return rows, nil
}

// answer sets the one answer of a flat file. No text means that the context
// does not answer the question.
func (r *reader) answer(row *datasets.Row, file string, line int, text, start string) {
	row.Answers = &datasets.Answers{Text: []string{}, Start: []int{}}
	if text == "" {
		return
	}
	n, err := strconv.Atoi(start)
	if err != nil {
		r.bad(file, line, "write the number of characters before the answer", "answer_start %q is no number", start)
		return
	}
	row.Answers.Text, row.Answers.Start = []string{text}, []int{n}
	r.spans(row, file, line)
}

func (r *reader) spans(row *datasets.Row, file string, line int) {
	context := []rune(row.Context)
	for i, text := range row.Answers.Text {
		if !raw.IsSpan(context, text, row.Answers.Start[i]) {
			r.bad(file, line, "count characters (Unicode code points) from the beginning of the context, from 0", "answer %q is not at character %d of the context", text, row.Answers.Start[i])
		}
	}
}

// label maps a label. Without a mapping labels are kept.
func (r *reader) label(file string, line int, label string) string {
	if r.Labels != nil {
		to, ok := r.Labels[label]
		if !ok {
			r.bad(file, line, "add it to labels", "label %q is not mapped", label)
		}
		return to
	}
	if label == "" {
		r.bad(file, line, "give every row a label", "the row has no label")
	} else if r.Task == datasets.Acceptability && label != "correct" && label != "incorrect" {
		r.bad(file, line, "map it with labels: {"+label+": correct}", "label %q is neither correct nor incorrect", label)
	}
	return label
}

func (r *reader) lines(b []byte, file string) ([]numbered, error) {
	lines, err := raw.ReadLines(b, file)
	if err != nil {
		return nil, err
	}
	required, _ := columnNames(r.Format, r.Task)
	var rows []numbered
	for _, l := range lines {
		var object map[string]json.RawMessage
		if err := l.Decode(file, &object, false); err != nil {
			return nil, err
		}
		before := len(r.problems) + r.more
		field := func(c string, to any) bool {
			v, ok := object[r.column(c)]
			if !ok || string(v) == "null" {
				return false
			}
			if err := json.Unmarshal(v, to); err != nil {
				r.bad(file, l.Number, "see docs/formats.md for the columns of each task", "field %q: %s is not what is wanted there", r.column(c), v)
			}
			return true
		}
		for _, c := range required {
			if _, ok := object[r.column(c)]; !ok {
				r.bad(file, l.Number, "the line has "+quoteList(sortedKeys(object))+"; name the right one with columns: {"+c+": NAME}", "no field %q", r.column(c))
			}
		}
		if len(r.problems)+r.more > before {
			continue
		}
		row := datasets.Row{}
		if r.Columns["id"] != "" {
			row.ID = scalar(object[r.column("id")])
		}
		switch r.Task {
		case datasets.NER:
			field("tokens", &row.Tokens)
			field("labels", &row.Labels)
			if !field("text", &row.Text) {
				row.Text = strings.Join(row.Tokens, " ")
			}
			r.tags(&row, file, func(int) int { return l.Number })
		case datasets.QA:
			field("question", &row.Question)
			field("context", &row.Context)
			r.jsonAnswers(&row, file, l.Number, field)
		default:
			field("text", &row.Text)
			row.Label = r.label(file, l.Number, scalar(object[r.column("label")]))
		}
		rows = append(rows, numbered{row, file, l.Number})
	}
	return rows, nil
}

// jsonAnswers reads {"answers": {"text": […], "answer_start": […]}}, or the
// fields answer and answer_start of a flat file.
func (r *reader) jsonAnswers(row *datasets.Row, file string, line int, field func(string, any) bool) {
	row.Answers = &datasets.Answers{Text: []string{}, Start: []int{}}
	if field("answers", row.Answers) {
		if len(row.Answers.Text) != len(row.Answers.Start) {
			r.bad(file, line, "give every answer its answer_start", "%d answer texts for %d starts", len(row.Answers.Text), len(row.Answers.Start))
			return
		}
		r.spans(row, file, line)
		return
	}
	var text string
	var start int
	if !field("answer", &text) || text == "" {
		return
	}
	if !field("answer_start", &start) {
		r.bad(file, line, "add answer_start, the number of characters before the answer", "the answer has no answer_start")
		return
	}
	row.Answers.Text, row.Answers.Start = []string{text}, []int{start}
	r.spans(row, file, line)
}

// scalar returns a JSON string, or a number or boolean as it is written.
func scalar(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

func (r *reader) treebank(b []byte, file string) ([]numbered, error) {
	sentences, err := conllu.ReadAll(bytes.NewReader(b), file)
	if err != nil {
		return nil, err
	}
	key := "name"
	if r.Key != "" {
		key = r.Key
	}
	var rows []numbered
	for _, s := range sentences {
		row := datasets.Row{ID: s.ID(), Text: s.Text()}
		words := s.Words()
		for _, w := range words {
			tag, ok := w.MiscValue(key)
			if !ok {
				r.bad(file, w.Line, "name the right key of the last column with key: NAME", "word %q has no %s= in the last column", w.Form, key)
			}
			row.Tokens, row.Labels = append(row.Tokens, w.Form), append(row.Labels, tag)
		}
		if row.Text == "" {
			row.Text = strings.Join(row.Tokens, " ")
		}
		r.tags(&row, file, func(i int) int { return words[i].Line })
		rows = append(rows, numbered{row, file, s.Line})
	}
	return rows, nil
}

func (r *reader) columns(b []byte, file string) ([]numbered, error) {
	blocks, err := raw.ReadColumns(b, file)
	if err != nil {
		return nil, err
	}
	number := func(c string, otherwise int) int {
		if v, err := strconv.Atoi(r.Columns[c]); err == nil {
			return v
		}
		return otherwise
	}
	var rows []numbered
	for _, block := range blocks {
		row := datasets.Row{}
		width := len(block.Rows[0].Fields)
		token, tag := number("token", 1), number("tag", width)
		if token > width || tag > width || token == tag {
			r.bad(file, block.Line, "count from 1 and write columns: {token: 1, tag: 2}", "the file has %d columns, token is %d and tag is %d", width, token, tag)
			return nil, nil
		}
		for _, w := range block.Rows {
			row.Tokens, row.Labels = append(row.Tokens, w.Fields[token-1]), append(row.Labels, w.Fields[tag-1])
		}
		row.Text = strings.Join(row.Tokens, " ")
		r.tags(&row, file, func(i int) int { return block.Rows[i].Line })
		rows = append(rows, numbered{row, file, block.Line})
	}
	return rows, nil
}

// tags maps the entity types of a row and checks its BIO tags; line says where
// token i is. A tag as a whole may be mapped, too ("0": O).
func (r *reader) tags(row *datasets.Row, file string, line func(i int) int) {
	if len(row.Tokens) != len(row.Labels) {
		r.bad(file, line(0), "give every token a label", "%d labels for %d tokens", len(row.Labels), len(row.Tokens))
		return
	}
	before := "O" // the type of the entity that the word before is in, as it is written
	for i, tag := range row.Labels {
		to, whole := r.Labels[tag]
		if whole {
			tag = to
		}
		if tag == "O" {
			row.Labels[i], before = "O", "O"
			continue
		}
		prefix, kind, ok := strings.Cut(tag, "-")
		if !ok || prefix != "B" && prefix != "I" || kind == "" {
			r.bad(file, line(i), "tags are O, B-TYPE and I-TYPE; map others with labels: {"+strconv.Quote(tag)+": O}", "tag %q of the word %q is no IOB tag", tag, row.Tokens[i])
			before = "O"
			continue
		}
		if prefix == "I" && before != kind {
			if r.Scheme != "iob1" {
				r.bad(file, line(i), "begin every entity with B-, or write scheme: iob1 if entities begin with I-", "tag %q of the word %q continues an entity that is not there", tag, row.Tokens[i])
			}
			prefix = "B"
		}
		before = kind
		if r.Labels != nil && !whole {
			if to, ok = r.Labels[kind]; !ok {
				r.bad(file, line(i), "add it to labels, with O if it should be left out", "entity type %q is not mapped", kind)
				continue
			}
			kind = to
		}
		row.Labels[i] = prefix + "-" + kind
		if kind == "O" {
			row.Labels[i] = "O"
		}
	}
}
