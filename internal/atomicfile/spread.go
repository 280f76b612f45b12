package atomicfile

import (
	"errors"
	"io/fs"
	"os"
)

// MkdirSpread is os.MkdirAll for a folder whose folders will hold many files and
// have nothing to do with each other. ext4 is told to put each into another part
// of the disk: it looks for a free inode from the start of a part and, without a
// journal, stops at every one that was freed in the last minutes, so that what is
// made beside many files that come and go takes ever longer. Other file systems
// do not care. A folder that is there is left as it is.
func MkdirSpread(dir string) error {
	err := os.Mkdir(dir, 0o777)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(dir, 0o777)
	}
	if err == nil {
		spread(dir)
	}
	return err
}
