// Command prog is what the tests of containers run inside one. Its first
// argument says what it does.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if filepath.Base(os.Args[0]) == "nvidia-smi" {
		smi()
		return
	}
	n := 0
	if len(os.Args) > 2 {
		n, _ = strconv.Atoi(os.Args[2])
	}
	switch os.Args[1] {
	case "exit":
		os.Exit(n)
	case "signal":
		syscall.Kill(os.Getpid(), syscall.Signal(n))
		time.Sleep(10 * time.Second)
	case "sleep": // milliseconds
		time.Sleep(time.Duration(n) * time.Millisecond)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	case "polite":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		<-c
		os.Exit(42)
	case "lines", "hold": // n lines on each stream, the pause between them in microseconds, then exit code 5; hold waits for SIGTERM first
		pause, _ := strconv.Atoi(os.Args[3])
		out, log := bufio.NewWriter(os.Stdout), bufio.NewWriter(os.Stderr)
		for i := range n {
			fmt.Fprintf(out, "out %d\n", i)
			fmt.Fprintf(log, "log %d\n", i)
			if pause > 0 {
				out.Flush()
				log.Flush()
				time.Sleep(time.Duration(pause) * time.Microsecond)
			}
		}
		out.Flush()
		log.Flush()
		if os.Args[1] == "hold" { // until SIGTERM
			c := make(chan os.Signal, 1)
			signal.Notify(c, syscall.SIGTERM)
			<-c
		}
		os.Exit(5)
	case "long": // one line of n bytes, and one without an end
		fmt.Println(strings.Repeat("x", n))
		fmt.Print("the end")
	case "eat": // megabytes
		var held [][]byte
		for range n {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		}
		fmt.Println("ate", len(held))
	case "eat-child": // the child dies of it, the parent lives
		err := exec.Command("/bin/prog", "eat", os.Args[2]).Run()
		fmt.Println(err)
		os.Exit(3)
	case "fork": // children until it is not allowed
		started := 0
		for range n {
			if exec.Command("/bin/prog", "sleep", "60000").Start() != nil {
				break
			}
			started++
		}
		fmt.Println(started)
	case "env":
		for _, e := range os.Environ() {
			fmt.Println(e)
		}
	case "probe":
		json.NewEncoder(os.Stdout).Encode(probe())
	case "privileges": // run as the set-user-ID program of root
		fmt.Println(os.Geteuid())
	default:
		os.Exit(99)
	}
}

// smi answers as nvidia-smi on a machine with one whole card and one in MIG mode.
func smi() {
	if len(os.Args) > 1 && os.Args[1] == "-L" {
		fmt.Print("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)\n" +
			"  MIG 1g.5gb      Device  0: (UUID: MIG-b0)\n  MIG 3g.20gb     Device  1: (UUID: MIG-b1)\n")
		return
	}
	fmt.Print("0, GPU-aaaa, NVIDIA H100 80GB HBM3, 81559, Disabled, 4, 9.0, 550.54.15\n1, GPU-bbbb, NVIDIA A100-SXM4-40GB, 40960, Enabled, 0, 8.0, 550.54.15\n")
	fmt.Fprintln(os.Stderr, os.Getenv("NVIDIA_VISIBLE_DEVICES"))
}

