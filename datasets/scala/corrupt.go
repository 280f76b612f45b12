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

// Corruptions returns the incorrect sentences that can be made of s, deletions
// and swaps, each in the order of the words. Left out are those whose text is a
// correct sentence (correct says which texts are; the sentence's own is), and
// those that would begin with punctuation, as no correct sentence of the data
// does: see [Filters].
func (s Sentence) Corruptions(correct func(text string) bool) (deletions, swaps []Corrupted) {
	own := Join(s.Words)
	add := func(to []Corrupted, text, how string, indices ...int) []Corrupted {
		if text == own || correct(text) {
			return to
		}
		return append(to, Corrupted{text, datasets.Corruption{Type: how, Indices: indices}})
	}
	for _, i := range s.Deletable() {
		if i == 0 && len(s.Tags) > 1 && slices.Contains(unswappable, s.Tags[1]) {
			continue
		}
		deletions = add(deletions, s.Delete(i), Delete, i)
	}
	for _, i := range s.Swappable() {
		swaps = add(swaps, s.Swap(i), Flip, i, i+1)
	}
	return deletions, swaps
}

// Draw picks one corruption: deletion or swap with equal chance if there are
// both, then one of that type with equal chance. intn returns a uniform number
// in [0, n). It returns false if the sentence cannot be corrupted.
func (s Sentence) Draw(intn func(n int) int, correct func(text string) bool) (Corrupted, bool) {
	deletions, swaps := s.Corruptions(correct)
	from := deletions
	switch {
	case len(deletions) == 0:
		from = swaps
	case len(swaps) > 0 && intn(2) == 1:
		from = swaps
	}
	if len(from) == 0 {
		return Corrupted{}, false
	}
	return from[intn(len(from))], true
}
