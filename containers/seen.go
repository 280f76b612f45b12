package containers

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
)

// Seen is a container as it was when all were listed.
type Seen struct {
	ID, Name string
	Status   string    // created, running, paused, exited, …
	Created  time.Time // by the engine's clock, to the second
	Labels   map[string]string
	// GPUs are those that it was given, in the words of whoever asked: a UUID or
	// the beginning of one, an index, "0:1" for slice 1 of card 0, or "all". Only
	// a container that runs, and may compute on them, has any.
	GPUs []string
}

// Runs says whether the container's program runs, or is held up.
func (s Seen) Runs() bool {
	return s.Status == "running" || s.Status == "paused" || s.Status == "restarting"
}

// Containers lists all containers of the engine, whoever made them, by name.
func (e *Engine) Containers(ctx context.Context) ([]Seen, error) {
	list, err := ask(ctx, e, e.t.call, "list containers", func(ctx context.Context) ([]container.Summary, error) {
		return e.api.ContainerList(ctx, container.ListOptions{All: true})
	})
	if err != nil {
		return nil, err
	}
	given := map[string][]string{}
	var all []Seen
	for _, c := range list {
		s := Seen{ID: c.ID, Name: c.ID, Status: string(c.State), Created: time.Unix(c.Created, 0), Labels: c.Labels}
		if len(c.Names) > 0 {
			s.Name = strings.TrimPrefix(c.Names[0], "/")
		}
		if s.Runs() {
			// A list does not say it. It never changes, so it is asked for once.
			e.mu.Lock()
			gpus, known := e.given[s.ID]
			e.mu.Unlock()
			if !known {
				if gpus, err = e.givenTo(ctx, s); IsKind(err, Gone) {
					continue
				} else if err != nil {
					return nil, err
				}
			}
			s.GPUs, given[s.ID] = gpus, gpus
		}
		all = append(all, s)
	}
	e.mu.Lock()
	e.given = given
	e.mu.Unlock()
	slices.SortFunc(all, func(a, b Seen) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// givenTo asks which GPUs a container was given.
func (e *Engine) givenTo(ctx context.Context, s Seen) ([]string, error) {
	r, err := ask(ctx, e, e.t.call, "look at container "+s.Name, func(ctx context.Context) (container.InspectResponse, error) {
		return e.api.ContainerInspect(ctx, s.ID)
	})
	if err != nil || r.ContainerJSONBase == nil || r.HostConfig == nil {
		return nil, err
	}
	return gpusOf(r.HostConfig, r.Config), nil
}

var nvidiaDevice = regexp.MustCompile(`^/dev/nvidia(\d+)$`)

// gpusOf reads from a container's configuration which GPUs it was given to
// compute on: by a request for devices, by NVIDIA's runtime, which goes by the
// environment, or as plain device files.
func gpusOf(host *container.HostConfig, config *container.Config) []string {
	env := map[string]string{}
	if config != nil {
		for _, line := range config.Env {
			name, value, _ := strings.Cut(line, "=")
			env[name] = value
		}
	}
	// Without compute a container may only look, as programs that watch over GPUs do.
	computes := func(capabilities []string) bool {
		return len(capabilities) == 0 || slices.Contains(capabilities, "compute") || slices.Contains(capabilities, "all")
	}
	ofEnv := fields(env["NVIDIA_DRIVER_CAPABILITIES"])
	var gpus []string
	for _, r := range host.DeviceRequests {
		of := ofEnv
		for _, set := range r.Capabilities {
			named := slices.DeleteFunc(slices.Clone(set), func(c string) bool { return c == "gpu" || c == "nvidia" })
			if len(named) > 0 {
				of = named
			}
		}
		gpu := slices.ContainsFunc(r.Capabilities, func(set []string) bool { return slices.Contains(set, "gpu") })
		switch {
		case r.Driver == "cdi":
			for _, id := range r.DeviceIDs {
				if name, ok := strings.CutPrefix(id, cdiVendor); ok {
					gpus = append(gpus, name)
				}
			}
		case r.Driver != "nvidia" && !gpu || !computes(of):
		case r.Count < 0:
			gpus = append(gpus, allGPUs)
		default:
			gpus = append(gpus, r.DeviceIDs...)
			for i := range r.Count { // the first ones, whatever they are in use for
				gpus = append(gpus, fmt.Sprint(i))
			}
		}
	}
	if len(host.DeviceRequests) == 0 && host.Runtime == "nvidia" && computes(ofEnv) {
		for _, g := range fields(env["NVIDIA_VISIBLE_DEVICES"]) {
			if g != "void" && g != "none" {
				gpus = append(gpus, strings.TrimPrefix(g, cdiVendor))
			}
		}
	}
	for _, d := range host.Devices {
		if m := nvidiaDevice.FindStringSubmatch(d.PathOnHost); m != nil {
			gpus = append(gpus, m[1])
		}
	}
	return gpus
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// Reserve takes a name on the engine: it creates a container of this name that
// is never started. The engine lets only one have it, whoever asks, so it can
// serve as a lock between programs that share nothing but the engine. The error
// is of kind NameTaken if there is one with other labels. Taking it again with
// the same labels is no error.
func (e *Engine) Reserve(ctx context.Context, name, image string, labels map[string]string) error {
	op := "reserve " + name
	s := Spec{Image: image, UID: 65534, GID: 65534, MemoryBytes: 16 << 20, Labels: labels}
	if err := s.check(); err != nil {
		return err
	}
	img, err := e.Image(ctx, image)
	if err != nil {
		return err
	}
	cfg, host := s.docker(e.info, img, nil, time.Now())
	for n := 0; ; n++ {
		_, err := e.createOrFind(ctx, op, name, s, cfg, host)
		// Whether the engine did it is not known, or it was removed meanwhile.
		if !IsKind(err, Unreachable) && !IsKind(err, Gone) || n == 5 {
			return err
		}
		if err := e.t.pause(ctx, n); err != nil {
			return err
		}
	}
}

// Discard kills and removes the container of this id. One that is gone is not
// an error.
func (e *Engine) Discard(ctx context.Context, id string) error {
	return (&Container{e, id, id}).Remove(ctx)
}

// Clock returns the time by the engine's clock: that of Seen.Created.
func (e *Engine) Clock(ctx context.Context) (time.Time, error) {
	i, err := ask(ctx, e, e.t.call, "ask for the time", func(ctx context.Context) (system.Info, error) { return e.api.Info(ctx) })
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, i.SystemTime)
	if err != nil {
		return time.Time{}, &Error{Kind: Refused, Op: "ask for the time", Host: e.host, Err: err}
	}
	return t, nil
}
