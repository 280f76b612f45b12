package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
)

// A run on a host behind ssh survives that bench is killed at any moment: while
// files are on their way there, while containers run, while results come back.
func TestSentBatchesSurvive(t *testing.T) {
	containertest.StartSSH(t)
	e := containertest.Open(t)
	image := containertest.Image(t, e, "../../runner/runnertest/standin/trainer", "trainer")
	model := t.TempDir()
	header := `{"embeddings.word_embeddings.weight":{"dtype":"F32","shape":[2097152],"data_offsets":[0,8388608]}}`
	weights := string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("\x00", 8<<20)
	for name, text := range map[string]string{"config.json": `{"model_type": "bert"}`, "vocab.txt": "[UNK]\n", "model.safetensors": weights} {
		if err := os.WriteFile(filepath.Join(model, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"run", model, "--suite", "sample", "--seeds", "4", "--set", "max_steps=300", "--executor", "docker", "--image", image, "--slots", "2", "--host"}
	whole := newCLI(t)
	whole.run(0, append(args, "unix:///var/run/docker.sock")...)
	p := newCLI(t)
	l := &ledger{p: p}
	p.soak(kills(t), 1500*time.Millisecond, l.look, append(args, "ssh://engine")...)
	l.complete(16, 4, whole.predictions())
	has(t, p.run(0, "gc", "--host", "ssh://engine").stdout, "0 batches stopped", "removed volume bench-model-", "removed volume bench-data-")
	instance, err := os.ReadFile(filepath.Join(p.home, "instance"))
	if err != nil || len(instance) < 10 {
		t.Fatalf("instance %q, %v", instance, err)
	}
	again := p.run(0, "gc", "--host", "ssh://engine").stdout
	if strings.Contains(again, "removed") {
		t.Errorf("gc left something: %s", again)
	}
}

// Hosts that do not work are told with what to do about it, in time, with exit
// code 4; one among others costs a note.
func TestBadHosts(t *testing.T) {
	server := containertest.StartSSH(t)
	x, address, authority := containertest.StartTLS(t)
	image := containertest.Image(t, x.Open(), "../../runner/runnertest/standin/trainer", "trainer")
	good, bad := authority.Issue("client"), containertest.NewAuthority(t).Issue("client")
	p := newCLI(t)
	p.run(0, "data", "build", "sample-sentiment")
	args := []string{"run", "fresh:tiny", "--dataset", "sample-sentiment", "--seeds", "1", "--set", "max_steps=10", "--image", image, "--host"}
	nowhere := fmt.Sprintf("tcp://127.0.0.1:%d?tls=%s", containertest.FreePort(t), good)
	for host, want := range map[string]string{
		"ssh://nosuchhost.invalid":               "look at the name of the host",
		"ssh://engine/run/nothing.sock":          "ssh engine docker version",
		nowhere:                                  "no Docker engine answers",
		address + "?tls=" + bad:                  "ca.pem is not the authority",
		address + "?tls=" + t.TempDir():          "ca.pem: no such file",
		address + "?tls=no":                      "leave out tls=no",
		"ssh://engine/run/x.sock," + nowhere:     "ssh engine docker version",
		"unix:///nowhere.sock?transfer=copy":     "start Docker",
		"ssh://root@127.0.0.1:1/run/docker.sock": "no ssh server listens",
	} {
		r := p.run(4, append(args, host)...)
		if r.wall > 10*time.Second || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "bench: hint: ") {
			t.Errorf("%s: after %v, want %q in\n%s", host, r.wall, want, r.stderr)
		}
	}
	// A wrong image.
	r := p.run(4, append(append([]string{}, args[:len(args)-2]...), "bench-test-none:latest", "--host", address+"?tls="+good)...)
	has(t, r.stderr, "does not have this image")
	// One that its registry does not have, and one whose registry is away.
	for image, want := range map[string]string{
		containertest.StartRegistry(t).Host + "/bench/none:1":               "hint: look at the name and the tag",
		fmt.Sprintf("127.0.0.1:%d/bench/none:1", containertest.FreePort(t)): "can be reached from the engine's machine",
	} {
		r = p.run(4, append(append([]string{}, args[:len(args)-2]...), image, "--host", address+"?tls="+good)...)
		if has(t, r.stderr, "the registry did not serve the image", want); r.wall > 10*time.Second {
			t.Errorf("%s: told after %v", image, r.wall)
		}
	}

	r = p.run(0, append(args, "ssh://nosuchhost.invalid,"+address+"?tls="+good)...)
	has(t, r.stderr, "[1/1]", "host ssh://nosuchhost.invalid: ", "left alone")
	server.Kill()
	has(t, p.run(0, "gc", "--host", "ssh://engine,"+address+"?tls="+good).stderr, "no Docker engine answers at ssh://engine, so no containers were looked for there")
	if left, err := x.Open().Find(t.Context(), map[string]string{containers.LabelInstance: ""}); err != nil || len(left) != 0 {
		t.Errorf("%d containers are left, %v", len(left), err)
	}
}