// probe tries everything that a sandbox should not allow. Every value is ""
// for "could not", or says what worked.
func probe() map[string]string {
	p := map[string]string{}
	try := func(name string, err error) {
		if err == nil {
			p[name] = "worked"
		} else {
			p[name] = ""
		}
	}
	for _, dir := range []string{"/", "/usr", "/etc", "/bench", "/bench/in", "/bench/in/data", "/bench/model", "/proc", "/sys", "/proc/sys/kernel", "/sys/fs/cgroup", "/dev"} {
		try("write "+dir, os.WriteFile(filepath.Join(dir, "evil"), []byte("x"), 0o644))
	}
	try("write in file", os.WriteFile("/bench/in/batch.json", []byte("x"), 0o644))
	try("chmod in file", os.Chmod("/bench/in/batch.json", 0o777))
	try("move in", os.Rename("/bench/in", "/bench/out/in"))
	try("move out", os.Rename("/bench/out", "/bench/in/out"))
	try("unlink in file", os.Remove("/bench/in/batch.json"))
	try("core pattern", os.WriteFile("/proc/sys/kernel/core_pattern", []byte("|/evil"), 0o644))
	try("remount /", syscall.Mount("", "/", "", syscall.MS_REMOUNT, ""))
	try("remount in", syscall.Mount("", "/bench/in", "", syscall.MS_REMOUNT|syscall.MS_BIND, ""))
	try("mount tmpfs", syscall.Mount("none", "/tmp", "tmpfs", 0, ""))
	try("mknod", syscall.Mknod("/tmp/sda", syscall.S_IFBLK|0o666, 8<<8))
	try("setuid", syscall.Setuid(0))
	try("setgid", syscall.Setgid(0))
	try("chown", os.Chown("/bench/out", 0, 0))
	try("chroot", syscall.Chroot("/tmp"))
	try("unshare", syscall.Unshare(syscall.CLONE_NEWUSER))
	try("unshare net", syscall.Unshare(syscall.CLONE_NEWNET))
	try("reboot", syscall.Reboot(syscall.LINUX_REBOOT_CMD_CAD_OFF))
	try("hostname", syscall.Sethostname([]byte("evil")))
	try("priority", syscall.Setpriority(syscall.PRIO_PROCESS, 0, -10))
	_, _, errno := syscall.Syscall(250 /* keyctl */, 0, 0, 0)
	try("keyring", map[bool]error{false: errno}[errno == 0])

	p["uid"], p["gid"] = strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	groups, _ := os.Getgroups()
	p["groups"] = fmt.Sprint(groups)
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if k, v, ok := strings.Cut(line, ":"); ok && (strings.HasPrefix(k, "Cap") || k == "NoNewPrivs" || k == "Seccomp") {
			p[k] = strings.TrimSpace(v)
		}
	}
	// The set-user-ID bit of root's program has no effect.
	euid, err := exec.Command("/bin/prog", "privileges").Output()
	p["set-user-id"] = strings.TrimSpace(string(euid))
	if err != nil {
		p["set-user-id"] = err.Error()
	}

	interfaces, err := net.Interfaces()
	for _, i := range interfaces {
		p["interfaces"] += i.Name + " "
	}
	if err != nil {
		p["interfaces"] = err.Error()
	}
	for _, addr := range []string{"10.0.0.1:80", "172.17.0.1:22", "169.254.169.254:80", "[2001:db8::1]:80"} {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		try("dial "+addr, err)
		if err == nil {
			c.Close()
		}
	}
	_, err = net.LookupHost("example.org")
	try("look up a name", err)
	for _, s := range []string{"/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"} {
		_, err := os.Stat(s)
		try("see "+s, err)
	}
	devices, _ := os.ReadDir("/dev")
	for _, d := range devices {
		if d.Type()&os.ModeDevice != 0 && d.Type()&os.ModeCharDevice == 0 {
			p["block devices"] += d.Name() + " "
		}
	}
	processes, _ := os.ReadDir("/proc")
	for _, d := range processes {
		if _, err := strconv.Atoi(d.Name()); err == nil {
			p["processes"] += d.Name() + " "
		}
	}
	init, _ := os.ReadFile("/proc/1/comm")
	p["init"] = strings.TrimSpace(string(init))
	p["hostname"], _ = os.Hostname()
	p["workdir"], _ = os.Getwd()

	// What must work.
	works := func(name string, err error) {
		if err != nil {
			p["must "+name] = err.Error()
		}
	}
	works("write /tmp", os.WriteFile("/tmp/x", []byte("x"), 0o755))
	works("write /bench/out", os.WriteFile("/bench/out/x", []byte("x"), 0o644))
	_, err = os.ReadFile("/bench/in/batch.json")
	works("read /bench/in", err)
	works("write /volume", os.WriteFile("/volume/x", []byte("x"), 0o644))
	self, _ := os.ReadFile("/bin/prog")
	works("write a program", os.WriteFile("/tmp/prog", self, 0o755))
	works("run from /tmp", exec.Command("/tmp/prog", "exit", "0").Run())
	p["tmp holds"] = strconv.FormatInt(fill("/tmp/fill"), 10)
	p["volume holds"] = strconv.FormatInt(fill("/volume/fill"), 10)
	return p
}

// fill writes until there is no space left and returns the megabytes; 4 GB at most.
func fill(path string) int64 {
	f, err := os.Create(path)
	if err != nil {
		return -1
	}
	defer os.Remove(path)
	defer f.Close()
	b := make([]byte, 1<<20)
	var n int64
	for ; n < 4096; n++ {
		if _, err := f.Write(b); err != nil {
			break
		}
	}
	return n
}
