package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bench/internal/hostile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

const (
	// filePause is the longest time between two looks at a batch's files.
	filePause = time.Second
	// causePatience is how long Slurm is waited for to say why a program failed.
	causePatience = 30 * time.Second
	// witnessPatience is how long a result file is waited for when Slurm says
	// that the job is over: network file systems show new files late.
	witnessPatience = 3 * time.Second
	// lateWitness is the same for a job that went well, which must have one.
	lateWitness = time.Minute
	maxWitness  = 64 << 10
)

// handle is a batch, submitted or ended.
type handle struct {
	e  *Executor
	at *station
	b  job.Batch
	d  job.Dir
	r  record

	seen time.Time // when the result file, or the end in Slurm, was seen first
	end  *kept.End
}

// witness is exit.json, which the batch script wrote.
type witness struct {
	Schema  int    `json:"schema"`
	Code    int    `json:"code"` // as a shell has it: 128 + n for signal n
	Term    bool   `json:"term"` // the script got SIGTERM
	Node    string `json:"node"`
	Job     string `json:"job"`
	Runtime string `json:"runtime"` // container program, or none
	Network string `json:"network"` // cut, open
	Began   int64  `json:"began"`   // Unix time on the node
	Ended   int64  `json:"ended"`
	// What lay in the out folder when the trainer was ended for that; 0: it was not.
	UsedKB int64 `json:"used_kb"`
	Files  int   `json:"files"`
}

func (h *handle) run() string          { return filepath.Join(own(h.d), h.r.Run) }
func (h *handle) out() string          { return filepath.Join(h.run(), "out") }
func (h *handle) Where() runner.Where  { return h.r.Where }
func (h *handle) save() error          { return kept.WriteJSON(h.d.Executor(), h.r) }
func (h *handle) file(n string) string { return filepath.Join(h.run(), n) }

// prepare makes the folder of this start, with the script in it, and has
// everything that it needs shown to the nodes.
func (h *handle) prepare(ctx context.Context, what Program) (string, error) {
	if err := os.MkdirAll(h.out(), 0o700); err != nil {
		return "", err
	}
	for _, j := range h.b.Jobs {
		// What is done already is not done again: the trainer looks for this file.
		if _, err := os.Lstat(filepath.Join(h.d.Out(), string(j.ID), kept.Outcome)); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return "", err
		}
		if err := os.MkdirAll(filepath.Join(h.out(), string(j.ID)), 0o777); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(h.out(), string(j.ID), kept.Outcome), []byte("{}\n"), 0o666); err != nil {
			return "", err
		}
	}
	s, err := h.at.site.show(ctx, h, what)
	if err != nil {
		return "", err
	}
	what = s.program
	p := program{
		batch: h.b.ID.Short() + " of " + h.b.Model.ID, run: s.run, in: s.in, events: s.events, log: s.log,
		threads: h.b.Threads, cpuOnly: h.r.Where.GPUs == nil, out: h.e.o.OutBytes, needs: []string{s.in},
	}
	if p.threads == 0 {
		p.threads = int(h.e.o.Limits.CPUs)
	}
	b := h.b
	if b.Model.Path = s.model; s.model != "" {
		p.needs = append(p.needs, s.model)
	}
	if what.Image.File != "" {
		p.runtimes, p.image = what.Image.Runtimes, what.Image.File
		p.needs = append(p.needs, p.image)
		if s.model != "" {
			p.model, b.Model.Path = showModel(s.model)
		}
	} else {
		p.env = append(p.env, libraryEnv...)
		if p.argv = what.Command; len(p.argv) == 0 {
			p.argv = []string{what.Python, "-m", "bench_trainer"}
			p.env = append(p.env, "PYTHONPATH="+what.Trainer)
			p.needs = append(p.needs, what.Trainer)
		}
		p.env = append(p.env, what.Env...)
		p.needs = append(p.needs, p.argv[0])
	}
	// It takes the place of that in Dir.In in a container, and at another site.
	if err := kept.WriteJSON(h.file("batch.json"), b); err != nil {
		return "", err
	}
	script, err := p.script()
	if err != nil {
		return "", err
	}
	// For people: Slurm keeps a copy of its own.
	if err := os.WriteFile(h.file("script.sh"), []byte(script), 0o600); err != nil {
		return "", err
	}
	return script, h.at.site.lay(ctx, h)
}

