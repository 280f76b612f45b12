package containers

import (
	"context"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
)

// Hurry shortens the deadlines of e, for tests with engines that are away.
func (e *Engine) Hurry() {
	e.t.call, e.t.long, e.t.poll, e.t.silence, e.t.stale = time.Second, 5*time.Second, 2*time.Second, time.Second, 2*time.Second
}

// Peek copies what the engine has of the log now.
func (c *Container) Peek(ctx context.Context, stdout, stderr io.Writer) error {
	r, err := c.e.api.ContainerLogs(ctx, c.id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true})
	if err != nil {
		return err
	}
	defer r.Close()
	return new(cursor).copy(r, stdout, stderr, func() {})
}
