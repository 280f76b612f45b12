package containers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"bench/internal/content"

	"github.com/gofrs/flock"
)

// Labels of volumes with content.
const (
	LabelContent = "bench.content" // what it is: "model", "data"
	LabelDigest  = "bench.digest"  // of the content.Tree
	LabelBytes   = "bench.bytes"   // of its files
	labelFiller  = "bench.filler"  // which process fills the volume, on the container that says so
)

// Shelf is where files that many containers are to see lie on an engine that does
// not see this machine's folders: the snapshot of a model, the rows of data sets.
// They lie in a volume named after their digest, and get there once.
type Shelf struct {
	Kind     string // for LabelContent and the volume's name
	Instance string // for LabelInstance; may be ""
	Content  content.Tree
	// Image is any that the engine has: of it containers are made, and never
	// started, through which files get into volumes.
	Image string
	// Keep is how many bytes of content of this instance, with this one, may lie on
	// the engine before the oldest that no container shows makes room; 0: any number.
	Keep int64
	// Lock is a folder for lock files, which all processes of this instance see:
	// there the death of one that fills a volume is noticed at once. "": none.
	Lock string
	// Notice is told, in a sentence, what takes long. May be nil.
	Notice func(string)
}

// Volume returns the name of the volume.
func (s Shelf) Volume() string {
	name := "bench-" + s.Kind + "-" + s.Content.Digest[:20]
	if s.Instance != "" {
		name += "-" + s.Instance
	}
	return name
}

// Labels returns the labels of the volume.
func (s Shelf) Labels() map[string]string {
	l := map[string]string{LabelContent: s.Kind, LabelDigest: s.Content.Digest, LabelBytes: strconv.FormatInt(s.Content.Bytes, 10)}
	if s.Instance != "" {
		l[LabelInstance] = s.Instance
	}
	return l
}

// Mount shows the content at target, read-only. It makes the volume, empty;
// Fill must come before the container is started.
func (s Shelf) Mount(target string) Mount {
	return Mount{Volume: s.Volume(), Labels: s.Labels(), Target: target}
}

// completeFile lies in a volume when all files of its content are there.
const completeFile = ".bench-complete"

// Sizes of what is sent at a time: small files go together up to the one, and
// a file of the other goes alone, since what was cut is sent again.
const (
	parcelBytes = 32 << 20
	aloneBytes  = 8 << 20
)

// fillPoll is how often whoever waits for another process to fill a volume looks.
const fillPoll = 500 * time.Millisecond

// Fill sees to it that the volume of s is complete. seen is a container that
// shows it at target, by which it is looked at, and which keeps it from being
// removed meanwhile.
//
// Files that arrived whole before something was cut are not sent again. Of
// several processes that want the same content on one engine, one sends it: it
// holds a file's lock and, since not everybody sees that file, the name of a
// container, which the engine gives to one only. One that died on the way, or
// whose transfer stands still, is replaced.
//
// The engine may be away for Patience at a time.
func (e *Engine) Fill(ctx context.Context, s Shelf, seen *Container, target string) error {
	unlock, err := e.filling.lock(ctx, s.Volume())
	if err != nil {
		return err
	}
	defer unlock()
	if s.Lock != "" {
		lock, err := s.lock(ctx)
		if err != nil {
			return err
		}
		defer lock.Unlock()
	}
	marker := path.Join(target, completeFile)
	mine := rand.Text()
	labels := map[string]string{labelFiller: mine, LabelBatch: "fill"}
	if s.Instance != "" {
		labels[LabelInstance] = s.Instance
	}
	name := s.Volume() + "-fill"
	evicted, waiting := false, false
	var other *Container // that holds the name
	var progress int64   // of it
	var moved time.Time  // when it was last seen to make some
	var arrived int64    // the most that was there when a transfer began
	failures := 0        // since then
	for {
		var complete bool
		err := e.Persist(ctx, func() error {
			_, err := seen.Stat(ctx, marker)
			complete = err == nil
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		})
		if err != nil || complete {
			return err
		}
		if !evicted {
			evicted = true
			e.evict(ctx, s, s.Keep)
		}
		var filler *Container
		err = e.Persist(ctx, func() (err error) {
			filler, err = e.Hold(ctx, name, s.Image, []Mount{{Volume: s.Volume(), Labels: s.Labels(), Target: target, Writable: true}}, labels)
			return err
		})
		switch {
		case err == nil:
			var there int64
			there, err = e.fill(ctx, s, filler, target)
			// ctx may be over; the name must be free all the same.
			removal, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.t.long)
			removeErr := filler.Remove(removal)
			cancel()
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err == nil:
				err = removeErr
			}
			if err == nil {
				continue // to look whether it is there
			}
			if IsKind(err, NoSpace) && e.evict(ctx, s, 0) > 0 {
				continue
			}
			if !IsKind(err, Unreachable) && !IsKind(err, Gone) {
				return err
			}
			// The next one goes on where this one was cut. A file that does not get
			// through many times in a row never will.
			if there > arrived {
				arrived, failures = there, 0
			}
			if failures++; failures > 10 {
				return err
			}
			if err := e.t.pause(ctx, failures); err != nil {
				return err
			}
		case IsKind(err, Gone): // it is being removed, and the name will be free
			if err := e.t.pause(ctx, 0); err != nil {
				return err
			}
		case !IsKind(err, NameTaken):
			return err
		default:
			holder, err := e.Lookup(ctx, name)
			if IsKind(err, Gone) {
				continue
			}
			now := e.arrived(ctx, s, seen, target)
			switch {
			case err != nil: // the next call may tell
			case other == nil || holder.id != other.id || now != progress:
				other, progress, moved = holder, now, time.Now()
			case time.Since(moved) > e.t.stale:
				holder.Remove(ctx) // by its id: the next one's name is the same
			}
			if err == nil && s.Lock != "" {
				// Who made it held the lock that is held here now, and so is dead.
				holder.Remove(ctx)
				continue
			}
			if !waiting {
				waiting = true
				s.say("another bench sends %s to %s; waiting for it", s.Kind, e.host)
			}
			for range 10 { // measuring is dear, looking at the marker is not
				timer := time.NewTimer(fillPoll)
				select {
				case <-ctx.Done():
					timer.Stop()
					return context.Cause(ctx)
				case <-timer.C:
				}
				if _, err := seen.Stat(ctx, marker); err == nil {
					return nil
				}
				if _, err := e.Lookup(ctx, name); IsKind(err, Gone) {
					break
				}
			}
		}
	}
}

