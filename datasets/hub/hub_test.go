package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/datasets/hub"
	"bench/datasets/hub/hubtest"
)

// The test program also downloads, to be killed at it.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "download" {
		c := hub.FromEnv(func(name string) string {
			return map[string]string{"HF_ENDPOINT": os.Args[2], "HF_HUB_CACHE": os.Args[3]}[name]
		}, "/nonexistent")
		if _, err := c.Get(context.Background(), "org/model", "main", hub.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// chosen are the files that bench takes of hubtest.Model.
var chosen = []string{"config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"}

func newServer(t *testing.T) *hubtest.Server {
	t.Helper()
	s := hubtest.New()
	t.Cleanup(s.Close)
	return s
}

// newClient returns an impatient client of s with an empty cache.
func newClient(t *testing.T, s *hubtest.Server) *hub.Client {
	t.Helper()
	return &hub.Client{Endpoint: s.URL, Cache: filepath.Join(t.TempDir(), "hub"), Backoff: time.Millisecond, Stall: 5 * time.Second,
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

func get(t *testing.T, c *hub.Client, o hub.Options) hub.Snapshot {
	t.Helper()
	s, err := c.Get(t.Context(), "org/model", "main", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// same checks that the files of a snapshot are those of the repository.
func same(t *testing.T, s hub.Snapshot, want map[string][]byte) {
	t.Helper()
	for _, n := range s.Files {
		got, err := os.ReadFile(filepath.Join(s.Path, n))
		if err != nil {
			t.Error(err)
		} else if string(got) != string(want[n]) {
			t.Errorf("%s has other bytes than the repository's", n)
		}
	}
}

// leftovers lists what a finished download must not leave.
func leftovers(t *testing.T, cache string) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*/blobs/*.incomplete", "*/snapshots/*/*.tmp", "*/snapshots/*/*/*.tmp", "*/.*.tmp"} {
		m, err := filepath.Glob(filepath.Join(cache, pattern))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m...)
	}
	return out
}

// transfers are the requests for the content of files.
func transfers(rs []hubtest.Request, part string) []hubtest.Request {
	return slices.DeleteFunc(rs, func(r hubtest.Request) bool {
		return r.Method != http.MethodGet || !r.Storage && !strings.Contains(r.Path, "/resolve/") || !strings.Contains(r.Path, part)
	})
}

func TestDownload(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	files := hubtest.Model()
	commit := s.Add("org/model", files).Head("main")
	c := newClient(t, s)
	c.Token = "reader"
	var last [2]int64
	got := get(t, c, hub.Options{Progress: func(done, total int64) {
		if done < last[0] || done > total {
			t.Errorf("progress went from %v to %d of %d", last, done, total)
		}
		last = [2]int64{done, total}
	}})
	if !slices.Equal(got.Files, chosen) {
		t.Errorf("files are %q, want %q", got.Files, chosen)
	}
	same(t, got, files)
	dir := filepath.Join(c.Cache, "models--org--model")
	if got.Revision != commit || got.Path != filepath.Join(dir, "snapshots", commit) || got.Pickle || got.RemoteCodeNeeded || got.ID != "org/model" {
		t.Errorf("snapshot is %+v", got)
	}
	if last[0] != last[1] || last[0] != got.Bytes {
		t.Errorf("progress ended at %v, the files have %d bytes", last, got.Bytes)
	}
	// The layout of the official client.
	if ref, err := os.ReadFile(filepath.Join(dir, "refs", "main")); err != nil || string(ref) != commit {
		t.Errorf("refs/main is %q, %v", ref, err)
	}
	for name, etag := range map[string]string{
		"model.safetensors": sha256of(files["model.safetensors"]),
		"vocab.txt":         "96bdeaee400c83614ef54761b4b530ab2ea54285", // printf '[UNK]\nblåbær\n' | git hash-object --stdin
	} {
		link, err := os.Readlink(filepath.Join(got.Path, name))
		if err != nil || link != "../../blobs/"+etag {
			t.Errorf("%s leads to %q, %v; want ../../blobs/%s", name, link, err, etag)
		}
	}
	if l := leftovers(t, c.Cache); len(l) > 0 {
		t.Errorf("left over: %q", l)
	}
	// The token went to the Hub and to nobody else.
	for _, r := range s.Requests() {
		if r.Authorized == r.Storage {
			t.Errorf("token sent: %v for %+v", r.Authorized, r)
		}
	}
	// Again: by branch one request, by commit none.
	get(t, c, hub.Options{})
	if rs := s.Requests(); len(rs) != 1 {
		t.Errorf("the second time took %d requests: %+v", len(rs), rs)
	}
	if _, err := c.Get(t.Context(), "org/model", commit, hub.Options{}); err != nil {
		t.Error(err)
	}
	if rs := s.Requests(); len(rs) != 0 {
		t.Errorf("a cached commit took %d requests: %+v", len(rs), rs)
	}
	// A new commit transfers what is new.
	files["config.json"] = []byte(`{"model_type": "bert", "changed": true}`)
	s.Add("org/model", files)
	same(t, get(t, c, hub.Options{}), files)
	if rs := transfers(s.Requests(), ""); len(rs) != 1 {
		t.Errorf("a changed config took %d transfers: %+v", len(rs), rs)
	}
}

func TestChoice(t *testing.T) {
	t.Parallel()
	base := map[string][]byte{"config.json": []byte("{}"), "vocab.txt": []byte("a\n")}
	index := []byte(`{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors", "c": "model-00001-of-00002.safetensors"}}`)
	one, two := hubtest.Safetensors(64, 1), hubtest.Safetensors(128, 2)
	with := func(more map[string][]byte) map[string][]byte {
		all := maps.Clone(base)
		maps.Copy(all, more)
		return all
	}
	for name, c := range map[string]struct {
		files   map[string][]byte
		o       hub.Options
		want    []string // besides config.json and vocab.txt
		pickle  bool
		code    bool
		failure hub.Kind
	}{
		"safetensors":       {files: with(map[string][]byte{"model.safetensors": one, "pytorch_model.bin": two}), want: []string{"model.safetensors"}},
		"sharded":           {files: with(map[string][]byte{"model.safetensors.index.json": index, "model-00001-of-00002.safetensors": one, "model-00002-of-00002.safetensors": two, "model-00003-of-00002.safetensors": two}), want: []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"}},
		"shard missing":     {files: with(map[string][]byte{"model.safetensors.index.json": index, "model-00001-of-00002.safetensors": one}), failure: hub.NoWeights},
		"index that climbs": {files: with(map[string][]byte{"model.safetensors.index.json": []byte(`{"weight_map": {"a": "../../../blobs/x.safetensors"}}`)}), failure: hub.BadFile},
		"no index":          {files: with(map[string][]byte{"model.safetensors.index.json": []byte(`[]`)}), failure: hub.BadFile},
		"pickle":            {files: with(map[string][]byte{"pytorch_model.bin": two}), want: []string{"pytorch_model.bin"}, pickle: true},
		"sharded pickle":    {files: with(map[string][]byte{"pytorch_model.bin.index.json": []byte(`{"weight_map": {"a": "pytorch_model-1.bin"}}`), "pytorch_model-1.bin": two}), want: []string{"pytorch_model-1.bin", "pytorch_model.bin.index.json"}, pickle: true},
		"TensorFlow only":   {files: with(map[string][]byte{"tf_model.h5": two}), failure: hub.NoWeights},
		"adapter only":      {files: with(map[string][]byte{"adapter_model.safetensors": two}), failure: hub.NoWeights},
		"weights elsewhere": {files: with(map[string][]byte{"sub/model.safetensors": one}), failure: hub.NoWeights},
		"weights unwanted":  {files: with(map[string][]byte{"tf_model.h5": two}), o: hub.Options{SkipWeights: true}},
		"no config":         {files: map[string][]byte{"vocab.txt": []byte("a"), "model.safetensors": one}, failure: hub.NoConfig},
		"no tokenizer":      {files: map[string][]byte{"config.json": []byte("{}"), "tokenizer_config.json": []byte("{}"), "model.safetensors": one}, failure: hub.NoTokenizer},
		"sentencepiece":     {files: with(map[string][]byte{"spiece.model": []byte("x"), "model.safetensors": one}), want: []string{"model.safetensors", "spiece.model"}},
		"code not asked for": {files: with(map[string][]byte{"config.json": []byte(`{"auto_map": {"AutoModel": "modeling.M"}}`), "modeling.py": []byte("1"), "model.safetensors": one}),
			want: []string{"model.safetensors"}, code: true},
		"code": {files: with(map[string][]byte{"config.json": []byte(`{"auto_map": {"AutoModel": "modeling.M"}}`), "modeling.py": []byte("1"), "sub/more.py": []byte("2"), "model.safetensors": one}),
			o: hub.Options{RemoteCode: true}, want: []string{"model.safetensors", "modeling.py", "sub/more.py"}, code: true},
		"code that is not there": {files: with(map[string][]byte{"config.json": []byte(`{"auto_map": {"AutoModel": "modeling.M", "AutoConfig": "configuration.C"}}`), "modeling.py": []byte("1"), "model.safetensors": one}),
			o: hub.Options{RemoteCode: true}, failure: hub.NoFile},
		"code elsewhere": {files: with(map[string][]byte{"config.json": []byte(`{"auto_map": {"AutoModel": "other/repo--modeling.M"}}`), "model.safetensors": one}),
			o: hub.Options{RemoteCode: true}, want: []string{"model.safetensors"}, code: true},
		"code of the tokenizer": {files: with(map[string][]byte{"tokenizer_config.json": []byte(`{"auto_map": {"AutoTokenizer": ["tok.T", null]}}`), "model.safetensors": one}),
			want: []string{"model.safetensors", "tokenizer_config.json"}, code: true},
		"names that climb":     {files: with(map[string][]byte{"../../../../vocab.txt": []byte("x"), "/etc/vocab.txt": []byte("x"), "a/../b.py": []byte("x"), "model.safetensors": one}), o: hub.Options{RemoteCode: true}, want: []string{"model.safetensors"}},
		"cut off by its owner": {files: with(map[string][]byte{"model.safetensors": one[:len(one)-4]}), failure: hub.BadFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			commit := s.Add("org/model", c.files).Head("main")
			client := newClient(t, s)
			got, err := client.Get(t.Context(), "org/model", "main", c.o)
			if c.failure != "" {
				if !errors.Is(err, &hub.Error{Kind: c.failure}) {
					t.Fatalf("error is %v, want one of kind %s", err, c.failure)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Sorted(slices.Values(append([]string{"config.json", "vocab.txt"}, c.want...)))
			if !slices.Equal(got.Files, want) || got.Pickle != c.pickle || got.RemoteCodeNeeded != c.code {
				t.Errorf("files %q, pickle %v, code %v; want %q, %v, %v", got.Files, got.Pickle, got.RemoteCodeNeeded, want, c.pickle, c.code)
			}
			same(t, got, c.files)
			// What the cache has is the same.
			client.Offline = true
			cached, err := client.Get(t.Context(), "org/model", commit, c.o)
			if err != nil || !slices.Equal(cached.Files, got.Files) || cached.Bytes != got.Bytes {
				t.Errorf("from the cache: %+v, %v", cached, err)
			}
			// As a local folder, it is the same again.
			local, err := hub.Local(t.Context(), got.Path, c.o, "")
			if err != nil || !slices.Equal(local.Files, got.Files) {
				t.Errorf("as a folder: %+v, %v", local, err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set             func(*hubtest.Server, *hubtest.Repo, *hub.Client)
		model, revision string
		want            hub.Kind
		hint            string
	}{
		"gated":              {set: func(_ *hubtest.Server, r *hubtest.Repo, _ *hub.Client) { r.Gated = "manual" }, want: hub.Gated, hint: "set HF_TOKEN"},
		"gated, other token": {set: func(_ *hubtest.Server, r *hubtest.Repo, c *hub.Client) { r.Gated, c.Token = "auto", "stranger" }, want: hub.Gated, hint: "with the account"},
		"no model":           {model: "org/nothing", want: hub.NoModel, hint: "set HF_TOKEN"},
		"no model, token":    {model: "org/nothing", set: func(_ *hubtest.Server, _ *hubtest.Repo, c *hub.Client) { c.Token = "reader" }, want: hub.NoModel, hint: "must be of somebody"},
		"private":            {set: func(_ *hubtest.Server, r *hubtest.Repo, _ *hub.Client) { r.Private = true }, want: hub.NoModel, hint: "private"},
		"no revision":        {revision: "v9", want: hub.NoRevision, hint: "/org/model/refs"},
		"no commit":          {revision: strings.Repeat("0", 40), want: hub.NoRevision},
		"bad token":          {set: func(_ *hubtest.Server, _ *hubtest.Repo, c *hub.Client) { c.Token = "unknown" }, want: hub.BadToken, hint: "expired"},
		"disabled":           {set: func(_ *hubtest.Server, r *hubtest.Repo, _ *hub.Client) { r.Disabled = true }, want: hub.Disabled},
		"forbidden": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Path: "/api/", Status: 403, Header: http.Header{"X-Error-Message": {"fine-grained"}}})
		}, want: hub.Forbidden, hint: "read access"},
		"file gone": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Path: "vocab.txt", Status: 404})
		}, want: hub.NoFile},
		"always 503": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Path: "/api/", Status: 503})
		}, want: hub.Server, hint: "later"},
		"storage says 403": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Storage: true, Status: 403})
		}, want: hub.Server},
		"login page": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Path: "/api/", Status: 200, Body: "<html>please log in</html>"})
		}, want: hub.NotAHub, hint: "HF_ENDPOINT"},
		"circle": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Path: "/api/", Status: 307, Header: http.Header{"Location": {"/api/models/org/model"}}})
		}, want: hub.NotAHub},
		"nobody there": {set: func(_ *hubtest.Server, _ *hubtest.Repo, c *hub.Client) { c.Endpoint = "http://127.0.0.1:1" }, want: hub.Unreachable, hint: "HTTPS_PROXY"},
		"silence": {set: func(s *hubtest.Server, _ *hubtest.Repo, c *hub.Client) {
			c.Stall, c.Attempts = 50*time.Millisecond, 2
			s.Inject(hubtest.Fault{Path: "/api/", Pause: time.Minute})
		}, want: hub.Unreachable},
		"rate limit for too long": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Path: "/api/", Status: 429, Header: http.Header{"Retry-After": {"4000"}}})
		}, want: hub.RateLimited, hint: "HF_TOKEN"},
		"always cut": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Storage: true, Cut: 1000})
		}, want: hub.Truncated, hint: "goes on"},
		"always corrupt": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Storage: true, Corrupt: true})
		}, want: hub.Corrupted, hint: "proxy"},
		"corrupt small file": {set: func(s *hubtest.Server, _ *hubtest.Repo, _ *hub.Client) {
			s.Inject(hubtest.Fault{Path: "vocab.txt", Corrupt: true})
		}, want: hub.Corrupted},
		"offline":      {set: func(_ *hubtest.Server, _ *hubtest.Repo, c *hub.Client) { c.Offline = true }, want: hub.OfflineMode, hint: "HF_HUB_OFFLINE"},
		"bad name":     {model: "a/b/c", want: hub.BadName},
		"bad revision": {revision: "../../x", want: hub.BadName},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			r := s.Add("org/model", hubtest.Model())
			r.Readers = []string{"reader"}
			client := newClient(t, s)
			if c.set != nil {
				c.set(s, r, client)
			}
			model, revision := c.model, c.revision
			if model == "" {
				model = "org/model"
			}
			if revision == "" {
				revision = "main"
			}
			_, err := client.Get(t.Context(), model, revision, hub.Options{})
			e, ok := errors.AsType[*hub.Error](err)
			if !ok || e.Kind != c.want {
				t.Fatalf("error is %v (%T), want one of kind %s", err, err, c.want)
			}
			if e.Hint() == "" || !strings.Contains(e.Hint(), c.hint) {
				t.Errorf("hint is %q, want %q in it", e.Hint(), c.hint)
			}
			if client.Token != "" && (strings.Contains(err.Error(), client.Token) || strings.Contains(e.Hint(), client.Token)) {
				t.Errorf("the token is in the error: %v", err)
			}
			if strings.Contains(err.Error(), "Signature") {
				t.Errorf("a signed address is in the error: %v", err)
			}
			if !strings.Contains(err.Error(), model) {
				t.Errorf("the model is not named: %v", err)
			}
			t.Logf("%v\nhint: %s", err, e.Hint())
			if c.want == hub.Corrupted {
				// What others had of their files when the download was given up may
				// stay, to go on with; wrong bytes may not.
				for _, path := range leftovers(t, client.Cache) {
					kept, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					right := false
					for _, text := range hubtest.Model() {
						right = right || bytes.HasPrefix(text, kept)
					}
					if !right {
						t.Errorf("wrong bytes are kept in %s", path)
					}
				}
			}
		})
	}
}

