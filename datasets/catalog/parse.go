package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"bench/datasets"
)

// parser walks a YAML document and collects what is wrong.
type parser struct {
	file     string
	problems []Problem
}

func (p *parser) bad(n *yaml.Node, remedy, format string, a ...any) {
	p.problems = append(p.problems, Problem{p.file, n.Line, fmt.Sprintf(format, a...), remedy})
}

var (
	yamlLine  = regexp.MustCompile(`line (\d+)`)
	validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	language  = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)
	hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func parse(b []byte, file string) ([]entry, []Problem) {
	p := &parser{file: file}
	d := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	if err := d.Decode(&doc); err != nil {
		line := 0
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1])
		}
		msg := strings.TrimPrefix(err.Error(), "yaml: ")
		msg = strings.TrimPrefix(msg, fmt.Sprintf("line %d: ", line))
		if errors.Is(err, io.EOF) {
			msg = "the file is empty"
		}
		return nil, []Problem{{file, line, msg, "the file must be YAML: version: 1, then datasets: and a list"}}
	}
	var next yaml.Node
	if err := d.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, []Problem{{file, next.Line, "there is a second YAML document", "put all data sets into one list"}}
	}
	var entries []entry
	p.mapping(doc.Content[0], "the catalogue", map[string]func(*yaml.Node){
		"version": func(n *yaml.Node) {
			if n.Value != "1" {
				p.bad(n, "write version: 1", "version %s is not known", n.Value)
			}
		},
		"datasets": func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				p.bad(n, "write one data set after another, each beginning with a dash", "datasets is no list")
				return
			}
			for _, item := range n.Content {
				entries = append(entries, p.entry(resolve(item)))
			}
		},
	}, "version", "datasets")
	first := map[string]int{}
	for _, e := range entries {
		if line, ok := first[e.Name]; ok && e.Name != "" {
			p.problems = append(p.problems, Problem{file, e.line, fmt.Sprintf("the name %q is taken by the data set in line %d", e.Name, line), "give each data set its own name"})
		} else {
			first[e.Name] = e.line
		}
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int { return a.Line - b.Line })
	return entries, p.problems
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// mapping calls the function of each key. Unknown, doubled and missing keys are
// problems.
func (p *parser) mapping(n *yaml.Node, what string, keys map[string]func(*yaml.Node), required ...string) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		p.bad(n, "it has the keys "+quoteList(sortedKeys(keys)), "%s is no mapping of keys to values", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		f, ok := keys[key.Value]
		switch {
		case !ok:
			p.bad(key, "there are "+quoteList(sortedKeys(keys)), "%s has no key %q", what, key.Value)
		case seen[key.Value]:
			p.bad(key, "leave one of them out", "key %q is there twice", key.Value)
		default:
			seen[key.Value] = true
			f(value)
		}
	}
	for _, key := range required {
		if !seen[key] {
			p.bad(n, "add it", "%s lacks the key %q", what, key)
		}
	}
}

// text reads a scalar.
func (p *parser) text(to *string, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || strings.TrimSpace(n.Value) == "" {
			p.bad(n, "write one value", "%s is empty or not a single value", what)
			return
		}
		*to = n.Value
	}
}

// texts reads a mapping of scalars to scalars.
func (p *parser) texts(to *map[string]string, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			p.bad(n, "write {from: to, …}", "%s is no mapping", what)
			return
		}
		*to = map[string]string{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], resolve(n.Content[i+1])
			if _, ok := (*to)[key.Value]; ok {
				p.bad(key, "leave one of them out", "%s maps %q twice", what, key.Value)
			}
			if value.Kind != yaml.ScalarNode || value.Value == "" {
				p.bad(value, "write one value", "%s: the value of %q is empty or not a single value", what, key.Value)
				continue
			}
			(*to)[key.Value] = value.Value
		}
	}
}

func (p *parser) number(to *float64, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || !(v > 0 && v < 1) {
			p.bad(n, "write a number such as 0.1", "%s %q is no fraction between 0 and 1", what, n.Value)
			return
		}
		*to = v
	}
}

