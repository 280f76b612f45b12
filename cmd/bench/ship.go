package main

import (
	"context"

	"bench/containers"
)

// bringImage sees to it that an engine has an image: one that files must be
// sent to gets it from this machine's engine, and any pulls it if its name says
// from where. ref is what the user calls the image id. The error is of kind
// ImageMissing if it cannot be had.
func (k *kit) bringImage(ctx context.Context, e *containers.Engine, id, ref string) error {
	_, missing := e.Image(ctx, id)
	if !containers.IsKind(missing, containers.ImageMissing) {
		return missing
	}
	if e.Copies() {
		if local, name, _ := k.localImage(ctx, id, ref); local != nil {
			if err := containers.Ship(ctx, local, e, name, func(s string) { k.say("%s", s) }); err != nil {
				return err
			}
			_, err := e.Image(ctx, id)
			return err
		}
	}
	if containers.HasRegistry(ref) {
		k.say("pulling image %s on %s", ref, e.Host())
		_, err := e.Ensure(ctx, ref, k.progress())
		return err
	}
	return missing
}

// localImage looks for an image on this machine's engine, and says by which name
// it is there. The engine is nil if it is not.
func (k *kit) localImage(ctx context.Context, id, ref string) (local *containers.Engine, name string, i containers.Image) {
	local, err := k.engineAt(ctx, host{})
	if err != nil {
		return nil, "", i
	}
	for _, name := range []string{ref, id} { // a name is better kept
		if i, err := local.Image(ctx, name); err == nil && (name == id || i.ID == id || id == ref) {
			return local, name, i
		}
	}
	return nil, "", i
}

// findImage looks an image up that the user named: on the engine or, if it is to
// be sent there from this machine, here.
func (k *kit) findImage(ctx context.Context, e *containers.Engine, ref string) (containers.Image, error) {
	i, err := e.Image(ctx, ref)
	if containers.IsKind(err, containers.ImageMissing) && e.Copies() {
		if local, _, there := k.localImage(ctx, ref, ref); local != nil {
			return there, nil // sent when the host is made ready, while others work
		}
	}
	if containers.IsKind(err, containers.ImageMissing) {
		if err := k.bringImage(ctx, e, ref, ref); err != nil {
			return i, err
		}
		return e.Image(ctx, ref)
	}
	return i, err
}
