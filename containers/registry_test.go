package containers_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
)

// An image goes to a registry and comes back, with the login of the docker
// command, from its file and from a credential helper.
func TestEngineRegistry(t *testing.T) {
	l := newLab(t)
	r := containertest.StartRegistry(t)
	r.User, r.Password = "ann", "pa:ss"
	host := r.Host
	ref := host + "/bench/trainer:" + l.instance
	if err := l.e.Tag(t.Context(), l.image, ref); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.e.RemoveImage(ctx, ref); err != nil {
			t.Error(err)
		}
	})
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	if err := l.e.Push(t.Context(), ref, nil); !containers.IsKind(err, containers.Registry) || strings.Contains(err.Error(), "pa:ss") {
		t.Errorf("Push without a login: %v", err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(config, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	login := base64.StdEncoding.EncodeToString([]byte("ann:pa:ss"))
	write("config.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, login), 0o600)
	var progress bytes.Buffer
	if err := l.e.Push(t.Context(), ref, &progress); err != nil || !strings.Contains(progress.String(), "Pushed") {
		t.Fatalf("Push: %v\n%s", err, progress.String())
	}
	before, err := l.e.Image(t.Context(), ref)
	if err != nil || len(before.Digests) != 1 {
		t.Errorf("pushed image: %+v, %v", before, err)
	}
	if err := l.e.RemoveImage(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	// Now the login comes from a helper.
	write("config.json", `{"credsStore":"benchtest"}`, 0o600)
	write("docker-credential-benchtest", "#!/bin/sh\nread r\n[ \"$r\" = "+host+" ] && echo '{\"Username\":\"ann\",\"Secret\":\"pa:ss\"}' || { echo credentials not found in native keychain; exit 1; }\n", 0o755)
	t.Setenv("PATH", config+":"+os.Getenv("PATH"))
	after, err := l.e.Ensure(t.Context(), ref, nil)
	if err != nil || after.ID != before.ID {
		t.Errorf("pulled image: %+v, %v", after, err)
	}
	denies(t, l.e, host+"/bench/trainer:none", "manifest unknown", "look at the name and the tag")
	write("config.json", `{"auths": pa:ss`, 0o600)
	if err := l.e.Pull(t.Context(), ref, nil); err == nil || strings.Contains(err.Error(), "pa:ss") || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a config that is no JSON: %v", err)
	}
}

// denies pulls an image that cannot be had.
func denies(t *testing.T, e *containers.Engine, ref, words, hint string) {
	t.Helper()
	began := time.Now()
	err := e.Pull(t.Context(), ref, nil)
	own, ok := errors.AsType[*containers.Error](err)
	if !ok || own.Kind != containers.Registry || !strings.Contains(err.Error(), words) || !strings.Contains(own.Hint, hint) {
		t.Errorf("%s: %v (%+v); want %q and %q", ref, err, own, words, hint)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%s: took %v", ref, took)
	}
}

// An engine that has nothing pulls an image over a connection that is cut in the
// middle, and goes on from there. Whatever keeps it from pulling is told apart.
func TestPull(t *testing.T) {
	l := newLab(t)
	x := containertest.StartExtra(t, false, false)
	far := x.Open()
	r := containertest.StartRegistry(t)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	ref := r.Host + "/bench/trainer:" + l.instance
	if err := l.e.Tag(t.Context(), l.image, ref); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.e.RemoveImage(context.Background(), ref); err != nil {
			t.Error(err)
		}
	})
	if err := l.e.Push(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	want, err := l.e.Image(t.Context(), l.image)
	if err != nil {
		t.Fatal(err)
	}
	r.CutAfter(300_000)
	got, err := far.Ensure(t.Context(), ref, nil)
	if err != nil || got.ID != want.ID {
		t.Errorf("%+v, %v; want image %s", got, err, want.ID)
	}
	if cuts, resumed := r.Cuts(); cuts != 1 || resumed != 1 {
		t.Errorf("%d connections were cut, and %d downloads went on where they were; want one", cuts, resumed)
	}

	denies(t, far, ref+"x", "manifest unknown", "look at the name and the tag")
	r.User = "ann"
	denies(t, far, r.Host+"/bench/other:1", "no basic auth credentials", "docker login "+r.Host)
	denies(t, far, fmt.Sprintf("127.0.0.1:%d/bench/other:1", containertest.FreePort(t)), "connection refused", "can be reached from the engine's machine")
	denies(t, far, "registry.invalid/bench/other:1", "no such host", "can be reached from the engine's machine")
}
