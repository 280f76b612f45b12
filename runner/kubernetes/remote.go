package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"bench/internal/hostile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

// remote is a volume that this machine cannot mount. A helper pod of the
// trainer's image has it mounted, and kubectl exec moves tar archives in and
// out: the image needs sh, tar, find and du. The helper is confined like a
// trainer, and made anew when it is gone.
type remote struct {
	c *cluster
	o Options

	making sync.Mutex // of the helper

	mu     sync.Mutex
	listed time.Time
	done   map[string]bool  // DIR/JOB with an outcome, DIR relative to the volume
	used   map[string]int64 // bytes below DIR
}

const (
	labelRole = "bench.role"
	// helperLife bounds the life of a helper that nobody removed.
	helperLife = 24 * time.Hour
	// insideVolume is where the helper has the whole volume.
	insideVolume = "/bench/volume"
	// shTimeout and putTimeout bound a command in the helper, and one that is
	// sent a model.
	shTimeout, putTimeout = 10 * time.Minute, 6 * time.Hour
	// completeMark is the last file of an archive: a cut one lacks it.
	completeMark = ".bench-complete"
)

// every is how often the volume is looked at, for all batches in one.
func (r *remote) every() time.Duration { return r.o.Poll * 5 / 2 }

func (r *remote) helperName() string { return "bench-helper-" + r.c.place.Instance }

// helper is the manifest of the helper pod.
func (r *remote) helper() pod {
	labels := map[string]string{labelManaged: "bench", labelInstance: r.c.place.Instance, labelRole: "helper"}
	s := r.o.podSpec(order{threads: 1}, claimed(r.o.Claim, order{}).data, []volumeMount{{Name: "data", MountPath: insideVolume}, {Name: "tmp", MountPath: "/tmp"}})
	s.ActiveDeadlineSeconds = int64(helperLife / time.Second)
	s.TerminationGracePeriodSeconds = 1
	c := &s.Containers[0]
	c.Command, c.Args, c.Env = []string{"sleep", strconv.Itoa(int(helperLife / time.Second))}, nil, nil
	c.Resources.Limits = map[string]string{"cpu": "1", "memory": "512Mi"}
	c.Resources.Requests = map[string]string{"cpu": "100m", "memory": "128Mi"}
	s.Volumes[1].EmptyDir.SizeLimit = "64Mi"
	return pod{APIVersion: "v1", Kind: "Pod", Metadata: meta{Name: r.helperName(), Namespace: r.c.place.Namespace, Labels: labels}, Spec: s}
}

