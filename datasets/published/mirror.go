package published

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bench/datasets/fetch"
	"bench/datasets/hub"
)

// Mirrored is a Hub for machines without one: what a mirror folder holds of it
// (bench data mirror DIR hub:org/name), and what it lacks from Next.
type Mirrored struct {
	Mirror *fetch.Mirror
	Next   Hub
	Notice func(string) // may be nil
}

// GetDataset returns the files of a data set that the mirror holds: of the
// commit that is asked for, or, for a branch or tag, of the only commit that is
// there, since a folder does not know today's.
func (m Mirrored) GetDataset(ctx context.Context, id, revision string, choose hub.Choose, o hub.Options) (hub.DatasetSnapshot, error) {
	commits := map[string]map[string]string{} // names to URLs
	for _, u := range m.Mirror.URLs() {
		_, rest, ok := strings.Cut(u, "/datasets/"+id+"/resolve/")
		if !ok {
			continue
		}
		commit, name, ok := strings.Cut(rest, "/")
		if !ok || len(commit) != 40 {
			continue
		}
		if commits[commit] == nil {
			commits[commit] = map[string]string{}
		}
		commits[commit][name] = u
	}
	commit := revision
	if commits[commit] == nil && len(commits) == 1 && len(revision) != 40 {
		for commit = range commits {
			if m.Notice != nil {
				m.Notice(fmt.Sprintf("taking commit %.12s from the mirror", commit))
			}
		}
	}
	if commits[commit] == nil {
		return m.Next.GetDataset(ctx, id, revision, choose, o)
	}
	var names []string
	for n := range commits[commit] {
		names = append(names, n)
	}
	slices.Sort(names)
	names, err := choose(names)
	if err != nil {
		return m.Next.GetDataset(ctx, id, revision, choose, o) // another configuration, perhaps
	}
	s := hub.DatasetSnapshot{ID: id, Commit: commit, Unchecked: commit != revision}
	get := &fetch.Fetcher{Mirror: m.Mirror, Offline: true}
	for _, n := range names {
		f, err := get.Fetch(ctx, fetch.Source{URL: commits[commit][n]})
		if err != nil {
			return hub.DatasetSnapshot{}, err
		}
		s.Files = append(s.Files, hub.DatasetFile{Name: n, Path: f.Path, URL: f.URL, SHA256: f.SHA256, Bytes: f.Bytes})
	}
	return s, nil
}
