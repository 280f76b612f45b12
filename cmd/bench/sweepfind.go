package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"bench/datasets/hub"
	"bench/internal/atomicfile"
	"bench/runner"

	"go.yaml.in/yaml/v3"
)

// query reads the mapping hub of a model's entry.
func (r *sweepReader) query(q *hub.Query) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
			return errors.New("is a mapping, such as {language: da, limit: 20}")
		}
		r.mapping(n, "hub", []field{
			{"language", takeTexts(&q.Languages)}, {"tags", takeTexts(&q.Tags)}, {"author", takeText(&q.Author)}, {"search", takeText(&q.Text)},
			{"pipeline", takeTexts(&q.Pipelines)}, {"max_parameters", takeNumber(&q.MaxParameters)}, {"min_downloads", takeNumber(&q.MinDownloads)},
			{"gated", takeBool(&q.Gated)}, {"limit", takeWhole(&q.Limit, 1, 10_000)},
			{"rule", takeOne(&q.Rule, hub.RuleEncoders, hub.RuleAny)}, {"sort", takeOne(&q.Sort, hub.Sorts...)},
			{"groups", takeSome(&q.Groups, hub.Groups...)}, {"exclude", takePatterns(&q.Exclude)},
		})
		if len(q.Languages)+len(q.Tags)+len(q.Groups)+q.Limit == 0 && q.Author == "" && q.Text == "" {
			return errors.New("means the whole Hub: say language, tags, author, search or limit")
		}
		return nil
	}
}

// takeTexts takes one text or a list of them.
func takeTexts(to *[]string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		items := []*yaml.Node{n}
		if n.Kind == yaml.SequenceNode {
			items = n.Content
		}
		for _, item := range items {
			var s string
			if err := takeText(&s)(item); err != nil {
				return errors.New("wants one text, or a list of them")
			}
			if slices.Contains(*to, s) {
				return &lineError{item.Line, fmt.Errorf("has %s twice", s)}
			}
			*to = append(*to, s)
		}
		return nil
	}
}

// takeSome takes some of the choices.
func takeSome(to *[]string, choices ...string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		err := takeTexts(to)(n)
		for _, x := range *to {
			if err == nil && !slices.Contains(choices, x) {
				err = fmt.Errorf("has %q; there are %s", x, strings.Join(choices, ", "))
			}
		}
		return err
	}
}

// takePatterns takes patterns of names.
func takePatterns(to *[]string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		err := takeTexts(to)(n)
		for _, x := range *to {
			if _, bad := path.Match(x, ""); err == nil && bad != nil {
				err = fmt.Errorf("has %q, which is no pattern such as org/*", x)
			}
		}
		return err
	}
}

// takeOne takes one of the choices.
func takeOne(to *string, choices ...string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || !slices.Contains(choices, n.Value) {
			return fmt.Errorf("is %q; choose one of %s", n.Value, strings.Join(choices, ", "))
		}
		*to = n.Value
		return nil
	}
}

// takeNumber takes a large number, such as 1000, 500M or 1.5B.
func takeNumber(to *int64) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		number, unit := strings.ReplaceAll(n.Value, "_", ""), 1.0
		if i := len(number) - 1; i > 0 {
			if u := map[byte]float64{'k': 1e3, 'K': 1e3, 'm': 1e6, 'M': 1e6, 'b': 1e9, 'B': 1e9}[number[i]]; u > 0 {
				number, unit = number[:i], u
			}
		}
		x, err := strconv.ParseFloat(number, 64)
		if n.Kind != yaml.ScalarNode || err != nil || !(x*unit >= 1 && x*unit < 1e18) {
			return fmt.Errorf("is %q; it is a number such as 1000, 500M or 1.5B", n.Value)
		}
		*to = int64(x * unit)
		return nil
	}
}

// sweepName is what a sweep may be called in HOME/sweeps.
var (
	sweepName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)
	notInName = regexp.MustCompile(`[^A-Za-z0-9._-]`)
)

// folder is where a home keeps what is to be known of the sweep.
func (s *sweep) folder(home string) string { return filepath.Join(home, "sweeps", s.name) }

// foundModels is models.json in a sweep's folder: what its queries found, so
// that a sweep which is started again has the models that it had, whatever the
// Hub lists first by then.
type foundModels struct {
	Schema  int          `json:"schema"`
	Queries []foundQuery `json:"queries"`
}

type foundQuery struct {
	Query    hub.Query    `json:"query"`
	Endpoint string       `json:"endpoint"`
	Asked    time.Time    `json:"asked"`
	Models   []hub.Listed `json:"models"`
}

const foundSchema = 1

