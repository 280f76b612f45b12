// Command trainer is package standin as a program, for images.
package main

import "bench/runner/runnertest/standin"

func main() { standin.Main() }
