// Package hub gets models and data sets from the Hugging Face Hub into the cache
// that the official client uses, so that both share downloads (data sets are in
// datasets--org--name):
//
//	CACHE/models--org--name/refs/REVISION          text: the commit
//	CACHE/models--org--name/blobs/ETAG             the bytes
//	CACHE/models--org--name/snapshots/COMMIT/FILE  relative link to the blob
//	CACHE/.locks/models--org--name/ETAG.lock
//
// Everything is checked: large files against the SHA-256 that the Hub
// announces, small ones against their git blob id. Of a repository only what a
// trainer needs is taken. The package also looks over model folders that are on
// this machine already (Local).
package hub

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Client talks to a Hub. The zero Client is of no use: start from FromEnv.
type Client struct {
	Endpoint string // such as https://huggingface.co, without a slash at the end
	// Token is sent to the host of Endpoint and to no other; empty: none.
	Token string
	Cache string // folder of models--org--name
	// Offline: the cache must do.
	Offline bool
	// Notice tells a person what happens meanwhile: a model was renamed, the
	// Hub asks to wait. The text does not name the model. May be nil; may be called from several goroutines.
	Notice func(string)
	// Attempts is the number of times that a request is tried when the fault
	// may pass; 0: 6.
	Attempts int
	// Backoff is the first pause between attempts; each is twice as long as the
	// one before, up to 30 s. 0: 1 s.
	Backoff time.Duration
	// MaxWait bounds a pause that the Hub asks for (HTTP 429); 0: 5 minutes.
	MaxWait time.Duration
	// Stall is how long a connection may stay silent; 0: 1 minute.
	Stall time.Duration
	// Parallel is the number of files that are downloaded at the same time;
	// 0: 4.
	Parallel int
	// HTTP sends the requests; nil: a client of our own that heeds HTTPS_PROXY.
	HTTP *http.Client
}

// DefaultEndpoint is the public Hub.
const DefaultEndpoint = "https://huggingface.co"

