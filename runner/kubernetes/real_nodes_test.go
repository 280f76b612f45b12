package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/runner/runnertest/stub"
)

// onNode selects one of the two nodes.
func onNode(n string) map[string]string {
	return map[string]string{"kubernetes.io/hostname": "node-" + n}
}

// script runs .ci/kubernetes.sh on the cluster.
func (l *lab) script(command, node string) {
	l.Helper()
	// Not its output: a node that is started keeps it open.
	if err := exec.Command("../../.ci/kubernetes.sh", command, l.root, node).Run(); err != nil {
		l.Fatalf(".ci/kubernetes.sh %s %s: %v", command, node, err)
	}
}

// lose kills a node with everything on it. After the case it is found again.
func (l *lab) lose(node string) {
	l.Helper()
	l.Cleanup(func() { l.script("find", node) })
	l.script("lose", node)
}

// told waits for what the pod said of its first job: when its node is lost,
// nothing more comes.
func (l *lab) told(d job.Dir) {
	l.Helper()
	l.eventually("the pod's words are here", time.Minute, func() bool {
		text, err := os.ReadFile(d.Events())
		return err == nil && strings.Contains(string(text), `"event":"start"`)
	})
}

// eventually waits for something to be true.
func (l *lab) eventually(what string, within time.Duration, true func() bool) {
	l.Helper()
	for end := time.Now().Add(within); !true(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("not in time: %s", what)
		}
	}
}

// node is where a batch's pod is.
func (l *lab) node(b job.Batch) string {
	l.Helper()
	return l.kubectl("", "-n", "lab", "get", "pods", "-l", labelBatch+"="+b.ID.Short(), "-o", "jsonpath={.items[*].spec.nodeName}")
}

// goneOn says that a batch came to its end although its first pod did not, and
// that the second pod did not begin a job that had ended.
func (l *lab) goneOn(h runner.Handle, b job.Batch, d job.Dir) {
	l.Helper()
	if x, err := l.ends(h); err != nil || x != (job.Exit{}) {
		l.Errorf("%+v, %v", x, err)
	}
	l.begun(b, d, 2)
}

// begun says that all jobs have ended and how many were begun.
func (l *lab) begun(b job.Batch, d job.Dir, want int) {
	l.Helper()
	for _, j := range b.Jobs {
		l.appears(d, j)
	}
	events, err := os.ReadFile(d.Events())
	if n := strings.Count(string(events), `"event":"start"`); err != nil || n != want {
		l.Errorf("%d jobs were begun, %v; want %d: the second pod goes on where the first one was", n, err, want)
	}
}

// What becomes of batches when the cluster takes their place away: the lines of
// docs/reliability.md that need a second node.
func TestRealNodes(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*lab)
	}{
		{"drained", func(l *lab) {
			h, b, d := l.batch(stub.Script{Pause: 6 * time.Second}, nil)
			l.pod(b, d)
			node := l.node(b)
			defer l.kubectl("", "uncordon", node)
			l.kubectl("", "drain", node, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
			l.goneOn(h, b, d)
			if at := h.Where().Host; strings.HasSuffix(at, node) {
				l.Errorf("it ended on %s, which was drained", at)
			}
		}},
		{"preempted", func(l *lab) {
			h, b, d := l.batch(stub.Script{Pause: 6 * time.Second}, func(o *Options) {
				o.GPUResource, o.PriorityClass = "example.org/gpu", "low" // node 2 has one
			})
			l.pod(b, d)
			defer l.kubectl("", "-n", "lab", "delete", "pod", "urgent", "--ignore-not-found", "--grace-period=1")
			l.kubectl(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"urgent","namespace":"lab"},"spec":{"priorityClassName":"high","terminationGracePeriodSeconds":1,
				"securityContext":{"runAsNonRoot":true,"runAsUser":65534,"seccompProfile":{"type":"RuntimeDefault"}},
				"containers":[{"name":"c","image":"docker.io/library/bench-test-kubetrainer:test","imagePullPolicy":"IfNotPresent","command":["sleep","600"],
				"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}},
				"resources":{"limits":{"example.org/gpu":"1","cpu":"100m","memory":"32Mi"}}}]}}`, "create", "-f", "-")
			l.eventually("the urgent pod runs", time.Minute, func() bool {
				return l.kubectl("", "-n", "lab", "get", "pod", "urgent", "-o", "jsonpath={.status.phase}") == "Running"
			})
			l.kubectl("", "-n", "lab", "delete", "pod", "urgent", "--grace-period=1")
			l.goneOn(h, b, d)
		}},
		{"its node is lost, and the cluster waits for it", func(l *lab) {
			d := job.Dir(filepath.Join(l.TempDir(), "batch"))
			h, b := l.batchIn(d, stub.Script{Pause: 6 * time.Second}, func(o *Options) {
				soon := int64(2)
				o.NodeSelector, o.NodePatience = onNode("2"), 5*time.Second
				o.Tolerations = []Toleration{{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &soon}}
			})
			old := l.pod(b, d)
			l.told(d)
			l.lose("2")
			x, err := l.ends(h)
			if err != nil || !x.Stopped || x.TimedOut || !strings.Contains(x.Detail, "node-2 does not answer") {
				l.Errorf("%+v, %v", x, err)
			}
			// The runner begins it anew, and the cluster finds another node.
			o := l.o
			e := New(o)
			defer e.Close()
			again, err := e.Start(l.Context(), b, d)
			if err != nil {
				l.Fatal(err)
			}
			l.goneOn(again, b, d)
			if at := again.Where().Host; !strings.HasSuffix(at, "node-1") {
				l.Errorf("it ended on %s", at)
			}
			l.script("find", "2")
			l.eventually("the pod on the node that is back goes", 2*time.Minute, func() bool {
				return !strings.Contains(l.kubectl("", "-n", "lab", "get", "pods", "-o", "name"), old)
			})
		}},
		{"its node is lost, and removed by somebody", func(l *lab) {
			l.kubectl("", "cordon", "node-1")
			h, b, d := l.batch(stub.Script{Pause: 6 * time.Second}, nil)
			l.pod(b, d)
			l.told(d)
			l.kubectl("", "uncordon", "node-1")
			l.lose("2")
			l.kubectl("", "delete", "node", "node-2")
			l.goneOn(h, b, d)
			if at := h.Where().Host; !strings.HasSuffix(at, "node-1") {
				l.Errorf("it ended on %s, which is no more", at)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newRealLab(t)
			l.o.Folder = "nodes"
			l.eventually("both nodes are ready", 2*time.Minute, func() bool {
				return strings.Count(l.kubectl("", "get", "nodes", "-o", fmt.Sprintf("jsonpath={.items[*].status.conditions[?(@.type==%q)].status}", "Ready")), "True") == 2
			})
			c.run(l)
		})
	}
}
