package build

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/recipes"
)

// member is a data set of the benchmark, whether there is a recipe or not.
type member struct {
	name      string
	kind      datasets.Kind
	languages []string
}

// paper lists the data sets of the ScandEval paper (2023), in the order of its
// tasks.
var paper = []member{
	{"dane", datasets.NER, []string{"da"}},
	{"suc3", datasets.NER, []string{"sv"}},
	{"norne-nb", datasets.NER, []string{"nb"}},
	{"norne-nn", datasets.NER, []string{"nn"}},
	{"mim-gold-ner", datasets.NER, []string{"is"}},
	{"wikiann-fo", datasets.NER, []string{"fo"}},
	{"angry-tweets", datasets.Sentiment, []string{"da"}},
	{"swerec", datasets.Sentiment, []string{"sv"}},
	{"norec", datasets.Sentiment, []string{"nb", "nn"}},
	{"scala-da", datasets.Acceptability, []string{"da"}},
	{"scala-sv", datasets.Acceptability, []string{"sv"}},
	{"scala-nb", datasets.Acceptability, []string{"nb"}},
	{"scala-nn", datasets.Acceptability, []string{"nn"}},
	{"scala-is", datasets.Acceptability, []string{"is"}},
	{"scala-fo", datasets.Acceptability, []string{"fo"}},
	{"scandiqa-da", datasets.QA, []string{"da"}},
	{"scandiqa-sv", datasets.QA, []string{"sv"}},
	{"scandiqa-no", datasets.QA, []string{"nb", "nn"}},
	{"speed", datasets.Speed, []string{"da", "nb", "nn", "sv", "is", "fo"}},
}

// Suites returns the names of the suites: "paper" (the ScandEval paper's data
// sets), "extra" (further open ones), "sample" (generated, for trying the
// program), "catalogue" (the user's own, if there are any) and "all" (everything
// that can be built, without the samples and without variants of data sets).
func (b *Builder) Suites() []string {
	names := []string{"paper", "extra", "sample", "all"}
	if slices.ContainsFunc(b.Recipes, func(r recipes.Recipe) bool { return r.Origin == recipes.Catalogue }) {
		names = append(names, "catalogue")
	}
	return names
}

// Selection says which data sets are meant. All conditions hold together; an
// empty one is no condition.
type Selection struct {
	Suite     string
	Names     []string
	Tasks     []datasets.Kind
	Languages []string // "no" means nb and nn
}

// Select returns the names of the data sets that are meant, in the order of
// Names, else of the suite. Names alone need no suite; without names and suite
// the suite is "all". Unknown names, and members of a suite that cannot be built
// yet, are all reported together as *UnknownError; nothing selected is an
// error, too.
func (b *Builder) Select(s Selection) ([]string, error) {
	for _, k := range s.Tasks {
		if !slices.Contains(datasets.Kinds, k) {
			return nil, fmt.Errorf("there is no task %q; there are %s", k, joinKinds())
		}
	}
	from, err := b.members(s)
	if err != nil {
		return nil, err
	}
	var names []string
	var unknown []error
	for _, m := range from {
		if len(s.Tasks) > 0 && !slices.Contains(s.Tasks, m.kind) ||
			len(s.Languages) > 0 && !slices.ContainsFunc(s.Languages, func(l string) bool { return speaks(m.languages, l) }) {
			continue
		}
		if _, err := b.Recipe(m.name); err != nil {
			unknown = append(unknown, err)
			continue
		}
		names = append(names, m.name)
	}
	if len(unknown) > 0 {
		return nil, errors.Join(unknown...)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no data set is selected: none has %s", s.describe())
	}
	return names, nil
}

func (b *Builder) members(s Selection) ([]member, error) {
	var suite []member
	switch s.Suite {
	case "paper":
		suite = paper
	case "", "all", "extra", "sample", "catalogue":
		for _, r := range b.Recipes {
			if (s.Suite == "" && len(s.Names) > 0) ||
				(s.Suite == "" || s.Suite == "all") && r.Origin != recipes.Generated && r.Suite != recipes.Variant ||
				s.Suite == "extra" && r.Suite == recipes.Extra ||
				s.Suite == "sample" && r.Origin == recipes.Generated ||
				s.Suite == "catalogue" && r.Origin == recipes.Catalogue {
				suite = append(suite, member{r.Name, r.Kind, r.Languages})
			}
		}
	default:
		return nil, fmt.Errorf("there is no suite %q; there are %s", s.Suite, strings.Join(b.Suites(), ", "))
	}
	if len(s.Names) == 0 {
		return suite, nil
	}
	var out []member
	var unknown []error
	for _, name := range s.Names {
		i := slices.IndexFunc(suite, func(m member) bool { return m.name == name })
		switch {
		case slices.ContainsFunc(out, func(m member) bool { return m.name == name }):
		case i >= 0:
			out = append(out, suite[i])
		case s.Suite != "":
			unknown = append(unknown, fmt.Errorf("data set %s is not in the suite %s", name, s.Suite))
		default:
			r, err := b.Recipe(name)
			if err != nil {
				unknown = append(unknown, err)
				break
			}
			out = append(out, member{r.Name, r.Kind, r.Languages})
		}
	}
	return out, errors.Join(unknown...)
}

// Variant returns the name of the data set that has the rows of another one made
// by other rules; "" and "paper" are the data set itself.
func (b *Builder) Variant(name, rules string) (string, error) {
	if _, err := b.Recipe(name); err != nil {
		return "", err
	}
	if rules == "" || rules == "paper" {
		return name, nil
	}
	var there []string
	for _, r := range b.Recipes {
		if r.VariantOf == name && r.Rules == rules {
			return r.Name, nil
		}
		if r.Rules == rules {
			there = append(there, r.VariantOf)
		}
	}
	if there == nil {
		return "", fmt.Errorf("there are no rules %q; there are paper (the default) and scandeval", rules)
	}
	return "", fmt.Errorf("data set %s cannot be made by the rules %q; %s can", name, rules, strings.Join(there, ", "))
}

func speaks(languages []string, l string) bool {
	if l == "no" {
		return slices.Contains(languages, "no") || slices.Contains(languages, "nb") || slices.Contains(languages, "nn")
	}
	return slices.Contains(languages, l)
}

func (s Selection) describe() string {
	var parts []string
	if s.Suite != "" {
		parts = append(parts, "suite "+s.Suite)
	}
	if len(s.Names) > 0 {
		parts = append(parts, "name "+strings.Join(s.Names, " or "))
	}
	if len(s.Tasks) > 0 {
		kinds := make([]string, len(s.Tasks))
		for i, k := range s.Tasks {
			kinds[i] = string(k)
		}
		parts = append(parts, "task "+strings.Join(kinds, " or "))
	}
	if len(s.Languages) > 0 {
		parts = append(parts, "language "+strings.Join(s.Languages, " or "))
	}
	return strings.Join(parts, " and ")
}

func joinKinds() string {
	var kinds []string
	for _, k := range datasets.Kinds {
		kinds = append(kinds, string(k))
	}
	return strings.Join(kinds, ", ")
}
