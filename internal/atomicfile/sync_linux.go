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
