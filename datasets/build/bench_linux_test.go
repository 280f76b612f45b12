package build

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// All data sets whose sources are in the mirror, one after the other, as
// `bench data build` does: fetched, checked, drawn, written and flushed to disk.
func BenchmarkAllMirrored(b *testing.B) {
	for b.Loop() {
		start := cpuTime()
		x := withMirror(b)
		n := 0
		for _, r := range x.Recipes {
			if slices.Contains([]string{"mim-gold-ner", "fone"}, r.Name) { // in no mirror
				continue
			}
			if _, err := x.Build(b.Context(), r.Name, Options{Partial: true}); err != nil {
				b.Fatal(err)
			}
			n++
		}
		b.ReportMetric(float64(n), "data-sets")
		b.ReportMetric((cpuTime() - start).Seconds(), "cpu-s/op")
	}
}

// cpuTime is the processor time of this process: on a machine that does other
// things too, it says more than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
