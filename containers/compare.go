package containers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bench/internal/content"

	"github.com/docker/docker/api/types/container"
)

// noProgram is the exit code of a container whose image has no such program.
const noProgram = 127

// assembler describes the container through which a volume is filled, and which,
// when it is started, compares what has arrived with its digests.
func (s Shelf) assembler(target string, labels map[string]string) Spec {
	return Spec{Image: s.Image, Entrypoint: []string{"sh", "-c", content.Assemble, "sh", target}, UID: holderID, GID: holderID,
		MemoryBytes: 256 << 20, Pids: 64, TmpBytes: 1 << 20, CPUs: 1, Labels: labels,
		Mounts: []Mount{{Volume: s.Volume(), Labels: s.Labels(), Target: target, Writable: true}}}
}

// filler makes the container that s is filled through, or says who has its name.
func (e *Engine) filler(ctx context.Context, s Shelf, name, target string, labels map[string]string) (*Container, error) {
	return e.hold(ctx, name, s.assembler(target, labels))
}

// joins says whether images of this name have the programs that
// content.Assemble needs.
func (e *Engine) joins(ctx context.Context, image string) (bool, error) {
	e.mu.Lock()
	known, ok := e.shells[image]
	e.mu.Unlock()
	if ok {
		return known, nil
	}
	_, code, err := e.run(ctx, "bench-shell", Spec{
		Image: image, Entrypoint: []string{"sh", "-c", "for p in cat dd rm sha256sum sync; do command -v $p || exit 1; done"},
		UID: holderID, GID: holderID, MemoryBytes: 64 << 20, Pids: 64, TmpBytes: 1 << 20, CPUs: 1, Notes: map[string]string{LabelBatch: "shell"},
	})
	if IsKind(err, Refused) { // an engine without an init process of its own says so at once
		code, err = noProgram, nil
	}
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shells == nil {
		e.shells = map[string]bool{}
	}
	e.shells[image] = code == 0
	return code == 0, nil
}

// room says so, as NoSpace, if the disk of the volume that is filled has less
// than need bytes free, which else a slow link would tell after hours only. An
// image without df leaves it to the sending.
func (e *Engine) room(ctx context.Context, s Shelf, target string, need int64) error {
	spec := s.assembler(target, nil)
	spec.Entrypoint, spec.Notes = []string{"df", "-kP", target}, map[string]string{LabelBatch: "room"}
	said, code, err := e.run(ctx, "bench-room", spec)
	if IsKind(err, Refused) || err == nil && code != 0 {
		return nil
	}
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	cells := strings.Fields(lines[len(lines)-1]) // file system, size, used, free, …
	if len(cells) < 4 {
		return nil
	}
	if free, err := strconv.ParseInt(cells[3], 10, 64); err == nil && free < need>>10 {
		return &Error{Kind: NoSpace, Op: "send " + s.Kind, Host: e.host, Hint: hintNoSpace,
			Err: fmt.Errorf("%d MB are free on the disk of %s, and %d MB are to be sent", free<<10/1e6, e.host, need/1e6)}
	}
	return nil
}

// run runs a container that is not to be found again to its end, within the time
// of a long call, and returns what it printed to stdout. Its name begins with prefix.
func (e *Engine) run(ctx context.Context, prefix string, s Spec) (stdout []byte, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.t.long)
	defer cancel()
	// The name differs each time: two programs may do so at once.
	c, err := e.Start(ctx, fmt.Sprintf("%s-%x", prefix, time.Now().UnixNano()), s)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		// ctx may be over; the container must go all the same.
		removal, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.t.call)
		defer cancel()
		if removeErr := c.Remove(removal); err == nil && removeErr != nil {
			err = removeErr
		}
	}()
	stdout, _, exit, err := c.result(ctx)
	return stdout, exit.Code, err
}

// result waits for the program's end and returns what it printed.
func (c *Container) result(ctx context.Context) (stdout, stderr []byte, exit Exit, err error) {
	if exit, err = c.Wait(ctx); err != nil {
		return nil, nil, exit, err
	}
	var printed, remarks bytes.Buffer
	err = c.Logs(ctx, &printed, &remarks)
	return printed.Bytes(), remarks.Bytes(), exit, err
}

// damageError says that files arrived which are not what was sent.
type damageError struct{ files []content.File }

func (d *damageError) Error() string {
	var names []string
	for _, f := range d.files {
		names = append(names, f.Name)
	}
	return "what arrived of these files is not what was sent: " + strings.Join(names, ", ")
}

func (d *damageError) names(name string) bool {
	return slices.ContainsFunc(d.files, func(f content.File) bool { return f.Name == name })
}

// changed is the error if one of the files is not any more what it was when its
// digest was computed.
func (d *damageError) changed() error {
	for _, f := range d.files {
		if size, sum, err := content.Hash(f.Path); err != nil {
			return err
		} else if size != f.Size || sum != f.SHA256 {
			return fmt.Errorf("%s: %w", f.Path, content.ErrChanged)
		}
	}
	return nil
}

// compare starts the container of s.assembler, which joins parts and compares
// digests, and waits for its end. Where the image has no shell it reads the files
// back instead. Files that are not what they should be are returned as a
// *damageError.
func (e *Engine) compare(ctx context.Context, s Shelf, c *Container, target string) error {
	op := "compare " + s.Kind + " with its digest"
	if err := tell(ctx, e, e.t.long, op, func(ctx context.Context) error { return e.api.ContainerStart(ctx, c.id, container.StartOptions{}) }); err != nil {
		if IsKind(err, Refused) {
			return e.readBack(ctx, s, c, target)
		}
		return err
	}
	printed, remarks, exit, err := c.result(ctx)
	switch {
	case err != nil:
		return err
	case exit.Code == noProgram:
		return e.readBack(ctx, s, c, target)
	case exit.Code != 0:
		f := &Error{Op: op, Host: e.host, Err: fmt.Errorf("sh ended with %d: %s", exit.Code, bytes.TrimSpace(remarks[max(0, len(remarks)-500):]))}
		if f.Kind, f.Hint, _ = phrased(f.Err.Error()); exit.EngineLost {
			f.Kind, f.Hint = Unreachable, e.at.remedy(errSilent) // it ended with the engine
		}
		return f
	}
	var d damageError
	for line := range strings.Lines(string(printed)) {
		name, _ := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "bad ")
		for _, f := range s.Content.Files {
			if f.Name == name {
				d.files = append(d.files, f)
			}
		}
	}
	if len(d.files) > 0 {
		return &d
	}
	return nil
}

// readBack compares the files of s with their digests by reading them through the
// engine.
func (e *Engine) readBack(ctx context.Context, s Shelf, c *Container, target string) error {
	var d damageError
	for _, f := range s.Content.Files {
		sum := sha256.New()
		r, _, err := c.Open(ctx, path.Join(target, f.Name))
		if err == nil {
			_, err = io.Copy(sum, r)
			r.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
			return err
		}
		if err != nil || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
			d.files = append(d.files, f)
		}
	}
	if len(d.files) > 0 {
		return &d
	}
	return nil
}
