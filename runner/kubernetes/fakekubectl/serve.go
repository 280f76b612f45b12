package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// serve is kubectl proxy and the API server in one.
func serve(c cluster, socket string) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		fail(err.Error())
	}
	fmt.Println("Starting to serve on", socket)
	m := http.NewServeMux()
	const ns = "/namespaces/lab"
	m.HandleFunc("GET /api/v1"+ns+"/persistentvolumeclaims/{name}", func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(c.volume(r.PathValue("name"))); err != nil {
			refuse(w, 404, "NotFound", "persistentvolumeclaims", r.PathValue("name")+" not found")
			return
		}
		answer(w, map[string]any{"status": map[string]any{"phase": "Bound"}})
	})
	m.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"items": []any{map[string]any{"status": map[string]any{"allocatable": map[string]any{"cpu": "2"}}}}})
	})
	m.HandleFunc("POST /api/v1"+ns+"/secrets", func(w http.ResponseWriter, r *http.Request) {
		var s struct {
			Metadata meta              `json:"metadata"`
			Data     map[string][]byte `json:"data"`
		}
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			refuse(w, 422, "Invalid", "secrets", err.Error())
			return
		}
		c.write(c.secret(s.Metadata.Name), s)
		answer(w, s)
	})
	m.HandleFunc("POST /apis/networking.k8s.io/v1"+ns+"/networkpolicies", func(w http.ResponseWriter, r *http.Request) { answer(w, map[string]any{}) })
	m.HandleFunc("GET /api/v1"+ns+"/events", func(w http.ResponseWriter, r *http.Request) { answer(w, map[string]any{"items": []any{}}) })
	m.HandleFunc("GET /apis/batch/v1"+ns+"/jobs", func(w http.ResponseWriter, r *http.Request) {
		items := []batchJob{}
		c.locked(func() {
			for _, j := range c.allJobs() {
				if matches(j.Metadata.Labels, r.FormValue("labelSelector")) {
					items = append(items, j)
				}
			}
		})
		answer(w, map[string]any{"items": items})
	})
	m.HandleFunc("GET /apis/batch/v1"+ns+"/jobs/{name}", func(w http.ResponseWriter, r *http.Request) {
		var j batchJob
		if !c.read(c.jobDir(r.PathValue("name"))+"/job.json", &j) {
			refuse(w, 404, "NotFound", "jobs", r.PathValue("name")+" not found")
			return
		}
		answer(w, j)
	})
	m.HandleFunc("POST /apis/batch/v1"+ns+"/jobs", c.createJob)
	m.HandleFunc("DELETE /apis/batch/v1"+ns+"/jobs/{name}", c.deleteJob)
	m.HandleFunc("GET /api/v1"+ns+"/pods", func(w http.ResponseWriter, r *http.Request) {
		items := []pod{}
		c.locked(func() {
			for _, p := range c.allPods() {
				if matches(p.Metadata.Labels, r.FormValue("labelSelector")) {
					items = append(items, p)
				}
			}
		})
		answer(w, map[string]any{"items": items})
	})
	m.HandleFunc("POST /api/v1"+ns+"/pods", c.createPod)
	m.HandleFunc("GET /api/v1"+ns+"/pods/{name}", func(w http.ResponseWriter, r *http.Request) {
		var p pod
		if !c.read(c.podDir(r.PathValue("name"))+"/pod.json", &p) {
			refuse(w, 404, "NotFound", "pods", r.PathValue("name")+" not found")
			return
		}
		answer(w, p)
	})
	m.HandleFunc("DELETE /api/v1"+ns+"/pods/{name}", func(w http.ResponseWriter, r *http.Request) {
		os.RemoveAll(c.podDir(r.PathValue("name")))
		answer(w, map[string]any{})
	})
	m.HandleFunc("GET /api/v1"+ns+"/pods/{name}/log", c.podLog)
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, 404, "NotFound", "", r.Method+" "+r.URL.Path+" is nothing that this cluster has")
	})
	http.Serve(l, m)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, reason, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code, "details": map[string]any{"kind": kind}})
}

func created(m *meta) {
	now := time.Now().UTC().Truncate(time.Second)
	m.UID, m.CreationTimestamp = rand.Text(), &now
}

