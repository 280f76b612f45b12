// Package standin is a trainer that keeps to the trainer protocol without
// Python: it learns nothing and guesses by model, seed and row, the same way each
// time.
package standin

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"bench/internal/atomicfile"
	"bench/runner/job"
)

// Main is the program: the entrypoint of an image, or what stands in for Python
// (-m bench_trainer, and -c for the versions of packages). Its environment:
// STANDIN_LOG, a file that gets the id of each job that is begun;
// STANDIN_PAUSE, how long a job takes, else a millisecond for each of its
// max_steps below 10,000; STANDIN_DIE, a file: if it is not there, it is made and
// the trainer kills itself in the middle of a job; STANDIN_ENV: its environment
// goes to the log.
func Main() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "stand-in:", err)
			if errors.Is(err, syscall.ENOSPC) { // no fault of the job
				os.Exit(job.ExitAgain)
			}
			os.Exit(job.ExitTrainer)
		}
	}
	if len(os.Args) > 2 && os.Args[1] == "-c" { // which versions do you have? (models.go)
		versions := map[string]string{}
		for _, name := range os.Args[3:] {
			versions[name] = "0"
		}
		fail(json.NewEncoder(os.Stdout).Encode(versions))
		os.Exit(0)
	}
	pause, err := time.ParseDuration("0s" + os.Getenv("STANDIN_PAUSE"))
	fail(err)
	flags := flag.NewFlagSet("stand-in", flag.ExitOnError)
	batch, out := flags.String("batch", "", "batch.json"), flags.String("out", "", "folder")
	args := os.Args[1:]
	if len(args) > 2 && args[0] == "-m" {
		args = args[2:]
	}
	fail(flags.Parse(args))
	if os.Getenv("STANDIN_ENV") != "" {
		fmt.Fprintln(os.Stderr, strings.Join(os.Environ(), "\n")) // to the log that is kept
	}
	in := filepath.Dir(*batch)
	text, err := os.ReadFile(*batch)
	fail(err)
	var b job.Batch
	fail(json.Unmarshal(text, &b))
	if steps := b.Hyperparameters.MaxSteps; pause == 0 && steps < 10_000 {
		pause = time.Duration(steps) * time.Millisecond
	}
	events := json.NewEncoder(os.Stdout)
	for _, j := range b.Jobs {
		if _, err := os.Stat(filepath.Join(*out, string(j.ID), "outcome.json")); err == nil {
			continue
		}
		events.Encode(map[string]any{"event": "start", "job": j.ID, "dataset": j.Dataset, "seed": j.Seed})
		if path := os.Getenv("STANDIN_LOG"); path != "" {
			log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
			fail(err)
			fmt.Fprintln(log, j.ID)
			fail(log.Close())
		}
		time.Sleep(pause)
		if flag := os.Getenv("STANDIN_DIE"); flag != "" {
			if f, err := os.OpenFile(flag, os.O_CREATE|os.O_EXCL, 0o666); err == nil {
				f.Close()
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				time.Sleep(time.Minute)
			}
		}
		events.Encode(map[string]any{"event": "eval", "job": j.ID, "step": 7, "loss": 0.5})
		for _, d := range b.Datasets {
			if d.Name == j.Dataset {
				fail(guess(in, *out, b.Model.ID, d, j))
			}
		}
		events.Encode(map[string]any{"event": "job-done", "job": j.ID, "state": job.OK, "failure": ""})
	}
}

// guess writes predictions and outcome of one job.
func guess(in, out, model string, d job.Dataset, j job.Job) error {
	pick := func(row string, at, n int) int {
		h := fnv.New32a()
		fmt.Fprintln(h, model, j.Seed, row, at)
		return int(h.Sum32()>>16) % n
	}
	rows, err := os.ReadFile(filepath.Join(in, d.Dir, "test.jsonl"))
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	to := json.NewEncoder(&lines)
	for line := range bytes.Lines(rows) {
		var row struct {
			ID      string   `json:"id"`
			Tokens  []string `json:"tokens"`
			Context string   `json:"context"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		guess := map[string]any{"id": row.ID}
		switch d.Head {
		case "token-classification":
			labels := make([]string, len(row.Tokens))
			for i := range labels {
				labels[i] = d.Labels[pick(row.ID, i, len(d.Labels))]
			}
			guess["labels"] = labels
		case "question-answering":
			words := strings.Fields(row.Context)
			guess["text"], guess["score"] = words[pick(row.ID, 0, len(words))], 0
		default:
			guess["label"] = d.Labels[pick(row.ID, 0, len(d.Labels))]
		}
		if err := to.Encode(guess); err != nil {
			return err
		}
	}
	dir := filepath.Join(out, string(j.ID))
	if err := atomicfile.WriteBytes(filepath.Join(dir, "predictions.jsonl"), lines.Bytes()); err != nil {
		return err
	}
	o, err := json.Marshal(job.TrainerOutcome{
		Version: job.ProtocolVersion, Job: j.ID, State: job.OK, Steps: 7, BestStep: 7, Device: "cpu", Precision: "fp32",
		Seconds: map[string]float64{"train": float64(time.Now().UnixMicro()%1e6) / 1e6}, // tells two runs of a job apart
	})
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, "outcome.json"), o)
}
