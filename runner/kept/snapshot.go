package kept

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"bench/internal/content"
	"bench/runner"
	"bench/runner/job"
)

// Snapshot is what a model consists of.
type Snapshot struct {
	Root  string         // the model's folder; no link leads to it
	Files []content.File // where they really are, without digests, by name
	// Plain: the files are all that Root holds, and none is a link.
	Plain bool
}

// ReadSnapshot lists the files of a model's snapshot. ".git" is left out.
//
// A snapshot in the cache of Hugging Face is a folder of links to
// ../../blobs/DIGEST: elsewhere its links would lead nowhere, so each file is
// named with the place where it really is.
//
// A link may lead to the folder itself or, in the layout
// REPO/snapshots/COMMIT, to REPO. One that leads elsewhere is refused, with a
// *runner.PreconditionError: a folder that came from a stranger must not choose
// which files of this machine a stranger's code sees.
func ReadSnapshot(m job.Model) (Snapshot, error) {
	root, err := filepath.EvalSymlinks(m.Path)
	if err != nil {
		return Snapshot{}, fmt.Errorf("model %s: %w", m.ID, err)
	}
	s := Snapshot{Root: root, Plain: true}
	home := root
	if parent := filepath.Dir(root); filepath.Base(parent) == "snapshots" {
		home = filepath.Dir(parent)
	}
	err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == ".git":
			s.Plain = false
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if strings.ContainsFunc(rel, unicode.IsControl) {
			return RefuseModel(m, fmt.Sprintf("the name of %q has a line break or the like in it", p), "give the file another name")
		}
		real := p
		if e.Type()&fs.ModeSymlink != 0 {
			s.Plain = false
			if real, err = filepath.EvalSymlinks(p); err != nil {
				return RefuseModel(m, p+" is a link that leads nowhere", "download the model again")
			}
			if !strings.HasPrefix(real, home+string(filepath.Separator)) {
				return RefuseModel(m, fmt.Sprintf("%s is a link that leads out of the model's folder, to %s", p, real), "put a copy of the file in its place")
			}
		}
		i, err := os.Lstat(real)
		switch {
		case err != nil:
			return err
		case i.IsDir():
			return RefuseModel(m, p+" is a link to a folder", "put a copy of the folder in its place")
		case !i.Mode().IsRegular():
			return RefuseModel(m, p+" is neither a file nor a folder", "remove it")
		}
		s.Files = append(s.Files, content.File{Name: filepath.ToSlash(rel), Path: real, Size: i.Size()})
		return nil
	})
	return s, err
}

// RefuseModel is the error for a model's folder that cannot be shown to a trainer.
func RefuseModel(m job.Model, what, hint string) error {
	return &runner.PreconditionError{What: fmt.Sprintf("model %s: %s", m.ID, what), Hint: hint}
}
