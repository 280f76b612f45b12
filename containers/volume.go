package containers

import (
	"context"
	"sort"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
)

// Volume is a named volume of an engine.
type Volume struct {
	Name    string
	Labels  map[string]string
	Created time.Time // to the second
}

// Volumes lists the volumes that carry all these labels, the oldest first. An
// empty value matches any.
func (e *Engine) Volumes(ctx context.Context, labels map[string]string) ([]Volume, error) {
	if len(labels) == 0 {
		return nil, usage("Volumes without labels would find everybody's")
	}
	list, err := ask(ctx, e, e.t.call, "list volumes", func(ctx context.Context) (volume.ListResponse, error) {
		return e.api.VolumeList(ctx, volume.ListOptions{Filters: withLabels(labels)})
	})
	if err != nil {
		return nil, err
	}
	var vs []Volume
	for _, v := range list.Volumes {
		if v != nil {
			vs = append(vs, Volume{v.Name, v.Labels, timestamp(v.CreatedAt)})
		}
	}
	sort.Slice(vs, func(i, j int) bool {
		if !vs[i].Created.Equal(vs[j].Created) {
			return vs[i].Created.Before(vs[j].Created)
		}
		return vs[i].Name < vs[j].Name
	})
	return vs, nil
}

// withLabels asks for what carries all these labels; an empty value matches any.
func withLabels(labels map[string]string) filters.Args {
	args := filters.NewArgs()
	for k, v := range labels {
		if v != "" {
			k += "=" + v
		}
		args.Add("label", k)
	}
	return args
}

// RemoveVolume removes a volume. It returns false, and no error, if a
// container shows it. One that is gone is not an error.
func (e *Engine) RemoveVolume(ctx context.Context, name string) (bool, error) {
	err := tell(ctx, e, e.t.long, "remove volume "+name, func(ctx context.Context) error { return e.api.VolumeRemove(ctx, name, false) })
	switch {
	case isConflict(err):
		return false, nil
	case cerrdefs.IsNotFound(err):
		return true, nil
	}
	return err == nil, err
}

// RemoveVolumes removes the volumes that carry all these labels and that no
// container shows. It returns their names, and goes on after an error.
func (e *Engine) RemoveVolumes(ctx context.Context, labels map[string]string) (removed []string, err error) {
	vs, err := e.Volumes(ctx, labels)
	if err != nil {
		return nil, err
	}
	var first error
	for _, v := range vs {
		gone, err := e.RemoveVolume(ctx, v.Name)
		if gone {
			removed = append(removed, v.Name)
		} else if first == nil {
			first = err
		}
	}
	sort.Strings(removed)
	return removed, first
}

// VolumeBytes tells how much lies in a volume; a sparse file counts in full.
//
// The engine goes through all its volumes for that, those of others too. So one
// answer serves all who ask at the same time, and the engine is asked again only
// after it has had rest for many times as long as the answer took.
func (e *Engine) VolumeBytes(ctx context.Context, name string) (int64, error) {
	unlock, err := e.filling.lock(ctx, "/measure")
	if err != nil {
		return 0, err
	}
	defer unlock()
	if time.Now().After(e.measured.until) || !e.measured.has(name) {
		began := time.Now()
		disk, err := ask(ctx, e, e.t.long, "measure volume "+name, func(ctx context.Context) (types.DiskUsage, error) {
			return e.api.DiskUsage(ctx, types.DiskUsageOptions{Types: []types.DiskUsageObject{types.VolumeObject}})
		})
		if err != nil {
			return 0, err
		}
		took := time.Since(began)
		e.measured = measured{map[string]int64{}, time.Now().Add(max(e.t.measure, measureRest*took))}
		for _, v := range disk.Volumes {
			if v != nil && v.UsageData != nil {
				e.measured.bytes[v.Name] = v.UsageData.Size
			}
		}
	}
	if !e.measured.has(name) {
		return 0, &Error{Kind: Gone, Op: "measure volume " + name, Host: e.host, Err: usage("the engine knows no such volume")}
	}
	return e.measured.bytes[name], nil
}

// measureRest is how many times as long as measuring took the engine is left alone.
const measureRest = 10

// measured is the engine's last answer about its volumes.
type measured struct {
	bytes map[string]int64
	until time.Time // it serves until then
}

func (m measured) has(name string) bool { _, ok := m.bytes[name]; return ok }

// keyed is a lock for each key.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when it is free
}

// lock waits for the key and returns how to give it back.
func (k *keyed) lock(ctx context.Context, key string) (func(), error) {
	for {
		k.mu.Lock()
		busy, ok := k.held[key]
		if !ok {
			free := make(chan struct{})
			if k.held == nil {
				k.held = map[string]chan struct{}{}
			}
			k.held[key] = free
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(free)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-busy:
		}
	}
}

// volumeName says whether a name is one that engines take for a volume.
func volumeName(name string) bool {
	return len(name) > 1 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == "" && strings.Trim(name[:1], "_.-") != ""
}
