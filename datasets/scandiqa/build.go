package scandiqa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"bench/datasets"
	"bench/datasets/recipes"
	"bench/datasets/split"
	"bench/internal/atomicfile"
)

// Builder builds the data sets of all three languages from the same sources and
// with the same state.
type Builder struct {
	// Dir is the folder of the state, shared by all languages: pages/ with what
	// was read of each file of Natural Questions, choices.jsonl with the answers
	// of the embedding service, translations.jsonl with those of the translation
	// service, and rows-LANGUAGE.jsonl with all rows before they are drawn.
	Dir string
	// MKQA is the path of mkqa.jsonl.gz (or unpacked).
	MKQA string
	// NaturalQuestions is the path of the files of Natural Questions; see the
	// function of this name. It may be "" once they were read.
	NaturalQuestions string
	Embedder         Embedder   // nil: none
	Translator       Translator // nil: none
	// PlainAnswers leaves the translations of the answers out of what is looked
	// for in the contexts: fewer requests, fewer rows.
	PlainAnswers bool
	// Parallel is how many translation requests are under way at a time; 0: 4.
	Parallel int
	// Log, if set, is told about progress, now and then.
	Log func(format string, args ...any)
}

const (
	getNaturalQuestions = "get the training files of Natural Questions (50 files nq-train-NN.jsonl.gz, 42 GB; CC BY-SA 3.0) from " + naturalQuestionsPage + ", or with `gsutil -m cp -r gs://natural_questions/v1.0/train DIR`, and name their folder: --from DIR. They are read once and may be removed then"
	nameEmbeddings      = "serve " + DefaultEmbeddingModel + " on this machine with a program that speaks OpenAI's /v1/embeddings, and name it: --embeddings-url http://localhost:8080/v1 (and --embeddings-model for another model, BENCH_EMBEDDINGS_KEY for a key)"
	nameTranslator      = "name one: --translator deepl (key in DEEPL_API_KEY), --translator google (GOOGLE_API_KEY), or --translator openai --translator-model MODEL (OPENAI_API_KEY; with --translator-url URL for a server of your own)"
)

// row is a row before rows are drawn, with what it was made of.
type row struct {
	ID        string `json:"id"`
	Question  string `json:"question"`
	Context   string `json:"context"`
	Answer    string `json:"answer"`
	Start     int    `json:"answer_start"` // code points; -1: unanswerable
	Title     string `json:"title_en"`
	ContextEN string `json:"context_en"` // without the title
	AnswerEN  string `json:"answer_en"`  // as it is in the English context, or ""
}

// Build makes the data set of a language: val, test and train are drawn one
// after the other, without overlap, from the answerable rows with contexts of 30
// to 5,000 and questions of 10 to 100 characters, in the order of MKQA.
//
// Errors are *Error, several of them joined where several things are missing,
// or those of the file system and of ctx. After any error, and after the death
// of the process, Build goes on where it stopped.
func (b *Builder) Build(ctx context.Context, lang Lang, sizes recipes.Sizes, seed uint32) (*recipes.Output, error) {
	if err := b.needs(); err != nil {
		return nil, err
	}
	questions, mkqa, err := readMKQA(b.MKQA)
	if err != nil {
		return nil, err
	}
	states, sources, err := b.pages(ctx, questions, mkqa)
	if err != nil {
		return nil, err
	}
	f := fate{Questions: len(questions)}
	passages, err := b.choose(ctx, questions, states, &f)
	if err != nil {
		return nil, err
	}
	rows, err := b.rows(ctx, lang, questions, passages, &f)
	if err != nil {
		return nil, err
	}
	if err := b.writeRows(lang, rows); err != nil {
		return nil, err
	}
	out, err := draw(rows, sizes, seed, &f)
	if err != nil {
		return nil, err
	}
	out.Notes = append(b.notes(lang, &f), sources)
	return out, nil
}

// needs says all at once what is missing before anything costs time or money.
func (b *Builder) needs() error {
	var errs []error
	if b.NaturalQuestions == "" {
		if done, err := filepath.Glob(filepath.Join(b.Dir, "pages", "*.jsonl.gz")); err != nil || len(done) == 0 {
			errs = append(errs, &Error{Kind: NoSource, Detail: "Natural Questions is needed: the Wikipedia pages of MKQA's questions", Advice: getNaturalQuestions, Err: err})
		}
	}
	if b.Embedder == nil {
		errs = append(errs, &Error{Kind: NoService, Detail: "an embedding service is needed: it chooses the context of questions without long answer", Advice: nameEmbeddings})
	}
	if b.Translator == nil {
		errs = append(errs, &Error{Kind: NoService, Detail: "a translation service is needed: contexts are English", Advice: nameTranslator})
	}
	return errors.Join(errs...)
}

