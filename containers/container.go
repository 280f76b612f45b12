package containers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// Container is a container that exists or existed.
type Container struct {
	e        *Engine
	id, name string
}

// Name returns the container's name, ID the engine's own name for it.
func (c *Container) Name() string { return c.name }

// ID returns the engine's id of the container.
func (c *Container) ID() string { return c.id }

// Exit tells how a container ended.
type Exit struct {
	// Code is 128 + N when signal N ended the program, 127 when the image has
	// no such program, 126 when it cannot be run.
	Code int
	// OOMKilled: the kernel killed a process in it for memory, perhaps a child
	// only; read it beside Code. On cgroup v2, and for what happens while the
	// engine is away, engines do not always notice.
	OOMKilled bool
	// Error is the engine's own remark, if it has one.
	Error string
	// EngineLost: while Wait waited, the engine went away and came back. One
	// without live-restore stops its containers on the way (Code 143 or 137).
	EngineLost bool
}

// State is what the engine knows of a container.
type State struct {
	Status                     string // created, running, paused, exited, dead, removing
	Exit                       Exit   // if Ended
	Image                      string // id (digest of the configuration)
	GPUs                       []string
	Labels                     map[string]string
	Created, Started, Finished time.Time // zero: not yet
}

// Ended says whether the program has run and runs no more.
func (s State) Ended() bool { return s.Status == "exited" || s.Status == "dead" }

// Start creates and starts a container of this name, or finds the one there
// is: it is idempotent on name, and safe against other processes that start
// the same. A container that an earlier Start left behind unstarted is
// started. When the program cannot be started, the container is removed.
//
// Errors are *Error: ImageMissing, GPURefused, MountRefused, NameTaken (a
// container of this name has other Labels), NoSpace, Unreachable, …
func (e *Engine) Start(ctx context.Context, name string, s Spec) (*Container, error) {
	op := "start container " + name
	if err := s.check(); err != nil {
		return nil, err
	}
	img, err := e.Image(ctx, s.Image)
	if err != nil {
		return nil, err
	}
	cfg, host := s.docker(e.info, img, e.requests(s.GPUs), time.Now())
	var since time.Time // of the first of the failures in a row that say nothing
	for n := 0; ; n++ {
		c, err := e.createOrFind(ctx, op, name, s, cfg, host)
		if err == nil {
			err = c.start(ctx, op, s.Prepare)
		}
		switch {
		case err == nil:
			return c, nil
		case IsKind(err, Gone): // removed by somebody between two of our calls
		case IsKind(err, Refused) && !since.IsZero():
			// An engine that is killed while it starts a container does not know what
			// to do with that one afterwards ("id already in use", "task … already
			// exists"); c.start has removed it.
			since = time.Time{}
			continue
		case !IsKind(err, Unreachable):
			return nil, err
		}
		// Whether the engine did it is not known. The name makes asking again safe.
		if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) > min(e.Patience, e.t.long) {
			return nil, err
		}
		if err := e.t.pause(ctx, n); err != nil {
			return nil, err
		}
	}
}

// createOrFind creates the container or, if the name is in use, finds it.
func (e *Engine) createOrFind(ctx context.Context, op, name string, s Spec, cfg *container.Config, host *container.HostConfig) (*Container, error) {
	made, err := ask(ctx, e, e.t.long, op, func(ctx context.Context) (container.CreateResponse, error) {
		return e.api.ContainerCreate(ctx, cfg, host, nil, nil, name)
	})
	if err == nil {
		return &Container{e, made.ID, name}, nil
	}
	if !isConflict(err) {
		return nil, err
	}
	c, err := e.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	st, err := c.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	if st.Status == "removing" {
		return nil, &Error{Kind: Gone, Op: op, Host: e.host}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		if st.Labels[k] != s.Labels[k] {
			return nil, &Error{Kind: NameTaken, Op: op, Host: e.host, Err: fmt.Errorf("its label %s is %q, not %q", k, st.Labels[k], s.Labels[k]),
				Hint: "see whose it is (docker inspect " + name + "), then remove it (docker rm -f " + name + ")"}
		}
	}
	return c, nil
}

// isConflict says whether err is an *Error for a name in use.
func isConflict(err error) bool {
	return cerrdefs.IsConflict(err) || cerrdefs.IsAlreadyExists(err)
}

