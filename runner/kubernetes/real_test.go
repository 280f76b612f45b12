package kubernetes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bench/runner"
)

// newRealLab is the cluster that .ci/kubernetes.sh started in the folder that
// $BENCH_TEST_KUBERNETES names, as the user who may do no more than the manual
// says.
func newRealLab(t *testing.T) *lab {
	dir := os.Getenv("BENCH_TEST_KUBERNETES")
	if dir == "" {
		const reason = "no cluster: .ci/kubernetes.sh up DIR starts one, then BENCH_TEST_KUBERNETES=DIR"
		if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "kubernetes") {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "kubeconfig-user"))
	return &lab{T: t, root: dir, o: Options{
		Place: Place{Instance: "0123456789ab", Claim: claim, Path: filepath.Join(dir, "volume"), Folder: t.Name()},
		Image: "docker.io/library/bench-test-kubetrainer:test", Version: "test", Grace: time.Second, Poll: 200 * time.Millisecond,
		Limits: runner.Limits{CPUs: 0.5, MemoryBytes: 256 << 20},
	}}
}

func TestRealContract(t *testing.T) { contract(t, newRealLab(t)) }

func TestRealContractHelper(t *testing.T) {
	l := newRealLab(t)
	l.o.Path = ""
	contract(t, l)
}
