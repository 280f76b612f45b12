package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"bench/internal/atomicfile"
)

// A download lives in Dir under the SHA-256 of its URL, as a family of files:
//
//	KEY            the whole file, put there by rename
//	KEY.json       what it is (stored); without it KEY does not count
//	KEY.part       the first bytes of a download that was cut off
//	KEY.part.json  what they belong to (stored), so that they can be continued
//	KEY.lock       held while a process works on any of these
type slot struct{ path string }

func (f *Fetcher) slot(url string) slot {
	sum := sha256.Sum256([]byte(url))
	key := hex.EncodeToString(sum[:])
	return slot{filepath.Join(f.Dir, key[:2], key)}
}

// stored describes a whole or partial download.
type stored struct {
	URL          string `json:"url"`
	SHA256       string `json:"sha256,omitempty"`
	Bytes        int64  `json:"bytes,omitempty"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// validator returns what If-Range can be asked with, or "". A weak ETag does
// not promise equal bytes.
func (d stored) validator() string {
	if d.ETag != "" && !strings.HasPrefix(d.ETag, "W/") {
		return d.ETag
	}
	return d.LastModified
}

func readStored(path string) (stored, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return stored{}, false
	}
	var d stored
	return d, json.Unmarshal(b, &d) == nil
}

func (d stored) write(path string) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, append(b, '\n'))
}

func (f *Fetcher) download(ctx context.Context, s Source) (File, error) {
	at := f.slot(s.URL)
	offline := &Error{Kind: Offline, URL: s.URL, Detail: "the file was not downloaded before" + f.notInMirror() + ", and the network may not be used"}
	if _, ok := readStored(at.path + ".json"); f.Offline && !ok {
		return File{}, offline
	}
	if err := os.MkdirAll(filepath.Dir(at.path), 0o777); err != nil {
		return File{}, writeError(s.URL, err)
	}
	// To be written, though nobody does: on NFS nothing else can be locked.
	lock := flock.New(at.path+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o666))
	if _, err := lock.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return File{}, ctx.Err()
		}
		return File{}, writeError(s.URL, err)
	}
	defer lock.Unlock()

	if d, ok := readStored(at.path + ".json"); ok && d.URL == s.URL {
		sum, err := sumFile(at.path)
		if err == nil && sum.sha256 == d.SHA256 && sum.check(s) == nil {
			return File{Path: at.path, URL: s.URL, SHA256: sum.sha256, Bytes: sum.bytes, Origin: FromCache}, nil
		}
		f.log().Warn("downloaded file is not what it was: getting it again", "url", s.URL, "file", at.path)
	}
	if f.Offline {
		return File{}, offline
	}
	sum, err := f.retry(ctx, s, at)
	if err != nil {
		return File{}, err
	}
	d, _ := readStored(at.path + ".part.json")
	d.URL, d.SHA256, d.Bytes = s.URL, sum.sha256, sum.bytes
	if err := os.Rename(at.path+".part", at.path); err != nil {
		return File{}, writeError(s.URL, err)
	}
	if err := d.write(at.path + ".json"); err != nil {
		return File{}, writeError(s.URL, err)
	}
	os.Remove(at.path + ".part.json")
	return File{Path: at.path, URL: s.URL, SHA256: sum.sha256, Bytes: sum.bytes, Origin: FromNetwork}, nil
}

// retry downloads s to at.path+".part" and checks it.
func (f *Fetcher) retry(ctx context.Context, s Source, at slot) (sums, error) {
	tries, pause := f.Tries, f.Pause
	if tries <= 0 {
		tries = 5
	}
	if pause <= 0 {
		pause = time.Second
	}
	for try := 1; ; try++ {
		resumed, err := f.attempt(ctx, s, at)
		if err == nil {
			sum, err := sumFile(at.path + ".part")
			if err != nil {
				return sums{}, writeError(s.URL, err)
			}
			if err := sum.check(s); err != nil {
				discard(at)
				if resumed && try < tries {
					// The two ends may be of two versions: a server can keep its
					// validator when it should not.
					f.log().Warn("resumed download does not fit together: starting again", "url", s.URL)
					continue
				}
				return sums{}, err
			}
			return sum, nil
		}
		if ctx.Err() != nil {
			return sums{}, ctx.Err()
		}
		var passing *transient
		if !errors.As(err, &passing) {
			return sums{}, err
		}
		if try == tries || passing.cause.Kind == Offline && try == 2 {
			// Where no server is reached, more attempts only keep a person waiting.
			passing.cause.Detail += fmt.Sprintf(" (%d attempts)", try)
			return sums{}, passing.cause
		}
		wait := max(pause<<(try-1), passing.after)
		f.log().Info("download interrupted: trying again", "url", s.URL, "why", passing.cause.Detail, "in", wait)
		select {
		case <-ctx.Done():
			return sums{}, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// transient is an error that may pass.
type transient struct {
	cause *Error
	after time.Duration // what the server asks to wait
}

func (t *transient) Error() string { return t.cause.Error() }
func (t *transient) Unwrap() error { return t.cause }

// attempt makes one request and appends to the part file, or starts it anew.
// resumed says that bytes of an earlier attempt are in it.
func (f *Fetcher) attempt(ctx context.Context, s Source, at slot) (resumed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return false, &Error{Kind: Missing, URL: s.URL, Detail: err.Error(), Err: err}
	}
	// Else a compressed transfer would make sizes and ranges mean something else.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "bench")
	have := int64(0)
	if d, ok := readStored(at.path + ".part.json"); ok && d.URL == s.URL && d.validator() != "" {
		if info, err := os.Stat(at.path + ".part"); err == nil && info.Size() > 0 {
			have = info.Size()
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
			req.Header.Set("If-Range", d.validator())
		}
	}

	stall := f.Stall
	if stall <= 0 {
		stall = time.Minute
	}
	watch := time.AfterFunc(stall, cancel)
	defer watch.Stop()
	client := f.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, &transient{cause: &Error{Kind: Offline, URL: s.URL, Detail: "the server cannot be reached" + f.notInMirror() + ": " + reason(err), Err: err}}
	}
	defer resp.Body.Close()

	total := int64(0)
	switch {
	case resp.StatusCode == http.StatusOK:
		have = 0
		total = max(resp.ContentLength, 0)
	case resp.StatusCode == http.StatusPartialContent && have > 0:
		start, size, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || start != have {
			discard(at)
			return false, &transient{cause: &Error{Kind: Unavailable, URL: s.URL, Detail: fmt.Sprintf("the server answered a request for byte %d on with Content-Range %q", have, resp.Header.Get("Content-Range"))}}
		}
		total = size
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && have > 0:
		discard(at)
		return false, &transient{cause: &Error{Kind: Unavailable, URL: s.URL, Detail: "the server has fewer bytes than were downloaded before"}}
	default:
		return false, f.statusError(s, resp)
	}
	if have == 0 {
		d := stored{URL: s.URL, ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")}
		if err := d.write(at.path + ".part.json"); err != nil {
			return false, writeError(s.URL, err)
		}
	}
	n, err := f.body(s, at, resp.Body, have, total, watch, stall)
	if err != nil {
		return false, err
	}
	if total > 0 && n != total {
		return false, &transient{cause: &Error{Kind: Truncated, URL: s.URL, Detail: fmt.Sprintf("the download ended after %d of %d bytes", n, total)}}
	}
	return have > 0, nil
}

// body copies r to the part file from byte have on, and returns its new size.
func (f *Fetcher) body(s Source, at slot, r io.Reader, have, total int64, watch *time.Timer, stall time.Duration) (int64, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if have == 0 {
		flags |= os.O_TRUNC
	}
	out, err := os.OpenFile(at.path+".part", flags, 0o666)
	if err != nil {
		return 0, writeError(s.URL, err)
	}
	defer out.Close()
	full := func(err error) (int64, error) {
		if DiskFull(err) {
			discard(at) // holding on to it would leave no room for anything else
		}
		return 0, writeError(s.URL, err)
	}
	buf := make([]byte, 256<<10)
	for n := have; ; {
		k, readErr := r.Read(buf)
		watch.Reset(stall)
		if k > 0 {
			if _, err := out.Write(buf[:k]); err != nil {
				return full(err)
			}
			n += int64(k)
			if f.Progress != nil {
				f.Progress(s.URL, n, total)
			}
		}
		if readErr == nil {
			continue
		}
		if err := out.Sync(); err != nil {
			return full(err)
		}
		if readErr != io.EOF {
			of := ""
			if total > 0 {
				of = fmt.Sprintf(" of %d", total)
			}
			return 0, &transient{cause: &Error{Kind: Truncated, URL: s.URL, Detail: fmt.Sprintf("the connection broke after %d%s bytes: %s", n, of, reason(readErr)), Err: readErr}}
		}
		return n, nil
	}
}

// statusError turns an answer without the file into an error.
func (f *Fetcher) statusError(s Source, resp *http.Response) error {
	e := &Error{URL: s.URL, Kind: Unavailable, Detail: "the server answered " + resp.Status}
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound || code == http.StatusGone:
		e.Kind = Missing
		e.Detail += f.notInMirror()
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e.Kind = Denied
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		t := &transient{cause: e}
		if sec, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && sec > 0 {
			t.after = min(time.Duration(sec)*time.Second, 2*time.Minute)
		}
		return t
	}
	return e
}

func (f *Fetcher) notInMirror() string {
	if f.Mirror == nil {
		return ""
	}
	return " (nor does the mirror " + f.Mirror.Dir + " have it)"
}

func (f *Fetcher) log() *slog.Logger {
	if f.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return f.Log
}

// contentRange reads "bytes START-END/SIZE"; size is 0 if it says "*".
func contentRange(h string) (start, size int64, ok bool) {
	span, total, ok := strings.Cut(strings.TrimPrefix(h, "bytes "), "/")
	first, _, ok2 := strings.Cut(span, "-")
	start, err := strconv.ParseInt(first, 10, 64)
	if !ok || !ok2 || err != nil {
		return 0, 0, false
	}
	if total == "*" {
		return start, 0, true
	}
	size, err = strconv.ParseInt(total, 10, 64)
	return start, size, err == nil
}

// reason is what a person wants to know of a transport error, without the URL
// that is named anyhow.
func reason(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return dns.Error()
	case errors.As(err, &op):
		return op.Error()
	case errors.Is(err, context.Canceled):
		return "nothing came for too long"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it was closed by the server"
	}
	return err.Error()
}

func writeError(url string, err error) error {
	if DiskFull(err) {
		return &Error{Kind: NoSpace, URL: url, Detail: "no room for the download: " + err.Error(), Err: err}
	}
	return &Error{Kind: Unreadable, URL: url, Detail: err.Error(), Err: err}
}

func discard(at slot) {
	os.Remove(at.path + ".part")
	os.Remove(at.path + ".part.json")
}
