package kubernetes

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"bench/runner"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Store is a place in an object store that speaks the protocol of Amazon S3.
type Store struct {
	URL      string `json:"url"`      // s3://BUCKET/PREFIX
	Endpoint string `json:"endpoint"` // http or https, as both this machine and pods reach it
	Region   string `json:"region"`
}

// StoreKeys are the login of a store.
type StoreKeys struct {
	ID, Secret string
	Session    string // of temporary keys; "": none
}

// bucket signs requests to a store (AWS Signature Version 4, addresses with the
// bucket in the path). Keys of objects are relative to the store's prefix.
type bucket struct {
	store Store
	keys  StoreKeys
	http  *http.Client
	sign  *v4.Signer
}

func newBucket(s Store, keys StoreKeys) *bucket {
	return &bucket{
		store: s, keys: keys, http: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: time.Minute, MaxIdleConnsPerHost: 8}},
		// S3 signs a path as it is sent.
		sign: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }),
	}
}

const (
	// partBytes bounds an object: bigger files are cut into several.
	partBytes = 64 << 20
	// urlLife is how long a presigned URL is good for: the longest there is.
	// One that was signed with temporary keys ends with them.
	urlLife = 7 * 24 * time.Hour
	// storeName is what people are told of.
	storeName = "the object store"
	// emptySum is the SHA-256 of nothing.
	emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// storeError is an answer of the store that is not the one hoped for.
type storeError struct {
	Code    int    // HTTP status
	Reason  string // NoSuchBucket, AccessDenied …; may be empty
	Message string
	asked   string
}

func (e *storeError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", e.asked, cmp.Or(e.Reason, http.StatusText(e.Code)), e.Message), ": ")
}

// split returns the bucket and the prefix of the store's URL.
func (s Store) split() (bucket, prefix string) {
	bucket, prefix, _ = strings.Cut(strings.TrimPrefix(s.URL, "s3://"), "/")
	return bucket, strings.Trim(prefix, "/")
}

// Check says what is wrong with the store's description.
func (s Store) Check() error {
	if b, _ := s.split(); !strings.HasPrefix(s.URL, "s3://") || b == "" || strings.ContainsAny(s.URL, "?#") {
		return fmt.Errorf("store: url %q is not s3://BUCKET/PREFIX", s.URL)
	}
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return fmt.Errorf("store: endpoint %q is not http://HOST:PORT or https://HOST", s.Endpoint)
	}
	return nil
}

// key is an object's own key in its bucket.
func (b *bucket) key(name string) string {
	if _, prefix := b.store.split(); prefix != "" {
		return prefix + "/" + name
	}
	return name
}

func (b *bucket) request(ctx context.Context, method, key string, query url.Values, body io.Reader) (*http.Request, error) {
	u, err := url.Parse(b.store.Endpoint)
	if err != nil {
		return nil, err
	}
	name, _ := b.store.split()
	u.Path = "/" + name
	if key != "" {
		u.Path += "/" + key
	}
	u.RawPath = escapePath(u.Path)
	u.RawQuery = query.Encode()
	return http.NewRequestWithContext(ctx, method, u.String(), body)
}

// escapePath escapes a path as signatures want it: more than package url does.
func escapePath(path string) string {
	var out strings.Builder
	for _, c := range []byte(path) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

func (b *bucket) login() (aws.Credentials, error) {
	if b.keys.ID == "" || b.keys.Secret == "" {
		return aws.Credentials{}, &runner.PreconditionError{What: "there is no login for the object store " + b.store.URL,
			Hint: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN with temporary keys)"}
	}
	return aws.Credentials{AccessKeyID: b.keys.ID, SecretAccessKey: b.keys.Secret, SessionToken: b.keys.Session}, nil
}

// presign makes a URL with which anybody may do one thing with one object, for
// urlLife.
func (b *bucket) presign(ctx context.Context, method, name string) (string, error) {
	login, err := b.login()
	if err != nil {
		return "", err
	}
	r, err := b.request(ctx, method, b.key(name), url.Values{"X-Amz-Expires": {strconv.Itoa(int(urlLife / time.Second))}}, nil)
	if err != nil {
		return "", err
	}
	u, _, err := b.sign.PresignHTTP(ctx, login, r, "UNSIGNED-PAYLOAD", "s3", b.store.Region, time.Now())
	return u, err
}

// do sends a request and returns a good answer. sum is the SHA-256 of body. The
// error is an *awayError if it may pass by itself.
func (b *bucket) do(ctx context.Context, method, key string, query url.Values, body io.Reader, size int64, sum string) (*http.Response, error) {
	login, err := b.login()
	if err != nil {
		return nil, err
	}
	r, err := b.request(ctx, method, key, query, body)
	if err != nil {
		return nil, err
	}
	r.ContentLength = size
	r.Header.Set("X-Amz-Content-Sha256", sum)
	if err := b.sign.SignHTTP(ctx, login, r, sum, "s3", b.store.Region, time.Now()); err != nil {
		return nil, err
	}
	res, err := b.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &awayError{err, storeName}
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	e := &storeError{Code: res.StatusCode, asked: method + " " + r.URL.Path}
	var said struct{ Code, Message string }
	if text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)); xml.Unmarshal(text, &said) == nil {
		e.Reason, e.Message = said.Code, said.Message
	}
	if e.Code >= 500 || e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout {
		return nil, &awayError{e, storeName}
	}
	return nil, e
}

