package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// mostText is as large as a sweep's file, or a list of models, may be.
const mostText = 4 << 20

// readText reads a file that people write: UTF-8, of a size that they can look
// through.
func readText(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostText+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostText {
		return nil, fmt.Errorf("%s has more than %d MiB, too much for a file that people write", path, mostText>>20)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	line := 1
	for rest := text; len(rest) > 0; {
		c, n := utf8.DecodeRune(rest)
		switch {
		case c == utf8.RuneError && n == 1:
			return nil, fmt.Errorf("%s:%d: this is not UTF-8 (byte %#x): save the file in that encoding", path, line, rest[0])
		case c == '\n':
			line++
		case c < ' ' && c != '\t' && c != '\r' || c == 0x7f:
			return nil, fmt.Errorf("%s:%d: a control character (%U) stands there: take it out", path, line, c)
		}
		rest = rest[n:]
	}
	return text, nil
}

var (
	yamlLine      = regexp.MustCompile(`^line ([0-9]+): `)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced`)
)

// syntaxError says where a text is no YAML, and what to do about it.
func syntaxError(path string, text []byte, err error) error {
	what, hint := strings.TrimPrefix(err.Error(), "yaml: "), "it is YAML: check brackets, quotes and indentation there"
	lines := strings.Split(string(text), "\n")
	line := 0
	switch m, a := yamlLine.FindStringSubmatch(what), unknownAnchor.FindStringSubmatch(what); {
	case m != nil:
		line, _ = strconv.Atoi(m[1])
		what = what[len(m[0]):]
		if strings.HasPrefix(what, "did not find expected") { // the parser counts from 0
			line++
		}
	case a != nil:
		for i, l := range lines {
			if strings.Contains(l, "*"+a[1]) {
				line = i + 1
				break
			}
		}
		hint = "* stands for a value that & names before; put a text with * in quotes"
	case !strings.Contains(what, "depth") && !strings.Contains(what, "aliasing"):
		line = 1 // of which it says nothing
	}
	if line == 0 {
		return usage(hint, "%s: %s", path, what)
	}
	switch own := lines[min(line, len(lines))-1]; {
	case strings.Contains(own[:len(own)-len(strings.TrimLeft(own, " \t"))], "\t"):
		hint = "indent with blanks: YAML takes no tabs there"
	case strings.HasPrefix(what, "mapping values"):
		hint = "a text with a colon and a blank in it needs quotes; a key begins a line"
	}
	return usage(hint, "%s:%d: %s", path, line, what)
}

// look notes where the file's keys stand, and what the decoder lets pass: keys
// without a value, keys that are no words, empty lists, and tags.
func (r *sweepReader) look(n *yaml.Node) {
	if n.Style&yaml.TaggedStyle != 0 {
		r.at(n.Line, fmt.Errorf("the tag %s means nothing here: take it out", n.Tag))
	}
	if n.Kind != yaml.MappingNode {
		for _, item := range n.Content {
			r.look(item)
		}
		return
	}
	top := len(r.lines) == 0
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if top {
			r.lines[key.Value] = key.Line
		}
		switch {
		case key.Tag == "!!null":
			r.at(key.Line, errors.New("there is no key "+key.Value))
		case value.Tag == "!!null":
			r.at(key.Line, fmt.Errorf("%s has no value: give it one, or leave the key out", key.Value))
		case value.Kind == yaml.SequenceNode && len(value.Content) == 0 && key.Value != "models":
			r.at(key.Line, fmt.Errorf("%s is an empty list: name something, or leave the key out", key.Value))
		}
		r.look(value)
	}
}

// unknownKey is how the decoder says that a mapping has a key too many, wrongType
// that a value is of another type.
var (
	unknownKey = regexp.MustCompile(`^field (.*) not found in type (.*)$`)
	wrongType  = regexp.MustCompile("^cannot unmarshal !!([a-z]+)(?: `(.*)`)? into (.*)$")
)

// keysOf are the keys of mappings, by the name of their type.
var keysOf = func() map[string][]string {
	out := map[string][]string{}
	for _, t := range []reflect.Type{reflect.TypeFor[sweepFile](), reflect.TypeFor[budgetEntry](), reflect.TypeFor[slurmOptions](), reflect.TypeFor[kubernetesOptions](), reflect.TypeFor[kubernetesPVC](), reflect.TypeFor[kubernetesStore]()} {
		for i := range t.NumField() {
			out[t.String()] = append(out[t.String()], t.Field(i).Tag.Get("yaml"))
		}
	}
	return out
}()

// typeErrors are what a decoder found wrong, "line 3: field modles not found in
// type main.sweepFile", in words, with the file.
func typeErrors(path string, types *yaml.TypeError) (errs []error) {
	for _, e := range types.Errors {
		line, what, _ := strings.Cut(strings.TrimPrefix(e, "line "), ": ")
		if m := unknownKey.FindStringSubmatch(what); m != nil {
			what = noKey(m[1], keysOf[m[2]])
		} else if m := wrongType.FindStringSubmatch(what); m != nil {
			value := fmt.Sprintf("%q", m[2])
			if m[2] == "" {
				value = map[string]string{"map": "a mapping", "seq": "a list"}[m[1]]
			}
			wanted := map[string]string{
				"int": "a whole number", "float64": "a number", "bool": "true or false", "string": "one text", "[]string": "a list of texts, such as [a, b]",
				"time.Duration": "a time, such as 6h or 30m", "[]yaml.Node": "a list", "[]main.hostEntry": "a list", "words": "a list of texts, such as [a, b]",
			}[m[3]]
			if wanted == "" {
				wanted = "a mapping, key: value"
			}
			what = fmt.Sprintf("%s stands where %s is wanted", value, wanted)
		}
		errs = append(errs, fmt.Errorf("%s:%s: %s", path, line, what))
	}
	return errs
}

// noKey says that there is no such key, and which is meant perhaps.
func noKey(key string, keys []string) string {
	text := "there is no key " + key
	if len(keys) <= 12 && len(keys) > 0 {
		return text + "; there are " + strings.Join(keys, ", ")
	}
	best, at := 3, ""
	for _, k := range keys {
		if d := distance(key, k); d < best {
			best, at = d, k
		}
	}
	if at != "" {
		text += "; did you mean " + at + "?"
	}
	return text
}

// distance is the Levenshtein distance of two words, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
