package published

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/hub"
	"bench/datasets/hub/hubtest"
	"bench/datasets/mirror"
	"bench/datasets/recipes"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

func encode[T any](t *testing.T, rows []T, o ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := parquet.Write(&b, rows, o...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type textRow struct {
	Text  string `parquet:"text"`
	Label string `parquet:"label"`
}

func reviews(t *testing.T, n int, prefix string) []byte {
	var rows []textRow
	for i := range n {
		rows = append(rows, textRow{fmt.Sprintf("%s %d er god", prefix, i), []string{"positive", "NEGATIVE", "neutral"}[i%3]})
	}
	return encode(t, rows)
}

const head = "---\nlanguage:\n- da\nlicense: cc0-1.0\n---\n# Reviews\n"

func sentiment(t *testing.T) map[string][]byte {
	return map[string][]byte{
		"README.md":                            []byte(head),
		".gitattributes":                       []byte("*.parquet filter=lfs\n"),
		"data/train-00000-of-00002-0a.parquet": reviews(t, 4, "Den"), "data/train-00001-of-00002-0b.parquet": reviews(t, 2, "Vin"),
		"data/val-00000-of-00001-0c.parquet":  reviews(t, 2, "Mad"),
		"data/test-00000-of-00001-0d.parquet": reviews(t, 3, "Bog"),
	}
}

func client(t *testing.T, s *hubtest.Server) *hub.Client {
	return &hub.Client{Endpoint: s.URL, Cache: t.TempDir(), Attempts: 2, Backoff: 1}
}

func get(t *testing.T, h Hub, name string) (Found, error) {
	t.Helper()
	s, err := Parse(name)
	if err != nil {
		return Found{}, err
	}
	return Get(t.Context(), h, s)
}

// rows runs the recipe on the files that came with it.
func rows(t *testing.T, f Found) map[datasets.Split][]datasets.Row {
	t.Helper()
	in := &recipes.Input{Recipe: &f.Recipe}
	for _, s := range f.Recipe.Sources {
		in.Files = append(in.Files, f.Files[s.URL])
	}
	out, err := f.Recipe.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Rows
}

// From the Hub, then from the cache without any request but one, then offline,
// then by commit without any; and a damaged file of the cache is fetched again.
func TestGet(t *testing.T) {
	s := hubtest.New()
	defer s.Close()
	repo := s.AddDataset("org/reviews", sentiment(t))
	c := client(t, s)
	f, err := get(t, c, "hub:org/reviews")
	if err != nil {
		t.Fatal(err)
	}
	commit := repo.Head("main")
	r := f.Recipe
	if r.Name != "hub--org--reviews@"+commit[:12] || r.Kind != datasets.Sentiment || !slices.Equal(r.Languages, []string{"da"}) || r.Licence != "cc0-1.0" || r.Sizes != (recipes.Sizes{Train: 6, Val: 2, Test: 3}) {
		t.Errorf("%+v", r)
	}
	want := s.URL + "/datasets/org/reviews/resolve/" + commit + "/data/train-00000-of-00002-0a.parquet"
	if len(r.Sources) != 5 || r.Sources[0].URL != want || r.Sources[0].SHA256 != f.Files[want].SHA256 {
		t.Errorf("sources %+v", r.Sources)
	}
	got := rows(t, f)
	if d := cmp.Diff(datasets.Row{ID: "train-5", Text: "Vin 0 er god", Label: "positive"}, got[datasets.Train][4]); d != "" {
		t.Error(d)
	}
	if got[datasets.Test][1].Label != "negative" {
		t.Errorf("%+v", got[datasets.Test][1])
	}
	for _, link := range []string{"refs/main", "snapshots/" + commit + "/data/val-00000-of-00001-0c.parquet"} {
		if _, err := os.Stat(filepath.Join(c.Cache, "datasets--org--reviews", link)); err != nil {
			t.Error(err)
		}
	}

	s.Requests()
	again, err := get(t, c, "hub:org/reviews")
	if err != nil || again.Recipe.Definition != r.Definition || len(s.Requests()) != 1 {
		t.Errorf("again: %+v, error %v", again.Recipe, err)
	}
	pinned, err := get(t, c, "hub:org/reviews@"+commit)
	if err != nil || pinned.Recipe.Definition != r.Definition || len(s.Requests()) != 0 {
		t.Errorf("pinned: %+v, error %v", pinned.Recipe, err)
	}
	offline := *c
	offline.Offline = true
	if f, err := get(t, &offline, "hub:org/reviews"); err != nil || f.Recipe.Definition != r.Definition || !slices.Equal(f.Recipe.Languages, []string{"da"}) {
		t.Errorf("offline: %+v, error %v", f.Recipe, err)
	}

	blob := f.Files[want].Path
	if err := os.WriteFile(blob, []byte("damaged"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, &offline, "hub:org/reviews"); !errors.Is(err, &hub.Error{Kind: hub.Corrupted}) {
		t.Errorf("damaged and offline: %v", err)
	}
	if f, err := get(t, c, "hub:org/reviews"); err != nil || f.Files[want].SHA256 != r.Sources[0].SHA256 {
		t.Errorf("damaged: %v", err)
	}
}

// A mirror that was filled from the Hub serves without it: by commit, and by
// branch while there is one commit only.
func TestMirrored(t *testing.T) {
	s := hubtest.New()
	repo := s.AddDataset("org/reviews", sentiment(t))
	first := repo.Head("main")
	want, err := get(t, client(t, s), "hub:org/reviews")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fill := func(f Found) *fetch.Mirror {
		var wanted []mirror.Wanted
		for _, s := range f.Recipe.Sources {
			wanted = append(wanted, mirror.Wanted{Source: s})
		}
		if err := mirror.Fill(t.Context(), dir, getter(f.Files), wanted, func(e mirror.Event) {}); err != nil {
			t.Fatal(err)
		}
		m, err := fetch.OpenMirror(dir)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := fill(want)
	changed := sentiment(t)
	changed["data/val-00000-of-00001-0c.parquet"] = reviews(t, 5, "Nyt")
	second := repo.Commit("main", changed)
	later, err := get(t, client(t, s), "hub:org/reviews")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	h := Mirrored{Mirror: m, Next: &hub.Client{Endpoint: s.URL, Cache: t.TempDir(), Offline: true}}
	for _, name := range []string{"hub:org/reviews", "hub:org/reviews@v1", "hub:org/reviews@" + first} {
		got, err := get(t, h, name)
		if err != nil || got.Recipe.Name != want.Recipe.Name || got.Recipe.Definition != want.Recipe.Definition {
			t.Errorf("%s: %+v, error %v", name, got.Recipe, err)
		}
	}
	h.Mirror = fill(later)
	if _, err := get(t, h, "hub:org/reviews"); !errors.Is(err, &hub.Error{Kind: hub.OfflineMode}) {
		t.Errorf("two commits: %v", err)
	}
	if got, err := get(t, h, "hub:org/reviews@"+second); err != nil || got.Recipe.Name != later.Recipe.Name {
		t.Errorf("%v", err)
	}
}

// getter serves files that are at hand.
type getter map[string]fetch.File

func (g getter) Fetch(_ context.Context, s fetch.Source) (fetch.File, error) { return g[s.URL], nil }

func TestRevisions(t *testing.T) {
	s := hubtest.New()
	defer s.Close()
	repo := s.AddDataset("org/reviews", sentiment(t))
	first := repo.Head("main")
	changed := sentiment(t)
	changed["data/val-00000-of-00001-0c.parquet"] = reviews(t, 5, "Nyt")
	second := repo.Commit("main", changed)
	repo.Commit("v1", sentiment(t))
	converted := map[string][]byte{"README.md": []byte(head)}
	for _, split := range []string{"train", "validation", "test"} {
		converted["default/"+split+"/0000.parquet"] = reviews(t, 3, split)
	}
	third := repo.Commit("refs/convert/parquet", converted)
	c := client(t, s)
	for name, want := range map[string]string{"hub:org/reviews@refs/convert/parquet": third, "hub:org/reviews": second, "hub:org/reviews@v1": first, "hub:org/reviews@" + first: first} {
		f, err := get(t, c, name)
		if err != nil || f.Recipe.Name != Name("org/reviews", want) {
			t.Errorf("%s: %s, error %v", name, f.Recipe.Name, err)
		}
	}
}

func TestRefused(t *testing.T) {
	s := hubtest.New()
	defer s.Close()
	gated := s.AddDataset("org/gated", sentiment(t))
	gated.Gated, gated.Readers = "manual", []string{"hf_good"}
	private := s.AddDataset("org/private", sentiment(t))
	private.Private, private.Readers = true, []string{"hf_good"}
	s.AddDataset("org/open", sentiment(t))
	for _, test := range []struct {
		name, token string
		kind        hub.Kind
		hint        string
	}{
		{"hub:org/gated", "", hub.Gated, "/datasets/org/gated"},
		{"hub:org/gated", "hf_other", hub.Gated, "account"},
		{"hub:org/private", "", hub.NoModel, "the data set is private"},
		{"hub:org/none", "", hub.NoModel, "spelling"},
		{"hub:org/open@v9", "", hub.NoRevision, "/datasets/org/open/refs"},
		{"hub:org/open", "unknown", hub.BadToken, "HF_TOKEN"},
		{"hub:../x", "", hub.BadName, "hub:org/name"},
	} {
		c := client(t, s)
		c.Token = test.token
		_, err := get(t, c, test.name)
		e, ok := errors.AsType[*hub.Error](err)
		if !ok || e.Kind != test.kind || !strings.Contains(e.Hint(), test.hint) || !strings.HasPrefix(e.Error(), "data set ") {
			t.Errorf("%s: %v", test.name, err)
			if ok {
				t.Log(e.Hint())
			}
		}
	}
	for _, name := range []string{"hub:org/gated", "hub:org/private"} {
		c := client(t, s)
		c.Token = "hf_good"
		if _, err := get(t, c, name); err != nil {
			t.Error(err)
		}
	}
	c := client(t, s)
	c.Offline = true
	if _, err := get(t, c, "hub:org/open"); !errors.Is(err, &hub.Error{Kind: hub.OfflineMode}) {
		t.Errorf("offline: %v", err)
	}
	s.Inject(hubtest.Fault{Storage: true, Path: "val-", Corrupt: true})
	if _, err := get(t, client(t, s), "hub:org/open"); !errors.Is(err, &hub.Error{Kind: hub.Corrupted}) {
		t.Errorf("corrupt: %v", err)
	}
	s.Mend()
	s.Inject(hubtest.Fault{Storage: true, Path: "val-", Cut: 100, Times: 1})
	if _, err := get(t, client(t, s), "hub:org/open"); err != nil {
		t.Errorf("cut off once: %v", err)
	}
	c = client(t, s)
	s.Close()
	if _, err := get(t, c, "hub:org/open"); !errors.Is(err, &hub.Error{Kind: hub.Unreachable}) {
		t.Errorf("unreachable: %v", err)
	}
}

func TestColumns(t *testing.T) {
	type strange struct {
		Title string  `parquet:"title"`
		Score float64 `parquet:"score"`
	}
	type stars struct {
		Text  string `parquet:"text"`
		Label int64  `parquet:"label"`
	}
	all := func(b []byte) map[string][]byte {
		return map[string][]byte{"README.md": []byte(head), "train.parquet": b, "validation.parquet": b, "test.parquet": b}
	}
	s := hubtest.New()
	defer s.Close()
	s.AddDataset("org/strange", all(encode(t, []strange{{"a", 1}})))
	s.AddDataset("org/stars", all(encode(t, []stars{{"god", 4}})))
	s.AddDataset("org/topics", all(encode(t, []textRow{{"a", "sport"}, {"b", "politik"}})))
	s.AddDataset("org/broken", all([]byte("PAR1 and no more PAR1")))
	quiet := all(reviews(t, 3, "Den"))
	delete(quiet, "README.md")
	s.AddDataset("org/quiet", quiet)
	s.AddDataset("org/csv", map[string][]byte{"train.csv": []byte("text,label\n")})
	s.AddDataset("org/short", map[string][]byte{"train.parquet": reviews(t, 1, "x"), "test.parquet": reviews(t, 1, "y")})
	s.AddDataset("org/part", map[string][]byte{"data/train-00000-of-00002.parquet": nil, "data/val-00000-of-00001.parquet": nil, "data/test-00000-of-00001.parquet": nil})
	two := map[string][]byte{"README.md": []byte(head)}
	for _, split := range []string{"train", "validation", "test"} {
		two["da/"+split+"/0000.parquet"], two["sv/"+split+"/0000.parquet"] = reviews(t, 3, "d"+split), reviews(t, 4, "s"+split)
	}
	s.AddDataset("org/two", two)
	for _, test := range []struct{ name, want, hint string }{
		{"hub:org/strange", "title, score", "tokens, labels"},
		{"hub:org/stars", "which classes", "catalog"},
		{"hub:org/topics", "politik, sport", "catalog"},
		{"hub:org/topics?task=ner", "not those of ner", ""},
		{"hub:org/topics?task=sentiment", `row 1: label "sport"`, ""},
		{"hub:org/broken", "train.parquet: no readable Parquet", "catalog"},
		{"hub:org/quiet", "which language", "?language=da"},
		{"hub:org/csv", ".csv", ""},
		{"hub:org/short", "no split val", ""},
		{"hub:org/part", "1 files of 2", ""},
		{"hub:org/two", "?config=da or ?config=sv", ""},
		{"hub:org/two?config=is", "no configuration", ""},
		{"hub:org/two?tsk=ner", "unknown option", "task="},
		{"hub:org/two?task=speed", "no task", ""},
		{"hub:org/two?language=Danish", "language code", ""},
	} {
		_, err := get(t, client(t, s), test.name)
		var h interface{ Hint() string }
		if err == nil || !strings.Contains(err.Error(), test.want) || test.hint != "" && (!errors.As(err, &h) || !strings.Contains(h.Hint(), test.hint)) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	f, err := get(t, client(t, s), "hub:org/two?config=sv&language=sv")
	if err != nil || f.Recipe.Sizes.Train != 4 || f.Recipe.Languages[0] != "sv" {
		t.Errorf("%+v, error %v", f.Recipe, err)
	}
	if f, err = get(t, client(t, s), "hub:org/quiet?language=sv,no"); err != nil || len(f.Recipe.Languages) != 2 {
		t.Errorf("%+v, error %v", f.Recipe, err)
	}
}

// The layouts of Parquet that the Hub's own library and others write: files
// made with datasets 2.x and pyarrow 14 (testdata/make.py).
func TestLayouts(t *testing.T) {
	ner := []datasets.Row{
		{ID: "train-1", Tokens: []string{"Åse", "bor", "i", "Vik", "."}, Labels: []string{"B-PER", "O", "O", "B-LOC", "O"}, Text: "Åse bor i Vik ."},
		{ID: "train-2", Tokens: []string{"Hun", "ler", "."}, Labels: []string{"O", "O", "O"}, Text: "Hun ler ."},
	}
	qa := func(a, b string) []datasets.Row {
		return []datasets.Row{
			{ID: a, Question: "Hvor bor hun?", Context: "Hun bor i Vik.", Answers: &datasets.Answers{Text: []string{"Vik"}, Start: []int{10}}},
			{ID: b, Question: "Hvem?", Context: "Ingen er her.", Answers: &datasets.Answers{Text: []string{}, Start: []int{}}},
		}
	}
	for file, test := range map[string]struct {
		kind datasets.Kind
		rows []datasets.Row
		err  string
	}{
		"ner-strings": {kind: datasets.NER, rows: ner},
		"ner-classes": {kind: datasets.NER, rows: ner},
		"la": {kind: datasets.Acceptability, rows: []datasets.Row{
			{ID: "train-1", Text: "Hun ler .", Label: "correct"},
			{ID: "train-2", Text: "Ler hun hun .", Label: "incorrect", Corruption: &datasets.Corruption{Type: "flip_neighbours"}},
			{ID: "train-3", Text: "Vi går .", Label: "correct"},
		}},
		"sent": {kind: datasets.Sentiment, rows: []datasets.Row{
			{ID: "train-1", Text: "godt", Label: "positive"}, {ID: "train-2", Text: "skidt", Label: "negative"}, {ID: "train-3", Text: "ved ikke", Label: "neutral"},
		}},
		"qa":         {kind: datasets.QA, rows: qa("a", "b")},
		"qa-structs": {kind: datasets.QA, rows: qa("1", "2")},
		"null":       {err: "null"},
	} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join("testdata", file+".parquet")
			table, err := readParquet(path, isUniform)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			k, err := infer(table, Spec{ID: "org/x"})
			if err != nil || k != test.kind {
				t.Fatalf("task %s, error %v", k, err)
			}
			in := &recipes.Input{
				Recipe: &recipes.Recipe{Kind: k, Sources: []fetch.Source{{URL: file}}},
				Files:  []fetch.File{{Path: path}},
			}
			out, err := read(in, Spec{ID: "org/x"}, []datasets.Split{datasets.Train})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.rows, out.Rows[datasets.Train]); d != "" {
				t.Error(d)
			}
		})
	}
}

// Whatever the bytes are, reading them ends, and without a panic.
func FuzzParquet(f *testing.F) {
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "x.parquet")
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		table, err := readParquet(path, isUniform)
		if err != nil {
			return
		}
		k, err := infer(table, Spec{ID: "x"})
		if err != nil {
			return
		}
		for i := range table.n {
			if _, err := table.row(k, i); err != nil {
				return
			}
		}
	})
}

func TestCancel(t *testing.T) {
	s := hubtest.New()
	defer s.Close()
	s.AddDataset("org/reviews", sentiment(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Get(ctx, client(t, s), Spec{ID: "org/reviews", Revision: "main"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
