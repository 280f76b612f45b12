package kubernetes

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"
	"time"

	"bench/runner"
	"bench/runner/job"
)

// disrupted is the condition of pods that the cluster ended for reasons of its
// own: preemption, eviction, a lost node, a drained one.
const disrupted = "DisruptionTarget"

// phase is what is the matter with a batch.
type phase int

const (
	gone    phase = iota // neither a Job nor a pod of it is left
	waiting              // no container runs, none has ended
	running
	ended
	stuck // it will never run as things are: view.trouble says why
	lost  // its node does not answer and the cluster waits for it
)

// view is a batch as the cluster sees it.
type view struct {
	phase   phase
	pod     string // the newest
	node    string
	image   string   // digest, as the node sees it
	exit    job.Exit // if ended
	why     string   // it waits, in the cluster's words; may be empty
	since   time.Time
	trouble *runner.PreconditionError
}

// Reasons of a waiting container that do not pass by themselves, with what to
// do about them.
var hopeless = map[string]string{
	"InvalidImageName":           "mend image:",
	"ErrImageNeverPull":          "put the image on the nodes, or let them pull it",
	"CreateContainerConfigError": "mend what the message names, in the namespace or in the kubernetes: mapping",
	"CreateContainerError":       "look at it with kubectl describe pod, and mend what the message names",
	"RunContainerError":          "look at it with kubectl describe pod, and mend what the message names",
}

// pulling are reasons of a waiting container that may pass: registries have
// bad minutes.
var pulling = map[string]bool{"ErrImagePull": true, "ImagePullBackOff": true, "RegistryUnavailable": true, "ImageInspectError": true, "SignatureValidationFailed": true}

const (
	// pullPatience is how long an image that cannot be pulled is waited for.
	pullPatience = 2 * time.Minute
	// hopelessPatience is for the other reasons: a secret that is made a moment
	// later than the pod is no reason to give up.
	hopelessPatience = 15 * time.Second
)

// look judges a Job, nil if there is none, and its pods, as they are now. A pod
// that has not gone in time, patience after it should have, is lost.
func look(j *batchJob, pods []pod, now time.Time, patience time.Duration) view {
	v := view{phase: waiting}
	if j != nil {
		v.since = timeOf(j.Metadata.CreationTimestamp)
	}
	var newest *pod
	active := false
	for i := range pods {
		p := &pods[i]
		if p.Status == nil {
			p.Status = &podStatus{}
		}
		if newest == nil || timeOf(p.Metadata.CreationTimestamp).After(timeOf(newest.Metadata.CreationTimestamp)) {
			newest = p
		}
		active = active || p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed"
	}
	if newest == nil {
		switch {
		case j == nil:
			return view{phase: gone}
		case finished(j) != nil:
			return v.end(job.Exit{Code: -1, Signal: int(syscall.SIGKILL), Stopped: true, Detail: "its pod was removed: " + finished(j).Message})
		case j.Spec.Suspend:
			v.why = cmp.Or(reason(j.Status, "Suspended"), "the Job is suspended") + "; a queue lets it start"
		}
		return v
	}
	v.pod, v.node = newest.Metadata.Name, newest.Spec.NodeName
	var c containerStatus
	for _, s := range newest.Status.ContainerStatuses {
		if s.Name == trainerName {
			c = s
		}
	}
	// Containers before the trainer: the first that has not ended well decides.
	var before containerStatus
	for _, s := range newest.Status.InitStatuses {
		if t := s.State.Terminated; s.State.Waiting != nil || t != nil && t.ExitCode != 0 || s.State.Running != nil && c.State.Running == nil {
			before = s
			break
		}
	}
	v.image = c.ImageID
	if d := newest.Metadata.DeletionTimestamp; d != nil && active && now.Sub(*d) > patience {
		v.phase = lost
		v.exit = job.Exit{Code: -1, Signal: int(syscall.SIGKILL), Stopped: true, Detail: fmt.Sprintf("node %s does not answer, and the pod on it cannot be ended", v.node)}
		return v
	}
	if j == nil { // removed, and the pod is on its way
		if active {
			v.phase = running
			return v
		}
		return v.end(exitOf(newest, c, before))
	}
	if f := finished(j); f != nil && !active {
		if t := c.State.Terminated; t != nil && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun") {
			v.phase = stuck
			v.trouble = &runner.PreconditionError{What: "the image's program cannot be started on " + v.node, Hint: "image: must name an image whose entrypoint is a trainer", Err: fmt.Errorf("%s: %s", t.Reason, t.Message)}
			return v
		}
		return v.end(exitOf(newest, c, before))
	}
	waits := c.State.Waiting
	if waits != nil && before.State.Waiting != nil {
		waits = before.State.Waiting
	}
	switch {
	case c.State.Running != nil, newest.Status.Phase == "Running", before.State.Running != nil && activePod(newest):
		v.phase = running
	case c.State.Terminated != nil, !activePod(newest): // the Job's controller has to see it, or makes another pod
		v.phase = running
	case waits != nil && (hopeless[waits.Reason] != "" || pulling[waits.Reason]):
		w := waits
		v.why = w.Reason + ": " + w.Message
		begun, patience := timeOf(newest.Status.StartTime), hopelessPatience
		hint := hopeless[w.Reason]
		if pulling[w.Reason] {
			patience = pullPatience
			hint = "see that the nodes can pull the image: bench image push, the name in image:, a secret in pull_secrets:"
		}
		if !begun.IsZero() && now.Sub(begun) > patience {
			v.phase = stuck
			v.trouble = &runner.PreconditionError{What: fmt.Sprintf("image %s does not start on %s", newest.Spec.image(), v.node), Hint: hint, Err: fmt.Errorf("%s: %s", w.Reason, w.Message)}
		}
	default:
		for _, k := range newest.Status.Conditions {
			if k.Type == "PodScheduled" && k.Status == "False" {
				v.why = k.Message
			}
		}
	}
	return v
}

