// Package kubernetes runs trainers as Jobs (batch/v1) of a Kubernetes cluster,
// confined as docs/sandbox.md says. It talks to the cluster through the user's
// kubectl, so that every kind of login works and no client is linked in.
//
// A volume that the user names carries data, models and results: one that is
// mounted on this machine too, or else one that a helper pod unpacks to and
// packs from. A batch outlives the bench that started it: its Job is found
// again by its name, which is made of the batch's id and the home folder. What
// a trainer wrote is checked before it reaches Dir.Out.
package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

// Name is what records call this executor.
const Name = "kubernetes"

// Place is where Jobs go; a batch's record keeps it, so that a batch can be
// found, watched and stopped without being told again.
type Place struct {
	Kubectl   string `json:"kubectl,omitempty"` // program; "": kubectl
	Context   string `json:"context,omitempty"` // of kubectl's configuration; "": the current one
	Namespace string `json:"namespace"`         // "": that of the context
	Instance  string `json:"instance"`          // tells one HOME from others in a namespace
	Claim     string `json:"claim,omitempty"`   // PersistentVolumeClaim; "": Store
	Path      string `json:"path,omitempty"`    // where this machine has the claim's volume; "": nowhere
	Folder    string `json:"folder,omitempty"`  // in the volume; "": bench
	Store     Store  `json:"store,omitzero"`    // object store, instead of a claim
}

// Options of an executor. An executor whose Image is "" can attach to batches
// and not start any.
type Options struct {
	Place
	// StoreKeys are the login of Store. They stay on this machine.
	StoreKeys StoreKeys
	// Image holds the trainer: it is the image's entrypoint and takes --batch
	// and --out.
	Image string
	// Entrypoint is that of the image, if it is known. The trainer then starts
	// behind a program, run by the image's python3, that cuts off its network
	// from inside. A store needs it.
	Entrypoint     []string
	Queue          string            // of Kueue; "": none
	GPUResource    string            // what a GPU is called; "": nvidia.com/gpu
	NodeSelector   map[string]string // labels of nodes
	Tolerations    []Toleration
	PriorityClass  string
	RuntimeClass   string
	ServiceAccount string   // its token is never given to a pod
	PullSecrets    []string // of the image's registry
	User, Group    int      // of the program; 0: see NewOptions
	// OpenNetwork: no NetworkPolicy is made, because somebody else did.
	OpenNetwork bool
	// StartTimeout is how long a batch may wait for its start; 0: for ever.
	StartTimeout time.Duration
	// Limits of each batch. Time counts from the start of its pod. 0 CPUs are
	// 4, 0 bytes are 16 GiB: a pod has to say what it wants.
	Limits  runner.Limits
	Version string        // of bench, for a label
	Grace   time.Duration // between SIGTERM and SIGKILL; 0: 10 s
	// DeliveryGrace is how long the last results may take on their way to a
	// store; Grace is no shorter then. 0: 30 s.
	DeliveryGrace time.Duration
	OutBytes      int64         // what a batch may write to its out folder; 0: 4 GiB
	Poll          time.Duration // between two looks at the cluster, for all batches in one; 0: 2 s
	Patience      time.Duration // how long the API server may be away; 0: 5 min
	// NodePatience is how long a pod may take to go after it should have: its
	// node does not answer. 0: 10 min.
	NodePatience time.Duration
	// Notice is told, in a sentence, why batches wait. May be nil.
	Notice func(string)
}

// The user that runs trainers when bench is root: nobody.
const nobody = 65534

func (o *Options) fill() {
	o.GPUResource = cmp.Or(o.GPUResource, "nvidia.com/gpu")
	o.Limits.CPUs = cmp.Or(o.Limits.CPUs, 4)
	o.Limits.MemoryBytes = cmp.Or(o.Limits.MemoryBytes, 16<<30)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.DeliveryGrace = cmp.Or(o.DeliveryGrace, 30*time.Second)
	o.OutBytes = cmp.Or(o.OutBytes, kept.MaxOut)
	o.Poll = cmp.Or(o.Poll, 2*time.Second)
	o.Patience = cmp.Or(o.Patience, 5*time.Minute)
	o.NodePatience = cmp.Or(o.NodePatience, 10*time.Minute)
	o.Instance = o.Instance[:min(12, len(o.Instance))]
	if o.User == 0 {
		o.User = max(0, os.Getuid())
	}
	if o.Group == 0 {
		o.Group = max(0, os.Getgid())
	}
	o.User, o.Group = cmp.Or(o.User, nobody), cmp.Or(o.Group, nobody)
}

