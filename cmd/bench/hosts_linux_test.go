package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
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
