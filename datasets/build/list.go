package build

import (
	"errors"
	"strings"

	"bench/datasets"
	"bench/datasets/recipes"
)

// Info describes a data set for people.
type Info struct {
	Name      string         `json:"name"`
	Kind      datasets.Kind  `json:"task"`
	Languages []string       `json:"languages"`
	Licence   string         `json:"licence"`
	Citation  string         `json:"citation"`
	Homepage  string         `json:"homepage,omitempty"`
	Origin    recipes.Origin `json:"origin"`
	Suite     recipes.Suite  `json:"suite,omitempty"`
	Sources   []string       `json:"sources"`           // URLs
	ByHand    string         `json:"by_hand,omitempty"` // where and how a person gets a source that cannot be downloaded
	Sizes     recipes.Sizes  `json:"sizes"`             // of the full data set
	Status    Status         `json:"status"`
	Built     *datasets.Meta `json:"built,omitempty"` // nil if it is not there or cannot be read
	Problem   string         `json:"problem,omitempty"`
}

// Status says what is stored.
type Status string

// What may be stored of a data set.
const (
	NotBuilt Status = "not built"
	Full     Status = "built"
	Part     Status = "partial"
	Outdated Status = "outdated" // by another version of its recipe or definition
	Broken   Status = "broken"   // dataset.json cannot be read
	Orphan   Status = "built, recipe unknown"
	Planned  Status = "planned" // the benchmark has it, there is no recipe yet
)

// List describes all data sets: those with a recipe, in its order, then others
// that are stored, by name (divisions, those of the Hub), then members
// of the benchmark that have none yet.
func (b *Builder) List() []Info {
	var all []Info
	for _, r := range b.Recipes {
		all = append(all, b.info(r))
	}
	all = append(all, b.found()...)
	for _, p := range paper {
		if _, err := b.Recipe(p.name); err != nil {
			all = append(all, Info{Name: p.name, Kind: p.kind, Languages: p.languages, Origin: recipes.BuiltIn, Status: Planned, Sources: []string{}})
		}
	}
	return all
}

// Show describes one data set, or returns an *UnknownError. A data set that is
// stored is described even where its recipe is not known.
func (b *Builder) Show(name string) (Info, error) {
	r, err := b.Recipe(name)
	if err != nil {
		if !strings.ContainsAny(name, `/\`) {
			if i, openErr := b.orphan(name); openErr == nil {
				return i, nil
			}
		}
		return Info{}, err
	}
	return b.info(r), nil
}

func (b *Builder) info(r recipes.Recipe) Info {
	i := Info{
		Name: r.Name, Kind: r.Kind, Languages: r.Languages, Licence: r.Licence, Citation: r.Citation, Homepage: r.Homepage,
		Origin: r.Origin, Suite: r.Suite, Sources: []string{}, Sizes: r.Sizes, Status: NotBuilt,
	}
	for _, s := range r.Sources {
		i.Sources = append(i.Sources, s.URL)
		if s.Manual != "" {
			i.ByHand = s.Manual
		}
	}
	d, err := datasets.Open(b.Dir(r.Name))
	switch {
	case errors.Is(err, datasets.ErrNotBuilt):
		return i
	case err != nil:
		i.Status, i.Problem = Broken, err.Error()
		return i
	case d.Recipe != version(r):
		i.Status = Outdated
	case d.Partial != nil:
		i.Status = Part
	default:
		i.Status = Full
	}
	i.Built = &d.Meta
	return i
}
