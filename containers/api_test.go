package containers

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// fakeAPI is an engine with one image and at most one container, kept in
// memory. fault, if set, is asked before every call, by the method's name
// without "Container" and with the number of such calls so far; an error that
// it returns is the call's, and the call has no effect. after is the same for
// calls that have their effect and whose answer gets lost.
type fakeAPI struct {
	dockerAPI    // nil: methods that no test uses
	fault, after func(method string, n int) error

	mu      sync.Mutex
	calls   map[string]int
	name    string
	config  *container.Config
	host    *container.HostConfig
	state   *container.State // nil: no container
	log     []byte
	created time.Time
	info    system.Info
	ended   chan struct{}
}

func newFake() *fakeAPI {
	return &fakeAPI{calls: map[string]int{}, info: system.Info{NCPU: 4, MemTotal: 8 << 30, OSType: "linux", Name: "fake"}, ended: make(chan struct{})}
}

// open returns an engine on f whose deadlines are milliseconds.
func (f *fakeAPI) open(t *testing.T) *Engine {
	t.Helper()
	e := newEngine(f, "unix:///fake.sock")
	e.t = timing{call: 50 * time.Millisecond, long: 100 * time.Millisecond, poll: 50 * time.Millisecond, silence: 30 * time.Millisecond, backoff: time.Millisecond}
	e.Patience = 200 * time.Millisecond
	if err := e.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// hang is what a frozen engine does.
func hang(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

var errHang = fmt.Errorf("hang")

func (f *fakeAPI) before(ctx context.Context, method string) error {
	f.mu.Lock()
	f.calls[method]++
	n := f.calls[method]
	f.mu.Unlock()
	if f.fault == nil {
		return nil
	}
	err := f.fault(method, n)
	if err == errHang {
		return hang(ctx)
	}
	return err
}

func (f *fakeAPI) lost(method string) error {
	if f.after == nil {
		return nil
	}
	f.mu.Lock()
	n := f.calls[method]
	f.mu.Unlock()
	return f.after(method, n)
}

func (f *fakeAPI) end(code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Status, f.state.Running, f.state.ExitCode = "exited", false, code
	close(f.ended)
}

func (f *fakeAPI) Close() error { return nil }

func (f *fakeAPI) Ping(ctx context.Context) (types.Ping, error) {
	return types.Ping{APIVersion: "1.41"}, f.before(ctx, "Ping")
}

func (f *fakeAPI) Info(ctx context.Context) (system.Info, error) {
	return f.info, f.before(ctx, "Info")
}

func (f *fakeAPI) ImageInspect(ctx context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	if err := f.before(ctx, "Image"); err != nil {
		return image.InspectResponse{}, err
	}
	if ref != "image" {
		return image.InspectResponse{}, fmt.Errorf("No such image: %s: %w", ref, errdefs.ErrNotFound)
	}
	return image.InspectResponse{ID: "sha256:1234"}, nil
}

func (f *fakeAPI) ImageBuild(ctx context.Context, r io.Reader, _ build.ImageBuildOptions) (build.ImageBuildResponse, error) {
	return build.ImageBuildResponse{}, f.before(ctx, "Build")
}

func (f *fakeAPI) ContainerCreate(ctx context.Context, c *container.Config, h *container.HostConfig, _ *network.NetworkingConfig, _ *ocispec.Platform, name string) (container.CreateResponse, error) {
	if err := f.before(ctx, "Create"); err != nil {
		return container.CreateResponse{}, err
	}
	f.mu.Lock()
	if f.state != nil {
		f.mu.Unlock()
		return container.CreateResponse{}, fmt.Errorf("Conflict. The container name is already in use: %w", errdefs.ErrConflict)
	}
	f.name, f.config, f.host, f.state = name, c, h, &container.State{Status: "created"}
	f.mu.Unlock()
	return container.CreateResponse{ID: "id-of-" + name}, f.lost("Create")
}

func (f *fakeAPI) ContainerStart(ctx context.Context, id string, _ container.StartOptions) error {
	if err := f.before(ctx, "Start"); err != nil {
		return err
	}
	f.mu.Lock()
	if f.state == nil {
		f.mu.Unlock()
		return noContainer(id)
	}
	f.state.Status, f.state.Running = "running", true
	f.mu.Unlock()
	return f.lost("Start")
}

func noContainer(id string) error {
	return fmt.Errorf("No such container: %s: %w", id, errdefs.ErrNotFound)
}

func (f *fakeAPI) ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error) {
	if err := f.before(ctx, "Inspect"); err != nil {
		return container.InspectResponse{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == nil || id != f.name && id != "id-of-"+f.name {
		return container.InspectResponse{}, noContainer(id)
	}
	state := *f.state
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: "id-of-" + f.name, Name: "/" + f.name, State: &state, HostConfig: f.host, Image: "sha256:1234", Created: f.created.Format(time.RFC3339Nano)},
		Config:            f.config,
	}, nil
}

func (f *fakeAPI) ContainerWait(ctx context.Context, _ string, c container.WaitCondition) (<-chan container.WaitResponse, <-chan error) {
	result, failed := make(chan container.WaitResponse), make(chan error, 1)
	if err := f.before(ctx, "Wait"); err != nil {
		failed <- err
		return result, failed
	}
	if c != container.WaitConditionNotRunning {
		failed <- fmt.Errorf("condition %s", c)
		return result, failed
	}
	go func() { // as the real client: the result is not buffered
		select {
		case <-ctx.Done():
			failed <- ctx.Err()
		case <-f.ended:
			result <- container.WaitResponse{}
		}
	}()
	return result, failed
}

func (f *fakeAPI) ContainerStop(ctx context.Context, _ string, _ container.StopOptions) error {
	if err := f.before(ctx, "Stop"); err != nil {
		return err
	}
	f.end(143)
	return nil
}

func (f *fakeAPI) ContainerRemove(ctx context.Context, id string, o container.RemoveOptions) error {
	if err := f.before(ctx, "Remove"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == nil {
		return noContainer(id)
	}
	if !o.Force || !o.RemoveVolumes {
		return fmt.Errorf("removal without force or volumes")
	}
	f.state = nil
	return nil
}

func (f *fakeAPI) ContainerList(ctx context.Context, o container.ListOptions) ([]container.Summary, error) {
	if err := f.before(ctx, "List"); err != nil {
		return nil, err
	}
	if f.state == nil {
		return nil, nil
	}
	return []container.Summary{{ID: "id-of-" + f.name, Names: []string{"/" + f.name}}}, nil
}

// ContainerLogs serves the log from Since on, as an engine does. A fault of
// "Cut" ends the connection in the middle of the piece of that number.
func (f *fakeAPI) ContainerLogs(ctx context.Context, _ string, o container.LogsOptions) (io.ReadCloser, error) {
	if err := f.before(ctx, "Logs"); err != nil {
		return nil, err
	}
	var since time.Time
	if o.Since != "" {
		var err error
		if since, err = time.Parse(time.RFC3339Nano, o.Since); err != nil {
			return nil, err
		}
	}
	r, w := io.Pipe()
	go func() {
		rest := f.log
		for len(rest) > 0 {
			size := 8 + int(binary.BigEndian.Uint32(rest[4:]))
			piece := rest[:size]
			rest = rest[size:]
			stamp, err := time.Parse(time.RFC3339Nano, string(piece[8:8+30]))
			if err != nil {
				w.CloseWithError(err)
				return
			}
			if stamp.Before(since) {
				continue
			}
			if err := f.before(ctx, "Cut"); err != nil {
				w.Write(piece[:size/2])
				w.CloseWithError(err)
				return
			}
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
		if o.Follow {
			select {
			case <-ctx.Done():
				w.CloseWithError(ctx.Err())
				return
			case <-f.ended:
			}
		}
		w.Close()
	}()
	return r, nil
}

// piece makes one piece of a log.
func piece(stream byte, stamp time.Time, text string) []byte {
	body := stamp.UTC().Format("2006-01-02T15:04:05.000000000Z") + " " + text
	head := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[4:], uint32(len(body)))
	return append(head, body...)
}
