// Bench measures how good language models are in the Scandinavian languages.
// The manual is docs/manual.md.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"bench/runner/process"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == process.SuperviseArg {
		os.Exit(process.Supervise())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends bench at once, as SIGKILL would
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	return report(root.ExecuteContext(ctx), stderr)
}
