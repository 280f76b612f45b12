package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
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
		Place: Place{Instance: "fedcba987654", Claim: claim, Path: filepath.Join(dir, "volume"), Folder: t.Name()},
		Image: "docker.io/library/bench-test-kubetrainer:test", Version: "test", Grace: time.Second, Poll: 200 * time.Millisecond,
		Limits: runner.Limits{CPUs: 0.5, MemoryBytes: 256 << 20},
	}}
}

func TestRealContract(t *testing.T) { contract(t, newRealLab(t), 2*time.Second) }

func TestRealContractHelper(t *testing.T) {
	l := newRealLab(t)
	l.o.Path = ""
	contract(t, l, 5*time.Second)
}

// batch starts a batch of two jobs.
func (l *lab) batch(s stub.Script, change func(*Options)) (runner.Handle, job.Batch, job.Dir) {
	l.Helper()
	d := job.Dir(filepath.Join(l.TempDir(), "batch"))
	h, b := l.batchIn(d, s, change)
	return h, b, d
}

func (l *lab) batchIn(d job.Dir, s stub.Script, change func(*Options)) (runner.Handle, job.Batch) {
	l.Helper()
	o := l.o
	if change != nil {
		change(&o)
	}
	if err := os.MkdirAll(d.Out(), 0o755); err != nil {
		l.Fatal(err)
	}
	b := runnertest.WriteBatch(l.T, d, 2, s)
	e := New(o)
	h, err := e.Start(l.Context(), b, d)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		h.Stop(ctx)
		h.Wait(ctx)
		e.Close()
	})
	return h, b
}

// ends waits for the end of a batch.
func (l *lab) ends(h runner.Handle) (job.Exit, error) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 3*time.Minute)
	defer cancel()
	return h.Wait(ctx)
}

