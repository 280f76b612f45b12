package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"bench/runner/job"
)

// state is what Slurm says of one job.
type state struct {
	Name   string // such as NODE_FAIL; "": Slurm does not know the job
	Node   string
	Reason string // why it waits, while it is PENDING
	// Code and Signal are those of the batch script (ExitCode=9:0), if Told.
	Code, Signal int
	Told         bool
}

// States after which nothing of a job runs any more. All others, those of later
// versions too, are taken for living ones: to believe a living job dead would
// start its batch twice.
var overStates = strings.Fields("COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL OUT_OF_MEMORY PREEMPTED BOOT_FAIL DEADLINE REVOKED")

func (s state) over() bool { return slices.Contains(overStates, s.Name) }
func (s state) gone() bool { return s.Name == "" }

// hopeless says what must change before a job that waits for such a reason can
// start: it asks for more than it may have. "": its turn may come.
func hopeless(reason string) string {
	perJob := strings.HasPrefix(reason, "QOSMax") || strings.HasPrefix(reason, "AssocMax") || strings.HasPrefix(reason, "MaxMem")
	switch {
	case reason == "PartitionTimeLimit", perJob && strings.Contains(reason, "Wall"):
		return "give each batch less time with --timeout, or choose a partition that allows more with --slurm-partition"
	case reason == "PartitionNodeLimit", reason == "BadConstraints", reason == "AccountingPolicy",
		perJob && (strings.Contains(reason, "PerJob") || strings.Contains(reason, "PerNode")):
		return "ask for less with --threads, --memory or --slurm-option, or choose another partition with --slurm-partition"
	case reason == "InvalidAccount", reason == "AccountNotAllowed", reason == "InvalidQOS", reason == "QOSNotAllowed":
		return "name an account with --slurm-account, or a quality of service with --slurm-option=--qos=NAME, that may use the partition"
	}
	return ""
}

// blocked says whether a pending job waits for more than its turn.
func blocked(reason string) bool {
	reason, _, _ = strings.Cut(reason, ",")
	switch reason {
	case "", "None", "Resources", "Priority", "BeginTime", "Prolog", "Cleaning", "ReqNodeNotAvail", "NodeDown", "Licenses", "Reservation", "PartitionConfig":
		return false
	}
	return hopeless(reason) == "" && !strings.HasPrefix(reason, "Nodes required for job are") && !strings.HasPrefix(reason, "QOSGrp") && !strings.HasPrefix(reason, "AssocGrp") && !strings.Contains(reason, "PerUser")
}

// bareState cuts "CANCELLED by 1000" and "CANCELLED+" down to the word.
func bareState(s string) string {
	s, _, _ = strings.Cut(s, " ")
	return strings.TrimSuffix(s, "+")
}

// states asks for the jobs, given by id, each of which must have its name: ids
// are used again after some time, or when a controller loses its memory.
//
// Two calls do for any number of jobs: squeue for all of them, and sacct for
// those that are over or that the controller has forgotten. Sites without
// accounting are asked with scontrol, one call for each job that has ended.
func (c cluster) states(ctx context.Context, names map[string]string) (map[string]state, error) {
	var ids []string
	for id := range names {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	list := strings.Join(ids, ",")
	out, err := c.run(ctx, call{argv: []string{"squeue", "--noheader", "--states=all", "--array", "--jobs=" + list, "--format=%i|%j|%T|%N|%r"}})
	if own, ok := errors.AsType[*commandError](err); ok && own.says("invalid job id") {
		err = nil // it says so if it knows none of them
	}
	if err != nil {
		return nil, err
	}
	found := map[string]state{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\n"), "|")
		if len(f) == 5 && names[f[0]] == f[1] {
			found[f[0]] = state{Name: bareState(f[2]), Node: f[3], Reason: f[4]}
		}
	}
	ended := slices.DeleteFunc(ids, func(id string) bool { s, ok := found[id]; return ok && !s.over() })
	if len(ended) == 0 {
		return found, nil
	}
	// The accounting may be some seconds behind, or not be there.
	if out, err := c.run(ctx, call{argv: []string{"sacct", "--parsable2", "--noheader", "--allocations", "--jobs=" + strings.Join(ended, ","), "--format=JobID,JobName,State,ExitCode,NodeList"}}); err == nil {
		for line := range strings.Lines(out) {
			f := strings.Split(strings.TrimRight(line, "\n"), "|")
			if len(f) != 5 || names[f[0]] != f[1] {
				continue
			}
			if s := (state{Name: bareState(f[2]), Node: f[4]}); s.over() && s.exit(f[3]) {
				found[f[0]] = s
			}
		}
	} else if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, id := range ended {
		if found[id].Told {
			continue
		}
		out, err := c.run(ctx, call{argv: []string{"scontrol", "--oneliner", "show", "job", id}})
		if own, ok := errors.AsType[*commandError](err); ok && (own.says("invalid job id") || strings.Contains(out, "not found")) {
			continue // "Job 9_1 not found": a task that was cancelled before it began
		}
		if err != nil {
			return nil, err
		}
		f := fields(out)
		if s := (state{Name: bareState(f["JobState"]), Node: f["NodeList"], Reason: f["Reason"]}); f["JobName"] == names[id] {
			s.exit(f["ExitCode"])
			found[id] = s
		}
	}
	return found, nil
}

// exit reads an ExitCode such as 9:0.
func (s *state) exit(text string) bool {
	code, signal, ok := strings.Cut(text, ":")
	if !ok {
		return false
	}
	var err, err2 error
	s.Code, err = strconv.Atoi(code)
	s.Signal, err2 = strconv.Atoi(signal)
	s.Told = err == nil && err2 == nil
	return s.Told
}

// fields reads NAME=VALUE words. A value that has blanks is cut; the ones read
// here have none.
func fields(line string) map[string]string {
	out := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		if k, v, ok := strings.Cut(word, "="); ok && out[k] == "" {
			out[k] = v
		}
	}
	return out
}

