//go:build !linux

package atomicfile

import (
	"errors"
	"os"
)

// Without a way to sync a file system each file is synced when it is written.
const canSyncAll = false

func syncAll(*os.File) error { return errors.ErrUnsupported }

// Fresh does nothing: there is no portable way to ask a file server.
func Fresh(...string) {}
