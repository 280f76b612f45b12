// Package process runs trainers as processes of this machine, without a
// container: quick and simple, and no sandbox. Batches that would run code from
// a model's repository are refused.
//
// Each trainer is watched over by a supervisor, a second process of the same
// program (see Supervise), in a session of its own. So a batch goes on when
// bench ends, its limits still hold, and how it ended is written down for the
// next bench to find.
package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"bench/internal/atomicfile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
)

// Name is what records call this executor.
const Name = "process"

// Options of an executor.
type Options struct {
	// Python is the interpreter, as a path or a name to be found in PATH, and
	// Trainer the folder that holds the package bench_trainer:
	//	Python -m bench_trainer --batch IN/batch.json --out OUT
	Python, Trainer string
	// Command, if set, is used instead of Python -m bench_trainer: any program
	// that keeps to the trainer protocol.
	Command []string
	// Env holds further variables, NAME=value. Nothing but these, a few that
	// this package sets, and the harmless ones of its allow-list (PATH, LANG,
	// CUDA_VISIBLE_DEVICES, LD_LIBRARY_PATH …) reaches the trainer: no token.
	Env []string
	// Limits of each batch. CPUs sets the number of threads that libraries
	// start, and is no wall. MemoryBytes is watched several times a second
	// rather than enforced by the kernel: the limit that a process can put on
	// itself (RLIMIT_AS) counts address space, of which CUDA and memory-mapped
	// weights take far more than memory. Time counts from the start of the
	// batch, whoever waits for it.
	Limits runner.Limits
	// Grace is the time between SIGTERM and SIGKILL; 0: 5 s.
	Grace time.Duration
	// Supervisor is the command that ends up in Supervise; nil: this program
	// with SuperviseArg.
	Supervisor []string
}

// New returns an executor that runs trainers as child processes.
func New(o Options) runner.Executor {
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	return &executor{o}
}

type executor struct{ o Options }

// Start implements runner.Executor. When a batch ended already, or was cut off,
// Start runs it again; the log and the events go on at their ends.
func (e *executor) Start(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	if b.Model.RemoteCode {
		return nil, &runner.PreconditionError{
			What: fmt.Sprintf("%s: code from a model's repository is not run without a sandbox, and the process executor has none", b.Model.ID),
			Hint: "use --executor docker",
		}
	}
	before, running, err := e.find(ctx, b, d)
	if err != nil {
		return nil, err
	}
	if running {
		return before, nil
	}
	o, err := e.order(ctx, b, d)
	if err != nil {
		return nil, err
	}
	for {
		// Taken here and handed to the supervisor: from this moment until the
		// batch has ended, whatever dies in between, the lock is free exactly
		// when nothing runs.
		held, err := lock(lockFile(o.Dir))
		r := reply{State: replyRunning}
		if err == nil {
			r, err = e.supervise(ctx, o, held)
			held.Close()
		}
		if err != nil && !errors.Is(err, errLocked) {
			return nil, err
		}
		switch r.State {
		case replyStarted:
			return e.Attach(ctx, b, d)
		case replyNoProgram:
			return nil, &runner.PreconditionError{
				What: fmt.Sprintf("%s cannot be started", o.Argv[0]),
				Hint: "name a Python that has torch and transformers with --python, or use --executor docker", Err: errors.New(r.Error),
			}
		case replyRunning:
			// Another Start was quicker and may be about to write its record, or
			// the run before is about to let go of the lock.
			h, err := e.newer(ctx, b, d, before)
			if err != nil || h != nil {
				return h, err
			}
		default:
			return nil, fmt.Errorf("batch %s: supervisor: %s", b.ID.Short(), r.Error)
		}
	}
}

