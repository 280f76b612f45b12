package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
)

// parseBytes reads a size such as 800m or 16g (powers of 1024, as docker has
// them). The empty string is 0.
func parseBytes(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	units := map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30, 't': 1 << 40}
	number, unit := strings.TrimSuffix(strings.ToLower(s), "b"), int64(1)
	if n := len(number); n > 0 {
		if u, ok := units[number[n-1]]; ok {
			number, unit = number[:n-1], u
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	size := x * float64(unit)
	if err != nil || !(size >= 1 && size <= 1<<60) { // NaN is neither
		return 0, fmt.Errorf("%q is not a size", s)
	}
	return int64(size), nil
}

// logTail prints the last lines of a log.
func logTail(w io.Writer, path string) {
	const lines = 12
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return
	}
	all := bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n"))
	fmt.Fprintf(w, "bench: last lines of %s:\n", path)
	for _, l := range all[max(0, len(all)-lines):] {
		fmt.Fprintf(w, "    %s\n", plain(string(l)))
	}
}

// plain blots out control characters in what a trainer wrote: it may be running
// a stranger's code, and must not steer the terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
