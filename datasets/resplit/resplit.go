// Package resplit divides uniform data sets anew: the splits of van der Goot
// (2021, "We Need to Talk About train-dev-test Splits"), whose tune part is for
// picking models so that neither dev nor test are, and k-fold splits.
//
// What comes out is a uniform data set like any other, with three splits: what
// is trained on, what the model is picked on (val: a trainer stops by its loss)
// and what is scored (test). A division into four parts, train, tune, dev and
// test, is therefore two data sets: one that is scored on dev, for comparing
// versions of one's own, and one that is scored on test, for the one confirming
// run. Both are picked on tune.
//
// Rows that belong together stay together: the two rows of a ScaLA sentence, the
// questions about one context, and rows with equal contents.
package resplit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bench/datasets"
	"bench/datasets/profile"
	"bench/datasets/split"
)

// Version is raised when the rows of a division change.
const Version = 1

// Kind is a way of dividing.
type Kind string

// The kinds.
const (
	// Standard: the data set's own splits.
	Standard Kind = "standard"
	// Tune keeps train and test; the last third of val becomes tune, the rest is
	// dev (van der Goot's proposal for treebanks with a test set that is in use).
	Tune Kind = "tune"
	// Resplit leaves the original test split out: train and val are joined in
	// this order, and the last rows become tune, dev and test (the case study of
	// the same paper).
	Resplit Kind = "resplit"
	// Random pools all splits and draws k folds.
	Random Kind = "random"
)

// DefaultSeed is the seed of random folds.
const DefaultSeed = 4242

// Spec says how a data set is divided.
type Spec struct {
	Kind Kind
	// ScoreOn is dev or test, of Tune and Resplit.
	ScoreOn string
	// K folds, of which Fold (from 1) is scored; of Random.
	K, Fold int
	Seed    uint32
}

var randomName = regexp.MustCompile(`^random([1-9][0-9]{0,2})-([1-9][0-9]{0,2})(?:-s(0|[1-9][0-9]{0,9}))?$`)

// Parse reads what follows the + in the name of a divided data set: standard,
// tune-dev, tune-test, resplit-dev, resplit-test, randomK-FOLD, or
// randomK-FOLD-sSEED.
func Parse(s string) (Spec, error) {
	switch s {
	case "standard":
		return Spec{Kind: Standard}, nil
	case "tune-dev", "tune-test", "resplit-dev", "resplit-test":
		kind, on, _ := strings.Cut(s, "-")
		return Spec{Kind: Kind(kind), ScoreOn: on}, nil
	}
	m := randomName.FindStringSubmatch(s)
	if m == nil {
		return Spec{}, fmt.Errorf("there is no division %q; there are standard, tune-dev, tune-test, resplit-dev, resplit-test, and random5-1 to random5-5 (or another number than 5)", s)
	}
	spec := Spec{Kind: Random, Seed: DefaultSeed}
	spec.K, _ = strconv.Atoi(m[1])
	spec.Fold, _ = strconv.Atoi(m[2])
	if m[3] != "" {
		seed, err := strconv.ParseUint(m[3], 10, 32)
		if err != nil {
			return Spec{}, fmt.Errorf("division %q: the seed has to be below 2³²", s)
		}
		spec.Seed = uint32(seed)
	}
	if err := checkFolds(spec.K, spec.Fold); err != nil {
		return Spec{}, fmt.Errorf("division %q: %w", s, err)
	}
	return spec, nil
}

func checkFolds(k, fold int) error {
	if k < 3 {
		return fmt.Errorf("%d folds; at least 3 are needed, since one is scored and one is for picking the model", k)
	}
	if fold < 1 || fold > k {
		return fmt.Errorf("fold %d of %d", fold, k)
	}
	return nil
}

// String is the inverse of Parse.
func (s Spec) String() string {
	switch s.Kind {
	case Tune, Resplit:
		return string(s.Kind) + "-" + s.ScoreOn
	case Random:
		name := fmt.Sprintf("random%d-%d", s.K, s.Fold)
		if s.Seed != DefaultSeed {
			name += fmt.Sprintf("-s%d", s.Seed)
		}
		return name
	}
	return string(s.Kind)
}