// find returns the handle of a batch, nil if there is no record of it, and
// whether it runs.
func (e *executor) find(ctx context.Context, b job.Batch, d job.Dir) (*handle, bool, error) {
	found, err := e.Attach(ctx, b, d)
	if errors.Is(err, runner.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	h := found.(*handle)
	exit, err := h.look()
	return h, exit == nil, err
}

// newer waits for a run other than before to leave its record, and returns
// nil when the batch's lock gets free without one.
func (e *executor) newer(ctx context.Context, b job.Batch, d job.Dir, before *handle) (runner.Handle, error) {
	for {
		held, lockErr := lock(lockFile(d)) // before looking: who had it has left its record
		if lockErr == nil {
			held.Close()
		}
		if h, _, err := e.find(ctx, b, d); err != nil {
			return nil, err
		} else if h != nil && (before == nil || h.r.Run != before.r.Run) {
			return h, nil
		}
		if lockErr == nil {
			return nil, nil
		}
		if !errors.Is(lockErr, errLocked) {
			return nil, lockErr
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("batch %s is run by another bench that does not say where: %w", b.ID.Short(), ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// order says what the supervisor is to do.
func (e *executor) order(ctx context.Context, b job.Batch, d job.Dir) (order, error) {
	dir, err := filepath.Abs(string(d))
	if err != nil {
		return order{}, err
	}
	d = job.Dir(dir)
	argv := append([]string(nil), e.o.Command...)
	var python []string
	if len(argv) == 0 {
		path, err := exec.LookPath(cmp.Or(e.o.Python, "python3"))
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return order{}, noPython(cmp.Or(e.o.Python, "python3"), err)
		}
		trainer, err := filepath.Abs(e.o.Trainer)
		if err != nil {
			return order{}, err
		}
		argv = []string{path, "-m", "bench_trainer"}
		python = pythonEnv(trainer)
	}
	host, err := os.Hostname()
	if err != nil {
		return order{}, err
	}
	cpuOnly := e.o.Limits.GPU == "none" || b.Device == "cpu"
	where := runner.Where{Executor: Name, Host: host}
	if !cpuOnly {
		where.GPUs = visibleGPUs(ctx)
	}
	return order{
		Batch:       b.ID,
		Dir:         d,
		TempDir:     os.TempDir(),
		Argv:        append(argv, "--batch", filepath.Join(d.In(), "batch.json"), "--out", d.Out()),
		Env:         environment(os.Environ(), threads(b.Threads, e.o.Limits.CPUs), cpuOnly, append(python, e.o.Env...)),
		MemoryBytes: e.o.Limits.MemoryBytes,
		Time:        e.o.Limits.Time,
		Grace:       e.o.Grace,
		Where:       where,
	}, nil
}

// supervise starts a supervisor, which gets a share in the lock held, and
// returns what it has to say.
func (e *executor) supervise(ctx context.Context, o order, held *os.File) (reply, error) {
	fail := func(err error) (reply, error) {
		return reply{}, fmt.Errorf("batch %s: supervisor: %w", o.Batch.Short(), err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		return fail(err)
	}
	argv := e.o.Supervisor
	if len(argv) == 0 {
		// The link leads to the running program also after its file was
		// replaced or removed, as `go run` and upgrades do.
		argv = []string{self, SuperviseArg}
	}
	log, err := os.OpenFile(o.Dir.Log(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fail(err)
	}
	defer log.Close()
	stdinR, stdinW, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer stdinW.Close()
	replyR, replyW, err := os.Pipe()
	if err != nil {
		stdinR.Close()
		return fail(err)
	}
	defer replyR.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = string(o.Dir)
	cmd.Env = o.Env // the supervisor needs no secrets either
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = stdinR, log, []*os.File{replyW, held}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	stdinR.Close()
	replyW.Close()
	if err != nil {
		return fail(err)
	}
	go cmd.Wait()      // so that it leaves no zombie; how it ended is in exit.json
	stdinW.Write(text) // should it be gone already, it will not reply either
	stdinW.Close()
	stop := context.AfterFunc(ctx, func() { replyR.SetReadDeadline(time.Now()) })
	defer stop()
	var r reply
	if err := json.NewDecoder(replyR).Decode(&r); err != nil {
		if ctx.Err() != nil {
			return fail(ctx.Err())
		}
		return fail(fmt.Errorf("it ended before it began (%w); see %s", err, o.Dir.Log()))
	}
	return r, nil
}

// DiesWithThisMachine implements runner.Local.
func (e *executor) DiesWithThisMachine() {}

// Attach implements runner.Executor. A batch that ended is found as long as its
// record is in d; Wait then returns at once. One that is being started, by a
// bench that may have died since, is waited for until its record is there.
func (e *executor) Attach(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	dir, err := filepath.Abs(string(d))
	if err != nil {
		return nil, err
	}
	d = job.Dir(dir)
	for {
		held, lockErr := lock(lockFile(d)) // before looking: who had it has left its record
		if lockErr == nil {
			held.Close()
		}
		atomicfile.Fresh(string(d))
		var r record
		err = kept.ReadJSON(d.Executor(), &r)
		switch {
		case err == nil && r.Batch == b.ID && r.Where.Executor == Name:
			return &handle{d: d, r: r, grace: e.o.Grace}, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("batch %s: %w", b.ID.Short(), err)
		case err == nil || !errors.Is(lockErr, errLocked):
			return nil, fmt.Errorf("batch %s: %w", b.ID.Short(), runner.ErrNotFound)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("batch %s is being started: %w", b.ID.Short(), ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// handle is a batch, running or ended.
type handle struct {
	d     job.Dir
	r     record
	grace time.Duration

	mu   sync.Mutex
	exit *job.Exit // once known
}

func (h *handle) Where() runner.Where { return h.r.Where }

// look returns how the batch ended, nil if it has not.
func (h *handle) look() (*job.Exit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.exit != nil {
		return h.exit, nil
	}
	// Alive first: a supervisor that ends between the two looks has left its
	// exit by the second.
	on, err := h.r.alive(h.d)
	if err != nil {
		return nil, fmt.Errorf("batch %s: %w", h.r.Batch.Short(), err)
	}
	if !on {
		atomicfile.Fresh(string(h.d))
	}
	var x ended
	err = kept.ReadJSON(exitFile(h.d), &x)
	switch {
	case err == nil && x.Run == h.r.Run:
		h.exit = &x.Exit
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("batch %s: %w", h.r.Batch.Short(), err)
	case !on:
		h.exit = &job.Exit{Code: -1, Signal: int(syscall.SIGKILL), Stopped: true,
			Detail: "the process that watched over the trainer is gone: it was killed, or the machine was restarted"}
	}
	return h.exit, nil
}

func (h *handle) Wait(ctx context.Context) (job.Exit, error) {
	pause := 5 * time.Millisecond
	for {
		exit, err := h.look()
		if err != nil {
			return job.Exit{}, err
		}
		if exit != nil {
			return *exit, nil
		}
		select {
		case <-ctx.Done():
			return job.Exit{}, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(pause*2, 200*time.Millisecond)
	}
}

// Stop asks the supervisor to end the trainer, and waits until it has. A
// supervisor that does not answer is killed, and the trainer dies with it.
func (h *handle) Stop(ctx context.Context) error {
	exit, err := h.look()
	if err != nil || exit != nil {
		return err
	}
	fail := func(err error) error {
		return fmt.Errorf("batch %s on %s cannot be stopped: %w", h.r.Batch.Short(), h.r.Where.Host, err)
	}
	if err := h.r.signal(syscall.SIGTERM); err != nil {
		return fail(err)
	}
	patience, cancel := context.WithTimeout(ctx, h.grace+killTimeout+5*time.Second)
	defer cancel()
	if _, err = h.Wait(patience); err == nil {
		return nil
	}
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return fail(err)
	}
	if err := h.r.signal(syscall.SIGKILL); err != nil {
		return fail(err)
	}
	if _, err := h.Wait(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// threads is the number of threads for libraries: what the batch says, else
// what the limit says, else what this machine (or its cgroup) has.
func threads(batch int, cpus float64) int {
	if batch > 0 {
		return batch
	}
	if cpus > 0 {
		return max(1, int(cpus))
	}
	return runtime.GOMAXPROCS(0)
}
