package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/runner/process"
	"bench/runner/runnertest"
	"bench/runner/runnertest/stub"
)

// The test program is also the supervisor and the stub trainer.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case process.SuperviseArg:
			os.Exit(process.Supervise())
		case "stub-trainer":
			os.Exit(stub.Run(os.Args[2:], os.Stdout, os.Stderr))
		}
	}
	os.Exit(m.Run())
}

// A pool of two executors keeps the contract of one.
func TestContract(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	open := func(context.Context) (runner.Executor, int, error) {
		return process.New(process.Options{Command: []string{exe, "stub-trainer"}, Grace: 300 * time.Millisecond}), 2, nil
	}
	runnertest.TestExecutor(t, runnertest.Factory{
		Open:     func(*testing.T) runner.Executor { return New([]Host{{"a", open}, {"b", open}}, Options{}) },
		Outlives: true,
		Prepare: func(t *testing.T, d job.Dir, jobs int, s stub.Script) (job.Batch, string) {
			return runnertest.WriteBatch(t, d, jobs, s), ""
		},
	})
}

// machine is a host whose batches end when the test says so.
type machine struct {
	mu      sync.Mutex
	name    string
	slots   int
	down    error // of Open
	refuse  error // of Start
	opened  int
	running map[job.ID]chan result
	most    int // batches at a time
	total   int
}

type result struct {
	exit job.Exit
	err  error
}

func newMachine(name string, slots int) *machine {
	return &machine{name: name, slots: slots, running: map[job.ID]chan result{}}
}

func (m *machine) host() Host {
	return Host{m.name, func(context.Context) (runner.Executor, int, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.opened++
		return m, m.slots, m.down
	}}
}

func (m *machine) Start(_ context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		return nil, m.refuse
	}
	m.running[b.ID] = make(chan result, 2)
	m.most = max(m.most, len(m.running))
	m.total++
	return &seat{m, b.ID, m.running[b.ID]}, nil
}

func (m *machine) Attach(_ context.Context, b job.Batch, d job.Dir) (runner.Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.running[b.ID]; ok {
		return &seat{m, b.ID, c}, nil
	}
	return nil, runner.ErrNotFound
}

func (m *machine) end(id job.ID, r result) {
	m.mu.Lock()
	c := m.running[id]
	m.mu.Unlock()
	c <- r
}

type seat struct {
	m  *machine
	id job.ID
	c  chan result
}

func (s *seat) Wait(ctx context.Context) (job.Exit, error) {
	select {
	case <-ctx.Done():
		return job.Exit{}, ctx.Err()
	case r := <-s.c:
		s.m.mu.Lock()
		delete(s.m.running, s.id)
		s.m.mu.Unlock()
		return r.exit, r.err
	}
}
func (s *seat) Stop(context.Context) error { return nil }
func (s *seat) Where() runner.Where        { return runner.Where{Executor: "test", Host: s.m.name} }

func newBatch(t *testing.T, model string) (job.Batch, job.Dir) {
	t.Helper()
	d := job.Dir(filepath.Join(t.TempDir(), "batch"))
	b := runnertest.WriteBatch(t, d, 1, stub.Script{})
	b.Model.ID = model
	return b, d
}

func start(t *testing.T, p *Pool, model string) (runner.Handle, job.Batch, job.Dir) {
	t.Helper()
	b, d := newBatch(t, model)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	h, err := p.Start(ctx, b, d)
	if err != nil {
		t.Fatal(err)
	}
	return h, b, d
}

// A model's second batch goes where the first one was, unless that is full; the
// others go where the most is free.
func TestPlaces(t *testing.T) {
	a, b := newMachine("a", 2), newMachine("b", 4)
	p := New([]Host{a.host(), b.host()}, Options{})
	if n, err := p.Open(t.Context()); n != 6 || err != nil {
		t.Fatalf("%d slots, %v", n, err)
	}
	var got []string
	for _, model := range []string{"m", "m", "n", "m", "n", "o"} {
		h, _, _ := start(t, p, model)
		got = append(got, h.Where().Host)
	}
	if s := strings.Join(got, ""); s != "aabbbb" {
		t.Errorf("places %s, want aabbbb", s)
	}
}

