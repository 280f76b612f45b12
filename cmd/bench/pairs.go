package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bench/scoring/results"
	"bench/tasks"
	"bench/tasks/all"
)

// pair is one data set on which both models have a record.
type pair struct {
	a, b results.Record
	task tasks.Task
}

// unpaired is a data set that a comparison leaves out.
type unpaired struct {
	Dataset string `json:"dataset"`
	Why     string `json:"why"`
}

// candidate is a model with the records of it that were asked for.
type candidate struct {
	name string
	recs []results.Record
}

// candidates finds the records of models, named as in the leaderboard.
func candidates(recs []results.Record, names []string, f compareFlags) ([]candidate, error) {
	var out []candidate
	for _, name := range names {
		of, err := recordsOf(recs, name)
		if err != nil {
			return nil, err
		}
		out = append(out, candidate{name, slices.DeleteFunc(of, func(r results.Record) bool { return !f.takes(r) })})
	}
	return out, nil
}

// pairsOf finds the records to compare: those of both models under one protocol,
// on the same bytes, the earlier task first; and which data sets of either model,
// or of those asked for, are left out.
func pairsOf(a, b candidate, f compareFlags) ([]pair, []unpaired, error) {
	by := paired(a, b)
	protocol := f.protocol
	if protocol == "" {
		for _, p := range slices.Sorted(maps.Keys(by)) {
			if len(by[p]) > len(by[protocol]) {
				protocol = p
			}
		}
	}
	pairs := by[protocol]
	left := leftOut([2][]results.Record{a.recs, b.recs}, [2]string{a.name, b.name}, protocol, pairs, f.datasets)
	if len(pairs) == 0 {
		var why []string
		for _, l := range left[:min(3, len(left))] {
			why = append(why, l.Dataset+": "+l.Why)
		}
		if len(left) > 3 {
			why = append(why, fmt.Sprintf("and %d more", len(left)-3))
		}
		what := fmt.Sprintf("there is no data set on which %s and %s can be compared", a.name, b.name)
		return nil, nil, usage("bench run both of them on the same data sets, under the same protocol", "%s", strings.Join(append([]string{what}, why...), "\n  "))
	}
	slices.SortStableFunc(pairs, func(x, y pair) int {
		return cmp.Or(cmp.Compare(taskOrder(x.task), taskOrder(y.task)), strings.Compare(x.a.Dataset.Name, y.a.Dataset.Name))
	})
	return pairs, left, nil
}

// paired are the records that can be compared, by protocol.
func paired(a, b candidate) map[string][]pair {
	by := map[string][]pair{}
	for _, r := range a.recs {
		for _, s := range b.recs {
			if r.Protocol == s.Protocol && sameData(r, s) {
				if t, err := all.Lookup(r.Dataset.Task); err == nil && unscored(r, s, t) == "" {
					by[r.Protocol] = append(by[r.Protocol], pair{r, s, t})
				}
			}
		}
	}
	return by
}

// recordsOf are the records of a model, named as in the leaderboard, by data set.
func recordsOf(recs []results.Record, name string) ([]results.Record, error) {
	id, revision, _ := strings.Cut(name, "@")
	newest, revisions := map[string]results.Record{}, map[string]bool{}
	for _, r := range recs {
		if r.Model.ID != id || !strings.HasPrefix(r.Model.Revision, revision) || len(r.Replicates) == 0 {
			continue
		}
		revisions[r.Model.Revision] = true
		newest[strings.Join([]string{r.Dataset.Name, r.Protocol, r.Dataset.Digest, fmt.Sprint(r.Dataset.TaskVersion)}, "\n")] = r
	}
	switch {
	case len(newest) == 0:
		return nil, usage("bench leaderboard --suite all --incomplete lists the models there are", "nothing is recorded of %s", name)
	case len(revisions) > 1:
		return nil, usage("name one, as "+id+"@REVISION", "%s was run in %d revisions: %s", id, len(revisions), strings.Join(slices.Sorted(maps.Keys(revisions)), ", "))
	}
	var out []results.Record
	for _, key := range slices.Sorted(maps.Keys(newest)) {
		out = append(out, newest[key])
	}
	return out, nil
}

// takes says whether a record is of a data set that was asked for. Speed is no
// score.
func (f compareFlags) takes(r results.Record) bool {
	if t, err := all.Lookup(r.Dataset.Task); err == nil && t.Info().Metrics[0].Hi > 1 {
		return false
	}
	return (len(f.datasets) == 0 || slices.Contains(f.datasets, r.Dataset.Name)) &&
		(len(f.languages) == 0 || slices.ContainsFunc(r.Dataset.Languages, func(l string) bool {
			return slices.Contains(f.languages, l) || (l == "nb" || l == "nn") && slices.Contains(f.languages, "no")
		}))
}

func sameData(r, s results.Record) bool {
	return r.Dataset.Name == s.Dataset.Name && r.Dataset.Digest == s.Dataset.Digest && r.Dataset.TaskVersion == s.Dataset.TaskVersion
}

// unscored says why two records cannot be compared, if they cannot.
func unscored(r, s results.Record, t tasks.Task) string {
	metric := t.Info().Metrics[0].Name
	for _, x := range []results.Record{r, s} {
		if len(recorded(x, metric)) == 0 {
			return fmt.Sprintf("%s has no %s", x.Model.ID, metric)
		}
	}
	return ""
}

// leftOut lists what of either model's data sets, and of those asked for, is not
// compared.
func leftOut(of [2][]results.Record, names [2]string, protocol string, pairs []pair, asked []string) []unpaired {
	out, sets := []unpaired{}, map[string]bool{}
	for _, name := range asked {
		sets[name] = true
	}
	for _, side := range of {
		for _, r := range side {
			sets[r.Dataset.Name] = true
		}
	}
	for _, p := range pairs {
		delete(sets, p.a.Dataset.Name)
	}
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		var on [2][]results.Record
		var protocols [2][]string
		for side := range of {
			for _, r := range of[side] {
				if r.Dataset.Name == set {
					on[side], protocols[side] = append(on[side], r), append(protocols[side], r.Protocol)
				}
			}
		}
		why := fmt.Sprintf("other protocols: %s (%s), %s (%s)", names[0], strings.Join(protocols[0], ", "), names[1], strings.Join(protocols[1], ", "))
		switch {
		case len(on[0])+len(on[1]) == 0:
			why = "neither model has a result on it"
		case len(on[0]) == 0:
			why = "no result of " + names[0]
		case len(on[1]) == 0:
			why = "no result of " + names[1]
		default:
			why = apart(on[0], on[1], protocol, why)
		}
		out = append(out, unpaired{set, why})
	}
	return out
}

// apart says why no record of a data set in a can be compared with one in b:
// otherwise, if no two of them are of one protocol.
func apart(a, b []results.Record, protocol, otherwise string) string {
	why := otherwise
	for _, r := range a {
		for _, s := range b {
			if r.Protocol != s.Protocol || protocol != "" && r.Protocol != protocol {
				continue
			}
			if !sameData(r, s) {
				why = "the models were scored on different builds of it"
				continue
			}
			t, err := all.Lookup(r.Dataset.Task)
			if err != nil {
				return "this bench has no task " + r.Dataset.Task
			}
			return unscored(r, s, t)
		}
	}
	return why
}

func taskOrder(t tasks.Task) int {
	return slices.IndexFunc(all.All(), func(u tasks.Task) bool { return u.Info().Name == t.Info().Name })
}
