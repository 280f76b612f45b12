package containers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// Image is an image that an engine has.
type Image struct {
	ID      string   `json:"id"` // digest of its configuration: sha256:…
	Tags    []string `json:"tags,omitempty"`
	Digests []string `json:"digests,omitempty"` // of manifests: name@sha256:…; only of pulled or pushed ones
	Bytes   int64    `json:"bytes"`
	Created string   `json:"created"` // RFC 3339

	Labels  map[string]string `json:"labels,omitempty"`
	Volumes []string          `json:"-"` // folders that the image declares to be volumes, sorted
}

// Image looks an image up by name, tag or digest. The error is of kind
// ImageMissing if the engine does not have it; nothing is downloaded.
func (e *Engine) Image(ctx context.Context, ref string) (Image, error) {
	op := "look for image " + ref
	r, err := ask(ctx, e, e.t.call, op, func(ctx context.Context) (image.InspectResponse, error) {
		return e.api.ImageInspect(ctx, ref)
	})
	if err != nil {
		return Image{}, err
	}
	i := Image{ID: r.ID, Tags: r.RepoTags, Digests: r.RepoDigests, Bytes: r.Size, Created: r.Created}
	if r.Config != nil {
		i.Labels = r.Config.Labels
		i.Volumes = slices.Sorted(maps.Keys(r.Config.Volumes))
	}
	return i, nil
}

// Ensure returns the image, and pulls it first if the engine does not have it.
func (e *Engine) Ensure(ctx context.Context, ref string, progress io.Writer) (Image, error) {
	i, err := e.Image(ctx, ref)
	if !IsKind(err, ImageMissing) {
		return i, err
	}
	if err := e.Pull(ctx, ref, progress); err != nil {
		return Image{}, err
	}
	return e.Image(ctx, ref)
}

// BuildOptions say how to build an image.
type BuildOptions struct {
	Tag    string
	Args   map[string]string // values of the Dockerfile's ARGs
	Labels map[string]string
	// Network of the build steps: "host", "" (the engine's default), "none".
	Network  string
	NoCache  bool
	Progress io.Writer // what the build prints; nil: nowhere
}

// Build builds an image from a tar of its context with a Dockerfile at the
// top. If a step fails, the error is of kind BuildFailed and ends with the
// last lines that the build printed; user names and passwords in URLs among
// the args are blotted out there and in Progress.
func (e *Engine) Build(ctx context.Context, tar io.Reader, o BuildOptions) (Image, error) {
	args := map[string]*string{}
	var secrets []string
	for k, v := range o.Args {
		args[k] = &v
		if u, err := url.Parse(v); err == nil && u.User != nil {
			if _, rest, ok := strings.Cut(v, "://"); ok {
				secrets = append(secrets, rest[:strings.LastIndex(rest, "@")+1], "***@")
			}
		}
	}
	log := &buildLog{w: o.Progress, blot: strings.NewReplacer(secrets...)}
	op := "build image " + o.Tag
	err := e.guard(ctx, op, func(ctx context.Context, touch func()) error {
		r, err := e.api.ImageBuild(ctx, touching{reading{tar}, touch}, build.ImageBuildOptions{
			// The classic builder: BuildKit needs a session with its client for
			// what a plain request can do here.
			Version: build.BuilderV1, Tags: []string{o.Tag}, BuildArgs: args, Labels: o.Labels,
			NetworkMode: o.Network, NoCache: o.NoCache, Remove: true, ForceRemove: true,
		})
		if err != nil {
			return err
		}
		defer r.Body.Close()
		return messages(touching{r.Body, touch}, log)
	})
	if m, ok := errors.AsType[*messageError](err); ok {
		kind, hint := BuildFailed, ""
		for _, p := range phrases {
			if p.kind == NoSpace && strings.Contains(strings.ToLower(m.text+log.tail.String()), p.text) {
				kind, hint = NoSpace, p.hint
			}
		}
		err = &Error{Kind: kind, Op: op, Host: e.host, Hint: hint, Err: fmt.Errorf("%s; the last it printed:\n%s", log.blot.Replace(m.text), lastLines(log.tail.String(), 15))}
	}
	if err != nil {
		return Image{}, err
	}
	return e.Image(ctx, o.Tag)
}

