package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bench/datasets/build"
	"bench/datasets/fetch"
	"bench/datasets/recipes"
	"bench/datasets/scandiqa"

	"github.com/spf13/pflag"
)

// scandiqaFlags are the flags of the data sets that services have a part in.
type scandiqaFlags struct {
	embeddingsURL, embeddingsModel             string
	translator, translatorURL, translatorModel string
	plainAnswers                               bool
	set                                        func(flag string) bool
}

func (q *scandiqaFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&q.embeddingsURL, "embeddings-url", "", "ScandiQA: server that speaks OpenAI's /v1/embeddings, as in http://localhost:8080/v1 (key, if any: $BENCH_EMBEDDINGS_KEY)")
	f.StringVar(&q.embeddingsModel, "embeddings-model", scandiqa.DefaultEmbeddingModel, "ScandiQA: model of the embeddings")
	f.StringVar(&q.translator, "translator", "", "ScandiQA: deepl ($DEEPL_API_KEY), google ($GOOGLE_API_KEY) or openai ($OPENAI_API_KEY)")
	f.StringVar(&q.translatorURL, "translator-url", "", "ScandiQA: another server that speaks like the translator's; it needs no key")
	f.StringVar(&q.translatorModel, "translator-model", "", "ScandiQA: model that translates, of openai")
	f.BoolVar(&q.plainAnswers, "plain-answers", false, "ScandiQA: do not look for translations of the answers: fewer requests, fewer rows")
	q.set = f.Changed
}

var scandiqaFlagNames = []string{"embeddings-url", "embeddings-model", "translator", "translator-url", "translator-model", "plain-answers"}

// addScandiQA puts the recipes of ScandiQA into b, in their place in the
// benchmark and instead of those that are there. from is the folder of Natural
// Questions, or "".
func addScandiQA(b *build.Builder, c scandiqa.Config, from string) {
	mine := scandiqa.Recipes(c)
	all := slices.DeleteFunc(slices.Clone(b.Recipes), func(r recipes.Recipe) bool {
		return slices.ContainsFunc(mine, func(m recipes.Recipe) bool { return m.Name == r.Name })
	})
	at := slices.IndexFunc(all, func(r recipes.Recipe) bool { return r.Name == "speed" })
	if at < 0 {
		at = len(all)
	}
	b.Recipes = slices.Insert(all, at, mine...)
	if b.Files == nil {
		b.Files = map[string]fetch.File{}
	}
	maps.Copy(b.Files, c.Files(from))
}

func (k *kit) scandiqaDir() string { return filepath.Join(k.home, "scandiqa") }

// scandiqa makes b ready to build those of names that are of ScandiQA, and says
// what that lacks. It takes --from out of o: there it is a folder.
func (k *kit) scandiqa(ctx context.Context, b *build.Builder, q *scandiqaFlags, names []string, o *build.Options) error {
	var mine []string
	for _, name := range names {
		if name, _, _ = strings.Cut(name, "+"); strings.HasPrefix(name, "scandiqa-") {
			mine = append(mine, name)
		}
	}
	if len(mine) == 0 {
		for _, name := range scandiqaFlagNames {
			if q.set(name) {
				return usage("bench data build scandiqa-da --"+name+" …", "--%s is for scandiqa-da, -sv and -no, and none of them is named", name)
			}
		}
		return nil
	}
	c := scandiqa.Config{Dir: k.scandiqaDir(), PlainAnswers: q.plainAnswers, Context: ctx, Log: k.log}
	if q.embeddingsURL != "" {
		c.Embedder = &scandiqa.Embeddings{URL: q.embeddingsURL, Model: q.embeddingsModel, Key: os.Getenv("BENCH_EMBEDDINGS_KEY")}
	}
	if q.translator != "" {
		t, err := scandiqa.NewTranslator(q.translator, q.translatorURL, q.translatorModel, os.Getenv)
		if err != nil {
			c.Translator = &scandiqa.DeepL{} // only to see what else is missing
			return errors.Join(err, c.Needs(mine[0], o.From))
		}
		c.Translator = t
	}
	if err := c.Needs(mine[0], o.From); err != nil {
		return err
	}
	addScandiQA(b, c, o.From)
	o.From = ""
	return nil
}
