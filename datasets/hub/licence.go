package hub

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// card is what the head of a README.md, the card of a repository, says of its
// licence: one identifier of the Hub's list or several. For a licence that is not
// in the list the identifier is other, and the name stands beside it.
type card struct {
	Licence any `json:"license" yaml:"license"`
	Name    any `json:"license_name" yaml:"license_name"`
}

// text is the licence in small letters, several joined by commas.
func (c card) text() string {
	var all []string
	add := func(v any) {
		if s, ok := v.(string); ok {
			if s = shown(s); s != "" {
				all = append(all, s)
			}
		}
	}
	if list, ok := c.Licence.([]any); ok {
		for _, v := range list {
			add(v)
		}
	} else {
		add(c.Licence)
	}
	if len(all) == 1 && all[0] == "other" {
		all = nil
		if add(c.Name); len(all) == 0 {
			return "other"
		}
	}
	return strings.Join(all, ", ")
}

// shown is a name that strangers wrote, fit for a table: printable, short and in
// small letters.
func shown(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return unicode.ToLower(r)
	}, s)
	r := []rune(strings.Join(strings.Fields(s), " "))
	return string(r[:min(60, len(r))])
}

// licence reads what the Hub tells of a card, or else the tags that it makes of one.
func licence(data json.RawMessage, tags []string) string {
	var c card
	if json.Unmarshal(data, &c) == nil {
		if s := c.text(); s != "" {
			return s
		}
	}
	var list []any
	for _, t := range tags {
		if name, ok := strings.CutPrefix(t, "license:"); ok {
			list = append(list, name)
		}
	}
	return card{Licence: list}.text()
}

// folderLicence reads the head of README.md in a folder. A card that cannot be
// read says nothing: it decides no score.
func folderLicence(dir string) string {
	text, err := readJSON(filepath.Join(dir, "README.md"))
	var c card
	if err != nil || yaml.Unmarshal(CardHead(text), &c) != nil {
		return ""
	}
	return c.text()
}

// maxCard bounds what is looked at of a card.
const maxCard = 1 << 20

var frontMatter = regexp.MustCompile(`(?s)\A\x{FEFF}?---\r?\n(.*?)\r?\n---`)

// CardHead returns the YAML at the head of a card; nil: there is none.
func CardHead(text []byte) []byte {
	m := frontMatter.FindSubmatch(text[:min(len(text), maxCard)])
	if m == nil {
		return nil
	}
	return m[1]
}