// No host ever has more batches than slots, all batches run, and a batch that
// waits for a slot gets the first one.
func TestSlots(t *testing.T) {
	a, b := newMachine("a", 1), newMachine("b", 2)
	p := New([]Host{a.host(), b.host()}, Options{})
	if _, err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			bt, d := newBatch(t, fmt.Sprint(i%5))
			h, err := p.Start(t.Context(), bt, d)
			if err != nil {
				t.Error(err)
				return
			}
			time.AfterFunc(2*time.Millisecond, func() { h.(*handle).Handle.(*seat).c <- result{} })
			if _, err := h.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if a.most > 1 || b.most > 2 || a.total+b.total != 40 || a.total == 0 || b.total == 0 {
		t.Errorf("a had %d at a time and %d in all, b %d and %d", a.most, a.total, b.most, b.total)
	}
}

// A host that cannot run anything is passed over and tried again later.
func TestFailingHost(t *testing.T) {
	cannot := &runner.PreconditionError{What: "no image", Hint: "bench image build"}
	for name, broken := range map[string]func(*machine){
		"does not open": func(m *machine) { m.down = errors.New("connection refused") },
		"cannot start":  func(m *machine) { m.refuse = cannot },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newMachine("a", 1), newMachine("b", 3)
			broken(a)
			var mu sync.Mutex
			var said []string
			p := New([]Host{a.host(), b.host()}, Options{Rest: 50 * time.Millisecond, Notice: func(s string) { mu.Lock(); said = append(said, s); mu.Unlock() }})
			if h, _, _ := start(t, p, "m"); h.Where().Host != "b" {
				t.Errorf("started on %s", h.Where().Host)
			}
			a.mu.Lock()
			a.down, a.refuse = nil, nil
			a.mu.Unlock()
			time.Sleep(60 * time.Millisecond)
			hosts := ""
			for range 3 {
				h, _, _ := start(t, p, "n")
				hosts += h.Where().Host
			}
			if !strings.Contains(hosts, "a") {
				t.Errorf("the mended host was not used: %s", hosts)
			}
			mu.Lock()
			defer mu.Unlock()
			if text := strings.Join(said, "; "); !strings.Contains(text, "host a: ") || !strings.Contains(text, "left alone for 50ms") || !strings.Contains(text, "host a is back") {
				t.Errorf("notices: %s", text)
			}
		})
	}
}

// A host whose GPUs others use is no broken one: the batch goes to another, or
// waits until one is free.
func TestBusyHost(t *testing.T) {
	a, b := newMachine("a", 1), newMachine("b", 1)
	a.refuse = &runner.BusyError{What: "all GPUs are in use by others"}
	var said []string
	p := New([]Host{a.host(), b.host()}, Options{Rest: 50 * time.Millisecond, Notice: func(s string) { said = append(said, s) }})
	if h, _, _ := start(t, p, "m"); h.Where().Host != "b" {
		t.Errorf("started on %s", h.Where().Host)
	}
	time.AfterFunc(200*time.Millisecond, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.refuse = nil
	})
	if h, _, _ := start(t, p, "m"); h.Where().Host != "a" { // b has one slot
		t.Errorf("started on %s", h.Where().Host)
	}
	if len(said) > 0 {
		t.Errorf("notices: %q", said)
	}
}

