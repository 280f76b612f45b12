package slurm

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"bench/runner"
	"bench/runner/kept"
)

// Image is a container image in a file, as nodes can run it.
type Image struct {
	File     string   // absolute; what a node runs
	Runtimes []string // container programs that can, the preferred one first
	Digest   string   // sha256:…, of a saved Docker image its id, else of the file
	Names    []string // tags of a saved Docker image
}

// OpenImage prepares an image file for the nodes, which may be offline: nothing
// is fetched from a registry. A .sif file is for Apptainer and SingularityCE, a
// .sqsh file for Pyxis. A .tar file, as docker save writes it, is for Podman;
// but where Apptainer or SingularityCE is installed on this machine it is
// turned into a .sif file in the folder cache, once for each image. One program
// can be asked for by name, which is one of Runtimes; empty: any. Errors of the
// user's are *runner.PreconditionError.
func OpenImage(ctx context.Context, path, program, cache string, progress io.Writer) (Image, error) {
	refuse := func(what, hint string, err error) (Image, error) {
		return Image{}, &runner.PreconditionError{What: fmt.Sprintf("image %s: %s", path, what), Hint: hint, Err: err}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Image{}, err
	}
	i := Image{File: abs}
	if st, err := os.Stat(abs); err != nil || !st.Mode().IsRegular() {
		return refuse("it cannot be read", "for Slurm, --image is a file: .sif (Apptainer), .sqsh (Pyxis), or .tar as docker save writes it", err)
	}
	switch ext := filepath.Ext(abs); ext {
	case ".sif":
		i.Runtimes = []string{"apptainer", "singularity"}
	case ".sqsh":
		i.Runtimes = []string{"pyxis"}
	case ".tar":
		i.Runtimes = []string{"podman-hpc", "podman"}
		if i.Digest, i.Names, err = savedImage(abs); err != nil {
			return refuse("it is not a saved Docker image", "make it with docker save -o image.tar NAME", err)
		}
		if program != "podman" && program != "podman-hpc" {
			builder := ""
			for _, name := range []string{"apptainer", "singularity"} {
				if _, err := exec.LookPath(name); err == nil && builder == "" {
					builder = name
				}
			}
			switch {
			case builder != "":
				if i.File, err = buildSIF(ctx, builder, abs, filepath.Join(cache, i.Digest[len("sha256:"):][:32]+".sif"), progress); err != nil {
					return Image{}, err
				}
				i.Runtimes = []string{"apptainer", "singularity"}
			case program == "apptainer" || program == "singularity":
				return refuse(program+" is not installed on this machine, so no .sif file can be made of it",
					"make one where it is installed: "+program+" build image.sif docker-archive:image.tar; then give that with --image", nil)
			}
		}
	default:
		return refuse(fmt.Sprintf("files %s are not known", cmp.Or(ext, "without an ending")), "give a .sif (Apptainer), .sqsh (Pyxis) or .tar file (docker save)", nil)
	}
	if program != "" {
		if !slices.Contains(i.Runtimes, program) {
			return refuse(program+" cannot run it", "it is for "+strings.Join(i.Runtimes, ", "), nil)
		}
		i.Runtimes = []string{program}
	}
	if i.Digest == "" {
		if i.Digest, err = fileDigest(abs); err != nil {
			return refuse("it cannot be read", "check the file", err)
		}
	}
	return i, nil
}

// savedImage reads the id and the tags of the image in a file of docker save.
func savedImage(path string) (id string, names []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return "", nil, errors.New("it has no manifest.json")
		}
		if err != nil {
			return "", nil, err
		}
		if h.Name != "manifest.json" {
			continue
		}
		var images []struct {
			Config   string
			RepoTags []string
		}
		if err := json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&images); err != nil {
			return "", nil, err
		}
		if len(images) != 1 {
			return "", nil, fmt.Errorf("it holds %d images, want one", len(images))
		}
		// DIGEST.json, or blobs/sha256/DIGEST
		digest := strings.TrimSuffix(filepath.Base(images[0].Config), ".json")
		if b, err := hex.DecodeString(digest); err != nil || len(b) != sha256.Size {
			return "", nil, fmt.Errorf("its config has no digest for a name: %.80q", images[0].Config)
		}
		return "sha256:" + digest, images[0].RepoTags, nil
	}
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// buildSIF makes the file to from a saved Docker image unless it is there. It is
// made here and once, because nodes that make it at the same time spoil each
// other's cache.
func buildSIF(ctx context.Context, builder, from, to string, progress io.Writer) (string, error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return "", err
	}
	held, err := waitLock(ctx, to+".lock")
	if err != nil {
		return "", err
	}
	defer held.Close()
	if exists(to) {
		return to, nil
	}
	fmt.Fprintf(progress, "making %s of %s with %s\n", to, from, builder)
	part := to + ".part"
	if err := kept.Remove(part); err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, builder, "build", part, "docker-archive:"+from)
	var said bytes.Buffer
	c.Stdout, c.Stderr = io.MultiWriter(progress, &said), io.MultiWriter(progress, &said)
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return "", &runner.PreconditionError{
			What: fmt.Sprintf("%s cannot turn %s into a .sif file", builder, from), Err: fmt.Errorf("%w: %s", err, strings.Join(lines[max(0, len(lines)-3):], "; ")),
			Hint: "it takes three times the image's size on the disk and in $APPTAINER_TMPDIR or $TMPDIR; or make the file elsewhere and give it with --image",
		}
	}
	return to, os.Rename(part, to)
}
