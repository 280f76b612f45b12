package kubernetes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// fakeStore is an object store in memory with one bucket, "work". Like the real
// ones it lets nobody in whose request is not signed, or was signed for another
// method, object or time. (A real one, versitygw, goes through the same suite in
// TestRealContractStore.)
type fakeStore struct {
	t    *testing.T
	keys StoreKeys
	url  string

	mu      sync.Mutex
	objects map[string][]byte
	ahead   time.Duration // of its clock before ours
	// spoil may answer a request instead; it returns false to let it pass.
	spoil func(http.ResponseWriter, *http.Request) bool
	cut   int // answers that end half-way
}

func newFakeStore(t *testing.T) *fakeStore {
	s := &fakeStore{t: t, keys: StoreKeys{ID: "AKIDEXAMPLE", Secret: "very-secret"}, objects: map[string][]byte{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *fakeStore) refuse(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>`+reason+`</Code><Message>no</Message></Error>`)
}

// signed says whether the request is signed as bench signs, at a time that is
// still good.
func (s *fakeStore) signed(r *http.Request) bool {
	b := newBucket(Store{URL: "s3://work", Endpoint: s.url, Region: "eu-north-1"}, s.keys)
	login := aws.Credentials{AccessKeyID: s.keys.ID, SecretAccessKey: s.keys.Secret}
	q := r.URL.Query()
	at, err := time.Parse("20060102T150405Z", cmp.Or(q.Get("X-Amz-Date"), r.Header.Get("X-Amz-Date")))
	if err != nil {
		return false
	}
	for name := range q {
		if strings.HasPrefix(name, "X-Amz-") && name != "X-Amz-Expires" {
			q.Del(name)
		}
	}
	again, err := b.request(r.Context(), r.Method, strings.TrimPrefix(r.URL.Path, "/work/"), q, nil)
	if r.URL.Path == "/work" {
		again, err = b.request(r.Context(), r.Method, "", q, nil)
	}
	if err != nil {
		return false
	}
	age := time.Now().Add(s.ahead).Sub(at)
	if got := r.URL.Query().Get("X-Amz-Signature"); got != "" {
		life, _ := strconv.Atoi(q.Get("X-Amz-Expires"))
		want, _, err := b.sign.PresignHTTP(r.Context(), login, again, "UNSIGNED-PAYLOAD", "s3", "eu-north-1", at)
		if err != nil || age > time.Duration(life)*time.Second {
			return false
		}
		u, err := url.Parse(want)
		return err == nil && u.Query().Get("X-Amz-Signature") == got
	}
	sum := r.Header.Get("X-Amz-Content-Sha256")
	again.ContentLength = r.ContentLength
	again.Header.Set("X-Amz-Content-Sha256", sum)
	err = b.sign.SignHTTP(r.Context(), login, again, sum, "s3", "eu-north-1", at)
	return err == nil && again.Header.Get("Authorization") == r.Header.Get("Authorization")
}

func (s *fakeStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	name, inBucket := strings.CutPrefix(r.URL.Path, "/work/")
	switch {
	case err != nil || int64(len(body)) != r.ContentLength:
		s.refuse(w, 400, "IncompleteBody")
	case s.spoil != nil && s.spoil(w, r):
	case !inBucket && r.URL.Path != "/work":
		s.refuse(w, 404, "NoSuchBucket")
	case !s.signed(r):
		s.refuse(w, 403, "AccessDenied")
	case !inBucket:
		s.list(w, r)
	case r.Method == http.MethodPut:
		sum := sha256.Sum256(body)
		if said := r.Header.Get("X-Amz-Content-Sha256"); said != "" && said != hex.EncodeToString(sum[:]) {
			s.refuse(w, 400, "XAmzContentSHA256Mismatch")
			return
		}
		s.objects[name] = body
	case r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(204)
	case s.objects[name] == nil:
		s.refuse(w, 404, "NoSuchKey")
	default:
		text := s.objects[name]
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		if s.cut > 0 && r.Method == http.MethodGet && len(text) > 1 {
			s.cut--
			text = text[:len(text)/2]
		}
		w.Write(text)
	}
}

// list answers with pages of three.
func (s *fakeStore) list(w http.ResponseWriter, r *http.Request) {
	type content struct {
		Key  string
		Size int
	}
	var page struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Contents              []content
		IsTruncated           bool
		NextContinuationToken string
	}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(name, r.FormValue("prefix")) || name <= r.FormValue("continuation-token") {
			continue
		}
		if len(page.Contents) == 3 {
			page.IsTruncated, page.NextContinuationToken = true, page.Contents[2].Key
			break
		}
		page.Contents = append(page.Contents, content{name, len(s.objects[name])})
	}
	xml.NewEncoder(w).Encode(page)
}

// names lists what lies in the store.
func (s *fakeStore) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}
