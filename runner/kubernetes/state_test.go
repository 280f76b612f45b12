package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"bench/runner/job"
)

// What a cluster says of a Job and its pods, cut down to what counts, and what
// is made of it. The statuses are those of a kubelet and an API server 1.33
// (real_test.go and real_nodes_test.go bring most of them about), and of the reasons that
// Kubernetes documents for the rest:
// https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
func TestLook(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const (
		failed   = `{"status":{"conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"Job has reached the specified backoff limit"}]}}`
		complete = `{"status":{"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`
		live     = `{"status":{"active":1}}`
	)
	// pod with a status whose container has this state.
	one := func(phase, more, state string) string {
		return `{"metadata":{"name":"p1","creationTimestamp":"2026-11-21T11:00:00Z"},"spec":{"nodeName":"n1","containers":[{"name":"trainer","image":"i"}]},"status":{"phase":"` + phase + `"` + more +
			`,"startTime":"2026-11-21T11:59:00Z","containerStatuses":[{"name":"sidecar","state":{"running":{}}},{"name":"trainer","imageID":"i@sha256:1","state":` + state + `}]}}`
	}
	// fetching is a pod with a container of this state before the trainer.
	fetching := func(phase, state string) string {
		return strings.Replace(one(phase, "", `{"waiting":{"reason":"PodInitializing"}}`), `"containerStatuses"`, `"initContainerStatuses":[{"name":"fetch","state":`+state+`}],"containerStatuses"`, 1)
	}
	for _, c := range []struct {
		name, job string // "": none
		pods      []string
		want      phase
		exit      job.Exit // Detail: a part of it
		why       string   // or of the trouble
	}{
		{"nothing", "", nil, gone, job.Exit{}, ""},
		{"new", live, nil, waiting, job.Exit{}, ""},
		{"in a queue", `{"spec":{"suspend":true},"status":{"conditions":[{"type":"Suspended","status":"True","message":"Job suspended"}]}}`, nil, waiting, job.Exit{}, "Job suspended; a queue lets it start"},
		{"no room", live, []string{`{"metadata":{"name":"p"},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}]}}`},
			waiting, job.Exit{}, "Insufficient nvidia.com/gpu"},
		{"being made", live, []string{one("Pending", "", `{"waiting":{"reason":"ContainerCreating"}}`)}, waiting, job.Exit{}, ""},
		{"image is not pulled yet", live, []string{one("Pending", "", `{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image"}}`)}, waiting, job.Exit{}, "ImagePullBackOff"},
		{"image is never pulled", live, []string{strings.Replace(one("Pending", "", `{"waiting":{"reason":"ErrImagePull","message":"not found"}}`), "11:59:00", "11:50:00", 1)}, stuck, job.Exit{}, "ErrImagePull: not found"},
		{"a secret is missing", live, []string{one("Pending", "", `{"waiting":{"reason":"CreateContainerConfigError","message":"secret \"x\" not found"}}`)}, stuck, job.Exit{}, `secret "x" not found`},
		{"no such program", failed, []string{one("Failed", "", `{"terminated":{"exitCode":128,"reason":"StartError","message":"exec: \"/x\": no such file"}}`)}, stuck, job.Exit{}, "no such file"},
		{"runs", live, []string{one("Running", "", `{"running":{}}`)}, running, job.Exit{}, ""},
		{"its Job is removed, it goes on", "", []string{one("Running", "", `{"running":{}}`)}, running, job.Exit{}, ""},
		{"ended, the controller has not seen it", live, []string{one("Failed", "", `{"terminated":{"exitCode":3,"reason":"Error"}}`)}, running, job.Exit{}, ""},
		{"well", complete, []string{one("Succeeded", "", `{"terminated":{"exitCode":0,"reason":"Completed"}}`)}, ended, job.Exit{}, ""},
		{"exit code", failed, []string{one("Failed", "", `{"terminated":{"exitCode":65,"reason":"Error"}}`)}, ended, job.Exit{Code: 65}, ""},
		{"signal", failed, []string{one("Failed", "", `{"terminated":{"exitCode":139,"reason":"Error"}}`)}, ended, job.Exit{Code: -1, Signal: 11}, ""},
		{"memory", failed, []string{one("Failed", "", `{"terminated":{"exitCode":137,"reason":"OOMKilled"}}`)}, ended, job.Exit{Code: -1, Signal: 9, OOMKilled: true, Detail: "memory limit"}, ""},
		{"time", failed, []string{one("Failed", `,"reason":"DeadlineExceeded","message":"Pod was active on the node longer than the specified deadline"`, `{"terminated":{"exitCode":143,"reason":"Error"}}`)},
			ended, job.Exit{Code: -1, Signal: 15, Stopped: true, TimedOut: true, Detail: "longer than the specified deadline"}, ""},
		{"evicted for its own disk", failed, []string{one("Failed", `,"reason":"Evicted","message":"Pod ephemeral local storage usage exceeds"`, `{"terminated":{"exitCode":137,"reason":"Error"}}`)},
			ended, job.Exit{Code: -1, Signal: 9, Stopped: true, Detail: "Evicted: Pod ephemeral"}, ""},
		{"preempted, and no other pod", failed, []string{one("Failed", `,"conditions":[{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler","message":"preempting to accommodate a higher priority pod"}]`, `{"terminated":{"exitCode":143,"reason":"Error"}}`)},
			ended, job.Exit{Code: -1, Signal: 15, Stopped: true, Detail: "PreemptionByScheduler"}, ""},
		{"the second pod runs", live, []string{
			strings.ReplaceAll(strings.Replace(one("Running", "", `{"running":{}}`), "T11:00", "T11:30", 1), `"p1"`, `"p2"`),
			one("Failed", `,"conditions":[{"type":"DisruptionTarget","status":"True"}]`, `{"terminated":{"exitCode":143,"reason":"Error"}}`)}, running, job.Exit{}, ""},
		{"its pod is gone", failed, nil, ended, job.Exit{Code: -1, Signal: 9, Stopped: true, Detail: "its pod was removed"}, ""},
		{"its node forgot it", failed, []string{one("Failed", "", `{"terminated":{"exitCode":137,"reason":"ContainerStatusUnknown","message":"The container could not be located"}}`)},
			ended, job.Exit{Code: -1, Signal: 9, Stopped: true, Detail: "could not be located"}, ""},
		{"its node is away", live, []string{strings.Replace(one("Running", "", `{"running":{}}`), `"p1",`, `"p1","deletionTimestamp":"2026-11-21T11:45:00Z",`, 1)}, lost, job.Exit{Code: -1, Signal: 9, Stopped: true, Detail: "node n1 does not answer"}, ""},
		{"its data are being fetched", live, []string{fetching("Pending", `{"running":{}}`)}, running, job.Exit{}, ""},
		{"its data cannot be fetched", failed, []string{fetching("Failed", `{"terminated":{"exitCode":75,"reason":"Error","message":"bench: 403 Forbidden"}}`)},
			ended, job.Exit{Code: -1, Signal: 9, Stopped: true, Detail: "fetch of its data failed (exit code 75): bench: 403"}, ""},
		{"who fetches cannot be pulled", live, []string{strings.Replace(fetching("Pending", `{"waiting":{"reason":"ErrImagePull","message":"not found"}}`), "11:59:00", "11:50:00", 1)}, stuck, job.Exit{}, "ErrImagePull: not found"},
		{"it is being ended", live, []string{strings.Replace(one("Running", "", `{"running":{}}`), `"p1",`, `"p1","deletionTimestamp":"2026-11-21T11:59:59Z",`, 1)}, running, job.Exit{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var j *batchJob
			if c.job != "" {
				j = &batchJob{}
				if err := json.Unmarshal([]byte(c.job), j); err != nil {
					t.Fatal(err)
				}
			}
			var pods []pod
			for _, text := range c.pods {
				var p pod
				if err := json.Unmarshal([]byte(text), &p); err != nil {
					t.Fatal(err)
				}
				pods = append(pods, p)
			}
			v := look(j, pods, now, 10*time.Minute)
			if v.phase != c.want {
				t.Fatalf("phase %d, want %d: %+v", v.phase, c.want, v)
			}
			detail := c.exit.Detail
			c.exit.Detail = v.exit.Detail
			if v.exit != c.exit || !strings.Contains(v.exit.Detail, detail) {
				t.Errorf("exit %+v, want %+v with %q", v.exit, c.exit, detail)
			}
			why := v.why
			if v.trouble != nil {
				why = v.trouble.Error()
				if v.trouble.Hint == "" {
					t.Error("no hint")
				}
			}
			if !strings.Contains(why, c.why) || (v.trouble != nil) != (c.want == stuck) {
				t.Errorf("why: %q, want %q", why, c.why)
			}
			if len(pods) > 1 && v.pod != "p2" {
				t.Errorf("pod %s is taken for the newest", v.pod)
			}
		})
	}
}
