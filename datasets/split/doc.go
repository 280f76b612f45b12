// Package split draws rows: bootstrap samples, splits of pooled corpora and
// stratified splits, bit for bit as numpy, pandas and scikit-learn draw them,
// so that a data set built here has the members that the published one has.
//
// Two generators are ported. [RandomState] is numpy's legacy generator
// (MT19937), which pandas and scikit-learn use for an integer random_state.
// [Generator] is numpy's default_rng (PCG64 seeded by a SeedSequence). Streams
// of both were compared with numpy 1.24.2 and 2.x; the streams of the former
// are frozen by numpy's compatibility policy, those of the latter have been
// stable since numpy 1.17.
//
// Everything here is a function of its arguments. Sizes that cannot be met are
// errors of type [*SizeError].
package split

import "fmt"

// SizeError says that more rows were asked for than there are.
type SizeError struct {
	What       string // which part was to be drawn
	Want, Have int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s: %d rows wanted, %d there", e.What, e.Want, e.Have)
}
