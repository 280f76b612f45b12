package published

import (
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"bench/datasets/hub"
)

// card is the file in which a repository describes itself.
const card = "README.md"

// about is what a card tells machines.
type about struct {
	languages []string
	licence   string
}

// readCard reads the YAML at the head of a card. One that cannot be understood
// tells nothing: it is not written for this program.
func readCard(path string) (about, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return about{}, err
	}
	var head struct {
		Language yaml.Node `yaml:"language"`
		License  yaml.Node `yaml:"license"`
	}
	if yaml.Unmarshal(hub.CardHead(text), &head) != nil {
		return about{}, nil
	}
	a := about{licence: strings.Join(scalars(head.License), ", ")}
	for _, l := range scalars(head.Language) {
		switch {
		case l == "no": // both written languages
			a.languages = append(a.languages, "nb", "nn")
		case language.MatchString(l):
			a.languages = append(a.languages, l)
		}
	}
	slices.Sort(a.languages)
	a.languages = slices.Compact(a.languages)
	return a, nil
}

// scalars are the values of a scalar or of a list of them, as they are written:
// "no" is a language, not false.
func scalars(n yaml.Node) []string {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}
	case yaml.SequenceNode:
		var out []string
		for _, c := range n.Content {
			if c.Kind == yaml.ScalarNode {
				out = append(out, c.Value)
			}
		}
		return out
	}
	return nil
}
