package hub_test

import (
	"strings"
	"testing"

	"bench/datasets/hub"
	"bench/datasets/hub/hubtest"
)

// A licence comes from what the Hub tells of the card, and from the card where a
// whole folder is there.
func TestLicence(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for i, c := range []struct{ head, want string }{
		{"license: apache-2.0\n", "apache-2.0"},
		{"license: MIT\n", "mit"},
		{"license:\n- mit\n- cc-by-4.0\n", "mit, cc-by-4.0"},
		{"license: other\nlicense_name: \"Open\\tModel  1.0\"\nlicense_link: LICENSE\n", "open model 1.0"},
		{"license: other\n", "other"},
		{"license: [other]\nlicense_name: [1]\n", "other"},
		{"license: 3\n", ""},
		{"language: da\n", ""},
		{"license: " + strings.Repeat("x", 100) + "\n", strings.Repeat("x", 60)},
	} {
		id := "org/licensed-" + string(rune('a'+i))
		files := hubtest.Model()
		files["README.md"] = []byte("---\n" + c.head + "---\n# A model\n")
		s.Add(id, files)
		info, err := newClient(t, s).Resolve(t.Context(), id, "main")
		if err != nil || info.Licence != c.want {
			t.Errorf("%q: the Hub says %q, %v; want %q", c.head, info.Licence, err, c.want)
		}
		local, err := hub.Local(t.Context(), folder(t, files), hub.Options{}, "")
		if err != nil || local.Licence != c.want {
			t.Errorf("%q: the folder says %q, %v; want %q", c.head, local.Licence, err, c.want)
		}
	}
	for _, readme := range []string{"", "# A model\n", "---\nlicense: mit\n", "---\n: [\n---\n"} {
		files := hubtest.Model()
		files["README.md"] = []byte(readme)
		if local, err := hub.Local(t.Context(), folder(t, files), hub.Options{}, ""); err != nil || local.Licence != "" {
			t.Errorf("%q: the folder says %q, %v; want none", readme, local.Licence, err)
		}
	}
}

// Found tells the licence whether or not the model is to be downloaded.
func TestLicenceOfFound(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	files := hubtest.Model()
	files["README.md"] = []byte("---\nlicense: cc0-1.0\n---\n")
	s.Add("org/model", files)
	c := newClient(t, s)
	for _, state := range []string{"new", "downloaded"} {
		f, err := c.Find(t.Context(), "org/model", "main", hub.Options{})
		if err != nil || f.Licence != "cc0-1.0" {
			t.Errorf("%s: %q, %v", state, f.Licence, err)
		}
		if snap, err := c.Download(t.Context(), f.Info, hub.Options{}); err != nil || snap.Licence != "cc0-1.0" {
			t.Errorf("%s: downloaded with %q, %v", state, snap.Licence, err)
		}
	}
}
