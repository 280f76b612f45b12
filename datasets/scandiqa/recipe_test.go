package scandiqa

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/datasets/build"
	"bench/datasets/fetch"
)

// home is a builder of data sets with the recipes of c, in small.
func home(t *testing.T, dir, mkqa, from string, c Config) *build.Builder {
	t.Helper()
	c.Dir = filepath.Join(dir, "scandiqa")
	b := &build.Builder{
		Home: dir, Recipes: Recipes(c), Files: map[string]fetch.File{},
		Fetcher: &fetch.Fetcher{Dir: filepath.Join(dir, "downloads"), Offline: true},
	}
	for i := range b.Recipes {
		b.Recipes[i].Sizes = small
	}
	for url, f := range c.Files(from) {
		b.Files[url] = f
	}
	if mkqa != "" {
		b.Files[MKQAURL] = fetch.File{Path: mkqa, URL: MKQAURL, SHA256: strings.Repeat("0", 64), Bytes: 1}
	}
	return b
}

func TestRecipes(t *testing.T) {
	f := newFake(t)
	dir := t.TempDir()
	mkqa, nq := sources(t)
	c := Config{Embedder: &Embeddings{URL: f.URL + "/v1", Patience: quick}, Translator: f.services()["google"]}
	b := home(t, dir, mkqa, nq, c)
	names := map[string]string{}
	for _, name := range []string{"scandiqa-da", "scandiqa-sv", "scandiqa-no"} {
		d, err := b.Build(t.Context(), name, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Partial != nil || d.Counts[datasets.Train].Rows != small.Train || len(d.Sources) != 2 || d.Verify() != nil {
			t.Errorf("%+v", d.Meta)
		}
		if !slices.ContainsFunc(d.Notes, func(n string) bool { return strings.Contains(n, "2 files; SHA-256") }) {
			t.Errorf("no note on Natural Questions: %q", d.Notes)
		}
		names[name] = d.Digest
	}
	f.once(t)

	// A finished build can be repeated without sources at hand and services named.
	before := f.requests
	b = home(t, dir, mkqa, "", Config{})
	for name, digest := range names {
		d, err := b.Build(t.Context(), name, build.Options{})
		if err != nil || d.Digest != digest || f.requests != before {
			t.Errorf("%s again: %v", name, err)
		}
	}
}

func TestRecipeErrors(t *testing.T) {
	f := newFake(t)
	dir := t.TempDir()
	mkqa, nq := sources(t)

	// Nothing is there: both sources are named, and how a person gets the second.
	_, err := home(t, dir, "", "", Config{}).Build(t.Context(), "scandiqa-da", build.Options{})
	var missing *build.MissingError
	if !errors.As(err, &missing) || len(missing.Sources) != 2 || !strings.Contains(missing.Sources[1].Hint(), "--from DIR") {
		t.Errorf("%v", err)
	}
	// Everything that is missing is said at once.
	c := Config{Dir: dir}
	err = c.Needs("scandiqa-no", "")
	for _, want := range []string{"Natural Questions", "embedding", "translation"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := c.Needs("dane", ""); err != nil {
		t.Errorf("dane: %v", err)
	}
	// Ctrl-C.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c = Config{Context: ctx, Embedder: &Embeddings{URL: f.URL + "/v1"}, Translator: f.services()["deepl"]}
	if _, err := home(t, dir, mkqa, nq, c).Build(t.Context(), "scandiqa-da", build.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	// Services that are not named, but were needed for what is new.
	var e *Error
	c = Config{Dir: filepath.Join(dir, "scandiqa")}
	if err := c.remember(Danish, services{Embeddings: "m", Translator: "deepl"}); err != nil {
		t.Fatal(err)
	}
	if _, err := home(t, dir, mkqa, nq, Config{}).Build(t.Context(), "scandiqa-da", build.Options{}); !errors.As(err, &e) || e.Kind != NoService {
		t.Errorf("%v", err)
	}
}

func TestNewTranslator(t *testing.T) {
	keys := func(name string) string {
		return map[string]string{"DEEPL_API_KEY": "a:fx", "OPENAI_API_KEY": "b"}[name]
	}
	for _, c := range []struct {
		name, url, model string
		want             string // name of the service, or kind of the error after "!"
	}{
		{"deepl", "", "", "deepl"},
		{"openai", "", "m", "chat 1 m"},
		{"openai", "", "", "!no service"},
		{"google", "", "", "!no key"},
		{"google", "http://localhost:1", "", "google"},
		{"bing", "", "", "!no service"},
	} {
		got, err := NewTranslator(c.name, c.url, c.model, keys)
		var e *Error
		if kind, isErr := strings.CutPrefix(c.want, "!"); isErr {
			if !errors.As(err, &e) || string(e.Kind) != kind || e.Hint() == "" {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
		} else if err != nil || got.Name() != c.want {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}
