package slurm

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"bench/internal/content"
	"bench/internal/sshlink"
	"bench/runner"
	"bench/runner/kept"
)

// far is a site that is reached by ssh, and shares no disk with this machine.
// Everything goes over one connection, which is made again when it is cut, and
// needs nothing there but bash, GNU tar, find and coreutils. Below Site.Folder:
//
//	INSTANCE/content/DIGEST/…   models, rows, the trainer, images: sent once
//	INSTANCE/batches/NAME/…     the folder of one start, as on this machine, with
//	                            in/, log and events in it; removed at its end
type far struct {
	Site
	to       sshlink.To
	poll     time.Duration
	patience time.Duration
	notice   func(string)
	sums     content.Sums

	mu     sync.Mutex
	shell  *sshlink.Shell // nil: not open
	closed bool
	filled map[string]*sync.Mutex // by folder of content

	fetcher
}

func newFar(s Site, o Options) (*far, error) {
	to, err := sshlink.Parse(s.Host)
	if err != nil {
		return nil, &runner.PreconditionError{What: "--slurm-host: " + err.Error(), Hint: "give a login node as for ssh: ann@login.site.org"}
	}
	f := &far{Site: s, to: to, poll: o.Poll, patience: o.Patience, notice: o.Notice, filled: map[string]*sync.Mutex{}}
	f.fetcher.far = f
	return f, nil
}

func (f *far) root() string               { return path.Join(f.Folder, f.Instance) }
func (f *far) batches() string            { return path.Join(f.root(), "batches") }
func (f *far) start(name string) string   { return path.Join(f.batches(), name) }
func (f *far) store(digest string) string { return path.Join(f.root(), "content", digest) }

// bash runs a script on the login node; see sshlink.Shell.Run.
func (f *far) bash(ctx context.Context, stdin io.Reader, stdout io.Writer, script string, args ...string) error {
	f.mu.Lock()
	shell, err := f.shell, error(nil)
	switch {
	case f.closed:
		err = errors.New("the connection was closed")
	case shell == nil:
		// Once it stood it is made again by itself.
		opening, cancel := context.WithTimeout(ctx, farCheckTimeout/2)
		if shell, err = sshlink.Share(opening, f.to); err == nil {
			f.shell = shell
		}
		cancel()
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return shell.Run(ctx, stdin, stdout, script, args...)
}

func (f *far) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.shell != nil {
		f.shell.Close()
	}
}

// scrub takes from the environment what is not for jobs, as environment does
// here, and looks for Slurm where only login shells do.
var scrub = `command -v sbatch >/dev/null || . /etc/profile >/dev/null 2>&1
for v in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do case $v in ` + strings.Join(strings.Fields(passed), "|") + `|LC_*|SBATCH_*) ;; *) unset "$v";; esac; done
`

func (f *far) exec(ctx context.Context, k call) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := f.output(ctx, k.stdin, scrub+`exec "$@"`, k.argv...)
	return out, f.commandError(ctx, k.argv[0], err)
}

// cutPatience is how long a script is run again whose connection was cut, before
// that is told.
const cutPatience = 10 * time.Second

// output runs a script that does no harm if it runs twice, and returns what it
// wrote to stdout.
func (f *far) output(ctx context.Context, stdin, script string, args ...string) (string, error) {
	for end := time.Now().Add(cutPatience); ; time.Sleep(250 * time.Millisecond) {
		var out bytes.Buffer
		err := f.bash(ctx, strings.NewReader(stdin), &out, script, args...)
		if !errors.As(err, new(*sshlink.Error)) || !f.stood() || time.Now().After(end) || ctx.Err() != nil {
			return out.String(), err
		}
	}
}

// stood says whether there ever was a connection.
func (f *far) stood() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shell != nil && !f.closed
}

func (f *far) commandError(ctx context.Context, command string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	if own, ok := errors.AsType[*sshlink.ExitError](err); ok {
		if own.Code == 127 {
			err = exec.ErrNotFound
		}
		return newCommandError(command, own.Said, err)
	}
	return &commandError{command: command, err: err}
}