func TestReaders(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := s.Add("org/model", hubtest.Model())
	r.Gated, r.Private, r.Readers = "auto", true, []string{"reader"}
	c := newClient(t, s)
	c.Token = "reader"
	info, err := c.Resolve(t.Context(), "org/model", "main")
	if err != nil || info.Gated != "auto" || !info.Private || info.PipelineTag != "fill-mask" || !slices.Contains(info.Tags, "da") {
		t.Errorf("%+v, %v", info, err)
	}
	get(t, c, hub.Options{})
}

// Faults that pass are got over, with the bytes right in the end.
func TestRecovery(t *testing.T) {
	t.Parallel()
	const half = 600_000
	for name, c := range map[string]struct {
		fault hubtest.Fault
		more  []hubtest.Fault
		// ranges are those of the requests to the storage.
		ranges []string
	}{
		"cut":                 {fault: hubtest.Fault{Storage: true, Times: 1, Cut: half}, ranges: []string{"", "bytes=600000-"}},
		"cut twice":           {fault: hubtest.Fault{Storage: true, Times: 2, Cut: half / 2}, ranges: []string{"", "bytes=300000-", "bytes=600000-"}},
		"cut, then no ranges": {fault: hubtest.Fault{Storage: true, Times: 1, Cut: half}, more: []hubtest.Fault{{Storage: true, Times: 1, NoRange: true}}, ranges: []string{"", "bytes=600000-"}},
		"cut, then 416":       {fault: hubtest.Fault{Storage: true, Times: 1, Cut: half}, more: []hubtest.Fault{{Storage: true, Times: 1, Status: 416}}, ranges: []string{"", "bytes=600000-", ""}},
		"cut, then other range": {fault: hubtest.Fault{Storage: true, Times: 1, Cut: half},
			more: []hubtest.Fault{{Storage: true, Times: 1, Status: 206, Header: http.Header{"Content-Range": {"bytes 5-9/10"}}, Body: "12345"}}, ranges: []string{"", "bytes=600000-", ""}},
		"corrupt once":    {fault: hubtest.Fault{Storage: true, Times: 1, Corrupt: true}, ranges: []string{"", ""}},
		"cut and corrupt": {fault: hubtest.Fault{Storage: true, Times: 1, Cut: half, Corrupt: true}, ranges: []string{"", "bytes=600000-"}},
		"silence":         {fault: hubtest.Fault{Storage: true, Times: 1, Pause: time.Minute}, ranges: []string{"", ""}},
		"dropped":         {fault: hubtest.Fault{Storage: true, Times: 1, Drop: true}, ranges: []string{"", ""}},
		"503":             {fault: hubtest.Fault{Storage: true, Times: 3, Status: 503}, ranges: []string{"", "", "", ""}},
		"expired address": {fault: hubtest.Fault{Storage: true, Times: 1, Status: 403}, ranges: []string{"", ""}},
		"API 500":         {fault: hubtest.Fault{Path: "/api/", Times: 2, Status: 500}, ranges: []string{""}},
		"API dropped":     {fault: hubtest.Fault{Path: "/api/", Times: 2, Drop: true}, ranges: []string{""}},
		"file 502":        {fault: hubtest.Fault{Path: "config.json", Times: 2, Status: 502}, ranges: []string{""}},
		"small file cut":  {fault: hubtest.Fault{Path: "vocab.txt", Times: 1, Cut: 5}, ranges: []string{""}},
		"slow":            {fault: hubtest.Fault{Storage: true, Times: 1, Slow: 2 * time.Millisecond}, ranges: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			files := hubtest.Model()
			s.Add("org/model", files)
			s.Inject(c.fault)
			for _, f := range c.more {
				s.Inject(f)
			}
			client := newClient(t, s)
			client.Stall = 300 * time.Millisecond
			got := get(t, client, hub.Options{})
			same(t, got, files)
			if l := leftovers(t, client.Cache); len(l) > 0 {
				t.Errorf("left over: %q", l)
			}
			var ranges []string
			for _, r := range s.Requests() {
				if r.Storage {
					ranges = append(ranges, r.Range)
				}
			}
			if !slices.Equal(ranges, c.ranges) {
				t.Errorf("ranges are %q, want %q", ranges, c.ranges)
			}
		})
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.Header{
		"seconds": {"Retry-After": {"0.3"}},
		"window":  {"Ratelimit": {`"api";r=0;t=1`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.Add("org/model", hubtest.Model())
			s.Inject(hubtest.Fault{Path: "/api/", Times: 1, Status: 429, Header: h})
			c := newClient(t, s)
			var mu sync.Mutex
			var said []string
			c.Notice = func(text string) { mu.Lock(); said = append(said, text); mu.Unlock() }
			begin := time.Now()
			get(t, c, hub.Options{})
			if took := time.Since(begin); took < 300*time.Millisecond {
				t.Errorf("it took only %v", took)
			}
			if len(said) != 1 || !strings.Contains(said[0], "asks to wait") {
				t.Errorf("said %q", said)
			}
		})
	}
}

