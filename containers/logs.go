package containers

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
)

// Logs copies what the program prints, from its first line on, until it has
// ended and everything is copied. No line is lost or doubled when the engine
// is restarted meanwhile (unless its clock is set back then): Logs remembers
// how far it has come in each of the two streams by the engine's time stamps,
// and how many pieces carry the last of them.
//
// The error is Gone if the container was removed, Unreachable after the engine
// was away for Engine.Patience, or the error of a writer.
func (c *Container) Logs(ctx context.Context, stdout, stderr io.Writer) error {
	op := "read the log of container " + c.name
	cur := cursor{}
	var away time.Time
	for n := 0; ; n++ {
		// Asked before reading: a reading that begins after the end and comes
		// to its own end has seen everything.
		st, err := c.Inspect(ctx)
		if err == nil && st.Status != "created" {
			err = c.e.guard(ctx, op, func(ctx context.Context, touch func()) error {
				options := container.LogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: !st.Ended(), Since: cur.since()}
				r, err := c.e.api.ContainerLogs(ctx, c.id, options)
				if err != nil {
					return err
				}
				defer r.Close()
				return cur.copy(r, stdout, stderr, touch)
			})
			if err == nil {
				if st.Ended() {
					return nil
				}
				n = 0
			}
		}
		switch {
		case err == nil:
			away = time.Time{}
		case !IsKind(err, Unreachable): // gone, caller's context or writer
			return err
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > c.e.Patience:
			return err
		}
		if err := c.e.t.pause(ctx, n); err != nil {
			return err
		}
	}
}

// cursor says how far the two streams of a log have been copied: 0 stdout, 1
// stderr. Each has a mark of its own, since two copiers in the engine write
// them and stamps are in order only within a stream.
type cursor [2]mark

// mark is the stamp of the last piece copied, and how many pieces of the same
// stamp came. The engine cuts long lines into pieces of one stamp.
type mark struct {
	stamp time.Time
	count int
}

// since is the earlier of the two stamps, in the engine's format. The engine
// gives pieces of exactly this stamp again.
func (c *cursor) since() string {
	t := c[0].stamp
	if c[1].stamp.Before(t) {
		t = c[1].stamp
	}
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// maxPiece bounds one piece of a log. The engine cuts at 16 KiB.
const maxPiece = 1 << 20

// copy copies a multiplexed log from where c stands. A log that ends within a
// piece is io.ErrUnexpectedEOF; that piece is not copied.
//
//	piece: stream (1 stdout, 2 stderr), 0, 0, 0, size (4 bytes, big endian), "2026-11-20T10:00:00.000000000Z ", text
func (c *cursor) copy(r io.Reader, stdout, stderr io.Writer, touch func()) error {
	out := [2]io.Writer{stdout, stderr}
	var seen cursor // pieces of the mark's stamp met in this reading
	var head [8]byte
	var buf bytes.Buffer
	for {
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		size := binary.BigEndian.Uint32(head[4:])
		if head[0] < 1 || head[0] > 2 || size > maxPiece {
			return &Error{Kind: Refused, Op: "read a log", Err: usage("a piece of stream %d with %d bytes is no log", head[0], size)}
		}
		buf.Reset()
		if _, err := io.CopyN(&buf, r, int64(size)); err != nil {
			return io.ErrUnexpectedEOF
		}
		touch()
		s := head[0] - 1
		prefix, text, ok := bytes.Cut(buf.Bytes(), []byte(" "))
		stamp, err := time.Parse(time.RFC3339Nano, string(prefix))
		if !ok || err != nil {
			return &Error{Kind: Refused, Op: "read a log", Err: usage("a piece has no time stamp")}
		}
		m := &c[s]
		if stamp.Before(m.stamp) {
			continue
		}
		if stamp.Equal(m.stamp) {
			if seen[s].count++; seen[s].count <= m.count {
				continue
			}
		} else {
			m.stamp, m.count, seen[s].count = stamp, 0, 0
		}
		if _, err := out[s].Write(text); err != nil {
			return callerError{err}
		}
		m.count++
		seen[s].count = m.count
	}
}
