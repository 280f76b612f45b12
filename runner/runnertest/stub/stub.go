// Package stub is a trainer that trains nothing: it does what a script says.
// Executors are tested with it. It keeps to docs/trainer-protocol.md in
// everything but the predictions, which have one line each.
package stub

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"bench/internal/atomicfile"
	"bench/runner/job"
)

// Script says how a batch behaves. The zero Script is a batch that does its
// jobs and ends well. The steps come in the order of the fields.
type Script struct {
	// Pause is the time between the first job's outcome and the next job.
	Pause time.Duration `json:"pause"`
	// LogLines is the number of numbered lines ("line 0" …) on stderr after
	// the last job; Script.LastLine without a line end follows them.
	LogLines int `json:"log_lines"`
	// Linger is the time between the last line of the log and the end.
	Linger time.Duration `json:"linger"`
	// IgnoreTERM leaves SIGTERM without effect.
	IgnoreTERM bool `json:"ignore_term"`
	// Memory is the number of bytes that are allocated, and touched, before
	// Linger.
	Memory int64 `json:"memory"`
	// Child starts a grandchild that sleeps for an hour in a session of its
	// own, and writes its process id to the log as "child PID".
	Child bool `json:"child"`
	// Environment writes the variables to the log as "env NAME=VALUE".
	Environment bool `json:"environment"`
	// Code is the exit code. With Signal ≠ 0 the stub sends itself that signal
	// instead of exiting.
	Code   int `json:"code"`
	Signal int `json:"signal"`
}

// LastLine ends the log of a batch with LogLines > 0.
const LastLine = "the end, without a line end"

// ScriptFile is the name of the script's file in the in folder of a batch.
const ScriptFile = "script.json"

// Run is the stub: args are those of a trainer. It returns the exit code.
func Run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("stub", flag.ContinueOnError)
	flags.SetOutput(stderr)
	batchFile := flags.String("batch", "", "")
	out := flags.String("out", "", "")
	if err := flags.Parse(args); err != nil {
		return job.ExitInput
	}
	var b job.Batch
	var s Script
	if err := errors.Join(read(*batchFile, &b), read(filepath.Join(filepath.Dir(*batchFile), ScriptFile), &s)); err != nil {
		fmt.Fprintln(stderr, "stub:", err)
		return job.ExitInput
	}
	if s.IgnoreTERM {
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Fprintln(stderr, "stub: start")
	if s.Environment {
		for _, e := range os.Environ() {
			fmt.Fprintln(stderr, "env", e)
		}
		for n := range 4 {
			if target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(n)); err == nil {
				fmt.Fprintln(stderr, "fd", n, target)
			}
		}
	}
	if s.Child {
		if err := startChild(stderr); err != nil {
			fmt.Fprintln(stderr, "stub:", err)
			return job.ExitTrainer
		}
	}
	events := json.NewEncoder(stdout)
	done := 0
	for _, j := range b.Jobs {
		if _, err := os.Stat(filepath.Join(*out, string(j.ID), "outcome.json")); err == nil {
			continue
		}
		if done > 0 {
			time.Sleep(s.Pause)
		}
		done++
		events.Encode(map[string]any{"event": "start", "job": j.ID, "dataset": j.Dataset, "seed": j.Seed})
		if err := finish(*out, j); err != nil {
			fmt.Fprintln(stderr, "stub:", err)
			return job.ExitTrainer
		}
		events.Encode(map[string]any{"event": "job-done", "job": j.ID, "state": job.OK, "failure": ""})
	}
	if s.LogLines > 0 {
		w := bufio.NewWriter(stderr)
		for i := range s.LogLines {
			fmt.Fprintln(w, "line", i)
			events.Encode(map[string]any{"event": "warn", "job": nil, "message": fmt.Sprint("line ", i)})
		}
		fmt.Fprint(w, LastLine)
		w.Flush()
	}
	held := make([]byte, s.Memory)
	for i := 0; i < len(held); i += 512 {
		held[i] = 1
	}
	time.Sleep(s.Linger)
	for i := 0; i < len(held); i += 4096 {
		held[i]++ // keeps the memory in use until here
	}
	if s.Signal != 0 {
		syscall.Kill(os.Getpid(), syscall.Signal(s.Signal))
		time.Sleep(10 * time.Second) // delivery is not immediate
	}
	return s.Code
}

func read(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

func finish(out string, j job.Job) error {
	dir := filepath.Join(out, string(j.ID))
	if err := atomicfile.WriteBytes(filepath.Join(dir, "predictions.jsonl"), []byte(`{"id":"0","label":"correct","scores":{}}`+"\n")); err != nil {
		return err
	}
	o, err := json.Marshal(job.TrainerOutcome{Version: job.ProtocolVersion, Job: j.ID, State: job.OK, Device: "cpu", Steps: 1})
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, "outcome.json"), o)
}

func startChild(stderr io.Writer) error {
	child := exec.Command("sleep", "3600")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "child", child.Process.Pid)
	return child.Process.Release()
}
