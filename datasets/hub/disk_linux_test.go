package hub_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"bench/datasets/hub"
	"bench/datasets/hub/hubtest"
)

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("bench-test", dir, "tmpfs", 0, "size=600k"); err != nil {
		t.Skip("no file system of limited size can be mounted:", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	s := newServer(t)
	s.Add("org/model", hubtest.Model())
	c := newClient(t, s)
	c.Cache = filepath.Join(dir, "hub")
	if _, err := c.Get(t.Context(), "org/model", "main", hub.Options{}); !errors.Is(err, &hub.Error{Kind: hub.NoSpace}) {
		t.Errorf("announced size: %v", err)
	}
	if rs := transfers(s.Requests(), ""); len(rs) != 0 {
		t.Errorf("it began to transfer what has no room: %+v", rs)
	}
	s.NamesOnly() // so that the room cannot be looked at before
	if _, err := c.Get(t.Context(), "org/model", "main", hub.Options{}); !errors.Is(err, &hub.Error{Kind: hub.NoSpace}) {
		t.Errorf("size not announced: %v", err)
	}
}
