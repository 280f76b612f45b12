package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"bench/internal/sshlink"
	"bench/runner"
)

// callTimeout bounds one command of Slurm. Its own clients give up on a
// controller that does not answer after about 10 s.
const callTimeout = 30 * time.Second

// cluster talks to Slurm through its command line. Only output that has stayed
// the same from 22.05 to 26.05 is read: squeue -o, sacct -P, scontrol -o, and
// never --json, whose shape changes between versions.
type cluster struct {
	site // nil: here
}

// commandError is a command of Slurm that failed.
type commandError struct {
	command string
	said    string // what it wrote to stderr, in one line
	err     error
}

func (e *commandError) Error() string {
	if e.said == "" {
		return e.command + ": " + e.err.Error()
	}
	return e.command + ": " + e.said
}

func (e *commandError) Unwrap() error { return e.err }

// says tells whether the command's message has one of these texts in it.
// Slurm's commands exit with 1 whatever is wrong, so its words are all there is.
func (e *commandError) says(texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(e.said), strings.ToLower(t)) })
}

// call is one run of a command.
type call struct {
	argv  []string
	stdin string
	keep  []*os.File // stay open in the command, from descriptor 3 on
}

// run returns what the command wrote to stdout.
func (c cluster) run(ctx context.Context, k call) (string, error) {
	if c.site == nil {
		return here{}.exec(ctx, k)
	}
	return c.exec(ctx, k)
}

func newCommandError(command, said string, err error) *commandError {
	lines := strings.FieldsFunc(said, func(r rune) bool { return r == '\n' || r == '\r' })
	return &commandError{command, strings.ReplaceAll(strings.Join(lines, "; "), command+": error: ", ""), err}
}

// passed are the variables that Slurm's commands get, beside LC_ and SBATCH_ ones.
const passed = "PATH HOME USER LOGNAME SHELL LANG TZ LD_LIBRARY_PATH SLURM_CONF SLURM_CLUSTERS SLURM_JWT SLURM_TIME_FORMAT KRB5CCNAME"

// environment is what of the caller's variables Slurm's commands get. Slurm
// hands a submitter's variables on to the job, so tokens stay behind here.
func environment(caller []string) []string {
	names := strings.Fields(passed)
	var out []string
	for _, kv := range caller {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(names, name) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "SBATCH_") {
			out = append(out, kv)
		}
	}
	return out
}

// jobID reads what sbatch --parsable says: ID, or ID;CLUSTER with several clusters.
func jobID(said string) (string, error) {
	id, _, _ := strings.Cut(strings.TrimSpace(said), ";")
	if id == "" || strings.Trim(id, "0123456789") != "" {
		return "", &commandError{"sbatch", fmt.Sprintf("it should have said the job's number, and said %.100q", said), errors.New("unknown answer")}
	}
	return id, nil
}

// byName returns the ids of jobs of this name, one for a whole array, the ended
// ones too as far as the controller remembers them.
func (c cluster) byName(ctx context.Context, name string) ([]string, error) {
	out, err := c.run(ctx, call{argv: []string{"squeue", "--noheader", "--states=all", "--name=" + name, "--format=%F"}})
	return slices.Compact(strings.Fields(out)), err
}

// cancel ends jobs. That they have ended already is no error.
func (c cluster) cancel(ctx context.Context, ids ...string) error {
	_, err := c.run(ctx, call{argv: append([]string{"scancel"}, ids...)})
	if own, ok := errors.AsType[*commandError](err); ok && own.says("invalid job id", "already completing", "already completed") {
		return nil
	}
	return err
}

// partition is what sinfo says of one.
type partition struct {
	name      string
	isDefault bool
	up        bool
	gpus      bool
}

// partitions asks sinfo for all partitions that the user may see.
func (c cluster) partitions(ctx context.Context) ([]partition, error) {
	out, err := c.run(ctx, call{argv: []string{"sinfo", "--noheader", "--format=%P|%a|%G"}})
	if err != nil {
		return nil, err
	}
	return parsePartitions(out), nil
}