func (c cluster) createJob(w http.ResponseWriter, r *http.Request) {
	var j batchJob
	if err := json.NewDecoder(r.Body).Decode(&j); err != nil || len(j.Spec.Template.Spec.Containers) != 1 {
		refuse(w, 422, "Invalid", "jobs", fmt.Sprint("Job is invalid: ", err))
		return
	}
	c.locked(func() {
		dir := c.jobDir(j.Metadata.Name)
		if _, err := os.Stat(dir); err == nil {
			refuse(w, 409, "AlreadyExists", "jobs", j.Metadata.Name+" already exists")
			return
		}
		created(&j.Metadata)
		c.write(dir+"/job.json", j)
		p := pod{Metadata: j.Spec.Template.Metadata, Spec: j.Spec.Template.Spec, Job: j.Metadata.Name}
		p.Metadata.Name = j.Metadata.Name + "-" + strings.ToLower(rand.Text()[:5])
		created(&p.Metadata)
		p.Spec.NodeName = "node-1"
		c.start(&p)
		answer(w, j)
	})
}

// createPod makes a pod that sleeps.
func (c cluster) createPod(w http.ResponseWriter, r *http.Request) {
	var p pod
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		refuse(w, 422, "Invalid", "pods", err.Error())
		return
	}
	created(&p.Metadata)
	p.Spec.NodeName = "node-1"
	p.Status = podStatus{Phase: "Running", ContainerStatuses: []containerStatus{{Name: p.Spec.Containers[0].Name, State: map[string]any{"running": map[string]any{}}}}}
	os.MkdirAll(p.outside(c, p.Spec.Containers[0], p.Spec.Containers[0].VolumeMounts[0].MountPath), 0o755)
	c.write(c.podDir(p.Metadata.Name)+"/pod.json", p)
	answer(w, p)
}

// start starts the process that plays a pod.
func (c cluster) start(p *pod) {
	dir := c.podDir(p.Metadata.Name)
	p.Status.Phase = "Pending"
	c.write(dir+"/pod.json", p)
	cmd := exec.Command("/proc/self/exe", podArg, p.Metadata.Name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = os.Environ()
	cmd.Stderr, _ = os.Create(filepath.Join(dir, "stderr"))
	if err := cmd.Start(); err != nil {
		fail(err.Error())
	}
	p.PID = cmd.Process.Pid
	c.write(dir+"/pod.json", p)
	go cmd.Wait()
}

func (c cluster) deleteJob(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	var o struct {
		PropagationPolicy string
		Preconditions     struct{ UID string }
	}
	json.NewDecoder(r.Body).Decode(&o)
	c.locked(func() {
		var j batchJob
		if !c.read(c.jobDir(name)+"/job.json", &j) {
			refuse(w, 404, "NotFound", "jobs", name+" not found")
			return
		}
		if o.Preconditions.UID != "" && o.Preconditions.UID != j.Metadata.UID {
			refuse(w, 409, "Conflict", "jobs", "the UID in the precondition is another")
			return
		}
		now := time.Now().UTC().Truncate(time.Second)
		j.Metadata.DeletionTimestamp = &now
		c.write(c.jobDir(name)+"/job.json", j)
		live := false
		for _, p := range c.allPods() {
			if p.Job != name {
				continue
			}
			if p.ended() {
				os.RemoveAll(c.podDir(p.Metadata.Name))
				continue
			}
			live = true
			p.Metadata.DeletionTimestamp = &now
			c.write(c.podDir(p.Metadata.Name)+"/pod.json", p)
			syscall.Kill(p.PID, syscall.SIGTERM)
		}
		if !live || o.PropagationPolicy == "Background" {
			os.RemoveAll(c.jobDir(name))
		}
		answer(w, j)
	})
}

// podLog gives the lines since a time, and with follow those to come.
func (c cluster) podLog(w http.ResponseWriter, r *http.Request) {
	dir := c.podDir(r.PathValue("name"))
	var p pod
	if !c.read(dir+"/pod.json", &p) {
		refuse(w, 404, "NotFound", "pods", r.PathValue("name")+" not found")
		return
	}
	f, err := os.Open(dir + "/log")
	if err != nil {
		refuse(w, 400, "BadRequest", "", "container is waiting to start")
		return
	}
	defer f.Close()
	since, _ := time.Parse(time.RFC3339, r.FormValue("sinceTime")) // zero: from the beginning
	in := bufio.NewReader(f)
	var part []byte // of a line that is being written
	for {
		over := !c.read(dir+"/pod.json", &p) || p.ended()
		for {
			line, err := in.ReadBytes('\n')
			part = append(part, line...)
			if err != nil {
				break
			}
			stamp, _, _ := bytes.Cut(part, []byte{' '})
			if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err != nil || !at.Before(since) {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
			part = nil
		}
		if over || r.FormValue("follow") == "" {
			return
		}
		http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}
