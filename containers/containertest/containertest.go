// Package containertest gives tests a Docker engine and images that hold one
// static Go program and nothing else. Tests that need an engine are skipped
// where none answers, and fail there when BENCH_TEST_REQUIRE names docker.
package containertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"bench/containers"
)

// Need skips the test with a reason, or fails it if what is missing is required.
func Need(t testing.TB, part, reason string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), part) {
		t.Fatalf("%s is required here (BENCH_TEST_REQUIRE): %s", part, reason)
	}
	t.Skipf("needs %s: %s", part, reason)
}

// Open returns the engine of the default socket.
func Open(t testing.TB) *containers.Engine {
	t.Helper()
	return open(t, containers.Host{})
}

// OpenCopying returns the engine of the default socket as one that does not see
// the folders of this machine.
func OpenCopying(t testing.TB) *containers.Engine {
	t.Helper()
	return open(t, containers.Host{Transfer: containers.TransferCopy})
}

func open(t testing.TB, h containers.Host) *containers.Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := containers.OpenHost(ctx, h)
	if err != nil {
		Need(t, "docker", err.Error())
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Base returns an image with a shell and the usual programs: $BENCH_TEST_BASE.
func Base(t testing.TB, e *containers.Engine) string {
	t.Helper()
	base := os.Getenv("BENCH_TEST_BASE")
	if base == "" {
		Need(t, "docker", "BENCH_TEST_BASE does not name a base image")
	}
	if _, err := e.Image(t.Context(), base); err != nil {
		Need(t, "docker", err.Error())
	}
	return base
}

// Instance returns a value for containers.LabelInstance that no other test
// has, and removes all containers with it at the end.
func Instance(t testing.TB, e *containers.Engine) string {
	t.Helper()
	id := "test-" + strings.ToLower(rand.Text()[:10])
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		own := map[string]string{containers.LabelInstance: id}
		if _, err := e.RemoveLeftovers(ctx, own, true); err != nil {
			t.Errorf("containers of the test are left: %v", err)
		}
		if _, err := e.RemoveVolumes(ctx, own); err != nil {
			t.Errorf("volumes of the test are left: %v", err)
		}
	})
	return id
}

// Image builds the main package in dir without cgo, and gives e an image in
// which it is /bin/NAME for each of names; the first is the entrypoint.
// The image is kept for the next test run, under a tag that is returned.
func Image(t testing.TB, e *containers.Engine, dir string, names ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", dir, err, out)
	}
	program, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	return Load(t, e, "bench-test-"+names[0]+":latest", program, names...)
}

// Load gives e an image of a program that is built already.
func Load(t testing.TB, e *containers.Engine, tag string, program []byte, names ...string) string {
	t.Helper()
	archive, id := imageTar(t, tag, program, names)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	old, err := e.Image(ctx, tag)
	if err == nil && old.ID == id {
		return tag
	}
	if _, err := e.Load(ctx, bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	if old.ID != "" {
		e.RemoveImage(ctx, old.ID) // in use by a test of an older tree: it stays
	}
	return tag
}

// imageTar makes what docker save would write, and the image's id.
func imageTar(t testing.TB, tag string, program []byte, names []string) ([]byte, string) {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	add := func(w *tar.Writer, h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"bin/", "etc/", "usr/"} {
		add(w, tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o755}, nil)
	}
	// A set-user-ID program of root, to be tried.
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + names[0], Mode: 0o4755}, program)
	for _, n := range names[1:] {
		add(w, tar.Header{Typeflag: tar.TypeLink, Name: "bin/" + n, Linkname: "bin/" + names[0], Mode: 0o4755}, nil)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(layer.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/bin/" + names[0]}, "Env": []string{"PATH=/bin"}, "Volumes": map[string]any{"/volume": struct{}{}}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{tag}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	w = tar.NewWriter(&all)
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: "layer.tar", Mode: 0o644}, layer.Bytes())
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: "config.json", Mode: 0o644}, config)
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: "manifest.json", Mode: 0o644}, manifest)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return all.Bytes(), fmt.Sprintf("sha256:%x", sha256.Sum256(config))
}
