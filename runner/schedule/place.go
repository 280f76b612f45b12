package schedule

import "time"

// Host is a place where batches run, as it is at one moment.
type Host struct {
	Slots int // batches at a time
	Busy  int
	// Failed: it did not work when it was last tried. It may be tried again, by
	// one batch.
	Failed bool
	// Resting: it is not to be tried yet.
	Resting bool
	Has     bool // the files of the model
}

// Place returns the host for a batch, −1 if none is free: one that has the model's
// files, else the one with the largest share of free slots; one that has failed
// only when no other is free. Of equal ones it is the first.
func Place(hosts []Host) int {
	best, score := -1, 0.0
	for i, h := range hosts {
		slots := h.Room()
		if h.Busy >= slots {
			continue
		}
		s := float64(slots-h.Busy) / float64(slots)
		if h.Has {
			s += 2
		}
		if h.Failed {
			s -= 4
		}
		if best < 0 || s > score {
			best, score = i, s
		}
	}
	return best
}

// Room returns how many batches may be on the host at a time now.
func (h Host) Room() int {
	switch {
	case h.Resting:
		return 0
	case h.Failed:
		return 1 // one batch finds out whether it works
	}
	return h.Slots
}

// Rest returns how long a host is left alone that has failed so many times in a
// row before, and now again: base, doubled each time up to 32-fold.
func Rest(base time.Duration, before int) time.Duration { return base << min(before, 5) }
