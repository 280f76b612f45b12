package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxListing bounds the answer of the Hub's API that is read into memory.
const maxListing = 64 << 20

// Resolve asks the Hub which commit a revision is, and what is in it.
func (c *Client) Resolve(ctx context.Context, id, revision string) (Info, error) {
	return c.resolve(ctx, c.fault(id, revision), "models")
}

// resolve asks the API for the kind of repository: models or datasets.
func (c *Client) resolve(ctx context.Context, e Error, kind string) (Info, error) {
	id, revision := e.Model, e.Revision
	if _, _, err := split(id+"@"+revision, e); err != nil {
		return Info{}, err
	}
	if c.Offline {
		e.Kind, e.Detail = OfflineMode, "the Hub may not be asked (HF_HUB_OFFLINE)"
		return Info{}, &e
	}
	u := c.Endpoint + "/api/" + kind + "/" + id + "/revision/" + url.PathEscape(revision) + "?blobs=true"
	var m struct {
		ID       string          `json:"id"`
		SHA      string          `json:"sha"`
		Private  bool            `json:"private"`
		Disabled bool            `json:"disabled"`
		Gated    json.RawMessage `json:"gated"` // false, "auto" or "manual"
		Tags     []string        `json:"tags"`
		Pipeline string          `json:"pipeline_tag"`
		Card     json.RawMessage `json:"cardData"`
		Siblings []struct {
			Name   string `json:"rfilename"`
			Size   *int64 `json:"size"`
			BlobID string `json:"blobId"`
			LFS    *struct {
				SHA256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	_, err := c.ask(ctx, e, u, &m, func() bool { return commitPattern.MatchString(m.SHA) && m.Siblings != nil })
	if err != nil {
		return Info{}, err
	}
	info := Info{ID: id, Revision: revision, Commit: m.SHA, Private: m.Private, Tags: m.Tags, PipelineTag: m.Pipeline, Licence: licence(m.Card, m.Tags)}
	json.Unmarshal(m.Gated, &info.Gated) // stays empty for false
	if m.Disabled {
		e.Kind, e.Detail = Disabled, "the Hub has switched it off"
		return Info{}, &e
	}
	if m.ID != "" && m.ID != id {
		info.RenamedTo = m.ID
		c.notice("it is called " + m.ID + " now")
	}
	for _, s := range m.Siblings {
		f := RemoteFile{Name: s.Name, Size: -1, BlobID: s.BlobID}
		if s.Size != nil {
			f.Size = *s.Size
		}
		if s.LFS != nil {
			f.Size, f.SHA256 = s.LFS.Size, s.LFS.SHA256
		}
		info.Files = append(info.Files, f)
	}
	return info, nil
}

// ask asks the API and reads its answer, JSON, into v; good says whether that can
// be a Hub's. What may pass is tried again: so is an answer that was cut off.
func (c *Client) ask(ctx context.Context, e Error, address string, v any, good func() bool) (answer *http.Response, err error) {
	err = c.retry(ctx, func(ctx context.Context) (bool, error) {
		r, err := c.send(ctx, e, http.MethodGet, address, 0)
		if err != nil {
			return false, err
		}
		defer r.close()
		text, err := io.ReadAll(io.LimitReader(r.Body, maxListing))
		if err != nil {
			return false, e.connection(err)
		}
		answer = r.Response
		err = json.Unmarshal(text, v)
		if err == nil && good() {
			return false, nil
		}
		not := e
		not.Kind, not.Detail, not.Err = NotAHub, "what answers is not a Hugging Face Hub", err
		if s, ok := errors.AsType[*json.SyntaxError](err); ok && len(text) > 0 && s.Offset == int64(len(text)) && (text[0] == '[' || text[0] == '{') {
			not.Kind, not.Detail, not.again = Truncated, "the Hub's answer is cut off", true
		}
		return false, &not
	})
	return answer, err
}

// response is the last of a chain of redirects, with what the Hub itself said
// on the way there.
type response struct {
	*http.Response
	commit string // X-Repo-Commit
	etag   string // of the content, normalised; "" if not told
	size   int64  // of the content; −1 if not told
	cancel context.CancelFunc
	stall  *time.Timer
}

func (r *response) close() {
	r.Body.Close()
	r.stall.Stop()
	r.cancel()
}

var errStalled = errors.New("the connection fell silent")

// send sends a request for the bytes from offset on and follows redirects. The
// token goes to the Hub's own host and to no other. A status ≥ 400 is an *Error. The body fails
// when it stays silent for too long.
func (c *Client) send(ctx context.Context, e Error, method, target string, offset int64) (*response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	quiet := cmp.Or(c.Stall, time.Minute)
	stall := time.AfterFunc(quiet, func() { cancel(errStalled) })
	out := &response{etag: "", size: -1, stall: stall, cancel: func() { cancel(nil) }}
	r, err := c.follow(ctx, e, method, target, offset, out)
	if err != nil {
		stall.Stop()
		cancel(nil)
		return nil, err
	}
	r.Body = &watched{ReadCloser: r.Body, ctx: ctx, timer: stall, quiet: quiet}
	out.Response = r
	return out, nil
}

func (c *Client) follow(ctx context.Context, e Error, method, target string, offset int64, out *response) (*http.Response, error) {
	home, err := url.Parse(c.Endpoint)
	if err != nil || home.Host == "" {
		e.Kind, e.Detail, e.Err = NotAHub, "HF_ENDPOINT is not an address", err
		return nil, &e
	}
	client := *transport
	if c.HTTP != nil {
		client = *c.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	for range 10 {
		req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("User-Agent", "bench")
		req.Header.Set("Accept-Encoding", "identity")
		if offset > 0 {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		}
		own := u.Scheme == home.Scheme && u.Host == home.Host
		if own && c.Token != "" {
			req.Header.Set("Authorization", "Bearer "+c.Token)
		}
		r, err := client.Do(req)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, e.connection(err)
		}
		if own {
			out.learn(r)
		}
		location := r.Header.Get("Location")
		if method == http.MethodHead && own && r.Header.Get("X-Linked-Etag") != "" {
			return r, nil // all is said; signed addresses of the storage are for GET only
		}
		if r.StatusCode/100 != 3 || location == "" {
			if r.StatusCode >= 400 {
				err := c.refused(e, r, own)
				r.Body.Close()
				return nil, err
			}
			return r, nil
		}
		io.Copy(io.Discard, io.LimitReader(r.Body, 4<<10)) // lets the connection be used again
		r.Body.Close()
		if u, err = u.Parse(location); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			e.Kind, e.Detail, e.Err = NotAHub, "the Hub redirects to something that is no web address", err
			return nil, &e
		}
	}
	e.Kind, e.Detail = NotAHub, "the Hub redirects in a circle"
	return nil, &e
}

// learn keeps what the Hub says about the content that it sends or refers to.
func (out *response) learn(r *http.Response) {
	out.commit = cmp.Or(r.Header.Get("X-Repo-Commit"), out.commit)
	out.etag = normalETag(cmp.Or(r.Header.Get("X-Linked-Etag"), r.Header.Get("ETag")))
	if n, err := strconv.ParseInt(r.Header.Get("X-Linked-Size"), 10, 64); err == nil {
		out.size = n
	} else if r.StatusCode == http.StatusOK {
		out.size = r.ContentLength
	}
}

// normalETag takes W/ and the quotation marks off.
func normalETag(s string) string { return strings.Trim(strings.TrimPrefix(s, "W/"), `"`) }

// watched is a body that moves the stall timer whenever bytes arrive.
type watched struct {
	io.ReadCloser
	ctx   context.Context
	timer *time.Timer
	quiet time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.timer.Reset(w.quiet)
	}
	if err != nil && err != io.EOF {
		if cause := context.Cause(w.ctx); cause != nil {
			err = cause
		}
	}
	return n, err
}

// connection is the error of a request that got no answer, or half of one.
func (e Error) connection(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the address, which may be signed
	}
	e.Kind, e.Detail, e.Err, e.again = Unreachable, "the Hub cannot be reached at "+e.endpoint, err, true
	return &e
}

