package build

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"bench/datasets"
	"bench/datasets/catalog"
	"bench/datasets/datasetstest"
	"bench/datasets/fetch"
	"bench/datasets/recipes"
)

// withMirror returns a builder of all data sets whose sources are in the shared
// mirror, or skips.
func withMirror(t testing.TB, catalogue ...recipes.Recipe) *Builder {
	t.Helper()
	m, err := fetch.OpenMirror(datasetstest.Shared(t, "mirror"))
	if err != nil {
		t.Fatal(err)
	}
	b := without(t, catalogue...)
	b.Fetcher.Mirror = m
	return b
}

func without(t testing.TB, catalogue ...recipes.Recipe) *Builder {
	t.Helper()
	all, err := Recipes(catalogue...)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	return &Builder{Home: home, Recipes: all, Fetcher: &fetch.Fetcher{Dir: filepath.Join(home, "downloads"), Offline: true}}
}

// content returns the files of a data set by name.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

// All data sets that can be built here, twice, on one and on two cores: the
// same bytes, whole, and nothing else left behind.
func TestBuildTwice(t *testing.T) {
	first, second := withMirror(t), withMirror(t)
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, r := range first.Recipes {
		if slices.Contains([]string{"mim-gold-ner", "fone"}, r.Name) { // in no mirror: see TestFrom
			continue
		}
		var dirs [2]string
		for i, b := range []*Builder{first, second} {
			runtime.GOMAXPROCS(i + 1)
			d, err := b.Build(t.Context(), r.Name, Options{Partial: true})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if err := d.Verify(); err != nil {
					t.Error(err)
				}
			}
			dirs[i] = d.Dir
		}
		one, two := content(t, dirs[0]), content(t, dirs[1])
		if len(one) != 4 {
			t.Errorf("%s: files %v", r.Name, one)
		}
		for name, b := range one {
			if two[name] != b {
				t.Errorf("%s: %s differs", r.Name, name)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(first.Home, "datasets", ".*.build-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if got, err := os.ReadDir(filepath.Join(first.Home, "downloads")); err == nil && len(got) > 0 {
		t.Errorf("files of a mirror were copied: %v", got)
	}
	for _, i := range first.List() {
		if i.Status != Full && i.Status != Part && i.Status != Planned && i.Name != "mim-gold-ner" && i.Name != "fone" {
			t.Errorf("%s is %s: %s", i.Name, i.Status, i.Problem)
		}
		if (i.Status == Part) != slices.Contains([]string{"norquad", "scala-nb", "scala-nn", "suc3", "uner-nb", "uner-nn"}, strings.TrimSuffix(i.Name, "-scandeval")) {
			t.Errorf("%s is %s", i.Name, i.Status)
		}
	}
}

// The training part of NorQuAD is in no mirror: the build stops and says so.
func TestMissingSource(t *testing.T) {
	b := withMirror(t)
	_, err := b.Open(t.Context(), "norquad", Options{})
	var missing *MissingError
	if !errors.As(err, &missing) || len(missing.Sources) != 1 || missing.Of != 3 || !missing.Divisible {
		t.Fatalf("error %v", err)
	}
	var source *fetch.Error
	if !errors.As(err, &source) || !strings.Contains(err.Error(), "training_dataset_flattened.json") || !strings.Contains(missing.Hint(), "--partial") {
		t.Errorf("error %v, hint %q", err, missing.Hint())
	}
	if _, err := os.Stat(b.Dir("norquad")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a data set: %v", err)
	}

	d, err := b.Open(t.Context(), "norquad", Options{Partial: true})
	if err != nil {
		t.Fatal(err)
	}
	if d.Partial == nil || len(d.Partial.Missing) != 1 || d.Partial.Scale != 944.0/4752 {
		t.Errorf("partial %+v", d.Partial)
	}
	if n := [3]int{d.Counts[datasets.Train].Rows, d.Counts[datasets.Val].Rows, d.Counts[datasets.Test].Rows}; n != [3]int{203, 50, 406} {
		t.Errorf("sizes %v", n)
	}
	rows := map[datasets.Split][]datasets.Row{}
	for _, s := range datasets.Splits {
		if rows[s], err = d.Rows(s); err != nil {
			t.Fatal(err)
		}
	}
	full, err := datasets.Digest(d.Kind, rows, false)
	if err != nil || full == d.Digest {
		t.Errorf("digest %s of a partial data set is that of a full one; error %v", full, err)
	}
	// What was built in part does not serve as the full one.
	if _, err := b.Open(t.Context(), "norquad", Options{}); !errors.As(err, &missing) {
		t.Errorf("error %v", err)
	}
	if again, err := b.Open(t.Context(), "norquad", Options{Partial: true}); err != nil || again.Digest != d.Digest {
		t.Errorf("%v, error %v", again, err)
	}
	// With no source at all, --partial does not help either.
	empty := without(t)
	for _, name := range []string{"norquad", "dane"} {
		if _, err := empty.Open(t.Context(), name, Options{Partial: true}); !errors.As(err, &missing) || missing.Divisible || missing.Hint() != "" {
			t.Errorf("%s: error %v", name, err)
		}
	}
	// The rows of a treebank's dev and test part suffice for all of scala-nb.
	d, err = b.Open(t.Context(), "scala-nb", Options{Partial: true})
	if err != nil || d.Partial == nil || d.Counts[datasets.Test].Rows != 2048 || d.Counts[datasets.Train].Rows != 1024 {
		t.Errorf("%+v, error %v", d, err)
	}
}

// A stand-in for a source is on record, with its own digest.
func TestStandIn(t *testing.T) {
	b := withMirror(t)
	d, err := b.Open(t.Context(), "scala-da", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Partial != nil || len(d.Sources) != 3 || !strings.HasPrefix(d.Sources[0].Note, "reconstructed") || d.Sources[1].Note != "" || len(d.Sources[0].SHA256) != 64 {
		t.Errorf("sources %+v", d.Sources)
	}
	if !slices.ContainsFunc(d.Notes, func(n string) bool { return strings.Contains(n, "stand-in") && strings.Contains(n, "da_ddt-ud-train") }) {
		t.Errorf("notes %q", d.Notes)
	}
}

// toy returns a recipe on local files, and the file.
func toy(t *testing.T) (recipes.Recipe, string) {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "a.csv")
	var b strings.Builder
	b.WriteString("text,label\n")
	for i := range 50 {
		fmt.Fprintf(&b, "tekst %d,neutral\n", i)
	}
	yaml := "version: 1\ndatasets:\n  - {name: mine, task: sentiment, languages: [da], licence: private, format: csv, file: a.csv, split: {val: 0.2, test: 0.2}}\n"
	for path, text := range map[string]string{data: b.String(), filepath.Join(dir, "c.yaml"): yaml} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := catalog.Load(filepath.Join(dir, "c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return all[0], data
}

// A data set is opened as it is until its recipe, its definition or its file
// changes.
func TestOpenAgain(t *testing.T) {
	r, data := toy(t)
	made := 0
	inner := r.Make
	r.Make = func(in *recipes.Input) (*recipes.Output, error) { made++; return inner(in) }
	b := without(t, r)
	open := func() *datasets.Dataset {
		t.Helper()
		d, err := b.Open(t.Context(), "mine", Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := open()
	open()
	if made != 1 {
		t.Fatalf("made %d times", made)
	}
	f, err := os.OpenFile(data, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("ny,positive\n")
	f.Close()
	if d := open(); made != 2 || d.Digest == first.Digest {
		t.Errorf("made %d times after the file changed, digest the same: %v", made, d.Digest == first.Digest)
	}
	last := len(b.Recipes) - 1
	b.Recipes[last].Version = 2
	if info, _ := b.Show("mine"); info.Status != Outdated {
		t.Errorf("status %s", info.Status)
	}
	open()
	b.Recipes[last].Definition = "other"
	open()
	if made != 4 {
		t.Errorf("made %d times", made)
	}
	// Building anew what is there already leaves the files alone.
	was, err := os.Stat(filepath.Join(b.Dir("mine"), "train.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Build(t.Context(), "mine", Options{}); err != nil {
		t.Fatal(err)
	}
	if is, err := os.Stat(filepath.Join(b.Dir("mine"), "train.jsonl")); err != nil || !os.SameFile(was, is) || made != 5 {
		t.Errorf("made %d times; file changed, error %v", made, err)
	}
	// A damaged description is built again, and said.
	if err := os.WriteFile(filepath.Join(b.Dir("mine"), "dataset.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if info, _ := b.Show("mine"); info.Status != Broken || info.Problem == "" {
		t.Errorf("status %s", info.Status)
	}
	open()
	if made != 6 {
		t.Errorf("made %d times", made)
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	var source *fetch.Error
	if _, err := b.Open(t.Context(), "mine", Options{}); !errors.As(err, &source) || source.Kind != fetch.Missing {
		t.Errorf("error %v", err)
	}
}

// What a killed process left is cleaned up, and is never taken for a data set.
func TestKilledBuild(t *testing.T) {
	r, _ := toy(t)
	b := without(t, r)
	left := filepath.Join(b.Home, "datasets", ".mine.build-123")
	if err := os.MkdirAll(left, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "train.jsonl"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(t.Context(), "mine", Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
}

// Several builders on one home, as several processes would be: one build.
func TestConcurrent(t *testing.T) {
	r, _ := toy(t)
	var mu sync.Mutex
	made := 0
	inner := r.Make
	r.Make = func(in *recipes.Input) (*recipes.Output, error) {
		mu.Lock()
		made++
		mu.Unlock()
		return inner(in)
	}
	home := without(t, r).Home
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			b := without(t, r)
			b.Home = home
			d, err := b.Open(t.Context(), "mine", Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := d.Verify(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}

// Rows that no task could use never become a data set.
func TestCheck(t *testing.T) {
	rows := func(k datasets.Kind) map[datasets.Split][]datasets.Row {
		out := map[datasets.Split][]datasets.Row{}
		for _, s := range datasets.Splits {
			r := datasets.Row{ID: string(s), Text: "a"}
			switch k {
			case datasets.NER:
				r.Tokens, r.Labels = []string{"a"}, []string{"O"}
			case datasets.Acceptability:
				r.Label = "correct"
			case datasets.QA:
				r = datasets.Row{ID: string(s), Question: "q", Context: "abc", Answers: &datasets.Answers{Text: []string{"b"}, Start: []int{1}}}
			default:
				r.Label = "neutral"
			}
			out[s] = []datasets.Row{r}
		}
		return out
	}
	for name, test := range map[string]struct {
		kind   datasets.Kind
		change func(r *datasets.Row)
		msg    string
	}{
		"id twice":    {datasets.Sentiment, func(r *datasets.Row) { r.ID = "train" }, "taken by a row of train"},
		"no id":       {datasets.Sentiment, func(r *datasets.Row) { r.ID = "" }, "no id"},
		"no label":    {datasets.Sentiment, func(r *datasets.Row) { r.Label = "" }, "no label"},
		"bytes":       {datasets.Sentiment, func(r *datasets.Row) { r.Text = "\xff" }, "UTF-8"},
		"label":       {datasets.Acceptability, func(r *datasets.Row) { r.Label = "good" }, "neither correct nor incorrect"},
		"corruption":  {datasets.Acceptability, func(r *datasets.Row) { r.Corruption = &datasets.Corruption{} }, "a correct sentence"},
		"no answers":  {datasets.QA, func(r *datasets.Row) { r.Answers = nil }, "no answers"},
		"span":        {datasets.QA, func(r *datasets.Row) { r.Answers.Start[0] = 0 }, "code point 0"},
		"tags":        {datasets.NER, func(r *datasets.Row) { r.Labels = []string{"PER"} }, "none of O"},
		"number":      {datasets.NER, func(r *datasets.Row) { r.Labels = nil }, "0 labels for 1 tokens"},
		"empty token": {datasets.NER, func(r *datasets.Row) { r.Tokens = []string{" "} }, "token 1 is empty"},
		"no tokens":   {datasets.NER, func(r *datasets.Row) { r.Tokens, r.Labels = nil, nil }, "no tokens"},
	} {
		all := rows(test.kind)
		if err := check(recipes.Recipe{Kind: test.kind}, all); err != nil {
			t.Errorf("%s: before: %v", name, err)
		}
		test.change(&all[datasets.Test][0])
		if err := check(recipes.Recipe{Kind: test.kind}, all); err == nil || !strings.Contains(err.Error(), test.msg) {
			t.Errorf("%s: error %v, want %q", name, err, test.msg)
		}
	}
	all := rows(datasets.NER)
	all[datasets.Val] = nil
	if err := check(recipes.Recipe{Kind: datasets.NER}, all); err == nil || !strings.Contains(err.Error(), "no val rows") {
		t.Errorf("error %v", err)
	}
}

func TestSelect(t *testing.T) {
	r, _ := toy(t)
	b := without(t, r)
	for name, test := range map[string]struct {
		s    Selection
		want string // names, or part of the error after "!"
	}{
		"names":            {Selection{Names: []string{"swerec", "dane", "swerec"}}, "swerec dane"},
		"task":             {Selection{Tasks: []datasets.Kind{datasets.QA}, Languages: []string{"nb"}}, "norquad"},
		"task, language":   {Selection{Tasks: []datasets.Kind{datasets.NER}, Languages: []string{"no"}}, "norne-nb norne-nn uner-nb uner-nn"},
		"two languages":    {Selection{Tasks: []datasets.Kind{datasets.Sentiment}, Languages: []string{"sv", "nn"}}, "norec swerec"},
		"paper, LA":        {Selection{Suite: "paper", Tasks: []datasets.Kind{datasets.Acceptability}}, "scala-da scala-sv scala-nb scala-nn scala-is scala-fo"},
		"sample":           {Selection{Suite: "sample"}, "sample-ner sample-sentiment sample-acceptability sample-qa"},
		"a variant":        {Selection{Names: []string{"scala-da-scandeval"}}, "scala-da-scandeval"},
		"all, LA":          {Selection{Suite: "all", Tasks: []datasets.Kind{datasets.Acceptability}}, "scala-da scala-sv scala-nb scala-nn scala-is scala-fo"},
		"a sample by name": {Selection{Names: []string{"sample-qa"}}, "sample-qa"},
		"catalogue":        {Selection{Suite: "catalogue"}, "mine"},
		"paper":            {Selection{Suite: "paper"}, "!scandiqa-da: it belongs to the benchmark"},
		"all of paper":     {Selection{Suite: "paper"}, "!scandiqa-no: it belongs to the benchmark"},
		"planned":          {Selection{Names: []string{"scandiqa-sv"}}, "!no recipe for it"},
		"extra":            {Selection{Suite: "extra", Languages: []string{"fo", "en"}}, "fone xquad-en"},
		"unknown":          {Selection{Names: []string{"dan", "xyz"}}, `!there is no data set "xyz"`},
		"suite":            {Selection{Suite: "papers"}, "!paper, extra, sample, all, catalogue"},
		"no such task":     {Selection{Tasks: []datasets.Kind{"pos"}}, "!there are ner, sentiment"},
		"nothing":          {Selection{Languages: []string{"fi"}}, "!none has language fi"},
		"outside of suite": {Selection{Suite: "sample", Names: []string{"dane"}}, "!dane is not in the suite sample"},
	} {
		got, err := b.Select(test.s)
		if msg, isErr := strings.CutPrefix(test.want, "!"); isErr {
			if err == nil || !strings.Contains(err.Error(), msg) {
				t.Errorf("%s: %v, error %v, want %q", name, got, err, msg)
			}
			continue
		}
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, error %v, want %q", name, got, err, test.want)
		}
	}
	var unknown *UnknownError
	if _, err := b.Open(t.Context(), "scala-dk", Options{}); !errors.As(err, &unknown) || !strings.Contains(unknown.Hint(), "scala-da") {
		t.Errorf("error %v", err)
	}
	var taken *NameTakenError
	for _, name := range []string{"dane", "suc3", "sample-qa"} {
		if _, err := Recipes(recipes.Recipe{Name: name}); !errors.As(err, &taken) || taken.Hint() == "" {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A full disk is said to be one, and leaves no half data set.
func TestDiskFull(t *testing.T) {
	r, _ := toy(t)
	b := without(t, r)
	if err := syscall.Mount("tmpfs", b.Home, "tmpfs", 0, "size=300k"); err != nil {
		t.Skipf("needs a small file system of its own: mount tmpfs: %v", err)
	}
	defer syscall.Unmount(b.Home, 0)
	if _, err := b.Open(t.Context(), "mine", Options{}); err != nil {
		t.Fatal(err)
	}
	before := content(t, b.Dir("mine"))
	var full *fetch.Error
	if _, err := b.Open(t.Context(), "sample-qa", Options{}); !errors.As(err, &full) || full.Kind != fetch.NoSpace || !strings.Contains(err.Error(), "sample-qa") {
		t.Fatalf("error %v", err)
	}
	if _, err := os.Stat(b.Dir("sample-qa")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a data set: %v", err)
	}
	// A data set that is there survives a build that finds no room.
	if err := os.WriteFile(filepath.Join(b.Home, "ballast"), bytes.Repeat([]byte{1}, 300<<10), 0o644); !fetch.DiskFull(err) {
		t.Fatalf("the disk is not full: %v", err)
	}
	b.Recipes[len(b.Recipes)-1].Version = 2
	if _, err := b.Open(t.Context(), "mine", Options{}); !errors.As(err, &full) || full.Kind != fetch.NoSpace {
		t.Errorf("error %v", err)
	}
	for name, text := range before {
		if content(t, b.Dir("mine"))[name] != text {
			t.Errorf("%s changed", name)
		}
	}
}

// A source whose licence a person has to accept: the error says where the file
// is and what to do with it; with it the data set is built, and stays.
func TestFrom(t *testing.T) {
	b := without(t)
	_, err := b.Open(t.Context(), "mim-gold-ner", Options{})
	var missing *MissingError
	if !errors.As(err, &missing) || missing.Divisible || missing.Sources[0].Kind != fetch.ByHand ||
		!strings.Contains(missing.Sources[0].Hint(), "20.500.12537/230") || !strings.Contains(missing.Hint(), "bench data build mim-gold-ner --from FILE") {
		t.Fatalf("error %v", err)
	}
	var text strings.Builder
	for i := range 3400 {
		fmt.Fprintf(&text, "Anna%d\tB-Person\nsefur\tO\n\n", i)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.Create("MIM-GOLD-2_0/blog.txt")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, text.String())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.zip")
	if err := os.WriteFile(file, archive.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := b.Build(t.Context(), "mim-gold-ner", Options{From: file})
	if err != nil {
		t.Fatal(err)
	}
	if d.Partial != nil || d.Counts[datasets.Test].Rows != 2048 || len(d.Sources) != 1 || !strings.HasPrefix(d.Sources[0].Note, "given by hand") {
		t.Errorf("%+v", d.Meta)
	}
	for name, content := range content(t, d.Dir) {
		if strings.Contains(content, filepath.Dir(file)) {
			t.Errorf("%s names the person's folder", name)
		}
	}
	if again, err := b.Open(t.Context(), "mim-gold-ner", Options{}); err != nil || again.Digest != d.Digest {
		t.Errorf("%v, error %v", again, err)
	}
	var source *fetch.Error
	if _, err := b.Build(t.Context(), "mim-gold-ner", Options{From: file + "x"}); !errors.As(err, &source) || source.Kind != fetch.Missing {
		t.Errorf("error %v", err)
	}
	var from *FromError
	if _, err := b.Build(t.Context(), "dane", Options{From: file}); !errors.As(err, &from) || from.Hint() == "" {
		t.Errorf("error %v", err)
	}
}

// A file that fails in the middle of a build leaves what was built before, and
// nothing half-built.
func TestFailedBuild(t *testing.T) {
	r, data := toy(t)
	b := without(t, r)
	was, err := b.Build(t.Context(), "mine", Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := content(t, was.Dir)
	f, err := os.OpenFile(data, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("\"torn")
	f.Close()
	if _, err := b.Build(t.Context(), "mine", Options{}); err == nil || !strings.Contains(err.Error(), data+":52") {
		t.Errorf("error %v", err)
	}
	if after := content(t, was.Dir); !reflect.DeepEqual(after, before) {
		t.Error("the data set that was there has changed")
	}
	fresh := without(t, r)
	if _, err := fresh.Build(t.Context(), "mine", Options{}); err == nil {
		t.Error("built from a torn file")
	}
	entries, err := os.ReadDir(filepath.Join(fresh.Home, "datasets"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".mine.lock" {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

func TestVariant(t *testing.T) {
	b := without(t)
	for _, test := range []struct{ name, rules, want string }{
		{"scala-da", "scandeval", "scala-da-scandeval"},
		{"scala-da", "paper", "scala-da"},
		{"dane", "", "dane"},
		{"dane", "scandeval", "!dane cannot be made by the rules \"scandeval\"; scala-da, scala-sv"},
		{"scala-da", "mine", "!no rules \"mine\""},
		{"scala", "scandeval", "!no data set \"scala\""},
	} {
		got, err := b.Variant(test.name, test.rules)
		if msg, isErr := strings.CutPrefix(test.want, "!"); isErr && (err == nil || !strings.Contains(err.Error(), msg)) || !isErr && (err != nil || got != test.want) {
			t.Errorf("%s by %q: %q, error %v", test.name, test.rules, got, err)
		}
	}
}
