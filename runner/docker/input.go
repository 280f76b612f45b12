package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"bench/containers"
	"bench/internal/atomicfile"
	"bench/internal/hostile"
	"bench/runner/job"
	"bench/runner/kept"
)

// The user that runs trainers when bench is root: nobody.
const nobody = 65534

// user returns who the program in the container is: nobody if bench is root or
// the engine maps users anyway, else the user of bench.
func user(remapped bool) (uid, gid int) {
	uid, gid = os.Getuid(), os.Getgid()
	if uid <= 0 || remapped {
		return nobody, nobody
	}
	if gid <= 0 {
		gid = nobody
	}
	return uid, gid
}

// prepare makes the scratch folders of a batch: in/, a copy of Dir.In in which
// batch.json has the model's place in the container; and out/, where finished
// jobs are marked as such. It returns how the model's files are shown.
func prepare(b job.Batch, d job.Dir, threads int, r reader) ([]containers.Mount, error) {
	if err := copyTree(d.In(), scratchIn(d)); err != nil {
		return nil, err
	}
	var model []containers.Mount
	if b.Model.Path != "" {
		var err error
		if model, err = showModel(b.Model, copies(d), r); err != nil {
			return nil, err
		}
	}
	text, err := inside(b, threads)
	if err != nil {
		return nil, err
	}
	if err := writeFor(filepath.Join(scratchIn(d), "batch.json"), text); err != nil {
		return nil, err
	}
	if err := makeFolder(scratchOut(d), 0o777); err != nil {
		return nil, err
	}
	done, err := finished(b, d)
	if err != nil {
		return nil, err
	}
	for _, j := range done {
		if err := makeFolder(filepath.Join(scratchOut(d), string(j)), 0o777); err != nil {
			return nil, err
		}
		if err := writeFor(filepath.Join(scratchOut(d), string(j), kept.Outcome), []byte(doneMark)); err != nil {
			return nil, err
		}
	}
	return model, nil
}

// inside is batch.json as the container shows it.
func inside(b job.Batch, threads int) ([]byte, error) {
	if b.Model.Path != "" {
		b.Model.Path = insideModel
	}
	b.Threads = threads
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// doneMark is the outcome by which a trainer sees that a job is done.
const doneMark = "{}\n"

// finished lists the jobs that are not to be done again.
func finished(b job.Batch, d job.Dir) (done []job.ID, err error) {
	for _, j := range b.Jobs {
		_, err := hostile.ReadFile(d.Out(), filepath.Join(string(j.ID), kept.Outcome), job.MaxOutcome)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		done = append(done, j.ID)
	}
	return done, nil
}

// makeFolder makes a folder with exactly these rights, whatever the umask.
func makeFolder(dir string, mode fs.FileMode) error {
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// writeFor writes a file that every user may read.
func writeFor(path string, b []byte) error {
	return atomicfile.WriteBytes(path, b)
}

// copyTree copies regular files and folders so that every user may read them.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			return makeFolder(filepath.Join(to, rel), 0o755)
		case e.Type().IsRegular():
			return copyFile(p, filepath.Join(to, rel))
		}
		return fmt.Errorf("%s is neither a file nor a folder", p)
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(0o644)
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// reader is the user of a container, who reads through the rights of files.
type reader struct {
	uid, gid int
	remapped bool // then it is another user on this machine, who has the rights of others
}

// may says whether the user has all of these rights: 4 to read, 1 to enter.
func (r reader) may(i fs.FileInfo, want fs.FileMode) bool {
	mode := i.Mode().Perm()
	if s, ok := i.Sys().(*syscall.Stat_t); ok && !r.remapped {
		switch { // the first that fits counts, as for the kernel
		case int(s.Uid) == r.uid:
			mode >>= 6
		case int(s.Gid) == r.gid:
			mode >>= 3
		}
	}
	return mode&want == want
}

// mayAll says whether the user may read all files below a folder.
func (r reader) mayAll(dir string) (bool, error) {
	all := true
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(4)
		if e.IsDir() {
			want |= 1
		}
		if all = r.may(i, want); !all {
			return fs.SkipAll
		}
		return nil
	})
	return all, err
}

// maxModelFiles bounds the mounts of one container.
const maxModelFiles = 1000

// showModel returns the mounts that show the files of a model's snapshot under
// insideModel, read-only: each for itself, from the place where it really is,
// since links would lead nowhere in the container; or the folder as a whole, if
// there is no link in it and the container's user may read all of it. A file
// that that user may not read is copied to dir first.
func showModel(m job.Model, dir string, r reader) ([]containers.Mount, error) {
	s, err := kept.ReadSnapshot(m)
	if err != nil {
		return nil, err
	}
	whole := s.Plain
	if whole {
		if whole, err = r.mayAll(s.Root); err != nil {
			return nil, err
		}
	}
	if whole {
		return []containers.Mount{{Source: s.Root, Target: insideModel}}, nil
	}
	if len(s.Files) > maxModelFiles {
		return nil, kept.RefuseModel(m, fmt.Sprintf("%s holds %d files, and some are links or not readable for all; %d can be shown one by one", s.Root, len(s.Files), maxModelFiles),
			"remove what does not belong to the model")
	}
	var mounts []containers.Mount
	for n, f := range s.Files {
		i, err := os.Stat(f.Path)
		if err != nil {
			return nil, err
		}
		from := f.Path
		if !r.may(i, 4) {
			if err := makeFolder(dir, 0o755); err != nil {
				return nil, err
			}
			from = filepath.Join(dir, fmt.Sprint(n))
			if err := copyFile(f.Path, from); err != nil {
				return nil, err
			}
		}
		mounts = append(mounts, containers.Mount{Source: from, Target: path.Join(insideModel, f.Name)})
	}
	return mounts, nil
}
