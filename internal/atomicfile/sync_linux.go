package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"
)

const canSyncAll = true

// syncAll writes everything that the file system of f still holds in memory.
func syncAll(f *os.File) error {
	return os.NewSyscallError("syncfs "+f.Name(), unix.Syncfs(int(f.Fd())))
}

// Fresh asks a file server what it has in the folders now. A machine that has one
// mounted answers from memory, for up to a minute, that a file is not there which
// another machine has made since. Of nested folders the outer one comes first. On a
// local file system it does nothing; a folder that is not there is no error.
func Fresh(dirs ...string) {
	var s unix.Statx_t
	for _, dir := range dirs {
		// New attributes of a folder make Linux ask again for the names in it.
		unix.Statx(unix.AT_FDCWD, dir, unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &s)
	}
}
