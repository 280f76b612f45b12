package published

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bench/datasets"
)

// splitNames are what splits are called.
var splitNames = map[string]datasets.Split{
	"train": datasets.Train, "training": datasets.Train,
	"val": datasets.Val, "valid": datasets.Val, "validation": datasets.Val, "dev": datasets.Val,
	"test": datasets.Test,
}

var (
	// data/train-00000-of-00002-0123456789abcdef.parquet, val.parquet
	flatFile = regexp.MustCompile(`^([a-z]+)(?:-(\d{5})-of-(\d{5})(?:-[0-9a-f]+)?)?\.parquet$`)
	// default/train/0000.parquet, as on the Hub's own branch refs/convert/parquet
	deepFile = regexp.MustCompile(`^(\d{4})\.parquet$`)
)

// files are the names of the Parquet files of one configuration, by split, in
// order.
type files map[datasets.Split][]string

// all lists them, train first.
func (f files) all() []string {
	var out []string
	for _, s := range datasets.Splits {
		out = append(out, f[s]...)
	}
	return out
}

// choose finds the three splits among the names of a repository. config is the
// folder to take; "": the only one that there is.
func choose(names []string, config string) (files, error) {
	folders := map[string]files{}
	others := map[string]bool{}
	count := map[string]int{} // number of parts that a split says it has
	for _, n := range names {
		if path.Ext(n) != ".parquet" {
			others[path.Ext(n)] = true
			continue
		}
		dir, base := path.Split(n)
		dir = strings.TrimSuffix(dir, "/")
		var split string
		if m := flatFile.FindStringSubmatch(base); m != nil {
			split = m[1]
			if m[3] != "" {
				count[dir+"/"+split], _ = strconv.Atoi(m[3])
			}
		} else if deepFile.MatchString(base) {
			dir, split = path.Split(dir)
			dir = strings.TrimSuffix(dir, "/")
		}
		s, ok := splitNames[split]
		if !ok {
			continue
		}
		if folders[dir] == nil {
			folders[dir] = files{}
		}
		folders[dir][s] = append(folders[dir][s], n)
	}
	var known []string
	for dir := range folders {
		known = append(known, dir)
	}
	slices.Sort(known)
	dir := config
	switch {
	case len(known) == 0:
		for _, ext := range []string{".jsonl", ".json", ".csv", ".tsv", ".arrow", ".py"} {
			if others[ext] {
				return nil, fmt.Errorf("there are no Parquet files train, val (or validation) and test, only %s files; the Hub's own conversion may be at @refs/convert/parquet", ext)
			}
		}
		return nil, fmt.Errorf("there are no Parquet files train, val (or validation) and test")
	case config == "" && len(known) == 1:
		dir = known[0]
	case config == "":
		return nil, fmt.Errorf("there are several configurations: choose one with ?config=%s", strings.Join(known, " or ?config="))
	case folders[config] == nil:
		return nil, fmt.Errorf("there is no configuration %q; there are: %s", config, strings.Join(known, ", "))
	}
	chosen := folders[dir]
	for _, s := range datasets.Splits {
		if len(chosen[s]) == 0 {
			return nil, fmt.Errorf("there is no split %s", s)
		}
		slices.Sort(chosen[s])
		if want, found := partsOf(chosen[s], dir, count); want != 0 && want != found {
			return nil, fmt.Errorf("of split %s there are %d files of %d", s, found, want)
		}
	}
	return chosen, nil
}

// partsOf returns how many parts a split says it has, and how many there are.
// A split under two names, val and validation, is never whole.
func partsOf(names []string, dir string, count map[string]int) (want, found int) {
	called := map[string]bool{}
	for _, n := range names {
		if m := flatFile.FindStringSubmatch(path.Base(n)); m != nil {
			called[m[1]] = true
			want = max(want, count[dir+"/"+m[1]])
		}
	}
	if len(called) > 1 {
		return len(names) + 1, len(names)
	}
	if want == 0 && len(called) == 1 {
		want = 1
	}
	return want, len(names)
}
