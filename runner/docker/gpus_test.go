package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/containers"
	"bench/internal/procid"
	"bench/runner"
)

// fakeKeeper is an engine's list of containers in memory. It passes the same
// suite as a real one, see testKeeper.
type fakeKeeper struct {
	mu    sync.Mutex
	list  map[string]containers.Seen // by name
	ids   int
	now   time.Time
	fault func(call string) error // may be nil
	after func(call string)       // may be nil; the call has had its effect
}

func newKeeper() *fakeKeeper {
	return &fakeKeeper{list: map[string]containers.Seen{}, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
}

func (k *fakeKeeper) begin(call string) error {
	if k.fault != nil {
		return k.fault(call)
	}
	return nil
}

func (k *fakeKeeper) end(call string) {
	if k.after != nil {
		k.after(call)
	}
}

func (k *fakeKeeper) Containers(context.Context) ([]containers.Seen, error) {
	defer k.end("list")
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.list), func(a, b containers.Seen) int { return strings.Compare(a.Name, b.Name) }), k.begin("list")
}

func (k *fakeKeeper) Reserve(_ context.Context, name, _ string, labels map[string]string) error {
	defer k.end("reserve")
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.begin("reserve"); err != nil {
		return err
	}
	if s, ok := k.list[name]; ok {
		if maps.Equal(s.Labels, labels) {
			return nil
		}
		return &containers.Error{Kind: containers.NameTaken, Op: "reserve " + name}
	}
	k.put(name, "created", labels)
	return nil
}

// put adds a container. k.mu is held, or nobody else is there.
func (k *fakeKeeper) put(name, status string, labels map[string]string, gpus ...string) {
	k.ids++
	k.list[name] = containers.Seen{ID: fmt.Sprint("id", k.ids), Name: name, Status: status, Created: k.now, Labels: maps.Clone(labels), GPUs: gpus}
}

func (k *fakeKeeper) Discard(_ context.Context, id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.list, func(_ string, s containers.Seen) bool { return s.ID == id })
	return k.begin("discard")
}

func (k *fakeKeeper) Clock(context.Context) (time.Time, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now, k.begin("clock")
}

func (k *fakeKeeper) ledger() *ledger { return &ledger{keeper: k, poll: time.Millisecond} }

func (k *fakeKeeper) names() []string { return slices.Sorted(maps.Keys(k.list)) }

