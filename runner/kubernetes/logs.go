package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// second on. Times of lines are not quite in order: runtimes take them for
	// stdout and stderr apart.
	since time.Time   // a second before that of the latest line; zero: none yet
	times []time.Time // of the lines copied that are not before since
	skip  int         // lines that are copied already and come again

	cancel  context.CancelFunc
	stopped chan struct{}
}

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
	l.skip = len(l.times)
	return l.c.log(ctx, l.pod, follow, l.since)
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
		text = line // the rest of a line that was cut
		if l.skip > 0 {
			return nil
		}
	} else if l.skip > 0 {
		l.skip--
		return nil
	} else {
		l.seen(at)
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

// seen notes the time of a line.
func (l *copier) seen(at time.Time) {
	if since := at.Truncate(time.Second).Add(-time.Second); since.After(l.since) {
		l.since = since
		l.times = slices.DeleteFunc(l.times, func(t time.Time) bool { return t.Before(since) })
	}
	if !at.Before(l.since) {
		l.times = append(l.times, at)
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
