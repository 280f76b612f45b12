// Command stubtrainer is package stub as a program, for executors that need
// one to put into an image. It is built without cgo, so that it runs in any.
package main

import (
	"os"

	"bench/runner/runnertest/stub"
)

func main() { os.Exit(stub.Run(os.Args[1:], os.Stdout, os.Stderr)) }
