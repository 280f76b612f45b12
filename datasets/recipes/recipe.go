// Package recipes turns source corpora into uniform data sets. A recipe is one
// small file: where the sources are, and how their rows become uniform ones.
// Names of recipes, and what they make, are those of the ScandEval benchmark.
//
// Recipes do not fetch and do not write: package build does. They are functions
// of their sources, so that building twice gives equal bytes.
package recipes

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"bench/datasets"
	"bench/datasets/conllu"
	"bench/datasets/fetch"
	"bench/datasets/raw"
	"bench/datasets/split"
)

// Recipe makes one data set.
type Recipe struct {
	Name      string
	Kind      datasets.Kind
	Languages []string // BCP 47
	Licence   string
	Citation  string
	Homepage  string
	// Version is raised when the rows change though the sources do not.
	Version int
	// Definition is "" for recipes of this package. For a data set that a user
	// defines it is a digest of the definition: another definition makes another
	// data set.
	Definition string
	Origin     Origin

	Seed    uint32 // of all draws
	Sizes   Sizes  // rows of the data set
	Sources []fetch.Source
	// Base is the number of base rows (sentences, questions) that all sources
	// hold together, before any filter: what a partial build is measured by.
	// 0: the data set cannot be built in part.
	Base  int
	Notes []string // what a user should know; they go into dataset.json

	// Make makes the rows. Its errors name the file, and the line if there is
	// one.
	Make func(in *Input) (*Output, error)
}

// Origin says who defines a data set.
type Origin string

// The origins.
const (
	BuiltIn   Origin = "built-in"
	Catalogue Origin = "catalogue" // the user's own
	Generated Origin = "generated" // made by the program itself, without sources
)

// Sizes are numbers of rows.
type Sizes struct {
	Train int `json:"train"`
	Val   int `json:"val"`
	Test  int `json:"test"`
}

func (s Sizes) total() int { return s.Train + s.Val + s.Test }

// times scales sizes, rounding down, to no less than one row a split.
func (s Sizes) times(scale float64) Sizes {
	f := func(n int) int { return max(1, int(float64(n)*scale)) }
	return Sizes{f(s.Train), f(s.Val), f(s.Test)}
}

// standard are the sizes of nearly all data sets of the benchmark.
var standard = Sizes{Train: 1024, Val: 256, Test: 2048}

// Output is what a recipe makes.
type Output struct {
	Rows map[datasets.Split][]datasets.Row
	// Base is the number of base rows that were read, as in Recipe.Base; 0 if
	// that is 0.
	Base  int
	Notes []string // further ones, that depend on the sources
}

// Input gives a recipe its sources.
type Input struct {
	Recipe *Recipe
	// Files are the fetched sources, in the order of Recipe.Sources. In a partial
	// build a file that could not be had has no Path.
	Files   []fetch.File
	Partial bool
}

// Have says whether source i is there. In a full build all are.
func (in *Input) Have(i int) bool { return in.Files[i].Path != "" }

// Name is what errors call source i: its URL.
func (in *Input) Name(i int) string { return in.Recipe.Sources[i].URL }

// Read returns the content of source i.
func (in *Input) Read(i int) ([]byte, error) { return os.ReadFile(in.Files[i].Path) }

// SizesFor returns how many rows to draw, given the sizes of the full data set,
// how many base rows the sources at hand have (of Recipe.Base), and how many of
// them are usable. A full build gets what it wants. A partial one gets it too
// if the rows suffice, else the same share of it that it has of the base rows.
func (in *Input) SizesFor(want Sizes, base, usable int) Sizes {
	if !in.Partial || want.total() <= usable {
		return want
	}
	return want.times(float64(base) / float64(in.Recipe.Base))
}

// treebank reads source i as CoNLL-U.
func (in *Input) treebank(i int) ([]conllu.Sentence, error) {
	f, err := os.Open(in.Files[i].Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return conllu.ReadAll(f, in.Name(i))
}

// maxUnzipped bounds what is unpacked from an archive.
const maxUnzipped = 1 << 30

// unzip returns one file of source i, a zip archive, and the name to use in
// errors.
func (in *Input) unzip(i int, name string) (content []byte, file string, err error) {
	b, err := in.Read(i)
	if err != nil {
		return nil, "", err
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, "", raw.Errorf(in.Name(i), 0, "no zip archive: %v", err)
	}
	var names []string
	for _, entry := range z.File {
		names = append(names, entry.Name)
		if entry.Name != name {
			continue
		}
		r, err := entry.Open()
		if err != nil {
			return nil, "", raw.Errorf(in.Name(i), 0, "%s: %v", name, err)
		}
		defer r.Close()
		content, err := io.ReadAll(io.LimitReader(r, maxUnzipped+1))
		if err != nil {
			return nil, "", raw.Errorf(in.Name(i), 0, "%s: %v", name, err)
		}
		if len(content) > maxUnzipped {
			return nil, "", raw.Errorf(in.Name(i), 0, "%s: more than %d bytes", name, maxUnzipped)
		}
		return content, in.Name(i) + "!" + name, nil
	}
	return nil, "", raw.Errorf(in.Name(i), 0, "no file %s in the archive; there are: %s", name, strings.Join(names, ", "))
}

// draw splits rows as the benchmark does: all source splits pooled, then val,
// test and train drawn one after the other, each with a fresh generator.
func (in *Input) draw(rows []datasets.Row, base int) (*Output, error) {
	size := in.SizesFor(in.Recipe.Sizes, base, len(rows))
	parts, _, err := split.Chain(len(rows), in.Recipe.Seed, size.Val, size.Test, size.Train)
	if err != nil {
		return nil, fmt.Errorf("val, test and train drawn from %d rows: %w", len(rows), err)
	}
	return &Output{
		Base: base,
		Rows: map[datasets.Split][]datasets.Row{
			datasets.Val: pick(rows, parts[0]), datasets.Test: pick(rows, parts[1]), datasets.Train: pick(rows, parts[2]),
		},
	}, nil
}

// topUp splits a corpus that has its own test part but no validation part: its
// test rows all stay test rows, and the rest of test, val and train are drawn
// from the training rows.
func (in *Input) topUp(train, test []datasets.Row) (*Output, error) {
	size := in.Recipe.Sizes
	parts, _, err := split.Chain(len(train), in.Recipe.Seed, size.Val, size.Test-len(test), size.Train)
	if err != nil {
		return nil, fmt.Errorf("val, the rest of test, and train drawn from %d training rows: %w", len(train), err)
	}
	return &Output{
		Rows: map[datasets.Split][]datasets.Row{
			datasets.Val: pick(train, parts[0]), datasets.Test: append(test, pick(train, parts[1])...), datasets.Train: pick(train, parts[2]),
		},
	}, nil
}

func pick(rows []datasets.Row, at []int) []datasets.Row {
	out := make([]datasets.Row, len(at))
	for i, j := range at {
		out[i] = rows[j]
	}
	return out
}

// github returns the source of a file of a repository at a commit, pinned by
// its git blob id where that is known ("": it is not).
func github(repository, commit, path, blob string) fetch.Source {
	return fetch.Source{URL: "https://raw.githubusercontent.com/" + repository + "/" + commit + "/" + path, GitBlob: blob}
}
