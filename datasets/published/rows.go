package published

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/recipes"
)

// ColumnsError says that a data set of the Hub does not hold what a uniform one
// does.
type ColumnsError struct {
	ID     string
	File   string // may be empty
	Row    int    // from 1; 0: not one row
	Detail string
	// Say is an option of the name that would help, or "".
	Say string
}

func (e *ColumnsError) Error() string {
	s := "data set " + Prefix + e.ID
	if e.File != "" {
		s += ": " + e.File
	}
	if e.Row > 0 {
		s += fmt.Sprintf(", row %d", e.Row)
	}
	return s + ": " + e.Detail
}

// Hint says what a person can do.
func (e *ColumnsError) Hint() string {
	if e.Say != "" {
		return "say so in the name: " + Prefix + e.ID + e.Say
	}
	return "columns of uniform data sets are tokens, labels (ner); text, label (sentiment, acceptability); question, context, answers (qa); download other files and describe them in a catalogue (--catalog FILE.yaml)"
}

// isUniform says whether a column is one that is read.
func isUniform(column string) bool {
	switch column {
	case "id", "tokens", "labels", "ner_tags", "text", "doc", "label", "corruption_type",
		"question", "context", "answers.text", "answers.answer_start":
		return true
	}
	return false
}

var classes = map[datasets.Kind][]string{
	datasets.Sentiment:     {"positive", "neutral", "negative"},
	datasets.Acceptability: {"correct", "incorrect"},
}

// infer finds the task that the columns are for.
func infer(t *table, s Spec) (datasets.Kind, error) {
	has := func(name string) bool { return t.column(name) != nil }
	fits := map[datasets.Kind]bool{
		datasets.NER: has("tokens") && (has("labels") || has("ner_tags")),
		datasets.QA:  has("question") && has("context") && has("answers.text") && has("answers.answer_start"),
	}
	fits[datasets.Sentiment] = !fits[datasets.NER] && has("text") && has("label")
	fits[datasets.Acceptability] = fits[datasets.Sentiment]
	fail := func(say, format string, a ...any) (datasets.Kind, error) {
		return "", &ColumnsError{ID: s.ID, Detail: fmt.Sprintf(format, a...), Say: say}
	}
	if s.Task != "" {
		if !fits[s.Task] {
			return fail("", "its columns are %s: not those of %s", strings.Join(t.names(), ", "), s.Task)
		}
		return s.Task, nil
	}
	switch {
	case fits[datasets.NER] && fits[datasets.QA]:
		return fail("?task=ner or ?task=qa", "its columns serve two tasks")
	case fits[datasets.NER]:
		return datasets.NER, nil
	case fits[datasets.QA]:
		return datasets.QA, nil
	case !fits[datasets.Sentiment]:
		return fail("", "its columns are %s: those of no task", strings.Join(t.names(), ", "))
	}
	labels, err := t.labels()
	if err != nil {
		return fail("", "%v", err)
	}
	for _, k := range []datasets.Kind{datasets.Acceptability, datasets.Sentiment} {
		if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(classes[k], l) }) {
			return k, nil
		}
	}
	if len(labels) > 8 {
		labels = append(labels[:8], "…")
	}
	return fail("", "its labels are %s: neither correct, incorrect (acceptability) nor positive, neutral, negative (sentiment)", strings.Join(labels, ", "))
}

