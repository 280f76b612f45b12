package main

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// disk is a disk with a cache that is lost with the power: what was written since
// the last flush is kept or lost sector by sector, by chance. Virtual machines
// reach it by the NBD protocol
// (github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md).
type disk struct {
	mu      sync.Mutex
	file    *os.File // what is safe
	size    int64
	pending map[int64][]byte // by sector
	chance  *rand.Rand
	conn    net.Conn
	listen  net.Listener
	lost    int // sectors, in all cuts
}

// sectorSize is that of the disks made today, which write one whole or not at all.
const sectorSize = 4096

func newDisk(t *testing.T, megabytes int64, seed uint64) *disk {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{file: f, size: megabytes << 20, pending: map[int64][]byte{}, chance: rand.New(rand.NewPCG(seed, 0))}
	if err := f.Truncate(d.size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return d
}

// cut ends the machine's connection and loses what it did not flush.
func (d *disk) cut() {
	d.listen.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		d.conn.Close()
	}
	keep := d.chance.Float64() // of some cuts nearly all is kept, of others nearly nothing
	for at, b := range d.pending {
		if d.chance.Float64() < keep {
			d.file.WriteAt(b, at*sectorSize)
		} else {
			d.lost++
		}
	}
	clear(d.pending)
}

func (d *disk) flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for at, b := range d.pending {
		_, err := d.file.WriteAt(b, at*sectorSize)
		errs = append(errs, err)
	}
	clear(d.pending)
	return errors.Join(errs...)
}

func (d *disk) write(b []byte, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; i < len(b); i += sectorSize {
		d.pending[(at+int64(i))/sectorSize] = b[i : i+sectorSize : i+sectorSize]
	}
}

func (d *disk) writeThrough(b []byte, at int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range len(b) / sectorSize {
		delete(d.pending, at/sectorSize+int64(i))
	}
	_, err := d.file.WriteAt(b, at)
	return err
}

func (d *disk) read(b []byte, at int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.file.ReadAt(b, at); err != nil {
		return err
	}
	for i := 0; i < len(b); i += sectorSize {
		if p, ok := d.pending[(at+int64(i))/sectorSize]; ok {
			copy(b[i:], p)
		}
	}
	return nil
}

// serve waits for a machine at a port, which it returns.
func (d *disk) serve(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", labAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	d.listen = l
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.mu.Lock()
			d.conn = c
			d.mu.Unlock()
			go func() {
				defer c.Close()
				if d.greet(c) == nil {
					d.obey(c)
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

const (
	nbdOption      = 0x49484156454F5054
	nbdOptionReply = 0x3e889045565a9
	nbdRequest     = 0x25609513
	nbdReply       = 0x67446698
	nbdFlags       = 1 | 1<<2 | 1<<3 // has flags, flush, FUA
)

func (d *disk) greet(c io.ReadWriter) error {
	put := func(v ...any) error {
		var errs []error
		for _, x := range v {
			errs = append(errs, binary.Write(c, binary.BigEndian, x))
		}
		return errors.Join(errs...)
	}
	if err := put([]byte("NBDMAGIC"), uint64(nbdOption), uint16(3)); err != nil {
		return err
	}
	var flags uint32
	if err := binary.Read(c, binary.BigEndian, &flags); err != nil {
		return err
	}
	for {
		var o struct {
			Magic       uint64
			Option, Len uint32
		}
		if err := binary.Read(c, binary.BigEndian, &o); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, c, int64(o.Len)); err != nil {
			return err
		}
		if o.Option != 7 { // NBD_OPT_GO is all that is known: NBD_REP_ERR_UNSUP
			if err := put(uint64(nbdOptionReply), o.Option, uint32(1<<31+1), uint32(0)); err != nil {
				return err
			}
			continue
		}
		// NBD_REP_INFO with NBD_INFO_EXPORT, then NBD_REP_ACK.
		return put(uint64(nbdOptionReply), o.Option, uint32(3), uint32(12), uint16(0), d.size, uint16(nbdFlags),
			uint64(nbdOptionReply), o.Option, uint32(1), uint32(0))
	}
}

func (d *disk) obey(c io.ReadWriter) error {
	for {
		var r struct {
			Magic       uint32
			Flags, Type uint16
			Handle      uint64
			Offset      int64
			Len         uint32
		}
		if err := binary.Read(c, binary.BigEndian, &r); err != nil {
			return err
		}
		var data []byte
		var err error
		switch r.Type {
		case 0:
			data = make([]byte, r.Len)
			err = d.read(data, r.Offset)
		case 1:
			b := make([]byte, r.Len)
			if _, err := io.ReadFull(c, b); err != nil {
				return err
			}
			d.write(b, r.Offset)
			if r.Flags&1 != 0 { // FUA: this write is safe when it is answered, and nothing else is
				err = d.writeThrough(b, r.Offset)
			}
		case 3:
			err = d.flush()
		default: // the client leaves
			return nil
		}
		var code uint32
		if err != nil {
			code = 5
		}
		reply := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, nbdReply), code), r.Handle)
		if _, err := c.Write(append(reply, data...)); err != nil {
			return err
		}
	}
}
