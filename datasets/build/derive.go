package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/published"
	"bench/datasets/recipes"
	"bench/datasets/resplit"
)

// Divided is the origin of data sets that are others, divided anew.
const Divided recipes.Origin = "divided"

// Fetch gets a source file: one that is at hand (Files), else as the Fetcher
// does.
func (b *Builder) Fetch(ctx context.Context, s fetch.Source) (fetch.File, error) {
	if f, ok := b.Files[s.URL]; ok {
		return f, nil
	}
	return b.Fetcher.Fetch(ctx, s)
}

// Add adds a data set of the Hub, whose files are at hand, and returns its name.
func (b *Builder) Add(f published.Found) string {
	b.Recipes = append(slices.DeleteFunc(slices.Clone(b.Recipes), func(r recipes.Recipe) bool { return r.Name == f.Recipe.Name }), f.Recipe)
	if b.Files == nil {
		b.Files = map[string]fetch.File{}
	}
	for url, file := range f.Files {
		b.Files[url] = file
	}
	return f.Recipe.Name
}

// further finds data sets that are in no list of recipes: NAME+DIVISION, where
// NAME is any other data set, and stored ones of the Hub.
func (b *Builder) further(name string) (recipes.Recipe, bool, error) {
	if base, division, ok := strings.Cut(name, "+"); ok {
		parent, err := b.Recipe(base)
		if err != nil {
			return recipes.Recipe{}, false, err
		}
		spec, err := resplit.Parse(division)
		if err != nil {
			return recipes.Recipe{}, false, fmt.Errorf("data set %s: %w", name, err)
		}
		return divided(parent, spec), true, nil
	}
	if strings.HasPrefix(name, "hub--") && !strings.ContainsAny(name, `/\`) {
		if d, err := datasets.Open(b.Dir(name)); err == nil {
			return stored(d), true, nil
		}
	}
	return recipes.Recipe{}, false, nil
}

// divided is the recipe of a division. Its sources are those of the parent, to be
// shown; its rows are made by divide.
func divided(parent recipes.Recipe, spec resplit.Spec) recipes.Recipe {
	r := parent
	r.Name, r.Origin, r.Make = parent.Name+"+"+spec.String(), Divided, nil
	text, err := json.Marshal([]any{parent.Definition, parent.Version, spec, resplit.Version})
	if err != nil {
		panic(err) // strings and numbers
	}
	sum := sha256.Sum256(text)
	r.Definition = hex.EncodeToString(sum[:])
	return r
}

// divide builds a division from the parent, which is built if it is not there:
// so what took a person, a service or hours is not needed again, and the
// division has the very rows that the parent has.
func (b *Builder) divide(ctx context.Context, r recipes.Recipe, o Options) (*datasets.Dataset, error) {
	base, division, _ := strings.Cut(r.Name, "+")
	spec, err := resplit.Parse(division)
	if err != nil {
		return nil, err
	}
	parent, err := b.Open(ctx, base, o)
	if err != nil {
		return nil, err
	}
	if err := parent.Verify(); err != nil {
		return nil, err
	}
	rows := map[datasets.Split][]datasets.Row{}
	for _, s := range datasets.Splits {
		if rows[s], err = parent.Rows(s); err != nil {
			return nil, err
		}
	}
	m := parent.Meta
	m.Name, m.Recipe = r.Name, version(r)
	old := overlaps(r.Kind, rows)
	m.Notes = slices.DeleteFunc(slices.Clone(m.Notes), func(n string) bool { return slices.Contains(old, n) })
	m.Notes = append(m.Notes, "the rows are those of "+base+", divided anew: scores are not comparable with those on its own splits")
	if rows, m.Division, err = spec.Divide(r.Kind, rows); err != nil {
		return nil, fmt.Errorf("data set %s: %w", r.Name, err)
	}
	m.Division.Of, m.Division.OfDigest = base, parent.Digest
	m.Notes = append(m.Notes, overlaps(r.Kind, rows)...)
	return b.store(m, rows)
}

// stored is the recipe of a data set of the Hub that was built before: it can be
// opened and divided without the Hub, and without its files.
func stored(d *datasets.Dataset) recipes.Recipe {
	r := recipes.Recipe{
		Name: d.Name, Kind: d.Kind, Languages: d.Languages, Licence: d.Licence, Citation: d.Citation, Homepage: d.Homepage,
		Version: d.Recipe.Version, Definition: d.Recipe.Definition, Origin: published.Origin,
		Sizes: recipes.Sizes{Train: d.Counts[datasets.Train].Rows, Val: d.Counts[datasets.Val].Rows, Test: d.Counts[datasets.Test].Rows},
		Make: func(*recipes.Input) (*recipes.Output, error) {
			if err := d.Verify(); err != nil {
				return nil, err
			}
			out := &recipes.Output{Rows: map[datasets.Split][]datasets.Row{}}
			for _, s := range datasets.Splits {
				rows, err := d.Rows(s)
				if err != nil {
					return nil, err
				}
				out.Rows[s] = rows
			}
			return out, nil
		},
	}
	return r
}

// kept returns the stored data set if r is the recipe that stored made of it:
// its rows are all there is, so building it anew is comparing it with its digest.
func (b *Builder) kept(r recipes.Recipe) (*datasets.Dataset, error) {
	if r.Origin != published.Origin || len(r.Sources) > 0 {
		return nil, nil
	}
	d, err := datasets.Open(b.Dir(r.Name))
	if err != nil {
		return nil, err
	}
	return d, d.Verify()
}

// found describes the data sets that are stored here and in no list of recipes:
// divisions, those of the Hub, and those of a catalogue that is not given now.
func (b *Builder) found() []Info {
	entries, err := os.ReadDir(b.Dir("."))
	if err != nil {
		return nil
	}
	listed := map[string]bool{}
	for _, r := range b.Recipes {
		listed[r.Name] = true
	}
	var all []Info
	for _, e := range entries { // sorted by name
		name := e.Name()
		if !e.IsDir() || strings.HasPrefix(name, ".") || listed[name] {
			continue
		}
		if r, err := b.Recipe(name); err == nil {
			all = append(all, b.info(r))
			continue
		}
		if i, err := b.orphan(name); err == nil {
			all = append(all, i)
		}
	}
	return all
}

// orphan describes a stored data set whose recipe is not known here.
func (b *Builder) orphan(name string) (Info, error) {
	d, err := datasets.Open(b.Dir(name))
	if errors.Is(err, datasets.ErrNotBuilt) {
		return Info{}, err
	}
	if err != nil {
		return Info{Name: name, Status: Broken, Problem: err.Error(), Sources: []string{}}, nil
	}
	i := Info{
		Name: d.Name, Kind: d.Kind, Languages: d.Languages, Licence: d.Licence, Citation: d.Citation, Homepage: d.Homepage,
		Origin: recipes.Catalogue, Sources: []string{}, Status: Orphan, Built: &d.Meta,
		Problem: "the recipe is not known here: it is from a catalogue that is not given now (--catalog), or from another version of bench",
	}
	for _, s := range d.Sources {
		i.Sources = append(i.Sources, s.URL)
	}
	return i, nil
}
