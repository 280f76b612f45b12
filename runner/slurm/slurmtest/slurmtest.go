//go:build linux

// Package slurmtest starts a real Slurm for tests: a controller and two nodes
// on this machine, with four CPUs, 8 GB and two make-believe GPUs each, under a
// folder of its own. It needs root and Slurm's programs (Debian: slurm-wlm,
// munge), takes about a second, and touches neither systemd nor /etc/slurm.
package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cluster is a running Slurm.
type Cluster struct {
	Dir     string
	Conf    string    // to be given as SLURM_CONF
	Nodes   [2]string // their names
	Cgroups bool      // limits are enforced
	daemons map[string]*exec.Cmd
}

// Need skips the test unless a Slurm can be started here; when
// BENCH_TEST_REQUIRE lists slurm it fails instead.
func Need(t testing.TB) {
	t.Helper()
	why := ""
	for _, name := range []string{"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel"} {
		if _, err := find(name); err != nil {
			why = name + " is not installed (Debian: apt install slurm-wlm munge)"
		}
	}
	if os.Getuid() != 0 {
		why = "a Slurm of one's own takes root"
	}
	switch {
	case why == "":
	case slices.Contains(strings.Split(os.Getenv("BENCH_TEST_REQUIRE"), ","), "slurm"):
		t.Fatalf("slurm is required: %s", why)
	default:
		t.Skipf("slurm: %s", why)
	}
}

// find looks also where daemons lie, which PATH may not name.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

// Up starts a cluster. The daemons end with this process at the latest.
func Up() (_ *Cluster, err error) {
	// munge wants every folder above its socket to be open to all.
	dir, err := os.MkdirTemp("/tmp", "bench-slurm-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, Conf: filepath.Join(dir, "slurm.conf"), daemons: map[string]*exec.Cmd{}}
	defer func() {
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(dir, "log", "slurmctld"))
			err = fmt.Errorf("%w\n%s", err, log[max(0, len(log)-2000):])
			c.Down()
		}
	}()
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"munge", "state", "log", "run", "dev"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	key := make([]byte, 128)
	for i := range key {
		key[i] = byte(i * 7)
	}
	if err := os.WriteFile(filepath.Join(dir, "munge", "key"), key, 0o600); err != nil {
		return nil, err
	}
	if err := c.configure(ports); err != nil {
		return nil, err
	}
	m := filepath.Join(dir, "munge")
	if err := c.start("munged", "munged", "-F", "--key-file="+m+"/key", "--socket="+m+"/sock", "--pid-file="+m+"/pid", "--log-file="+m+"/log", "--seed-file="+m+"/seed"); err != nil {
		return nil, err
	}
	if err := until(5*time.Second, func() bool { _, err := os.Stat(m + "/sock"); return err == nil }); err != nil {
		return nil, fmt.Errorf("munged: %w", err)
	}
	if err := errors.Join(c.StartController(), c.StartNode(0), c.StartNode(1)); err != nil {
		return nil, err
	}
	return c, c.Ready(30 * time.Second)
}

