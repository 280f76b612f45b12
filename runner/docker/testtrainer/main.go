// Command testtrainer is the trainer in the images of this package's tests:
// package stub, unless the batch's folder holds a file "attack" that names
// something a trainer should not do.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"bench/runner/job"
	"bench/runner/runnertest/stub"
)

const in, out = "/bench/in", "/bench/out"

func main() {
	if filepath.Base(os.Args[0]) == "nvidia-smi" {
		for i := range 3 {
			fmt.Printf("%d, GPU-%d, Test Card, 16384, Disabled, 0, 7.5, 550.54.15\n", i, i)
		}
		return
	}
	attack, err := os.ReadFile(in + "/attack")
	if err != nil {
		os.Exit(stub.Run(os.Args[1:], os.Stdout, os.Stderr))
	}
	var b job.Batch
	text, err := os.ReadFile(in + "/batch.json")
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	must(err)
	// The victim is the first job; the others are done as they should be.
	victim := filepath.Join(out, string(b.Jobs[0].ID))
	must(os.Mkdir(victim, 0o755))
	good, err := json.Marshal(job.TrainerOutcome{Version: job.ProtocolVersion, Job: b.Jobs[0].ID, State: job.OK})
	must(err)
	outcome, predictions := victim+"/outcome.json", victim+"/predictions.jsonl"
	switch strings.TrimSpace(string(attack)) {
	case "outcome is a link":
		must(os.Symlink(in+"/batch.json", outcome))
	case "outcome is a link inside":
		must(os.Symlink("other", outcome))
		must(os.WriteFile(victim+"/other", good, 0o644))
	case "outcome is a pipe":
		must(syscall.Mkfifo(outcome, 0o666))
	case "outcome is a folder":
		must(os.Mkdir(outcome, 0o755))
	case "outcome is huge":
		must(os.WriteFile(outcome, make([]byte, 20<<20), 0o644))
	case "predictions are a link":
		must(os.Symlink("/etc/shadow", predictions))
		must(os.WriteFile(outcome, good, 0o644))
	case "predictions are a pipe":
		must(syscall.Mkfifo(predictions, 0o666))
		must(os.WriteFile(outcome, good, 0o644))
	case "predictions are huge":
		f, err := os.Create(predictions)
		must(err)
		must(f.Truncate(5 << 30))
		must(os.WriteFile(outcome, good, 0o644))
	case "long predictions":
		must(os.WriteFile(predictions, make([]byte, 8<<20), 0o644))
		must(os.WriteFile(outcome, good, 0o644))
	case "job is a link":
		must(os.Remove(victim))
		must(os.Symlink("/etc", victim))
	case "out is locked":
		must(os.WriteFile(outcome, good, 0o644))
		must(os.WriteFile(predictions, nil, 0o644))
		must(os.Chmod(victim, 0))
	case "other names":
		for _, name := range []string{"..", "../evil", "outcome.json", strings.Repeat("a", 64), "..\\evil", "a\nb"} {
			os.MkdirAll(filepath.Join(out, name), 0o755)
			os.WriteFile(out+"/"+name+"/outcome.json", good, 0o644)
		}
		must(os.WriteFile(outcome, good, 0o644))
	case "flood":
		for i := 0; ; i++ {
			if os.WriteFile(fmt.Sprintf("%s/flood%d", out, i), make([]byte, 16<<20), 0o644) != nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	case "print":
		line := []byte(strings.Repeat("x", 1<<20) + "\n")
		for range 80 {
			os.Stderr.Write(line)
		}
		must(os.WriteFile(outcome, good, 0o644))
	case "model":
		must(os.WriteFile(outcome, good, 0o644))
		must(filepath.WalkDir("/bench/model", func(p string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(p)
			fmt.Fprintf(os.Stderr, "%s %q %v\n", p, content, err)
			if os.WriteFile(p, []byte("evil"), 0o644) == nil || os.Remove(p) == nil || os.WriteFile(p+"2", nil, 0o644) == nil {
				fmt.Fprintln(os.Stderr, "could write")
			}
			return nil
		}))
	default:
		os.Exit(99)
	}
	os.Exit(stub.Run([]string{"--batch", in + "/batch.json", "--out", out}, os.Stdout, os.Stderr))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "testtrainer:", err)
		os.Exit(98)
	}
}
