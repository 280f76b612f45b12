package runner

import (
	"path/filepath"
	"syscall"
	"testing"

	"bench/runner/job"
)

// What of an ended batch cannot be removed yet, as a file on NFS that is still open,
// is nobody's: the same jobs can be claimed, and a later scan removes it.
func TestRemainsThatStay(t *testing.T) {
	dir := t.TempDir()
	b, specs := aBatch("a")
	c, err := homeAt(dir).create(b, specs, "process", 1, 0, nothing)
	if err != nil {
		t.Fatal(err)
	}
	// A mounted file system is as little removable as a file that NFS keeps.
	if err := syscall.Mount("bench-test", c.dir.Out(), "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	remaining := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "batches", remains+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	defer func() {
		for _, d := range remaining() {
			syscall.Unmount(job.Dir(d).Out(), 0)
		}
	}()
	if err := c.drop(); err != nil {
		t.Fatalf("the end of a batch failed: %v", err)
	}
	h := homeAt(dir)
	again, err := h.create(b, specs, "process", 1, 0, nothing)
	if err != nil {
		t.Fatalf("the same jobs again: %v", err)
	}
	if mine, _, err := h.scan(); err != nil || len(mine) != 0 || len(remaining()) != 1 {
		t.Fatalf("scan: %v, %v, left: %q", mine, err, remaining())
	}
	if err := syscall.Unmount(job.Dir(remaining()[0]).Out(), 0); err != nil {
		t.Fatal(err)
	}
	if err := again.drop(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.scan(); err != nil || len(remaining()) != 0 {
		t.Errorf("scan: %v, left: %q", err, remaining())
	}
}
