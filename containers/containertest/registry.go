package containertest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Registry is as much of an OCI registry as docker push and pull need.
type Registry struct {
	Host string // address and port, with which names of images begin
	// User and Password are asked for, if User is not "".
	User, Password string

	mu            sync.Mutex
	blobs         map[string][]byte
	manifests     map[string][]byte // by path, and by path and digest
	types         map[string]string
	uploads       map[string][]byte
	cut           int // bytes of the next blob of more than that; 0: none is cut
	cuts, resumed int
}

// StartRegistry starts a registry on the loopback interface, with which engines
// speak without TLS.
func StartRegistry(t testing.TB) *Registry {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Registry{Host: listener.Addr().String(), blobs: map[string][]byte{}, manifests: map[string][]byte{}, types: map[string]string{}, uploads: map[string][]byte{}}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: r}}
	server.Start()
	t.Cleanup(server.Close)
	return r
}

// CutAfter ends the connection after the first n bytes of the next blob that has
// more.
func (r *Registry) CutAfter(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = n
}

// Cuts is how many connections were cut, and how many blobs were asked for from
// somewhere in their middle.
func (r *Registry) Cuts() (cuts, resumed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cuts, r.resumed
}

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if user, password, ok := q.BasicAuth(); r.User != "" && (!ok || user != r.User || password != r.Password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	switch {
	case path == "":
	case strings.Contains(path, "/blobs/uploads/"):
		r.upload(w, q, body)
	case strings.Contains(path, "/blobs/"):
		r.blob(w, q, path[strings.LastIndex(path, "/")+1:])
	case strings.Contains(path, "/manifests/"):
		r.manifest(w, q, path, body)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (r *Registry) upload(w http.ResponseWriter, q *http.Request, body []byte) {
	id := q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:]
	if id == "" {
		id = fmt.Sprint(len(r.uploads))
		r.uploads[id] = nil
		w.Header().Set("Location", q.URL.Path+id)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	r.uploads[id] = append(r.uploads[id], body...)
	if q.Method == http.MethodPut {
		r.blobs[q.URL.Query().Get("digest")] = r.uploads[id]
		w.WriteHeader(http.StatusCreated)
		return
	}
	w.Header().Set("Location", q.URL.Path)
	w.Header().Set("Range", fmt.Sprintf("0-%d", len(r.uploads[id])-1))
	w.WriteHeader(http.StatusAccepted)
}

func (r *Registry) blob(w http.ResponseWriter, q *http.Request, digest string) {
	b, ok := r.blobs[digest]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if from := q.Header.Get("Range"); from != "" && from != "bytes=0-" {
		r.resumed++
	}
	if q.Method == http.MethodGet && r.cut > 0 && len(b) > r.cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b[:r.cut])
		r.cut = 0
		r.cuts++
		return // the server ends a connection over which less came than was announced
	}
	http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(b))
}

func (r *Registry) manifest(w http.ResponseWriter, q *http.Request, path string, body []byte) {
	repository, _, _ := strings.Cut(path, "/manifests/")
	if q.Method == http.MethodPut {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(body))
		for _, k := range []string{path, repository + "/manifests/" + digest} {
			r.manifests[k], r.types[k] = body, q.Header.Get("Content-Type")
		}
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
		return
	}
	b, ok := r.manifests[path]
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
		return
	}
	w.Header().Set("Content-Type", r.types[path])
	w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(b)))
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	if q.Method != http.MethodHead {
		w.Write(b)
	}
}
