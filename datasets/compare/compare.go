// Package compare says how two uniform data sets differ: two builds of one
// recipe, one's own build and the published one, a data set before and after a
// change of its source.
//
// Rows are matched by content, what a model is shown (profile.Content), and not
// by id: ids of two builds need not agree. Contents that occur more than once
// are matched as often as they occur on both sides.
package compare

import (
	"errors"
	"fmt"

	"bench/datasets"
	"bench/datasets/profile"
)

// Side describes one of the two data sets.
type Side struct {
	Name   string                             `json:"name"`
	Digest string                             `json:"digest"`
	Counts map[datasets.Split]datasets.Counts `json:"counts"`
}

// Split counts the rows of one split.
type Split struct {
	Name datasets.Split `json:"split"`
	A    int            `json:"rows_a"`
	B    int            `json:"rows_b"`
	// Both are contents in this split of both data sets, with the same gold or not.
	Both int `json:"both"`
	// Relabelled are those of Both whose gold differs.
	Relabelled int `json:"relabelled"`
	// MovedTo and MovedFrom count, by split of B (of A), contents that are in this
	// split of A (of B) and in another one on the other side.
	MovedTo   map[datasets.Split]int `json:"moved_to,omitempty"`
	MovedFrom map[datasets.Split]int `json:"moved_from,omitempty"`
	// OnlyA and OnlyB are contents that the other data set has in no split.
	OnlyA int `json:"only_a"`
	OnlyB int `json:"only_b"`
	// SameOrder: the same rows, gold and all, in the same order; ids may differ.
	SameOrder bool `json:"same_order"`
}

// Change is what became of one row.
type Change string

// The changes.
const (
	OnlyA      Change = "only_a"
	OnlyB      Change = "only_b"
	Moved      Change = "moved"
	Relabelled Change = "relabelled"
	// MovedRelabelled: in another split, with other gold.
	MovedRelabelled Change = "moved_relabelled"
)

// Row is a row that differs.
type Row struct {
	Change Change         `json:"change"`
	SplitA datasets.Split `json:"split_a,omitempty"`
	SplitB datasets.Split `json:"split_b,omitempty"`
	IDA    string         `json:"id_a,omitempty"`
	IDB    string         `json:"id_b,omitempty"`
	GoldA  string         `json:"gold_a,omitempty"` // of relabelled rows; see profile.Gold
	GoldB  string         `json:"gold_b,omitempty"`
}

// Comparison says how two data sets differ.
type Comparison struct {
	Kind datasets.Kind `json:"task"`
	A    Side          `json:"a"`
	B    Side          `json:"b"`
	// Equal: the digests are, so every byte of the rows is.
	Equal  bool    `json:"equal"`
	Splits []Split `json:"splits"` // train, val, test
	// Relabelled counts all contents whose gold differs, moved ones included.
	Relabelled int `json:"relabelled"`
	// Labels counts relabelled contents by "gold of A → gold of B"; for tasks with
	// classes only.
	Labels map[string]int `json:"labels,omitempty"`
	// Rows are those that differ: of A in file order, then those that only B has.
	Rows []Row `json:"-"`
}

// ErrTask says that two data sets are for different tasks, which leaves
// nothing to compare.
var ErrTask = errors.New("the data sets are for different tasks")

// place is where a row stands.
type place struct {
	split datasets.Split
	at    int
	row   datasets.Row
	gold  string
	used  bool
}

// Of compares two data sets, which it reads as a whole.
func Of(a, b *datasets.Dataset) (Comparison, error) {
	if a.Kind != b.Kind {
		return Comparison{}, fmt.Errorf("%w: %s is for %s, %s for %s", ErrTask, a.Name, a.Kind, b.Name, b.Kind)
	}
	c := Comparison{
		Kind: a.Kind, Equal: a.Digest == b.Digest,
		A: Side{a.Name, a.Digest, a.Counts}, B: Side{b.Name, b.Digest, b.Counts},
	}
	rowsA, err := places(a)
	if err != nil {
		return Comparison{}, err
	}
	rowsB, err := places(b)
	if err != nil {
		return Comparison{}, err
	}
	c.match(rowsA, rowsB)
	return c, nil
}

func places(d *datasets.Dataset) ([]*place, error) {
	var out []*place
	for _, s := range datasets.Splits {
		rows, err := d.Rows(s)
		if err != nil {
			return nil, err
		}
		for i, r := range rows {
			out = append(out, &place{split: s, at: i, row: r, gold: profile.Gold(d.Kind, r)})
		}
	}
	return out, nil
}

func (c *Comparison) match(a, b []*place) {
	of := map[datasets.Split]*Split{}
	for _, s := range datasets.Splits {
		of[s] = &Split{Name: s, MovedTo: map[datasets.Split]int{}, MovedFrom: map[datasets.Split]int{}}
	}
	inB := map[string][]*place{}
	for _, p := range b {
		of[p.split].B++
		key := profile.Content(c.Kind, p.row)
		inB[key] = append(inB[key], p)
	}
	// The best partner of a row is looked for in four rounds, each over all rows,
	// so that no row takes away another one's better partner.
	partner := map[*place]*place{}
	for _, fits := range []func(x, y *place) bool{
		func(x, y *place) bool { return x.split == y.split && x.gold == y.gold },
		func(x, y *place) bool { return x.split == y.split },
		func(x, y *place) bool { return x.gold == y.gold },
		func(x, y *place) bool { return true },
	} {
		for _, x := range a {
			if partner[x] != nil {
				continue
			}
			for _, y := range inB[profile.Content(c.Kind, x.row)] {
				if !y.used && fits(x, y) {
					partner[x], y.used = y, true
					break
				}
			}
		}
	}
	for _, s := range datasets.Splits {
		of[s].SameOrder = true
	}
	for _, x := range a {
		s := of[x.split]
		s.A++
		y := partner[x]
		if y == nil {
			s.OnlyA++
			s.SameOrder = false
			c.Rows = append(c.Rows, Row{Change: OnlyA, SplitA: x.split, IDA: x.row.ID})
			continue
		}
		r := Row{SplitA: x.split, SplitB: y.split, IDA: x.row.ID, IDB: y.row.ID}
		if x.gold != y.gold {
			r.Change, r.GoldA, r.GoldB = Relabelled, x.gold, y.gold
			c.Relabelled++
			if c.Kind != datasets.NER && c.Kind != datasets.QA {
				if c.Labels == nil {
					c.Labels = map[string]int{}
				}
				c.Labels[x.gold+" → "+y.gold]++
			}
		}
		if x.split == y.split {
			s.Both++
			s.SameOrder = s.SameOrder && x.at == y.at && x.gold == y.gold
			if r.Change == Relabelled {
				s.Relabelled++
			}
		} else {
			s.MovedTo[y.split]++
			of[y.split].MovedFrom[x.split]++
			s.SameOrder, of[y.split].SameOrder = false, false
			if r.Change == Relabelled {
				r.Change = MovedRelabelled
			} else {
				r.Change = Moved
			}
		}
		if r.Change != "" {
			c.Rows = append(c.Rows, r)
		}
	}
	for _, y := range b {
		if !y.used {
			of[y.split].OnlyB++
			of[y.split].SameOrder = false
			c.Rows = append(c.Rows, Row{Change: OnlyB, SplitB: y.split, IDB: y.row.ID})
		}
	}
	for _, s := range datasets.Splits {
		c.Splits = append(c.Splits, *of[s])
	}
}
