package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/runner/job"
)

// nfsLab is a machine that serves a folder by NFS, and two that have it mounted.
type nfsLab struct {
	*lab
	server  *machine
	clients []*machine
	version string
}

// newNFSLab makes a server with a disk of so many MB, and so many clients.
func newNFSLab(t *testing.T, version string, megabytes int64, clients int) *nfsLab {
	t.Helper()
	s := &nfsLab{lab: newLab(t), version: version}
	s.server = s.machine("server", newDisk(t, megabytes, 2))
	for _, name := range []string{"anna", "bert"}[:clients] {
		s.clients = append(s.clients, s.machine(name, nil))
	}
	s.server.on()
	s.server.do("mkfs.ext4 -q -b 4096 /dev/nbd0")
	s.serve()
	for _, c := range s.clients {
		c.on()
		s.mount(c)
	}
	return s
}

// serve begins to serve, after each start of the machine. What the server must know of its clients
// after a power cut is on the disk, as is the folder.
func (s *nfsLab) serve() {
	s.t.Helper()
	s.server.daemons(`mount /dev/nbd0 /mnt
mkdir -p /mnt/export /mnt/nfs
cp -an /var/lib/nfs/. /mnt/nfs/
mount --bind /mnt/nfs /var/lib/nfs
mkdir -p /var/lib/nfs/rpc_pipefs && mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
rpcbind
rpc.statd
nfsdcld
echo '/mnt/export 10.9.0.0/24(rw,sync,no_root_squash,no_subtree_check,fsid=0)' >/etc/exports
exportfs -ra
rpc.nfsd --grace-time 10 --lease-time 10 8
rpc.mountd
rpc.statd --notify || sm-notify -f || true`)
}

func (s *nfsLab) mount(c *machine) {
	s.t.Helper()
	path := "/" // the folder is all that version 4 knows of the server
	if s.version == "3" {
		path = "/mnt/export"
	}
	c.daemons(fmt.Sprintf("rpcbind\nrpc.statd\nmount -t nfs -o vers=%s,hard %s:%s /mnt", s.version, s.server.address, path))
}

var nfsVersions = []string{"4.2", "3"}

// Our own tests of what files and locks must do, in a folder on NFS.
func TestMachinesNFSOwnTests(t *testing.T) {
	for _, version := range nfsVersions {
		t.Run(version, func(t *testing.T) {
			s := newNFSLab(t, version, 1024, 2)
			a := s.clients[0]
			a.do("mkdir /mnt/tmp && ln -s bench /usr/bin/unused")
			for _, p := range []string{
				"atomicfile.test -test.v", "results.test -test.v -test.run 'Torn|Append|Log|Concurrent'", "process.test -test.v -test.run 'TestContract|Killed'", "runner.test -test.v -test.run 'Claim|Store|Two'",
				"bench.test -test.v -test.run 'TestKilledRunSurvives|TestTrainersSurviveBench|TestNextRunAttaches|TestTwoAtOnce|TestInterrupt'",
			} {
				begun := time.Now()
				out, err := a.try("cd /tmp; export TMPDIR=/mnt/tmp BENCH_TEST_KILLS=8; " + p)
				t.Logf("%s: %v\n%s", p, time.Since(begun), out)
				if err != nil {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// together runs a command on both clients at once, each killing its bench after
// random times until it has been killed so often, until both have ended well.
func (s *nfsLab) together(kills int, command string) {
	s.t.Helper()
	var both sync.WaitGroup
	for _, c := range s.clients {
		both.Go(func() {
			for i := 0; ; i++ {
				seconds := 0.0
				if i < kills {
					seconds = 4 + 12*rand.Float64()
				}
				out, err := c.try(c.bench(seconds, command))
				if err == nil {
					s.t.Logf("%s: done after %d kills", c.name, i)
					return
				}
				if i >= kills || !strings.Contains(err.Error(), "exit status 137") {
					s.t.Errorf("%v\n%s", err, out)
					return
				}
			}
		})
	}
	both.Wait()
}

// Two machines work on one HOME, and their bench is killed again and again.
func TestMachinesNFSTwo(t *testing.T) {
	whole := newCLI(t)
	python, _ := fakePython(t)
	args := []string{"run", "fresh:tiny", "baseline:majority", "--suite", "sample", "--seeds", "10", "--executor", "process", "--python"}
	whole.run(0, append(args, python)...)
	want := whole.predictions()
	for _, version := range nfsVersions {
		t.Run(version, func(t *testing.T) {
			s := newNFSLab(t, version, 1024, 2)
			for _, c := range s.clients {
				c.python("STANDIN_PAUSE=500ms")
			}
			s.together(4, strings.Join(args, " ")+" /usr/bin/python-standin")
			p := newCLI(t)
			s.server.fetch("/mnt/export/home", p.home)
			ledger := &ledger{p: p}
			ledger.complete(80, 8, want)
			begun := map[job.ID]int{}
			for _, c := range s.clients {
				for id, n := range c.begun() {
					begun[id] += n
				}
			}
			for id, n := range begun {
				if n != 1 {
					t.Errorf("job %s was begun %d times", id.Short(), n)
				}
			}
			t.Logf("%d jobs were begun; hidden files left: %s", len(begun), s.server.do("find /mnt/export -name '.nfs*' -o -name '.ended-*'"))
		})
	}
}

// The server of HOME loses its power in the middle of a run, and comes back: clients wait, and
// what a client was told to be on the disk is.
func TestMachinesNFSServer(t *testing.T) {
	whole := newCLI(t)
	python, _ := fakePython(t)
	args := []string{"run", "fresh:tiny", "--suite", "sample", "--seeds", "10", "--slots", "2", "--executor", "process", "--python"}
	whole.run(0, append(args, python)...)
	want := whole.predictions()
	for _, version := range nfsVersions {
		t.Run(version, func(t *testing.T) {
			s := newNFSLab(t, version, 1024, 1)
			c := s.clients[0]
			c.python("STANDIN_PAUSE=700ms")
			over := make(chan error, 1)
			go func() { _, err := c.try(c.bench(0, strings.Join(args, " ")+" /usr/bin/python-standin")); over <- err }()
			cuts := 0
			for ended := false; !ended; {
				select {
				case err := <-over:
					if err != nil {
						t.Error(err)
					}
					ended = true
				case <-time.After(5*time.Second + rand.N(10*time.Second)):
					if cuts < 3 {
						s.server.cut()
						s.server.on()
						s.serve()
						cuts++
					}
				}
			}
			p := newCLI(t)
			s.server.fetch("/mnt/export/home", p.home)
			(&ledger{p: p}).complete(40, 4, want)
			for id, n := range c.begun() {
				if n != 1 {
					t.Errorf("job %s was begun %d times", id.Short(), n)
				}
			}
			t.Logf("%d cuts of the server's power, %d sectors lost", cuts, s.server.disk.lost)
		})
	}
}