// FromEnv makes a client from the variables of the official client: HF_ENDPOINT,
// HF_TOKEN, HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_HOME, HF_HUB_CACHE,
// XDG_CACHE_HOME, HF_HUB_OFFLINE, and their older names. getenv is os.Getenv; home
// is the user's home folder.
func FromEnv(getenv func(string) string, home string) *Client {
	first := func(names ...string) string {
		for _, n := range names {
			if v := getenv(n); v != "" {
				return expand(v, getenv, home)
			}
		}
		return ""
	}
	hfHome := cmp.Or(first("HF_HOME"), filepath.Join(cmp.Or(first("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "huggingface"))
	c := &Client{
		Endpoint: strings.TrimRight(cmp.Or(first("HF_ENDPOINT"), DefaultEndpoint), "/"),
		Cache:    cmp.Or(first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"), filepath.Join(hfHome, "hub")),
		Offline:  isTrue(cmp.Or(getenv("HF_HUB_OFFLINE"), getenv("TRANSFORMERS_OFFLINE"))),
		Token:    strings.TrimSpace(cmp.Or(getenv("HF_TOKEN"), getenv("HUGGING_FACE_HUB_TOKEN"))),
	}
	if c.Token == "" && !isTrue(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		if b, err := os.ReadFile(cmp.Or(first("HF_TOKEN_PATH"), filepath.Join(hfHome, "token"))); err == nil {
			c.Token = strings.TrimSpace(string(b))
		}
	}
	return c
}

func isTrue(v string) bool {
	switch strings.ToUpper(v) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// expand does what the official client does with paths: ~ and $NAME.
func expand(v string, getenv func(string) string, home string) string {
	v = os.Expand(v, getenv)
	if v == "~" || strings.HasPrefix(v, "~/") {
		v = home + v[1:]
	}
	return v
}

// Info is what the Hub says about a model at one commit.
type Info struct {
	ID          string // as asked for; the cache uses this name
	RenamedTo   string // its name today, if that is another
	Revision    string // as asked for: branch, tag or commit
	Commit      string // 40 hexadecimal digits
	Files       []RemoteFile
	Gated       string // "", auto or manual
	Private     bool
	Tags        []string
	PipelineTag string
	// Licence as the model's card has it, such as mit or apache-2.0; "": it has none.
	Licence string
}

// RemoteFile is a file of a repository.
type RemoteFile struct {
	Name   string // with slashes
	Size   int64  // −1: not told
	BlobID string // git blob id; may be empty
	SHA256 string // of a file in large file storage; else empty
}

// etag names the content, and the blob in the cache.
func (f RemoteFile) etag() string { return cmp.Or(f.SHA256, f.BlobID) }

// Snapshot is a model on this machine, complete as far as a trainer needs it.
type Snapshot struct {
	ID       string   // as asked for, or the path
	Revision string   // commit, or the digest of a local folder
	Path     string   // folder of the files
	Files    []string // those that were chosen, sorted; names relative to Path
	Bytes    int64    // sum of their sizes
	Weights  []string // those of Files that are weights
	// Pickle: the weights are in a format that can carry code. They must be
	// loaded in a sandbox only, and as nothing but weights.
	Pickle bool
	// RemoteCodeNeeded: config.json or tokenizer_config.json refers to code in
	// the repository (auto_map). Whether transformers can do without is for the
	// trainer to find out.
	RemoteCodeNeeded bool
	// CodeElsewhere names other repositories that auto_map takes code from;
	// those are not downloaded.
	CodeElsewhere []string
	RenamedTo     string // see Info
	// Unchecked: the Hub could not be asked what the revision is today, so the
	// commit is the one that the cache remembers.
	Unchecked bool
	// Licence as the Hub tells it (see Info), or, when it was not asked, as the head
	// of README.md names it; "": neither is there.
	Licence string
}

// Options choose what to take.
type Options struct {
	// RemoteCode: also the Python files.
	RemoteCode bool
	// SkipWeights: config and tokenizer only, for random weights.
	SkipWeights bool
	// Progress is told the bytes that are here and those that will be, now and
	// then, never by two goroutines at a time. May be nil.
	Progress func(done, total int64)
}

var (
	idPattern     = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*/)?[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// SplitName splits org/name@revision. Without a revision it is main.
func SplitName(name string) (id, revision string, err error) {
	return split(name, Error{endpoint: DefaultEndpoint})
}

func split(name string, e Error) (id, revision string, err error) {
	id, revision, given := strings.Cut(name, "@")
	bad := func(detail string) (string, string, error) {
		e.Kind, e.Model, e.Revision, e.Detail = BadName, name, "", detail
		return "", "", &e
	}
	switch {
	case !idPattern.MatchString(id) || len(id) > 96 || strings.Contains(id, "--") || strings.Contains(id, "..") ||
		strings.HasSuffix(id, ".git") || strings.HasSuffix(id, ".") || strings.HasSuffix(id, "-"):
		return bad("this is not the name of a " + e.noun() + " on the Hub")
	case given && !validRevision(revision):
		return bad("what follows the @ is not a branch, tag or commit")
	}
	return id, cmp.Or(revision, "main"), nil
}

// validRevision keeps out what could leave the cache's refs folder.
func validRevision(r string) bool {
	if r == "" || len(r) > 255 || strings.ContainsAny(r, "\\ \t\n\r\x00:?*[~^") {
		return false
	}
	for part := range strings.SplitSeq(r, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// Get returns a model, from the Hub or, where that is as good, from the cache:
// a commit that is there already needs no request at all. When the Hub cannot be
// reached, what the cache remembers of the revision is taken, and said so.
func (c *Client) Get(ctx context.Context, id, revision string, o Options) (Snapshot, error) {
	f, err := c.Find(ctx, id, revision, o)
	if err != nil {
		return Snapshot{}, err
	}
	if f.Cached != nil {
		return *f.Cached, nil
	}
	return c.Download(ctx, f.Info, o)
}

// Found is a model at a commit.
type Found struct {
	Info             // to be downloaded with Client.Download; if Cached is set, its ID, Commit and Licence alone
	Cached *Snapshot // nil: not all that is needed is in the cache, or it was not looked for
}

// Find says which commit a revision is, and whether it is to be downloaded. If
// the Hub cannot be reached, what the cache has of the revision is taken, with a
// Notice.
func (c *Client) Find(ctx context.Context, id, revision string, o Options) (Found, error) {
	s, unchecked, info, err := locate(c, revision, func() (Snapshot, error) { return c.Cached(id, revision, o) }, func() (Info, error) { return c.Resolve(ctx, id, revision) })
	if err != nil || s == nil {
		return Found{Info: info}, err
	}
	if s.Unchecked = unchecked; unchecked {
		c.noticeUnchecked(s.Revision)
	}
	return Found{Info: Info{ID: id, Commit: s.Revision, Licence: s.Licence}, Cached: s}, nil
}

// locate decides between cache and Hub, for models and data sets alike: a commit
// that is in the cache is not asked for, nor is anything when Offline, and if the
// Hub cannot be reached, what the cache has of the revision is taken unchecked.
// What is not taken from the cache is nil and has an Info.
func locate[S any](c *Client, revision string, cached func() (S, error), resolve func() (Info, error)) (s *S, unchecked bool, info Info, err error) {
	if c.Offline || commitPattern.MatchString(revision) {
		got, err := cached()
		if err == nil {
			return &got, false, Info{}, nil
		}
		if c.Offline {
			return nil, false, Info{}, err
		}
	}
	info, err = resolve()
	if errors.Is(err, &Error{Kind: Unreachable}) {
		if got, cacheErr := cached(); cacheErr == nil {
			return &got, true, Info{}, nil
		}
	}
	return nil, false, info, err
}

func (c *Client) noticeUnchecked(commit string) {
	c.notice("the Hub cannot be reached; commit " + commit + " is taken from the cache")
}

func (c *Client) notice(text string) {
	if c.Notice != nil {
		c.Notice(text)
	}
}

func (c *Client) fault(id, revision string) Error {
	return Error{Model: id, Revision: revision, endpoint: c.Endpoint, hadToken: c.Token != ""}
}

// transport is shared by clients that bring none of their own.
var transport = &http.Client{Transport: &http.Transport{
	Proxy:                 http.ProxyFromEnvironment,
	DialContext:           (&net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
	TLSHandshakeTimeout:   20 * time.Second,
	ResponseHeaderTimeout: time.Minute,
	IdleConnTimeout:       30 * time.Second,
	MaxIdleConnsPerHost:   8,
	ForceAttemptHTTP2:     true,
	DisableCompression:    true, // sizes and ranges are those of the files
}}