func (v view) end(x job.Exit) view {
	v.phase, v.exit = ended, x
	return v
}

func activePod(p *pod) bool { return p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed" }

func (s podSpec) image() string {
	for _, c := range s.Containers {
		if c.Name == trainerName {
			return c.Image
		}
	}
	return ""
}

// finished returns the condition that says how the Job ended, nil if it has not.
func finished(j *batchJob) *condition {
	if j.Status == nil {
		return nil
	}
	for i, c := range j.Status.Conditions {
		if (c.Type == "Complete" || c.Type == "Failed") && c.Status == "True" {
			return &j.Status.Conditions[i]
		}
	}
	return nil
}

// reason returns the message of a condition that holds.
func reason(s *jobStatus, kind string) string {
	if s == nil {
		return ""
	}
	for _, c := range s.Conditions {
		if c.Type == kind && c.Status == "True" {
			return c.Message
		}
	}
	return ""
}

// exitOf tells how a pod that has ended did so: c is its trainer's state, before
// that of a container without which the trainer does not start.
func exitOf(p *pod, c, before containerStatus) job.Exit {
	x := job.Exit{Code: -1, Signal: int(syscall.SIGKILL)}
	t := c.State.Terminated
	if t != nil {
		x = job.Exit{Code: t.ExitCode}
		// A shell's way to report a signal is also that of container runtimes.
		if n := t.ExitCode - 128; n > 0 && n <= 64 {
			x.Code, x.Signal = -1, n
		}
		switch t.Reason {
		case "OOMKilled":
			x.OOMKilled = true
			x.Detail = "the pod's memory limit was reached"
		case "ContainerStatusUnknown":
			x = job.Exit{Code: -1, Signal: int(syscall.SIGKILL), Stopped: true, Detail: "the node lost track of the container: " + t.Message}
		case "Completed", "Error", "":
		default:
			x.Detail = strings.TrimSuffix(t.Reason+": "+t.Message, ": ")
		}
	}
	switch p.Status.Reason {
	case "DeadlineExceeded":
		x.Stopped, x.TimedOut, x.OOMKilled = true, true, false
		x.Detail = p.Status.Message
		return x
	case "Evicted", "NodeLost", "NodeShutdown", "Terminated", "Preempting", "NodeAffinity", "OutOfmemory", "OutOfcpu", "UnexpectedAdmissionError":
		x.Stopped, x.OOMKilled = true, false
		x.Detail = p.Status.Reason + ": " + p.Status.Message
		return x
	}
	for _, k := range p.Status.Conditions {
		if k.Type == disrupted && k.Status == "True" {
			x.Stopped = true
			x.Detail = fmt.Sprintf("the cluster took its place away (%s): %s", k.Reason, k.Message)
			return x
		}
	}
	if p.Metadata.DeletionTimestamp != nil && !x.OOMKilled && (x.Signal == int(syscall.SIGTERM) || x.Signal == int(syscall.SIGKILL)) {
		x.Stopped, x.Detail = true, "its pod was deleted by somebody else"
	}
	if f := before.State.Terminated; t == nil && f != nil {
		x.Stopped, x.Detail = true, fmt.Sprintf("%s of its data failed (exit code %d): %s", before.Name, f.ExitCode, strings.TrimSpace(f.Message))
		return x
	}
	if t == nil {
		x.Stopped = true
		x.Detail = cmp.Or(strings.TrimSpace(p.Status.Reason+" "+p.Status.Message), "the pod ended and its container's end is not known")
	}
	return x
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