// get opens an object; fs.ErrNotExist is a *storeError with Code 404 here.
func (b *bucket) get(ctx context.Context, name string) (io.ReadCloser, error) {
	res, err := b.do(ctx, http.MethodGet, b.key(name), nil, nil, 0, emptySum)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// size is that of an object; -1 if it is not there.
func (b *bucket) size(ctx context.Context, name string) (int64, error) {
	res, err := b.do(ctx, http.MethodHead, b.key(name), nil, nil, 0, emptySum)
	if e, ok := errors.AsType[*storeError](err); ok && e.Code == http.StatusNotFound {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	res.Body.Close()
	return res.ContentLength, nil
}

// put writes an object: whole or not at all, as the store checks its sum.
func (b *bucket) put(ctx context.Context, name string, body io.Reader, size int64, sum [32]byte) error {
	if size == 0 {
		body = nil
	}
	res, err := b.do(ctx, http.MethodPut, b.key(name), nil, body, size, hex.EncodeToString(sum[:]))
	if err == nil {
		res.Body.Close()
	}
	return err
}

// object is an entry of a listing.
type object struct {
	Name string // relative to the store's prefix
	Size int64
}

// list returns the objects whose names begin with prefix, by name.
func (b *bucket) list(ctx context.Context, prefix string) ([]object, error) {
	var all []object
	query := url.Values{"list-type": {"2"}, "prefix": {b.key(prefix)}}
	cut := len(b.key(""))
	for {
		res, err := b.do(ctx, http.MethodGet, "", query, nil, 0, emptySum)
		if err != nil {
			return nil, err
		}
		var page struct {
			Contents []struct {
				Key  string
				Size int64
			}
			IsTruncated           bool
			NextContinuationToken string
		}
		err = xml.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&page)
		res.Body.Close()
		if err != nil {
			return nil, &awayError{fmt.Errorf("list of %s: %w", prefix, err), storeName}
		}
		for _, o := range page.Contents {
			if len(o.Key) > cut {
				all = append(all, object{o.Key[cut:], o.Size})
			}
		}
		if !page.IsTruncated || page.NextContinuationToken == "" {
			return all, nil
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

// remove removes an object; one that is not there is fine.
func (b *bucket) remove(ctx context.Context, name string) error {
	res, err := b.do(ctx, http.MethodDelete, b.key(name), nil, nil, 0, emptySum)
	if e, ok := errors.AsType[*storeError](err); ok && e.Code == http.StatusNotFound {
		return nil
	}
	if err == nil {
		res.Body.Close()
	}
	return err
}

// precondition turns errors that the user can do something about into
// *runner.PreconditionError.
func (b *bucket) precondition(err error) error {
	if away, ok := errors.AsType[*awayError](err); ok {
		return &runner.PreconditionError{What: "the object store " + b.store.Endpoint + " does not answer", Hint: "see that endpoint: in store: is its address", Err: away.err}
	}
	e, ok := errors.AsType[*storeError](err)
	if !ok {
		return err
	}
	name, _ := b.store.split()
	what, hint := "the object store refuses this", "mend what the message names in store:"
	switch {
	case e.Reason == "NoSuchBucket" || e.Code == http.StatusNotFound:
		what, hint = fmt.Sprintf("the object store %s has no bucket %s", b.store.Endpoint, name), "make it, or name another with store: {url: s3://BUCKET/PREFIX}"
	case e.Code == http.StatusForbidden || e.Code == http.StatusUnauthorized:
		what, hint = fmt.Sprintf("the object store does not let you list, read, write and remove objects in bucket %s", name), "see that AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are a login of "+b.store.Endpoint+" that may, and that region: in store: and the clock are right"
	}
	return &runner.PreconditionError{What: what, Hint: hint, Err: e}
}
