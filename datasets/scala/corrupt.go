package scala

import (
	"slices"

	"bench/datasets"
)

// The types of corruption.
const (
	Delete = "delete"
	Flip   = "flip_neighbours"
)

// Corrupted is an incorrect sentence.
type Corrupted struct {
	Text string
	How  datasets.Corruption
}

// Draw makes an incorrect sentence of s: a deletion or a swap with equal chance,
// where there are both, then one of that type with equal chance. intn returns a
// uniform number in [0, n).
//
// Never drawn are those whose text is a correct sentence (correct says which
// texts are; the sentence's own is), and those that begin with punctuation, as
// no correct sentence of the data does: see [Filters]. Draw returns false if
// nothing else is left.
func (s Sentence) Draw(intn func(n int) int, correct func(text string) bool) (Corrupted, bool) {
	deletions, swaps := s.Deletable(), s.Swappable()
	if len(deletions) > 0 && deletions[0] == 0 && len(s.Tags) > 1 && slices.Contains(unswappable, s.Tags[1]) {
		deletions = deletions[1:]
	}
	deletion := func(i int) Corrupted {
		return Corrupted{s.Delete(i), datasets.Corruption{Type: Delete, Indices: []int{i}}}
	}
	swap := func(i int) Corrupted {
		return Corrupted{s.Swap(i), datasets.Corruption{Type: Flip, Indices: []int{i, i + 1}}}
	}
	own := Join(s.Words)
	pick := func(from []int, corrupt func(int) Corrupted) (Corrupted, bool) {
		for len(from) > 0 {
			k := intn(len(from))
			if c := corrupt(from[k]); c.Text != own && !correct(c.Text) {
				return c, true
			}
			from = slices.Delete(from, k, k+1)
		}
		return Corrupted{}, false
	}
	if len(deletions) > 0 && len(swaps) > 0 && intn(2) == 1 {
		if c, ok := pick(swaps, swap); ok {
			return c, true
		}
		return pick(deletions, deletion)
	}
	if c, ok := pick(deletions, deletion); ok {
		return c, true
	}
	return pick(swaps, swap)
}
