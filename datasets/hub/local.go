package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"bench/internal/atomicfile"
)

// Local looks over a model in a folder of this machine. Its revision is the
// content digest of the files that were chosen: the SHA-256 over one line
//
//	NAME \x00 SHA-256 of the content in hexadecimal \n
//
// for each, sorted by name. memo, if not empty, is a file that remembers the
// digests of files by path, size, time of change and inode, so that a model of
// gigabytes is read once; it may be missing.
func Local(ctx context.Context, path string, o Options, memo string) (Snapshot, error) {
	e := Error{Model: path}
	abs, err := filepath.Abs(path)
	if err == nil {
		var st os.FileInfo
		if st, err = os.Stat(abs); err == nil && !st.IsDir() {
			err = syscall.ENOTDIR
		}
	}
	if err != nil {
		e.Kind, e.Detail, e.Err = NoFolder, "there is no such folder", err
		return Snapshot{}, &e
	}
	names, err := list(abs)
	if err != nil {
		e.Kind, e.Detail, e.Err = NoFolder, "the folder cannot be read", err
		return Snapshot{}, &e
	}
	s, problem := look(abs, names, o)
	if problem != nil {
		return Snapshot{}, e.named(problem)
	}
	m := openMemo(memo)
	h := sha256.New()
	var done int64
	for _, n := range s.Files {
		if err := ctx.Err(); err != nil {
			return Snapshot{}, err
		}
		file := filepath.Join(abs, filepath.FromSlash(n))
		sum, size, err := m.digest(file)
		if err != nil {
			e.Kind, e.File, e.Detail, e.Err = BadFile, n, "it cannot be read", err
			return Snapshot{}, &e
		}
		fmt.Fprintf(h, "%s\x00%s\n", n, sum)
		if done += size; o.Progress != nil {
			o.Progress(done, s.Bytes)
		}
	}
	m.save()
	s.ID, s.Revision = path, hex.EncodeToString(h.Sum(nil))
	return s, nil
}

// memo remembers digests of files.
type memo struct {
	path    string
	known   map[string]memoEntry
	changed bool
}

type memoEntry struct {
	Size   int64  `json:"size"`
	MTime  int64  `json:"mtime"` // nanoseconds
	Inode  uint64 `json:"inode"`
	Device uint64 `json:"device"`
	SHA256 string `json:"sha256"`
}

func openMemo(path string) *memo {
	m := &memo{path: path, known: map[string]memoEntry{}}
	if b, err := os.ReadFile(path); path == "" || err != nil || json.Unmarshal(b, &m.known) != nil {
		m.known = map[string]memoEntry{} // a lost memo costs time only
	}
	return m
}

// racy is the age below which a file could change again without changing its
// time of change, on file systems that count in seconds.
const racy = 2 * time.Second

func (m *memo) digest(path string) (sum string, size int64, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	now := memoEntry{Size: st.Size(), MTime: st.ModTime().UnixNano()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		now.Inode, now.Device = uint64(sys.Ino), uint64(sys.Dev)
	}
	old := m.known[path]
	now.SHA256 = old.SHA256
	if old == now && old.SHA256 != "" {
		return old.SHA256, now.Size, nil
	}
	begin := time.Now()
	if now.SHA256, err = digest(path, 64); err != nil {
		return "", 0, err
	}
	if begin.Sub(st.ModTime()) > racy {
		m.known[path] = now
		m.changed = true
	}
	return now.SHA256, now.Size, nil
}

func (m *memo) save() {
	if m.path == "" || !m.changed {
		return
	}
	if b, err := json.Marshal(m.known); err == nil {
		atomicfile.WriteBytes(m.path, b) // else it is computed again
	}
}
