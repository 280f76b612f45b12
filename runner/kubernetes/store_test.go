package kubernetes

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bench/runner"
	"bench/runner/job"
	"bench/runner/kept"
	"bench/runner/runnertest/stub"

	"github.com/google/go-cmp/cmp"
)

// newStoreLab is a cluster of the stand-in without a volume, with a store.
func newStoreLab(t *testing.T) (*lab, *fakeStore) {
	l, s := newLab(t), newFakeStore(t)
	l.o.Claim, l.o.Path = "", ""
	l.o.Store, l.o.StoreKeys = Store{URL: "s3://work/some/where", Endpoint: s.url, Region: "eu-north-1"}, s.keys
	l.o.Entrypoint, l.o.DeliveryGrace, l.o.Poll = []string{"/trainer"}, time.Second, 200*time.Millisecond
	return l, s
}

// Everything goes through an object store.
func TestContractStore(t *testing.T) {
	t.Parallel()
	l, s := newStoreLab(t)
	contract(t, l, time.Second)
	e := l.open()
	if _, err := e.GC(t.Context(), true); err != nil {
		t.Error(err)
	}
	if left := s.names(); len(left) > 0 {
		t.Errorf("left in the store: %v", left)
	}
}

// Presigned URLs are those of the example in Amazon's documentation:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
// has the signature aeeed9bb… for an address with the bucket in the host's name;
// here it is in the path, so only what surrounds it is looked at.
func TestPresign(t *testing.T) {
	b := newBucket(Store{URL: "s3://work/a b,ø", Endpoint: "https://s3.example.org", Region: "eu-north-1"}, StoreKeys{ID: "AKID", Secret: "very-secret", Session: "token"})
	u, err := b.presign(t.Context(), http.MethodGet, "x/y")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"https://s3.example.org/work/a%20b%2C%C3%B8/x/y?", "X-Amz-Expires=604800", "X-Amz-Security-Token=token", "X-Amz-Credential=AKID%2F", "eu-north-1%2Fs3", "X-Amz-Signature="} {
		if !strings.Contains(u, part) {
			t.Errorf("%s lacks %s", u, part)
		}
	}
	if strings.Contains(u, "very-secret") {
		t.Error(u)
	}
}

// A store that does not answer now and then, and connections that are cut, cost
// time and nothing else. Nothing that the cluster is told has the keys.
func TestStoreIsFlaky(t *testing.T) {
	t.Parallel()
	l, s := newStoreLab(t)
	n := 0
	s.cut = 4
	s.spoil = func(w http.ResponseWriter, r *http.Request) bool {
		if n++; n%3 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	e, h, b, d := l.start(stub.Script{Pause: 100 * time.Millisecond})
	if x, err := l.ends(h); err != nil || x != (job.Exit{}) {
		t.Errorf("%+v, %v", x, err)
	}
	for _, j := range b.Jobs {
		l.appears(d, j)
		if text, err := os.ReadFile(filepath.Join(d.Out(), string(j.ID), kept.Predictions)); err != nil || !bytes.HasSuffix(text, []byte("\n")) {
			t.Errorf("%q, %v", text, err)
		}
	}
	e.Close()
	filepath.WalkDir(l.root, func(path string, _ os.DirEntry, err error) error {
		if text, rerr := os.ReadFile(path); rerr == nil {
			if z, zerr := gzip.NewReader(bytes.NewReader(text)); zerr == nil {
				var plain bytes.Buffer
				plain.ReadFrom(z)
				text = plain.Bytes()
			}
			if bytes.Contains(text, []byte(s.keys.Secret)) {
				t.Errorf("%s has the key", path)
			}
		}
		return err
	})
}

// URLs that ran out while a batch waited end it as a failure of the machines,
// and the next start has new ones.
func TestStoreURLsRunOut(t *testing.T) {
	t.Parallel()
	l, s := newStoreLab(t)
	s.spoil = func(_ http.ResponseWriter, r *http.Request) bool {
		s.ahead = 0
		if r.URL.Query().Get("X-Amz-Signature") != "" {
			s.ahead = urlLife + time.Minute
		}
		return false
	}
	e, h, b, d := l.start(stub.Script{})
	x, err := l.ends(h)
	if err != nil || !x.Stopped || x.TimedOut || !strings.Contains(x.Detail, "fetch of its data failed") || !strings.Contains(x.Detail, "403") {
		t.Errorf("%+v, %v", x, err)
	}
	s.mu.Lock()
	s.spoil, s.ahead = nil, 0
	s.mu.Unlock()
	again, err := e.Start(t.Context(), b, d)
	if err != nil {
		t.Fatal(err)
	}
	if x, err := l.ends(again); err != nil || x != (job.Exit{}) {
		t.Errorf("%+v, %v", x, err)
	}
	l.appears(d, b.Jobs[1])
}

// A batch whose bench was killed before its Job had all that it needs begins
// anew.
func TestStoreHalfStarted(t *testing.T) {
	t.Parallel()
	l, _ := newStoreLab(t)
	e, h, b, d := l.start(stub.Script{Linger: time.Minute})
	l.appears(d, b.Jobs[1])
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.ends(h)
	// As if it had not gone further than this.
	own := h.(*handle)
	own.r.Whole = false
	if err := errors.Join(own.save(), own.cleanLocal()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.open().Attach(t.Context(), b, d); !errors.Is(err, runner.ErrNotFound) {
		t.Error(err)
	}
	if _, err := os.Stat(d.Executor()); err == nil {
		t.Error("its record is left")
	}
	e.Close()
}

func TestStoreTooMuchOutput(t *testing.T) {
	t.Parallel()
	l, _ := newStoreLab(t)
	l.o.OutBytes = 10
	_, h, b, d := l.start(stub.Script{Linger: time.Minute})
	if x, err := l.ends(h); err != nil || !x.Stopped || x.TimedOut || !strings.Contains(x.Detail, "are allowed") {
		t.Errorf("%+v, %v", x, err)
	}
	l.appears(d, b.Jobs[1])
}

// What is wrong with the store is said at once.
func TestStoreIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"no bucket":     {func(o *Options) { o.Store.URL = "s3://play/some" }, "has no bucket play"},
		"wrong key":     {func(o *Options) { o.StoreKeys.Secret = "guess" }, "does not let you"},
		"no key":        {func(o *Options) { o.StoreKeys = StoreKeys{} }, "no login"},
		"nobody there":  {func(o *Options) { o.Store.Endpoint = "http://127.0.0.1:1" }, "does not answer"},
		"no address":    {func(o *Options) { o.Store.Endpoint = "127.0.0.1:9000" }, "is not http"},
		"no URL":        {func(o *Options) { o.Store.URL = "work/some" }, "is not s3://"},
		"no entrypoint": {func(o *Options) { o.Entrypoint = nil }, "how it is started"},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newStoreLab(t)
			c.change(&l.o)
			err := l.open().Check(t.Context())
			if p, ok := errors.AsType[*runner.PreconditionError](err); !ok || !strings.Contains(err.Error(), c.says) || p.Hint == "" {
				t.Error(err)
			}
		})
	}
}

