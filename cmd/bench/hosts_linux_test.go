package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
	"bench/runner/docker"
)

// twoHosts starts two Docker engines with the stand-in for a trainer on both.
func twoHosts(t *testing.T) (engines [2]*containers.Engine, hosts [2]string, image string) {
	t.Helper()
	for i := range engines {
		x := containertest.StartExtra(t, false, false)
		engines[i], hosts[i] = x.Open(), x.Host
		image = containertest.Image(t, engines[i], "../../runner/runnertest/standin/trainer", "trainer")
	}
	return engines, hosts, image
}

// Two hosts share a run's batches; what comes out is what one host makes of
// them. A third that does not answer costs a note.
func TestTwoHosts(t *testing.T) {
	engines, hosts, image := twoHosts(t)
	p := newCLI(t)
	args := []string{"run", "fresh:tiny", "--suite", "sample", "--seeds", "6", "--set", "max_steps=100", "--executor", "docker", "--image", image, "--slots", "2"}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var most [2]int
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for ctx.Err() == nil {
			for i, e := range engines {
				if found, err := e.Find(ctx, map[string]string{containers.LabelBatch: ""}); err == nil {
					most[i] = max(most[i], len(found))
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	r := p.run(0, append(args, "--host", strings.Join(append(hosts[:], "unix:///nowhere/docker.sock"), ","))...)
	cancel()
	<-watched
	has(t, r.stdout, "fresh:tiny  sentiment      sample-sentiment")
	has(t, r.stderr, "[24/24]", "host unix:///nowhere/docker.sock: ", "left alone")
	if most[0] < 1 || most[1] < 1 || most[0] > 2 || most[1] > 2 {
		t.Errorf("the hosts had up to %d containers at a time, want one or two on each", most)
	}
	for i, e := range engines {
		if left, err := e.Find(t.Context(), map[string]string{containers.LabelBatch: ""}); err != nil || len(left) != 0 {
			t.Errorf("%d containers are left on host %d, %v", len(left), i, err)
		}
	}

	alone := newCLI(t)
	alone.run(0, append(args, "--host", hosts[1])...)
	got, want := p.predictions(), alone.predictions()
	if len(got) != 24 || len(want) != 24 {
		t.Fatalf("%d and %d predictions, want 24", len(got), len(want))
	}
	for id := range want {
		if got[id] != want[id] {
			t.Errorf("job %s: two hosts and one differ", id.Short())
		}
	}

	// The same again on one of them finds everything done; a batch that was left
	// on a host that is not named is not lost sight of (see package pool).
	has(t, p.run(0, append(args, "--host", hosts[0])...).stderr, "nothing to do")
	has(t, newCLI(t).run(4, append(args, "--host", "unix:///nowhere/1.sock,unix:///nowhere/2.sock")...).stderr, "hint: ")
}

// Hosts that do not see this machine's folders, one of them behind ssh: the
// image, the rows and the results go through their engines, and what comes out
// is, byte for byte, what shown folders give. Hosts may be named in a file.
func TestCopiedHosts(t *testing.T) {
	containertest.StartSSH(t)
	var engines [2]*containers.Engine
	var hosts [2]string
	for i := range engines {
		x := containertest.StartExtra(t, false, false)
		engines[i], hosts[i] = x.Open(), x.Host
	}
	const local = "unix:///var/run/docker.sock"
	image := containertest.Image(t, containertest.Open(t), "../../runner/runnertest/standin/trainer", "trainer")
	p := newCLI(t)
	p.env = []string{"DOCKER_HOST=" + local}
	file := filepath.Join(t.TempDir(), "sweep.yaml")
	text := "models: [fresh:tiny]\nsuite: sample\nseeds: 2\nset: [max_steps=100]\nexecutor: docker\nimage: " + image + "\nhosts:\n" +
		"  - {name: one, address: " + hosts[0] + ", transfer: copy, slots: 1}\n" +
		"  - {name: two, address: ssh://engine" + strings.TrimPrefix(hosts[1], "unix://") + ", slots: 1}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.run(0, "sweep", file)
	has(t, r.stderr, "[8/8]", "sending image bench-test-trainer:latest", "to one; this happens once", "to two; this happens once")
	for i, e := range engines {
		own := map[string]string{containers.LabelInstance: ""}
		if left, err := e.Find(t.Context(), own); err != nil || len(left) != 0 {
			t.Errorf("%d containers are left on host %d, %v", len(left), i, err)
		}
		left, err := e.Volumes(t.Context(), own)
		if err != nil || len(left) != 1 || left[0].Labels[containers.LabelContent] != "data" {
			t.Errorf("volumes %v are on host %d, %v; want that of the rows", left, i, err)
		}
	}
	alone := newCLI(t)
	alone.run(0, "run", "fresh:tiny", "--suite", "sample", "--seeds", "2", "--set", "max_steps=100", "--executor", "docker", "--image", image, "--host", local)
	got, want := p.predictions(), alone.predictions()
	if len(got) != 8 || len(want) != 8 {
		t.Fatalf("%d and %d predictions, want 8", len(got), len(want))
	}
	for id := range want {
		if got[id] != want[id] {
			t.Errorf("job %s: copied and shown differ", id.Short())
		}
	}

	at := "one=" + hosts[0] + "?transfer=copy,two=ssh://engine" + strings.TrimPrefix(hosts[1], "unix://")
	r = p.run(0, "gc", "--host", at)
	if n := strings.Count(r.stdout, "removed volume bench-data-"); n != 2 {
		t.Errorf("gc removed %d volumes of rows: %s", n, r.stdout)
	}
	has(t, p.try("doctor", "--host", at).stdout, "at two; files are sent through the engine")
}

// A sweep's file is looked at while it runs: a host that is added gets batches,
// one that is taken out no more of them, and a file that is wrong changes
// nothing. What comes out is what one host makes of it.
func TestHostsChangeMeanwhile(t *testing.T) {
	engines, hosts, image := twoHosts(t)
	p := newCLI(t)
	file := filepath.Join(t.TempDir(), "sweep.yaml")
	write := func(entries ...string) {
		t.Helper()
		put(t, file, "models: [fresh:tiny]\nsuite: sample\nseeds: 8\nset: [max_steps=500]\nexecutor: docker\nimage: "+image+"\nhosts: ["+strings.Join(entries, ", ")+"]\n")
	}
	one, two := "{name: one, slots: 1, address: '"+hosts[0]+"'}", "{name: two, slots: 2, address: '"+hosts[1]+"'}"
	write(one)
	c := p.command("sweep", file)
	log, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.Stderr = log
	said := func() string {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	running := func(i int) int {
		found, err := engines[i].Find(t.Context(), map[string]string{containers.LabelBatch: ""})
		if err != nil {
			t.Error(err)
		}
		return len(found)
	}
	eventually(t, "the first host works", func() bool { return running(0) == 1 })
	var waits string
	for _, e := range jsonLines(t, p.run(0, "status", "--json").stdout) {
		if left, ok := e["left"].([]any); ok {
			waits = left[len(left)-1].(string)
		}
	}
	has(t, p.run(0, "logs", waits).stderr, "waits in batch ")
	put(t, file, "hosts: [moon]\n")
	eventually(t, "the wrong file is told", func() bool { return strings.Contains(said(), "cannot be used as it is now, so the hosts stay") })
	write(one, two)
	eventually(t, "the second host is used", func() bool { return running(1) == 2 })
	write(two)
	eventually(t, "the first host is let go", func() bool {
		return strings.Contains(said(), "host one is to be used no more; what runs there is finished") && running(0) == 0
	})
	used := false
	for done := false; !done; {
		select {
		case err := <-ended:
			if done = true; err != nil {
				t.Fatalf("%v\n%s", err, said())
			}
		case <-time.After(20 * time.Millisecond):
			used = used || running(0) > 0
		}
	}
	if used {
		t.Error("the first host was given a batch after it had been taken out")
	}
	has(t, said(), "host two is new", "[32/32]")
	alone := newCLI(t)
	alone.run(0, "run", "fresh:tiny", "--suite", "sample", "--seeds", "8", "--set", "max_steps=500", "--executor", "docker", "--image", image, "--slots", "4", "--host", hosts[1])
	got, want := p.predictions(), alone.predictions()
	if len(got) != 32 || len(want) != 32 {
		t.Fatalf("%d and %d predictions, want 32", len(got), len(want))
	}
	for id := range want {
		if got[id] != want[id] {
			t.Errorf("job %s: changing hosts and one differ", id.Short())
		}
	}
	p.noBatches()
}

// Hosts that take connections and never answer are told apart from slow ones
// in less than ten seconds, however many there are.
func TestSilentHosts(t *testing.T) {
	var hosts []string
	for range 2 {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { silent.Close() })
		hosts = append(hosts, "tcp://"+silent.Addr().String()+"?tls=no")
	}
	p := newCLI(t)
	list := strings.Join(hosts, ",")
	for _, args := range [][]string{
		{"run", "fresh:tiny", "--suite", "sample", "--executor", "docker", "--host", list},
		{"run", "fresh:tiny", "--suite", "sample", "--image", "bench-test-trainer:latest", "--host", list},
		{"doctor", "--python", "/nowhere/python", "--host", list},
	} {
		began := time.Now()
		r := p.run(4, args...)
		has(t, r.stdout+r.stderr, "it does not answer in time", "an engine listens on its port")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("bench %s took %v", strings.Join(args, " "), took)
		}
	}
}

// An image whose program is no trainer, or that has none which can be started with
// a trainer's flags: told once and at once, whatever the number of jobs.
func TestImageWithoutTrainer(t *testing.T) {
	e := containertest.Open(t)
	for _, c := range []struct{ name, image, said string }{
		{"another program", containertest.Image(t, e, "../../containers/containertest/prog", "prog"), "it said nothing"},
		{"no program", containertest.Base(t, e), "the last it said:"}, // the engine's init process says so
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newCLI(t)
			p.env = []string{"DOCKER_HOST=unix:///var/run/docker.sock"}
			r := p.run(4, "run", "fresh:tiny", "--suite", "sample", "--seeds", "10", "--executor", "docker", "--image", c.image, "--device", "cpu")
			has(t, r.stderr, "holds no trainer", c.said, "hint: name an image whose entrypoint is a trainer")
			if n := strings.Count(r.stderr, "holds no trainer"); n != 1 || r.wall > 10*time.Second {
				t.Errorf("told %d times in %v:\n%s", n, r.wall, r.stderr)
			}
			p.noBatches()
			left, err := e.Find(t.Context(), map[string]string{containers.LabelInstance: docker.Instance(p.home)})
			if err != nil || len(left) != 0 {
				t.Errorf("%d containers are left, %v", len(left), err)
			}
		})
	}
}
