//go:build ignore

// Summary reads the output of go test -json and prints what a person wants to
// know: the output of what failed, what was skipped and why, how long the
// packages took, and a closing line with the counts.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

func main() {
	output := map[string]*strings.Builder{}
	var passed, failed, skipped int
	var skips, slow, slowTests []string
	bad := false
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text())
			continue
		}
		key := e.Package + " " + e.Test
		if output[key] == nil {
			output[key] = &strings.Builder{}
		}
		switch e.Action {
		case "output", "build-output":
			output[key].WriteString(e.Output)
		case "fail", "build-fail":
			bad = true
			fmt.Printf("--- FAIL %s\n%s", key, output[key])
			if e.Test != "" {
				failed++
			}
		case "skip":
			if e.Test != "" {
				skipped++
				skips = append(skips, key+": "+reason(output[key].String()))
			}
		case "pass":
			if e.Test != "" {
				passed++
				if e.Elapsed >= 30 {
					slowTests = append(slowTests, fmt.Sprintf("%7.1f s  %s", e.Elapsed, key))
				}
			} else if e.Elapsed >= 5 {
				slow = append(slow, fmt.Sprintf("%7.1f s  %s", e.Elapsed, e.Package))
			}
		}
		if e.Action == "pass" || e.Action == "skip" {
			delete(output, key)
		}
	}
	printSlow("packages of 5 s and more", slow)
	printSlow("tests of 30 s and more", slowTests)
	sort.Strings(skips)
	fmt.Printf("skipped: %d\n", len(skips))
	for _, s := range skips {
		fmt.Println("  " + s)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if bad || failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

func printSlow(what string, lines []string) {
	sort.Sort(sort.Reverse(sort.StringSlice(lines)))
	fmt.Println(what + ":")
	for _, s := range lines {
		fmt.Println(s)
	}
}

// reason takes the skip message out of a test's output.
func reason(out string) string {
	var lines []string
	for l := range strings.SplitSeq(out, "\n") {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "===") && !strings.HasPrefix(l, "---") {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, " ")
}
