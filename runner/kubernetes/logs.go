package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"time"

	"bench/runner/kept"
)

// copier copies a pod's log to the batch's folder. Kubernetes gives stdout and
// stderr as one stream of lines: those that are events of the trainer protocol
// go to the events, all others to the log.
type copier struct {
	pod         string
	c           *cluster
	events, log *kept.Log

	// To go on after a connection was cut, the log is asked for from a whole
	// second on, and what is copied already is left out. Times of lines are not
	// in order: runtimes take them for stdout and stderr apart, and on a busy
	// machine late.
	since  time.Time      // lateLines before that of the latest line; zero: none yet
	recent []copied       // lines that are not before since
	again  map[uint64]int // how often lines may come that are copied already
	left   bool           // the latest line was left out

	cancel  context.CancelFunc
	stopped chan struct{}
}

// copied is a line that is copied.
type copied struct {
	at  time.Time
	sum uint64 // of the line with its time
}

// lateLines is how much earlier than one before it a line may claim to be.
const lateLines = 5 * time.Second

var lineSeed = maphash.MakeSeed()

// copyLog begins to copy the log of a pod, after those of the pods before it.
func (h *handle) copyLog(pod string) (*copier, error) {
	if h.r.Pod != pod {
		h.mu.Lock()
		if h.r.Pod != "" {
			h.r.LogFrom, h.r.EventsFrom = kept.Size(h.d.Log()), kept.Size(h.d.Events())
		}
		h.r.Pod = pod
		h.mu.Unlock()
		if err := h.save(); err != nil {
			return nil, err
		}
	}
	// An earlier watcher copied the same lines: from the beginning, over them.
	events, err := kept.OpenLog(h.d.Events(), h.r.EventsFrom, kept.MaxLog)
	if err != nil {
		return nil, err
	}
	log, err := kept.OpenLog(h.d.Log(), h.r.LogFrom, kept.MaxLog)
	if err != nil {
		events.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &copier{pod: pod, c: h.c, events: events, log: log, cancel: cancel, stopped: make(chan struct{})}
	go l.follow(ctx)
	return l, nil
}

// follow copies until the container has ended or ctx is.
func (l *copier) follow(ctx context.Context) {
	defer close(l.stopped)
	for {
		in, err := l.open(ctx, true)
		if err == nil {
			err = l.copy(in)
			in.Close()
		}
		if ctx.Err() != nil || isReason(err, "NotFound") {
			return
		}
		select { // the stream ends with the container, and when a connection is cut
		case <-ctx.Done():
			return
		case <-time.After(max(l.c.poll, time.Second)):
		}
	}
}

// stop ends the copying and closes the files.
func (l *copier) stop() {
	if l == nil {
		return
	}
	l.cancel()
	<-l.stopped
	l.events.Close()
	l.log.Close()
}

// finish stops following and copies what is missing yet, if the pod is there.
func (l *copier) finish(ctx context.Context, there bool) {
	if l == nil {
		return
	}
	if there {
		var why error
		for range 3 {
			l.cancel()
			<-l.stopped
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			in, err := l.open(ctx, false)
			if err == nil {
				err = l.copy(in)
				in.Close()
			}
			cancel()
			if err == nil {
				return
			}
			why = err
			if isReason(err, "NotFound") {
				break
			}
			time.Sleep(time.Second)
		}
		fmt.Fprintf(l.log, "bench: the rest of the log could not be fetched: %v\n", why)
	}
}

// maxLine bounds a line of the log; a longer one is cut into several.
const maxLine = 1 << 20

// open asks for the lines that are not copied yet.
func (l *copier) open(ctx context.Context, follow bool) (io.ReadCloser, error) {
	l.resume()
	return l.c.log(ctx, l.pod, follow, l.since)
}

// resume expects the recent lines once more.
func (l *copier) resume() {
	l.again = map[uint64]int{}
	for _, c := range l.recent {
		l.again[c.sum]++
	}
}

// copy copies lines.
func (l *copier) copy(in io.Reader) error {
	r := bufio.NewReaderSize(in, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 && (err == nil || errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull)) {
			if werr := l.line(line); werr != nil {
				return werr
			}
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// line takes "TIME TEXT".
func (l *copier) line(line []byte) error {
	stamp, text, _ := bytes.Cut(line, []byte{' '})
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		text = line // the rest of a long line
	} else {
		sum := maphash.Bytes(lineSeed, line)
		if l.left = l.again[sum] > 0; l.left {
			l.again[sum]--
		} else {
			l.seen(copied{at, sum})
		}
	}
	if l.left {
		return nil
	}
	// A runtime runs the end of stderr together with the next event if it lacks
	// its line end.
	if i := bytes.Index(text, []byte(eventStart)); i > 0 && isEvent(text[i:]) {
		if _, err := fmt.Fprintf(l.log, "%s\n", text[:i]); err != nil {
			return err
		}
		text = text[i:]
	}
	to := l.log
	if isEvent(text) {
		to = l.events
	}
	_, err = to.Write(text)
	return err
}

// seen notes a line.
func (l *copier) seen(c copied) {
	if since := c.at.Truncate(time.Second).Add(-lateLines); since.After(l.since) {
		l.since = since
		l.recent = slices.DeleteFunc(l.recent, func(c copied) bool { return c.at.Before(since) })
	}
	if !c.at.Before(l.since) {
		l.recent = append(l.recent, c)
	}
}

// eventStart is how every event begins, white space aside.
const eventStart = `{"event":`

// isEvent says whether a line is an event of the trainer protocol.
func isEvent(line []byte) bool {
	if !bytes.HasPrefix(line, []byte{'{'}) {
		return false
	}
	var e struct {
		Event string `json:"event"`
	}
	return json.Unmarshal(line, &e) == nil && e.Event != ""
}
