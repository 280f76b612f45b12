package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"bench/datasets/hub"
	"bench/runner/baseline"

	"go.yaml.in/yaml/v3"
)

// modelEntry is a model in a sweep's file.
type modelEntry struct {
	name  string
	query *hub.Query // instead of a name; else nil
	where string     // file:line
	modelOptions
}

// modelOptions are what is said of one model.
type modelOptions struct {
	priority   int   // models of a higher one are trained first
	remoteCode *bool // nil: as all models
	found      bool  // by a query, at a commit
}

const modelForms = "a model is a name, or a mapping with one of name, file and hub (and priority, allow_remote_code)"

// models takes the models in the order of the file.
func (r *sweepReader) models(nodes []yaml.Node) (models []modelEntry) {
	before := len(r.errs)
	at := map[string]string{}
	as := map[string]string{} // how a model was called first
	add := func(m modelEntry) {
		if len(models) == mostModels {
			r.key("models", fmt.Errorf("there are more than %d models", mostModels))
		}
		if len(models) >= mostModels {
			models = append(models, m)
			return
		}
		name := sameName(m.name)
		if first, ok := at[name]; ok {
			err := fmt.Errorf("%s: model %s is there already, at %s", m.where, m.name, first)
			if as[name] != m.name {
				err = fmt.Errorf("%s: model %s is %s, which is there already, at %s", m.where, m.name, as[name], first)
			}
			r.errs = append(r.errs, err)
			return
		}
		at[name], as[name] = m.where, m.name
		if err := checkName(m.name); err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", m.where, err))
		}
		models = append(models, m)
	}
	for _, n := range nodes {
		m := modelEntry{where: fmt.Sprintf("%s:%d", r.path, n.Line)}
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value != "" {
			m.name = n.Value
			add(m)
			continue
		}
		if n.Kind != yaml.MappingNode {
			r.at(n.Line, errors.New(modelForms))
			continue
		}
		file, q, wrong := "", hub.Query{}, len(r.errs)
		r.mapping(&n, "model", []field{
			{"name", takeText(&m.name)}, {"file", takeText(&file)}, {"hub", r.query(&q)}, {"priority", takeWhole(&m.priority, -1000, 1000)},
			{"allow_remote_code", func(v *yaml.Node) error {
				m.remoteCode = new(bool)
				return takeBool(m.remoteCode)(v)
			}},
		})
		asked := !reflect.DeepEqual(q, hub.Query{})
		switch {
		case len(r.errs) > wrong:
		case m.name != "" && file == "" && !asked:
			add(m)
		case m.name == "" && file != "" && !asked:
			r.namesIn(relativeTo(r.path, file), m, add)
		case m.name == "" && file == "" && asked:
			m.query = &q
			if first, ok := at[q.String()]; ok {
				r.at(n.Line, fmt.Errorf("this query is there already, at %s", first))
			}
			at[q.String()] = m.where
			models = append(models, m)
		default:
			r.at(n.Line, errors.New(modelForms))
		}
	}
	if len(nodes) == 0 && len(r.errs) == before {
		r.key("models", errors.New("no models: models is a list of names, such as [baseline:ngram, org/name]"))
	}
	return models
}

// namesIn adds the names in a file, one a line, each with what is said of all.
func (r *sweepReader) namesIn(file string, m modelEntry, add func(modelEntry)) {
	list, err := readText(file)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", m.where, err))
		return
	}
	line, found := 0, false
	for l := range strings.Lines(string(list)) {
		line++
		l, _, _ = strings.Cut(l, "#")
		if l = strings.TrimSpace(l); l != "" {
			found = true
			m.name, m.where = l, fmt.Sprintf("%s:%d", file, line)
			add(m)
		}
	}
	if !found {
		r.errs = append(r.errs, fmt.Errorf("%s: %s names no models; it has one a line", m.where, file))
	}
}

// sameName is equal for names that mean the same model: the Hub does not tell
// large letters from small ones, and main is what is meant without a revision.
func sameName(name string) string {
	switch kind, _, _ := strings.Cut(name, ":"); {
	case kind == "baseline" || kind == "fresh":
	case isPath(name):
		return "./" + filepath.Clean(name)
	default:
		if id, revision, err := hub.SplitName(name); err == nil {
			return strings.ToLower(id) + "@" + revision
		}
	}
	return name
}

// checkName says what is wrong with a model's name, as far as the name tells.
func checkName(name string) error {
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case kind == "baseline":
		if !slices.Contains(baseline.Names(), rest) {
			return usage("", "there is no baseline %q; there are %s", rest, strings.Join(baseline.Names(), ", "))
		}
	case kind == "fresh":
		if _, ok := freshModels[rest]; !ok {
			return usage("", "there is no fresh model %q; there are tiny, xlmr-base, electra-small", rest)
		}
	case isPath(name):
	default:
		if _, _, err := hub.SplitName(name); err != nil {
			return &usageError{err: err}
		}
	}
	return nil
}

// field is a key that a mapping may have, and what takes its value.
type field struct {
	key  string
	take func(*yaml.Node) error
}

// mapping reads a mapping; what says whose it is.
func (r *sweepReader) mapping(n *yaml.Node, what string, fields []field) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		f := slices.IndexFunc(fields, func(f field) bool { return f.key == key.Value })
		switch {
		case f < 0:
			var keys []string
			for _, f := range fields {
				keys = append(keys, f.key)
			}
			r.at(key.Line, fmt.Errorf("%s: there is no key %s; there are %s", what, key.Value, strings.Join(keys, ", ")))
		case seen[key.Value]:
			r.at(key.Line, fmt.Errorf("%s: %s is there twice", what, key.Value))
		default:
			if err := fields[f].take(value); err != nil {
				r.at(value.Line, fmt.Errorf("%s: %s %w", what, key.Value, err))
			}
		}
		seen[key.Value] = true
	}
}

// takeText takes one text.
func takeText(to *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Value == "" {
			return errors.New("wants one text")
		}
		*to = n.Value
		return nil
	}
}

// takeWhole takes a whole number.
func takeWhole(to *int, least, most int) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		x, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || x < least || x > most {
			return fmt.Errorf("is %q; it is a whole number from %d to %d", n.Value, least, most)
		}
		*to = x
		return nil
	}
}

// takeBool takes true or false.
func takeBool(to *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Decode(to) != nil {
			return fmt.Errorf("is %q; it is true or false", n.Value)
		}
		return nil
	}
}