// All lists the divisions that make up a kind as people ask for it: "tune" is
// all four of van der Goot, "random" all folds.
func All(kind string, k int, seed uint32) ([]Spec, error) {
	switch Kind(kind) {
	case Standard:
		return []Spec{{Kind: Standard}}, nil
	case Tune:
		return []Spec{{Kind: Tune, ScoreOn: "dev"}, {Kind: Tune, ScoreOn: "test"}, {Kind: Resplit, ScoreOn: "dev"}, {Kind: Resplit, ScoreOn: "test"}}, nil
	case Random:
		if err := checkFolds(k, 1); err != nil {
			return nil, err
		}
		var out []Spec
		for fold := 1; fold <= k; fold++ {
			out = append(out, Spec{Kind: Random, K: k, Fold: fold, Seed: seed})
		}
		return out, nil
	}
	return nil, fmt.Errorf("there is no kind %q of splits; there are standard, tune, random", kind)
}

// part is one of the parts of a division.
type part struct {
	name string
	role datasets.Split // "": not used by this data set
	rows []datasets.Row
}

// Divide divides rows, and says how in a record that lacks Of and OfDigest.
// Results depend on the rows and their order alone.
func (s Spec) Divide(k datasets.Kind, rows map[datasets.Split][]datasets.Row) (map[datasets.Split][]datasets.Row, *datasets.Division, error) {
	var parts []part
	var err error
	switch s.Kind {
	case Standard:
		for _, name := range datasets.Splits {
			parts = append(parts, part{string(name), name, rows[name]})
		}
	case Tune:
		parts, err = s.tune(k, rows)
	case Resplit:
		parts, err = s.resplit(k, rows)
	case Random:
		parts, err = s.random(k, rows)
	default:
		err = fmt.Errorf("there is no division %q", s.Kind)
	}
	if err != nil {
		return nil, nil, err
	}
	out := map[datasets.Split][]datasets.Row{}
	d := &datasets.Division{Kind: string(s.Kind), K: s.K, Fold: s.Fold, Seed: s.Seed}
	for _, p := range parts {
		digest, err := digestOf(k, p.rows)
		if err != nil {
			return nil, nil, err
		}
		if len(p.rows) == 0 {
			return nil, nil, fmt.Errorf("division %s: there are too few rows: none is left for %s", s, p.name)
		}
		d.Parts = append(d.Parts, datasets.Part{Name: p.name, Role: p.role, Rows: len(p.rows), Digest: digest})
		if p.role != "" {
			out[p.role] = p.rows
		}
	}
	return out, d, nil
}

// role is what a part of the four is used for.
func (s Spec) role(name string) datasets.Split {
	switch name {
	case "train":
		return datasets.Train
	case "tune":
		return datasets.Val
	case s.ScoreOn:
		return datasets.Test
	}
	return ""
}

func (s Spec) tune(k datasets.Kind, rows map[datasets.Split][]datasets.Row) ([]part, error) {
	val := groups(k, rows[datasets.Val])
	dev, tune := cut(val, len(rows[datasets.Val])-len(rows[datasets.Val])/3)
	return []part{
		{"train", s.role("train"), rows[datasets.Train]}, {"tune", s.role("tune"), flat(tune)},
		{"dev", s.role("dev"), flat(dev)}, {"test", s.role("test"), rows[datasets.Test]},
	}, nil
}

// partSize is the size of tune, dev and test each: 1,000 rows as in the case
// study, or a sixth of what there is, so that half of it is left for training.
func partSize(n int) int { return min(1000, n/6) }