// lock waits for the file's lock.
func (s Shelf) lock(ctx context.Context) (*flock.Flock, error) {
	if err := os.MkdirAll(s.Lock, 0o777); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(s.Lock, s.Volume()+".lock"))
	_, err := lock.TryLockContext(ctx, fillPoll/5)
	return lock, err
}

func (s Shelf) say(format string, a ...any) {
	if s.Notice != nil {
		s.Notice(fmt.Sprintf(format, a...))
	}
}

// arrived is the size of what is there of the content; -1 if it cannot be told.
func (e *Engine) arrived(ctx context.Context, s Shelf, c *Container, target string) int64 {
	var sum int64
	for _, f := range s.Content.Files {
		i, err := c.Stat(ctx, path.Join(target, f.Name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return -1
		}
		sum += i.Size
	}
	return sum
}

// fill sends what is not there yet, through a container that shows the volume
// at target. It returns how much was there already.
func (e *Engine) fill(ctx context.Context, s Shelf, c *Container, target string) (there int64, err error) {
	var todo []content.File
	for _, f := range s.Content.Files {
		i, err := c.Stat(ctx, path.Join(target, f.Name))
		switch {
		case err == nil && i.Mode.IsRegular() && i.Size == f.Size:
			// Written in one go, in the order of its bytes, below a name that stands
			// for this content: of this size, it is whole.
			there += f.Size
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return there, err
		}
		todo = append(todo, f)
	}
	began, sent := time.Now(), int64(0)
	next := began.Add(10 * time.Second)
	tell := func(n int64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(30 * time.Second)
			s.say("sending %s to %s: %d of %d MB", s.Kind, e.host, (there+sent+n)/1e6, s.Content.Bytes/1e6)
		}
	}
	for len(todo) > 0 {
		n, size := 1, todo[0].Size
		for n < len(todo) && size < parcelBytes && todo[0].Size < aloneBytes && todo[n].Size < aloneBytes {
			size += todo[n].Size
			n++
		}
		if err := c.Put(ctx, target, Entries(todo[:n]), tell); err != nil {
			return there, err
		}
		sent += size
		todo = todo[n:]
	}
	if now := e.arrived(ctx, s, c, target); now != s.Content.Bytes {
		return there, &Error{Kind: Unreachable, Op: "send " + s.Kind, Host: e.host, Err: fmt.Errorf("%d of %d bytes arrived", now, s.Content.Bytes), Hint: hintUnreachable}
	}
	text, err := json.Marshal(map[string]any{"digest": s.Content.Digest, "files": len(s.Content.Files), "bytes": s.Content.Bytes})
	if err != nil {
		return there, err
	}
	if err := c.Put(ctx, target, []Entry{{Name: completeFile, Mode: 0o444, Size: int64(len(text)), Open: Bytes(text)}}, nil); err != nil {
		return there, err
	}
	if took := time.Since(began); took > 5*time.Second {
		s.say("sent %s to %s: %d MB in %v", s.Kind, e.host, sent/1e6, took.Round(time.Second))
	}
	return there, nil
}

// Entries are files, readable for all, with the folders that they are in.
func Entries(files []content.File) []Entry {
	folders := map[string]bool{}
	for _, f := range files {
		for d := path.Dir(f.Name); d != "."; d = path.Dir(d) {
			folders[d] = true
		}
	}
	var entries []Entry
	for _, d := range slices.Sorted(maps.Keys(folders)) {
		entries = append(entries, Entry{Name: d, Dir: true, Mode: 0o755})
	}
	for _, f := range files {
		entries = append(entries, Entry{Name: f.Name, Mode: 0o644, Size: f.Size, Open: func() (io.ReadCloser, error) { return os.Open(f.Path) }})
	}
	return entries
}

// evict removes the oldest content of the instance of s that no container
// shows, until at most keep bytes are left of it; 0 leaves none if s.Keep is
// not 0. It returns how many volumes went. What goes wrong here will go wrong
// again where it matters.
func (e *Engine) evict(ctx context.Context, s Shelf, keep int64) (n int) {
	if s.Keep == 0 || s.Instance == "" {
		return 0
	}
	vs, err := e.Volumes(ctx, map[string]string{LabelInstance: s.Instance, LabelContent: ""})
	if err != nil {
		return 0
	}
	size := func(v Volume) int64 {
		b, _ := strconv.ParseInt(v.Labels[LabelBytes], 10, 64)
		return b
	}
	var total int64
	for _, v := range vs {
		total += size(v)
	}
	for _, v := range vs {
		if total <= keep {
			break
		}
		if v.Name == s.Volume() {
			continue
		}
		if gone, _ := e.RemoveVolume(ctx, v.Name); gone {
			total -= size(v)
			n++
		}
	}
	return n
}
