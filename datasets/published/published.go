// Package published reads data sets of the Hugging Face Hub that are uniform
// already: the published ones of the ScandEval benchmark, with their columns of
// today or of earlier years, and any other with the same columns.
//
//	ner             tokens, labels (or ner_tags); text (or doc)
//	sentiment       text, label (positive, neutral, negative)
//	acceptability   text, label (correct, incorrect); corruption_type
//	qa              question, context, answers {text, answer_start}; id
//
// The splits are Parquet files: data/train-00000-of-00001-….parquet, or as on
// the Hub's branch refs/convert/parquet.
package published

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/hub"
	"bench/datasets/recipes"
)

// Prefix begins the names of data sets of the Hub on a command line.
const Prefix = "hub:"

// Origin is the origin of these data sets.
const Origin recipes.Origin = "hub"

// version is raised when rows change though the files do not.
const version = 1

// Spec says which data set of the Hub is meant, and how to read it.
type Spec struct {
	ID       string // org/name
	Revision string // branch, tag or commit
	// Task and Languages are what the columns and the card do not tell.
	Task      datasets.Kind
	Languages []string
	Config    string // folder of the files; "": the only one
}

// SpecError says that a name cannot be understood.
type SpecError struct {
	Name   string
	Detail string
}

func (e *SpecError) Error() string { return fmt.Sprintf("data set %s: %s", e.Name, e.Detail) }

// Hint says what a person can do.
func (e *SpecError) Hint() string {
	return "name it as hub:org/name, hub:org/name@revision, or hub:org/name?task=sentiment&language=da&config=FOLDER"
}

var language = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

// Parse reads hub:ORG/NAME[@REVISION][?task=…&language=…,…&config=…]. Errors are
// of type *SpecError or *hub.Error.
func Parse(name string) (Spec, error) {
	bad := func(format string, a ...any) (Spec, error) {
		return Spec{}, &SpecError{name, fmt.Sprintf(format, a...)}
	}
	rest, ok := strings.CutPrefix(name, Prefix)
	if !ok {
		return bad("no name of a data set on the Hub")
	}
	rest, query, _ := strings.Cut(rest, "?")
	id, revision, err := hub.SplitDatasetName(rest)
	if err != nil {
		return Spec{}, err
	}
	s := Spec{ID: id, Revision: revision}
	options, err := url.ParseQuery(query)
	if err != nil {
		return bad("%v", err)
	}
	for key, values := range options {
		v := strings.Join(values, ",")
		switch key {
		case "task":
			s.Task = datasets.Kind(v)
			if !slices.Contains([]datasets.Kind{datasets.NER, datasets.Sentiment, datasets.Acceptability, datasets.QA}, s.Task) {
				return bad("there is no task %q; there are ner, sentiment, acceptability, qa", v)
			}
		case "language":
			for l := range strings.SplitSeq(v, ",") {
				if !language.MatchString(l) {
					return bad("%q is no language code", l)
				}
				s.Languages = append(s.Languages, l)
			}
		case "config":
			s.Config = v
		default:
			return bad("unknown option %q", key)
		}
	}
	return s, nil
}

// Hub gets data sets: *hub.Client.
type Hub interface {
	GetDataset(ctx context.Context, id, revision string, choose hub.Choose, o hub.Options) (hub.DatasetSnapshot, error)
}

// Found is a data set of the Hub whose files are on this machine.
type Found struct {
	Recipe recipes.Recipe
	// Files are the recipe's sources, by URL.
	Files map[string]fetch.File
}

// Name is what the data set of a commit is called in files and records:
// hub--org--name@COMMIT, with 12 digits of the commit.
func Name(id, commit string) string {
	return "hub--" + strings.ReplaceAll(id, "/", "--") + "@" + commit[:12]
}

// Get downloads a data set, unless the cache has it, and returns a recipe that
// makes its rows. The recipe is pinned to the commit and to the digests of the
// files. Errors are of type *hub.Error where the Hub is the reason, and of type
// *ColumnsError where the files hold something else.
func Get(ctx context.Context, h Hub, s Spec) (Found, error) {
	snap, err := h.GetDataset(ctx, s.ID, s.Revision, func(names []string) ([]string, error) {
		f, err := choose(names, s.Config)
		if err == nil && slices.Contains(names, card) {
			return append(f.all(), card), nil
		}
		return f.all(), err
	}, hub.Options{})
	if err != nil {
		return Found{}, err
	}
	f := Found{Files: map[string]fetch.File{}}
	var names []string
	about := about{}
	for _, file := range snap.Files {
		f.Files[file.URL] = fetch.File{Path: file.Path, URL: file.URL, SHA256: file.SHA256, Bytes: file.Bytes, Origin: fetch.FromNetwork}
		if file.Name == card {
			if about, err = readCard(file.Path); err != nil {
				return Found{}, err
			}
			continue
		}
		names = append(names, file.Name)
	}
	parts, err := choose(names, s.Config)
	if err != nil {
		return Found{}, err
	}
	r := recipes.Recipe{
		Name: Name(s.ID, snap.Commit), Version: version, Origin: Origin, Kind: s.Task, Languages: s.Languages,
		Licence:  cmp.Or(about.licence, "none named on the card"),
		Homepage: "https://huggingface.co/datasets/" + s.ID,
		Citation: "see the card of " + s.ID + " on the Hugging Face Hub, commit " + snap.Commit,
	}
	file := func(name string) hub.DatasetFile {
		return snap.Files[slices.IndexFunc(snap.Files, func(f hub.DatasetFile) bool { return f.Name == name })]
	}
	source := func(name string) {
		r.Sources = append(r.Sources, fetch.Source{URL: file(name).URL, SHA256: file(name).SHA256})
	}
	var splits []datasets.Split // of each source that has rows
	for _, split := range datasets.Splits {
		for _, n := range parts[split] {
			source(n)
			splits = append(splits, split)
		}
	}
	if len(names) < len(snap.Files) {
		source(card) // tells the language and the licence, so it is a source, too
	}
	first := file(parts[datasets.Train][0])
	t, err := readParquet(first.Path, isUniform)
	if err != nil {
		return Found{}, &ColumnsError{ID: s.ID, File: first.Name, Detail: err.Error()}
	}
	if r.Kind, err = infer(t, s); err != nil {
		return Found{}, err
	}
	if r.Languages == nil {
		r.Languages = about.languages
	}
	if len(r.Languages) == 0 {
		return Found{}, &ColumnsError{ID: s.ID, Detail: "the card does not say which language it is in", Say: "?language=da"}
	}
	r.Definition = definition(s, snap.Commit, r)
	r.Make = func(in *recipes.Input) (*recipes.Output, error) { return read(in, s, splits) }
	return f.sized(r)
}

// sized fills in the sizes, which the files tell.
func (f Found) sized(r recipes.Recipe) (Found, error) {
	in := &recipes.Input{Recipe: &r}
	for _, s := range r.Sources {
		in.Files = append(in.Files, f.Files[s.URL])
	}
	out, err := r.Make(in)
	if err != nil {
		return Found{}, err
	}
	r.Sizes = recipes.Sizes{Train: len(out.Rows[datasets.Train]), Val: len(out.Rows[datasets.Val]), Test: len(out.Rows[datasets.Test])}
	f.Recipe = r
	return f, nil
}

// definition is a digest of all that decides about the rows besides the files.
func definition(s Spec, commit string, r recipes.Recipe) string {
	b, err := json.Marshal(map[string]any{"id": s.ID, "commit": commit, "task": r.Kind, "languages": r.Languages, "config": s.Config})
	if err != nil {
		panic(err) // strings only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