// labels lists the values of the column label, in small letters, sorted.
func (t *table) labels() ([]string, error) {
	c := t.column("label")
	var out []string
	seen := map[string]bool{}
	for i := range t.n {
		values, err := t.named(c, i)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			if v = strings.ToLower(v); !seen[v] {
				seen[v] = true
				out = append(out, v)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// read makes the rows of all splits. splits says which one each source is of.
func read(in *recipes.Input, s Spec, splits []datasets.Split) (*recipes.Output, error) {
	out := &recipes.Output{Rows: map[datasets.Split][]datasets.Row{}}
	own, skipped := true, 0
	seen := map[string]bool{}
	for i, split := range splits {
		file := path.Base(in.Recipe.Sources[i].URL)
		t, err := readParquet(in.Files[i].Path, isUniform)
		if err != nil {
			return nil, &ColumnsError{ID: s.ID, File: file, Detail: err.Error()}
		}
		asked := s
		asked.Task = in.Recipe.Kind
		if _, err := infer(t, asked); err != nil {
			return nil, err
		}
		for j := range t.n {
			row, err := t.row(in.Recipe.Kind, j)
			if err != nil {
				return nil, &ColumnsError{ID: s.ID, File: file, Row: j + 1, Detail: err.Error()}
			}
			if in.Recipe.Kind == datasets.NER && len(row.Tokens) == 0 {
				skipped++ // nothing to learn from it; the benchmark leaves them out too
				continue
			}
			own = own && row.ID != "" && !seen[row.ID]
			seen[row.ID] = true
			out.Rows[split] = append(out.Rows[split], row)
		}
	}
	if !own {
		for split, rows := range out.Rows {
			for i := range rows {
				rows[i].ID = fmt.Sprintf("%s-%d", split, i+1)
			}
		}
		if t := len(seen); t > 1 {
			out.Notes = append(out.Notes, "the ids of the source repeat, so rows are numbered")
		}
	}
	if skipped > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d rows without tokens are left out", skipped))
	}
	return out, nil
}

// row makes row i uniform. Its id is "" where the table has none.
func (t *table) row(k datasets.Kind, i int) (datasets.Row, error) {
	var r datasets.Row
	r.ID, _ = t.column("id").text(i)
	need := func(name string) (string, error) {
		v, ok := t.column(name).text(i)
		if !ok {
			return "", fmt.Errorf("no %s", name)
		}
		return v, nil
	}
	var err error
	switch k {
	case datasets.NER:
		if r.Tokens, err = t.named(t.column("tokens"), i); err != nil {
			return r, err
		}
		tags := t.column("labels")
		if tags == nil {
			tags = t.column("ner_tags")
		}
		if r.Labels, err = t.named(tags, i); err != nil {
			return r, err
		}
		if len(r.Labels) != len(r.Tokens) {
			return r, fmt.Errorf("%d labels for %d tokens", len(r.Labels), len(r.Tokens))
		}
		for j, l := range r.Labels {
			r.Labels[j] = strings.ToUpper(l)
		}
		var ok bool
		if r.Text, ok = t.column("text").text(i); !ok {
			if r.Text, ok = t.column("doc").text(i); !ok {
				r.Text = strings.Join(r.Tokens, " ")
			}
		}
	case datasets.Sentiment, datasets.Acceptability:
		if r.Text, err = need("text"); err != nil {
			return r, err
		}
		labels, err := t.named(t.column("label"), i)
		if err != nil {
			return r, err
		}
		if len(labels) != 1 {
			return r, fmt.Errorf("no label")
		}
		r.Label = strings.ToLower(labels[0])
		if !slices.Contains(classes[k], r.Label) {
			return r, fmt.Errorf("label %q is none of %s", labels[0], strings.Join(classes[k], ", "))
		}
		if how, ok := t.column("corruption_type").text(i); ok && k == datasets.Acceptability && how != "" {
			if r.Label == "correct" {
				return r, fmt.Errorf("a correct sentence with the corruption_type %q", how)
			}
			r.Corruption = &datasets.Corruption{Type: how}
		}
	case datasets.QA:
		if r.Question, err = need("question"); err != nil {
			return r, err
		}
		if r.Context, err = need("context"); err != nil {
			return r, err
		}
		texts, starts := t.column("answers.text"), t.column("answers.answer_start")
		if texts.rows == nil || starts.ints == nil {
			return r, fmt.Errorf("answers.text has to be text, and answers.answer_start numbers")
		}
		r.Answers = &datasets.Answers{Text: append([]string{}, texts.rows[i]...), Start: []int{}}
		for _, at := range starts.ints[i] {
			r.Answers.Start = append(r.Answers.Start, int(at))
		}
		if len(r.Answers.Text) != len(r.Answers.Start) {
			return r, fmt.Errorf("%d answers with %d places", len(r.Answers.Text), len(r.Answers.Start))
		}
	}
	return r, nil
}
