// Package hubtest is a Hugging Face Hub in miniature, on two ports of this
// machine: the Hub itself, with its API and small files, and the storage of
// large files that it redirects to. The official client can use it too. Tests
// make it misbehave.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// Server is a Hub.
type Server struct {
	URL        string // for HF_ENDPOINT
	StorageURL string

	hub, storage *httptest.Server

	mu       sync.Mutex
	repos    map[string]*Repo
	renamed  map[string]string
	faults   []*Fault
	requests []Request
	// namesOnly: the API tells the names of files and nothing else.
	namesOnly bool
	// pageSize bounds pages of listings.
	pageSize int
}

// Repo is a model or a data set.
type Repo struct {
	ID string
	// Gated is "", auto or manual: files need a token of Readers.
	Gated string
	// Private: everything needs a token of Readers.
	Private bool
	// Disabled: the files are switched off.
	Disabled bool
	Readers  []string
	// What listings say of it beside. Tags: pytorch, da and those of the card if
	// nil; Pipeline: fill-mask if nil.
	Tags       []string
	Pipeline   *string
	Downloads  int
	Likes      int
	Parameters int64     // 0: not said
	Created    time.Time // of the first commit

	mu      *sync.Mutex // the server's; of what follows and the above
	refs    map[string]string
	commits map[string]map[string][]byte
}

// Request is one that was received.
type Request struct {
	Storage    bool // by the storage and not the Hub
	Method     string
	Path       string
	Range      string
	Authorized bool // with a token
}

// Fault changes answers.
type Fault struct {
	Storage bool   // of the storage; false: of the Hub
	Path    string // a part of the path of the requests that it concerns, or of the file's name (storage)
	Times   int    // how many requests; 0: all
	Method  string // "": GET

	Status  int // answer with this status …
	Header  http.Header
	Body    string
	Cut     int64         // close the connection after so many bytes of content
	Pause   time.Duration // wait before answering
	Slow    time.Duration // wait after each 16 KiB of content
	Corrupt bool          // change the last byte of the file
	NoRange bool          // send the whole file whatever range is asked for
	Drop    bool          // close the connection without an answer
}

// New starts a Hub. Close it.
func New() *Server {
	s := &Server{repos: map[string]*Repo{}, renamed: map[string]string{}}
	s.hub = httptest.NewServer(http.HandlerFunc(s.serveHub))
	s.storage = httptest.NewServer(http.HandlerFunc(s.serveStorage))
	s.URL, s.StorageURL = s.hub.URL, s.storage.URL
	return s
}

// Close stops it.
func (s *Server) Close() {
	s.hub.CloseClientConnections()
	s.storage.CloseClientConnections()
	s.hub.Close()
	s.storage.Close()
}

// Add makes a model with one commit on main.
func (s *Server) Add(id string, files map[string][]byte) *Repo {
	r := &Repo{ID: id, mu: &s.mu, refs: map[string]string{}, commits: map[string]map[string][]byte{}}
	r.Commit("main", files)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[id] = r
	return r
}

// AddDataset makes a data set with one commit on main.
func (s *Server) AddDataset(id string, files map[string][]byte) *Repo {
	return s.Add("datasets/"+id, files)
}

// Commit puts files on a branch, or makes a tag, and returns the commit.
func (r *Repo) Commit(ref string, files map[string][]byte) string {
	h := sha1.New()
	fmt.Fprintln(h, r.ID)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(h, name, blobID(files[name]))
	}
	commit := hex.EncodeToString(h.Sum(nil))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits[commit] = maps.Clone(files)
	r.refs[ref] = commit
	return commit
}

// Head returns the commit of a branch or tag.
func (r *Repo) Head(ref string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refs[ref]
}

// Set changes r while no request reads it: for repositories that have been asked
// for, or that another process asks for.
func (r *Repo) Set(change func(r *Repo)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// Rename gives a model a new name; the old one leads there.
func (s *Server) Rename(id, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[to] = s.repos[id]
	s.repos[to].ID = to
	delete(s.repos, id)
	s.renamed[id] = to
}

// Inject adds a fault. Faults are tried in the order in which they were added.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = -1
	}
	s.faults = append(s.faults, &f)
}

