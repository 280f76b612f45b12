package docker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bench/containers"
)

// instanceFile holds a random text in a home folder.
const instanceFile = "instance"

// Instance names the home folder for Options.Instance: by its path, and by a
// random text in it, since two machines that use one engine may have homes of
// the same path. A home that cannot be written has its path only.
func Instance(home string) string {
	if abs, err := filepath.Abs(home); err == nil {
		home = abs
	}
	return instance(home, identity(filepath.Join(home, instanceFile)))
}

func instance(path, identity string) string {
	sum := sha256.Sum256([]byte(path + identity))
	return hex.EncodeToString(sum[:6])
}

// identity reads the random text, or writes it if there is none. Of two
// processes that do so at once, both get the text of the first.
func identity(file string) string {
	for range 2 {
		if text, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(text))
		}
		part, err := os.CreateTemp(filepath.Dir(file), ".instance-*")
		if err != nil {
			return ""
		}
		_, err = part.WriteString(rand.Text() + "\n")
		err = errors.Join(err, part.Close())
		if err == nil {
			err = os.Link(part.Name(), file)
		}
		os.Remove(part.Name())
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return ""
		}
	}
	return ""
}

// GC removes what batches of this instance left on the engine: containers that
// have ended and nobody waited for, and if running is true the running ones
// too, and all volumes; and locks on GPUs, whoever's, whose batch is gone. It
// returns their names.
func GC(ctx context.Context, e *containers.Engine, instance string, running bool) (boxes, volumes []string, err error) {
	if instance == "" {
		return nil, nil, errors.New("docker: no instance to clean up for")
	}
	own := map[string]string{containers.LabelInstance: instance}
	boxes, err = e.RemoveLeftovers(ctx, own, running)
	if err == nil {
		var locks []string
		over := "" // whose batches are all over
		if running {
			over = instance
		}
		locks, err = (&ledger{keeper: e}).sweep(ctx, over)
		boxes = append(boxes, locks...)
	}
	if err == nil && running {
		volumes, err = e.RemoveVolumes(ctx, own)
	}
	return boxes, volumes, precondition(err, "")
}