// collect moves the folders of finished jobs to Dir.Out. Each start of a batch
// has an out folder of its own, so that a node which was given up, and goes on
// nevertheless, writes to where nobody looks any more.
func (h *handle) collect() error {
	// Read as a folder: network file systems bring it up to date then.
	entries, err := os.ReadDir(h.out())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, f := range entries {
		there[f.Name()] = true
	}
	for _, j := range h.b.Jobs {
		from, to := filepath.Join(h.out(), string(j.ID)), filepath.Join(h.d.Out(), string(j.ID))
		if !there[string(j.ID)] || exists(filepath.Join(to, kept.Outcome)) || !exists(filepath.Join(from, kept.Outcome)) {
			continue
		}
		// Another bench may do the same at the same time.
		if err := os.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) && !exists(filepath.Join(to, kept.Outcome)) {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// read returns what the batch script wrote; nil if it has not.
func (h *handle) read() (*witness, error) {
	entries, err := os.ReadDir(h.run())
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	for _, f := range entries {
		switch f.Name() {
		case "exit.json":
			var w witness
			if err := kept.ReadJSON(h.file("exit.json"), &w); err != nil {
				return nil, err
			}
			return &w, nil
		case "lacks":
			b, err := hostile.ReadFile(h.run(), "lacks", maxWitness)
			if err != nil {
				return nil, err
			}
			what := strings.TrimSpace(string(b))
			hint := "put it on a file system that the nodes share; HOME is chosen with --home, the models' folder with HF_HOME"
			if h.at.Host != "" {
				hint = "put it on a file system that the nodes share: --slurm-folder is seen by all of them, and --python is a path on the cluster"
			}
			if !filepath.IsAbs(what) {
				hint = "choose another partition with --slurm-partition, or look at the node (Slurm job " + h.r.Job + ")"
			}
			return nil, &runner.PreconditionError{What: fmt.Sprintf("a node of %s does not have %s", h.r.Where.Host, what), Hint: hint}
		}
	}
	return nil, nil
}

// look returns how the batch ended; nil if it has not, as far as is known. It is
// for one goroutine.
func (h *handle) look() (*job.Exit, error) {
	var done ended
	if err := kept.ReadJSON(h.file("over.json"), &done); err == nil { // another bench has seen it through
		return &done.Exit, h.collect()
	}
	w, err := h.read()
	if err != nil {
		return nil, err
	}
	if err := h.collect(); err != nil {
		return nil, err
	}
	switch {
	case w != nil && w.Files > 0:
		return &job.Exit{Code: -1, Stopped: true, Detail: fmt.Sprintf("it wrote %d MiB in %d files; %d MiB in %d files are allowed", w.UsedKB>>10, w.Files, h.e.o.OutBytes>>20, kept.MaxEntries)}, nil
	case w != nil && w.Code == 0 && !w.Term:
		return &job.Exit{}, nil
	}
	s, known := h.at.watcher.state(h.r.Job)
	over := known && (s.over() || s.gone())
	if w == nil && known && s.Name == "PENDING" {
		if hint := hopeless(s.Reason); hint != "" {
			return nil, h.giveUp(s, hint)
		}
	}
	if w == nil && !over {
		return nil, nil
	}
	if h.seen.IsZero() {
		h.seen = time.Now()
		h.at.watcher.hurry()
	}
	if !h.at.site.seen(h, h.seen) {
		return nil, nil
	}
	waited := time.Since(h.seen)
	switch {
	case w != nil && !over: // it failed; Slurm will know why
		if waited < causePatience {
			return nil, nil
		}
		s = state{}
	case w != nil:
	case s.Name == "COMPLETED" && waited < lateWitness, waited < min(witnessPatience, 4*h.e.o.Poll):
		return nil, nil
	case s.Name == "FAILED" && s.Told && s.Code == exitNoFolder:
		folder, remedy := h.at.site.folder(h)
		return nil, &runner.PreconditionError{What: fmt.Sprintf("node %s of %s does not see %s", s.Node, h.r.Where.Host, folder), Hint: remedy}
	}
	if err := h.collect(); err != nil { // what came between the two
		return nil, err
	}
	x := conclude(h.r.Job, w, s)
	return &x, nil
}

// giveUp cancels a job that Slurm would let wait for ever.
func (h *handle) giveUp(s state, hint string) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := h.at.cluster.cancel(ctx, h.r.Job); err != nil {
		return err // tried again
	}
	return &runner.PreconditionError{What: fmt.Sprintf("Slurm would never start job %s (%s)", h.r.Job, s.Reason), Hint: hint}
}

// follow watches over the batch until it has ended. It waits for as long as it
// takes, also while Slurm does not answer: a batch that cannot be seen may run.
// Nothing of it is needed at its site then.
func (h *handle) follow() {
	exit, err := h.await()
	if err == nil && exists(h.run()) { // else another bench has seen it through, and cleared up
		err = kept.WriteJSON(h.file("over.json"), ended{exit})
	}
	if err == nil || errors.As(err, new(*runner.PreconditionError)) {
		// What cannot be removed now, GC removes.
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		_ = h.at.site.remove(ctx, h.r)
		cancel()
	}
	h.end.Set(exit, err)
}

// ended is over.json: how a start ended, as the first bench found that saw it through.
type ended struct {
	Exit job.Exit `json:"exit"`
}

func (h *handle) await() (job.Exit, error) {
	defer h.at.site.follow(h)()
	defer h.at.watcher.watch(h.r.Job, h.r.jobName())()
	longest := min(filePause, h.e.o.Poll)
	var failing time.Time
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, longest) {
		exit, err := h.look()
		switch {
		case exit != nil:
			return *exit, nil
		case err == nil:
			failing = time.Time{}
		case failing.IsZero():
			failing = time.Now()
		}
		// A network file system may fail for a while.
		if errors.As(err, new(*runner.PreconditionError)) || err != nil && time.Since(failing) > h.e.o.Patience {
			return job.Exit{}, fmt.Errorf("batch %s: %w", h.b.ID.Short(), err)
		}
		time.Sleep(pause)
	}
}