// pages runs the second step, and returns its state files and a note on what
// they were made of.
func (b *Builder) pages(ctx context.Context, questions []question, mkqa string) (states []string, note string, err error) {
	wanted := map[int64]bool{}
	for _, q := range questions {
		wanted[q.id] = true
	}
	if b.NaturalQuestions != "" {
		files, err := NaturalQuestions(b.NaturalQuestions)
		if err != nil {
			return nil, "", err
		}
		if err := b.readPages(ctx, wanted, mkqa, files); err != nil {
			return nil, "", err
		}
	}
	all, err := filepath.Glob(filepath.Join(b.Dir, "pages", "*.jsonl.gz"))
	if err != nil {
		return nil, "", err
	}
	found := map[int64]bool{}
	var sums []string
	for _, path := range all { // in the order of names
		var h pagesHeader
		if h, err = pagesDone(path); err != nil {
			return nil, "", err
		}
		if h.Schema != pagesSchema || h.MKQA != mkqa {
			continue // of another MKQA
		}
		if err := eachPage(path, &h, func(p page) error { found[p.ID] = true; return ctx.Err() }); err != nil {
			return nil, "", err
		}
		states, sums = append(states, path), append(sums, h.SHA256)
	}
	if missing := len(wanted) - len(found); missing > 0 {
		return nil, "", &Error{
			Kind: Incomplete, Where: b.NaturalQuestions,
			Detail: fmt.Sprintf("%d of %d questions have no page in the %d files of Natural Questions read so far", missing, len(wanted), len(states)),
			Advice: "all 50 training files are needed; files may be given in several runs. " + getNaturalQuestions,
		}
	}
	return states, fmt.Sprintf("Natural Questions: %d files; SHA-256 of the list of their SHA-256: %s", len(states), sumOf(sums)), nil
}

// rows runs the fourth step.
func (b *Builder) rows(ctx context.Context, lang Lang, questions []question, passages []passage, f *fate) ([]row, error) {
	m, err := openMemory(ctx, b.Dir, b.Translator, b.parallel(), b.log)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	byID := map[int64]question{}
	for _, q := range questions {
		byID[q.id] = q
	}
	report := func(what string) func(done, total int) {
		last := 0
		return func(done, total int) {
			if done/100 > last/100 || done == total {
				last = done
				b.log("%s: %d of %d translated into %s", what, done, total, languageName[lang])
			}
		}
	}
	var contexts []string
	for _, p := range passages {
		contexts = append(contexts, p.context)
	}
	if err := m.learn(ctx, contexts, English, lang, report("contexts")); err != nil {
		return nil, err
	}

	// The English answer as the English context has it: a candidate of the English
	// answer, else one of the answer in the language.
	answersEN := make([]string, len(passages))
	var open []int
	for i, p := range passages {
		q := byID[p.id]
		if q.answer[lang] == "" {
			continue
		}
		if s, ok := find(p.context, q.answer[English], Candidates(q.answer[English], "", English, nil)); ok {
			answersEN[i] = s.Text
		} else {
			open = append(open, i)
		}
	}
	var variants []string
	for _, i := range open {
		variants = append(variants, Variants(byID[passages[i].id].answer[lang], "", lang)...)
	}
	if err := b.learnAnswers(ctx, m, variants, lang, report("answers")); err != nil {
		return nil, err
	}
	for _, i := range open {
		p := passages[i]
		answer := byID[p.id].answer[lang]
		if s, ok := Locate(p.context, b.candidates(m, answer, "", lang)); ok {
			answersEN[i] = s.Text
		}
	}

	variants = nil
	for i, p := range passages {
		if answer := byID[p.id].answer[lang]; answer != "" {
			variants = append(variants, Variants(answer, answersEN[i], lang)...)
		}
	}
	if err := b.learnAnswers(ctx, m, variants, lang, report("answers")); err != nil {
		return nil, err
	}
	var out []row
	for i, p := range passages {
		q := byID[p.id]
		translation, ok := m.get(p.context, English, lang)
		if !ok {
			return nil, fmt.Errorf("question %d: its context was not translated", p.id)
		}
		r := row{
			ID: strconv.FormatInt(p.id, 10), Question: q.text[lang], Title: p.title, ContextEN: p.context, AnswerEN: answersEN[i],
			Context: translation, Start: -1,
		}
		if !strings.Contains(r.Context, p.title) {
			r.Context = p.title + "\n" + r.Context
		}
		if answer := q.answer[lang]; answer != "" {
			s, ok := Locate(r.Context, b.candidates(m, answer, answersEN[i], lang))
			if !ok {
				f.NoAnswer++
				continue
			}
			r.Answer, r.Start = s.Text, s.Start
			f.Answerable++
		} else {
			f.Unanswerable++
		}
		out = append(out, r)
	}
	return out, nil
}

