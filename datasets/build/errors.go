package build

import (
	"fmt"
	"slices"
	"strings"

	"bench/datasets/fetch"
)

// MissingError says that sources of a data set cannot be had, and that it was
// therefore not built.
type MissingError struct {
	Dataset   string
	Sources   []*fetch.Error // what is missing, and why
	Of        int            // number of all sources
	Divisible bool           // a partial build would be possible
}

func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "data set %s: %d of %d sources cannot be had", e.Dataset, len(e.Sources), e.Of)
	for _, s := range e.Sources {
		fmt.Fprintf(&b, "\n%v", s)
	}
	return b.String()
}

// Unwrap returns the errors of the single sources.
func (e *MissingError) Unwrap() []error {
	var out []error
	for _, s := range e.Sources {
		out = append(out, s)
	}
	return out
}

// Hint says what a person can do; the sources' own hints say more.
func (e *MissingError) Hint() string {
	if slices.ContainsFunc(e.Sources, func(s *fetch.Error) bool { return s.Manual != "" }) {
		return "with the file at hand: bench data build " + e.Dataset + " --from FILE"
	}
	if e.Divisible {
		return "--partial builds " + e.Dataset + " from the other sources; it is then smaller and marked as partial, and its scores are not ranked with those of the full data set"
	}
	return ""
}

// FromError says that a data set takes no file from a person.
type FromError struct{ Dataset string }

func (e *FromError) Error() string {
	return "data set " + e.Dataset + ": none of its sources is a file that a person has to get, so --from has nothing to stand for"
}

// Hint says what a person can do.
func (e *FromError) Hint() string {
	return "serve copies of its sources with --mirror DIR, or describe the file in a catalogue (--catalog FILE.yaml) under another name"
}

// UnknownError says that there is no such data set.
type UnknownError struct {
	Name    string
	Similar []string
	Planned bool // the benchmark has it, this program cannot build it yet
}

func (e *UnknownError) Error() string {
	if e.Planned {
		return fmt.Sprintf("data set %s: it belongs to the benchmark, but this version of bench has no recipe for it", e.Name)
	}
	return fmt.Sprintf("there is no data set %q", e.Name)
}

// Hint lists names that were perhaps meant.
func (e *UnknownError) Hint() string {
	switch {
	case e.Planned:
		return "describe your copy of it in a catalogue (--catalog FILE.yaml) under another name, or leave it out: `bench data list` shows what can be built"
	case len(e.Similar) > 0:
		return "did you mean " + strings.Join(e.Similar, " or ") + "? `bench data list` shows all"
	}
	return "`bench data list` shows all data sets"
}

// NameTakenError says that a catalogue uses a name of the program's own.
type NameTakenError struct{ Name string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("catalogue: the name %q is taken by a data set of the benchmark", e.Name)
}

// Hint says what a person can do.
func (e *NameTakenError) Hint() string {
	return "choose another name, for instance my-" + e.Name + ": scores of another data set must not pass for scores of this one"
}

func storeError(name string, err error) error {
	if fetch.DiskFull(err) {
		return fmt.Errorf("data set %s: %w", name, &fetch.Error{Kind: fetch.NoSpace, Detail: "no room to store it: " + err.Error(), Err: err})
	}
	return fmt.Errorf("data set %s: storing it: %w", name, err)
}

func (b *Builder) unknown(name string) error {
	e := &UnknownError{Name: name}
	for _, p := range paper {
		if p.name == name {
			e.Planned = true
			return e
		}
	}
	type scored struct {
		name string
		d    int
	}
	var near []scored
	for _, r := range b.Recipes {
		if d := distance(name, r.Name); d <= 2 || name != "" && strings.HasPrefix(r.Name, name) {
			near = append(near, scored{r.Name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b scored) int { return a.d - b.d })
	for _, s := range near[:min(3, len(near))] {
		e.Similar = append(e.Similar, s.name)
	}
	return e
}

// distance is the Levenshtein distance of two names, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
