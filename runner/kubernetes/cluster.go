package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"bench/runner"
)

// cluster is a Place with a connection to it.
type cluster struct {
	*connection
	place  Place
	volume volume
	poll   time.Duration
	// nodePatience is Options.NodePatience.
	nodePatience time.Duration

	mu      sync.Mutex
	latest  *snapshot
	current *looking // nil: nobody is asking
	filling map[string]*sync.Mutex
}

// snapshot is everything of one instance in the namespace at one moment.
type snapshot struct {
	begun time.Time // before the question was asked
	jobs  map[string]*batchJob
	pods  map[string][]pod // by run
}

// looking is a question that has not been answered yet.
type looking struct {
	begun time.Time
	done  chan struct{}
	s     *snapshot
	err   error
}

func open(p Place, o Options) *cluster {
	c := &cluster{connection: dial(p.Kubectl, p.Context), place: p, poll: o.Poll, nodePatience: o.NodePatience, filling: map[string]*sync.Mutex{}}
	o.Place = p
	switch {
	case p.Store != Store{}:
		c.volume = &store{c: c, o: o, bucket: newBucket(p.Store, o.StoreKeys), placed: map[string][]planFile{}, there: map[string]time.Time{}}
	case p.Path != "":
		c.volume = mounted{root: p.Path, claim: p.Claim, shared: o.User != ownUser()}
	default:
		c.volume = &remote{c: c, o: o}
	}
	return c
}

func (c *cluster) close() error {
	return c.connection.close()
}

// host is what records call the cluster.
func (c *cluster) host() string {
	if c.place.Context != "" {
		return c.place.Context + "/" + c.place.Namespace
	}
	return "kubernetes/" + c.place.Namespace
}

func (c *cluster) in(group, kind string) string {
	return "/" + group + "/namespaces/" + url.PathEscape(c.place.Namespace) + "/" + kind
}

func (c *cluster) jobs() string { return c.in("apis/batch/v1", "jobs") }
func (c *cluster) pods() string { return c.in("api/v1", "pods") }

// selector picks what belongs to this instance.
func (c *cluster) selector() url.Values {
	return url.Values{"labelSelector": {labelManaged + "=bench," + labelInstance + "=" + c.place.Instance}}
}

// look returns what the cluster says, asked for no earlier than after. All who
// want to know at the same time share one question, and there is one every
// poll at the most.
func (c *cluster) look(ctx context.Context, after time.Time) (*snapshot, error) {
	for {
		c.mu.Lock()
		if c.latest != nil && !c.latest.begun.Before(after) {
			defer c.mu.Unlock()
			return c.latest, nil
		}
		q := c.current
		if q == nil {
			var pause time.Duration
			if c.latest != nil {
				pause = time.Until(c.latest.begun.Add(c.poll))
			}
			q = &looking{begun: time.Now().Add(max(0, pause)), done: make(chan struct{})}
			c.current = q
			// Not the context of the one who happens to come first.
			go c.ask(context.WithoutCancel(ctx), q, pause)
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-q.done:
		}
		if !q.begun.Before(after) {
			return q.s, q.err
		}
	}
}

