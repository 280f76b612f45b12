// Package pool spreads batches over several executors, such as the Docker
// engines of several hosts. To the runner the pool is one executor.
//
// Where a batch went is written into its folder before it is started there, so
// that a later bench finds it again. A host that does not work is left alone
// for a while and then tried again; its batches end with an error, which the
// runner answers by starting them anew, on another host.
package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bench/internal/atomicfile"
	"bench/runner"
	"bench/runner/job"
	"bench/runner/schedule"

	"github.com/gofrs/flock"
)

// Host is a place where batches can run.
type Host struct {
	Name string
	// Open makes its executor and says how many batches it takes at a time. It
	// is called when the host is needed first, and again after it has failed.
	Open func(context.Context) (e runner.Executor, slots int, err error)
}

// Options of a pool.
type Options struct {
	// Rest is how long a host that failed is left alone, doubled each time it
	// fails again, up to 32-fold. 0: 10 s.
	Rest time.Duration
	// Patience is how long a batch waits for a host when none works. A pool no
	// host of which ever worked does not wait. 0: 15 min.
	Patience time.Duration
	// Settle is how long Open waits for more hosts when one works: those that take
	// longer, because an image is sent to them, join later. 0: 5 s.
	Settle time.Duration
	// Notice is told, in a sentence, of hosts that fail and that come back. May be nil.
	Notice func(string)
}

// Pool implements runner.Executor.
type Pool struct {
	o Options

	mu      sync.Mutex
	hosts   []*host           // those that are gone too: something may run there
	changed chan struct{}     // closed when a slot or a host gets free
	held    map[job.Dir]*host // slots in use, by batch
}

// host is the state of a Host. Pool.mu guards it, but for opening and Name.
type host struct {
	Host
	opening  sync.Mutex
	executor runner.Executor // nil: not open
	slots    int             // 0: not known yet, one batch may try
	busy     int
	models   map[string]bool // whose batches ran there: their snapshots may still be there
	failures int             // in a row
	until    time.Time       // not before then
	full     time.Time       // others use it; not before then
	readying int             // who opens it, or waits for that: until then it gets no batches
	err      error           // why; nil: it works as far as is known
	gone     bool            // gets no new batches
	version  int             // of Open
}

// New returns a pool of hosts, whose names must differ. The earlier of two that
// are otherwise equal is preferred.
func New(hosts []Host, o Options) *Pool {
	if o.Rest == 0 {
		o.Rest = 10 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 15 * time.Minute
	}
	if o.Settle == 0 {
		o.Settle = 5 * time.Second
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	p := &Pool{o: o, changed: make(chan struct{}), held: map[job.Dir]*host{}}
	for _, h := range hosts {
		p.hosts = append(p.hosts, &host{Host: h, models: map[string]bool{}})
	}
	return p
}

// Add adds a host, or brings one back that was removed. One that is there by
// that name already is opened anew, as h says; what runs on it goes on. It is
// opened meanwhile, unless ctx is cancelled; Notice is told if it does not work.
func (p *Pool) Add(ctx context.Context, h Host) {
	p.mu.Lock()
	i := slices.IndexFunc(p.hosts, func(old *host) bool { return old.Name == h.Name })
	if i < 0 {
		i = len(p.hosts)
		p.hosts = append(p.hosts, &host{Host: h, models: map[string]bool{}})
	}
	x := p.hosts[i]
	x.Open, x.executor, x.err, x.failures, x.gone = h.Open, nil, nil, 0, false
	x.version++
	p.wake()
	p.mu.Unlock()
	go p.open(ctx, x)
}

// Remove lets a host get no new batches. Those that run there are seen to their
// end.
func (p *Pool) Remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hosts {
		if h.Name == name {
			h.gone = true
		}
	}
	p.wake()
}

// used returns the hosts that get batches. p.mu is held.
func (p *Pool) used() []*host {
	return slices.DeleteFunc(slices.Clone(p.hosts), func(h *host) bool { return h.gone })
}

// all returns the hosts, those that are gone too.
func (p *Pool) all() []*host {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.hosts)
}

