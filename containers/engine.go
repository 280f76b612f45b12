// Package containers runs sandboxed, labelled, GPU-equipped containers on a
// Docker engine and tells how they really ended, through restarts of the
// engine and of the caller. It also builds and moves images. It is the only
// importer of the Docker client, and shows none of its types.
//
// Every call to the engine has a deadline: a frozen dockerd accepts
// connections and never answers. The only thing that ever waits without one
// is the life of a container, and it is asked for again and again.
package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"

	"bench/internal/sshlink"

	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// dockerAPI is what is used of the Docker client: the seam for tests of faults
// that a live engine does not produce on demand.
type dockerAPI interface {
	Ping(context.Context) (types.Ping, error)
	Info(context.Context) (system.Info, error)
	ContainerCreate(context.Context, *container.Config, *container.HostConfig, *network.NetworkingConfig, *ocispec.Platform, string) (container.CreateResponse, error)
	ContainerStart(context.Context, string, container.StartOptions) error
	ContainerInspect(context.Context, string) (container.InspectResponse, error)
	ContainerWait(context.Context, string, container.WaitCondition) (<-chan container.WaitResponse, <-chan error)
	ContainerLogs(context.Context, string, container.LogsOptions) (io.ReadCloser, error)
	ContainerList(context.Context, container.ListOptions) ([]container.Summary, error)
	ContainerStop(context.Context, string, container.StopOptions) error
	ContainerRemove(context.Context, string, container.RemoveOptions) error
	ContainerStatPath(context.Context, string, string) (container.PathStat, error)
	CopyToContainer(context.Context, string, string, io.Reader, container.CopyToContainerOptions) error
	CopyFromContainer(context.Context, string, string) (io.ReadCloser, container.PathStat, error)
	VolumeList(context.Context, volume.ListOptions) (volume.ListResponse, error)
	VolumeRemove(context.Context, string, bool) error
	DiskUsage(context.Context, types.DiskUsageOptions) (types.DiskUsage, error)
	ImageInspect(context.Context, string, ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageBuild(context.Context, io.Reader, build.ImageBuildOptions) (build.ImageBuildResponse, error)
	ImageLoad(context.Context, io.Reader, ...client.ImageLoadOption) (image.LoadResponse, error)
	ImageSave(context.Context, []string, ...client.ImageSaveOption) (io.ReadCloser, error)
	ImagePull(context.Context, string, image.PullOptions) (io.ReadCloser, error)
	ImagePush(context.Context, string, image.PushOptions) (io.ReadCloser, error)
	ImageTag(context.Context, string, string) error
	ImageRemove(context.Context, string, image.RemoveOptions) ([]image.DeleteResponse, error)
	Close() error
}

var _ dockerAPI = (*client.Client)(nil)

// Engine is one Docker engine. It is safe for concurrent use.
type Engine struct {
	// Patience is how long an engine may be away (restarted, frozen,
	// unreachable) while something runs on it, before Wait and Logs give up
	// with an Unreachable error. Open sets it to 5 minutes; change it before
	// the engine is used.
	Patience time.Duration

	api     dockerAPI
	host    string
	at      endpoint
	tunnel  *tunnel // nil: not over ssh
	copies  bool
	warning string
	info    Info
	t       timing

	filling  keyed    // volumes that this process fills, and measuring
	measured measured // guarded by filling

	mu     sync.Mutex
	gpus   []GPU // of the last successful probe
	probed bool
	given  map[string][]string // GPUs of running containers, by id
	shells map[string]bool     // which images have a shell, see joins
}

// timing holds the deadlines; tests shorten them.
type timing struct {
	open    time.Duration // all of opening an engine
	hello   time.Duration // an engine's first answer; it is asked twice
	call    time.Duration // a call that only reads or flips a state
	long    time.Duration // a call that makes, starts or removes a container
	poll    time.Duration // one wait for the end of a container; then it is asked for anew
	measure time.Duration // an answer about the size of volumes serves so long
	stall   time.Duration // a transfer of files may stand still so long
	stale   time.Duration // another process that fills a volume is given up after so long without progress
	silence time.Duration // a stream may be silent so long before the engine is asked whether it lives
	backoff time.Duration // first pause after a failed call; doubles up to 16 times this
}

func defaultTiming() timing {
	return timing{open: 8 * time.Second, hello: 2500 * time.Millisecond, call: 15 * time.Second, long: 2 * time.Minute, poll: time.Minute, measure: time.Second, stall: 2 * time.Minute, stale: 45 * time.Second, silence: 30 * time.Second, backoff: 250 * time.Millisecond}
}

// pause sleeps after the n-th failure in a row, n from 0.
func (t timing) pause(ctx context.Context, n int) error {
	timer := time.NewTimer(t.backoff << min(n, 4))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Info describes an engine and its machine.
type Info struct {
	// ID is the engine's name for itself. Machines that were copied may share
	// one, so it is no identity; see Host.Name.
	ID      string `json:"id"`
	Name    string `json:"name"`    // host name of the machine
	Version string `json:"version"` // of the engine
	// CPUs and MemoryBytes are what the machine has in all.
	CPUs        int   `json:"cpus"`
	MemoryBytes int64 `json:"memory_bytes"`
	// Cgroup is "v1/cgroupfs", "v2/systemd" and the like. With systemd, GPUs
	// can get lost in running containers when systemd reloads.
	Cgroup string `json:"cgroup"`
	// NvidiaRuntime and CDIDevices are signs of GPUs, no proof: see Engine.GPUs.
	NvidiaRuntime bool     `json:"nvidia_runtime"`
	CDIDevices    []string `json:"cdi_devices,omitempty"` // fully qualified names, sorted
	// Remapped: users of containers are other users on the machine (rootless
	// engine, or userns-remap).
	Remapped    bool `json:"remapped"`
	LiveRestore bool `json:"live_restore"` // containers survive a restart of the engine
	Seccomp     bool `json:"seccomp"`
}

// LosesGPUs says whether GPUs that NVIDIA's hook puts into containers get lost
// when systemd loads its units anew: it then writes the rules of a container's
// devices as the engine knows them, and the engine does not know of these.
// Devices that the engine puts there itself, by CDI, stay.
func (i Info) LosesGPUs() bool { return strings.HasSuffix(i.Cgroup, "/systemd") }

// Open connects to the engine at an address; see ParseHost. An empty one means
// $DOCKER_HOST, else the default socket.
func Open(ctx context.Context, address string) (*Engine, error) {
	if address == "" {
		return OpenHost(ctx, Host{})
	}
	h, err := ParseHost(address)
	if err != nil {
		return nil, &Error{Kind: Misdescribed, Op: "open Docker engine", Host: address, Err: err, Hint: addressForms}
	}
	return OpenHost(ctx, h)
}

// OpenHost connects to the engine of a host. The API version is negotiated
// unless DOCKER_API_VERSION names one. It takes 8 seconds at most to say that a
// host does not answer.
func OpenHost(ctx context.Context, h Host) (_ *Engine, err error) {
	const op = "open Docker engine"
	t := defaultTiming()
	wrong := func(err error, hint string) error {
		return &Error{Kind: Misdescribed, Op: op, Host: h.String(), Err: err, Hint: hint}
	}
	p, err := h.endpoint()
	if err != nil {
		return nil, wrong(err, addressForms)
	}
	opening, cancel := context.WithTimeout(ctx, t.open)
	defer cancel()
	e := newEngine(nil, h.String())
	e.at, e.copies = p, p.copies
	if p.plainly {
		e.warning = fmt.Sprintf("the connection to host %s is neither encrypted nor does it prove who is who: everybody in between can run anything there", h)
	}
	if p.scheme == "ssh" {
		e.tunnel, err = openTunnel(opening, p)
		if err != nil {
			return nil, e.openFailure(ctx, err)
		}
	}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	opts, err := p.options(e.tunnel)
	if err != nil {
		return nil, wrong(err, "name the folder with ca.pem, cert.pem and key.pem (tls=DIR), all valid and the last two of one pair, or say that there is no encryption (tls=no)")
	}
	e.api, err = client.NewClientWithOpts(append(opts, client.WithVersionFromEnv(), client.WithAPIVersionNegotiation())...)
	if err != nil {
		e.api = nil
		return nil, wrong(err, "look at the address of the Docker engine, and at ca.pem: it must be a file of certificates in PEM")
	}
	if err := e.connect(opening); err != nil {
		if e.tunnel != nil {
			// The connection ends a moment before ssh says why.
			for n := 0; n < 20 && !e.tunnel.Told(); n++ {
				time.Sleep(25 * time.Millisecond)
			}
			if said, ok := errors.AsType[*sshlink.Error](e.tunnel.Explain(err)); ok {
				err = said
			}
		}
		return nil, e.openFailure(ctx, err)
	}
	return e, nil
}

// openFailure is the error of opening: the caller's own end, what ssh said, or
// the call's.
func (e *Engine) openFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if said, ok := errors.AsType[*sshlink.Error](err); ok {
		return &Error{Kind: sshKinds[said.Fault], Op: "open Docker engine", Host: e.host, Err: said, Hint: said.Hint}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = &Error{Kind: Unreachable, Op: "open Docker engine", Host: e.host, Err: errSilent, Hint: e.at.remedy(errSilent)}
	}
	return err
}

func newEngine(api dockerAPI, host string) *Engine {
	return &Engine{Patience: 5 * time.Minute, api: api, host: host, t: defaultTiming()}
}

// connect pings the engine, agrees on an API version and learns what it is.
func (e *Engine) connect(ctx context.Context) error {
	if err := e.greet(ctx); err != nil {
		return err
	}
	i, err := ask(ctx, e, e.t.call, "read what the Docker engine is", e.api.Info)
	if err != nil {
		return err
	}
	if i.OSType != "" && i.OSType != "linux" {
		return &Error{Kind: Refused, Op: "open Docker engine", Host: e.host, Err: usage("it runs %s containers, not Linux ones", i.OSType),
			Hint: "switch the engine to Linux containers"}
	}
	_, nvidia := i.Runtimes["nvidia"]
	e.info = Info{
		ID: i.ID, Name: i.Name, Version: i.ServerVersion, CPUs: i.NCPU, MemoryBytes: i.MemTotal,
		Cgroup: "v" + i.CgroupVersion + "/" + i.CgroupDriver, NvidiaRuntime: nvidia, LiveRestore: i.LiveRestoreEnabled,
	}
	for _, d := range i.DiscoveredDevices {
		if d.Source == "cdi" {
			e.info.CDIDevices = append(e.info.CDIDevices, d.ID)
		}
	}
	sort.Strings(e.info.CDIDevices)
	for _, o := range i.SecurityOptions {
		name, _, _ := strings.Cut(o, ",")
		switch name {
		case "name=rootless", "name=userns":
			e.info.Remapped = true
		case "name=seccomp", "seccomp":
			e.info.Seccomp = true
		}
	}
	return nil
}

// greet asks whether the engine answers, and once more if it does not in time: a
// connection that leads nowhere is found out, and one that was lost made anew.
func (e *Engine) greet(ctx context.Context) error {
	err := e.pingWithin(ctx, e.t.hello)
	if IsKind(err, Unreachable) && errors.Is(err, errSilent) {
		err = e.pingWithin(ctx, e.t.hello)
	}
	return err
}

// Close frees the connections. Containers go on.
func (e *Engine) Close() error {
	var err error
	if e.api != nil {
		err = e.api.Close()
	}
	if e.tunnel != nil {
		e.tunnel.Close()
	}
	return err
}

// Host returns what the engine's host is called.
func (e *Engine) Host() string { return e.host }

// Copies says whether files get to containers through the engine, because it
// does not see the folders of this machine.
func (e *Engine) Copies() bool { return e.copies }

// Warning is a sentence about the connection that people should read; often "".
func (e *Engine) Warning() string { return e.warning }

// Info returns what the engine said about itself when it was opened.
func (e *Engine) Info() Info {
	i := e.info
	i.CDIDevices = slices.Clone(i.CDIDevices)
	return i
}

// Ping asks whether the engine answers.
func (e *Engine) Ping(ctx context.Context) error { return e.pingWithin(ctx, e.t.call) }

func (e *Engine) pingWithin(ctx context.Context, d time.Duration) error {
	_, err := ask(ctx, e, d, "open Docker engine", e.api.Ping)
	return err
}

// ask calls f with a deadline of d and turns its error into an *Error.
func ask[T any](ctx context.Context, e *Engine, d time.Duration, op string, f func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	v, err := f(bounded)
	return v, e.failure(ctx, op, err)
}

// tell is ask for calls without a result.
func tell(ctx context.Context, e *Engine, d time.Duration, op string, f func(context.Context) error) error {
	_, err := ask(ctx, e, d, op, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// guard calls f, which may take any time as long as it calls touch now and
// then. When f was silent for a while, the engine is asked whether it lives;
// if it does not answer, f's context is cancelled and guard returns an
// Unreachable error.
func (e *Engine) guard(ctx context.Context, op string, f func(ctx context.Context, touch func()) error) error {
	guarded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	touched := make(chan struct{}, 1)
	touch := func() {
		select {
		case touched <- struct{}{}:
		default:
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		timer := time.NewTimer(e.t.silence)
		defer timer.Stop()
		for {
			select {
			case <-stop:
				return
			case <-guarded.Done():
				return
			case <-touched:
			case <-timer.C:
				if err := e.Ping(guarded); err != nil {
					cancel(err)
					return
				}
			}
			timer.Reset(e.t.silence)
		}
	}()
	err := f(guarded, touch)
	close(stop)
	if guarded.Err() != nil && ctx.Err() == nil {
		err = context.Cause(guarded)
	}
	cancel(nil)
	<-stopped
	return e.failure(ctx, op, err)
}