func (s Spec) resplit(k datasets.Kind, rows map[datasets.Split][]datasets.Row) ([]part, error) {
	pool := groups(k, slices.Concat(rows[datasets.Train], rows[datasets.Val]))
	n := len(rows[datasets.Train]) + len(rows[datasets.Val])
	size := partSize(n)
	train, rest := cut(pool, n-3*size)
	tune, rest := cut(rest, size)
	dev, test := cut(rest, size)
	return []part{
		{"train", s.role("train"), flat(train)}, {"tune", s.role("tune"), flat(tune)},
		{"dev", s.role("dev"), flat(dev)}, {"test", s.role("test"), flat(test)},
	}, nil
}

func (s Spec) random(k datasets.Kind, rows map[datasets.Split][]datasets.Row) ([]part, error) {
	if err := checkFolds(s.K, s.Fold); err != nil {
		return nil, err
	}
	pool := slices.Concat(rows[datasets.Train], rows[datasets.Val], rows[datasets.Test])
	all := groups(k, pool)
	shuffled := make([][]datasets.Row, len(all))
	for i, j := range split.NewRandomState(s.Seed).Permutation(len(all)) {
		shuffled[i] = all[j]
	}
	fold := map[string]int{} // by id
	rest, done := shuffled, 0
	for f := range s.K {
		var own [][]datasets.Row
		own, rest = cut(rest, len(pool)*(f+1)/s.K-done)
		for _, r := range flat(own) {
			fold[r.ID] = f + 1
			done++
		}
	}
	test, val := s.Fold, s.Fold%s.K+1
	parts := []part{{"train", datasets.Train, nil}, {fmt.Sprintf("fold %d", val), datasets.Val, nil}, {fmt.Sprintf("fold %d", test), datasets.Test, nil}}
	for _, r := range pool { // rows of a group do not stand together, as in the source
		i := 0
		switch fold[r.ID] {
		case val:
			i = 1
		case test:
			i = 2
		}
		parts[i].rows = append(parts[i].rows, r)
	}
	return parts, nil
}

// groups collects rows that belong together, in the order of the first of each.
func groups(k datasets.Kind, rows []datasets.Row) [][]datasets.Row {
	// A group is a set of rows that share an id's stem or a content, with each
	// other or through a third: union and find.
	parent := make([]int, len(rows))
	var root func(i int) int
	root = func(i int) int {
		if parent[i] != i {
			parent[i] = root(parent[i])
		}
		return parent[i]
	}
	first := map[string]int{}
	for i, r := range rows {
		parent[i] = i
		for _, key := range keys(k, r) {
			j, ok := first[key]
			if !ok {
				first[key] = i
				continue
			}
			a, b := root(i), root(j)
			parent[max(a, b)] = min(a, b)
		}
	}
	var out [][]datasets.Row
	at := map[int]int{}
	for i, r := range rows {
		g := root(i)
		if _, ok := at[g]; !ok {
			at[g] = len(out)
			out = append(out, nil)
		}
		out[at[g]] = append(out[at[g]], r)
	}
	return out
}

// keys are what rows of a group have in common.
func keys(k datasets.Kind, r datasets.Row) []string {
	switch k {
	case datasets.QA:
		return []string{r.Context}
	case datasets.Acceptability:
		if i := strings.LastIndexByte(r.ID, '/'); i > 0 {
			return []string{"id " + r.ID[:i], "text " + r.Text}
		}
		return []string{"text " + r.Text}
	}
	return []string{profile.Content(k, r)}
}

// cut takes groups from the front until they have n rows, or as near as whole
// groups come.
func cut(all [][]datasets.Row, n int) (front, rest [][]datasets.Row) {
	have := 0
	for i, g := range all {
		if over := have + len(g) - n; over > 0 && over > n-have || have >= n {
			return all[:i], all[i:]
		}
		have += len(g)
	}
	return all, nil
}

func flat(all [][]datasets.Row) []datasets.Row { return slices.Concat(all...) }

// digestOf is the SHA-256 of rows in canonical form, each with a line end.
func digestOf(k datasets.Kind, rows []datasets.Row) (string, error) {
	h := sha256.New()
	if err := datasets.WriteRows(h, k, rows); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