func (p *parser) source(to *source, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode {
			p.text(&to.URL, what)(n)
			return
		}
		p.mapping(n, what, map[string]func(*yaml.Node){
			"url": p.text(&to.URL, what),
			"sha256": func(n *yaml.Node) {
				if !hexDigest.MatchString(n.Value) {
					p.bad(n, "write the 64 small hexadecimal digits that sha256sum prints", "%q is no SHA-256", n.Value)
				}
				to.SHA256 = n.Value
			},
		}, "url")
	}
}

func (p *parser) entry(n *yaml.Node) entry {
	before := len(p.problems)
	e := entry{file: p.file, line: n.Line, Files: map[part]source{}}
	task := ""
	nodes := map[string]*yaml.Node{}
	keep := func(key string, f func(*yaml.Node)) func(*yaml.Node) {
		return func(n *yaml.Node) { nodes[key] = n; f(n) }
	}
	p.mapping(n, "the data set", map[string]func(*yaml.Node){
		"name":     keep("name", p.text(&e.Name, "name")),
		"task":     keep("task", p.text(&task, "task")),
		"format":   keep("format", p.text(&e.Format, "format")),
		"licence":  p.text(&e.Licence, "licence"),
		"citation": p.text(&e.Citation, "citation"),
		"homepage": p.text(&e.Homepage, "homepage"),
		"languages": func(n *yaml.Node) {
			for _, item := range append([]*yaml.Node{}, listOf(n)...) {
				if !language.MatchString(item.Value) {
					p.bad(item, "write codes such as da, nb or fo", "%q is no language code", item.Value)
				}
				e.Languages = append(e.Languages, item.Value)
			}
		},
		"file": keep("file", func(n *yaml.Node) {
			var s source
			p.source(&s, "file")(n)
			e.Files[all] = s
		}),
		"files": keep("files", func(n *yaml.Node) {
			read := map[string]func(*yaml.Node){}
			for _, part := range []part{"train", "val", "test"} {
				read[part] = func(n *yaml.Node) {
					var s source
					p.source(&s, "file")(n)
					e.Files[part] = s
				}
			}
			p.mapping(n, "files", read, "train")
		}),
		"split": keep("split", func(n *yaml.Node) {
			e.Split = &fractions{Seed: 4242}
			p.mapping(n, "split", map[string]func(*yaml.Node){
				"val":  p.number(&e.Split.Val, "val"),
				"test": p.number(&e.Split.Test, "test"),
				"seed": func(n *yaml.Node) {
					v, err := strconv.ParseUint(n.Value, 10, 32)
					if err != nil {
						p.bad(n, "write a whole number from 0 to 4294967295", "seed %q is no seed", n.Value)
					}
					e.Split.Seed = uint32(v)
				},
			})
		}),
		"columns":   keep("columns", p.texts(&e.Columns, "columns")),
		"labels":    keep("labels", p.texts(&e.Labels, "labels")),
		"separator": keep("separator", p.text(&e.Separator, "separator")),
		"key":       keep("key", p.text(&e.Key, "key")),
		"scheme":    keep("scheme", p.text(&e.Scheme, "scheme")),
	}, "name", "task", "languages", "licence", "format")
	e.Task = datasets.Kind(task)
	if n.Kind != yaml.MappingNode {
		return e
	}
	p.checkEntry(&e, n, nodes, len(p.problems) == before)
	return e
}

func listOf(n *yaml.Node) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}
	}
	var items []*yaml.Node
	for _, item := range n.Content {
		items = append(items, resolve(item))
	}
	return items
}