// start starts c unless it runs or ran. A container that cannot be started is
// removed. An Unreachable error means that it may have been started.
func (c *Container) start(ctx context.Context, op string, prepare func(context.Context, *Container) error) error {
	st, err := c.Inspect(ctx)
	if err != nil || st.Status != "created" {
		return err
	}
	if prepare != nil {
		if err := prepare(ctx, c); err != nil {
			if ctx.Err() != nil || IsKind(err, Unreachable) || IsKind(err, Gone) {
				return err
			}
			return c.discard(ctx, err)
		}
	}
	err = tell(ctx, c.e, c.e.t.long, op, func(ctx context.Context) error {
		return c.e.api.ContainerStart(ctx, c.id, container.StartOptions{})
	})
	if err == nil || ctx.Err() != nil || IsKind(err, Unreachable) || IsKind(err, Gone) {
		return err
	}
	// Another process may have started it in the meantime.
	if st, inspectErr := c.Inspect(ctx); inspectErr == nil && st.Status != "created" {
		return nil
	}
	return c.discard(ctx, err)
}

// discard removes a container that cannot be started because of err.
func (c *Container) discard(ctx context.Context, err error) error {
	if removeErr := c.Remove(ctx); removeErr != nil {
		return fmt.Errorf("%w (and it was left behind: %w)", err, removeErr)
	}
	return err
}

// Hold makes a container that shows mounts and is never started, to reach the
// files in volumes through it; or finds it. It belongs to whoever knows the
// labels. The error is of kind NameTaken if the labels of the one there differ.
func (e *Engine) Hold(ctx context.Context, name, image string, mounts []Mount, labels map[string]string) (*Container, error) {
	s := Spec{Image: image, Mounts: mounts, UID: holderID, GID: holderID, MemoryBytes: 64 << 20, TmpBytes: 1 << 20, CPUs: 1, Labels: labels}
	return e.hold(ctx, name, s)
}

// holderID is the user and group of containers through which bench works itself:
// nobody.
const holderID = 65534

// hold makes or finds the container of s, which is not started.
func (e *Engine) hold(ctx context.Context, name string, s Spec) (*Container, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	img, err := e.Image(ctx, s.Image)
	if err != nil {
		return nil, err
	}
	if len(s.Entrypoint) == 0 {
		s.Entrypoint = []string{"true"} // an image without one cannot be made a container of
	}
	cfg, host := s.docker(e.info, img, nil, time.Now())
	return e.createOrFind(ctx, "make container "+name, name, s, cfg, host)
}

