package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"
)

// copier copies a pod's log to the batch's folder. Kubernetes gives stdout and
// stderr as one stream of lines: those that are events of the trainer protocol
// go to the events, all others to the log. The last line gets a line end even
// if the program did not write one.
type copier struct {
	pod         string
	c           *cluster
	events, log *bounded
	last        time.Time // of the lines that are copied

	cancel  context.CancelFunc
	stopped chan struct{}
}

// copyLog begins to copy the log of a pod, after those of the pods before it.
func (h *handle) copyLog(pod string) (*copier, error) {
	if h.r.Pod != pod {
		h.mu.Lock()
		if h.r.Pod != "" {
			h.r.LogFrom, h.r.EventsFrom = size(h.d.Log()), size(h.d.Events())
		}
		h.r.Pod = pod
		h.mu.Unlock()
		if err := h.save(); err != nil {
			return nil, err
		}
	}
	// An earlier watcher copied the same lines: from the beginning, over them.
	events, err := openAt(h.d.Events(), h.r.EventsFrom)
	if err != nil {
		return nil, err
	}
	log, err := openAt(h.d.Log(), h.r.LogFrom)
	if err != nil {
		events.f.Close()
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
		in, err := l.c.log(ctx, l.pod, true, l.last)
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
	l.events.f.Close()
	l.log.f.Close()
}

// finish stops following and copies what is missing yet, if the pod is there.
func (l *copier) finish(ctx context.Context, there bool) {
	if l == nil {
		return
	}
	if there {
		for range 3 {
			l.cancel()
			<-l.stopped
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			in, err := l.c.log(ctx, l.pod, false, l.last)
			if err == nil {
				err = l.copy(in)
				in.Close()
			}
			cancel()
			if err == nil || isReason(err, "NotFound") {
				return
			}
			time.Sleep(time.Second)
		}
	}
}

// maxLine bounds a line of the log; a longer one is cut into several.
const maxLine = 1 << 20

// copy copies the lines that are later than the last one copied.
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
	} else if !at.After(l.last) {
		return nil
	} else {
		l.last = at
	}
	to := l.log
	if isEvent(text) {
		to = l.events
	}
	_, err = to.Write(text)
	return err
}

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

// bounded writes to a file from an offset on, up to maxLog bytes, and drops
// the rest.
type bounded struct {
	f    *os.File
	left int
}

func openAt(path string, offset int64) (*bounded, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return &bounded{f, maxLog}, nil
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		if b.left > 0 {
			if _, err := b.f.WriteString("\nbench: the rest is left out: it printed too much\n"); err != nil {
				return 0, err
			}
			b.left = 0
		}
		return len(p), nil
	}
	b.left -= len(p)
	return b.f.Write(p)
}