// Mend removes all faults.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// NamesOnly makes the API leave out sizes and digests, as some mirrors do.
func (s *Server) NamesOnly() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namesOnly = true
}

// Requests returns what was received so far, and forgets it.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	s.requests = nil
	return r
}

// Safetensors returns a small valid file of weights with n bytes of numbers (a
// multiple of 4), which differ by seed.
func Safetensors(n int, seed byte) []byte {
	header, err := json.Marshal(map[string]any{
		"__metadata__": map[string]string{"format": "pt"},
		"weight":       map[string]any{"dtype": "F32", "shape": []int{n / 4}, "data_offsets": []int{0, n}},
	})
	if err != nil {
		panic(err)
	}
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	b := make([]byte, 8, 8+len(header)+n)
	b[0], b[1], b[2] = byte(len(header)), byte(len(header)>>8), byte(len(header)>>16)
	b = append(b, header...)
	for i := range n {
		b = append(b, byte(i*7)+byte(i>>8)+seed)
	}
	return b
}

// Model returns the files of a small complete model, with the clutter that
// repositories have beside.
func Model() map[string][]byte {
	return map[string][]byte{
		"config.json":                []byte(`{"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8}`),
		"tokenizer.json":             []byte(`{"version": "1.0", "model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}}`),
		"tokenizer_config.json":      []byte(`{"model_max_length": 512}`),
		"special_tokens_map.json":    []byte(`{"unk_token": "[UNK]"}`),
		"vocab.txt":                  []byte("[UNK]\nblåbær\n"),
		"model.safetensors":          Safetensors(1<<20, 1),
		"pytorch_model.bin":          []byte("not taken, there is something better"),
		"tf_model.h5":                []byte("not taken"),
		"flax_model.msgpack":         []byte("not taken"),
		"onnx/model.onnx":            []byte("not taken"),
		"checkpoint-10/optimizer.pt": []byte("not taken"),
		"modeling_custom.py":         []byte("raise SystemExit('code of the repository was run')\n"),
		"README.md":                  []byte("# A model\n"),
		".gitattributes":             []byte("*.safetensors filter=lfs\n"),
	}
}

// large says whether a file is in large file storage.
func large(name string) bool {
	switch path.Ext(name) {
	case ".safetensors", ".bin", ".h5", ".msgpack", ".onnx", ".pt", ".model", ".parquet":
		return true
	}
	return false
}

func blobID(b []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(b))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// pointer is what git keeps of a file in large file storage.
func pointer(b []byte) []byte {
	return fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sha(b), len(b))
}

// note records a request and returns the fault that concerns it, if any.
func (s *Server) note(r *http.Request, storage bool, name string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{Storage: storage, Method: r.Method, Path: r.URL.Path, Range: r.Header.Get("Range"), Authorized: r.Header.Get("Authorization") != ""})
	for _, f := range s.faults {
		method := f.Method
		if method == "" {
			method = http.MethodGet
		}
		if f.Storage != storage || f.Times == 0 || method != r.Method || !strings.Contains(r.URL.Path, f.Path) && !strings.Contains(name, f.Path) {
			continue
		}
		f.Times--
		found := *f
		return &found
	}
	return nil
}

// answer applies the part of a fault that replaces the answer; true: it did.
func (f *Fault) answer(w http.ResponseWriter, r *http.Request) bool {
	if f == nil {
		return false
	}
	select {
	case <-time.After(f.Pause):
	case <-r.Context().Done():
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	if f.Status == 0 {
		return false
	}
	maps.Copy(w.Header(), f.Header)
	w.WriteHeader(f.Status)
	w.Write([]byte(f.Body))
	return true
}

// content sends a file, as far as the fault lets it.
func (f *Fault) content(w http.ResponseWriter, r *http.Request, name string, b []byte) {
	if f != nil {
		if f.Corrupt && len(b) > 0 {
			b = bytes.Clone(b)
			b[len(b)-1] ^= 1
		}
		if f.NoRange {
			r.Header.Del("Range")
		}
		w = &faulty{ResponseWriter: w, f: f}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
}

type faulty struct {
	http.ResponseWriter
	f *Fault
	n int64
}

func (w *faulty) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		chunk := p[:min(len(p), 16<<10)]
		if w.f.Cut > 0 {
			if left := w.f.Cut - w.n; left <= 0 {
				w.ResponseWriter.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			} else if int64(len(chunk)) > left {
				chunk = chunk[:left]
			}
		}
		n, err := w.ResponseWriter.Write(chunk)
		written += n
		w.n += int64(n)
		if err != nil {
			return written, err
		}
		if w.f.Slow > 0 {
			w.ResponseWriter.(http.Flusher).Flush()
			time.Sleep(w.f.Slow)
		}
		p = p[n:]
	}
	return written, nil
}