// refused makes an Error of a status ≥ 400. own: it comes from the Hub itself
// and not from its storage.
func (c *Client) refused(e Error, r *http.Response, own bool) *Error {
	code, message := r.Header.Get("X-Error-Code"), printable(r.Header.Get("X-Error-Message"))
	e.Status = r.StatusCode
	set := func(k Kind, detail string) *Error {
		e.Kind, e.Detail = k, detail
		if message != "" && k != Disabled {
			e.Err = errors.New(message)
		}
		return &e
	}
	switch {
	case r.StatusCode == http.StatusTooManyRequests:
		e.again, e.retryAfter = true, retryAfter(r.Header, time.Now())
		return set(RateLimited, "too many requests")
	case r.StatusCode >= 500 || r.StatusCode == http.StatusRequestTimeout:
		e.again = true
		return set(Server, "the server has a fault")
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return set(Truncated, "the server has fewer bytes than we have")
	case !own:
		// Signed addresses expire; the next attempt gets a new one.
		e.again = true
		return set(Server, "the storage of the Hub refuses the file")
	case code == "GatedRepo":
		return set(Gated, "its owner's terms have to be accepted before it can be downloaded")
	case code == "RevisionNotFound":
		return set(NoRevision, "it has no such branch, tag or commit")
	case code == "EntryNotFound":
		return set(NoFile, "the repository has no such file")
	case message == "Access to this resource is disabled.":
		return set(Disabled, "the Hub has switched it off")
	case r.StatusCode == http.StatusUnauthorized && strings.HasPrefix(message, "Invalid credentials"):
		return set(BadToken, "the Hub does not accept the token")
	case code == "RepoNotFound" || r.StatusCode == http.StatusUnauthorized:
		// The Hub does not tell strangers whether a private repository exists.
		return set(NoModel, "there is no such "+e.noun()+" on the Hub, or it is private")
	case r.StatusCode == http.StatusForbidden:
		return set(Forbidden, "the Hub refuses access")
	case r.StatusCode == http.StatusNotFound && e.File != "":
		return set(NoFile, "the repository has no such file")
	case r.StatusCode == http.StatusNotFound:
		return set(NoModel, "there is no such "+e.noun()+" on the Hub, or it is private")
	}
	return set(Server, "the Hub does not take the request")
}