// show sends what is not there yet. It tries for as long as a submission.
func (f *far) show(ctx context.Context, h *handle, what Program) (shown, error) {
	run := f.start(h.r.Name)
	s := shown{run: run, in: run + "/in", events: run + "/events", log: run + "/log", program: what}
	if h.b.Model.Path != "" {
		snapshot, err := kept.ReadSnapshot(h.b.Model)
		if err == nil {
			s.model, err = f.put(ctx, "model "+h.b.Model.ID, snapshot.Files)
		}
		if err != nil {
			return s, err
		}
	}
	var err error
	switch {
	case what.Image.File != "":
		name := "image" + filepath.Ext(what.Image.File)
		var i os.FileInfo
		if i, err = os.Stat(what.Image.File); err == nil {
			s.program.Image.File, err = f.put(ctx, "image "+what.Image.File, []content.File{{Name: name, Path: what.Image.File, Size: i.Size()}})
			s.program.Image.File = path.Join(s.program.Image.File, name)
		}
	case what.Trainer != "":
		var files []content.File
		if files, err = content.List(what.Trainer); err == nil {
			s.program.Trainer, err = f.put(ctx, "trainer", files)
		}
	}
	return s, err
}

// lay sends the folder of a start, and gives it the rows.
func (f *far) lay(ctx context.Context, h *handle) error {
	all, err := content.List(h.d.In())
	if err != nil {
		return err
	}
	var own, rows []content.File
	for _, x := range all {
		if name, ok := strings.CutPrefix(x.Name, "data/"); ok {
			x.Name = name
			rows = append(rows, x)
		} else if x.Name != "batch.json" {
			x.Name = "in/" + x.Name
			own = append(own, x)
		}
	}
	made, err := content.List(h.run())
	if err != nil {
		return err
	}
	own = append(own, made...)
	for _, x := range made {
		if x.Name == "batch.json" {
			x.Name = "in/batch.json"
			own = append(own, x)
		}
	}
	data := ""
	if len(rows) > 0 {
		if data, err = f.put(ctx, "data sets", rows); err != nil {
			return err
		}
	}
	return f.again(ctx, func() error {
		in, out := io.Pipe()
		go func() { out.CloseWithError(pack(out, own)) }()
		defer in.Close()
		return f.bash(ctx, in, nil, `umask 077; mkdir -p "$1" && cd "$1" && mkdir -p out in && tar -x -f - && [ -e laid ] || exit 1
[ -z "$2" ] || { rm -rf in/data && { cp -al "$2" in/data 2>/dev/null || { rm -rf in/data && cp -a "$2" in/data; }; }; }`, f.start(h.r.Name), data)
	})
}

// pack writes an archive whose last file is named laid.
func pack(to io.Writer, files []content.File) error {
	t := tar.NewWriter(to)
	for _, x := range files {
		b, err := os.ReadFile(x.Path)
		if err != nil {
			return err
		}
		err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: x.Name, Mode: 0o600, Size: int64(len(b)), Format: tar.FormatPAX})
		if err == nil {
			_, err = t.Write(b)
		}
		if err != nil {
			return err
		}
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "laid", Mode: 0o600}); err != nil {
		return err
	}
	return t.Close()
}

