// Package catalog reads a user's own data sets from a YAML file, so that private
// data can be used like the benchmark's:
//
//	version: 1
//	datasets:
//	  - name: my-reviews
//	    task: sentiment            # ner, sentiment, acceptability, qa
//	    languages: [da]
//	    licence: private
//	    citation: Our archive, 2024
//	    format: csv                # csv, tsv, jsonl, conllu, conll, squad
//	    file: reviews.csv          # relative to this file, or a URL
//	    split: {val: 0.1, test: 0.3, seed: 4242}
//	    columns: {text: review, label: stars}
//	    labels: {"1": negative, "3": neutral, "5": positive}
//
// See docs/formats.md for all keys. Reading is strict: unknown keys, keys that
// the format does not have, doubled names and so on are all reported at once,
// each with its line and a remedy. So are the rows of a data file that do not
// fit, when it is built.
package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/recipes"
)

// Problem is one thing that is wrong.
type Problem struct {
	File   string
	Line   int // 0: the file as a whole
	Msg    string
	Remedy string
}

func (p Problem) String() string {
	s := p.File
	if p.Line > 0 {
		s = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	s += ": " + p.Msg
	if p.Remedy != "" {
		s += " (" + p.Remedy + ")"
	}
	return s
}

// Error holds all that is wrong with a catalogue, or with a data file that one
// describes.
type Error struct {
	Problems []Problem
	More     int // problems that are left out
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more of this kind", e.More))
	}
	return strings.Join(lines, "\n")
}

// Hint says what a person can do.
func (e *Error) Hint() string {
	return "mend what is listed above; docs/formats.md, \"Catalogue\", describes all keys"
}

// entry is one data set of a catalogue, as it is written.
type entry struct {
	Name      string            `json:"name"`
	Task      datasets.Kind     `json:"task"`
	Languages []string          `json:"languages"`
	Licence   string            `json:"-"` // does not change the rows
	Citation  string            `json:"-"`
	Homepage  string            `json:"-"`
	Format    string            `json:"format"`
	Files     map[part]source   `json:"files"`
	Split     *fractions        `json:"split,omitempty"`
	Columns   map[string]string `json:"columns,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Separator string            `json:"separator,omitempty"`
	Key       string            `json:"key,omitempty"`
	Scheme    string            `json:"scheme,omitempty"`

	file string // of the catalogue
	line int
}

// part is a split, or all for a single file that is split by fractions.
type part = string

const all part = "all"

type source struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256,omitempty"`
}

// fractions of the rows of "all", or of train, that become val and test.
type fractions struct {
	Val  float64 `json:"val,omitempty"`
	Test float64 `json:"test,omitempty"`
	Seed uint32  `json:"seed"`
}

// Load reads a catalogue and returns a recipe for each of its data sets, in
// their order. All that is wrong is in one *Error.
func Load(path string) ([]recipes.Recipe, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &Error{Problems: []Problem{{File: path, Msg: err.Error(), Remedy: "check the path of --catalog"}}}
	}
	entries, problems := parse(b, path)
	if len(problems) > 0 {
		return nil, &Error{Problems: problems}
	}
	var out []recipes.Recipe
	for _, e := range entries {
		r, err := e.recipe(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// order is the order of an entry's files among the sources of its recipe.
var order = []part{all, "train", "val", "test"}

func (e entry) recipe(dir string) (recipes.Recipe, error) {
	b, err := json.Marshal(e) // keys of maps are sorted
	if err != nil {
		return recipes.Recipe{}, err
	}
	sum := sha256.Sum256(b)
	r := recipes.Recipe{
		Name: e.Name, Kind: e.Task, Languages: e.Languages,
		Licence: e.Licence, Citation: e.Citation, Homepage: e.Homepage,
		Version: 1, Definition: hex.EncodeToString(sum[:8]), Origin: recipes.Catalogue,
	}
	if e.Split != nil {
		r.Seed = e.Split.Seed
	}
	var parts []part
	for _, p := range order {
		s, ok := e.Files[p]
		if !ok {
			continue
		}
		src := fetch.Source{URL: s.URL, SHA256: s.SHA256}
		if src.Local() && !strings.Contains(s.URL, "://") && !filepath.IsAbs(s.URL) {
			abs, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(s.URL)))
			if err != nil {
				return recipes.Recipe{}, err
			}
			src.URL = abs
		}
		r.Sources, parts = append(r.Sources, src), append(parts, p)
	}
	r.Make = func(in *recipes.Input) (*recipes.Output, error) { return e.make(in, parts) }
	return r, nil
}

// formats lists which formats can hold which tasks.
var formats = map[string][]datasets.Kind{
	"csv":    {datasets.Sentiment, datasets.Acceptability, datasets.QA},
	"tsv":    {datasets.Sentiment, datasets.Acceptability, datasets.QA},
	"jsonl":  {datasets.NER, datasets.Sentiment, datasets.Acceptability, datasets.QA},
	"conllu": {datasets.NER},
	"conll":  {datasets.NER},
	"squad":  {datasets.QA},
}

var formatNames = []string{"csv", "tsv", "jsonl", "conllu", "conll", "squad"}

// columnNames lists what may be mapped in columns: required ones, then optional
// ones.
func columnNames(format string, k datasets.Kind) (required, optional []string) {
	switch {
	case format == "conll":
		return nil, []string{"token", "tag"}
	case format == "conllu" || format == "squad":
		return nil, nil
	case k == datasets.NER:
		return []string{"tokens", "labels"}, []string{"text", "id"}
	case k == datasets.QA && format == "jsonl":
		return []string{"question", "context"}, []string{"answers", "answer", "answer_start", "id"}
	case k == datasets.QA:
		return []string{"question", "context", "answer", "answer_start"}, []string{"id"}
	}
	return []string{"text", "label"}, []string{"id"}
}

// column returns the name that a data file uses for a column.
func (e entry) column(name string) string {
	if c, ok := e.Columns[name]; ok {
		return c
	}
	return name
}

func quoteList(names []string) string { return strings.Join(names, ", ") }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