// over says whether the batch has ended, and waits for Slurm's answer if that
// alone can tell.
func (h *handle) over(ctx context.Context) (bool, error) {
	limit := time.After(2 * callTimeout)
	for {
		select {
		case <-h.end.Done():
			return true, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-limit: // Slurm is away: it may run
			return false, nil
		case <-time.After(20 * time.Millisecond):
		}
		if s, known := h.at.watcher.state(h.r.Job); known && !s.over() && !s.gone() && !exists(h.file("exit.json")) {
			return false, nil
		}
	}
}

// Wait implements runner.Handle.
func (h *handle) Wait(ctx context.Context) (job.Exit, error) {
	return h.end.Wait(ctx)
}

// Stop implements runner.Handle: it cancels the job and waits until it is over.
// Slurm sends SIGTERM, and after its KillWait (30 s by default) SIGKILL.
func (h *handle) Stop(ctx context.Context) error {
	if h.end.Over() {
		return nil
	}
	err := h.at.cluster.cancel(ctx, h.r.Job)
	if err == nil {
		h.at.watcher.hurry()
		select {
		case <-h.end.Done():
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return fmt.Errorf("batch %s: Slurm job %s cannot be stopped: %w", h.b.ID.Short(), h.r.Job, h.at.precondition(err))
}