// checkEntry looks at what keys mean together. Conditions on a key that is
// missing or malformed are left out: its own problem is enough.
func (p *parser) checkEntry(e *entry, n *yaml.Node, nodes map[string]*yaml.Node, whole bool) {
	if at := nodes["name"]; at != nil && e.Name != "" && !validName.MatchString(e.Name) {
		p.bad(at, "use small letters, digits, dots, dashes and underscores", "%q is no name", e.Name)
	}
	kinds, knownFormat := formats[e.Format]
	if at := nodes["format"]; at != nil && e.Format != "" && !knownFormat {
		p.bad(at, "there are "+quoteList(formatNames), "there is no format %q", e.Format)
	}
	knownTask := slices.Contains(formats["jsonl"], e.Task)
	if at := nodes["task"]; at != nil && e.Task != "" && !knownTask {
		p.bad(at, "there are ner, sentiment, acceptability, qa", "there is no task %q", e.Task)
	}
	if knownFormat && knownTask && !slices.Contains(kinds, e.Task) {
		p.bad(nodes["format"], "use "+strings.Join(formatsOf(e.Task), " or "), "the format %s cannot hold data for %s", e.Format, e.Task)
		return
	}
	p.checkFiles(e, n, nodes, whole)
	if !knownFormat || !knownTask {
		return
	}
	required, optional := columnNames(e.Format, e.Task)
	if len(required)+len(optional) == 0 && len(e.Columns) > 0 {
		p.bad(nodes["columns"], "leave columns out", "the format %s has no columns to name", e.Format)
		e.Columns = nil
	}
	for _, c := range sortedKeys(e.Columns) {
		if !slices.Contains(required, c) && !slices.Contains(optional, c) {
			p.bad(nodes["columns"], "there are "+quoteList(append(required, optional...)), "%s data have no column %q", e.Task, c)
		}
	}
	only := func(key, value string, wanted ...string) {
		if value != "" && !slices.Contains(wanted, e.Format) {
			p.bad(nodes[key], "leave it out", "key %q is for the format %s only", key, strings.Join(wanted, " or "))
		}
	}
	only("separator", e.Separator, "csv")
	only("key", e.Key, "conllu")
	only("scheme", e.Scheme, "conll", "conllu", "jsonl")
	if e.Separator != "" && len([]rune(e.Separator)) != 1 {
		p.bad(nodes["separator"], `write separator: ";"`, "separator %q is not one character", e.Separator)
	}
	if e.Scheme != "" && (e.Task != datasets.NER || e.Scheme != "iob1" && e.Scheme != "iob2") {
		p.bad(nodes["scheme"], "write iob2 (every entity begins with B-) or iob1 (only where two touch), with task: ner", "there is no scheme %q for %s", e.Scheme, e.Task)
	}
	if e.Task == datasets.QA && e.Labels != nil {
		p.bad(nodes["labels"], "leave it out", "questions have no labels")
	}
	if e.Task == datasets.Acceptability {
		for _, from := range sortedKeys(e.Labels) {
			if to := e.Labels[from]; to != "correct" && to != "incorrect" {
				p.bad(nodes["labels"], "map every label to correct or incorrect", "label %q becomes %q", from, to)
			}
		}
	}
	if e.Format == "conll" {
		for _, c := range sortedKeys(e.Columns) {
			if v, err := strconv.Atoi(e.Columns[c]); err != nil || v < 1 {
				p.bad(nodes["columns"], "count columns from 1", "column %s is %q, which is no column number", c, e.Columns[c])
			}
		}
	}
}

func (p *parser) checkFiles(e *entry, n *yaml.Node, nodes map[string]*yaml.Node, whole bool) {
	switch {
	case nodes["file"] != nil && nodes["files"] != nil:
		p.bad(nodes["files"], "use file for one file that is split, files for one file a split", "there are both file and files")
		return
	case nodes["file"] == nil && nodes["files"] == nil:
		p.bad(n, "add file: PATH, or files: {train: PATH, val: PATH, test: PATH}", "the data set has no files")
		return
	case !whole:
		return
	}
	val, test := 0.0, 0.0
	if e.Split != nil {
		val, test = e.Split.Val, e.Split.Test
	}
	for _, s := range []struct {
		part     part
		fraction float64
	}{{"val", val}, {"test", test}} {
		_, given := e.Files[s.part]
		switch {
		case given && s.fraction > 0:
			p.bad(nodes["split"], "leave one of them out", "%s has a file and a fraction", s.part)
		case !given && s.fraction == 0:
			p.bad(n, fmt.Sprintf("add its file under files, or split: {%s: 0.1, seed: 4242}", s.part), "the data set has no %s rows", s.part)
		}
	}
	if val+test >= 1 {
		p.bad(nodes["split"], "make the fractions smaller", "val and test leave nothing for train")
	}
}

func formatsOf(k datasets.Kind) []string {
	var out []string
	for _, f := range formatNames {
		if slices.Contains(formats[f], k) {
			out = append(out, f)
		}
	}
	return out
}