// find is Locate for an answer that may be "".
func find(context, answer string, candidates []string) (Span, bool) {
	if answer == "" {
		return Span{}, false
	}
	return Locate(context, candidates)
}

// learnAnswers has the variants of answers translated into the language and into
// English. What has no letter is the same in all languages.
func (b *Builder) learnAnswers(ctx context.Context, m *memory, variants []string, lang Lang, progress func(done, total int)) error {
	if b.PlainAnswers {
		return nil
	}
	texts := slices.DeleteFunc(slices.Clone(variants), func(s string) bool { return !spoken(s) })
	for _, to := range []Lang{lang, English} {
		if err := m.learn(ctx, texts, "", to, progress); err != nil {
			return err
		}
	}
	return nil
}

// candidates are the candidates of an answer, with the translations learnt.
func (b *Builder) candidates(m *memory, answer, answerEN string, lang Lang) []string {
	var more []string
	if !b.PlainAnswers {
		for _, v := range Variants(answer, answerEN, lang) {
			if spoken(v) {
				for _, to := range []Lang{lang, English} {
					if t, ok := m.get(v, "", to); ok {
						more = append(more, t)
					}
				}
			}
		}
	}
	return Candidates(answer, answerEN, lang, more)
}

// writeRows stores all rows of a language, for people who want to look at them.
func (b *Builder) writeRows(lang Lang, rows []row) error {
	return atomicfile.Write(filepath.Join(b.Dir, "rows-"+string(lang)+".jsonl"), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for _, r := range rows {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// draw is the fifth step.
func draw(rows []row, sizes recipes.Sizes, seed uint32, f *fate) (*recipes.Output, error) {
	var usable []datasets.Row
	for _, r := range rows {
		if r.Start < 0 {
			continue
		}
		if !between(r.Context, 30, 5000) || !between(r.Question, 10, 100) {
			f.WrongLength++
			continue
		}
		usable = append(usable, datasets.Row{
			ID: r.ID, Question: r.Question, Context: r.Context,
			Answers: &datasets.Answers{Text: []string{r.Answer}, Start: []int{r.Start}},
		})
	}
	parts, _, err := split.Chain(len(usable), seed, sizes.Val, sizes.Test, sizes.Train)
	if err != nil {
		return nil, &Error{
			Kind: TooFew, Detail: fmt.Sprintf("%d usable rows do not suffice for %d, %d and %d rows of train, val and test", len(usable), sizes.Train, sizes.Val, sizes.Test),
			Advice: "look at rows-*.jsonl in the state folder: a translation service that answers in the wrong language, for one, leaves few rows", Err: err,
		}
	}
	out := &recipes.Output{Rows: map[datasets.Split][]datasets.Row{}}
	for i, s := range []datasets.Split{datasets.Val, datasets.Test, datasets.Train} {
		out.Rows[s] = []datasets.Row{}
		for _, j := range parts[i] {
			out.Rows[s] = append(out.Rows[s], usable[j])
		}
	}
	return out, nil
}

// between says whether s has at least low and at most high characters.
func between(s string, low, high int) bool {
	n := utf8.RuneCountInString(s)
	return low <= n && n <= high
}

func (b *Builder) notes(lang Lang, f *fate) []string {
	return []string{
		fmt.Sprintf("%d questions of MKQA: %d left out as yes questions, %d without context, %d whose answer is not in the translated context; %d unanswerable, not drawn; %d answerable, %d of them not drawn for their length",
			f.Questions, f.Yes, f.NoParagraph, f.NoAnswer, f.Unanswerable, f.Answerable, f.WrongLength),
		fmt.Sprintf("contexts: %d long answers of Natural Questions, %d chosen by similarity with %s", f.FromLong, f.FromChoice, b.Embedder.Name()),
		fmt.Sprintf("translated into %s by %s; another service, or the same one later, gives other rows", languageName[lang], b.Translator.Name()),
	}
}

func (b *Builder) parallel() int {
	if b.Parallel > 0 {
		return b.Parallel
	}
	return 4
}

func (b *Builder) log(format string, args ...any) {
	if b.Log != nil {
		b.Log(format, args...)
	}
}