// find puts the models that the queries of a sweep mean in their places. The Hub
// is asked once; refresh: again. report: each is told.
func (a *app) find(ctx context.Context, s *sweep, refresh, report bool) error {
	if !slices.ContainsFunc(s.entries, func(m modelEntry) bool { return m.query != nil }) {
		return nil
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	c := hub.FromEnv(os.Getenv, user)
	c.Notice = func(text string) { fmt.Fprintln(a.stderr, "bench:", text) }
	path := filepath.Join(s.folder(home), "models.json")
	known := foundModels{Schema: foundSchema}
	switch text, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist) || refresh:
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(text, &known); err != nil || known.Schema != foundSchema {
			return &runner.PreconditionError{What: path + " is damaged, or of another version of bench", Hint: "bench sweep --refresh asks the Hub again and writes it anew", Err: err}
		}
	}
	now := foundModels{Schema: foundSchema}
	for _, m := range s.entries {
		if m.query == nil {
			continue
		}
		i := slices.IndexFunc(known.Queries, func(f foundQuery) bool { return reflect.DeepEqual(f.Query, *m.query) && f.Endpoint == c.Endpoint })
		if i >= 0 {
			now.Queries = append(now.Queries, known.Queries[i])
			continue
		}
		models, err := c.Search(ctx, *m.query)
		if err != nil {
			return fmt.Errorf("%s: %w", m.where, err)
		}
		if len(models) == 0 {
			return usage("rule: any, gated: true and other conditions let more through", "%s: no model of the Hub is what this query means", m.where)
		}
		now.Queries = append(now.Queries, foundQuery{*m.query, c.Endpoint, time.Now().UTC().Truncate(time.Second), models})
	}
	if !reflect.DeepEqual(now, known) {
		text, err := json.MarshalIndent(now, "", "  ")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(path, append(text, '\n')); err != nil {
			return err
		}
	}
	a.place(s, now, report)
	return nil
}

// place makes the sweep's models of what is named and what was found. What is
// named is not taken from a query once more.
func (a *app) place(s *sweep, found foundModels, report bool) {
	there := map[string]bool{}
	for _, m := range s.entries {
		if m.query == nil {
			id, _, _ := strings.Cut(m.name, "@")
			there[id] = true
		}
	}
	s.models = nil
	queries := found.Queries
	for _, m := range s.entries {
		if m.query == nil {
			s.models = append(s.models, m.name)
			continue
		}
		f := queries[0]
		queries = queries[1:]
		fmt.Fprintf(a.stderr, "bench: %s: %s of the Hub, as found on %s (bench sweep --refresh asks again)\n", m.where, plural(len(f.Models), "model"), f.Asked.Local().Format("2006-01-02 15:04"))
		for _, x := range f.Models {
			if report {
				fmt.Fprintln(a.stderr, "bench:   "+describeListed(x))
			}
			if there[x.ID] {
				continue
			}
			there[x.ID] = true
			name, of := x.ID, m.modelOptions
			if x.Commit != "" {
				name, of.found = x.ID+"@"+x.Commit, true
			}
			s.models = append(s.models, name)
			s.options.of[name] = of
		}
	}
}

// describeListed says what a search found out about a model.
func describeListed(x hub.Listed) string {
	parts := []string{plain(x.ID)}
	if x.Pipeline != "" {
		parts = append(parts, plain(x.Pipeline))
	}
	size := "size not known"
	if x.Parameters > 0 {
		size = fmt.Sprintf("%.0f M parameters", float64(x.Parameters)/1e6)
	}
	parts = append(parts, size, fmt.Sprintf("%d downloads", x.Downloads))
	if x.Gated != "" {
		parts = append(parts, "gated")
	}
	return strings.Join(parts, "  ")
}

// found is a model that a query found, at the commit that it had then. It is
// looked up when there is something to train: one that is gone meanwhile does
// not keep the others from it.
func (k *kit) found(ctx context.Context, name string, o runOptions) (*runner.Model, error) {
	id, commit, err := hub.SplitName(name)
	if err != nil {
		return nil, &usageError{err: err}
	}
	m := &runner.Model{ID: id, Revision: commit, Kind: "hub", RemoteCode: o.remoteCode}
	take := hub.Options{RemoteCode: o.remoteCode}
	user, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	if snap, err := hub.FromEnv(os.Getenv, user).Cached(id, commit, take); err == nil {
		m.Licence = snap.Licence
		m.Snapshot = func(context.Context) (string, error) { return snap.Path, k.checkSnapshot(m, snap) }
		return m, nil
	}
	m.Snapshot = func(ctx context.Context) (string, error) {
		if err := k.fromHub(ctx, m, id, commit, take); err != nil { // else it has set another Snapshot
			return "", err
		}
		return m.Snapshot(ctx)
	}
	return m, ctx.Err()
}
