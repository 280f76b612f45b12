package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"bench/containers/trainer"
)

// DefaultBase is the image that the trainer's image is built on: any with
// Python 3.11 or later and its venv module will do.
const DefaultBase = "python:3.13-slim"

// caBundle is the name under which the trainer's Dockerfile looks for
// certificates in its build context.
const caBundle = "ca-bundle.pem"

// TrainerImage is the name of the image of the trainer that is embedded in
// this program.
func TrainerImage() string { return "bench-trainer:" + trainer.Digest()[:12] }

// TrainerOptions say how to build the trainer's image.
type TrainerOptions struct {
	Base string // "": DefaultBase
	// IndexURL is the Python package index; "": the public one. It stays
	// readable in the image's history: it should hold no password.
	IndexURL string
	// CABundle is a file of certificates in PEM to trust while packages are
	// installed; "": those of Base.
	CABundle string
	NoCache  bool
	Progress io.Writer // nil: nowhere
}

// BuildTrainer builds the image TrainerImage from the files embedded in this
// program. It needs about 12 GB on the engine's disk while it runs and leaves
// an image of 6 GB.
func (e *Engine) BuildTrainer(ctx context.Context, o TrainerOptions) (Image, error) {
	extra := map[string][]byte{}
	if o.CABundle != "" {
		pem, err := os.ReadFile(o.CABundle)
		if err != nil {
			return Image{}, fmt.Errorf("CA bundle: %w", err)
		}
		if !bytes.Contains(pem, []byte("-----BEGIN CERTIFICATE-----")) {
			return Image{}, usage("CA bundle: %s holds no certificate in PEM", o.CABundle)
		}
		extra[caBundle] = pem
	}
	tar, err := trainer.BuildContext(extra)
	if err != nil {
		return Image{}, err
	}
	args := map[string]string{"BASE": DefaultBase}
	if o.Base != "" {
		args["BASE"] = o.Base
	}
	if o.IndexURL != "" {
		args["INDEX_URL"] = o.IndexURL
	}
	i, err := e.Build(ctx, tar, BuildOptions{
		Tag: TrainerImage(), Args: args, Labels: map[string]string{"bench.trainer": trainer.Digest()},
		// The engine's default network may have no way out, or no names.
		Network: "host", NoCache: o.NoCache, Progress: o.Progress,
	})
	if own, ok := errors.AsType[*Error](err); ok && own.Kind == BuildFailed && own.Hint == "" {
		own.Hint = fmt.Sprintf("the base image was %s; choose another with --base, a package index with --index-url, its certificates with --ca-bundle", args["BASE"])
	}
	return i, err
}
