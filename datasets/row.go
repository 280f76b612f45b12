package datasets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Kind is the shape of a data set's rows. It is named after the task that the
// rows are for; what the task means is the business of package tasks.
type Kind string

// The kinds of rows. See docs/formats.md for one example of each.
const (
	NER           Kind = "ner"           // tokens and BIO labels
	Sentiment     Kind = "sentiment"     // text and polarity
	Acceptability Kind = "acceptability" // text, correct or incorrect, and how it was corrupted
	QA            Kind = "qa"            // question, context and answer spans
	Speed         Kind = "speed"         // a text to time a model on
)

// Kinds lists all kinds in the order in which they are shown.
var Kinds = []Kind{NER, Sentiment, Acceptability, QA, Speed}

// Split names one of the three parts of a uniform data set.
type Split string

// The splits of a uniform data set.
const (
	Train Split = "train"
	Val   Split = "val"
	Test  Split = "test"
)

// Splits lists the splits in the order of training.
var Splits = []Split{Train, Val, Test}

// Row is one example of a uniform data set. Which fields are used depends on
// the data set's kind; all others are zero. A row without gold (what a trainer
// sees of the test split) lacks Labels, Label, Corruption and Answers.
type Row struct {
	ID string

	// NER: pre-split words and one BIO label for each.
	Tokens []string
	Labels []string

	// Text is the document (sentiment, acceptability, speed), or the running
	// text of the tokens (NER).
	Text string

	// Label is the gold class of a document.
	Label string

	// Corruption says how an incorrect sentence was made; nil for correct ones.
	Corruption *Corruption

	// QA.
	Question, Context string
	Answers           *Answers
}

// Corruption records how an acceptability row was made from a correct sentence.
type Corruption struct {
	Type string // "delete" or "flip_neighbours"
	// Indices are the 0-based word positions in the correct sentence: the one
	// deleted, or the two swapped. They are kept in the data set's rows as
	// "corruption_indices".
	Indices []int
}

// Answers holds the gold spans of a question. Start counts Unicode code points
// from the beginning of the context, never bytes.
type Answers struct {
	Text  []string `json:"text"`
	Start []int    `json:"answer_start"`
}

type nerJSON struct {
	ID     string    `json:"id"`
	Tokens []string  `json:"tokens"`
	Labels *[]string `json:"labels,omitempty"`
	Text   *string   `json:"text"`
}

type classJSON struct {
	ID    string  `json:"id"`
	Text  *string `json:"text"`
	Label string  `json:"label,omitempty"`
}

type acceptabilityJSON struct {
	ID      string  `json:"id"`
	Text    *string `json:"text"`
	Label   string  `json:"label"`
	Type    *string `json:"corruption_type"`
	Indices []int   `json:"corruption_indices,omitempty"`
}

type qaJSON struct {
	ID       string   `json:"id"`
	Question *string  `json:"question"`
	Context  *string  `json:"context"`
	Answers  *Answers `json:"answers,omitempty"`
}

// AppendJSON appends r as one line of JSON, without the newline, in the
// canonical form of kind k: fixed key order, no HTML escaping, UTF-8. Equal
// rows give equal bytes; digests are taken over these bytes.
func (r Row) AppendJSON(dst []byte, k Kind) ([]byte, error) {
	var v any
	switch k {
	case NER:
		j := nerJSON{ID: r.ID, Tokens: r.Tokens, Text: &r.Text}
		if r.Labels != nil {
			j.Labels = &r.Labels
		}
		v = j
	case Sentiment, Speed:
		v = classJSON{r.ID, &r.Text, r.Label}
	case Acceptability:
		if r.Label == "" {
			v = classJSON{r.ID, &r.Text, ""}
			break
		}
		j := acceptabilityJSON{ID: r.ID, Text: &r.Text, Label: r.Label}
		if r.Corruption != nil {
			j.Type, j.Indices = &r.Corruption.Type, r.Corruption.Indices
		}
		v = j
	case QA:
		v = qaJSON{r.ID, &r.Question, &r.Context, r.Answers}
	default:
		return dst, fmt.Errorf("rows of unknown kind %q", k)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return dst, err
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...), nil
}

// ParseRow reads one line of a uniform data set of kind k, strictly: unknown
// fields, invalid UTF-8, missing ids and rows that contradict themselves are
// errors. Gold may be absent as a whole.
func ParseRow(line []byte, k Kind) (Row, error) {
	if !utf8.Valid(line) {
		return Row{}, fmt.Errorf("not valid UTF-8")
	}
	var r Row
	switch k {
	case NER:
		var j nerJSON
		if err := strict(line, &j); err != nil {
			return Row{}, err
		}
		if j.Tokens == nil || j.Text == nil {
			return Row{}, fmt.Errorf("row without tokens or text")
		}
		r = Row{ID: j.ID, Tokens: j.Tokens, Text: *j.Text}
		if j.Labels != nil {
			r.Labels = *j.Labels
			if len(r.Labels) != len(r.Tokens) {
				return Row{}, fmt.Errorf("%d labels for %d tokens", len(r.Labels), len(r.Tokens))
			}
		}
	case Sentiment, Speed:
		var j classJSON
		if err := strict(line, &j); err != nil {
			return Row{}, err
		}
		if j.Text == nil {
			return Row{}, fmt.Errorf("row without text")
		}
		r = Row{ID: j.ID, Text: *j.Text, Label: j.Label}
	case Acceptability:
		var j acceptabilityJSON
		if err := strict(line, &j); err != nil {
			return Row{}, err
		}
		if j.Text == nil {
			return Row{}, fmt.Errorf("row without text")
		}
		r = Row{ID: j.ID, Text: *j.Text, Label: j.Label}
		if j.Type != nil {
			r.Corruption = &Corruption{*j.Type, j.Indices}
		} else if j.Indices != nil {
			return Row{}, fmt.Errorf("corruption_indices without corruption_type")
		}
	case QA:
		var j qaJSON
		if err := strict(line, &j); err != nil {
			return Row{}, err
		}
		if j.Question == nil || j.Context == nil {
			return Row{}, fmt.Errorf("row without question or context")
		}
		r = Row{ID: j.ID, Question: *j.Question, Context: *j.Context, Answers: j.Answers}
		if err := checkAnswers(r); err != nil {
			return Row{}, err
		}
	default:
		return Row{}, fmt.Errorf("rows of unknown kind %q", k)
	}
	if r.ID == "" {
		return Row{}, fmt.Errorf("row without id")
	}
	return r, nil
}

func checkAnswers(r Row) error {
	if r.Answers == nil {
		return nil
	}
	if len(r.Answers.Text) != len(r.Answers.Start) {
		return fmt.Errorf("%d answer texts for %d answer starts", len(r.Answers.Text), len(r.Answers.Start))
	}
	context := []rune(r.Context)
	for i, text := range r.Answers.Text {
		start, span := r.Answers.Start[i], []rune(text)
		if start < 0 || start > len(context)-len(span) || string(context[start:start+len(span)]) != text {
			return fmt.Errorf("answer %q is not at code point %d of the context", text, start)
		}
	}
	return nil
}

// Blind returns r without its gold: what a trainer may see of a test row.
func (r Row) Blind() Row {
	r.Labels, r.Label, r.Corruption, r.Answers = nil, "", nil, nil
	return r
}

func strict(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if len(bytes.TrimSpace(line[d.InputOffset():])) > 0 {
		return fmt.Errorf("there is more after the end of the JSON value")
	}
	return nil
}