// Open opens all hosts and returns how many batches those that work take
// together. It waits for all, but once one works not longer than Settle; the
// others are opened meanwhile, unless ctx is cancelled. The error says why none
// works; of others, Notice is told.
func (p *Pool) Open(ctx context.Context) (int, error) {
	hosts := p.all()
	opened := make(chan struct{}, len(hosts))
	for _, h := range hosts {
		go func() {
			p.open(ctx, h)
			opened <- struct{}{}
		}()
	}
	settled := time.After(p.o.Settle)
	for over, waiting := false, len(hosts); ; {
		n := p.slots()
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case n > 0 && (over || waiting == 0):
			return n, nil
		case waiting == 0:
			p.mu.Lock()
			defer p.mu.Unlock()
			return 0, p.noHost()
		}
		select {
		case <-ctx.Done():
		case <-opened:
			waiting--
		case <-settled:
			over = true
		}
	}
}

// slots is how many batches the hosts that are open take together.
func (p *Pool) slots() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, h := range p.used() {
		if h.executor != nil {
			n += h.slots
		}
	}
	return n
}

// noHost is the error when no host works: the first host's, if it is one that
// says what to do. p.mu is held.
func (p *Pool) noHost() error {
	var errs []error
	for _, h := range p.used() {
		if h.err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", h.Name, h.err))
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	hint := "mend one of them, then run the same command again: finished seeds are kept"
	var own *runner.PreconditionError
	if len(errs) > 0 && errors.As(errs[0], &own) {
		hint = own.Hint
	}
	return &runner.PreconditionError{What: fmt.Sprintf("none of the %d hosts works", len(p.used())), Hint: hint, Err: errors.Join(errs...)}
}

// open makes the host's executor if it has none.
func (p *Pool) open(ctx context.Context, h *host) (runner.Executor, error) {
	p.mu.Lock()
	if e := h.executor; e != nil {
		p.mu.Unlock()
		return e, nil
	}
	h.readying++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		h.readying--
		p.wake()
		p.mu.Unlock()
	}()
	h.opening.Lock()
	defer h.opening.Unlock()
	p.mu.Lock()
	e, open, version := h.executor, h.Open, h.version
	p.mu.Unlock()
	if e != nil {
		return e, nil
	}
	e, slots, err := open(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.failed(h, err)
		}
		return nil, err
	}
	p.mu.Lock()
	if h.version != version { // it was added anew meanwhile, and is opened again as that says
		p.mu.Unlock()
		return e, nil
	}
	back := h.err != nil
	h.executor, h.slots, h.err, h.failures = e, max(1, slots), nil, 0
	p.wake()
	p.mu.Unlock()
	if back {
		p.o.Notice(fmt.Sprintf("host %s is back", h.Name))
	}
	return e, nil
}

// failed leaves a host alone for a while. Batches that wait for it go on asking it
// meanwhile: that it still fails then is no news, and no reason to rest longer.
func (p *Pool) failed(h *host, err error) {
	p.mu.Lock()
	if h.err != nil && time.Now().Before(h.until) {
		h.executor, h.err = nil, err
		p.wake()
		p.mu.Unlock()
		return
	}
	rest := schedule.Rest(p.o.Rest, h.failures)
	h.failures++
	h.executor, h.err, h.until = nil, err, time.Now().Add(rest)
	p.wake()
	p.mu.Unlock()
	p.o.Notice(fmt.Sprintf("host %s: %v; it is left alone for %v", h.Name, err, rest))
}

func (p *Pool) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Room implements runner.Placer: the slots of the hosts that work, and one of each
// that may be tried again.
func (p *Pool) Room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, h := range p.used() {
		n += h.view("", time.Now()).Room()
	}
	return n
}

// Near implements runner.Placer.
func (p *Pool) Near(model string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.used(), func(h *host) bool {
		v := h.view(model, time.Now())
		return v.Has && !v.Failed && v.Busy < v.Room()
	})
}

// view is the host as package schedule sees it. Pool.mu is held.
func (h *host) view(model string, now time.Time) schedule.Host {
	return schedule.Host{
		Slots: max(1, h.slots), Busy: h.busy, Has: h.models[model],
		Failed:  h.executor == nil, // or not tried yet: one batch finds out whether it works
		Resting: h.executor == nil && h.readying > 0 || h.err != nil && now.Before(h.until) || now.Before(h.full),
	}
}

