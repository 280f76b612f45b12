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
	// Suite is the suite of this package's recipes that it belongs to.
	Suite Suite
	// Rules names the rules by which the rows are made where there are several
	// sets of them; "": the program's own. VariantOf is then the data set made
	// by those.
	Rules, VariantOf string

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

// Suite is a list of data sets with a name.
type Suite string

// The suites of this package's recipes.
const (
	Paper Suite = "paper" // those of the ScandEval paper
	Extra Suite = "extra" // other open ones, for the same languages or the same tasks
	// Variant holds other versions of data sets of the paper. They are meant
	// only when they are named.
	Variant Suite = "variant"
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
	Files []fetch.File
	// Partial says that sources are missing, or may be incomplete, and that a
	// smaller data set is wanted then.
	Partial bool
}

// Have says whether source i is there. In a full build all are.
func (in *Input) Have(i int) bool { return in.Files[i].Path != "" }

// Name is what errors call source i: its URL, or the path of a file that a
// person gave.
func (in *Input) Name(i int) string {
	if f := in.Files[i]; f.Origin == fetch.FromDisk {
		return f.Path
	}
	return in.Recipe.Sources[i].URL
}

// Doubtful returns the sources that may be only a part of the file that they
// should be: a person gave it, or its mirror calls it a sample. Other stand-ins
// are whole but for some rows.
func (in *Input) Doubtful() (sources []int) {
	for i, f := range in.Files {
		byHand := f.Origin == fetch.FromDisk && !in.Recipe.Sources[i].Local()
		if f.Path != "" && (byHand || strings.HasPrefix(strings.ToLower(f.Note), "sample")) {
			sources = append(sources, i)
		}
	}
	return sources
}

// Piece says whether the sources are only a part of the corpus although none
// is missing, given the number of their base rows.
func (in *Input) Piece(base int) bool {
	return base < in.Recipe.Base && len(in.Doubtful()) > 0
}

// Read returns the content of source i.
func (in *Input) Read(i int) ([]byte, error) {
	info, err := os.Stat(in.Files[i].Path)
	switch {
	case err != nil:
		return nil, err
	case info.Size() == 0:
		return nil, raw.Errorf(in.Name(i), 0, "the file is empty")
	case info.Size() > maxUnzipped:
		return nil, raw.Errorf(in.Name(i), 0, "%d bytes, where at most %d are read: is it the right file?", info.Size(), maxUnzipped)
	}
	return os.ReadFile(in.Files[i].Path)
}

// SizesFor returns how many rows to draw, given the sizes of the full data set,
// how many base rows the sources at hand have (of Recipe.Base), and how many of
// them are usable. A full build gets what it wants. A partial one gets it too
// if the rows suffice, else the same share of it that it has of the base rows.
func (in *Input) SizesFor(want Sizes, base, usable int) Sizes {
	if !in.Partial || in.Recipe.Base == 0 || want.total() <= usable {
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
	return sentences(f, in.Name(i))
}

// sentences reads a treebank that has some.
func sentences(r io.Reader, file string) ([]conllu.Sentence, error) {
	all, err := conllu.ReadAll(r, file)
	if err == nil && len(all) == 0 {
		return nil, raw.Errorf(file, 0, "the file is empty: it has no sentences")
	}
	return all, err
}

// maxUnzipped bounds what is held of a file, or unpacked from an archive, in
// bytes.
const maxUnzipped = 1 << 30

// unzip returns one file of source i, a zip archive, and the name to use in
// errors.
func (in *Input) unzip(i int, name string) (content []byte, file string, err error) {
	b, err := in.Read(i)
	if err != nil {
		return nil, "", err
	}
	files, err := raw.Zip(bytes.NewReader(b), int64(len(b)), in.Name(i))
	if err != nil {
		return nil, "", err
	}
	var names []string
	for _, z := range files {
		if names = append(names, z.Name); z.Name == name {
			content, err := in.entry(i, z)
			return content, in.Name(i) + "!" + name, err
		}
	}
	return nil, "", raw.Errorf(in.Name(i), 0, "no file %s in the archive; there are: %s", name, strings.Join(names, ", "))
}

// entry unpacks a file of source i, a zip archive.
func (in *Input) entry(i int, z *zip.File) ([]byte, error) {
	r, err := z.Open()
	if err != nil {
		return nil, raw.Errorf(in.Name(i), 0, "%s: %v", z.Name, err)
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, maxUnzipped+1))
	if err != nil {
		return nil, raw.Errorf(in.Name(i), 0, "%s: %v", z.Name, err)
	}
	if len(content) > maxUnzipped {
		return nil, raw.Errorf(in.Name(i), 0, "%s: more than %d bytes", z.Name, maxUnzipped)
	}
	return content, nil
}

// draw splits rows as the benchmark does: all source splits pooled, then val,
// test and train drawn one after the other, each with a fresh generator.
func (in *Input) draw(rows []datasets.Row, base int) (*Output, error) {
	parts, err := in.drawAt(len(rows), base)
	if err != nil {
		return nil, err
	}
	return &Output{
		Base: base,
		Rows: map[datasets.Split][]datasets.Row{
			datasets.Val: pick(rows, parts[0]), datasets.Test: pick(rows, parts[1]), datasets.Train: pick(rows, parts[2]),
		},
	}, nil
}

// drawAt is draw for n rows that are not at hand: it returns the numbers of the
// rows of val, test and train.
func (in *Input) drawAt(n, base int) ([][]int, error) {
	if in.Piece(base) && !in.Partial {
		return nil, &fetch.Error{
			Kind: fetch.Incomplete, URL: in.Name(0),
			Detail: fmt.Sprintf("%d of the corpus' %d sentences: a sample, or a torn copy", base, in.Recipe.Base),
		}
	}
	size := in.SizesFor(in.Recipe.Sizes, base, n)
	parts, _, err := split.Chain(n, in.Recipe.Seed, size.Val, size.Test, size.Train)
	if err != nil {
		return nil, fmt.Errorf("val, test and train drawn from %d rows: %w", n, err)
	}
	return parts, nil
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