func TestRenamed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	files := hubtest.Model()
	s.Add("old/model", files)
	s.Rename("old/model", "new-org/new-model")
	c := newClient(t, s)
	c.Token = "reader"
	var said []string
	c.Notice = func(text string) { said = append(said, text) }
	got, err := c.Get(t.Context(), "old/model", "main", hub.Options{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, files)
	if got.RenamedTo != "new-org/new-model" || len(said) != 1 || !strings.Contains(said[0], "new-org/new-model") {
		t.Errorf("renamed to %q, said %q", got.RenamedTo, said)
	}
	if want := filepath.Join(c.Cache, "models--old--model"); filepath.Dir(filepath.Dir(got.Path)) != want {
		t.Errorf("it is at %s, want it in %s, where programs that use the old name look", got.Path, want)
	}
	for _, r := range s.Requests() {
		if r.Authorized == r.Storage {
			t.Errorf("token sent: %v for %+v", r.Authorized, r)
		}
	}
}

func TestRevisions(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := s.Add("model", hubtest.Model()) // without an organisation
	files := hubtest.Model()
	files["vocab.txt"] = []byte("older\n")
	tag := r.Commit("v1.0", files)
	pr := r.Commit("refs/pr/1", files)
	c := newClient(t, s)
	for revision, commit := range map[string]string{"main": r.Head("main"), "v1.0": tag, "refs/pr/1": pr, tag: tag} {
		got, err := c.Get(t.Context(), "model", revision, hub.Options{})
		if err != nil || got.Revision != commit {
			t.Errorf("%s: %+v, %v", revision, got, err)
		}
		c.Offline = true
		if got, err := c.Get(t.Context(), "model", revision, hub.Options{}); err != nil || got.Revision != commit {
			t.Errorf("%s, offline: %+v, %v", revision, got, err)
		}
		c.Offline = false
	}
}

