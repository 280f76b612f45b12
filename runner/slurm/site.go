package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"bench/runner"
)

// Site says where a cluster is reached.
type Site struct {
	// Host is a login node as ssh takes it, [USER@]HOST[:PORT]; "": this machine is one.
	Host string `json:"host,omitempty"`
	// Folder is a folder that the login node and the nodes see under this path.
	// It is used with a Host alone: else the batch's own folder is seen by all.
	Folder string `json:"folder,omitempty"`
	// Instance names the home folder of this bench, which others may share Folder with.
	Instance string `json:"instance,omitempty"`
}

// site is where the commands of a cluster run, and where its nodes see files.
// The rest of the package works on the folder of a start on this machine; a site
// that the nodes do not see it from keeps it in step with one there.
type site interface {
	// exec runs a command of Slurm, or another program, and returns its stdout.
	// The error is a *commandError.
	exec(ctx context.Context, k call) (string, error)
	// show makes visible to nodes what a start of h runs on, and says where that is.
	show(ctx context.Context, h *handle, what Program) (shown, error)
	// lay makes the folder of a start visible, once its files are written.
	lay(ctx context.Context, h *handle) error
	// submit hands a start in, and returns what sbatch said.
	submit(ctx context.Context, order order, held []*os.File) (string, error)
	// find returns the ids of jobs, or job arrays, that were handed in under the
	// order's name.
	find(ctx context.Context, order order) ([]string, error)
	// follow keeps the folder of h on this machine in step until release is called.
	follow(h *handle) (release func())
	// seen says whether the folder of h shows all that nodes wrote before a time.
	seen(h *handle, at time.Time) bool
	// remove removes what only a running start needs.
	remove(ctx context.Context, r record) error
	// folder is that of a start as nodes see it, and what to do if they do not.
	folder(h *handle) (path, remedy string)
	close()
}

// order is what is handed in by one call of sbatch.
type order struct {
	name    string
	options []string
	script  string
	tasks   int // of a job array; 0: it is none
}

// shown is where nodes see what a start needs.
type shown struct {
	run, in, events, log string
	model                string // folder of the snapshot; "": none
	program              Program
}

// here is a site on whose file systems this machine works as well.
type here struct{}

func (here) exec(ctx context.Context, k call) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.argv[0], k.argv[1:]...)
	cmd.Env = environment(os.Environ())
	cmd.Stdin = strings.NewReader(k.stdin)
	cmd.ExtraFiles = k.keep
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer: %w", context.Cause(ctx))
		}
		return out.String(), newCommandError(k.argv[0], errs.String(), err)
	}
	return out.String(), nil
}

func (here) show(_ context.Context, h *handle, what Program) (shown, error) {
	s := shown{run: h.run(), in: h.d.In(), events: h.d.Events(), log: h.d.Log(), model: h.b.Model.Path, program: what}
	if s.model != "" && what.Image.File != "" {
		var err error
		if s.model, err = filepath.EvalSymlinks(s.model); err != nil {
			return s, fmt.Errorf("model %s: %w", h.b.Model.ID, err)
		}
	}
	return s, nil
}

func (here) lay(context.Context, *handle) error { return nil }

func (s here) submit(ctx context.Context, o order, held []*os.File) (string, error) {
	// The locks go with sbatch: they are free when none is on its way, whatever
	// became of this process.
	return s.exec(ctx, call{argv: append([]string{"sbatch"}, o.options...), stdin: o.script, keep: held})
}

func (s here) find(ctx context.Context, o order) ([]string, error) {
	return cluster{s}.byName(ctx, o.name)
}

func (here) follow(*handle) func()                { return func() {} }
func (here) seen(*handle, time.Time) bool         { return true }
func (here) remove(context.Context, record) error { return nil }
func (here) close()                               {}

func (here) folder(h *handle) (path, remedy string) {
	return h.run(), "choose with --home a folder on a file system that the nodes share with this machine"
}

// station is what an executor keeps of one site.
type station struct {
	Site
	site    site
	cluster cluster
	watcher *watcher
	arrays  *gatherer
}

// at returns the station of a site.
func (e *Executor) at(s Site) (*station, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if st := e.stations[s]; st != nil {
		return st, nil
	}
	var to site = here{}
	if s.Host != "" {
		var err error
		if to, err = newFar(s, e.o); err != nil {
			return nil, err
		}
	}
	st := &station{Site: s, site: to, cluster: cluster{to}, watcher: newWatcher(cluster{to}, e.o.Poll, e.o.Notice), arrays: &gatherer{most: e.o.Array, open: map[string]*array{}}}
	e.stations[s] = st
	return st, nil
}

// Close ends the connections to other machines. Batches go on; to wait for them
// has no end after that.
func (e *Executor) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.stations {
		s.site.close()
	}
}

// Output runs a program of the user's where Slurm's commands run, and returns
// what it wrote to stdout.
func (e *Executor) Output(ctx context.Context, argv ...string) (string, error) {
	at, err := e.at(e.o.Site)
	if err != nil {
		return "", err
	}
	out, err := at.site.exec(ctx, call{argv: argv})
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not there", argv[0])
	}
	return out, at.precondition(err)
}

// precondition is the function of this name, with the site's own remedies.
func (s *station) precondition(err error) error {
	err = precondition(err)
	if p, ok := errors.AsType[*runner.PreconditionError](err); ok && s.Host != "" {
		p.What = strings.Replace(p.What, " here", " at "+s.Host, 1)
		p.Hint = strings.Replace(p.Hint, "run bench on a login node of the cluster", "name with --slurm-host a login node of the cluster", 1)
	}
	return err
}
