package slurm

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"bench/internal/atomicfile"
	"bench/internal/hostile"
	"bench/internal/sshlink"
	"bench/runner/job"
	"bench/runner/kept"
)

// fetcher brings what batches wrote at a far site to their folders here: for all
// of them in one look, and in one archive what is new.
type fetcher struct {
	far *far

	looking sync.Mutex
	starts  map[string]*fetched // by name of the start
	running bool
}

// fetched is one start that somebody waits for.
type fetched struct {
	h    *handle
	seen map[*handle]bool
	at   time.Time // of the last look whose findings are here
}

// fetchEvery is the longest time between two looks at the files of a far site.
const fetchEvery = 5 * time.Second

// sliceBytes is how much of a log is fetched at a time, for each batch.
const sliceBytes = 4 << 20

func (f *fetcher) follow(h *handle) (release func()) {
	f.looking.Lock()
	defer f.looking.Unlock()
	if f.starts == nil {
		f.starts = map[string]*fetched{}
	}
	x := f.starts[h.r.Name]
	if x == nil {
		x = &fetched{h: h, seen: map[*handle]bool{}}
		f.starts[h.r.Name] = x
	}
	x.seen[h] = true
	if !f.running {
		f.running = true
		go f.loop()
	}
	return sync.OnceFunc(func() {
		f.looking.Lock()
		defer f.looking.Unlock()
		if delete(x.seen, h); len(x.seen) == 0 && f.starts[h.r.Name] == x {
			delete(f.starts, h.r.Name)
		}
	})
}

func (f *fetcher) seen(h *handle, at time.Time) bool {
	f.looking.Lock()
	defer f.looking.Unlock()
	x := f.starts[h.r.Name]
	return x != nil && x.at.After(at)
}

// loop looks until nobody waits. That the cluster does not answer, the watcher
// says, who asks over the same connection.
func (f *fetcher) loop() {
	var failing time.Time // since when nothing could be fetched
	said := false
	for {
		f.looking.Lock()
		if len(f.starts) == 0 {
			f.running = false
			f.looking.Unlock()
			return
		}
		all := map[string]*fetched{}
		for name, x := range f.starts {
			all[name] = x
		}
		f.looking.Unlock()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		behind, err := f.look(ctx, all)
		cancel()
		switch {
		case err == nil:
			failing, said = time.Time{}, false
		case failing.IsZero():
			failing = begun
		case !said && !errors.As(err, new(*sshlink.Error)) && time.Since(failing) > 3*f.far.poll:
			said = true
			f.far.notice(fmt.Sprintf("what batches wrote at %s cannot be fetched (%v); trying again, it stays there", f.far.Host, err))
		}
		if err == nil {
			f.looking.Lock()
			for name, x := range all {
				if !behind[name] {
					x.at = begun
				}
			}
			f.looking.Unlock()
		}
		pause := min(fetchEvery, f.far.poll/2)
		if err == nil && len(behind) > 0 {
			pause = 0
		}
		time.Sleep(max(pause, 50*time.Millisecond))
	}
}

