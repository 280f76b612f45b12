// Command fakekubectl stands in for kubectl and for the cluster behind it, in
// tests: it understands what package kubernetes asks of the two. Objects are
// files below $BENCH_FAKE_KUBE, so that any number of its processes see the
// same cluster, and a pod is a process that outlives them. There is one node,
// and no scheduler, no quota, no memory limit.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	root := os.Getenv("BENCH_FAKE_KUBE")
	if root == "" {
		fail("BENCH_FAKE_KUBE is not set")
	}
	if len(os.Args) == 3 && os.Args[1] == podArg {
		os.Exit(runPod(cluster{root}, os.Args[2]))
	}
	var args []string
	context := ""
	for _, a := range os.Args[1:] {
		if v, ok := strings.CutPrefix(a, "--context="); ok && len(args) == 0 {
			context = v
			continue
		}
		args = append(args, a)
	}
	if context == "nowhere" {
		fail(`error: context "nowhere" does not exist`)
	}
	switch {
	case len(args) == 2 && args[0] == "proxy":
		serve(cluster{root}, strings.TrimPrefix(args[1], "--unix-socket="))
	case len(args) > 1 && args[0] == "config":
		json.NewEncoder(os.Stdout).Encode(map[string]any{"contexts": []any{map[string]any{"context": map[string]any{"namespace": "lab"}}}})
	case len(args) > 1 && args[0] == "exec":
		os.Exit(execIn(cluster{root}, args[1:]))
	default:
		fail("unknown command " + strings.Join(args, " "))
	}
}

func fail(what string) {
	fmt.Fprintln(os.Stderr, what)
	os.Exit(1)
}

// execIn runs a command of a container, whose volume is a folder here.
func execIn(c cluster, args []string) int {
	at := slices.Index(args, "--")
	var p pod
	if at < 1 || !c.read(c.podDir(args[at-1])+"/pod.json", &p) {
		fail("Error from server (NotFound): pods not found")
	}
	var command []string
	for _, a := range args[at+1:] {
		command = append(command, p.outside(c, p.Spec.Containers[0], a))
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if slices.Contains(args[:at], "-i") {
		cmd.Stdin = os.Stdin
	}
	cmd.Run()
	return cmd.ProcessState.ExitCode()
}

// volume is the folder of a claim.
func (c cluster) volume(claim string) string { return filepath.Join(c.root, "volumes", claim) }

// outside replaces the folders of a container by those of this machine, and the
// image's program by $BENCH_FAKE_TRAINER.
func (p pod) outside(c cluster, box container, s string) string {
	if s == "/trainer" {
		return os.Getenv("BENCH_FAKE_TRAINER")
	}
	folders := map[string]string{}
	for _, v := range p.Spec.Volumes {
		switch {
		case v.Claim.ClaimName != "":
			folders[v.Name] = c.volume(v.Claim.ClaimName)
		case v.Secret != nil, v.EmptyDir != nil && v.EmptyDir.Medium == "":
			folders[v.Name] = filepath.Join(c.podDir(p.Metadata.Name), v.Name)
		}
	}
	for _, m := range box.VolumeMounts {
		if folder := folders[m.Name]; folder != "" {
			s = strings.ReplaceAll(s, m.MountPath, filepath.Join(folder, m.SubPath))
		}
	}
	return s
}

// command is a container's.
func (p pod) command(c cluster, box container) *exec.Cmd {
	var args []string
	for _, a := range append(box.Command, box.Args...) {
		args = append(args, p.outside(c, box, a))
	}
	if len(box.Command) == 0 {
		args = append([]string{os.Getenv("BENCH_FAKE_TRAINER")}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, e := range box.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
