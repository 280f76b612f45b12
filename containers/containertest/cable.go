package containertest

import (
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"bench/containers"
)

// Cable is a way to the engine of the default socket that can be cut. What
// goes over it gets to know nothing of this machine's folders.
type Cable struct {
	t          testing.TB
	listener   net.Listener
	up, down   atomic.Int64 // bytes until the next cut; 0: none
	sent, cuts atomic.Int64
}

// LayCable lays a cable.
func LayCable(t testing.TB) *Cable {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	c := &Cable{t: t, listener: listener}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go c.carry(near)
		}
	}()
	return c
}

func (c *Cable) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("unix", "/var/run/docker.sock")
	if err != nil {
		return
	}
	defer far.Close()
	go func() {
		defer near.Close()
		c.copy(near, far, &c.down, new(atomic.Int64))
	}()
	c.copy(far, near, &c.up, &c.sent)
}

// copy copies until the connection ends, or is to be cut.
func (c *Cable) copy(to io.Writer, from io.Reader, left, count *atomic.Int64) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		count.Add(int64(n))
		if before := left.Load(); before > 0 {
			if before <= int64(n) {
				left.Store(0)
				c.cuts.Add(1)
				return
			}
			left.Add(-int64(n))
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// CutSending ends the connection over which the n-th byte from now on goes to
// the engine, before it arrives.
func (c *Cable) CutSending(n int64) { c.up.Store(n) }

// CutReceiving ends the connection over which the n-th byte from now on comes
// from the engine.
func (c *Cable) CutReceiving(n int64) { c.down.Store(n) }

// Sent is how many bytes went to the engine.
func (c *Cable) Sent() int64 { return c.sent.Load() }

// Cuts is how many connections were cut.
func (c *Cable) Cuts() int64 { return c.cuts.Load() }

// Open opens the engine over the cable.
func (c *Cable) Open() *containers.Engine {
	c.t.Helper()
	e, err := containers.Open(c.t.Context(), "unix://"+c.listener.Addr().String()+"?transfer=copy")
	if err != nil {
		Need(c.t, "docker", err.Error())
	}
	c.t.Cleanup(func() { e.Close() })
	return e
}