// Executor implements runner.Executor. Close ends what it started on this
// machine, and no batch.
type Executor struct {
	o       Options
	batches kept.Batches[*handle]

	mu        sync.Mutex
	namespace string // of batches that are started; "": not asked for yet
	clusters  map[Place]*cluster
	checked   bool  // the namespace has what batches need
	gpus      *bool // whether there are any; nil: not asked yet
	said      map[string]time.Time
}

// New returns an executor.
func New(o Options) *Executor {
	o.fill()
	return &Executor{o: o, clusters: map[Place]*cluster{}, said: map[string]time.Time{}}
}

// Close ends the children of this executor.
func (e *Executor) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, c := range e.clusters {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// here is the place where batches are started, with its namespace.
func (e *Executor) here(ctx context.Context) (*cluster, error) {
	if e.o.Image == "" || e.o.Claim == "" && e.o.Store == (Store{}) {
		return nil, &runner.PreconditionError{What: "nothing says where in Kubernetes batches are to run", Hint: "give a kubernetes: mapping with image and pvc or store; the manual describes it"}
	}
	p := e.o.Place
	e.mu.Lock()
	p.Namespace = cmp.Or(p.Namespace, e.namespace)
	e.mu.Unlock()
	if p.Namespace == "" {
		var err error
		if p.Namespace, err = dial(p.Kubectl, p.Context).namespace(ctx); err != nil {
			return nil, err
		}
		e.mu.Lock()
		e.namespace = p.Namespace
		e.mu.Unlock()
	}
	return e.cluster(p), nil
}

func (e *Executor) cluster(p Place) *cluster {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.clusters[p]
	if c == nil {
		c = open(p, e.o)
		e.clusters[p] = c
	}
	return c
}

// record is executor.json: what a later bench needs to find the Job.
type record struct {
	Schema int    `json:"schema"`
	Batch  job.ID `json:"batch"`
	Run    string `json:"run"` // new for each start
	Place  Place  `json:"place"`
	Job    string `json:"job"`
	// Whole: the cluster has all that the Job needs. It has not if bench was
	// killed in between.
	Whole  bool         `json:"whole"`
	Folder string       `json:"folder"` // of the volume
	Where  runner.Where `json:"where"`
	Node   string       `json:"node,omitempty"` // "": not known yet
	// Pod whose log is being copied, and the sizes of the log and of the events
	// before it, which adds to them.
	Pod        string `json:"pod,omitempty"`
	LogFrom    int64  `json:"log_from"`
	EventsFrom int64  `json:"events_from"`
}

const recordSchema = 1

// Start implements runner.Executor. When the batch has ended already, Start
// runs it again; the log and the events go on at their ends. It does not wait
// for the cluster to have room.
func (e *Executor) Start(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	d, err := kept.Absolute(d)
	if err != nil {
		return nil, err
	}
	h, err := e.batches.Start(ctx, own(d), b, d, func() (*handle, error) { return e.attach(ctx, b, d) }, func() (*handle, error) { return e.launch(ctx, b, d) })
	if err != nil {
		return nil, err
	}
	return h, nil
}

// launch fills the volume and makes the Job.
func (e *Executor) launch(ctx context.Context, b job.Batch, d job.Dir) (_ *handle, err error) {
	c, err := e.here(ctx)
	if err != nil {
		return nil, err
	}
	gpu, err := e.prepared(ctx, c, b)
	if err != nil {
		return nil, err
	}
	o := e.o
	o.Place = c.place
	run := rand.Text()
	h := &handle{e: e, c: c, d: d, b: b, End: kept.NewEnd(), r: record{
		Schema: recordSchema, Batch: b.ID, Run: run, Place: c.place, Job: o.jobName(b.ID), Folder: o.runFolder(b.ID, run),
		Where:   runner.Where{Executor: Name, Host: c.host(), Image: o.Image},
		LogFrom: kept.Size(d.Log()), EventsFrom: kept.Size(d.Events()),
	}}
	if gpu {
		h.r.Where.GPUs = []string{o.GPUResource}
	}
	defer func() {
		if err != nil {
			ctx := context.WithoutCancel(ctx)
			err = errors.Join(err, h.clean(ctx), kept.Remove(d.Executor()))
		}
	}()
	if err := h.cleanLocal(); err != nil {
		return nil, err
	}
	threads := b.Threads
	if threads == 0 {
		threads = max(1, int(o.Limits.CPUs))
	}
	model, err := c.fill(ctx, b, d, h.r.Folder, threads)
	if err != nil {
		return nil, err
	}
	r := order{batch: b.ID, name: h.r.Job, run: run, in: h.r.Folder + "/in", out: h.r.Folder + "/out", model: model, gpu: gpu, threads: threads}
	for _, j := range b.Jobs {
		r.jobs = append(r.jobs, j.ID)
	}
	s, err := c.volume.supply(ctx, r)
	if err != nil {
		return nil, err
	}
	h.r.Whole = len(s.objects) == 0
	if err := h.save(); err != nil {
		return nil, err
	}
	// The cluster has answered before, so it is worth waiting for; what it
	// forbids now it hardly allows in a minute.
	err = c.persist(ctx, min(time.Minute, o.Patience), func() error { return c.submit(ctx, o.manifest(r, s), s.objects) })
	if err != nil {
		return nil, errors.Join(c.precondition(err), c.delete(context.WithoutCancel(ctx), h.r.Job, run, "Background"))
	}
	if !h.r.Whole {
		h.r.Whole = true
		return h, h.save()
	}
	return h, nil
}

// prepared makes sure, once, that the namespace has what batches need, and says
// whether this one gets a GPU.
func (e *Executor) prepared(ctx context.Context, c *cluster, b job.Batch) (gpu bool, err error) {
	e.mu.Lock()
	checked := e.checked
	e.mu.Unlock()
	if !checked {
		if err := c.check(ctx); err != nil {
			return false, c.precondition(err)
		}
		if !e.o.OpenNetwork {
			if err := c.isolate(ctx, e.o); err != nil {
				return false, c.precondition(err)
			}
		}
		e.mu.Lock()
		e.checked = true
		e.mu.Unlock()
	}
	if b.Device == "cpu" || e.o.Limits.GPU == "none" || e.o.GPUResource == "none" {
		if b.Device == "cuda" {
			return false, &runner.PreconditionError{What: "the batch asks for a GPU and the configuration allows none", Hint: "leave out one of the two"}
		}
		return false, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gpus == nil {
		there, err := c.hasGPUs(ctx, e.o.GPUResource)
		if err != nil {
			return false, c.precondition(err)
		}
		e.gpus = &there
	}
	if !*e.gpus && b.Device == "cuda" {
		return false, &runner.PreconditionError{What: "no node of the cluster has " + e.o.GPUResource, Hint: "name the resource that GPUs have there with gpu_resource: (kubectl describe nodes), or leave out --device cuda"}
	}
	return *e.gpus, nil
}

// Attach implements runner.Executor. A batch that ended is found as long as
// its record is in d; Wait then returns at once.
func (e *Executor) Attach(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	d, err := kept.Absolute(d)
	if err != nil {
		return nil, err
	}
	h, err := e.attach(ctx, b, d)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (e *Executor) attach(ctx context.Context, b job.Batch, d job.Dir) (*handle, error) {
	if h := e.batches.Get(b, d); h != nil {
		return h, nil
	}
	notFound := fmt.Errorf("batch %s: %w", b.ID.Short(), runner.ErrNotFound)
	var r record
	if err := kept.ReadRecord(b, d, &r); err != nil {
		return nil, err
	}
	if r.Batch != b.ID || r.Where.Executor != Name || r.Schema != recordSchema {
		return nil, notFound
	}
	h := &handle{e: e, c: e.cluster(r.Place), d: d, b: b, r: r, End: kept.NewEnd()}
	if over, err := h.recorded(); err != nil || over {
		return h, err
	}
	var v view
	err := h.c.persist(ctx, min(10*time.Second, e.o.Patience), func() (err error) {
		v, err = h.c.view(ctx, r.Job, r.Run)
		return err
	})
	if err != nil {
		return nil, h.c.precondition(err)
	}
	if !r.Whole {
		err := h.c.delete(ctx, r.Job, r.Run, "Foreground")
		return nil, errors.Join(notFound, err, h.clean(ctx), kept.Remove(d.Executor()))
	}
	if v.phase == gone {
		// Somebody may have seen it through since we looked.
		if over, err := h.recorded(); err != nil || over {
			return h, err
		}
		// Somebody removed it. What it had finished counts.
		if err := h.collect(ctx, true); err != nil {
			return nil, err
		}
		return nil, errors.Join(notFound, h.clean(ctx), kept.Remove(d.Executor()))
	}
	e.batches.Follow(b, d, h, nil)
	return h, nil
}

// notice says a sentence, each once in a while.
func (e *Executor) notice(s string) {
	if e.o.Notice == nil {
		return
	}
	e.mu.Lock()
	last, again := e.said[s]
	again = again && time.Since(last) < 30*time.Minute
	if !again {
		e.said[s] = time.Now()
	}
	e.mu.Unlock()
	if !again {
		e.o.Notice(s)
	}
}

// The folders of a batch beside those of job.Dir.
func own(d job.Dir) kept.Folder { return kept.Folder(filepath.Join(string(d), "kubernetes")) }
func fetched(d job.Dir) string  { return filepath.Join(string(own(d)), "out") }