// check makes sure that the helper runs.
func (r *remote) check(ctx context.Context) error {
	r.making.Lock()
	defer r.making.Unlock()
	at := r.c.pods() + "/" + r.helperName()
	for {
		var p pod
		err := r.c.call(ctx, http.MethodGet, at, nil, nil, &p)
		if isReason(err, "NotFound") {
			if r.o.Image == "" {
				return &runner.PreconditionError{What: "the helper pod that reaches the volume is gone", Hint: "give the kubernetes: mapping that the batches were started with"}
			}
			if err := r.c.call(ctx, http.MethodPost, r.c.pods(), nil, r.helper(), nil); err != nil && !isReason(err, "AlreadyExists") {
				return r.c.precondition(err)
			}
			continue
		}
		if err != nil {
			return r.c.precondition(err)
		}
		if p.Metadata.DeletionTimestamp == nil {
			v := look(&batchJob{}, []pod{p}, time.Now(), r.o.NodePatience)
			switch {
			case v.phase == stuck:
				r.c.call(context.WithoutCancel(ctx), http.MethodDelete, at, nil, nil, nil)
				return v.trouble
			case v.phase == running && p.Status.Phase == "Running":
				return nil
			case p.Status != nil && !activePod(&p):
				if err := r.c.call(ctx, http.MethodDelete, at, nil, nil, nil); err != nil && !isReason(err, "NotFound") {
					return r.c.precondition(err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// sh runs a shell script in the helper, with the folder of the volume as
// working folder and args as "$1" and so on.
func (r *remote) sh(ctx context.Context, stdin io.Reader, stdout io.Writer, script string, args ...string) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	limit := shTimeout
	if stdin != nil {
		limit = putTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if stdout == nil {
		stdout = io.Discard
	}
	command := []string{"exec"}
	if stdin != nil {
		command = append(command, "-i")
	}
	command = append(command, "--namespace="+r.c.place.Namespace, "--container="+trainerName, r.helperName(), "--", "sh", "-c", "set -e; cd "+insideVolume+"; "+script, "sh")
	return r.c.run(ctx, stdin, stdout, append(command, args...)...)
}

func (r *remote) supply(_ context.Context, b order) (supply, error) {
	return claimed(r.o.Claim, b), nil
}

func (r *remote) put(ctx context.Context, dir string, files []file, writable bool) error {
	var there bytes.Buffer
	if err := r.sh(ctx, nil, &there, `if [ -d "$1" ]; then echo yes; fi`, dir); err != nil || strings.TrimSpace(there.String()) == "yes" {
		return err
	}
	in, out := io.Pipe()
	go func() { out.CloseWithError(pack(ctx, out, files)) }()
	defer in.Close()
	mode := "755"
	if writable {
		mode = "777"
	}
	return r.sh(ctx, in, nil, `
part="$(dirname "$1")/.part-$$-$(basename "$1")"
rm -rf "$part"
mkdir -p "$part"
tar -x -f - --no-same-owner -C "$part"
[ -f "$part/`+completeMark+`" ]
rm "$part/`+completeMark+`"
chmod `+mode+` "$part"
mv -T "$part" "$1" || { rm -rf "$part"; [ -d "$1" ]; }`, dir)
}

// pack writes files as a tar archive that ends with completeMark.
func pack(ctx context.Context, to io.Writer, files []file) error {
	t := tar.NewWriter(to)
	for _, f := range append(files[:len(files):len(files)], textFile(completeMark, nil)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: f.size, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if err := f.copy(t); err != nil {
			return err
		}
	}
	return t.Close()
}

// list looks at all batches of the instance in one go.
func (r *remote) list(ctx context.Context, after time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listed.After(after) {
		return nil
	}
	begun := time.Now()
	var out bytes.Buffer
	root := path.Join(r.o.root(), "batches")
	err := r.sh(ctx, nil, &out, `mkdir -p "$1"; find "$1" -mindepth 4 -maxdepth 4 -path '*/out/*' -name `+kept.Outcome+` -printf 'done %h\n'
find "$1" -mindepth 2 -maxdepth 2 -name out -exec du -sk {} + | sed 's/^/used /'`, root)
	if err != nil {
		return err
	}
	r.listed, r.done, r.used = begun, map[string]bool{}, map[string]int64{}
	for line := range strings.Lines(out.String()) {
		what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "done" {
			r.done[rest] = true
		} else if size, dir, ok := strings.Cut(rest, "\t"); ok {
			kilobytes, _ := strconv.ParseInt(size, 10, 64)
			r.used[dir] = kilobytes << 10
		}
	}
	return nil
}

func (r *remote) results(ctx context.Context, dir string, jobs []job.ID, into string, fresh bool) (string, error) {
	after := time.Now()
	if !fresh {
		after = after.Add(-r.every())
	}
	return into, r.fetch(ctx, dir, jobs, into, after)
}

// fetch brings what has an outcome in a listing no older than after.
func (r *remote) fetch(ctx context.Context, dir string, jobs []job.ID, into string, after time.Time) error {
	if err := r.list(ctx, after); err != nil {
		return err
	}
	var names []string
	r.mu.Lock()
	for _, id := range jobs {
		if _, err := os.Lstat(filepath.Join(into, string(id))); err != nil && r.done[dir+"/"+string(id)] {
			names = append(names, string(id))
		}
	}
	r.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	part := into + ".part"
	if err := errors.Join(hostile.RemoveAll(part), os.MkdirAll(part, 0o700), os.MkdirAll(into, 0o700)); err != nil {
		return err
	}
	in, out := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := unpack(in, part)
		in.CloseWithError(errors.Join(err, errors.New("the archive was not read to its end")))
		unpacked <- err
	}()
	err := r.sh(ctx, nil, out, `cd "$1"; shift
for j in "$@"; do for f in `+kept.Outcome+` `+kept.Predictions+`; do if [ -e "$j/$f" ] || [ -L "$j/$f" ]; then echo "$j/$f"; fi; done; done | tar -c -f - -T -`, append([]string{dir}, names...)...)
	out.CloseWithError(err)
	if uerr := <-unpacked; err == nil {
		err = uerr
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(part, name), filepath.Join(into, name)); err != nil {
			return err
		}
	}
	return hostile.RemoveAll(part)
}

// unpack writes the regular files of an archive that nobody trusts below dir:
// only names JOB/FILE of the two files that are asked for. What is not a
// regular file becomes a link that leads nowhere, what is too big one of that
// size without content: whoever reads the folder refuses both.
func unpack(in io.Reader, dir string) error {
	t := tar.NewReader(in)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, in)
			return err
		}
		if err != nil {
			return err
		}
		id, name, ok := strings.Cut(h.Name, "/")
		if !ok || id == "" || strings.Trim(id, "0123456789abcdef") != "" || name != kept.Outcome && name != kept.Predictions {
			return fmt.Errorf("the archive holds %.200q", h.Name)
		}
		to := filepath.Join(dir, id, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			if err := os.Symlink("refused", to); err != nil {
				return err
			}
			continue
		}
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if h.Size > job.MaxPredictions {
			err = f.Truncate(h.Size)
		} else {
			_, err = io.Copy(f, t)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}

func (r *remote) usage(ctx context.Context, dir string) (int64, int, error) {
	if err := r.list(ctx, time.Now().Add(-r.every())); err != nil {
		return 0, 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used[dir], 0, nil
}

func (r *remote) remove(ctx context.Context, dirs ...string) error {
	if r.o.Image == "" && !r.there(ctx) { // GC finds them by their names
		return nil
	}
	return r.sh(ctx, nil, nil, `rm -rf -- "$@"`, dirs...)
}

// there says whether the helper is.
func (r *remote) there(ctx context.Context) bool {
	return r.c.call(ctx, http.MethodGet, r.c.pods()+"/"+r.helperName(), nil, nil, nil) == nil
}
