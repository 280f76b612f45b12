package hub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SplitDatasetName is SplitName for data sets.
func SplitDatasetName(name string) (id, revision string, err error) {
	return split(name, Error{Dataset: true, endpoint: DefaultEndpoint})
}

// Choose picks the files that are wanted of a repository, by their names. Its
// error says what the repository lacks.
type Choose func(names []string) ([]string, error)

// DatasetSnapshot is a data set on this machine, as far as it was chosen.
type DatasetSnapshot struct {
	ID        string // as asked for
	Commit    string // 40 hexadecimal digits
	Files     []DatasetFile
	RenamedTo string // see Info
	Unchecked bool   // see Snapshot
}

// DatasetFile is a file of a DatasetSnapshot.
type DatasetFile struct {
	Name   string // in the repository, with slashes
	Path   string // on this machine
	URL    string // at the commit, such that it always means these bytes
	SHA256 string
	Bytes  int64
}

// GetDataset returns files of a data set, as Get does for a model. Every file is
// read and compared with the digest that the Hub announced for it, whenever it
// was downloaded; one that was damaged in the cache is downloaded again.
func (c *Client) GetDataset(ctx context.Context, id, revision string, choose Choose, o Options) (DatasetSnapshot, error) {
	e := c.fault(id, revision)
	e.Dataset = true
	if _, _, err := split(id+"@"+revision, e); err != nil {
		return DatasetSnapshot{}, err
	}
	cached, unchecked, info, err := locate(c, revision, func() (DatasetSnapshot, error) { return c.cachedDataset(e, choose) }, func() (Info, error) { return c.resolve(ctx, e, "datasets") })
	if err != nil {
		return DatasetSnapshot{}, err
	}
	if cached != nil {
		if cached.Unchecked = unchecked; unchecked {
			c.noticeUnchecked(cached.Commit)
		}
		return *cached, nil
	}
	remote := map[string]RemoteFile{}
	var names []string
	for _, f := range info.Files {
		if safeName(f.Name) {
			remote[f.Name] = f
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	if names, err = choose(names); err != nil {
		return DatasetSnapshot{}, e.named(&Error{Kind: BadFile, Detail: err.Error()})
	}
	var files []RemoteFile
	for _, n := range names {
		files = append(files, remote[n])
	}
	d := &download{c: c, e: e, info: info, repo: c.datasetRepo(id), progress: o.Progress}
	for again := true; ; again = false {
		if err := d.all(ctx, files); err != nil {
			return DatasetSnapshot{}, err
		}
		s, err := c.datasetSnapshot(e, info.Commit, names)
		if errors.Is(err, &Error{Kind: Corrupted}) && again {
			continue // the damaged blob was removed
		}
		if err != nil {
			return DatasetSnapshot{}, err
		}
		if err := d.repo.remember(revision, info.Commit); err != nil {
			return DatasetSnapshot{}, e.local(err)
		}
		s.RenamedTo = info.RenamedTo
		return s, nil
	}
}

func (c *Client) datasetRepo(id string) repo {
	return repo{c.Cache, "datasets--" + strings.ReplaceAll(id, "/", "--")}
}

// cachedDataset returns what the cache has of a data set, without any request.
func (c *Client) cachedDataset(e Error, choose Choose) (DatasetSnapshot, error) {
	e.Kind, e.Detail = OfflineMode, "it is not in the cache ("+c.Cache+")"
	r := c.datasetRepo(e.Model)
	commit := e.Revision
	if !commitPattern.MatchString(commit) {
		b, err := os.ReadFile(r.ref(e.Revision))
		if commit = strings.TrimSpace(string(b)); err != nil || !commitPattern.MatchString(commit) {
			return DatasetSnapshot{}, &e
		}
	}
	names, err := list(r.snapshot(commit))
	if err != nil || len(names) == 0 {
		return DatasetSnapshot{}, &e
	}
	if names, err = choose(names); err != nil {
		e.Kind, e.Detail = Incomplete, "the cache does not have all of it: "+err.Error()
		return DatasetSnapshot{}, &e
	}
	return c.datasetSnapshot(e, commit, names)
}

// datasetSnapshot reads the files of a snapshot. A blob that is not what its
// name says is removed, and the error is Corrupted.
func (c *Client) datasetSnapshot(e Error, commit string, names []string) (DatasetSnapshot, error) {
	r := c.datasetRepo(e.Model)
	s := DatasetSnapshot{ID: e.Model, Commit: commit}
	for _, n := range names {
		f := DatasetFile{
			Name: n, Path: r.pointer(commit, n),
			URL: cmp.Or(c.Endpoint, DefaultEndpoint) + "/datasets/" + e.Model + "/resolve/" + commit + "/" + n,
		}
		e.File = n
		blob, err := filepath.EvalSymlinks(f.Path)
		if err != nil {
			return DatasetSnapshot{}, e.local(err)
		}
		if f.SHA256, f.Bytes, err = sumSHA256(blob); err != nil {
			return DatasetSnapshot{}, e.local(err)
		}
		// Where links cannot be made, the name of the blob is not known here; the
		// digest was compared when the file came.
		if want := filepath.Base(blob); etagPattern.MatchString(want) {
			got := f.SHA256
			if len(want) == 40 {
				if got, err = digest(blob, 40); err != nil {
					return DatasetSnapshot{}, e.local(err)
				}
			}
			if got != want {
				os.Remove(f.Path)
				os.Remove(blob)
				e.Kind, e.Detail = Corrupted, "the file in the cache was damaged: digest "+got+", not "+want
				return DatasetSnapshot{}, &e
			}
		}
		s.Files = append(s.Files, f)
	}
	return s, nil
}

func sumSHA256(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}
