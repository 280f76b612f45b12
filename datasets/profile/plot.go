package profile

import (
	"fmt"
	"strings"
)

// bars are the eighths of a column of text.
var bars = []rune(" ▁▂▃▄▅▆▇█")

// Spark draws counts as one line of bars, each as high as its share of the
// largest. A count that is not 0 never looks like none.
func Spark(counts []int) string {
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range counts {
		height := 0
		if n > 0 {
			height = max(1, (8*n+most/2)/most)
		}
		b.WriteRune(bars[height])
	}
	return b.String()
}

// Plot draws a distribution as lines of at most width bar characters: the range
// of a bin, its bar, and its count. Empty bins at both ends are left out.
func Plot(l Lengths, width int) []string {
	first, last := 0, len(l.Histogram)
	for first < last && l.Histogram[first] == 0 {
		first++
	}
	most := 0
	for _, n := range l.Histogram {
		most = max(most, n)
	}
	var lines []string
	_, top := BinRange(max(0, last-1))
	label := 2*len(fmt.Sprint(top)) + 1
	for bin := first; bin < last; bin++ {
		low, high := BinRange(bin)
		name := fmt.Sprintf("%d–%d", low, high)
		if low == high {
			name = fmt.Sprint(low)
		}
		lines = append(lines, fmt.Sprintf("%*s  %s %d", label, name, bar(l.Histogram[bin], most, width), l.Histogram[bin]))
	}
	return lines
}

// bar is a horizontal bar for n of most, in eighths of a character.
func bar(n, most, width int) string {
	if n == 0 {
		return strings.Repeat(" ", width)
	}
	eighths := max(1, (8*width*n+most/2)/most)
	s := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return s + strings.Repeat(" ", width-(eighths+7)/8)
}
