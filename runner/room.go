package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"bench/datasets"
)

// What a run writes to HOME, as measured of trainings of MiniLM on 2,048 rows: three
// small files a job, and 20 bytes for each prediction, packed. What a batch holds
// before it is packed, logs and records must fit into the rest.
const (
	bytesPerJob = 16 << 10
	bytesPerRow = 20
	spareBytes  = 32 << 20
)

// room returns a *PreconditionError if the disk of HOME cannot hold what the jobs
// that have not ended will write there.
func (x *run) room() error {
	need := int64(0)
	seen := map[string]bool{}
	for _, p := range x.order {
		if p.done {
			continue
		}
		data := p.cell.data
		need += bytesPerJob + bytesPerRow*int64(data.Counts[datasets.Test].Rows)
		if seen[data.Digest] {
			continue
		}
		seen[data.Digest] = true
		if _, err := os.Stat(filepath.Join(x.home.inputs(), data.Digest)); errors.Is(err, fs.ErrNotExist) {
			for _, split := range datasets.Splits { // as trainers see them
				if i, err := os.Stat(data.Path(split)); err == nil {
					need += i.Size()
				}
			}
		}
	}
	if need == 0 {
		return nil
	}
	need += spareBytes
	var disk syscall.Statfs_t
	if err := syscall.Statfs(x.Home, &disk); err != nil || disk.Blocks == 0 { // some network file systems do not say
		return nil
	}
	if free := int64(disk.Bavail) * int64(disk.Bsize); free < need {
		return &PreconditionError{
			What: fmt.Sprintf("no space left on the disk of %s for this: %d MiB are free, and about %d MiB will be written", x.Home, free>>20, (need+1<<20-1)>>20),
			Hint: "make room, or name a folder on another disk with --home; finished seeds are kept",
		}
	}
	return nil
}
