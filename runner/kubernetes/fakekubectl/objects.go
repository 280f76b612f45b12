package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bench/internal/atomicfile"

	"github.com/gofrs/flock"
)

// cluster is a folder: jobs/NAME/job.json, pods/NAME/{pod.json,log,VOLUME},
// secrets/NAME.json, volumes/CLAIM.
type cluster struct{ root string }

type meta struct {
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	Labels            map[string]string `json:"labels"`
	CreationTimestamp *time.Time        `json:"creationTimestamp,omitempty"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp,omitempty"`
}

type batchJob struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Template struct {
			Metadata meta    `json:"metadata"`
			Spec     podSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions,omitempty"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type podSpec struct {
	NodeName                      string      `json:"nodeName"`
	ActiveDeadlineSeconds         int64       `json:"activeDeadlineSeconds,omitempty"`
	TerminationGracePeriodSeconds int64       `json:"terminationGracePeriodSeconds"`
	InitContainers                []container `json:"initContainers,omitempty"`
	Containers                    []container `json:"containers"`
	Volumes                       []podVolume `json:"volumes"`
}

type container struct {
	Name          string   `json:"name"`
	Image         string   `json:"image"`
	Command       []string `json:"command,omitempty"`
	Args          []string `json:"args"`
	RestartPolicy string   `json:"restartPolicy,omitempty"`
	Env           []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	VolumeMounts []struct {
		Name      string `json:"name"`
		MountPath string `json:"mountPath"`
		SubPath   string `json:"subPath"`
	} `json:"volumeMounts"`
}

type podVolume struct {
	Name  string `json:"name"`
	Claim struct {
		ClaimName string `json:"claimName"`
	} `json:"persistentVolumeClaim"`
	EmptyDir *struct {
		Medium string `json:"medium"`
	} `json:"emptyDir,omitempty"`
	Secret *struct {
		SecretName string `json:"secretName"`
	} `json:"secret,omitempty"`
}

type pod struct {
	Metadata meta      `json:"metadata"`
	Spec     podSpec   `json:"spec"`
	Status   podStatus `json:"status"`
	Job      string    `json:"job"` // its owner
	PID      int       `json:"pid"` // of the process that plays it; 0: none
}

type podStatus struct {
	Phase             string            `json:"phase"`
	Reason            string            `json:"reason,omitempty"`
	Message           string            `json:"message,omitempty"`
	StartTime         *time.Time        `json:"startTime,omitempty"`
	ContainerStatuses []containerStatus `json:"containerStatuses,omitempty"`
	InitStatuses      []containerStatus `json:"initContainerStatuses,omitempty"`
}

type containerStatus struct {
	Name    string         `json:"name"`
	ImageID string         `json:"imageID"`
	State   map[string]any `json:"state"`
}

func (p pod) ended() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

func (c cluster) jobDir(name string) string {
	return filepath.Join(c.root, "jobs", filepath.Base(name))
}
func (c cluster) podDir(name string) string {
	return filepath.Join(c.root, "pods", filepath.Base(name))
}

func (c cluster) secret(name string) string {
	return filepath.Join(c.root, "secrets", filepath.Base(name)+".json")
}

// locked keeps other processes out meanwhile.
func (c cluster) locked(do func()) {
	l := flock.New(filepath.Join(c.root, "lock"))
	if err := errors.Join(os.MkdirAll(c.root, 0o755), l.Lock()); err != nil {
		fail(err.Error())
	}
	defer l.Unlock()
	do()
}

func (c cluster) read(path string, v any) bool {
	b, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(b, v) == nil
}

func (c cluster) write(path string, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = atomicfile.WriteBytes(path, b)
	}
	if err != nil {
		fail(err.Error())
	}
}

func (c cluster) allPods() []pod {
	var pods []pod
	paths, _ := filepath.Glob(c.root + "/pods/*/pod.json")
	for _, path := range paths {
		var p pod
		if c.read(path, &p) {
			pods = append(pods, p)
		}
	}
	return pods
}

func (c cluster) allJobs() []batchJob {
	var jobs []batchJob
	paths, _ := filepath.Glob(c.root + "/jobs/*/job.json")
	for _, path := range paths {
		var j batchJob
		if c.read(path, &j) {
			jobs = append(jobs, c.withStatus(j))
		}
	}
	return jobs
}

// withStatus says of a Job what its pod says.
func (c cluster) withStatus(j batchJob) batchJob {
	for _, p := range c.allPods() {
		if p.Job != j.Metadata.Name || !p.ended() {
			continue
		}
		k := condition{Type: "Complete", Status: "True"}
		if p.Status.Phase == "Failed" {
			k = condition{Type: "Failed", Status: "True", Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit"}
		}
		j.Status.Conditions = append(j.Status.Conditions, k)
	}
	return j
}

// matches says whether labels fit a selector A=B,C=D.
func matches(labels map[string]string, selector string) bool {
	if selector == "" {
		return true
	}
	for part := range strings.SplitSeq(selector, ",") {
		k, v, _ := strings.Cut(part, "=")
		if labels[k] != v {
			return false
		}
	}
	return true
}
