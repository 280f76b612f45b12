package containers_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bench/containers"
	"bench/containers/containertest"
)

// Builds the real image: minutes, gigabytes and a package index. Run by name:
//
//	BENCH_TEST_IMAGE_BASE=bench-base:trixie go test -run TrainerImageBuild ./containers
func TestTrainerImageBuild(t *testing.T) {
	base := os.Getenv("BENCH_TEST_IMAGE_BASE")
	if base == "" {
		t.Skip("heavy: set BENCH_TEST_IMAGE_BASE to a base image to build the trainer's image on")
	}
	e := containertest.Open(t)
	var log bytes.Buffer
	i, err := e.BuildTrainer(t.Context(), containers.TrainerOptions{Base: base, CABundle: os.Getenv("BENCH_TEST_CA_BUNDLE"), Progress: &log})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Logf("%s: %s, %d MB", containers.TrainerImage(), i.ID, i.Bytes>>20)
}

func TestTrainerImageErrors(t *testing.T) {
	e := containertest.Open(t)
	bad := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bad, []byte("not a certificate"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, ca := range []string{bad, bad + "-missing"} {
		if _, err := e.BuildTrainer(t.Context(), containers.TrainerOptions{CABundle: ca}); err == nil || !strings.Contains(err.Error(), ca) {
			t.Errorf("CA bundle %s: %v", ca, err)
		}
	}
	if !strings.HasPrefix(containers.TrainerImage(), "bench-trainer:") || len(containers.TrainerImage()) != len("bench-trainer:")+12 {
		t.Errorf("image is called %s", containers.TrainerImage())
	}
}