// Lookup finds a container by name. The error is of kind Gone if there is none.
func (e *Engine) Lookup(ctx context.Context, name string) (*Container, error) {
	r, err := ask(ctx, e, e.t.call, "look for container "+name, func(ctx context.Context) (container.InspectResponse, error) {
		return e.api.ContainerInspect(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	if r.ContainerJSONBase == nil || strings.TrimPrefix(r.Name, "/") != name {
		// The engine also matches beginnings of ids.
		return nil, &Error{Kind: Gone, Op: "look for container " + name, Host: e.host}
	}
	return &Container{e, r.ID, name}, nil
}

// Find lists the containers that carry all these labels, running or not, by
// name. An empty value matches any value of the label.
func (e *Engine) Find(ctx context.Context, labels map[string]string) ([]*Container, error) {
	if len(labels) == 0 {
		return nil, usage("Find without labels would find everybody's containers")
	}
	list, err := ask(ctx, e, e.t.call, "list containers", func(ctx context.Context) ([]container.Summary, error) {
		return e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: withLabels(labels)})
	})
	if err != nil {
		return nil, err
	}
	var cs []*Container
	for _, s := range list {
		name := s.ID
		if len(s.Names) > 0 {
			name = strings.TrimPrefix(s.Names[0], "/")
		}
		cs = append(cs, &Container{e, s.ID, name})
	}
	sort.Slice(cs, func(i, j int) bool { return cs[i].name < cs[j].name })
	return cs, nil
}

// Inspect asks for the state. The error is of kind Gone if the container was removed.
func (c *Container) Inspect(ctx context.Context) (State, error) {
	r, err := ask(ctx, c.e, c.e.t.call, "look at container "+c.name, func(ctx context.Context) (container.InspectResponse, error) {
		return c.e.api.ContainerInspect(ctx, c.id)
	})
	if err != nil {
		return State{}, err
	}
	if r.ContainerJSONBase == nil || r.State == nil {
		return State{}, &Error{Kind: Refused, Op: "look at container " + c.name, Host: c.e.host, Err: usage("the engine's answer has no state")}
	}
	st := State{Status: string(r.State.Status), Image: r.Image,
		Exit:    Exit{Code: r.State.ExitCode, OOMKilled: r.State.OOMKilled, Error: r.State.Error},
		Created: timestamp(r.Created), Started: timestamp(r.State.StartedAt), Finished: timestamp(r.State.FinishedAt)}
	if r.Config != nil {
		st.Labels = r.Config.Labels
	}
	if r.HostConfig != nil {
		for _, d := range r.HostConfig.DeviceRequests {
			for _, id := range d.DeviceIDs {
				st.GPUs = append(st.GPUs, strings.TrimPrefix(id, cdiVendor))
			}
		}
	}
	return st, nil
}

// timestamp parses the engine's times; "0001-01-01T00:00:00Z" is never.
func timestamp(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// Wait blocks until the program has ended. It survives restarts of the
// engine: an answer that says nothing (connection cut, refused, silent) makes
// it ask again, until the engine was away for longer than Engine.Patience in
// one go (Unreachable). Gone: the container was removed, and how it ended is
// not known.
func (c *Container) Wait(ctx context.Context) (Exit, error) {
	var away time.Time // since when the engine says nothing
	lost := false
	for n := 0; ; n++ {
		st, err := c.Inspect(ctx)
		switch {
		case err == nil && st.Ended():
			st.Exit.EngineLost = lost
			return st.Exit, nil
		case err == nil:
			away = time.Time{}
			if st.Status == "created" { // nothing to wait for yet, see Start
				break
			}
			asked := time.Now()
			if !c.longPoll(ctx) {
				lost = lost || ctx.Err() == nil
			} else if n = 0; time.Since(asked) > c.e.t.backoff {
				continue // look at once; the pause is for an engine that answers in a hurry
			}
		case ctx.Err() != nil || IsKind(err, Gone):
			return Exit{}, err
		default:
			lost = true
			if away.IsZero() {
				away = time.Now()
			} else if time.Since(away) > c.e.Patience {
				return Exit{}, err
			}
		}
		if err := c.e.t.pause(ctx, n); err != nil {
			return Exit{}, err
		}
	}
}

// longPoll returns when the container is not running, or after a while. It
// returns false when the connection broke.
//
// The condition is not-running, not next-exit: that one never comes true for
// a container that has ended already. Both channels are drained: the client's
// goroutine would otherwise hang on the one that is not read.
func (c *Container) longPoll(ctx context.Context) bool {
	poll, cancel := context.WithTimeout(ctx, c.e.t.poll)
	defer cancel()
	result, failed := c.e.api.ContainerWait(poll, c.id, container.WaitConditionNotRunning)
	select {
	case <-result:
		return true
	case err := <-failed:
		return poll.Err() != nil || err != nil && fromEngine(err)
	}
}

// Stop sends SIGTERM, and SIGKILL after grace. It returns when the program
// has ended. Stopping one that has ended, or is gone, is not an error.
func (c *Container) Stop(ctx context.Context, grace time.Duration) error {
	seconds := int((grace + time.Second - 1) / time.Second)
	return c.again(ctx, func() error {
		return tell(ctx, c.e, c.e.t.long+grace, "stop container "+c.name, func(ctx context.Context) error {
			return c.e.api.ContainerStop(ctx, c.id, container.StopOptions{Timeout: &seconds})
		})
	})
}

// Remove kills the program if it runs, and removes the container and its
// volumes. Removing one that is gone is not an error.
func (c *Container) Remove(ctx context.Context) error {
	return c.again(ctx, func() error {
		err := tell(ctx, c.e, c.e.t.long, "remove container "+c.name, func(ctx context.Context) error {
			return c.e.api.ContainerRemove(ctx, c.id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		})
		if isConflict(err) { // somebody else is at it
			return &Error{Kind: Unreachable, Op: "remove container " + c.name, Host: c.e.host, Err: err}
		}
		return err
	})
}

// again calls f until it succeeds, the container is gone, the engine refuses,
// or did not answer a few times.
func (c *Container) again(ctx context.Context, f func() error) error {
	for n := 0; ; n++ {
		err := f()
		switch {
		case err == nil || IsKind(err, Gone):
			return nil
		case n == 5 || !IsKind(err, Unreachable):
			return err
		}
		if err := c.e.t.pause(ctx, n); err != nil {
			return err
		}
	}
}

// youngest is the age at which a container that was not started is taken for
// left behind, and not for one that is about to be started.
const youngest = time.Minute

// RemoveLeftovers removes the containers that carry all these labels: those
// that have ended or were not started within a minute, and all others too if
// running is true. It returns the names of the removed, and goes on after an error.
func (e *Engine) RemoveLeftovers(ctx context.Context, labels map[string]string, running bool) (removed []string, err error) {
	cs, err := e.Find(ctx, labels)
	if err != nil {
		return nil, err
	}
	var first error
	for _, c := range cs {
		st, err := c.Inspect(ctx)
		switch {
		case IsKind(err, Gone):
			continue
		case err == nil && !running && !st.Ended() && !(st.Status == "created" && time.Since(st.Created) > youngest):
			continue
		case err == nil:
			err = c.Remove(ctx)
		}
		if err == nil {
			removed = append(removed, c.name)
		} else if first == nil {
			first = err
		}
	}
	return removed, first
}
