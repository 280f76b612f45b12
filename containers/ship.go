package containers

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// HasRegistry says whether an image's name begins with the registry that
// serves it: gpu-hub.example.org/bench:1, and not bench:1.
func HasRegistry(ref string) bool {
	return !strings.HasPrefix(ref, "sha256:") && registryOf(ref) != dockerHub
}

// Ship sends an image from one engine to another, through this machine. What
// the other has of its layers is sent again, and thrown away there. notice,
// which may be nil, is told how far it has come.
func Ship(ctx context.Context, from, to *Engine, ref string, notice func(string)) error {
	i, err := from.Image(ctx, ref)
	if err != nil {
		return err
	}
	if notice == nil {
		notice = func(string) {}
	}
	notice(fmt.Sprintf("sending image %s (%.1f GB) from %s to %s; this happens once", ref, float64(i.Bytes)/1e9, from.host, to.host))
	began, n := time.Now(), int64(0)
	for attempt := 0; ; attempt++ {
		n, err = ship(ctx, from, to, ref, notice)
		if err == nil || attempt == 2 || !IsKind(err, Unreachable) {
			break
		}
		if err := to.t.pause(ctx, attempt); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	took := time.Since(began)
	notice(fmt.Sprintf("sent image %s to %s: %d MB in %v", ref, to.host, n/1e6, took.Round(time.Second)))
	_, err = to.Image(ctx, ref)
	return err
}

func ship(ctx context.Context, from, to *Engine, ref string, notice func(string)) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	saved := make(chan error, 1)
	next := time.Now().Add(20 * time.Second)
	var sent int64
	progress := func(n int64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(30 * time.Second)
			notice(fmt.Sprintf("sending image %s to %s: %d MB so far", ref, to.host, n/1e6))
		}
	}
	go func() {
		err := from.Save(ctx, []string{ref}, w)
		w.CloseWithError(err)
		saved <- err
	}()
	_, err := to.Load(ctx, &counting{r, &sent, progress})
	r.Close() // if Load gave up, Save must not wait
	cancel()
	if saveErr := <-saved; saveErr != nil && err == nil {
		err = saveErr
	}
	return sent, err
}