// testKeeper is what the ledger relies on. image is one that k has.
func testKeeper(t *testing.T, k lockKeeper, image string) {
	ctx := t.Context()
	find := func(name string) *containers.Seen {
		list, err := k.Containers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(list, func(s containers.Seen) bool { return s.Name == name }); i >= 0 {
			return &list[i]
		}
		return nil
	}
	mine, yours := map[string]string{labelGPU: "GPU-k", labelRun: "r1"}, map[string]string{labelGPU: "GPU-k", labelRun: "r2"}
	const name = "bench-gpu-GPU-k"
	for range 2 { // the second time it is there already
		if err := k.Reserve(ctx, name, image, mine); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Reserve(ctx, name, image, yours); !containers.IsKind(err, containers.NameTaken) {
		t.Errorf("a name that somebody has: %v", err)
	}
	s := find(name)
	if s == nil || s.Runs() || s.Status != "created" || s.Labels[labelRun] != "r1" || len(s.GPUs) > 0 {
		t.Fatalf("seen %+v", s)
	}
	if now, err := k.Clock(ctx); err != nil || now.Sub(s.Created).Abs() > 30*time.Second {
		t.Errorf("it was made at %v, and now it is %v, %v", s.Created, now, err)
	}
	for range 2 {
		if err := k.Discard(ctx, s.ID); err != nil {
			t.Error(err)
		}
	}
	if find(name) != nil {
		t.Error("it is still there")
	}
	// Of many who want one name, one gets it.
	var wins sync.Map
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			err := k.Reserve(ctx, name, image, map[string]string{labelGPU: "GPU-k", labelRun: fmt.Sprint("r", i)})
			if err == nil {
				wins.Store(i, true)
			} else if !containers.IsKind(err, containers.NameTaken) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(maps.Collect(wins.Range)); n != 1 {
		t.Errorf("%d got the name", n)
	}
	k.Discard(ctx, find(name).ID)
}

func TestKeeperFake(t *testing.T) { testKeeper(t, newKeeper(), "image") }

func gpus(uuids ...string) (out []containers.GPU) {
	for i, u := range uuids {
		out = append(out, containers.GPU{UUID: u, Index: i, MemoryMiB: 16384})
	}
	return out
}

func wants(run string, of []containers.GPU) claim {
	return claim{run: run, container: "bench-" + run, image: "image", gpus: of, slots: 1}
}

// got tries once, and says "" if nothing is free.
func got(t *testing.T, l *ledger, c claim) string {
	t.Helper()
	g, ok, _, err := l.try(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return g.UUID
}

func TestLedger(t *testing.T) {
	k := newKeeper()
	here, there := k.ledger(), k.ledger() // two processes
	of := gpus("GPU-0", "GPU-1")
	if a, b := got(t, here, wants("a", of)), got(t, there, wants("b", of)); a != "GPU-0" || b != "GPU-1" {
		t.Fatalf("got %s and %s", a, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	said := make(chan string, 9)
	c := wants("c", of)
	c.waiting = func(s string) { said <- s }
	if _, err := here.take(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("take of a third: %v", err)
	}
	if s := <-said; s != "all GPUs are in use: GPU-0 is in use by container bench-a; GPU-1 is in use by container bench-b" || len(said) > 0 {
		t.Errorf("it says %q and %d times more", s, len(said))
	}
	// Whoever waits gets what another process gives back.
	taken := make(chan string)
	go func() {
		g, err := here.take(t.Context(), wants("d", of))
		if err != nil {
			g.UUID = err.Error()
		}
		taken <- g.UUID
	}()
	time.Sleep(5 * time.Millisecond)
	if err := there.release(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if g := <-taken; g != "GPU-1" {
		t.Errorf("got %s, GPU-1 is free", g)
	}
	for _, run := range []string{"a", "d", "never"} {
		if err := here.release(t.Context(), run); err != nil {
			t.Error(err)
		}
	}
	if len(k.list) != 0 {
		t.Errorf("left are %q", k.names())
	}
}

// What other people's containers hold is not given away.
func TestLedgerSeesOthers(t *testing.T) {
	of := gpus("GPU-00", "GPU-01", "GPU-0")
	mig := []containers.GPU{{UUID: "MIG-a", Index: 3, Parent: "GPU-p", Slice: 0}, {UUID: "MIG-b", Index: 3, Parent: "GPU-p", Slice: 1}}
	for given, want := range map[string]string{
		"GPU-00": "GPU-01 GPU-0", "0": "GPU-01 GPU-0", "GPU-01": "GPU-00 GPU-0", "GPU-0": "GPU-00 GPU-01", "all": "", "7": "GPU-00 GPU-01 GPU-0",
		"MIG-a": "MIG-b", "3:1": "MIG-a", "GPU-p": "", "3": "",
	} {
		list := of
		if strings.HasPrefix(given, "MIG") || strings.HasPrefix(given, "3") || given == "GPU-p" {
			list = mig
		}
		k := newKeeper()
		k.put("somebody", "running", nil, given)
		k.put("ended", "exited", nil)
		var free []string
		for i := range list {
			if g := got(t, k.ledger(), wants(fmt.Sprint(i), list)); g != "" {
				free = append(free, g)
			}
		}
		if got := strings.Join(free, " "); got != want {
			t.Errorf("somebody has %s: free are %q, want %q", given, got, want)
		}
	}
	k := newKeeper()
	k.put("jupyter", "running", nil, "all")
	_, _, why, err := k.ledger().try(t.Context(), wants("a", of[:1]))
	if err != nil || why != "all GPUs are in use: GPU-00 is in use by container jupyter (not of bench); if batches may run beside: --gpus-beside jupyter" {
		t.Errorf("%q, %v", why, err)
	}
	// If the user says so, that container does not count; one more of others does.
	c := wants("a", of)
	c.beside = []string{"jupyter"}
	if g := got(t, k.ledger(), c); g != "GPU-00" {
		t.Errorf("beside jupyter: got %q", g)
	}
	k.put("other", "running", nil, "GPU-01", "GPU-0")
	c.run, c.container = "b", "bench-b"
	if g := got(t, k.ledger(), c); g != "" {
		t.Errorf("beside jupyter, with others: got %q", g)
	}
	// A batch of bench whose lock somebody pruned.
	k = newKeeper()
	k.put("bench-x", "running", map[string]string{labelRun: "x"}, "GPU-00")
	if g := got(t, k.ledger(), wants("a", of)); g != "GPU-01" {
		t.Errorf("got %s", g)
	}
}

// A process may die at any instant. Its lock goes when it is clear that its
// batch is no more, and not before.
func TestLedgerStale(t *testing.T) {
	of := gpus("GPU-0")
	for name, c := range map[string]struct {
		owner string // status of the batch's container; "": there is none
		run   string // of that container
		age   time.Duration
		stale bool
	}{
		"locked just now":                  {"", "", time.Second, false},
		"died before it made a container":  {"", "", startWithin + time.Second, true},
		"made just now":                    {"created", "old", time.Second, false},
		"died before it started it":        {"created", "old", startWithin + time.Second, true},
		"runs for long":                    {"running", "old", 100 * time.Hour, false},
		"paused":                           {"paused", "old", time.Hour, false},
		"ended, nobody has cleaned up":     {"exited", "old", time.Hour, true},
		"ended at once":                    {"exited", "old", 0, true},
		"another start of the batch runs":  {"running", "new", time.Hour, true},
		"another start, the lock is young": {"running", "new", time.Second, false},
		"the engine's clock was set back":  {"", "", -time.Hour, true},
	} {
		k := newKeeper()
		now := k.now
		k.now = now.Add(-c.age)
		if g := got(t, k.ledger(), wants("old", of)); g != "GPU-0" {
			t.Fatalf("%s: got %q", name, g)
		}
		if c.owner != "" {
			k.put("bench-old", c.owner, map[string]string{labelRun: c.run})
		}
		k.now = now
		swept, err := k.ledger().sweep(t.Context(), "")
		if err != nil || (len(swept) == 1) != c.stale {
			t.Errorf("%s: swept %q, %v", name, swept, err)
		}
		// The same without sweeping, by whoever wants the GPU.
		k.now = now.Add(-c.age)
		k.Reserve(t.Context(), "bench-gpu-GPU-0", "image", wants("old", of).labels("GPU-0"))
		k.now = now
		if g := got(t, k.ledger(), wants("next", of)); (g == "GPU-0") != c.stale {
			t.Errorf("%s: the next one got %q", name, g)
		}
	}
}

// A process that died on this machine is known to have: its lock goes at once,
// but for what the engine may still be doing.
func TestLedgerDied(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := procid.Self()
	if errors.Is(err, procid.ErrUnknown) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	st, err := procid.Read(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	id.PID, id.Start = child.Process.Pid, st.Start
	label := func(id procid.ID, uid int) string {
		text, err := json.Marshal(process{id, uid})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	elsewhere, other := id, os.Getuid()
	elsewhere.Boot = "another machine"
	if other == 0 {
		other = -1 // root sees everybody's: no label that it could not judge
	}
	if mine := thisProcess(); mine == "" || died(mine) || died(label(id, os.Getuid())) {
		t.Errorf("a process that runs is taken for dead: %s", mine)
	}
	child.Process.Kill()
	child.Wait()
	for name, c := range map[string]struct {
		process string
		status  string // of the batch's container
		age     time.Duration
		free    bool
	}{
		"died":                  {label(id, os.Getuid()), "", diedWithin + time.Second, true},
		"died before the start": {label(id, os.Getuid()), "created", diedWithin + time.Second, true},
		"died just now":         {label(id, os.Getuid()), "", time.Second, false},
		"died, its batch runs":  {label(id, os.Getuid()), "running", time.Hour, false},
		"lives":                 {thisProcess(), "", time.Minute, false},
		"on another machine":    {label(elsewhere, os.Getuid()), "", time.Minute, false},
		"not told":              {"", "", time.Minute, false},
		"nonsense":              {"{", "", time.Minute, false},
	} {
		k := newKeeper()
		of := gpus("GPU-0")
		first := wants("old", of)
		first.process = c.process
		if g := got(t, k.ledger(), first); g != "GPU-0" {
			t.Fatalf("%s: got %q", name, g)
		}
		if c.status != "" {
			k.put("bench-old", c.status, map[string]string{labelRun: "old"})
		}
		k.now = k.now.Add(c.age)
		if g := got(t, k.ledger(), wants("next", of)); (g == "GPU-0") != c.free {
			t.Errorf("%s: the next one got %q", name, g)
		}
	}
	if os.Getuid() != 0 && died(label(id, other)) {
		t.Error("another user's process is judged, which may only be hidden")
	}
}

// bench gc ends all batches of a home, and with them its locks, however young.
func TestLedgerSweepsInstance(t *testing.T) {
	k := newKeeper()
	of := gpus("GPU-0", "GPU-1")
	for _, home := range []string{"mine", "yours"} {
		c := wants(home, of)
		c.instance = home
		if g := got(t, k.ledger(), c); g == "" {
			t.Fatal("nothing is free")
		}
	}
	if names, err := k.ledger().sweep(t.Context(), "mine"); err != nil || !slices.Equal(names, []string{"bench-gpu-GPU-0"}) {
		t.Errorf("removed %q, %v", names, err)
	}
	if names, err := k.ledger().sweep(t.Context(), ""); err != nil || len(names) > 0 {
		t.Errorf("removed %q, %v", names, err)
	}
}

// While files are sent into its container, a batch keeps its GPU.
func TestLedgerRenews(t *testing.T) {
	k := newKeeper()
	l := k.ledger()
	c := wants("old", gpus("GPU-0"))
	if g := got(t, l, c); g != "GPU-0" {
		t.Fatalf("got %q", g)
	}
	k.put("bench-old", "created", map[string]string{labelRun: "old"})
	later := func(d time.Duration) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.now = k.now.Add(d)
	}
	later(startWithin - time.Second)
	stop := l.renew(t.Context(), c, "GPU-0", time.Millisecond)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		k.mu.Lock()
		n := len(k.list)
		k.mu.Unlock()
		if n > 3 {
			break
		}
	}
	stop()
	later(2 * time.Second)
	if g := got(t, l, wants("next", c.gpus)); g != "" {
		t.Errorf("%s was given away while it is held", g)
	}
	if err := l.release(t.Context(), "old"); err != nil || len(k.list) != 1 {
		t.Errorf("left are %q, %v", k.names(), err)
	}
	// Died while it sent them.
	delete(k.list, "bench-old")
	if g := got(t, l, c); g != "GPU-0" {
		t.Fatalf("got %q", g)
	}
	stop = l.renew(t.Context(), c, "GPU-0", time.Millisecond)
	time.Sleep(10 * time.Millisecond)
	stop()
	later(startWithin + time.Second)
	if g := got(t, l, wants("next", c.gpus)); g != "GPU-0" || len(k.list) != 1 {
		t.Errorf("after its end the next got %q; there are %q", g, k.names())
	}
}

// Several batches on one GPU: as many as declared, if their memory fits, and
// never beside one that wants it alone.
func TestLedgerShares(t *testing.T) {
	of := gpus("GPU-0", "GPU-1") // 16384 MiB, of which 14745 may be promised
	part := func(run string, slots int, mib int64) claim {
		c := wants(run, of)
		c.slots, c.memoryMiB = slots, mib
		return c
	}
	k := newKeeper()
	l := k.ledger()
	var order []string
	for i := range 5 {
		order = append(order, got(t, l, part(fmt.Sprint(i), 2, 7000)))
	}
	if want := []string{"GPU-0", "GPU-1", "GPU-0", "GPU-1", ""}; !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
	if want := []string{"bench-gpu-GPU-0", "bench-gpu-GPU-0-1", "bench-gpu-GPU-1", "bench-gpu-GPU-1-1"}; !slices.Equal(k.names(), want) {
		t.Errorf("locks %q", k.names())
	}
	if g := got(t, l, wants("alone", of)); g != "" {
		t.Errorf("one that wants a GPU alone got %s", g)
	}
	l.release(t.Context(), "0")
	if g := got(t, l, wants("alone", of)); g != "" { // slot 0 is free, slot 1 is not
		t.Errorf("one that wants a GPU alone got %s beside another", g)
	}
	// Another process counts otherwise: more slots, less memory each, or too much.
	if g := got(t, l, part("x", 4, 8000)); g != "" {
		t.Errorf("8000 beside 7000 MiB on %s", g)
	}
	if g := got(t, l, part("y", 4, 3000)); g != "GPU-0" {
		t.Errorf("3000 beside 7000 MiB: %q", g)
	}
	l.release(t.Context(), "2")
	l.release(t.Context(), "y")
	if g := got(t, l, wants("alone", of)); g != "GPU-0" {
		t.Errorf("a free GPU: %q", g)
	}
	if g := got(t, l, part("z", 2, 100)); g != "" {
		t.Errorf("a share of %s, which is full or somebody's alone", g)
	}
}

// Somebody takes the GPU by another name between our look and our lock: the one
// who comes second gives way.
func TestLedgerGivesWay(t *testing.T) {
	of := gpus("GPU-0")
	k := newKeeper()
	once := sync.OnceFunc(func() {
		k.put("bench-gpu-GPU-0-1", "created", claim{run: "other", container: "bench-other", slots: 2, memoryMiB: 1000}.labels("GPU-0"))
		k.put("bench-other", "running", map[string]string{labelRun: "other", labelGPUSlots: "2"}, "GPU-0")
	})
	k.after = func(call string) {
		if call == "list" {
			once()
		}
	}
	if g := got(t, k.ledger(), wants("me", of)); g != "" {
		t.Errorf("got %s, which another batch has too", g)
	}
	if want := []string{"bench-gpu-GPU-0-1", "bench-other"}; !slices.Equal(k.names(), want) {
		t.Errorf("left are %q", k.names())
	}
}

// Errors leave no lock.
func TestLedgerFaults(t *testing.T) {
	broken := errors.New("broken")
	for n := range 3 {
		k := newKeeper()
		lists := 0
		k.fault = func(call string) error {
			if call == "list" {
				lists++
			}
			if n == 0 && lists == 1 || n == 1 && call == "reserve" || n == 2 && lists == 2 {
				return broken
			}
			return nil
		}
		_, err := k.ledger().take(t.Context(), wants("a", gpus("GPU-0")))
		if !errors.Is(err, broken) || len(k.list) > 0 {
			t.Errorf("fault %d: %v, left are %q", n, err, k.names())
		}
	}
}

// Many processes, many batches, never two on one GPU.
func TestLedgerRace(t *testing.T) {
	k := newKeeper()
	of := gpus("GPU-0", "GPU-1", "GPU-2")
	var mu sync.Mutex
	busy := map[string]string{}
	var all sync.WaitGroup
	for p := range 4 {
		l := k.ledger()
		for i := range 25 {
			all.Go(func() {
				run := fmt.Sprint(p, "-", i)
				g, err := l.take(t.Context(), wants(run, of))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if other := busy[g.UUID]; other != "" {
					t.Errorf("%s is given to %s and %s", g.UUID, other, run)
				}
				busy[g.UUID] = run
				mu.Unlock()
				time.Sleep(100 * time.Microsecond)
				mu.Lock()
				delete(busy, g.UUID)
				mu.Unlock()
				if err := l.release(t.Context(), run); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if len(k.list) != 0 {
		t.Errorf("left are %q", k.names())
	}
}

func TestParseGPUs(t *testing.T) {
	for text, want := range map[string]string{
		"2": "0/0/0 1/1/0", "1=24g": "0/0/24576", "GPU-a": "GPU-a/-1/0", "GPU-a=1.5g, MIG-b=800m": "GPU-a/-1/1536 MIG-b/-1/800",
		"": "", "0": "", "2,3": "", "GPU-a,GPU-a": "", "-1": "", "GPU-a=x": "", "GPU-a=0g": "", "GPU-a=12": "", "card": "", "GPU-a b": "", "100": "", "2=": "", "GPU-a=NaNg": "", "GPU-a=1e9g": "",
	} {
		list, err := ParseGPUs(text)
		var got []string
		for _, g := range list {
			got = append(got, fmt.Sprintf("%s/%d/%d", g.UUID, g.Index, g.MemoryMiB))
		}
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestGPUsFit(t *testing.T) {
	of := append(gpus("GPU-0"), containers.GPU{UUID: "GPU-x"})
	for name, c := range map[string]struct {
		g    GPUs
		of   []containers.GPU
		want string // part of the error; "": none
	}{
		"alone":           {GPUs{}, of, ""},
		"alone, declared": {GPUs{Slots: 1, MemoryMiB: 1 << 20}, of, ""},
		"fits":            {GPUs{Slots: 2, MemoryMiB: 7372}, of[:1], ""},
		"too much":        {GPUs{Slots: 2, MemoryMiB: 7373}, of[:1], "2 slots of 7373 MiB are more than nine tenths of GPU GPU-0"},
		"not said":        {GPUs{Slots: 2}, of[:1], "is not said"},
		"not known":       {GPUs{Slots: 2, MemoryMiB: 1}, of, "how much memory GPU GPU-x has is not known"},
		"negative":        {GPUs{Slots: -1}, of, "negative"},
	} {
		err := c.g.fit(c.of)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if p, ok := errors.AsType[*runner.PreconditionError](err); err != nil && (!ok || p.Hint == "") {
			t.Errorf("%s: %v has no hint", name, err)
		}
	}
}
