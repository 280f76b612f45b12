package runner

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"bench/datasets"
	"bench/internal/hostile"
	"bench/runner/job"
)

// spares are the in/data folders of batches that have ended. The next batch of
// the same data sets gets one by a rename, instead of a folder and three links
// for each data set, which were all to be removed again.
type spares struct {
	mu   sync.Mutex
	dirs map[string][]string // by spareKey
	made int
}

// spareKey names data sets by their content and the names that they have in a batch.
func spareKey(data map[string]*datasets.Dataset) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintln(&b, name, data[name].Digest)
	}
	return b.String()
}

func dataDir(d job.Dir) string { return filepath.Join(d.In(), "data") }

// keep takes the data sets out of the folder of a batch that has ended.
func (h home) keep(d job.Dir, data map[string]*datasets.Dataset) {
	s := h.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	// The process's number: another one on this home has spares of its own.
	spare := filepath.Join(h.inputs(), fmt.Sprintf("spare-%d-%d", os.Getpid(), s.made))
	if os.Rename(dataDir(d), spare) == nil {
		key := spareKey(data)
		s.dirs[key] = append(s.dirs[key], spare)
	}
}

// reuse gives a batch the data sets of an earlier one, if there are any and they
// are what they were: the program of that batch may have changed them.
func (h home) reuse(d job.Dir, data map[string]*datasets.Dataset) bool {
	s, key := h.spares, spareKey(data)
	s.mu.Lock()
	dirs := s.dirs[key]
	if len(dirs) == 0 {
		s.mu.Unlock()
		return false
	}
	spare := dirs[len(dirs)-1]
	s.dirs[key] = dirs[:len(dirs)-1]
	s.mu.Unlock()
	if os.MkdirAll(d.In(), 0o755) != nil || os.Rename(spare, dataDir(d)) != nil {
		return false // gc took it away
	}
	if h.unchanged(dataDir(d), data) {
		return true
	}
	hostile.RemoveAll(dataDir(d)) // else writing the files says why they cannot be
	return false
}

// unchanged says whether a folder has links to the files of all these data sets.
func (h home) unchanged(dir string, data map[string]*datasets.Dataset) bool {
	for name, set := range data {
		for _, split := range datasets.Splits {
			file := string(split) + ".jsonl"
			want, err := os.Lstat(filepath.Join(h.inputs(), set.Digest, file))
			if err != nil {
				return false
			}
			if got, err := os.Lstat(filepath.Join(dir, name, file)); err != nil || !os.SameFile(want, got) {
				return false
			}
		}
	}
	return true
}

// dropSpares removes all of them.
func (h home) dropSpares() {
	s := h.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, dirs := range s.dirs {
		for _, dir := range dirs {
			hostile.RemoveAll(dir)
		}
	}
	clear(s.dirs)
}