// kubectl runs a command as the administrator.
func (l *lab) kubectl(stdin string, args ...string) string {
	l.Helper()
	c := exec.Command("kubectl", append([]string{"--kubeconfig", filepath.Join(l.root, "kubeconfig-admin")}, args...)...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	if err != nil {
		l.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// pod is the name of a batch's pod, once its first job is done.
func (l *lab) pod(b job.Batch, d job.Dir) string {
	l.Helper()
	l.appears(d, b.Jobs[0])
	return strings.TrimSpace(l.kubectl("", "-n", "lab", "get", "pods", "-l", labelBatch+"="+b.ID.Short(), "-o", "jsonpath={.items[0].metadata.name}"))
}

func (l *lab) appears(d job.Dir, j job.Job) {
	l.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(d.Out(), string(j.ID), kept.Outcome)); err == nil {
			return
		} else if time.Now().After(end) {
			l.Fatal("the first job was not done in time")
		}
	}
}

// restart kills a part of the cluster and starts it again after a while.
func (l *lab) restart(part string, after time.Duration) {
	l.Helper()
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			l.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	pidFile := filepath.Join(l.root, part+".pid")
	pid, err := strconv.Atoi(read(pidFile))
	if err != nil {
		l.Fatal(err)
	}
	args := strings.Split(strings.TrimRight(read(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00"), "\x00")
	if n, ok := strings.CutPrefix(part, "kubelet-"); ok { // it shares a mount namespace with containerd
		args = append([]string{"nsenter", "-m", "-t", read(filepath.Join(l.root, "containerd-"+n+".pid"))}, args...)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		l.Fatal(err)
	}
	time.Sleep(after)
	c := exec.Command(args[0], args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	log, err := os.OpenFile(filepath.Join(l.root, part+".log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		l.Fatal(err)
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(c.Process.Pid)), 0o644); err != nil {
		l.Fatal(err)
	}
	go c.Wait()
}

// The table of docs/manual.md, "Kubernetes": what happens to a batch, and what
// bench makes of it.
func TestRealEnds(t *testing.T) {
	const long = 5 * time.Minute
	for _, c := range []struct {
		name string
		run  func(*lab)
	}{
		{"memory", func(l *lab) {
			h, _, _ := l.batch(stub.Script{Memory: 600 << 20}, nil)
			if x, err := l.ends(h); err != nil || !x.OOMKilled || x.Signal != 9 || x.Stopped {
				l.Errorf("%+v, %v", x, err)
			}
		}},
		{"time", func(l *lab) {
			h, b, d := l.batch(stub.Script{Linger: long}, func(o *Options) { o.Limits.Time = 5 * time.Second })
			if x, err := l.ends(h); err != nil || !x.TimedOut || !x.Stopped || x.OOMKilled {
				l.Errorf("%+v, %v", x, err)
			}
			l.appears(d, b.Jobs[0])
		}},
		{"an image that is none", func(l *lab) {
			h, _, _ := l.batch(stub.Script{}, func(o *Options) { o.Image = "docker.io/library/No Image" })
			_, err := l.ends(h)
			if p, ok := errors.AsType[*runner.PreconditionError](err); !ok || !strings.Contains(err.Error(), "InvalidImageName") || p.Hint == "" {
				l.Error(err)
			}
		}},
		{"no such node", func(l *lab) {
			h, _, _ := l.batch(stub.Script{}, func(o *Options) {
				o.NodeSelector, o.StartTimeout = map[string]string{"gpu": "none-like-this"}, 3*time.Second
			})
			_, err := l.ends(h)
			if p, ok := errors.AsType[*runner.PreconditionError](err); !ok || !strings.Contains(err.Error(), "didn't match Pod's node affinity/selector") || p.Hint == "" {
				l.Error(err)
			}
		}},
		{"a node that comes later", func(l *lab) {
			h, b, d := l.batch(stub.Script{}, func(o *Options) { o.NodeSelector = map[string]string{"late": "yes"} })
			for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
				if why, err := os.ReadFile(d.Waiting()); err == nil {
					if !strings.Contains(string(why), "node affinity/selector") {
						l.Errorf("it waits for %q", why)
					}
					break
				} else if time.Now().After(end) {
					l.Fatal(err)
				}
			}
			l.kubectl("", "label", "node", "node-1", "late=yes")
			defer l.kubectl("", "label", "node", "node-1", "late-")
			if x, err := l.ends(h); err != nil || x != (job.Exit{}) {
				l.Errorf("%+v, %v", x, err)
			}
			l.appears(d, b.Jobs[1])
			if _, err := os.Stat(d.Waiting()); err == nil {
				l.Error("it still says that it waits")
			}
		}},
		{"no such claim", func(l *lab) {
			o := l.o
			o.Claim = "play"
			e := New(o)
			defer e.Close()
			if err := e.Check(l.Context()); !errors.As(err, new(*runner.PreconditionError)) || !strings.Contains(err.Error(), "has no PersistentVolumeClaim play") {
				l.Error(err)
			}
		}},
		{"no such namespace", func(l *lab) {
			o := l.o
			o.Namespace = "elsewhere"
			e := New(o)
			defer e.Close()
			if err := e.Check(l.Context()); !errors.As(err, new(*runner.PreconditionError)) || !strings.Contains(err.Error(), "elsewhere") {
				l.Error(err)
			}
		}},
		{"evicted", func(l *lab) {
			h, b, d := l.batch(stub.Script{Pause: 4 * time.Second}, nil)
			pod := l.pod(b, d)
			l.kubectl(fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":"lab"}}`, pod), "create", "--raw", "/api/v1/namespaces/lab/pods/"+pod+"/eviction", "-f", "-")
			if x, err := l.ends(h); err != nil || x != (job.Exit{}) {
				l.Errorf("%+v, %v", x, err)
			}
			l.appears(d, b.Jobs[1])
			events, err := os.ReadFile(d.Events())
			if n := strings.Count(string(events), `"event":"start"`); err != nil || n != 2 {
				l.Errorf("%d jobs were begun, %v; want 2: the second pod goes on where the first one was", n, err)
			}
		}},
		{"suspended and let go on, as a queue does", func(l *lab) {
			h, b, d := l.batch(stub.Script{Pause: 5 * time.Second}, func(o *Options) { o.Queue = "team-a" })
			l.pod(b, d)
			suspend := func(how string) {
				l.kubectl("", "-n", "lab", "patch", "job", l.o.jobName(b.ID), "-p", `{"spec":{"suspend":`+how+`}}`)
			}
			suspend("true")
			time.Sleep(4 * time.Second)
			suspend("false")
			if x, err := l.ends(h); err != nil || x != (job.Exit{}) {
				l.Errorf("%+v, %v", x, err)
			}
			l.appears(d, b.Jobs[1])
			events, err := os.ReadFile(d.Events())
			if n := strings.Count(string(events), `"event":"start"`); err != nil || n != 2 {
				l.Errorf("%d jobs were begun, %v; want 2", n, err)
			}
		}},
		{"its pod is deleted", func(l *lab) {
			h, b, d := l.batch(stub.Script{Linger: long}, nil)
			l.kubectl("", "-n", "lab", "delete", "pod", l.pod(b, d), "--grace-period=1")
			if x, err := l.ends(h); err != nil || !x.Stopped || x.TimedOut || x.Detail == "" && x.Signal == 0 {
				l.Errorf("%+v, %v", x, err)
			}
		}},
		{"its Job is deleted", func(l *lab) {
			h, b, d := l.batch(stub.Script{Linger: long}, nil)
			l.pod(b, d)
			l.kubectl("", "-n", "lab", "delete", "job", l.o.jobName(b.ID))
			if x, err := l.ends(h); err != nil || !x.Stopped || !strings.Contains(x.Detail, "by somebody else") {
				l.Errorf("%+v, %v", x, err)
			}
		}},
		{"the API server is killed", func(l *lab) {
			h, b, d := l.batch(stub.Script{Pause: 8 * time.Second, LogLines: 10, Code: 7}, nil)
			l.pod(b, d)
			l.restart("apiserver", 2*time.Second)
			if x, err := l.ends(h); err != nil || x != (job.Exit{Code: 7}) {
				l.Errorf("%+v, %v", x, err)
			}
			l.appears(d, b.Jobs[1])
			if log, err := os.ReadFile(d.Log()); err != nil || strings.Count(string(log), "\nline ") != 10 {
				l.Errorf("%v; the log is %s", err, log)
			}
		}},
		{"the kubelet is killed", func(l *lab) {
			h, b, d := l.batch(stub.Script{Pause: 5 * time.Second, LogLines: 10, Code: 7}, func(o *Options) { o.NodeSelector = onNode("1") })
			l.pod(b, d)
			l.restart("kubelet-1", 7*time.Second) // the pod ends meanwhile
			if x, err := l.ends(h); err != nil || x != (job.Exit{Code: 7}) {
				l.Errorf("%+v, %v", x, err)
			}
			l.appears(d, b.Jobs[1])
			if log, err := os.ReadFile(d.Log()); err != nil || strings.Count(string(log), "\nline ") != 10 {
				l.Errorf("%v; the log is %s", err, log)
			}
		}},
		{"GPUs are shared out", func(l *lab) {
			// The node pretends to have two. Their batches ask for none by device.
			var handles []runner.Handle
			for range 3 {
				d := job.Dir(filepath.Join(l.TempDir(), "batch"))
				b := runnertest.WriteBatch(l.T, d, 1, stub.Script{Linger: 3 * time.Second})
				b.Device = "cuda"
				o := l.o
				o.Limits.CPUs = 0.1
				e := New(o)
				defer e.Close()
				h, err := e.Start(l.Context(), b, d)
				if err != nil {
					l.Fatal(err)
				}
				handles = append(handles, h)
			}
			most := 0
			done := make(chan struct{})
			go func() {
				defer close(done)
				for _, h := range handles {
					if x, err := l.ends(h); err != nil || x != (job.Exit{}) || len(h.Where().GPUs) != 1 {
						l.Errorf("%+v, %v, %+v", x, err, h.Where())
					}
				}
			}()
			for over := false; !over; {
				select {
				case <-done:
					over = true
				case <-time.After(200 * time.Millisecond):
					n := strings.Count(l.kubectl("", "-n", "lab", "get", "pods", "-l", labelRun, "-o", "jsonpath={.items[*].status.phase}"), "Running")
					most = max(most, n)
				}
			}
			if most != 2 {
				l.Errorf("%d batches ran at a time on two GPUs", most)
			}
		}},
		{"the sandbox", func(l *lab) {
			h, b, d := l.batch(stub.Script{Linger: long, Environment: true}, nil)
			out := l.kubectl("", "-n", "lab", "exec", l.pod(b, d), "--", "sh", "-c", `
				id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\t' ' '
				for f in /x /bench/in/x /usr/x; do touch $f 2>/dev/null && echo wrote $f; done
				touch /tmp/x /bench/out/x && echo may write
				ls -d /var/run/secrets /run/secrets 2>/dev/null
				getent hosts kubernetes.default.svc example.org; true`)
			want := "65534\nCapBnd: 0000000000000000\nCapEff: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\nmay write\n"
			lines := strings.Split(strings.TrimSpace(out), "\n")
			slices.Sort(lines[1 : len(lines)-1])
			if got := strings.Join(lines, "\n") + "\n"; got != want {
				l.Errorf("inside it is\n%s\nwant\n%s", got, want)
			}
			if err := h.Stop(l.Context()); err != nil {
				l.Error(err)
			}
			l.ends(h)
			log, err := os.ReadFile(d.Log())
			if err != nil || !strings.Contains(string(log), "env NVIDIA_VISIBLE_DEVICES=void") || strings.Contains(string(log), "WORK_SERVICE_HOST") {
				l.Errorf("%v; %s", err, log)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newRealLab(t)
			l.o.Folder = "ends"
			c.run(l)
		})
	}
}
