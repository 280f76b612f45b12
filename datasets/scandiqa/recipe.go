package scandiqa

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/recipes"
	"bench/internal/atomicfile"
)

// naturalQuestionsPage is where a person gets Natural Questions.
const naturalQuestionsPage = "https://ai.google.com/research/NaturalQuestions/download"

// Config says what the recipes use.
type Config struct {
	Dir        string     // see Builder
	Embedder   Embedder   // nil: what the last build used, and nothing new
	Translator Translator // nil: what the last build used, and nothing new
	// PlainAnswers and Parallel are as in Builder.
	PlainAnswers bool
	Parallel     int
	// Context ends builds; nil: nothing does. A recipe has no context of its own,
	// and these take hours.
	Context context.Context
	// Log, if set, is told about progress.
	Log func(format string, args ...any)
}

// Recipes returns scandiqa-da, -sv and -no, in the order of the benchmark. Each
// has two sources: MKQA, and the folder of Natural Questions, which nothing
// downloads; see [Config.Files].
func Recipes(c Config) []recipes.Recipe {
	var all []recipes.Recipe
	for _, d := range []struct {
		lang      Lang
		languages []string
	}{
		{Danish, []string{"da"}}, {Swedish, []string{"sv"}}, {Norwegian, []string{"nb", "nn"}},
	} {
		all = append(all, recipes.Recipe{
			Name: "scandiqa-" + string(d.lang), Kind: datasets.QA, Languages: d.languages, Version: 1,
			Licence:  "CC BY-SA 4.0 (MKQA: CC BY-SA 3.0; Natural Questions: CC BY-SA 3.0)",
			Citation: "Nielsen (2023): ScandEval: A Benchmark for Scandinavian Natural Language Processing. NoDaLiDa 2023. Of MKQA (Longpre, Lu and Daiber, 2021) and Natural Questions (Kwiatkowski et al., 2019).",
			Homepage: "https://github.com/alexandrainst/ScandiQA",
			Origin:   recipes.BuiltIn, Suite: recipes.Paper,
			Seed: 4242, Sizes: recipes.Sizes{Train: 1024, Val: 256, Test: 2048},
			Sources: []fetch.Source{
				{URL: MKQAURL},
				{URL: naturalQuestionsPage, Page: true, Manual: getNaturalQuestions},
			},
			Notes: []string{
				"contexts are translated by machine, as in the original",
				"contexts of 30 to 5,000 and questions of 10 to 100 characters, and answerable questions only, as in the benchmark",
			},
			Make: func(in *recipes.Input) (*recipes.Output, error) { return c.make(d.lang, in) },
		})
	}
	return all
}

// Files returns the folder of Natural Questions as a source that is at hand, for
// build.Builder: from, or, if that is "", what earlier builds kept of it. It is
// empty if there is neither.
func (c Config) Files(from string) map[string]fetch.File {
	if from == "" {
		if !c.haveRead() {
			return nil
		}
		from = filepath.Join(c.Dir, "pages")
	}
	return map[string]fetch.File{naturalQuestionsPage: {
		Path: from, URL: naturalQuestionsPage, Origin: fetch.FromDisk, Note: "a folder of files; the notes have a digest of theirs",
	}}
}

// Needs says all at once what building the data set of a recipe lacks, given the
// folder of Natural Questions or "", so that nobody downloads 42 GB to learn that
// a key is missing, too. It is nil for recipes of other packages.
func (c Config) Needs(name, from string) error {
	for _, lang := range []Lang{Danish, Swedish, Norwegian} {
		if name == "scandiqa-"+string(lang) {
			return c.builder(lang, "", from).needs()
		}
	}
	return nil
}

func (c Config) make(lang Lang, in *recipes.Input) (*recipes.Output, error) {
	ctx := c.Context
	if ctx == nil {
		ctx = context.Background()
	}
	from := in.Files[1].Path
	if from == filepath.Join(c.Dir, "pages") {
		from = ""
	}
	b := c.builder(lang, in.Files[0].Path, from)
	out, err := b.Build(ctx, lang, in.Recipe.Sizes, in.Recipe.Seed)
	if err != nil {
		return nil, err
	}
	return out, c.remember(lang, services{b.Embedder.Name(), b.Translator.Name(), b.PlainAnswers})
}

func (c Config) haveRead() bool {
	done, err := filepath.Glob(filepath.Join(c.Dir, "pages", "*.jsonl.gz"))
	return err == nil && len(done) > 0
}

func (c Config) builder(lang Lang, mkqa, from string) *Builder {
	b := &Builder{
		Dir: c.Dir, MKQA: mkqa, NaturalQuestions: from, Embedder: c.Embedder, Translator: c.Translator,
		PlainAnswers: c.PlainAnswers, Parallel: c.Parallel, Log: c.Log,
	}
	// Without services named, a build that was finished can be repeated from what
	// they answered then: for a division of the data set, for one.
	if s, ok := c.last(lang); ok {
		if b.Embedder == nil {
			b.Embedder = absent{s.Embeddings}
		}
		if b.Translator == nil {
			b.Translator, b.PlainAnswers = absent{s.Translator}, s.PlainAnswers
		}
	}
	return b
}

// services says what a finished build used.
type services struct {
	Embeddings   string `json:"embeddings"`
	Translator   string `json:"translator"`
	PlainAnswers bool   `json:"plain_answers"`
}

func (c Config) servicesFile(lang Lang) string {
	return filepath.Join(c.Dir, "services-"+string(lang)+".json")
}

func (c Config) remember(lang Lang, s services) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(c.servicesFile(lang), append(b, '\n'))
}

// last returns what the last finished build used. A file that cannot be read is
// as good as none: the services have to be named then.
func (c Config) last(lang Lang) (services, bool) {
	var s services
	b, err := os.ReadFile(c.servicesFile(lang))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return services{}, false
	}
	return s, true
}

// absent is a service that is not named now: what it answered before is known
// under its name.
type absent struct{ name string }

func (a absent) Name() string { return a.name }

func (a absent) Batch() int { return 1 }

func (a absent) Embed(context.Context, []string) ([][]float32, error) {
	return nil, &Error{Kind: NoService, Detail: "the embedding service is needed again: the sources or the rules have changed since " + a.name + " was asked", Advice: nameEmbeddings}
}

func (a absent) Translate(context.Context, []string, Lang, Lang) ([]string, error) {
	return nil, &Error{Kind: NoService, Detail: "the translation service is needed again: the sources or the rules have changed since " + a.name + " was asked", Advice: nameTranslator}
}
