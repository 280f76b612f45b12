package docker

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bench/containers"
	"bench/containers/containertest"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// clean checks that nothing is left on the engine but models and data sets.
func (l *lab) clean() {
	l.Helper()
	own := map[string]string{containers.LabelInstance: l.o.Instance}
	if found, err := l.e.Find(context.Background(), own); err != nil || len(found) != 0 {
		l.Errorf("%d containers are left, %v", len(found), err)
	}
	found, err := l.e.Volumes(context.Background(), own)
	if err != nil {
		l.Error(err)
	}
	for _, v := range found {
		if v.Labels[containers.LabelContent] == "" || !strings.HasPrefix(v.Name, "bench-") {
			l.Errorf("volume %s is left", v.Name)
		}
	}
}

// What a batch costs that does nothing: from Start to the end of Wait. The
// ways of files take turns, so that a busy machine is busy for both.
func BenchmarkBatch(b *testing.B) {
	ways := map[string]*containers.Engine{"bind": containertest.Open(b), "copy": containertest.OpenCopying(b)}
	image := containertest.Image(b, ways["bind"], "testtrainer", "testtrainer")
	took := map[string]time.Duration{}
	for b.Loop() {
		for way, e := range ways {
			ex := New(e, Options{Image: image, Instance: containertest.Instance(b, e), Limits: runner.Limits{CPUs: 1, MemoryBytes: 256 << 20}})
			d := job.Dir(filepath.Join(b.TempDir(), "batch"))
			batch := runnertest.WriteBatch(b, d, 1, stub.Script{})
			if err := os.MkdirAll(d.Out(), 0o777); err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			h, err := ex.Start(b.Context(), batch, d)
			if err != nil {
				b.Fatal(err)
			}
			if x, err := h.Wait(b.Context()); err != nil || x.Code != 0 {
				b.Fatalf("%+v, %v", x, err)
			}
			took[way] += time.Since(began)
		}
	}
	for way := range ways {
		b.ReportMetric(float64(took[way].Milliseconds())/float64(b.N), "ms/"+way)
	}
}
