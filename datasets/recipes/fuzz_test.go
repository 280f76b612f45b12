package recipes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/datasets/fetch"
)

// Whatever the bytes of a source: no recipe panics, and one that fails names the
// file, or says how many rows it wanted.
func FuzzMake(f *testing.F) {
	all := All()
	treebank := "# sent_id = 1\n# text = Anna sover .\n1\tAnna\t_\tPROPN\t_\t_\t_\t_\t_\tname=B-PER\n2\tsover\t_\tVERB\t_\t_\t_\t_\t_\tname=O\n3\t.\t_\tPUNCT\t_\t_\t_\t_\t_\tname=O\n\n"
	for i, r := range all {
		switch {
		case len(r.Sources) == 0:
		case r.Name == "suc3":
			f.Add(uint8(i), []byte(`<c><sentence id="1"><name type="person"><w>Anna</w></name><w>sover</w></sentence></c>`))
		case r.Name == "mim-gold-ner", r.Name == "dane":
			f.Add(uint8(i), zipOf(f, map[string]string{"a/blog.txt": "Anna\tB-Person\nsover\tO\n", "ddt.train.conllu": treebank}))
		case r.Name == "fone":
			f.Add(uint8(i), []byte("Anna\tB-Person\nsover\tO\n\nHej\tO\n"))
		case strings.HasPrefix(r.Name, "uner"):
			f.Add(uint8(i), []byte("# sent_id = 1\n# text = Anna\n1\tAnna\tB-PER\t-\t-\n"))
		case r.Name == "wikiann-fo":
			f.Add(uint8(i), []byte(`{"doc":"a","tokens":["a"],"ner_tags":["O"]}`))
		case r.Name == "angry-tweets":
			f.Add(uint8(i), []byte(`{"text":"a","label":"neutral"}`))
		case r.Name == "norec":
			f.Add(uint8(i), []byte(`[{"sent_id":"1-1","text":"a","label":"Neutral"}]`))
		case r.Name == "swerec":
			f.Add(uint8(i), []byte("index,text,rating\r\r\n1,bra,positive\r\r\n"))
		case r.Kind == "qa":
			f.Add(uint8(i), []byte(`{"data":[{"paragraphs":[{"context":"abc","qas":[{"id":"1","question":"q","answers":[{"text":"c","answer_start":2}]}]}]}]}`))
		default:
			f.Add(uint8(i), []byte(treebank))
		}
	}
	path := filepath.Join(f.TempDir(), "source")
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		r := all[int(which)%len(all)]
		if len(r.Sources) == 0 {
			return
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		// So few rows that small inputs get as far as the draw.
		r.Sizes, r.Base = Sizes{2, 2, 2}, min(r.Base, 1)
		in := &Input{Recipe: &r, Files: make([]fetch.File, len(r.Sources))}
		for i := range in.Files {
			in.Files[i].Path = path
		}
		out, err := r.Make(in)
		if err == nil && out == nil {
			t.Fatal("neither rows nor an error")
		}
		named := func(s fetch.Source) bool { return strings.Contains(err.Error(), s.URL) }
		if err != nil && !slices.ContainsFunc(r.Sources, named) && !strings.Contains(err.Error(), "drawn from") && !strings.Contains(err.Error(), "cannot be corrupted") {
			t.Fatalf("%s: error %v", r.Name, err)
		}
	})
}