// printable makes what a server says fit for a terminal.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return s[:min(len(s), 300)]
}

// retryAfter reads Retry-After (seconds or a date) or, without one, the time to
// the next window in RateLimit (`"api";r=0;t=55`). 0: neither is there.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	for p := range strings.SplitSeq(h.Get("RateLimit"), ";") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(p), "t="); ok {
			if s, err := strconv.Atoi(v); err == nil && s >= 0 {
				return time.Duration(s) * time.Second
			}
		}
	}
	return 0
}

// retry calls try until it succeeds or its error is one that stays. A try that
// got further than the one before (progress) counts as the first.
func (c *Client) retry(ctx context.Context, try func(context.Context) (progress bool, err error)) error {
	pause := cmp.Or(c.Backoff, time.Second)
	first := pause
	for attempt := 1; ; attempt++ {
		progress, err := try(ctx)
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.again || ctx.Err() != nil {
			return err
		}
		if progress {
			attempt, pause = 1, first
		}
		last := cmp.Or(c.Attempts, 6)
		if e.Kind == Unreachable {
			last = (last + 1) / 2 // nobody is there: do not keep the user waiting
		}
		if attempt >= last {
			return err
		}
		wait := pause + rand.N(pause/4+1)
		pause = min(2*pause, 30*time.Second)
		if e.retryAfter > 0 {
			wait = max(e.retryAfter, wait)
			if wait > cmp.Or(c.MaxWait, 5*time.Minute) {
				e.Detail += fmt.Sprintf(": the Hub asks to wait for %v", e.retryAfter.Round(time.Second))
				return e
			}
			c.notice(fmt.Sprintf("the Hub asks to wait for %v", wait.Round(time.Second)))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}
