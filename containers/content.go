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

// parcelBytes is up to how much small files go together.
const parcelBytes = 32 << 20

// mismatches is how often files that arrived damaged are sent again.
const mismatches = 2

// fillPoll is how often whoever waits for another process to fill a volume looks.
const fillPoll = 500 * time.Millisecond

// Fill sees to it that the volume of s is complete. seen is a container that
// shows it at target, by which it is looked at, and which keeps it from being
// removed meanwhile.
//
// What arrived before something was cut is not sent again: files, and parts of
// large ones. All of it is compared with its digest where it is, by a program
// that runs in a container of s.Image; if that has no shell for it, large files
// are sent in one, and all is read back. Of
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
	damaged := 0         // how often files arrived that were not what was sent
	bad := &damageError{}
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
			filler, err = e.filler(ctx, s, name, target, labels)
			return err
		})
		switch {
		case err == nil:
			var there int64
			there, err = e.fill(ctx, s, filler, target, bad)
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
			if errors.As(err, &bad) {
				if changed := bad.changed(); changed != nil {
					return changed
				}
				if damaged++; damaged <= mismatches {
					continue
				}
				return &Error{Kind: Damaged, Op: "send " + s.Kind, Host: e.host, Err: err, Hint: "the memory or the disk of the host may be faulty: see what its kernel says (dmesg)"}
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
			var st State
			if err == nil {
				st, err = holder.Inspect(ctx)
			}
			switch {
			case err != nil: // the next call may tell
			case st.Status == "running": // it compares what has arrived
				moved = time.Now()
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

// look tells how long a file is in the volume that c shows at target, -1 if it is
// not there.
func look(ctx context.Context, c *Container, target string) func(name string) (int64, error) {
	return func(name string) (int64, error) {
		i, err := c.Stat(ctx, path.Join(target, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !i.Mode.IsRegular() {
			return -1, nil
		}
		return i.Size, err
	}
}

// arrived is the size of what is there of the content; -1 if it cannot be told.
func (e *Engine) arrived(ctx context.Context, s Shelf, c *Container, target string) int64 {
	_, there, err := s.Content.Missing(false, look(ctx, c, target))
	if err != nil {
		return -1
	}
	return there
}

// fill sends what is not there yet, through a container that shows the volume
// at target. It returns how much was there already. bad are files that are there
// and damaged.
func (e *Engine) fill(ctx context.Context, s Shelf, c *Container, target string, bad *damageError) (there int64, err error) {
	whole := false
	if s.Content.Split() {
		joins, err := e.joins(ctx, s.Image)
		if err != nil {
			return 0, err
		}
		whole = !joins
	}
	seen := look(ctx, c, target)
	todo, there, err := s.Content.Missing(whole, func(name string) (int64, error) {
		if bad.names(name) {
			return -1, nil
		}
		return seen(name)
	})
	if err != nil {
		return there, err
	}
	need := int64(0)
	for _, p := range todo {
		need += p.Size
	}
	if need > parcelBytes {
		if err := e.room(ctx, s, target, need); err != nil {
			return there, err
		}
	}
	began, sent := time.Now(), int64(0)
	next := began.Add(10 * time.Second)
	tell := func(n int64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(30 * time.Second)
			s.say("sending %s to %s: %d of %d MB", s.Kind, e.host, (there+sent+n)/1e6, s.Content.Bytes/1e6)
		}
	}
	manifest := s.Content.Manifest()
	frame := append(folders(s.Content.Files), Entry{Name: content.ManifestName, Mode: 0o644, Size: int64(len(manifest)), Open: Bytes(manifest)})
	if err := c.Put(ctx, target, owned(frame), nil); err != nil {
		return there, err
	}
	for len(todo) > 0 {
		n, size := 1, todo[0].Size
		for n < len(todo) && size+todo[n].Size <= parcelBytes {
			size += todo[n].Size
			n++
		}
		if err := c.Put(ctx, target, parcel(todo[:n]), tell); err != nil {
			return there, err
		}
		sent += size
		todo = todo[n:]
	}
	if err := e.compare(ctx, s, c, target); err != nil {
		return there, err
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
	entries := folders(files)
	for _, f := range files {
		entries = append(entries, Entry{Name: f.Name, Mode: 0o644, Size: f.Size, Open: func() (io.ReadCloser, error) { return os.Open(f.Path) }})
	}
	return entries
}

// folders are those that files are in.
func folders(files []content.File) []Entry {
	names := map[string]bool{}
	for _, f := range files {
		for d := path.Dir(f.Name); d != "."; d = path.Dir(d) {
			names[d] = true
		}
	}
	var entries []Entry
	for _, d := range slices.Sorted(maps.Keys(names)) {
		entries = append(entries, Entry{Name: d, Dir: true, Mode: 0o755})
	}
	return entries
}

// parcel is what is sent in one go; the folders of whole files are there.
func parcel(parts []content.Part) []Entry {
	var split []content.File
	var entries []Entry
	for _, p := range parts {
		if p.Name != p.File.Name {
			split = append(split, content.File{Name: p.Name})
			if p.Offset == 0 { // what parts are joined in: the volume's own folder is root's
				entries = append(entries, Entry{Name: p.File.Name, Mode: 0o644, Open: Bytes(nil)})
			}
		}
		entries = append(entries, Entry{Name: p.Name, Mode: 0o644, Size: p.Size, Open: p.Open})
	}
	return owned(append(folders(split), entries...))
}

// owned gives entries to the user of the program that compares.
func owned(entries []Entry) []Entry {
	for i := range entries {
		entries[i].UID, entries[i].GID = holderID, holderID
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