// again is when a host that rests may be tried. Pool.mu is held.
func (h *host) again() time.Time {
	if h.err != nil && h.until.After(h.full) {
		return h.until
	}
	return h.full
}

// acquire waits for a slot for the batch in d. Hosts in not are passed over.
func (p *Pool) acquire(ctx context.Context, d job.Dir, model string, not []*host) (*host, error) {
	began := time.Now()
	for {
		p.mu.Lock()
		now := time.Now()
		var hosts []*host
		var views []schedule.Host
		var next time.Time // when a host may be tried again
		works := false
		for _, h := range p.used() {
			if slices.Contains(not, h) {
				continue
			}
			v := h.view(model, now)
			if again := h.again(); again.After(now) && (next.IsZero() || again.Before(next)) {
				next = again
			}
			works = works || h.err == nil || h.readying > 0
			hosts, views = append(hosts, h), append(views, v)
		}
		if i := schedule.Place(views); i >= 0 {
			p.hold(d, hosts[i])
			p.mu.Unlock()
			return hosts[i], nil
		}
		if !works && (len(hosts) == 0 || time.Since(began) > p.o.Patience) {
			err := p.noHost()
			p.mu.Unlock()
			return nil, err
		}
		changed := p.changed
		p.mu.Unlock()
		var later <-chan time.Time
		if !next.IsZero() {
			later = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		case <-later:
		}
	}
}

// hold books a slot of h for the batch in d, which has at most one. p.mu is held.
func (p *Pool) hold(d job.Dir, h *host) {
	if p.held[d] == nil {
		p.held[d] = h
		h.busy++
	}
}

func (p *Pool) release(d job.Dir) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.held[d]; h != nil {
		delete(p.held, d)
		h.busy--
		p.wake()
	}
}

// place is pool.json in a batch's folder: where it runs.
type place struct {
	Schema int    `json:"schema"`
	Host   string `json:"host"`
}

const placeSchema = 1

// address is what names the host on a command line.
func (p place) address() string {
	if strings.Contains(p.Host, "://") {
		return p.Host
	}
	return p.Host + "=ADDRESS"
}

func placeFile(d job.Dir) string { return filepath.Join(string(d), "pool.json") }

// Start implements runner.Executor. A host that cannot run anything is passed
// over; when all are, their errors are returned.
func (p *Pool) Start(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	// One Start at a time in this folder, in all processes: two must not choose two hosts.
	starting := flock.New(filepath.Join(string(d), "pool.lock"))
	if _, err := starting.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, err
	}
	defer starting.Unlock()
	if h, err := p.placed(b, d); err == nil { // it may run there
		p.mu.Lock()
		p.hold(d, h)
		p.mu.Unlock()
		started, err := p.startOn(ctx, h, b, d)
		if busy, gone := p.full(h, d, err); gone != nil {
			return nil, gone
		} else if !busy {
			return started, err
		}
	} else if !errors.Is(err, runner.ErrNotFound) {
		return nil, err
	}
	model := b.Model.Key()
	var tried []*host
	for {
		h, err := p.acquire(ctx, d, model, tried)
		if err != nil {
			return nil, err
		}
		started, err := p.startOn(ctx, h, b, d)
		if err == nil {
			p.mu.Lock()
			h.models[model] = true
			p.mu.Unlock()
			return started, nil
		}
		if busy, gone := p.full(h, d, err); gone != nil {
			return nil, gone
		} else if busy {
			continue
		}
		var cannot *runner.PreconditionError
		if ctx.Err() != nil || !errors.As(err, &cannot) && !errors.Is(err, errOpen) {
			return nil, err
		}
		if gone := os.Remove(placeFile(d)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return nil, gone
		}
		if !errors.Is(err, errOpen) { // open has booked that already
			p.failed(h, err)
		}
		tried = append(tried, h)
	}
}