// A mirror of the Hub that tells names only.
func TestNamesOnly(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	files := hubtest.Model()
	s.Add("org/model", files)
	s.NamesOnly()
	c := newClient(t, s)
	got := get(t, c, hub.Options{})
	same(t, got, files)
	if !slices.Equal(got.Files, chosen) {
		t.Errorf("files are %q", got.Files)
	}
}

func TestUnreachableButCached(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Add("org/model", hubtest.Model())
	c := newClient(t, s)
	get(t, c, hub.Options{})
	c.Endpoint = "http://127.0.0.1:1"
	var said []string
	c.Notice = func(text string) { said = append(said, text) }
	if got := get(t, c, hub.Options{}); !got.Unchecked || len(said) != 1 {
		t.Errorf("%+v, said %q", got, said)
	}
}

// What the cache has only in part does not pass for a model.
func TestIncompleteCache(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Add("org/model", hubtest.Model())
	c := newClient(t, s)
	s.Inject(hubtest.Fault{Storage: true, Status: 403})
	c.Attempts = 1
	if _, err := c.Get(t.Context(), "org/model", "main", hub.Options{}); err == nil {
		t.Fatal("it succeeded without storage")
	}
	s.Mend()
	offline := *c
	offline.Offline = true
	if _, err := offline.Get(t.Context(), "org/model", "main", hub.Options{}); !errors.Is(err, &hub.Error{Kind: hub.OfflineMode}) {
		t.Errorf("offline after half a download: %v", err)
	}
	if _, err := offline.Get(t.Context(), "org/model", s.Add("x", hubtest.Model()).Head("main"), hub.Options{}); err == nil {
		t.Error("another commit is in the cache")
	}
	got := get(t, c, hub.Options{})
	// A blob that is gone, or cut off, is noticed.
	blob, err := filepath.EvalSymlinks(filepath.Join(got.Path, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(blob, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := offline.Get(t.Context(), "org/model", "main", hub.Options{}); !errors.Is(err, &hub.Error{Kind: hub.BadFile}) {
		t.Errorf("cut off blob: %v", err)
	}
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if _, err := offline.Get(t.Context(), "org/model", "main", hub.Options{}); !errors.Is(err, &hub.Error{Kind: hub.Incomplete}) {
		t.Errorf("missing blob: %v", err)
	}
	same(t, get(t, c, hub.Options{}), hubtest.Model()) // and mended
}

// Several at once transfer each file once.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	files := hubtest.Model()
	s.Add("org/model", files)
	s.Inject(hubtest.Fault{Storage: true, Slow: time.Millisecond})
	c := newClient(t, s)
	var wg sync.WaitGroup
	for range 3 {
		other := *c
		wg.Go(func() {
			got, err := other.Get(t.Context(), "org/model", "main", hub.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			same(t, got, files)
		})
	}
	wg.Wait()
	if rs := transfers(s.Requests(), ""); len(rs) != len(chosen)+1 { // one redirect
		t.Errorf("%d transfers: %+v", len(rs), rs)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Add("org/model", hubtest.Model())
	s.Inject(hubtest.Fault{Storage: true, Slow: 20 * time.Millisecond})
	c := newClient(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := c.Get(ctx, "org/model", "main", hub.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v to stop", took)
	}
}

// A download that is killed goes on where it stopped.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	files := hubtest.Model()
	s.Add("org/model", files)
	s.Inject(hubtest.Fault{Storage: true, Times: 1, Slow: 20 * time.Millisecond})
	c := newClient(t, s)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe, "download", s.URL, c.Cache)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(c.Cache, "models--org--model", "blobs", sha256of(files["model.safetensors"])+".incomplete")
	var size int64
	for end := time.Now().Add(20 * time.Second); size < 200_000; time.Sleep(time.Millisecond) {
		if st, err := os.Stat(part); err == nil {
			size = st.Size()
		}
		if time.Now().After(end) {
			child.Process.Kill()
			t.Fatalf("no %s", part)
		}
	}
	child.Process.Kill()
	if err := child.Wait(); err == nil {
		t.Fatal("it was quicker than the kill")
	}
	st, err := os.Stat(part)
	if err != nil {
		t.Fatal(err)
	}
	s.Requests()
	same(t, get(t, c, hub.Options{}), files)
	rs := transfers(s.Requests(), "")
	rs = slices.DeleteFunc(rs, func(r hubtest.Request) bool { return !r.Storage })
	if want := fmt.Sprintf("bytes=%d-", st.Size()); len(rs) != 1 || rs[0].Range != want {
		t.Errorf("requests to the storage: %+v, want one of %s", rs, want)
	}
	if l := leftovers(t, c.Cache); len(l) > 0 {
		t.Errorf("left over: %q", l)
	}
}

func TestUnwritableCache(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Add("org/model", hubtest.Model())
	c := newClient(t, s)
	c.Cache = filepath.Join(t.TempDir(), "file", "hub")
	if err := os.WriteFile(filepath.Dir(c.Cache), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "org/model", "main", hub.Options{}); !errors.Is(err, &hub.Error{Kind: hub.CacheUnwritable}) {
		t.Errorf("error is %v", err)
	}
}

func TestFromEnv(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(home, ".cache/huggingface/token"), "of-the-file\n")
	write(filepath.Join(home, "other-token"), "other")
	for name, c := range map[string]struct {
		env  map[string]string
		want hub.Client
	}{
		"nothing":  {nil, hub.Client{Endpoint: hub.DefaultEndpoint, Cache: home + "/.cache/huggingface/hub", Token: "of-the-file"}},
		"all":      {map[string]string{"HF_ENDPOINT": "http://mirror/", "HF_TOKEN": " secret\n", "HF_HOME": "/x", "HF_HUB_OFFLINE": "yes"}, hub.Client{Endpoint: "http://mirror", Cache: "/x/hub", Token: "secret", Offline: true}},
		"cache":    {map[string]string{"HF_HUB_CACHE": "~/models", "HF_HOME": "/x"}, hub.Client{Endpoint: hub.DefaultEndpoint, Cache: home + "/models"}},
		"old name": {map[string]string{"HUGGINGFACE_HUB_CACHE": "$DISK/models", "DISK": "/disk"}, hub.Client{Endpoint: hub.DefaultEndpoint, Cache: "/disk/models", Token: "of-the-file"}},
		"XDG":      {map[string]string{"XDG_CACHE_HOME": "/c"}, hub.Client{Endpoint: hub.DefaultEndpoint, Cache: "/c/huggingface/hub"}},
		"no token": {map[string]string{"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, hub.Client{Endpoint: hub.DefaultEndpoint, Cache: home + "/.cache/huggingface/hub"}},
		"path":     {map[string]string{"HF_TOKEN_PATH": home + "/other-token", "HF_HUB_OFFLINE": "0"}, hub.Client{Endpoint: hub.DefaultEndpoint, Cache: home + "/.cache/huggingface/hub", Token: "other"}},
	} {
		got := hub.FromEnv(func(n string) string { return c.env[n] }, home)
		if got.Endpoint != c.want.Endpoint || got.Cache != c.want.Cache || got.Token != c.want.Token || got.Offline != c.want.Offline {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestSplitName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"org/name": {"org/name", "main"}, "bert-base-cased": {"bert-base-cased", "main"}, "a/b@v1.0": {"a/b", "v1.0"}, "a/b@refs/pr/1": {"a/b", "refs/pr/1"},
		"": {}, "a/b/c": {}, "a/b@": {}, "../b": {}, "a/..": {}, "a/b@../c": {}, "a b": {}, "a--b/c": {}, "/a": {}, "a/": {}, "a/b@x y": {}, "a/b.git": {}, "a/b@/x": {},
	} {
		id, revision, err := hub.SplitName(name)
		if id != want[0] || revision != want[1] || (err == nil) != (want[0] != "") {
			t.Errorf("%q: %q, %q, %v", name, id, revision, err)
		}
	}
}
