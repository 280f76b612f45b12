package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
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
	cmd := exec.Command(os.Getenv("BENCH_FAKE_TRAINER"))
	for _, a := range box.Args {
		cmd.Args = append(cmd.Args, p.outside(c, a))
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, e := range box.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
	code := cmd.ProcessState.ExitCode()
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		code = 128 + int(s.Signal())
	}
	gone := false
	change(func() {
		gone = p.Metadata.DeletionTimestamp != nil
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
	if gone {
		c.locked(func() {
			os.RemoveAll(dir)
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
