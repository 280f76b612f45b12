package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// podArg, with the pod's name, makes this program play a pod.
const podArg = "__pod"

// runPod runs $BENCH_FAKE_TRAINER as the pod's container to its end.
func runPod(c cluster, name string) int {
	dir := c.podDir(name)
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, syscall.SIGTERM)
	var p pod
	// change changes the pod under the lock, unless it is gone.
	change := func(do func()) {
		c.locked(func() {
			if c.read(dir+"/pod.json", &p) {
				do()
				c.write(dir+"/pod.json", p)
			}
		})
	}
	begun := time.Now().UTC().Truncate(time.Second)
	log, err := os.Create(dir + "/log")
	if err != nil {
		fail(err.Error())
	}
	defer log.Close()
	change(func() { p.PID = os.Getpid() })
	if len(p.Spec.Containers) == 0 {
		return 1
	}
	box := p.Spec.Containers[0]
	beside, failed := prepare(c, p, stop)
	if failed != nil {
		change(func() { p.Status = podStatus{Phase: "Failed", InitStatuses: []containerStatus{*failed}} })
		return finish(c, p)
	}
	cmd := p.command(c, box)
	var mu sync.Mutex // of the log
	var copying sync.WaitGroup
	for _, pipe := range []func() (io.ReadCloser, error){cmd.StdoutPipe, cmd.StderrPipe} {
		in, err := pipe()
		if err != nil {
			fail(err.Error())
		}
		copying.Go(func() { copyLines(in, log, &mu) })
	}
	if err := cmd.Start(); err != nil {
		fail(err.Error())
	}
	change(func() {
		p.Status = podStatus{Phase: "Running", StartTime: &begun, ContainerStatuses: []containerStatus{
			{Name: box.Name, ImageID: box.Image, State: map[string]any{"running": map[string]any{"startedAt": begun}}}}}
	})
	ended := make(chan struct{})
	go func() {
		copying.Wait()
		cmd.Wait()
		close(ended)
	}()
	var deadline <-chan time.Time
	if s := p.Spec.ActiveDeadlineSeconds; s > 0 {
		deadline = time.After(time.Duration(s) * time.Second)
	}
	late := false
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-deadline:
			late = true
			stop <- syscall.SIGTERM
		case <-stop:
			syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			grace := time.Duration(cmp.Or(p.Spec.TerminationGracePeriodSeconds, 30)) * time.Second
			time.AfterFunc(grace, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		}
	}
	for _, b := range beside { // they end after the trainer
		b.Process.Signal(syscall.SIGTERM)
		b.Wait()
	}
	code := cmd.ProcessState.ExitCode()
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		code = 128 + int(s.Signal())
	}
	change(func() {
		reason := "Completed"
		p.Status.Phase = "Succeeded"
		if code != 0 || late {
			reason, p.Status.Phase = "Error", "Failed"
		}
		if late {
			p.Status.Reason, p.Status.Message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
		}
		p.Status.ContainerStatuses[0].State = map[string]any{"terminated": map[string]any{"exitCode": code, "reason": reason}}
	})
	return finish(c, p)
}

// prepare runs what comes before the trainer, and starts what runs beside it.
func prepare(c cluster, p pod, stop <-chan os.Signal) (beside []*exec.Cmd, failed *containerStatus) {
	dir := c.podDir(p.Metadata.Name)
	for _, v := range p.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		var s struct{ Data map[string][]byte }
		for !c.read(c.secret(v.Secret.SecretName), &s) {
			select {
			case <-stop:
				return nil, &containerStatus{Name: "none"}
			case <-time.After(20 * time.Millisecond):
			}
		}
		os.MkdirAll(filepath.Join(dir, v.Name), 0o755)
		for name, text := range s.Data {
			if err := os.WriteFile(filepath.Join(dir, v.Name, name), text, 0o644); err != nil {
				fail(err.Error())
			}
		}
	}
	for _, box := range p.Spec.InitContainers {
		os.MkdirAll(p.outside(c, box, box.VolumeMounts[0].MountPath), 0o755)
		cmd := p.command(c, box)
		said := &bytes.Buffer{}
		cmd.Stderr = said
		if err := cmd.Start(); err != nil {
			fail(err.Error())
		}
		if box.RestartPolicy == "Always" {
			beside = append(beside, cmd)
			untilCatches(cmd.Process.Pid)
			continue
		}
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-stop:
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			return nil, &containerStatus{Name: box.Name, State: map[string]any{"terminated": map[string]any{"exitCode": code, "reason": "Error", "message": said.String()}}}
		}
	}
	return beside, nil
}

// untilCatches waits until a process has a handler for SIGTERM: a real pod takes
// longer to start the next container than any program to start.
func untilCatches(pid int) {
	for range 500 {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, _ := strings.Cut(string(status), "SigCgt:\t")
		mask, _, _ := strings.Cut(rest, "\n")
		if n, err := strconv.ParseUint(mask, 16, 64); err == nil && n&(1<<(syscall.SIGTERM-1)) != 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// finish removes a pod that ended because somebody deleted it.
func finish(c cluster, p pod) int {
	if p.Metadata.DeletionTimestamp != nil {
		c.locked(func() {
			os.RemoveAll(c.podDir(p.Metadata.Name))
			var j batchJob
			if c.read(c.jobDir(p.Job)+"/job.json", &j) && j.Metadata.DeletionTimestamp != nil {
				os.RemoveAll(c.jobDir(p.Job))
			}
		})
	}
	return 0
}

// copyLines writes each line with its time before it, as container runtimes do.
func copyLines(in io.Reader, to io.Writer, mu *sync.Mutex) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			if err != nil {
				line += "\n"
			}
			mu.Lock()
			fmt.Fprint(to, time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z"), " ", line)
			mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}
