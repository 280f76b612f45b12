package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/build"
	"bench/datasets/catalog"
	"bench/datasets/fetch"
	"bench/datasets/recipes"
	"bench/datasets/scandiqa"

	"github.com/spf13/pflag"
)

// selection are the flags that say which data sets are meant.
type selection struct {
	suite string
	names []string
	tasks []string
	langs []string
	picking
}

func (s *selection) addFlags(f *pflag.FlagSet) {
	s.picking.addFlags(f)
	f.StringVar(&s.suite, "suite", "", "suite of data sets: paper, extra, sample (generated, no download), all, catalogue")
	f.StringSliceVar(&s.names, "dataset", nil, "data sets, by name, or hub:org/name[@revision] on the Hugging Face Hub")
	f.StringSliceVar(&s.tasks, "task", nil, "only these tasks: ner, sentiment, acceptability, qa, speed")
	f.StringSliceVar(&s.langs, "language", nil, "only these languages: da, nb, nn, no (nb and nn), sv, is, fo")
}

// builder makes the builder of data sets for the flags of the command line.
func (k *kit) builder() (*build.Builder, error) {
	f := &fetch.Fetcher{Dir: filepath.Join(k.home, "downloads")}
	if k.mirror != "" {
		m, err := fetch.OpenMirror(k.mirror)
		if err != nil {
			return nil, err
		}
		f.Mirror = m
	}
	var own []recipes.Recipe
	if k.catalog != "" {
		var err error
		if own, err = catalog.Load(k.catalog); err != nil {
			return nil, &usageError{err: err}
		}
	}
	all, err := build.Recipes(own...)
	if err != nil {
		return nil, &usageError{err: err}
	}
	b := &build.Builder{Home: k.home, Fetcher: f, Recipes: all}
	addScandiQA(b, scandiqa.Config{Dir: k.scandiqaDir()}, "")
	return b, nil
}

// names lists the selected data sets, and the builder that knows them.
func (k *kit) names(ctx context.Context, s selection) (*build.Builder, []string, error) {
	b, err := k.builder()
	if err != nil {
		return nil, nil, err
	}
	suite := s.suite
	if suite == "" && len(s.names) == 0 && len(s.tasks)+len(s.langs) == 0 {
		return nil, nil, usage("bench run MODEL --suite paper, or --suite sample to try it without a download", "which data sets? Give --suite, --dataset, --task or --language")
	}
	var kinds []datasets.Kind
	for _, t := range s.tasks {
		kinds = append(kinds, datasets.Kind(t))
	}
	named, err := k.resolve(ctx, b, s.names)
	if err != nil {
		return nil, nil, err
	}
	names, err := b.Select(build.Selection{Suite: suite, Names: named, Tasks: kinds, Languages: s.langs})
	if err != nil {
		return nil, nil, &usageError{err: err}
	}
	names, err = s.picking.apply(b, names)
	return b, names, err
}

// data opens the selected data sets, building those that are not there.
func (k *kit) data(ctx context.Context, s selection, partial bool) ([]*datasets.Dataset, error) {
	b, names, err := k.names(ctx, s)
	if err != nil {
		return nil, err
	}
	var sets []*datasets.Dataset
	var errs []error
	for _, name := range names {
		d, err := k.open(ctx, b, name, partial)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			errs = append(errs, err)
			continue
		}
		sets = append(sets, d)
	}
	return sets, errors.Join(errs...)
}

// open opens one data set and says so if it has to be built.
func (k *kit) open(ctx context.Context, b *build.Builder, name string, partial bool) (*datasets.Dataset, error) {
	info, err := b.Show(name)
	if err != nil {
		return nil, err
	}
	if info.Status == build.NotBuilt || info.Status == build.Outdated {
		from := "from " + plural(len(info.Sources), "source file")
		if len(info.Sources) == 0 {
			from = "without a download"
		}
		k.log("building %s %s", name, from)
	}
	return b.Open(ctx, name, build.Options{Partial: partial})
}

// plural is "1 file", "2 files".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// share shows label counts, the most frequent first.
func shares(c datasets.Counts) string {
	type label struct {
		name string
		n    int
	}
	var ls []label
	for name, n := range c.Labels {
		ls = append(ls, label{name, n})
	}
	slices.SortFunc(ls, func(a, b label) int {
		if a.n != b.n {
			return b.n - a.n
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, l := range ls {
		out = append(out, fmt.Sprintf("%s %d", l.name, l.n))
	}
	return strings.Join(out, ", ")
}