// again does something until it succeeds, as long as the connection is what
// keeps it from that, and for no longer than patience without success.
func (f *far) again(ctx context.Context, do func() error) error {
	end := time.Now().Add(f.patience)
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, f.poll) {
		err := do()
		if !errors.As(err, new(*sshlink.Error)) || time.Now().After(end) {
			return f.explain(err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// explain makes the error of files that could not be sent.
func (f *far) explain(err error) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*sshlink.ExitError](err); ok {
		hint := "look at the folder there: ssh " + f.to.String() + " ls -ld " + sshlink.Quote(f.Folder)
		if strings.Contains(own.Said, "No space left") || strings.Contains(own.Said, "quota") {
			hint = "make room there (bench gc --slurm-host … --slurm-folder … removes what this home has sent), or choose another folder with --slurm-folder"
		}
		return &runner.PreconditionError{What: fmt.Sprintf("%s at %s cannot be written to", f.Folder, f.Host), Hint: hint, Err: own}
	}
	return precondition(err)
}

// submit and find are one script. It does not end with the connection, and so
// works under a lock, keeps the number it was told, and never calls sbatch
// twice unless squeue says that the first time nothing came of it. Where the
// folder is gone, the start was given up.
const submission = `cd "$1" || exit 78
exec 9>lock; flock -w 60 9 2>/dev/null
name=$2 how=$3; shift 3
if [ ! -s job ] && [ -e tried ]; then
  ids=$(squeue --noheader --states=all --name="$name" --format=%F) || exit 1
  [ -z "$ids" ] || { echo "${ids%%[!0-9]*}" >job.part && mv job.part job; }
fi
if [ ! -s job ] && [ "$how" = submit ]; then
  touch tried && sbatch "$@" script.sh </dev/null >job.part && mv job.part job || exit 1
fi
[ ! -s job ] || cat job`

func (f *far) submit(ctx context.Context, o order, _ []*os.File) (string, error) {
	if o.tasks > 0 { // it has a folder of its own, which goes with the last of its tasks
		err := f.bash(ctx, strings.NewReader(o.script), nil, `umask 077; mkdir -p "$1/tasks" && cd "$1" && cat >script.part && mv script.part script.sh && for ((i = 0; i < $2; i++)); do [ -e tried ] || : >"tasks/$i"; done`, f.start(o.name), strconv.Itoa(o.tasks))
		if err != nil {
			return "", f.commandError(ctx, "sbatch", err)
		}
	}
	return f.hand(ctx, o, "submit", o.options...)
}

func (f *far) find(ctx context.Context, o order) ([]string, error) {
	text, err := f.hand(ctx, o, "find")
	if own, ok := errors.AsType[*sshlink.ExitError](err); ok && own.Code == 78 {
		return nil, nil
	}
	if err != nil || strings.TrimSpace(text) == "" {
		return nil, err
	}
	id, err := jobID(text)
	return []string{id}, err
}

func (f *far) hand(ctx context.Context, o order, how string, options ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout+callTimeout/2)
	defer cancel()
	out, err := f.output(ctx, "", scrub+submission, append([]string{f.start(o.name), o.name, how}, options...)...)
	return out, f.commandError(ctx, "sbatch", err)
}

func (f *far) remove(ctx context.Context, r record) error {
	if r.Name == "" || strings.Contains(r.Name, "/") {
		return nil
	}
	_, err := f.output(ctx, "", `rm -rf -- "$1" || exit 1
[ -z "$2" ] || { rm -f -- "$2/tasks/$3"; ! rmdir -- "$2/tasks" 2>/dev/null || rm -rf -- "$2"; }`, f.start(r.Name), f.arrayOf(r), strconv.Itoa(r.Task))
	if errors.As(err, new(*sshlink.ExitError)) {
		return nil // a node that was given up may still write there; GC comes later
	}
	if err != nil {
		return f.explain(err)
	}
	return nil
}

// arrayOf is the folder of the job array that a start belongs to; "": none.
func (f *far) arrayOf(r record) string {
	if r.Array == "" || strings.Contains(r.Array, "/") {
		return ""
	}
	return f.start(r.Array)
}

func (f *far) folder(h *handle) (there, remedy string) {
	return f.start(h.r.Name), "choose with --slurm-folder a folder that the login node and the nodes share"
}

// GC removes what this home has sent to the site of Options and what its
// batches left there. Nothing of it may be running. It returns what it removed.
func (e *Executor) GC(ctx context.Context) ([]string, error) {
	at, err := e.at(e.o.Site)
	if err != nil || at.Host == "" {
		return nil, err
	}
	f := at.site.(*far)
	out, err := f.output(ctx, "", `cd "$1" 2>/dev/null || exit 0
for d in batches/* content/*; do [ ! -e "$d" ] || { rm -rf -- "$d" && echo "$1/$d"; }; done; rmdir batches content "$1" 2>/dev/null; true`, f.root())
	if err != nil {
		return nil, f.explain(err)
	}
	return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' }), nil
}

// put sends files that are not there yet, and returns the folder of them. What
// has arrived of a file is not sent again; what arrived is compared by its
// digest.
func (f *far) put(ctx context.Context, what string, files []content.File) (string, error) {
	for _, x := range files {
		if strings.ContainsAny(x.Name, "\n\x00") {
			return "", fmt.Errorf("%s: the name of %q has a line break in it", what, x.Name)
		}
	}
	tree, err := f.sums.Tree(files)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	to := f.store(tree.Digest[:32])
	f.mu.Lock()
	one := f.filled[to]
	if one == nil {
		one = &sync.Mutex{}
		f.filled[to] = one
	}
	f.mu.Unlock()
	one.Lock()
	defer one.Unlock()
	for tries := 0; ; {
		err := f.again(ctx, func() error { return f.fill(ctx, what, to, tree) })
		if !errors.Is(err, errSpoilt) {
			return to, err
		}
		if tries++; tries == 3 {
			return "", fmt.Errorf("%s: %w", what, err)
		}
	}
}

