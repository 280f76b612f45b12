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
	notice := func(s string) { k.say("%s", s) }
	if e.Copies() {
		if local, err := k.engineAt(ctx, host{}); err == nil {
			for _, name := range []string{ref, id} { // a name is better kept
				if i, err := local.Image(ctx, name); err == nil && (name == id || i.ID == id || id == ref) {
					if err := containers.Ship(ctx, local, e, name, notice); err != nil {
						return err
					}
					_, err = e.Image(ctx, id)
					return err
				}
			}
		}
	}
	if containers.HasRegistry(ref) {
		k.say("pulling image %s on %s", ref, e.Host())
		_, err := e.Ensure(ctx, ref, k.progress())
		return err
	}
	return missing
}