func TestNoHostWorks(t *testing.T) {
	a, b := newMachine("a", 1), newMachine("b", 1)
	a.refuse = &runner.PreconditionError{What: "no image", Hint: "bench image build"}
	b.down = errors.New("connection refused")
	p := New([]Host{a.host(), b.host()}, Options{})
	bt, d := newBatch(t, "m")
	_, err := p.Start(t.Context(), bt, d)
	var cannot *runner.PreconditionError
	if !errors.As(err, &cannot) || cannot.Hint != "bench image build" || !strings.Contains(err.Error(), "no image") || !strings.Contains(err.Error(), "host b: connection refused") {
		t.Errorf("%v", err)
	}
	if _, err := p.Attach(t.Context(), bt, d); !errors.Is(err, runner.ErrNotFound) {
		t.Errorf("a batch that was not started: %v", err)
	}
}

// A host that is lost while a batch runs is left alone; the batch's error names it.
func TestLostHost(t *testing.T) {
	a, b := newMachine("a", 1), newMachine("b", 1)
	p := New([]Host{a.host(), b.host()}, Options{Rest: time.Hour})
	h, bt, _ := start(t, p, "m")
	a.end(bt.ID, result{err: errors.New("unexpected EOF")})
	if _, err := h.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "host a: unexpected EOF") {
		t.Errorf("%v", err)
	}
	if h, _, _ := start(t, p, "m"); h.Where().Host != "b" {
		t.Errorf("the next batch went to %s", h.Where().Host)
	}
}

// A later bench finds a batch where it was put; on a host that is away it waits
// for that to come back; on a host that it was not told of it says so.
func TestAttach(t *testing.T) {
	a, b := newMachine("a", 1), newMachine("b", 1)
	_, bt, d := start(t, New([]Host{a.host(), b.host()}, Options{}), "m")

	again, err := New([]Host{b.host(), a.host()}, Options{}).Attach(t.Context(), bt, d)
	if err != nil || again.Where().Host != "a" {
		t.Fatalf("%v, %v", again, err)
	}
	_, err = New([]Host{b.host()}, Options{}).Attach(t.Context(), bt, d)
	var cannot *runner.PreconditionError
	if !errors.As(err, &cannot) || !strings.Contains(cannot.Hint, "--host a") {
		t.Errorf("%v", err)
	}

	a.down = errors.New("no route to host")
	p := New([]Host{a.host(), b.host()}, Options{Rest: 20 * time.Millisecond, Patience: 5 * time.Second})
	h, err := p.Attach(t.Context(), bt, d)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() {
		a.mu.Lock()
		a.down = nil
		a.mu.Unlock()
		a.end(bt.ID, result{exit: job.Exit{Code: 75}})
	})
	if x, err := h.Wait(t.Context()); x.Code != 75 || err != nil {
		t.Errorf("%+v, %v", x, err)
	}

	_, bt, d = start(t, New([]Host{a.host()}, Options{}), "m")
	a.down = errors.New("no route to host")
	p = New([]Host{a.host()}, Options{Rest: 10 * time.Millisecond, Patience: 50 * time.Millisecond})
	if h, err = p.Attach(t.Context(), bt, d); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "host a: it has not answered for 50ms: no route to host") {
		t.Errorf("%v", err)
	}
}

// A batch of a bench without a pool is looked for on all hosts.
func TestAttachWithoutPlace(t *testing.T) {
	a, b := newMachine("a", 1), newMachine("b", 1)
	bt, d := newBatch(t, "m")
	if _, err := b.Start(t.Context(), bt, d); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Executor(), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	h, err := New([]Host{a.host(), b.host()}, Options{}).Attach(t.Context(), bt, d)
	if err != nil || h.Where().Host != "b" {
		t.Fatalf("%v, %v", h, err)
	}
}