// look brings what is new of these starts, and says of which there is more.
func (f *fetcher) look(ctx context.Context, all map[string]*fetched) (behind map[string]bool, err error) {
	var names strings.Builder
	for name := range all {
		names.WriteString(name + "\n")
	}
	var said bytes.Buffer
	err = f.far.bash(ctx, strings.NewReader(names.String()), &said, `cd "$1" 2>/dev/null || exit 0
mapfile -t names
find "${names[@]}" -maxdepth 1 -type f \( -name exit.json -o -name lacks -o -name log -o -name events \) -printf '%s %p\n' 2>/dev/null
find "${names[@]/%//out}" -mindepth 2 -maxdepth 2 -type f -name `+kept.Outcome+` -printf '0 %p\n' 2>/dev/null
true`, f.far.batches())
	if err != nil {
		return nil, err
	}
	ends := map[string]string{} // NAME/exit.json or NAME/lacks, by NAME
	var wanted strings.Builder
	for line := range strings.Lines(said.String()) {
		var size int64
		number, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name, rest, _ := strings.Cut(file, "/")
		x := all[name]
		if _, err := fmt.Sscan(number, &size); err != nil || x == nil {
			continue
		}
		switch rest {
		case "exit.json", "lacks":
			if exists(x.h.file(rest)) { // and so all of its log
				continue
			}
			ends[name] = rest
			fmt.Fprintf(&wanted, "file %s\n", file)
		case "log", "events":
			if has := x.h.has(rest); size > has {
				fmt.Fprintf(&wanted, "slice %s %d\n", file, has)
			}
		default:
			if id := jobOf(x.h, rest); id != "" && !exists(filepath.Join(x.h.d.Out(), id, kept.Outcome)) && !exists(filepath.Join(x.h.out(), id, kept.Outcome)) {
				fmt.Fprintf(&wanted, "job %s\n", path.Dir(file))
			}
		}
	}
	// The sizes may be older than the sign of the end.
	for name := range ends {
		for _, which := range []string{"log", "events"} {
			fmt.Fprintf(&wanted, "slice %s/%s %d\n", name, which, all[name].h.has(which))
		}
	}
	if wanted.Len() == 0 {
		return nil, nil
	}
	return f.bring(ctx, all, ends, wanted.String())
}

// jobOf returns the job whose outcome a file is, out/JOB/outcome.json; "" if it
// is not one of the batch.
func jobOf(h *handle, file string) string {
	for _, j := range h.b.Jobs {
		if file == "out/"+string(j.ID)+"/"+kept.Outcome {
			return string(j.ID)
		}
	}
	return ""
}

// copied are the file of this machine that a log of a far start goes to, and
// where in it that begins.
func (h *handle) copied(which string) (file string, from int64) {
	if which == "log" {
		return h.d.Log(), h.r.LogFrom
	}
	return h.d.Events(), h.r.EventsFrom
}

// has is how much of a log is here.
func (h *handle) has(which string) int64 {
	file, from := h.copied(which)
	return max(0, kept.Size(file)-from)
}

// bring fetches an archive of what is wanted. What tells that a start has ended
// comes into its folder last, and only when all of its log is here.
func (f *fetcher) bring(ctx context.Context, all map[string]*fetched, ends map[string]string, wanted string) (map[string]bool, error) {
	b := &bringer{all: all, parts: map[string]string{}, jobs: map[string]bool{}, ends: map[string][]byte{}, behind: map[string]bool{}, offsets: map[string]int64{}}
	for line := range strings.Lines(wanted) {
		var offset int64
		if f := strings.Fields(line); len(f) == 3 {
			fmt.Sscan(f[2], &offset)
			b.offsets[f[1]] = offset
		}
	}
	defer b.clear()
	in, out := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := b.unpack(in)
		in.CloseWithError(errors.Join(err, errors.New("the archive was not read to its end")))
		unpacked <- err
	}()
	err := f.far.bash(ctx, strings.NewReader(wanted), out, fmt.Sprintf(`cd "$1" || exit 1
t=$(mktemp -d) && mkdir "$t/s" || exit 1; trap 'rm -rf "$t"' EXIT
while read -r what name from; do
  case $what in
  file) echo "$name";;
  job) for x in %s %s; do if [ -e "$name/$x" ] || [ -L "$name/$x" ]; then echo "$name/$x"; fi; done;;
  slice) [ -f "$name" ] && [ "$(stat -c %%s "$name")" -gt "$from" ] && mkdir -p "$t/s/${name%%/*}" && tail -c "+$((from + 1))" "$name" | head -c %d >"$t/s/$name";;
  esac
done >"$t/list"
tar -c -f - -C "$t/s" . -C "$1" -T "$t/list"`, kept.Predictions, kept.Outcome, sliceBytes), f.far.batches())
	out.CloseWithError(err)
	if why := <-unpacked; err == nil {
		err = why
	}
	if err != nil {
		return nil, err
	}
	return b.behind, b.settle(ends)
}