// buildLog passes on what a build prints and keeps its end.
type buildLog struct {
	w    io.Writer
	blot *strings.Replacer
	tail bytes.Buffer
}

func (l *buildLog) Write(p []byte) (int, error) {
	s := l.blot.Replace(string(p))
	l.tail.WriteString(s)
	if extra := l.tail.Len() - 8<<10; extra > 0 {
		l.tail.Next(extra)
	}
	if l.w != nil {
		if _, err := io.WriteString(l.w, s); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Save writes images as a tar that Load reads.
func (e *Engine) Save(ctx context.Context, refs []string, w io.Writer) error {
	return e.guard(ctx, "save image "+strings.Join(refs, ", "), func(ctx context.Context, touch func()) error {
		r, err := e.api.ImageSave(ctx, refs)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(writing{w}, touching{r, touch})
		return err
	})
}

// Load takes images from a tar that Save, or docker save, wrote, and returns
// their names as the engine reports them.
func (e *Engine) Load(ctx context.Context, tar io.Reader) ([]string, error) {
	var said bytes.Buffer
	op := "load image"
	err := e.guard(ctx, op, func(ctx context.Context, touch func()) error {
		r, err := e.api.ImageLoad(ctx, touching{reading{tar}, touch}, client.ImageLoadWithQuiet(true))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		return messages(touching{r.Body, touch}, &said)
	})
	if err != nil {
		return nil, e.messageFailure(op, Refused, "", err)
	}
	var refs []string
	for line := range strings.Lines(said.String()) {
		for _, prefix := range []string{"Loaded image: ", "Loaded image ID: "} {
			if ref, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
				refs = append(refs, ref)
			}
		}
	}
	if len(refs) == 0 {
		return nil, &Error{Kind: Refused, Op: op, Host: e.host, Err: usage("the file holds no image"), Hint: "make one with: docker save"}
	}
	return refs, nil
}

// Tag gives an image one more name.
func (e *Engine) Tag(ctx context.Context, ref, tag string) error {
	return tell(ctx, e, e.t.call, "tag image "+ref, func(ctx context.Context) error { return e.api.ImageTag(ctx, ref, tag) })
}

// RemoveImage removes a name of an image, and the image with its last name.
// Removing one that is not there is not an error.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	_, err := ask(ctx, e, e.t.long, "remove image "+ref, func(ctx context.Context) ([]image.DeleteResponse, error) {
		return e.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	})
	if IsKind(err, ImageMissing) {
		return nil
	}
	return err
}

// Pull downloads an image from its registry, with the login that the docker
// command has for it.
func (e *Engine) Pull(ctx context.Context, ref string, progress io.Writer) error {
	auth, err := registryAuth(ctx, ref)
	if err != nil {
		return err
	}
	op := "pull image " + ref
	err = e.guard(ctx, op, func(ctx context.Context, touch func()) error {
		r, err := e.api.ImagePull(ctx, ref, image.PullOptions{RegistryAuth: auth})
		if err != nil {
			return err
		}
		defer r.Close()
		return messages(touching{r, touch}, progress)
	})
	return e.registryFailure(op, ref, err)
}

// Push uploads an image to the registry that its name says, with the login
// that the docker command has for it.
func (e *Engine) Push(ctx context.Context, ref string, progress io.Writer) error {
	auth, err := registryAuth(ctx, ref)
	if err != nil {
		return err
	}
	op := "push image " + ref
	err = e.guard(ctx, op, func(ctx context.Context, touch func()) error {
		r, err := e.api.ImagePush(ctx, ref, image.PushOptions{RegistryAuth: auth})
		if err != nil {
			return err
		}
		defer r.Close()
		return messages(touching{r, touch}, progress)
	})
	return e.registryFailure(op, ref, err)
}

