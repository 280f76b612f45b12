package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/runner/job"
)

// machine is a virtual machine (.ci/vm.sh). What it does is told through ssh.
type machine struct {
	t       *testing.T
	name    string
	n       int    // in the lab, from 1
	address string // in the network of the lab
	lab     *lab
	disk    *disk // /dev/nbd0; nil: none
	linux   *exec.Cmd
	gone    chan struct{} // closed when it is off
	power   context.Context
	off     context.CancelFunc
}

// lab is a network of machines, in which this process has the address labAddress.
type lab struct {
	t     *testing.T
	cache string // root, programs and key
	dir   string
	n     int // machines
}

const labAddress = "10.9.0.254"

// newLab skips the test where there are no machines to be had.
func newLab(t *testing.T) *lab {
	t.Helper()
	cache := os.Getenv("BENCH_TEST_VM")
	need(t, "vm", cache != "", "run .ci/vm.sh test")
	l := &lab{t: t, cache: cache, dir: t.TempDir()}
	l.network("link set lo up")
	l.network("link add lab type bridge")
	t.Cleanup(func() { l.network("link del lab") })
	l.network("addr add " + labAddress + "/24 dev lab")
	l.network("link set lab up")
	return l
}

// network calls ip of iproute2.
func (l *lab) network(args string) {
	l.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		l.t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
}

// machine makes a machine, which is off.
func (l *lab) machine(name string, d *disk) *machine {
	l.n++
	m := &machine{t: l.t, name: name, n: l.n, address: fmt.Sprintf("10.9.0.%d", l.n), lab: l, disk: d}
	tap := fmt.Sprintf("lab%d", m.n)
	l.network("tuntap add " + tap + " mode tap")
	l.t.Cleanup(func() { l.network("link del " + tap) })
	l.network("link set " + tap + " master lab up")
	return m
}

// on starts the machine and returns when it answers, with its disk at /dev/nbd0.
func (m *machine) on() {
	m.t.Helper()
	console, err := os.Create(filepath.Join(m.lab.dir, m.name+".console"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer console.Close()
	m.linux = exec.Command("linux.uml", "mem=512M", "rootfstype=hostfs", "rootflags="+filepath.Join(m.lab.cache, "root"), "ro", "init=/sbin/init-machine",
		"uml_dir="+m.lab.dir, "umid="+m.name, "con=null", "con0=null,fd:1", "ssl=null", "quiet",
		fmt.Sprintf("vec0:transport=tap,gro=1,ifname=lab%d,mac=52:54:00:00:09:%02x", m.n, m.n),
		"machine.name="+m.name, "machine.address="+m.address, "machine.programs="+filepath.Join(m.lab.cache, "programs"))
	m.linux.Env = append(os.Environ(), "TMPDIR=/dev/shm") // for what is its memory
	m.linux.Stdout, m.linux.Stderr = console, console
	m.linux.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := m.linux.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.power, m.off = context.WithCancel(context.Background())
	linux, gone, off := m.linux, make(chan struct{}), m.off
	m.gone = gone
	go func() { linux.Wait(); off(); close(gone) }()
	m.t.Cleanup(m.kill)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := m.try("true")
		if err == nil {
			break
		}
		if m.power.Err() != nil || time.Now().After(end) {
			said, _ := os.ReadFile(console.Name())
			m.t.Fatalf("machine %s does not answer: %v\n%s", m.name, err, said)
		}
	}
	if m.disk != nil {
		m.do(fmt.Sprintf("nbd-client %s %d /dev/nbd0 -b %d -N disk -t 0", labAddress, m.disk.serve(m.t), sectorSize))
	}
}

// kill ends all processes of the machine: the one that is its kernel first, or it
// would see the others end.
func (m *machine) kill() {
	m.linux.Process.Kill()
	syscall.Kill(-m.linux.Process.Pid, syscall.SIGKILL)
	<-m.gone
}

// cut takes the power from the machine. Of what its disk was not told to flush
// each sector is there or not, as it happens.
func (m *machine) cut() {
	m.kill()
	if m.disk != nil {
		m.disk.cut()
	}
}

// command is not started yet; what it says to stdin, stdout and stderr goes through ssh.
func (m *machine) command(script string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(m.power, 10*time.Minute)
	m.t.Cleanup(cancel)
	c := exec.CommandContext(ctx, "ssh", "-i", filepath.Join(m.lab.cache, "key"), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=20", "root@"+m.address, script)
	c.WaitDelay = time.Second
	return c
}

// try runs a script of the shell on the machine.
func (m *machine) try(script string) (string, error) {
	out, err := m.command(script).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %s: %w\n%s", m.name, script, err, out)
	}
	return string(out), err
}

// do is try that must end well.
func (m *machine) do(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// bench is a script that runs bench, which is killed after a time, with exit code
// 137; 0: never.
func (m *machine) bench(seconds float64, args string) string {
	script := "export BENCH_HOME=/mnt/home HF_HUB_OFFLINE=1 DOCKER_HOST=unix:///nonexistent.sock; "
	if seconds > 0 {
		script += fmt.Sprintf("timeout -s KILL %.2f ", seconds)
	}
	return script + "bench " + args + "; exit $?"
}

// daemons is do for a script that starts what goes on after it.
func (m *machine) daemons(script string) {
	m.t.Helper()
	if _, err := m.try("exec >/tmp/daemons.log 2>&1 </dev/null; set -ex\n" + script); err != nil {
		m.t.Fatalf("%v\n%s", err, m.do("cat /tmp/daemons.log; ip a; cat /proc/modules | head -30"))
	}
}

// fetch copies a folder of the machine to a folder of this one, which is new then.
func (m *machine) fetch(from, to string) {
	m.t.Helper()
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
		m.t.Fatal(err)
	}
	var packed, errs bytes.Buffer
	c := m.command("cd " + from + " && tar c --warning=no-file-changed --ignore-failed-read . ; true")
	c.Stdout, c.Stderr = &packed, &errs
	if err := c.Run(); err != nil {
		m.t.Fatalf("%s: %s: %v\n%s", m.name, from, err, errs.String())
	}
	c = exec.Command("tar", "x", "-C", to)
	c.Stdin = &packed
	if out, err := c.CombinedOutput(); err != nil {
		m.t.Fatalf("%s of %s: %v\n%s", from, m.name, err, out)
	}
}

// python is a --python of the machine that stands in for a trainer, with settings
// of standin.Main. Its log is on the machine's own disk.
func (m *machine) python(settings ...string) string {
	m.t.Helper()
	m.do(fmt.Sprintf("cat >/usr/bin/python-standin <<'EOF'\n#!/bin/sh\nexec env STANDIN_LOG=/var/log/starts %s /usr/bin/standin-trainer \"$@\"\nEOF\nchmod 755 /usr/bin/python-standin", strings.Join(settings, " ")))
	return "/usr/bin/python-standin"
}

// begun counts how often trainers on the machine began each job since the last call.
func (m *machine) begun() map[job.ID]int {
	n := map[job.ID]int{}
	for _, id := range strings.Fields(m.do("cat /var/log/starts; rm -f /var/log/starts; true")) {
		n[job.ID(id)]++
	}
	return n
}

// said reads lines that a running command writes, each as soon as it is whole.
func said(r io.Reader, each func(line string)) {
	var rest []byte
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		rest = append(rest, buffer[:n]...)
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			each(string(rest[:i]))
			rest = rest[i+1:]
		}
		if err != nil {
			return
		}
	}
}