// parsePartitions reads lines such as gpu*|up|gpu:a100:4(S:0-1), one for each
// kind of node.
func parsePartitions(out string) []partition {
	var all []partition
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 3 {
			continue
		}
		name, isDefault := strings.CutSuffix(f[0], "*")
		i := slices.IndexFunc(all, func(p partition) bool { return p.name == name })
		if i < 0 {
			i = len(all)
			all = append(all, partition{name: name, isDefault: isDefault})
		}
		all[i].up = all[i].up || f[1] == "up"
		for gres := range strings.SplitSeq(f[2], ",") {
			kind, _, _ := strings.Cut(gres, ":")
			all[i].gpus = all[i].gpus || kind == "gpu"
		}
	}
	return all
}

// name is the cluster's; "" if it cannot be told.
func (c cluster) name(ctx context.Context) string {
	out, err := c.run(ctx, call{argv: []string{"scontrol", "show", "config"}})
	if err != nil {
		return ""
	}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "ClusterName" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// transient says whether a command may do what it could not do now: the
// controller is away or busy, or the site allows no more jobs of this user at
// the moment.
func transient(err error) bool {
	if errors.As(err, new(*sshlink.Error)) {
		return true
	}
	own, ok := errors.AsType[*commandError](err)
	if !ok {
		return false
	}
	return errors.Is(own.err, context.DeadlineExceeded) || own.says(
		"unable to contact slurm controller", "socket timed out", "connection refused", "zero bytes were transmitted", "transport endpoint",
		"communication connection failure", "slurm backup controller in standby", "temporarily", "unexpected message received", "connection reset",
		"job submit limit", "maxsubmit", "try again")
}

// precondition explains why Slurm does not take jobs. Errors that may pass are
// returned as they are.
func precondition(err error) error {
	if link, ok := errors.AsType[*sshlink.Error](err); ok {
		return &runner.PreconditionError{What: "the login node of the cluster cannot be reached", Err: link, Hint: link.Hint}
	}
	own, ok := errors.AsType[*commandError](err)
	if !ok {
		return err
	}
	p := &runner.PreconditionError{What: "Slurm cannot run this", Err: err, Hint: "try it by hand: sbatch --test-only with the same options; then bench run again"}
	switch {
	case errors.Is(own.err, exec.ErrNotFound):
		p.What = "there is no Slurm here: " + own.command + " is not in PATH"
		p.Hint = "run bench on a login node of the cluster (perhaps after module load slurm), or use --executor docker or process"
		p.Err = nil
	case own.says("could not establish a configuration source", "fetch_config", "unable to process configuration", "no such file or directory"):
		p.What = "Slurm is installed here, and not configured"
		p.Hint = "run bench on a login node of the cluster, or point SLURM_CONF at the cluster's slurm.conf"
	case transient(err):
		p.What = "Slurm's controller does not answer"
		p.Hint = "try squeue; run the same command again when it answers: finished seeds are kept"
	case own.says("partition"):
		p.Hint = "sinfo lists the partitions; name one with --slurm-partition"
		if own.says("account") {
			p.Hint = "name an account that may use the partition with --slurm-account (sacctmgr show associations user=$USER lists yours)"
		}
	case own.says("account"):
		p.Hint = "name your account with --slurm-account (sacctmgr show associations user=$USER lists yours)"
	case own.says("time limit"):
		p.Hint = "lower --timeout, or choose a partition that allows it with --slurm-partition"
	case own.says("memory"):
		p.Hint = "lower --memory, or choose a partition with larger nodes with --slurm-partition"
	case own.says("node configuration", "gres"):
		p.Hint = "no node has as many CPUs, GPUs or as much memory as one batch asks for: lower --threads or --memory, or choose another partition with --slurm-partition"
	case own.says("unrecognized option", "invalid option", "unknown option"):
		p.Hint = "look at the options given with --slurm-option: each is one word, such as --qos=high"
	}
	return p
}