// full leaves a host alone for a while that others use, if err says so, and takes
// the batch in d from it.
func (p *Pool) full(h *host, d job.Dir, err error) (busy bool, gone error) {
	if _, busy = errors.AsType[*runner.BusyError](err); !busy {
		return false, nil
	}
	p.mu.Lock()
	h.full = time.Now().Add(p.o.Rest)
	p.mu.Unlock()
	if gone = os.Remove(placeFile(d)); errors.Is(gone, fs.ErrNotExist) {
		gone = nil
	}
	return true, gone
}

// errOpen marks errors of Host.Open.
var errOpen = errors.New("cannot be used")

// startOn starts the batch on h, a slot of which it holds, and gives that back
// if it fails.
func (p *Pool) startOn(ctx context.Context, h *host, b job.Batch, d job.Dir) (_ runner.Handle, err error) {
	defer func() {
		if err != nil {
			p.release(d)
		}
	}()
	e, err := p.open(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("host %s %w: %w", h.Name, errOpen, err)
	}
	text, err := json.Marshal(place{placeSchema, h.Name})
	if err != nil {
		return nil, err
	}
	if err := atomicfile.WriteBytes(placeFile(d), text); err != nil {
		return nil, err
	}
	started, err := e.Start(ctx, b, d)
	if err != nil {
		return nil, err
	}
	return &handle{Handle: started, p: p, h: h, d: d}, nil
}

// placed returns the host that the batch was given to. The error wraps
// runner.ErrNotFound if it was given to none.
func (p *Pool) placed(b job.Batch, d job.Dir) (*host, error) {
	text, err := os.ReadFile(placeFile(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("batch %s: %w", b.ID.Short(), runner.ErrNotFound)
	}
	var at place
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err != nil {
		return nil, fmt.Errorf("batch %s: %s: %w", b.ID.Short(), placeFile(d), err)
	}
	hosts := p.all()
	i := slices.IndexFunc(hosts, func(h *host) bool { return h.Name == at.Host })
	if i < 0 {
		return nil, &runner.PreconditionError{
			What: fmt.Sprintf("batch %s runs on host %s, which is not among the hosts of this run (%s)", b.ID.Short(), at.Host, p.names()),
			Hint: "name it once more (--host " + at.address() + ", hosts in a sweep's file), also if it is gone for good: what does not answer for --patience starts elsewhere; or end what runs there with bench gc --host " + at.address(),
		}
	}
	return hosts[i], nil
}

// Attach implements runner.Executor. For a batch on a host that does not answer
// it returns a handle whose Wait waits for the host to come back.
func (p *Pool) Attach(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	h, err := p.placed(b, d)
	if errors.Is(err, runner.ErrNotFound) {
		return p.search(ctx, b, d)
	}
	if err != nil {
		return nil, err
	}
	return p.attachOn(ctx, h, b, d)
}

func (p *Pool) attachOn(ctx context.Context, h *host, b job.Batch, d job.Dir) (runner.Handle, error) {
	p.mu.Lock()
	p.hold(d, h) // whether a slot is free or not
	p.mu.Unlock()
	e, err := p.open(ctx, h)
	if err == nil {
		var found runner.Handle
		if found, err = e.Attach(ctx, b, d); err == nil {
			return &handle{Handle: found, p: p, h: h, d: d}, nil
		}
	}
	if ctx.Err() != nil || errors.Is(err, runner.ErrNotFound) {
		p.release(d)
		return nil, err
	}
	return &handle{Handle: &away{p: p, h: h, b: b, d: d, why: err}, p: p, h: h, d: d}, nil
}

// search looks on all hosts for a batch that says nothing of where it runs: one
// of a bench that had no pool.
func (p *Pool) search(ctx context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	if _, err := os.Stat(d.Executor()); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("batch %s: %w", b.ID.Short(), runner.ErrNotFound)
	}
	for _, h := range p.all() {
		found, err := p.attachOn(ctx, h, b, d)
		if !errors.Is(err, runner.ErrNotFound) {
			return found, err
		}
	}
	return nil, fmt.Errorf("batch %s: %w", b.ID.Short(), runner.ErrNotFound)
}

func (p *Pool) names() string {
	var names []string
	for _, h := range p.all() {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}