func (c *cluster) ask(ctx context.Context, q *looking, pause time.Duration) {
	if pause > 0 {
		time.Sleep(pause)
	}
	s := &snapshot{begun: q.begun, jobs: map[string]*batchJob{}, pods: map[string][]pod{}}
	var jobs list[batchJob]
	var pods list[pod]
	// Pods first: a Job that is gone when it is asked for later leaves no pod
	// unseen that was made in between.
	q.err = c.call(ctx, http.MethodGet, c.pods(), c.selector(), nil, &pods)
	if q.err == nil {
		q.err = c.call(ctx, http.MethodGet, c.jobs(), c.selector(), nil, &jobs)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = nil
	if q.err == nil {
		for i := range jobs.Items {
			s.jobs[jobs.Items[i].Metadata.Name] = &jobs.Items[i]
		}
		for _, p := range pods.Items {
			run := p.Metadata.Labels[labelRun]
			s.pods[run] = append(s.pods[run], p)
		}
		q.s, c.latest = s, s
	}
	close(q.done)
}

// view is how a start of a batch is now.
func (c *cluster) view(ctx context.Context, name, run string) (view, error) {
	s, err := c.look(ctx, time.Now())
	if err != nil {
		return view{}, err
	}
	j := s.jobs[name]
	if j != nil && j.Metadata.Labels[labelRun] != run {
		j = nil // of another start
	}
	return look(j, s.pods[run], time.Now(), c.nodePatience), nil
}

// submit makes a Job and then the objects that it owns. A Job of an earlier
// start of the same batch, whose folder is gone, is removed; the same one that is
// there already is fine.
func (c *cluster) submit(ctx context.Context, j batchJob, objects []owned) error {
	made, err := c.make(ctx, j)
	if err != nil {
		return err
	}
	for _, o := range objects {
		m := o.metadata()
		m.OwnerReferences = []ownerReference{{"batch/v1", "Job", made.Metadata.Name, made.Metadata.UID}}
		if err := c.call(ctx, http.MethodPost, c.in(o.kind()), nil, o, nil); err != nil && !isReason(err, "AlreadyExists") {
			return err
		}
	}
	return nil
}

func (c *cluster) make(ctx context.Context, j batchJob) (made batchJob, err error) {
	for {
		err := c.call(ctx, http.MethodPost, c.jobs(), nil, j, &made)
		if !isReason(err, "AlreadyExists") {
			if _, ok := errors.AsType[*awayError](err); ok {
				// It may have been made all the same.
				err = errors.Join(err, c.delete(context.WithoutCancel(ctx), j.Metadata.Name, j.Metadata.Labels[labelRun], "Background"))
			}
			return made, err
		}
		var old batchJob
		err = c.call(ctx, http.MethodGet, c.jobs()+"/"+j.Metadata.Name, nil, nil, &old)
		switch {
		case isReason(err, "NotFound"):
			continue
		case err != nil:
			return made, err
		case old.Metadata.Labels[labelRun] == j.Metadata.Labels[labelRun]:
			return old, nil
		case old.Metadata.Labels[labelManaged] != "bench" || old.Metadata.Labels[labelInstance] != c.place.Instance:
			return made, &runner.PreconditionError{What: fmt.Sprintf("a Job %s that bench did not make is in the way", j.Metadata.Name), Hint: "remove it: " + c.hint("delete job "+j.Metadata.Name)}
		}
		if err := c.delete(ctx, old.Metadata.Name, old.Metadata.Labels[labelRun], "Foreground"); err != nil {
			return made, err
		}
		select {
		case <-ctx.Done():
			return made, context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// delete removes a Job of this run with its pods: Foreground keeps the Job
// until they have ended, Background does not. One that is not there is fine.
func (c *cluster) delete(ctx context.Context, name, run, how string) error {
	var j batchJob
	err := c.call(ctx, http.MethodGet, c.jobs()+"/"+name, nil, nil, &j)
	if isReason(err, "NotFound") || err == nil && j.Metadata.Labels[labelRun] != run {
		return nil
	}
	if err != nil {
		return err
	}
	err = c.call(ctx, http.MethodDelete, c.jobs()+"/"+name, nil, deletion{"DeleteOptions", "v1", how, &preconditions{j.Metadata.UID}}, nil)
	if isReason(err, "NotFound") || isReason(err, "Conflict") {
		return nil
	}
	return err
}

// log opens a pod's log from a time on, with a time before each line.
func (c *cluster) log(ctx context.Context, pod string, follow bool, since time.Time) (io.ReadCloser, error) {
	q := url.Values{"container": {trainerName}, "timestamps": {"true"}}
	if follow {
		q.Set("follow", "true")
	}
	if !since.IsZero() {
		q.Set("sinceTime", since.UTC().Format(time.RFC3339)) // whole seconds
	}
	return c.open(ctx, http.MethodGet, c.pods()+"/"+url.PathEscape(pod)+"/log", q, nil)
}

// events returns what the cluster says of an object, the latest last.
func (c *cluster) events(ctx context.Context, name string) ([]string, error) {
	var events list[struct {
		Reason, Message string
	}]
	q := url.Values{"fieldSelector": {"involvedObject.name=" + name + ",type=Warning"}}
	if err := c.call(ctx, http.MethodGet, c.in("api/v1", "events"), q, nil, &events); err != nil {
		return nil, err
	}
	var said []string
	for _, e := range events.Items {
		said = append(said, e.Reason+": "+e.Message)
	}
	return said, nil
}

// check asks whether the namespace is there and has the claim.
func (c *cluster) check(ctx context.Context) error {
	if c.place.Claim == "" {
		return c.volume.check(ctx)
	}
	var claim struct {
		Status struct{ Phase string }
	}
	err := c.call(ctx, http.MethodGet, c.in("api/v1", "persistentvolumeclaims")+"/"+url.PathEscape(c.place.Claim), nil, nil, &claim)
	switch {
	case isReason(err, "NotFound"):
		return &runner.PreconditionError{What: fmt.Sprintf("namespace %s has no PersistentVolumeClaim %s", c.place.Namespace, c.place.Claim),
			Hint: c.hint("-n "+c.place.Namespace+" get pvc") + " lists those there are; name one with pvc: {claim: NAME}", Err: err}
	case isReason(err, "Forbidden"): // whoever may not look may still use it
		err = nil
	case err == nil && claim.Status.Phase == "Lost":
		return &runner.PreconditionError{What: fmt.Sprintf("PersistentVolumeClaim %s has lost its volume", c.place.Claim), Hint: "ask who runs the cluster, or name another with pvc: {claim: NAME}"}
	}
	if err != nil {
		return err
	}
	return c.volume.check(ctx)
}

// isolate makes the NetworkPolicy of this instance.
func (c *cluster) isolate(ctx context.Context, o Options) error {
	o.Place = c.place
	err := c.call(ctx, http.MethodPost, c.in("apis/networking.k8s.io/v1", "networkpolicies"), nil, o.isolation(), nil)
	if isReason(err, "AlreadyExists") {
		return nil
	}
	if isReason(err, "Forbidden") {
		return &runner.PreconditionError{What: "you may not make a NetworkPolicy in namespace " + c.place.Namespace + ", so the trainers' network is not known to be cut",
			Hint: "ask who runs the cluster for a policy that denies all traffic of pods labelled " + labelManaged + "=bench, then say network_policy: none in the kubernetes: mapping", Err: err}
	}
	return err
}

// hasGPUs says whether any node has this resource. Whoever may not look at
// nodes is taken to have some.
func (c *cluster) hasGPUs(ctx context.Context, resource string) (bool, error) {
	var nodes list[struct {
		Status struct {
			Allocatable map[string]string `json:"allocatable"`
		} `json:"status"`
	}]
	err := c.call(ctx, http.MethodGet, "/api/v1/nodes", nil, nil, &nodes)
	if isReason(err, "Forbidden") {
		return true, nil
	}
	for _, n := range nodes.Items {
		if v := n.Status.Allocatable[resource]; v != "" && v != "0" {
			return true, nil
		}
	}
	return false, err
}

// passes says whether an error may pass by itself: the API server is away, or
// forbids everything in its first moments, or a login has run out and is
// renewed.
func passes(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && (e.Code == http.StatusForbidden || e.Code == http.StatusUnauthorized) || errors.As(err, new(*awayError))
}

// persist tries again what may pass, for some time.
func (c *cluster) persist(ctx context.Context, patience time.Duration, do func() error) error {
	for end := time.Now().Add(patience); ; {
		err := do()
		if err == nil || !passes(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(c.poll):
		}
	}
}

// precondition turns errors that the user can do something about into
// *runner.PreconditionError.
func (c *cluster) precondition(err error) error {
	if errors.As(err, new(*runner.PreconditionError)) {
		return err
	}
	if away, ok := errors.AsType[*awayError](err); ok {
		return &runner.PreconditionError{What: "the Kubernetes cluster does not answer", Hint: "try: " + c.hint("-n "+c.place.Namespace+" get jobs"), Err: away.err}
	}
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	what, hint := "the Kubernetes cluster refuses this", "mend what the message names in the kubernetes: mapping"
	switch {
	case e.Code == http.StatusUnauthorized:
		what, hint = "the Kubernetes cluster does not accept the login", "log in again; "+c.hint("auth whoami")+" says who you are"
	case e.Reason == "Forbidden":
		what, hint = "the Kubernetes cluster does not allow this in namespace "+c.place.Namespace, "what bench needs: "+c.hint("-n "+c.place.Namespace+" auth can-i create jobs")+"; the message may also speak of a quota or of the namespace's pod security level"
	case e.Reason == "NotFound" && e.Kind == "namespaces":
		what, hint = "there is no namespace "+c.place.Namespace, "name one with namespace: in the kubernetes: mapping"
	case e.Reason == "Invalid":
		what = "the Kubernetes cluster does not take the Job"
	case e.Reason == "NotFound" && e.Kind == "":
		what, hint = "the Kubernetes cluster is too old or not one", "batch/v1 Jobs are needed: Kubernetes 1.29 or later"
	}
	return &runner.PreconditionError{What: what, Hint: hint, Err: errors.New(cmp.Or(e.Message, e.Error()))}
}
