package containers_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bench/containers"
)

// registry is as much of an OCI registry as docker push and pull need, with
// basic authentication.
type registry struct {
	mu        sync.Mutex
	blobs     map[string][]byte
	manifests map[string][]byte
	types     map[string]string
	uploads   map[string][]byte
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if user, password, ok := q.BasicAuth(); !ok || user != "ann" || password != "pa:ss" {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	digest := func(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	switch {
	case path == "":
	case strings.HasSuffix(path, "/blobs/uploads/"):
		id := fmt.Sprint(len(r.uploads))
		r.uploads[id] = nil
		w.Header().Set("Location", q.URL.Path+id)
		w.WriteHeader(http.StatusAccepted)
	case strings.Contains(path, "/blobs/uploads/"):
		id := path[strings.LastIndex(path, "/")+1:]
		r.uploads[id] = append(r.uploads[id], body...)
		if q.Method == http.MethodPut {
			r.blobs[q.URL.Query().Get("digest")] = r.uploads[id]
			w.WriteHeader(http.StatusCreated)
			return
		}
		w.Header().Set("Location", q.URL.Path)
		w.Header().Set("Range", fmt.Sprintf("0-%d", len(r.uploads[id])-1))
		w.WriteHeader(http.StatusAccepted)
	case strings.Contains(path, "/blobs/"):
		b, ok := r.blobs[path[strings.LastIndex(path, "/")+1:]]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b)
	case strings.Contains(path, "/manifests/"):
		ref := path[strings.LastIndex(path, "/")+1:]
		if q.Method == http.MethodPut {
			for _, k := range []string{ref, digest(body)} {
				r.manifests[k], r.types[k] = body, q.Header.Get("Content-Type")
			}
			w.Header().Set("Docker-Content-Digest", digest(body))
			w.WriteHeader(http.StatusCreated)
			return
		}
		b, ok := r.manifests[ref]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", r.types[ref])
		w.Header().Set("Docker-Content-Digest", digest(b))
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		if q.Method != http.MethodHead {
			w.Write(b)
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// An image goes to a registry and comes back, with the login of the docker
// command, from its file and from a credential helper.
func TestEngineRegistry(t *testing.T) {
	l := newLab(t)
	// 127.0.0.0/8 needs no TLS for any engine.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: &registry{
		blobs: map[string][]byte{}, manifests: map[string][]byte{}, types: map[string]string{}, uploads: map[string][]byte{}}}}
	server.Start()
	t.Cleanup(server.Close)
	host := listener.Addr().String()
	ref := host + "/bench/trainer:" + l.instance
	if err := l.e.Tag(t.Context(), l.image, ref); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.e.RemoveImage(ctx, ref); err != nil {
			t.Error(err)
		}
	})
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	if err := l.e.Push(t.Context(), ref, nil); !containers.IsKind(err, containers.Registry) || strings.Contains(err.Error(), "pa:ss") {
		t.Errorf("Push without a login: %v", err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(config, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	login := base64.StdEncoding.EncodeToString([]byte("ann:pa:ss"))
	write("config.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, login), 0o600)
	var progress bytes.Buffer
	if err := l.e.Push(t.Context(), ref, &progress); err != nil || !strings.Contains(progress.String(), "Pushed") {
		t.Fatalf("Push: %v\n%s", err, progress.String())
	}
	before, err := l.e.Image(t.Context(), ref)
	if err != nil || len(before.Digests) != 1 {
		t.Errorf("pushed image: %+v, %v", before, err)
	}
	if err := l.e.RemoveImage(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	// Now the login comes from a helper.
	write("config.json", `{"credsStore":"benchtest"}`, 0o600)
	write("docker-credential-benchtest", "#!/bin/sh\nread r\n[ \"$r\" = "+host+" ] && echo '{\"Username\":\"ann\",\"Secret\":\"pa:ss\"}' || { echo credentials not found in native keychain; exit 1; }\n", 0o755)
	t.Setenv("PATH", config+":"+os.Getenv("PATH"))
	after, err := l.e.Ensure(t.Context(), ref, nil)
	if err != nil || after.ID != before.ID {
		t.Errorf("pulled image: %+v, %v", after, err)
	}
	if err := l.e.Pull(t.Context(), host+"/bench/trainer:none", nil); !containers.IsKind(err, containers.Registry) {
		t.Errorf("Pull of a tag that is not there: %v", err)
	}
	write("config.json", `{"auths": pa:ss`, 0o600)
	if err := l.e.Pull(t.Context(), ref, nil); err == nil || strings.Contains(err.Error(), "pa:ss") || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a config that is no JSON: %v", err)
	}
}