// bringer unpacks one archive.
type bringer struct {
	all     map[string]*fetched
	offsets map[string]int64  // of slices, by NAME/log
	parts   map[string]string // folders in which jobs are put together, by name of the start
	jobs    map[string]bool   // NAME/JOB
	ends    map[string][]byte // by name of the start
	behind  map[string]bool
}

func (b *bringer) unpack(in io.Reader) error {
	for t := tar.NewReader(in); ; {
		x, err := t.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, in)
			return err
		}
		if err != nil {
			return err
		}
		file := path.Clean(x.Name)
		name, rest, _ := strings.Cut(file, "/")
		of := b.all[name]
		if of == nil || rest == "" {
			continue
		}
		switch rest {
		case "log", "events":
			err = b.log(of.h, name, rest, t)
		case "exit.json", "lacks":
			if x.Typeflag == tar.TypeReg && x.Size <= maxWitness {
				b.ends[name], err = io.ReadAll(t)
			}
		default:
			err = b.job(of.h, name, rest, x, t)
		}
		if err != nil && !gone(err) { // without a folder, another bench has cleared up
			return err
		}
	}
}

// log writes a slice to where it belongs. Whoever else watches over the batch
// writes the same.
func (b *bringer) log(h *handle, name, which string, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, sliceBytes))
	if err != nil {
		return err
	}
	file, from := h.copied(which)
	offset := b.offsets[name+"/"+which]
	if offset >= 2*kept.MaxLog { // the node cuts it before
		return nil
	}
	b.behind[name] = b.behind[name] || len(text) == sliceBytes
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, from+offset)
	return errors.Join(err, f.Close())
}

// job takes a file of a job, NAME/out/JOB/FILE. What is not a regular file
// becomes a link that leads nowhere, what is too big one of that size without
// content: whoever reads the folder refuses both.
func (b *bringer) job(h *handle, name, rest string, x *tar.Header, in io.Reader) error {
	id := jobOf(h, path.Dir(rest)+"/"+kept.Outcome)
	if id == "" || path.Base(rest) != kept.Outcome && path.Base(rest) != kept.Predictions {
		return nil
	}
	if b.parts[name] == "" {
		part, err := os.MkdirTemp(h.run(), "part-")
		if err != nil {
			return err
		}
		b.parts[name] = part
	}
	to := filepath.Join(b.parts[name], id, path.Base(rest))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if path.Base(rest) == kept.Outcome {
		b.jobs[name+"/"+id] = true
	}
	if x.Typeflag != tar.TypeReg {
		return os.Symlink("refused", to)
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if x.Size > job.MaxPredictions {
		err = f.Truncate(x.Size)
	} else {
		_, err = io.Copy(f, in)
	}
	return errors.Join(err, f.Close())
}

// settle moves what came whole to its place, in this order.
func (b *bringer) settle(ends map[string]string) error {
	for key := range b.jobs {
		name, id, _ := strings.Cut(key, "/")
		h := b.all[name].h
		err := os.Rename(filepath.Join(b.parts[name], id), filepath.Join(h.out(), id))
		if err != nil && !gone(err) && !errors.Is(err, fs.ErrExist) && !exists(filepath.Join(h.out(), id, kept.Outcome)) {
			return err
		}
	}
	for name, text := range b.ends {
		h := b.all[name].h
		if b.behind[name] || !exists(h.run()) || exists(h.file(ends[name])) {
			continue
		}
		if err := atomicfile.WriteBytes(h.file(ends[name]), text); err != nil {
			return err
		}
	}
	return nil
}

func (b *bringer) clear() {
	for _, part := range b.parts {
		_ = hostile.RemoveAll(part)
	}
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