// Exit codes of the batch script itself, beside those of the trainer.
const (
	exitNoFolder = 79 // the batch's folder, or something else that it needs, is not there
	exitAgain    = 80 // Slurm started the script a second time
)

// conclude says how a batch ended from what its script wrote, nil if nothing,
// and from what Slurm says of the job. The script is the better witness of the
// exit code, Slurm of the cause.
func conclude(id string, w *witness, s state) job.Exit {
	x := job.Exit{Code: -1, Stopped: w == nil}
	switch {
	case w != nil:
		setCode(&x, w.Code)
	case s.Told && s.Signal == 0 && s.Code != 0:
		setCode(&x, s.Code)
	case s.Signal > 0 && s.Signal < 32:
		x.Signal = s.Signal
	}
	where := ""
	if s.Node != "" && s.Node != "None" {
		where = " on " + s.Node
	}
	detail := func(format string, args ...any) {
		x.Detail = fmt.Sprintf("Slurm job %s%s ", id, where) + fmt.Sprintf(format, args...)
	}
	if w != nil && !w.Term && w.Code <= 128 && s.Name != "OUT_OF_MEMORY" {
		// It ended by itself, whatever Slurm says: a controller that was killed
		// may have forgotten that the job ran, and call it cancelled.
		return x
	}
	switch s.Name {
	case "CANCELLED", "REVOKED":
		x.Stopped = true
		detail("was cancelled")
	case "TIMEOUT", "DEADLINE":
		x.TimedOut, x.Stopped = true, true
		detail("reached its time limit (%s): give more with --timeout, as far as the partition allows", s.Name)
	case "OUT_OF_MEMORY":
		x.OOMKilled = true
		x.Stopped = false
		detail("used more memory than it asked for (OUT_OF_MEMORY): ask for more with --memory")
	case "PREEMPTED":
		x.Stopped = true
		detail("was preempted by another job")
	case "NODE_FAIL", "BOOT_FAIL":
		if w == nil {
			x.Stopped = true
			detail("was lost with its node (%s)", s.Name)
		}
	case "FAILED":
		if w == nil {
			x.Stopped = false
			switch {
			case s.Told && s.Code == exitAgain:
				x = job.Exit{Code: -1, Stopped: true}
				detail("was started a second time by Slurm, and ended itself")
			case s.Told && s.Code == 0 && s.Signal >= 32: // 0:53: slurmd could not begin
				x = job.Exit{Code: -1, Stopped: true}
				detail("could not be started by its node (ExitCode %d:%d)", s.Code, s.Signal)
			default:
				detail("ended without a result file")
			}
		}
	case "COMPLETED":
		if w == nil {
			detail("completed without a result file: can the node write to the batch's folder?")
		}
	case "":
		if w == nil {
			x.Signal = int(syscall.SIGKILL)
			detail("is not known to Slurm any more, and left no result file")
		}
	}
	if w != nil && w.Term && !x.Stopped && !x.OOMKilled && w.Code != 0 {
		x.Stopped = true
		x.Detail = fmt.Sprintf("Slurm job %s on %s was asked to end", id, w.Node)
	}
	return x
}

// setCode takes a code as shells give it: 128 + n for a program that signal n
// ended. A program's own exit code above 128 is taken for a signal; trainers
// have none.
func setCode(x *job.Exit, code int) {
	x.Code = code
	if code > 128 && code <= 128+64 {
		x.Code, x.Signal = -1, code-128
	}
}