// errSpoilt is the error of files that arrived, and are not the same.
var errSpoilt = errors.New("what arrived is not what was sent")

// fill sends what is missing of a tree.
func (f *far) fill(ctx context.Context, what, to string, t content.Tree) error {
	// What there is of each file: of a whole tree nothing is listed.
	var said bytes.Buffer
	if err := f.bash(ctx, nil, &said, `if [ -d "$1" ]; then echo whole; exit; fi
umask 077; mkdir -p "$1.part" && cd "$1.part" && find . -type f -printf '%s %P\n'`, to); err != nil {
		return err
	}
	has := map[string]int64{}
	for line := range strings.Lines(said.String()) {
		line = strings.TrimSuffix(line, "\n")
		if line == "whole" {
			return nil
		}
		var n int64
		size, name, _ := strings.Cut(line, " ")
		if _, err := fmt.Sscan(size, &n); err == nil {
			has[name] = n
		}
	}
	var missing []content.File
	var bytesLeft int64
	var sums strings.Builder
	for _, x := range t.Files {
		fmt.Fprintf(&sums, "%s\n%s\n", x.SHA256, x.Name)
		if n, ok := has[x.Name]; ok && n == x.Size {
			continue
		} else if n > x.Size { // nothing of ours
			has[x.Name] = 0
		}
		missing = append(missing, x)
		bytesLeft += x.Size - has[x.Name]
	}
	if bytesLeft > 64<<20 {
		f.notice(fmt.Sprintf("sending %s to %s: %.1f of %.1f GB; this happens once", what, f.Host, float64(bytesLeft)/1e9, float64(t.Bytes)/1e9))
	}
	if len(missing) > 0 {
		in, out := io.Pipe()
		go func() { out.CloseWithError(feed(out, missing, has)) }()
		err := f.bash(ctx, in, nil, `umask 077; cd "$1" || exit 1
while IFS= read -r from && IFS= read -r len && IFS= read -r name; do
  mkdir -p -- "$(dirname -- "./$name")" || exit 1
  [ "$from" -gt 0 ] || : >"./$name" || exit 1
  [ "$(stat -c %s -- "./$name")" = "$from" ] || exit 76
  head -c "$len" >>"./$name" || exit 1
done`, to+".part")
		in.Close()
		if err := spoilt(err); err != nil {
			return err
		}
	}
	// A look at all of them, also at those that came before a cut.
	err := f.bash(ctx, strings.NewReader(sums.String()), nil, `cd "$1.part" || { [ -d "$1" ] && exit; }
bad=0
while IFS= read -r sum && IFS= read -r name; do
  got=$(sha256sum <"./$name") && [ "${got%% *}" = "$sum" ] || { rm -f "./$name"; bad=76; }
done
[ "$bad" = 0 ] || exit "$bad"
cd / && sync "$1.part" 2>/dev/null; mv -T "$1.part" "$1" 2>/dev/null || [ -d "$1" ]`, to)
	return spoilt(err)
}

// spoilt tells what the scripts of fill say by their exit code.
func spoilt(err error) error {
	if own, ok := errors.AsType[*sshlink.ExitError](err); ok && own.Code == 76 {
		return errSpoilt
	}
	return err
}

// feed writes for each file from where it is missing, how many bytes come, its
// name, and the bytes.
func feed(to io.Writer, files []content.File, has map[string]int64) error {
	for _, x := range files {
		from := has[x.Name]
		if _, err := fmt.Fprintf(to, "%d\n%d\n%s\n", from, x.Size-from, x.Name); err != nil {
			return err
		}
		if err := feedFile(to, x, from); err != nil {
			return err
		}
	}
	return nil
}

func feedFile(to io.Writer, x content.File, from int64) error {
	in, err := os.Open(x.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(from, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(to, in)
	if err == nil && n != x.Size-from {
		err = fmt.Errorf("%s: %w", x.Path, content.ErrChanged)
	}
	return err
}
