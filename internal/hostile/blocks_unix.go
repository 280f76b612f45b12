//go:build unix

package hostile

import (
	"io/fs"
	"syscall"
)

// blocks returns the disk space of a file. st_blocks counts in units of 512
// bytes whatever the file system's block size is.
func blocks(i fs.FileInfo) int64 {
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return i.Size()
}
