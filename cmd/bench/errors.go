package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"bench/containers"
	"bench/datasets"
	"bench/datasets/catalog"
	"bench/datasets/fetch"
	"bench/datasets/hub"
	"bench/datasets/published"
	"bench/datasets/scandiqa"
	"bench/runner"
	"bench/runner/job"
)

// Exit codes. 2 is left to the Go runtime: a panic exits with it.
const (
	exitOK           = 0
	exitFailed       = 1
	exitSomeFailed   = 3   // finished; some jobs failed or were beyond a limit, the rest is recorded
	exitPrecondition = 4   // no engine, offline, digest mismatch, no space
	exitUsage        = 64  // EX_USAGE
	exitInterrupted  = 130 // 128 + SIGINT; batches may go on
)

// usageError is a command line that cannot be meant.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) Hint() string  { return e.hint }

func usage(hint, format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...), hint}
}

// codeError ends the program with a code after everything was said already.
type codeError int

func (e codeError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// hinter is an error that knows what the user can do.
type hinter interface{ Hint() string }

// report says on stderr what went wrong and returns the exit code: one table
// for the whole program.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	var code codeError
	if errors.As(err, &code) {
		return int(code)
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "bench: interrupted; finished seeds are kept, and batches in a container or process may go on")
		fmt.Fprintln(stderr, "bench: hint: run the same command again to take them over, or stop them with: bench gc")
		return exitInterrupted
	}
	explain(err, stderr)
	return classify(err)
}

// explain says what is wrong, and what can be done about it.
func explain(err error, stderr io.Writer) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(stderr, "bench: error:", line)
	}
	for _, h := range hints(err) {
		fmt.Fprintln(stderr, "bench: hint:", h)
	}
}

func classify(err error) int {
	var usage *usageError
	if errors.As(err, &usage) || errors.As(err, new(*catalog.Error)) || errors.As(err, new(*published.ColumnsError)) || errors.Is(err, job.ErrProtocol) {
		return exitUsage
	}
	// What is missing outside of bench: an engine, a file, a model, space.
	var (
		missing *runner.PreconditionError
		engine  *containers.Error
		source  *fetch.Error
		model   *hub.Error
		digest  *datasets.DigestError
		qa      *scandiqa.Error
	)
	if errors.As(err, &missing) || errors.As(err, &engine) || errors.As(err, &source) || errors.As(err, &model) || errors.As(err, &digest) || errors.As(err, &qa) || errors.Is(err, syscall.ENOSPC) {
		return exitPrecondition
	}
	if errors.As(err, new(*runner.BudgetError)) {
		return exitSomeFailed
	}
	return exitFailed
}

// hints collects what all errors in err's tree advise, each once.
func hints(err error) []string {
	var out []string
	seen := map[string]bool{}
	add := func(h string) {
		if h != "" && !seen[h] {
			seen[h] = true
			out = append(out, h)
		}
	}
	var walk func(error)
	walk = func(err error) {
		if err == nil {
			return
		}
		if h, ok := err.(hinter); ok {
			add(h.Hint())
		}
		switch e := err.(type) {
		case *runner.PreconditionError:
			add(e.Hint)
		case *runner.BudgetError:
			add("what is recorded stays: raise limits or model_limits in the sweep's file, then run it again")
		case *containers.Error:
			add(e.Hint)
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			walk(u.Unwrap())
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				walk(e)
			}
		}
	}
	walk(err)
	return out
}
