package kubernetes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"bench/internal/content"
	"bench/internal/hostile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

// volume is where folders of batches are for pods, as bench reaches it. Names of
// folders are relative to the volume, with slashes.
type volume interface {
	// check says whether it can be reached; a *runner.PreconditionError if not.
	check(ctx context.Context) error
	// put makes dir with these files, whole or not at all; nothing if it is
	// there already. A writable one may be written to by the pods' user.
	put(ctx context.Context, dir string, files []file, writable bool) error
	// supply says how a pod gets the folders that were put.
	supply(ctx context.Context, r order) (supply, error)
	// results returns a folder of this machine with what the jobs in the
	// writable folder dir have finished: until now if fresh, else a little while
	// ago. It may be into. What lies there is not to be trusted.
	results(ctx context.Context, dir string, jobs []job.ID, into string, fresh bool) (string, error)
	// usage counts what lies in dir, up to kept.MaxEntries files and folders.
	usage(ctx context.Context, dir string) (bytes int64, entries int, err error)
	// remove removes folders that nobody uses any more.
	remove(ctx context.Context, dirs ...string) error
}

// file is a file to be put: the text, or else the content of from.
type file struct {
	name string // relative, with slashes
	from string
	text []byte
	size int64
}

// mounted is a claim's volume that this machine has in a folder.
type mounted struct {
	root   string
	claim  string
	shared bool // the pods' user is another than that of bench
}

func ownUser() int { return os.Getuid() }

func (m mounted) path(dir string) string { return filepath.Join(m.root, filepath.FromSlash(dir)) }

func (m mounted) check(context.Context) error {
	probe, err := os.CreateTemp(m.root, ".bench-")
	if err != nil {
		return &runner.PreconditionError{What: "the claim's volume cannot be written to at " + m.root, Hint: "mount it there, or leave out path: in pvc: and it is filled through a pod", Err: err}
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func (m mounted) supply(_ context.Context, r order) (supply, error) { return claimed(m.claim, r), nil }

func (m mounted) put(ctx context.Context, dir string, files []file, writable bool) error {
	to := m.path(dir)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := makeFolder(filepath.Dir(to), 0o711); err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(to), ".part-"+rand.Text())
	err := m.fill(ctx, part, files, writable)
	if err == nil {
		err = os.Rename(part, to)
	}
	if err != nil {
		os.RemoveAll(part)
		if _, there := os.Stat(to); there == nil { // somebody was quicker
			return nil
		}
	}
	return err
}

func (m mounted) fill(ctx context.Context, to string, files []file, writable bool) error {
	mode := fs.FileMode(0o755)
	if writable && m.shared {
		mode = 0o777 // the name of the folder above cannot be guessed, and those above do not show it
	}
	if err := makeFolder(to, mode); err != nil {
		return err
	}
	for _, f := range files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		path := filepath.Join(to, filepath.FromSlash(f.name))
		if parent := filepath.Dir(path); parent != to {
			if err := makeFolder(parent, mode); err != nil {
				return err
			}
		}
		if err := f.write(path); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file that every user may read.
func (f file) write(path string) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = f.copy(out)
	return errors.Join(err, out.Chmod(0o644), out.Close())
}

func (f file) copy(to io.Writer) error {
	if f.from == "" {
		_, err := to.Write(f.text)
		return err
	}
	in, err := os.Open(f.from)
	if err != nil {
		return err
	}
	defer in.Close()
	n, err := io.Copy(to, in)
	if err == nil && n != f.size {
		err = fmt.Errorf("%s changed while it was copied", f.from)
	}
	return err
}

func (m mounted) results(_ context.Context, dir string, jobs []job.ID, _ string, _ bool) (string, error) {
	out := m.path(dir)
	// A network file system may keep saying that a file is not there until
	// somebody reads its folder.
	os.ReadDir(out)
	for _, id := range jobs {
		os.ReadDir(filepath.Join(out, string(id)))
	}
	return out, nil
}

func (m mounted) usage(_ context.Context, dir string) (int64, int, error) {
	return hostile.Usage(m.path(dir), kept.MaxEntries)
}

func (m mounted) remove(_ context.Context, dirs ...string) error {
	var errs []error
	for _, d := range dirs {
		errs = append(errs, hostile.RemoveAll(m.path(d)))
	}
	return errors.Join(errs...)
}

// makeFolder makes a folder with exactly these rights, whatever the umask.
// Folders above it that are there keep theirs; others get no more than 0755.
func makeFolder(dir string, mode fs.FileMode) error {
	if i, err := os.Stat(dir); err == nil && i.IsDir() {
		return nil
	}
	if err := makeFolder(filepath.Dir(dir), mode&0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, mode)
}

// fill puts a batch's input, and its model if that is not there yet, into the
// volume: RUN/in, a copy of Dir.In in which batch.json has the model's place in
// the container, and RUN/out, in which jobs that are done are marked as such.
// It returns the model's folder.
func (c *cluster) fill(ctx context.Context, b job.Batch, d job.Dir, run string, threads int) (model string, err error) {
	in, err := content.List(d.In())
	if err != nil {
		return "", err
	}
	files := sources(slices.DeleteFunc(in, func(f content.File) bool { return f.Name == "batch.json" }))
	if b.Model.Path != "" {
		read, err := kept.ReadSnapshot(b.Model)
		if err != nil {
			return "", err
		}
		snapshot := sources(read.Files)
		model = Options{Place: c.place}.modelFolder(modelKey(b.Model, snapshot))
		if err := c.once(model, func() error { return c.volume.put(ctx, model, snapshot, false) }); err != nil {
			return "", fmt.Errorf("model %s: %w", b.Model.ID, err)
		}
		b.Model.Path = insideModel
	}
	b.Threads = threads
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return "", err
	}
	files = append(files, textFile("batch.json", append(text, '\n')))
	if err := c.volume.put(ctx, run+"/in", files, false); err != nil {
		return "", err
	}
	var done []file
	for _, j := range b.Jobs {
		// What is done already is not done again; the trainer looks for this file.
		name := string(j.ID) + "/" + kept.Outcome
		_, err := hostile.ReadFile(d.Out(), filepath.FromSlash(name), job.MaxOutcome)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		done = append(done, textFile(name, []byte("{}\n")))
	}
	return model, c.volume.put(ctx, run+"/out", done, true)
}

// sources are files of this machine to be put.
func sources(list []content.File) []file {
	var files []file
	for _, f := range list {
		files = append(files, file{name: f.Name, from: f.Path, size: f.Size})
	}
	return files
}

func textFile(name string, text []byte) file {
	return file{name: name, text: text, size: int64(len(text))}
}

// once lets one at a time in this process work on a folder.
func (c *cluster) once(dir string, do func() error) error {
	c.mu.Lock()
	lock := c.filling[dir]
	if lock == nil {
		lock = &sync.Mutex{}
		c.filling[dir] = lock
	}
	c.mu.Unlock()
	lock.Lock()
	defer lock.Unlock()
	return do()
}

// modelKey names a snapshot by what it is of and what is in it: its revision is
// a commit or a digest of the content.
func modelKey(m job.Model, files []file) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", m.ID, m.Revision)
	for _, f := range files {
		fmt.Fprintf(h, "%q %d\n", f.name, f.size)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
