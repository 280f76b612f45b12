package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bench/runner/job"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// newRealStoreLab is the real cluster with the object store beside it, and no
// volume.
func newRealStoreLab(t *testing.T) *lab {
	l := newRealLab(t)
	endpoint, err := os.ReadFile(filepath.Join(l.root, "store.endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	l.o.Store = Store{URL: "s3://work/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), Endpoint: strings.TrimSpace(string(endpoint)), Region: "lab"}
	l.o.StoreKeys = StoreKeys{ID: "lab", Secret: "lab-secret"}
	l.o.Claim, l.o.Path, l.o.Folder = "", "", ""
	l.o.Entrypoint, l.o.DeliveryGrace = []string{"/trainer"}, 15*time.Second
	return l
}

func TestRealContractStore(t *testing.T) {
	l := newRealStoreLab(t)
	contract(t, l, 4*time.Second)
	e := l.open()
	if _, err := e.GC(t.Context(), true); err != nil {
		t.Error(err)
	}
	if left, err := newBucket(l.o.Store, l.o.StoreKeys).list(t.Context(), ""); err != nil || len(left) > 0 {
		t.Errorf("left in the store: %v, %v", left, err)
	}
	l.eventually("Secrets and NetworkPolicies end with their Jobs", time.Minute, func() bool {
		return !strings.Contains(l.kubectl("", "-n", "lab", "get", "secrets,networkpolicies", "-l", labelRun, "-o", "name"), "bench-")
	})
}

// What is different with an object store in a real cluster.
func TestRealStore(t *testing.T) {
	const long = 5 * time.Minute
	for _, c := range []struct {
		name string
		run  func(*lab)
	}{
		{"evicted", func(l *lab) {
			h, b, d := l.batch(stub.Script{Pause: 6 * time.Second}, nil)
			pod := l.pod(b, d)
			l.kubectl(fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":"lab"}}`, pod), "create", "--raw", "/api/v1/namespaces/lab/pods/"+pod+"/eviction", "-f", "-")
			l.goneOn(h, b, d)
		}},
		{"the store is killed, and comes back", func(l *lab) {
			h, b, d := l.batch(stub.Script{Pause: 4 * time.Second}, nil)
			l.pod(b, d)
			l.restart("store", 6*time.Second) // the second job ends meanwhile
			if x, err := l.ends(h); err != nil || x != (job.Exit{}) {
				l.Errorf("%+v, %v", x, err)
			}
			l.begun(b, d, 2)
		}},
		{"a model in several parts", func(l *lab) {
			snapshot := l.TempDir()
			for name, size := range map[string]int64{"config.json": 2, "empty": 0, "weights/model.safetensors": 2*partBytes + 1} {
				path := filepath.Join(snapshot, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					l.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(strings.Repeat("x", int(size))), 0o644); err != nil {
					l.Fatal(err)
				}
			}
			d := job.Dir(filepath.Join(l.TempDir(), "batch"))
			b := runnertest.WriteBatch(l.T, d, 1, stub.Script{Linger: long})
			b.Model = job.Model{ID: "org/name", Revision: "abc", Path: snapshot}
			e := New(l.o)
			defer e.Close()
			h, err := e.Start(l.Context(), b, d)
			if err != nil {
				l.Fatal(err)
			}
			defer l.ends(h)
			defer h.Stop(l.Context())
			if got, want := l.kubectl("", "-n", "lab", "exec", l.pod(b, d), "-c", trainerName, "--", "sh", "-c", "cd /bench/model; find . -type f | sort | xargs stat -c '%n %s'; tr -d x <weights/model.safetensors | wc -c; (echo x >>config.json) 2>/dev/null || echo may not write"),
				fmt.Sprintf("./config.json 2\n./empty 0\n./weights/model.safetensors %d\n0\nmay not write\n", 2*partBytes+1); got != want {
				l.Errorf("the model is\n%s\nwant\n%s", got, want)
			}
		}},
		{"the sandbox", func(l *lab) {
			h, b, d := l.batch(stub.Script{Linger: long}, nil)
			pod := l.pod(b, d)
			// As the trainer's user, outside its filter: what the walls of the pod hold back.
			out := l.kubectl("", "-n", "lab", "exec", pod, "-c", trainerName, "--", "sh", "-c", `
				id -u; ls -d /bench/plan /bench/volume /var/run/secrets 2>/dev/null
				for p in /proc/[0-9]*; do
					case $(tr '\0' ' ' <$p/cmdline) in python3*" deliver "*) echo found; cat $p/environ $p/root/bench/plan/* 2>&1 | grep -vi denied;; esac
				done
				for p in /proc/[0-9]*; do
					case $(tr '\0' ' ' <$p/cmdline) in /trainer*) grep -E '^(Seccomp|Seccomp_filters):' $p/status | tr '\t' ' ';; esac
				done; true`)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if want := []string{"65534", "found", "Seccomp: 2", "Seccomp_filters: 2"}; !slices.Equal(lines, want) {
				l.Errorf("inside it is %q, want %q", lines, want)
			}
			for _, of := range []string{"jobs", "pods"} { // where more people may look than at Secrets
				if text := l.kubectl("", "-n", "lab", "get", of, "-l", labelBatch+"="+b.ID.Short(), "-o", "json"); strings.Contains(text, "X-Amz-") || strings.Contains(text, l.o.StoreKeys.Secret) {
					l.Errorf("%s show the way into the store: %s", of, text)
				}
			}
			if err := h.Stop(l.Context()); err != nil {
				l.Error(err)
			}
			l.ends(h)
		}},
		{"no trainer reaches the network", func(l *lab) {
			// The lab's network plug-in enforces no policy: without the guard a program gets out, behind it not.
			try := `import socket
try:
    socket.create_connection(("` + strings.TrimPrefix(l.o.Store.Endpoint, "http://")[:strings.LastIndex(strings.TrimPrefix(l.o.Store.Endpoint, "http://"), ":")] + `", ` + l.o.Store.Endpoint[strings.LastIndex(l.o.Store.Endpoint, ":")+1:] + `), 5)
    print("open")
except OSError as e:
    print("closed", e.errno)`
			h, b, d := l.batch(stub.Script{Linger: long}, nil)
			pod := l.pod(b, d)
			run := func(command ...string) string {
				return strings.TrimSpace(l.kubectl("", append([]string{"-n", "lab", "exec", pod, "-c", trainerName, "--"}, command...)...))
			}
			if got := run("python3", "-c", try); got != "open" {
				l.Errorf("without the guard: %s", got)
			}
			if got := run("python3", "-I", "-c", cutOff, "python3", "-c", try); got != "closed 97" {
				l.Errorf("behind the guard: %s", got)
			}
			if err := h.Stop(l.Context()); err != nil {
				l.Error(err)
			}
			l.ends(h)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newRealStoreLab(t)
			c.run(l)
		})
	}
}