// registryFailure names the registry as the one who failed, unless it is clear
// that it was the engine.
func (e *Engine) registryFailure(op, ref string, err error) error {
	if err == nil {
		return nil
	}
	hint := registryHint(ref, err.Error())
	if own, ok := errors.AsType[*Error](err); ok && own.Kind == Refused && !cerrdefs.IsInvalidArgument(err) {
		return &Error{Kind: Registry, Op: op, Host: e.host, Hint: hint, Err: own.Err}
	}
	return e.messageFailure(op, Registry, hint, err)
}

// registryHint is what can be done about an image that a registry did not serve.
// Engines pass on what it said as text.
func registryHint(ref, said string) string {
	registry, said := registryOf(ref), strings.ToLower(said)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(said, w) })
	}
	switch {
	case has("manifest unknown", "name unknown", "manifest for ", ": not found"):
		return "look at the name and the tag of the image: " + registry + " does not have this one"
	case has("x509", "http response to https client"):
		return "the engine does not trust " + registry + ": give its machine the registry's authority (/etc/docker/certs.d) or, if it has no TLS, name it among the engine's insecure-registries"
	case has("connection refused", "no such host", "timeout", "network is unreachable", "no route to host", "connection reset", "eof"):
		return "see that " + registry + " can be reached from the engine's machine, or send the image from here: bench image load --host"
	}
	return "log in with: docker login " + registry
}

// messageFailure turns an error that the engine reported in the middle of a
// stream into an *Error of kind k, unless its words say something better.
func (e *Engine) messageFailure(op string, k Kind, hint string, err error) error {
	m, ok := errors.AsType[*messageError](err)
	if !ok {
		return err
	}
	for _, p := range phrases {
		if strings.Contains(strings.ToLower(m.text), p.text) {
			k, hint = p.kind, p.hint
		}
	}
	return &Error{Kind: k, Op: op, Host: e.host, Hint: hint, Err: errors.New(m.text)}
}

// messageError is an error reported within a stream of messages.
type messageError struct{ text string }

func (e *messageError) Error() string { return e.text }

// messages copies what a stream of the engine's JSON messages says to w, as
// lines of text: build output as it is, transfers as one line for each change
// of status of each layer.
func messages(r io.Reader, w io.Writer) error {
	if w == nil {
		w = io.Discard
	}
	d := json.NewDecoder(r)
	last := map[string]string{} // status by layer
	for {
		var m struct {
			Stream      string `json:"stream"`
			Status      string `json:"status"`
			ID          string `json:"id"`
			Error       string `json:"error"`
			ErrorDetail struct {
				Message string `json:"message"`
			} `json:"errorDetail"`
		}
		err := d.Decode(&m)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case m.ErrorDetail.Message != "":
			return &messageError{m.ErrorDetail.Message}
		case m.Error != "":
			return &messageError{m.Error}
		}
		text := m.Stream
		if m.Status != "" && last[m.ID] != m.Status {
			last[m.ID] = m.Status
			text = m.Status + "\n"
			if m.ID != "" {
				text = m.ID + ": " + text
			}
		}
		if text != "" {
			if _, err := io.WriteString(w, text); err != nil {
				return callerError{err}
			}
		}
	}
}

// touching tells of every read.
type touching struct {
	io.Reader
	touch func()
}

func (t touching) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.touch()
	return n, err
}

// reading and writing mark the errors of a caller's reader and writer.
type (
	reading struct{ io.Reader }
	writing struct{ io.Writer }
)

func (r reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = callerError{err}
	}
	return n, err
}

func (w writing) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = callerError{err}
	}
	return n, err
}