// deliver sends regular files of a bounded size and follows no link.
func TestDeliverHostile(t *testing.T) {
	t.Parallel()
	s := newFakeStore(t)
	b := newBucket(Store{URL: "s3://work", Endpoint: s.url, Region: "eu-north-1"}, s.keys)
	volume := t.TempDir()
	p := plan{Limits: map[string]int64{kept.Outcome: 10, kept.Predictions: 10, "bytes": 1 << 30, "entries": 1000}}
	make := func(id string, do func(dir string) error) {
		dir := filepath.Join(volume, "out", id)
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := do(dir); err != nil {
			t.Fatal(err)
		}
		j := planJob{ID: job.ID(id)}
		for to, name := range map[*string]string{&j.Outcome: kept.Outcome, &j.Predictions: kept.Predictions} {
			u, err := b.presign(t.Context(), http.MethodPut, id+"/"+name)
			if err != nil {
				t.Fatal(err)
			}
			*to = u
		}
		p.Jobs = append(p.Jobs, j)
	}
	put := func(dir, name, text string) error {
		return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	secret := filepath.Join(t.TempDir(), kept.Outcome)
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	make("good", func(dir string) error {
		return errors.Join(put(dir, kept.Outcome, "{}"), put(dir, kept.Predictions, "text"))
	})
	make("link", func(dir string) error {
		return errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(secret, filepath.Join(dir, kept.Outcome)))
	})
	make("folder", func(dir string) error { return os.Symlink(filepath.Dir(secret), dir) })
	make("pipe", func(dir string) error {
		return errors.Join(put(dir, kept.Outcome, "{}"), syscall.Mkfifo(filepath.Join(dir, kept.Predictions), 0o644))
	})
	make("big", func(dir string) error {
		return errors.Join(put(dir, kept.Outcome, "{}"), put(dir, kept.Predictions, "more than ten"))
	})
	make("none", func(string) error { return nil })
	file := filepath.Join(t.TempDir(), planName)
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	if err := errors.Join(json.NewEncoder(z).Encode(p), z.Close(), os.WriteFile(file, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "fetched"), []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-I", "-c", transfer, "deliver", file, volume)
	cmd.Stderr = os.Stderr
	// It looks once more when it is told to end, so it may be told right away.
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	(&lab{T: t}).eventually("the jobs are sent", 10*time.Second, func() bool { return slices.Contains(s.names(), "big/"+kept.Outcome) })
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	got := map[string]string{}
	for name, text := range s.objects {
		got[name], _, _ = strings.Cut(string(text), ":")
	}
	want := map[string]string{
		"good/" + kept.Outcome: "{}", "good/" + kept.Predictions: "text", "link/" + kept.Outcome: "refused",
		"folder/" + kept.Outcome: "refused", "folder/" + kept.Predictions: "refused",
		"pipe/" + kept.Outcome: "{}", "pipe/" + kept.Predictions: "refused", "big/" + kept.Outcome: "{}", "big/" + kept.Predictions: "refused",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A program behind the guard, and its children, make no sockets but those of
// this machine, whatever they try.
func TestGuard(t *testing.T) {
	t.Parallel()
	try := `
import ctypes, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
for family in socket.AF_INET, socket.AF_INET6, socket.AF_PACKET, socket.AF_VSOCK:
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW:
        try:
            socket.socket(family, kind)
            print("open", family, kind)
        except OSError as e:
            if e.errno != 97: print(family, kind, e)
socket.socketpair()
socket.socket(socket.AF_UNIX)
if libc.syscall(425, 8, 0) >= 0: print("io_uring")  # io_uring_setup
if len(sys.argv) == 1:
    subprocess.run([sys.executable, "-c", open("/proc/self/cmdline").read().split("\0")[2], "child"], check=True)
    print("as ever")
`
	out, err := exec.Command("python3", "-I", "-c", cutOff, "python3", "-c", try).CombinedOutput()
	if err != nil || string(out) != "as ever\n" {
		t.Errorf("%v: %s", err, out)
	}
	out, err = exec.Command("python3", "-I", "-c", cutOff, "/no/such/trainer").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != job.ExitTrainer || !strings.Contains(string(out), "entrypoint:") {
		t.Errorf("%v: %s", err, out)
	}
}