// Hosts come and go while batches run: a new one takes the next batch, one that
// is removed none, though what runs there is seen to its end; brought back, or
// opened anew, it is used again.
func TestHostsComeAndGo(t *testing.T) {
	a, b := newMachine("a", 1), newMachine("b", 2)
	p := New([]Host{a.host()}, Options{})
	if _, err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, _, d := start(t, p, "m")
	waiting := make(chan runner.Handle)
	go func() {
		h, _, _ := start(t, p, "n")
		waiting <- h
	}()
	select {
	case <-waiting:
		t.Fatal("a full host took another batch")
	case <-time.After(50 * time.Millisecond):
	}
	p.Add(t.Context(), b.host())
	second := <-waiting
	for p.Room() < 3 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond) // it is being opened
	}
	if at := second.Where().Host; at != "b" || p.Room() != 3 {
		t.Errorf("the waiting batch went to %s, and there is room for %d; want b and 3", at, p.Room())
	}
	p.Remove("a")
	if p.Room() != 2 || p.Near("m@") {
		t.Errorf("room for %d without a, near m: %v", p.Room(), p.Near("m@"))
	}
	// Another bench, or the same one after a cut, finds what runs there.
	if h, err := p.Attach(t.Context(), job.Batch{ID: first.(*handle).Handle.(*seat).id}, d); err != nil || h.Where().Host != "a" {
		t.Errorf("the batch on the removed host: %v", err)
	}
	a.end(first.(*handle).Handle.(*seat).id, result{})
	if _, err := first.Wait(t.Context()); err != nil {
		t.Errorf("the batch on the removed host: %v", err)
	}
	third, _, _ := start(t, p, "m")
	if at := third.Where().Host; at != "b" {
		t.Errorf("a removed host was given a batch")
	}
	p.Add(t.Context(), a.host())
	if h, _, _ := start(t, p, "o"); h.Where().Host != "a" || a.opened != 2 {
		t.Errorf("the host that is back was not used, or opened %d times", a.opened)
	}
	// The same name with other settings.
	a.slots = 3
	p.Add(t.Context(), a.host())
	if h, _, _ := start(t, p, "o"); h.Where().Host != "a" || a.opened != 3 || p.Room() != 5 {
		t.Errorf("opened %d times, room for %d", a.opened, p.Room())
	}
	// Without any host there is an error and no waiting.
	p.Remove("a")
	p.Remove("b")
	bt, dir := newBatch(t, "p")
	if _, err := p.Start(t.Context(), bt, dir); err == nil || !strings.Contains(err.Error(), "none of the 0 hosts works") {
		t.Errorf("without hosts: %v", err)
	}
}

// A host that is being made ready, because an image is sent to it, gets no
// batches and holds up none; when it is ready it joins.
func TestSlowHost(t *testing.T) {
	quick, slow := newMachine("quick", 1), newMachine("slow", 2)
	ready := make(chan struct{})
	p := New([]Host{{"slow", func(ctx context.Context) (runner.Executor, int, error) {
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-ready:
			return slow, 2, nil
		}
	}}, quick.host()}, Options{Settle: 50 * time.Millisecond})
	began := time.Now()
	if n, err := p.Open(t.Context()); n != 1 || err != nil || time.Since(began) > 5*time.Second {
		t.Fatalf("Open = %d, %v after %v", n, err, time.Since(began))
	}
	if p.Room() != 1 {
		t.Errorf("room for %d batches, want 1", p.Room())
	}
	h, b, _ := start(t, p, "m")
	if got := h.Where().Host; got != "quick" {
		t.Errorf("the first batch went to %s", got)
	}
	// The next one waits for either.
	second := make(chan string, 1)
	go func() {
		b, d := newBatch(t, "m")
		h, err := p.Start(t.Context(), b, d)
		if err != nil {
			second <- err.Error()
			return
		}
		second <- h.Where().Host
	}()
	select {
	case got := <-second:
		t.Errorf("a batch went to %s", got)
	case <-time.After(100 * time.Millisecond):
	}
	close(ready)
	if got := <-second; got != "slow" {
		t.Errorf("the second batch went to %s", got)
	}
	if p.Room() != 3 {
		t.Errorf("room for %d batches, want 3", p.Room())
	}
	quick.end(b.ID, result{})
	if _, err := h.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
