package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/runner/job"

	"github.com/google/go-cmp/cmp"
)

// commands puts programs into PATH that stand in for Slurm's, and returns the
// file in which each call leaves a line.
func commands(t *testing.T, programs map[string]string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	for name, body := range programs {
		text := "#!/bin/sh\necho \"" + name + " $*\" >>'" + calls + "'\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return calls
}

// The rows are as Slurm 22.05 writes them, with slurmdbd for those of sacct
// ("CANCELLED by UID").
func TestStates(t *testing.T) {
	names := map[string]string{"1": "bench-a", "2": "bench-b", "3": "bench-c", "4": "bench-d", "5": "bench-e"}
	squeue := `cat <<'X'
1|bench-a|RUNNING|n1|None
2|bench-b|FAILED|n2|NonZeroExitCode
5|another|RUNNING|n1|None
X`
	sacct := `cat <<'X'
2|bench-b|RUNNING|0:0|n2
3|bench-c|CANCELLED by 1000|0:15|n1
5|another|COMPLETED|0:0|n1
X`
	scontrol := `case $4 in
2) echo "JobId=2 JobName=bench-b UserId=u(1) JobState=FAILED Reason=NonZeroExitCode Dependency=(null) ExitCode=9:0 NodeList=n2 BatchHost=n2";;
*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;;
esac`
	calls := commands(t, map[string]string{"squeue": squeue, "sacct": sacct, "scontrol": scontrol})
	got, err := cluster{}.states(t.Context(), names)
	want := map[string]state{
		"1": {Name: "RUNNING", Node: "n1", Reason: "None"},
		"2": {Name: "FAILED", Node: "n2", Reason: "NonZeroExitCode", Code: 9, Told: true}, // sacct is behind
		"3": {Name: "CANCELLED", Node: "n1", Signal: 15, Told: true},                      // only sacct knows it
		// 4 is forgotten, and 5 is somebody else's by now.
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := strings.Count(string(text), "squeue"), strings.Count(string(text), "sacct"); a != 1 || b != 1 {
		t.Errorf("%d calls of squeue and %d of sacct, want one each:\n%s", a, b, text)
	}

	// Without accounting, and with a controller that knows none of the jobs.
	forgotten := `echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1`
	commands(t, map[string]string{"squeue": forgotten, "scontrol": forgotten, "sacct": `echo "Slurm accounting storage is disabled" >&2; exit 1`})
	if got, err := (cluster{}).states(t.Context(), names); err != nil || len(got) != 0 {
		t.Errorf("%v, %v; want nothing", got, err)
	}

	// A controller that does not answer is no answer.
	away := `echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2; exit 1`
	commands(t, map[string]string{"squeue": away, "scontrol": away, "sacct": away})
	if _, err := (cluster{}).states(t.Context(), names); err == nil || !transient(err) {
		t.Errorf("%v, want an error that may pass", err)
	}
}

func TestConclude(t *testing.T) {
	ended := func(code int) *witness { return &witness{Code: code, Node: "n1"} }
	asked := func(code int) *witness { return &witness{Code: code, Node: "n1", Term: true} }
	for _, test := range []struct {
		name string
		w    *witness
		s    state
		want job.Exit
	}{
		{"exit code", ended(65), state{Name: "FAILED", Code: 65, Told: true}, job.Exit{Code: 65}},
		{"exit code, and Slurm has forgotten it", ended(65), state{}, job.Exit{Code: 65}},
		{"signal", ended(128 + 11), state{Name: "FAILED", Code: 139, Told: true}, job.Exit{Code: -1, Signal: 11}},
		{"out of memory", ended(137), state{Name: "OUT_OF_MEMORY", Signal: 125, Told: true}, job.Exit{Code: -1, Signal: 9, OOMKilled: true}},
		{"out of memory of a child", ended(70), state{Name: "OUT_OF_MEMORY", Signal: 125, Told: true}, job.Exit{Code: 70, OOMKilled: true}},
		{"out of memory, script killed too", nil, state{Name: "OUT_OF_MEMORY", Signal: 125, Told: true}, job.Exit{Code: -1, OOMKilled: true}},
		{"time limit", asked(143), state{Name: "TIMEOUT", Signal: 1, Told: true}, job.Exit{Code: -1, Signal: 15, TimedOut: true, Stopped: true}},
		{"time limit, deaf trainer", nil, state{Name: "TIMEOUT", Signal: 1, Told: true}, job.Exit{Code: -1, Signal: 1, TimedOut: true, Stopped: true}},
		{"deadline", nil, state{Name: "DEADLINE"}, job.Exit{Code: -1, TimedOut: true, Stopped: true}},
		{"cancelled", asked(143), state{Name: "CANCELLED", Signal: 15, Told: true}, job.Exit{Code: -1, Signal: 15, Stopped: true}},
		{"cancelled in the queue", nil, state{Name: "CANCELLED"}, job.Exit{Code: -1, Stopped: true}},
		{"cancelled, and ended by itself before", ended(70), state{Name: "CANCELLED"}, job.Exit{Code: 70}},
		{"cancelled, and Slurm has forgotten it", asked(143), state{}, job.Exit{Code: -1, Signal: 15, Stopped: true}},
		{"TERM sent by hand", asked(5), state{Name: "FAILED", Code: 5, Told: true}, job.Exit{Code: 5, Stopped: true}},
		{"preempted", nil, state{Name: "PREEMPTED", Signal: 15, Told: true}, job.Exit{Code: -1, Signal: 15, Stopped: true}},
		{"node lost", nil, state{Name: "NODE_FAIL", Node: "n1"}, job.Exit{Code: -1, Stopped: true}},
		{"node did not boot", nil, state{Name: "BOOT_FAIL"}, job.Exit{Code: -1, Stopped: true}},
		{"revoked", nil, state{Name: "REVOKED"}, job.Exit{Code: -1, Stopped: true}},
		{"second start", nil, state{Name: "FAILED", Code: exitAgain, Told: true}, job.Exit{Code: -1, Stopped: true}},
		{"slurmd could not begin", nil, state{Name: "FAILED", Signal: 53, Told: true}, job.Exit{Code: -1, Stopped: true}},
		{"no result file", nil, state{Name: "COMPLETED", Told: true}, job.Exit{Code: -1, Stopped: true}},
		{"no result file, but a code", nil, state{Name: "FAILED", Code: 70, Told: true}, job.Exit{Code: 70}},
		{"forgotten", nil, state{}, job.Exit{Code: -1, Signal: 9, Stopped: true}},
	} {
		got := conclude("7", test.w, test.s)
		if got.Detail == "" && got.Stopped {
			t.Errorf("%s: nobody is told why it stopped", test.name)
		}
		got.Detail = ""
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// What Slurm says while a job lives is not taken for its end, in later versions
// either.
func TestLivingStates(t *testing.T) {
	for _, s := range strings.Fields("PENDING RUNNING SUSPENDED COMPLETING CONFIGURING REQUEUED STAGE_OUT STOPPED SIGNALING RESIZING SPECIAL_EXIT REQUEUE_HOLD NEW_IN_A_LATER_VERSION") {
		if (state{Name: s}).over() {
			t.Errorf("%s is taken for an end", s)
		}
	}
}

func TestPartitions(t *testing.T) {
	got := parsePartitions("cpu*|up|(null)\ngpu|up|gpu:a100:4(S:0-1),nvme:1\ngpu|down|(null)\nold|drain|shard:2\nodd line\n")
	want := []partition{{"cpu", true, true, false}, {"gpu", false, true, true}, {"old", false, false, false}}
	if !cmp.Equal(got, want, cmp.AllowUnexported(partition{})) {
		t.Error(cmp.Diff(want, got, cmp.AllowUnexported(partition{})))
	}
}

func TestReasons(t *testing.T) {
	for reason, want := range map[string]struct{ never, told bool }{
		"Resources": {}, "Priority": {}, "None": {}, "QOSGrpCpuLimit": {}, "AssocGrpGRES": {}, "QOSMaxJobsPerUserLimit": {},
		"ReqNodeNotAvail, UnavailableNodes:n1": {},
		"PartitionTimeLimit":                   {never: true}, "QOSMaxWallDurationPerJobLimit": {never: true}, "QOSMaxGRESPerJob": {never: true}, "InvalidAccount": {never: true},
		"JobHeldUser": {told: true}, "DependencyNeverSatisfied": {told: true}, "PartitionDown": {told: true},
	} {
		if got := hopeless(reason) != ""; got != want.never {
			t.Errorf("%s is hopeless: %v", reason, got)
		}
		if got := blocked(reason); got != want.told {
			t.Errorf("%s is worth telling: %v", reason, got)
		}
	}
}

func TestRequest(t *testing.T) {
	e := New(Options{Partition: "p", Account: "a", Extra: []string{"--qos=high"}})
	e.o.Limits.MemoryBytes, e.o.Limits.CPUs, e.o.Limits.Time = 1<<30+1, 3, 90e9
	for _, test := range []struct {
		gpus   bool
		device string
		extra  []string
		want   string
	}{
		{true, "auto", nil, "--partition=p --account=a --cpus-per-task=3 --mem=1025M --time=2 --gres=gpu:1"},
		{true, "cpu", nil, "--partition=p --account=a --cpus-per-task=3 --mem=1025M --time=2"},
		{false, "auto", []string{"--qos=high"}, "--partition=p --account=a --cpus-per-task=3 --mem=1025M --time=2 --qos=high"},
		{false, "cuda", nil, "--partition=p --account=a --cpus-per-task=3 --mem=1025M --time=2 --gres=gpu:1"},
		{true, "cuda", []string{"--gpus=a100:1"}, "--partition=p --account=a --cpus-per-task=3 --mem=1025M --time=2 --gpus=a100:1"},
	} {
		e.o.Extra = test.extra
		got := strings.Join(e.request(place{gpus: test.gpus}, job.Batch{Device: test.device}), " ")
		if got != "--nodes=1 --ntasks=1 "+test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