func (s *Server) serveStorage(w http.ResponseWriter, r *http.Request) {
	f := s.note(r, true, r.URL.Query().Get("name"))
	if f.answer(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "" || r.URL.Query().Get("Signature") != "signed" || r.Method != http.MethodGet {
		http.Error(w, "signature does not match", http.StatusForbidden)
		return
	}
	b := s.find(path.Base(r.URL.Path))
	if b == nil {
		http.NotFound(w, r)
		return
	}
	// As object stores do, an ETag that is not the digest.
	w.Header().Set("ETag", `"`+sha(b)[:32]+`"`)
	f.content(w, r, "file", b)
}

func (s *Server) find(digest string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.repos {
		for _, files := range r.commits {
			for _, b := range files {
				if sha(b) == digest {
					return b
				}
			}
		}
	}
	return nil
}

func (s *Server) serveHub(w http.ResponseWriter, r *http.Request) {
	f := s.note(r, false, "")
	if f.answer(w, r) {
		return
	}
	rest, api := strings.CutPrefix(r.URL.EscapedPath(), "/api/")
	if api && rest == "models" {
		s.list(w, r)
		return
	}
	if api {
		rest = strings.TrimPrefix(rest, "models/")
	} else {
		rest = strings.TrimPrefix(rest, "/")
	}
	// Data sets are kept under their ids with "datasets/" before them.
	rest, dataset := strings.CutPrefix(rest, "datasets/")
	id, tail := splitID(rest)
	if dataset {
		id = "datasets/" + id
	}
	s.mu.Lock()
	repo, to := s.repos[id], s.renamed[id]
	if repo != nil { // as it is now: tests change it meanwhile
		now := *repo
		now.refs, now.commits = maps.Clone(repo.refs), maps.Clone(repo.commits)
		repo = &now
	}
	namesOnly := s.namesOnly
	s.mu.Unlock()
	if repo == nil && to != "" {
		prefix := "/"
		if api {
			prefix = "/api/models/"
			if dataset {
				prefix = "/api/"
			}
		}
		http.Redirect(w, r, prefix+to+tail+query(r.URL), http.StatusTemporaryRedirect)
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "unknown" {
		refuse(w, http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
		return
	}
	reader := repo != nil && slices.Contains(repo.Readers, token)
	if repo == nil || repo.Private && !reader {
		if token == "" {
			refuse(w, http.StatusUnauthorized, "RepoNotFound", "Invalid username or password.")
		} else {
			refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		}
		return
	}
	parts := strings.SplitN(strings.TrimPrefix(tail, "/"), "/", 3)
	rev := "main"
	if len(parts) > 1 {
		rev, _ = url.PathUnescape(parts[1])
	}
	commit := repo.refs[rev]
	if _, ok := repo.commits[rev]; ok {
		commit = rev
	}
	if commit == "" {
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+rev)
		return
	}
	files := repo.commits[commit]
	switch {
	case api && (parts[0] == "" || parts[0] == "revision"):
		sendJSON(w, modelInfo(repo, commit, r.URL.Query().Get("blobs") != "" && !namesOnly))
	case api && parts[0] == "tree":
		sendJSON(w, tree(files))
	case !api && parts[0] == "resolve" && len(parts) == 3:
		name, _ := url.PathUnescape(parts[2])
		f.resolve(w, r, s, repo, commit, name, reader)
	default:
		http.NotFound(w, r)
	}
}

func (f *Fault) resolve(w http.ResponseWriter, r *http.Request, s *Server, repo *Repo, commit, name string, reader bool) {
	h := w.Header()
	h.Set("X-Repo-Commit", commit)
	b, ok := repo.commits[commit][name]
	switch {
	case repo.Disabled:
		refuse(w, http.StatusForbidden, "", "Access to this resource is disabled.")
	case repo.Gated != "" && !reader:
		status := http.StatusUnauthorized
		if r.Header.Get("Authorization") != "" {
			status = http.StatusForbidden
		}
		refuse(w, status, "GatedRepo", "Access to model "+repo.ID+" is restricted.")
	case !ok:
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
	case large(name):
		h.Set("X-Linked-Etag", `"`+sha(b)+`"`)
		h.Set("X-Linked-Size", fmt.Sprint(len(b)))
		h.Set("ETag", `"`+blobID(pointer(b))+`"`)
		h.Set("Location", s.StorageURL+"/"+sha(b)+"?Signature=signed&name="+url.QueryEscape(name))
		w.WriteHeader(http.StatusFound)
	default:
		h.Set("ETag", `"`+blobID(b)+`"`)
		f.content(w, r, name, b)
	}
}

// splitID splits org/name/… or name/… of the escaped path of a request.
func splitID(rest string) (id, tail string) {
	verbs := []string{"revision", "resolve", "tree"}
	parts := strings.Split(rest, "/")
	n := min(2, len(parts))
	if len(parts) > 1 && slices.Contains(verbs, parts[1]) {
		n = 1
	}
	tail = strings.Join(parts[n:], "/")
	if tail != "" {
		tail = "/" + tail
	}
	return strings.Join(parts[:n], "/"), tail
}

func query(u *url.URL) string {
	if u.RawQuery == "" {
		return ""
	}
	return "?" + u.RawQuery
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.Header().Set("X-Error-Message", message)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": message})
}

func sendJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// cardData is what the Hub tells of a card: the YAML at its head as JSON. Its
// licence is among the tags too.
func cardData(readme []byte) (map[string]any, []string) {
	var card map[string]any
	if parts := bytes.SplitN(readme, []byte("---\n"), 3); len(parts) == 3 && len(parts[0]) == 0 {
		if err := yaml.Unmarshal(parts[1], &card); err != nil {
			panic(err)
		}
	}
	tags := []string{"pytorch", "da"}
	if licence, ok := card["license"].(string); ok {
		tags = append(tags, "license:"+licence)
	}
	return card, tags
}

// modelInfo is the answer of /api/models/ID/revision/REV.
func modelInfo(r *Repo, commit string, blobs bool) map[string]any {
	var gated any = false
	if r.Gated != "" {
		gated = r.Gated
	}
	files := r.commits[commit]
	var siblings []map[string]any
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b := files[name]
		x := map[string]any{"rfilename": name}
		if blobs {
			x["size"], x["blobId"] = len(b), blobID(b)
			if large(name) {
				p := pointer(b)
				x["blobId"] = blobID(p)
				x["lfs"] = map[string]any{"sha256": sha(b), "size": len(b), "pointerSize": len(p)}
			}
		}
		siblings = append(siblings, x)
	}
	card, tags := cardData(files["README.md"])
	tags, pipeline, created := r.told(tags)
	info := map[string]any{
		"_id": "0", "id": strings.TrimPrefix(r.ID, "datasets/"), "modelId": r.ID, "sha": commit, "private": r.Private, "disabled": r.Disabled, "gated": gated,
		"lastModified": "2026-01-02T03:04:05.000Z", "createdAt": created.Format("2006-01-02T15:04:05.000Z"), "downloads": max(1, r.Downloads), "likes": r.Likes,
		"tags": tags, "pipeline_tag": pipeline, "siblings": siblings,
	}
	if card != nil {
		info["cardData"] = card
	}
	return info
}

// tree is the answer of /api/models/ID/tree/REV?recursive=true.
func tree(files map[string][]byte) []map[string]any {
	out := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b := files[name]
		x := map[string]any{"type": "file", "path": name, "size": len(b), "oid": blobID(b)}
		if large(name) {
			p := pointer(b)
			x["oid"] = blobID(p)
			x["lfs"] = map[string]any{"oid": sha(b), "size": len(b), "pointerSize": len(p)}
		}
		out = append(out, x)
	}
	return out
}