// configure writes the configuration files and makes the GPUs: devices of
// NVIDIA's number that no driver has, so that the granted one can be told from
// the others by the error of opening it.
func (c *Cluster) configure(ports []int) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	gres := ""
	nodes := ""
	for i := range c.Nodes {
		c.Nodes[i] = fmt.Sprintf("bench%d%c", ports[0], 'a'+i)
		if err := os.MkdirAll(filepath.Join(c.Dir, "spool", c.Nodes[i]), 0o755); err != nil {
			return err
		}
		for g := range 2 {
			if err := syscall.Mknod(fmt.Sprintf("%s/dev/%s-gpu%d", c.Dir, c.Nodes[i], g), syscall.S_IFCHR|0o666, 195<<8|2*i+g); err != nil {
				return fmt.Errorf("mknod: %w", err)
			}
		}
		gres += fmt.Sprintf("NodeName=%s Name=gpu File=%s/dev/%s-gpu[0-1]\n", c.Nodes[i], c.Dir, c.Nodes[i])
		nodes += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=4 RealMemory=8000 Gres=gpu:2 State=UNKNOWN\n", c.Nodes[i], host, ports[1+i])
	}
	_, err = os.Stat("/sys/fs/cgroup/memory")
	c.Cgroups = err == nil
	track := "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n"
	if c.Cgroups {
		track = "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\nJobAcctGatherType=jobacct_gather/cgroup\n"
	}
	conf := fmt.Sprintf(`ClusterName=sandpit
SlurmctldHost=%[2]s(127.0.0.1)
SlurmctldPort=%[3]d
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge/sock
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool/%%n
SlurmctldPidFile=%[1]s/run/slurmctld.pid
SlurmdPidFile=%[1]s/run/%%n.pid
SlurmctldLogFile=%[1]s/log/slurmctld
SlurmdLogFile=%[1]s/log/%%n
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000,bf_interval=1
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=5
KillWait=2
MessageTimeout=3
MinJobAge=300
SlurmdParameters=config_overrides
MpiDefault=none
`, c.Dir, host, ports[0]) + track + nodes + fmt.Sprintf(`PartitionName=gpu Nodes=%[1]s,%[2]s Default=YES MaxTime=01:00:00 DefaultTime=00:10:00 DefMemPerCPU=500 State=UP
PartitionName=closed Nodes=%[1]s,%[2]s State=DOWN
`, c.Nodes[0], c.Nodes[1])
	return errors.Join(
		os.WriteFile(c.Conf, []byte(conf), 0o644),
		os.WriteFile(filepath.Join(c.Dir, "gres.conf"), []byte(gres), 0o644),
		os.WriteFile(filepath.Join(c.Dir, "cgroup.conf"), []byte("CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\nConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nAllowedSwapSpace=0\nConstrainDevices=yes\n"), 0o644),
	)
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// start runs a daemon in the foreground, under a name.
func (c *Cluster) start(name, program string, args ...string) error {
	path, err := find(program)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(c.Dir, "log", name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	d := exec.Command(path, args...)
	d.Env = append(os.Environ(), "SLURM_CONF="+c.Conf)
	d.Stdout, d.Stderr = log, log
	// Its own session: Ctrl-C is for the test. It dies with this process.
	d.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := d.Start(); err != nil {
		return err
	}
	c.daemons[name] = d
	return nil
}

// Kill ends a daemon with a signal and waits for it.
func (c *Cluster) kill(name string, s syscall.Signal) {
	if d := c.daemons[name]; d != nil {
		d.Process.Signal(s)
		done := time.AfterFunc(5*time.Second, func() { d.Process.Kill() })
		d.Wait()
		done.Stop()
		delete(c.daemons, name)
	}
}

// StartController starts slurmctld, with what it had saved.
func (c *Cluster) StartController() error { return c.start("slurmctld", "slurmctld", "-D") }

// KillController ends slurmctld with SIGKILL. What happened in the last seconds
// is lost to it: it saves jobs every 5 s, and a job that it remembers as waiting
// it starts again. See Saved.
func (c *Cluster) KillController() { c.kill("slurmctld", syscall.SIGKILL) }

// Saved waits until the controller has saved its jobs as they were at a time.
func (c *Cluster) Saved(at time.Time) error {
	return until(20*time.Second, func() bool {
		st, err := os.Stat(filepath.Join(c.Dir, "state", "job_state"))
		return err == nil && st.ModTime().After(at)
	})
}

// StartNode starts the slurmd of node i. It does not see what lies in the
// hidden folders, as if they were on a disk of this machine alone.
func (c *Cluster) StartNode(i int, hidden ...string) error {
	path, err := find("slurmd")
	if err != nil {
		return err
	}
	const hide = `slurmd=$1 node=$2; shift 2; for d; do mount -t tmpfs none "$d" || exit; done; exec "$slurmd" -D -N "$node"`
	return c.start(c.Nodes[i], "unshare", append([]string{"--mount", "sh", "-c", hide, "sh", path, c.Nodes[i]}, hidden...)...)
}

// KillNode ends the slurmd of node i with SIGKILL. What runs there goes on.
func (c *Cluster) KillNode(i int) { c.kill(c.Nodes[i], syscall.SIGKILL) }

// Ready waits until both nodes take jobs.
func (c *Cluster) Ready(limit time.Duration) error {
	err := until(limit, func() bool {
		out, err := c.Run("sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%t")
		f := strings.Fields(out)
		return err == nil && len(f) == 2 && !slices.ContainsFunc(f, func(s string) bool { return s != "idle" && s != "mix" && s != "alloc" && s != "comp" })
	})
	if err != nil {
		out, _ := c.Run("sinfo", "--noheader", "--Node", "--format=%N %t %E")
		return fmt.Errorf("the nodes of the test's Slurm: %w\n%s", err, out)
	}
	return nil
}

// Run runs one of Slurm's commands on this cluster and returns what it said.
func (c *Cluster) Run(command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+c.Conf)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Down ends all jobs and daemons and removes the folder.
func (c *Cluster) Down() {
	if _, ok := c.daemons["slurmctld"]; ok {
		c.Run("scancel", "--state=PENDING", "--user=root")
		c.Run("scancel", "--state=RUNNING", "--user=root")
		until(6*time.Second, func() bool {
			out, err := c.Run("squeue", "--noheader")
			return err != nil || strings.TrimSpace(out) == ""
		})
	}
	for _, name := range []string{c.Nodes[0], c.Nodes[1], "slurmctld", "munged"} {
		c.kill(name, syscall.SIGTERM)
	}
	if c.Nodes[0] != "" {
		for _, n := range c.Nodes {
			removeCgroups("slurm_" + n)
		}
	}
	os.RemoveAll(c.Dir)
}

// removeCgroups removes the control groups that slurmd leaves behind.
func removeCgroups(name string) {
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	for _, dir := range dirs {
		var all []string
		filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		slices.Reverse(all)
		for _, d := range all {
			os.Remove(d)
		}
	}
}

func until(limit time.Duration, cond func() bool) error {
	for end := time.Now().Add(limit); !cond(); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v", limit)
		}
	}
	return nil
}
