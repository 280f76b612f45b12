// Package build makes uniform data sets: it fetches the sources of a recipe,
// runs it, checks the rows and stores them under HOME/datasets/NAME. A data set
// is there as a whole or not at all, whatever kills the process; several
// processes may build at once; and building twice gives equal bytes.
package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"bench/datasets"
	"bench/datasets/fetch"
	"bench/datasets/profile"
	"bench/datasets/recipes"
	"bench/internal/atomicfile"
)

// Builder builds and opens data sets. It may be used by several goroutines.
type Builder struct {
	Home    string // data sets are in Home/datasets
	Fetcher *fetch.Fetcher
	Recipes []recipes.Recipe // see Recipes
	// Files are sources that are at hand already, by URL; see Add.
	Files map[string]fetch.File
	Log   *slog.Logger // nil: none
}

// Recipes returns all recipes there are: the program's own, the generated
// samples, and those of a user's catalogue. A name of the catalogue that the
// program has already is an error: a private data set must not pass for a
// public one.
func Recipes(catalogue ...recipes.Recipe) ([]recipes.Recipe, error) {
	all := append(recipes.All(), recipes.Sample()...)
	taken := map[string]bool{}
	for _, p := range paper {
		taken[p.name] = true
	}
	for _, r := range all {
		taken[r.Name] = true
	}
	for _, r := range catalogue {
		if taken[r.Name] {
			return nil, &NameTakenError{r.Name}
		}
		all = append(all, r)
	}
	return all, nil
}

// Options say how to build.
type Options struct {
	// Partial allows to build from some of the sources when others cannot be
	// had. The data set then is smaller, and marked everywhere.
	Partial bool
	// From is the path of a file that a person got by hand: it stands for the
	// source that has instructions for that (fetch.Source.Manual). "": none.
	// It is a *FromError if the data set has no such source.
	From string
}

// Dir returns the folder of a data set, built or not.
func (b *Builder) Dir(name string) string { return filepath.Join(b.Home, "datasets", name) }

// Recipe returns the recipe of a data set, or an *UnknownError.
func (b *Builder) Recipe(name string) (recipes.Recipe, error) {
	for _, r := range b.Recipes {
		if r.Name == name {
			return r, nil
		}
	}
	if r, ok, err := b.further(name); ok || err != nil {
		return r, err
	}
	return recipes.Recipe{}, b.unknown(name)
}

// Open returns a data set, and builds it first if it is not there, if its recipe
// or its definition in the catalogue has changed since, or if a file of this
// machine that it is made of has. A partial data set that is there serves only
// if o allows partial ones.
func (b *Builder) Open(ctx context.Context, name string, o Options) (*datasets.Dataset, error) {
	r, err := b.Recipe(name)
	if err != nil {
		return nil, err
	}
	if d, err := b.current(ctx, r, o); d != nil || err != nil {
		return d, err
	}
	return b.locked(ctx, name, func() (*datasets.Dataset, error) {
		// Another process may have built it while this one waited.
		if d, err := b.current(ctx, r, o); d != nil || err != nil {
			return d, err
		}
		return b.build(ctx, r, o)
	})
}

// Build builds a data set anew. Where equal rows are stored already, the files
// stay untouched.
func (b *Builder) Build(ctx context.Context, name string, o Options) (*datasets.Dataset, error) {
	r, err := b.Recipe(name)
	if err != nil {
		return nil, err
	}
	return b.locked(ctx, name, func() (*datasets.Dataset, error) { return b.build(ctx, r, o) })
}

// current returns the stored data set if it is what r makes, else nil.
func (b *Builder) current(ctx context.Context, r recipes.Recipe, o Options) (*datasets.Dataset, error) {
	d, err := datasets.Open(b.Dir(r.Name))
	if errors.Is(err, datasets.ErrNotBuilt) {
		return nil, nil
	}
	if err != nil {
		b.log().Warn("stored data set cannot be read: building it again", "data set", r.Name, "why", err)
		return nil, nil
	}
	if d.Recipe != version(r) || d.Kind != r.Kind || d.Partial != nil && !o.Partial {
		return nil, nil
	}
	for i, s := range r.Sources {
		if !s.Local() {
			continue
		}
		f, err := b.Fetch(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("data set %s: %w", r.Name, err)
		}
		if i >= len(d.Sources) || d.Sources[i].SHA256 != f.SHA256 {
			return nil, nil
		}
	}
	return d, nil
}

func version(r recipes.Recipe) datasets.RecipeVersion {
	return datasets.RecipeVersion{Name: r.Name, Version: r.Version, Definition: r.Definition}
}

// locked runs f while no other process builds the data set.
func (b *Builder) locked(ctx context.Context, name string, f func() (*datasets.Dataset, error)) (*datasets.Dataset, error) {
	dir := filepath.Join(b.Home, "datasets")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, storeError(name, err)
	}
	// To be written, though nobody does: on NFS nothing else can be locked.
	lock := flock.New(filepath.Join(dir, "."+name+".lock"), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o666))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, storeError(name, err)
	}
	defer lock.Unlock()
	return f()
}

func (b *Builder) build(ctx context.Context, r recipes.Recipe, o Options) (*datasets.Dataset, error) {
	if r.Origin == Divided {
		return b.divide(ctx, r, o)
	}
	if d, err := b.kept(r); d != nil || err != nil {
		return d, err
	}
	in, missing, err := b.fetch(ctx, r, o)
	if err != nil {
		return nil, err
	}
	out, err := r.Make(in)
	if err != nil {
		return nil, fmt.Errorf("data set %s: %w", r.Name, err)
	}
	if err := check(r, out.Rows); err != nil {
		return nil, fmt.Errorf("data set %s: %w", r.Name, err)
	}
	m := datasets.Meta{
		Name: r.Name, Kind: r.Kind, Languages: r.Languages,
		Licence: r.Licence, Citation: r.Citation, Homepage: r.Homepage,
		Recipe: version(r), Seed: uint64(r.Seed), Sources: []datasets.SourceRecord{},
		Notes: append(slices.Clone(r.Notes), out.Notes...),
	}
	for _, f := range in.Files {
		if f.Path == "" {
			continue
		}
		m.Sources = append(m.Sources, datasets.SourceRecord{URL: f.URL, SHA256: f.SHA256, Bytes: f.Bytes, Note: f.Note})
		if f.StandIn {
			m.Notes = append(m.Notes, "built from a stand-in for "+f.URL+": "+f.Note)
		}
	}
	if len(missing) > 0 || in.Piece(out.Base) {
		m.Partial = &datasets.Partial{Scale: float64(out.Base) / float64(r.Base)}
		for _, e := range missing {
			m.Partial.Missing = append(m.Partial.Missing, e.URL)
		}
		if len(missing) == 0 {
			for _, i := range in.Doubtful() {
				m.Partial.Missing = append(m.Partial.Missing, r.Sources[i].URL)
			}
			m.Notes = append(m.Notes, fmt.Sprintf("built from %d of the corpus' %d sentences", out.Base, r.Base))
		}
	}
	m.Notes = append(m.Notes, overlaps(r.Kind, out.Rows)...)
	return b.store(m, out.Rows)
}

// fetch gets the sources of r. missing are those that cannot be had, if that is
// allowed.
func (b *Builder) fetch(ctx context.Context, r recipes.Recipe, o Options) (in *recipes.Input, missing []*fetch.Error, err error) {
	in = &recipes.Input{Recipe: &r, Files: make([]fetch.File, len(r.Sources))}
	byHand := slices.IndexFunc(r.Sources, func(s fetch.Source) bool { return s.Manual != "" })
	if o.From != "" && byHand < 0 {
		return nil, nil, &FromError{r.Name}
	}
	for i, s := range r.Sources {
		var f fetch.File
		if o.From != "" && i == byHand {
			f, err = fetch.Given(s, o.From)
		} else {
			f, err = b.Fetch(ctx, s)
		}
		var e *fetch.Error
		if errors.As(err, &e) && e.Gone() {
			missing = append(missing, e)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("data set %s: %w", r.Name, err)
		}
		in.Files[i] = f
	}
	if len(missing) > 0 {
		e := &MissingError{Dataset: r.Name, Sources: missing, Of: len(r.Sources), Divisible: r.Base > 0 && len(missing) < len(r.Sources)}
		if !o.Partial || !e.Divisible {
			return nil, nil, e
		}
		in.Partial = true
		b.log().Warn("building from some of the sources only", "data set", r.Name, "missing", len(missing), "of", len(r.Sources))
	}
	in.Partial = in.Partial || o.Partial && len(in.Doubtful()) > 0
	return in, missing, nil
}

// store writes the data set beside its place and moves it there. A process that
// dies in between leaves the old one, or none, and a folder that the next build
// removes.
func (b *Builder) store(m datasets.Meta, rows map[datasets.Split][]datasets.Row) (*datasets.Dataset, error) {
	place := b.Dir(m.Name)
	parent := filepath.Dir(place)
	left, err := filepath.Glob(filepath.Join(parent, "."+m.Name+".build-*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range left {
		os.RemoveAll(dir)
	}
	fresh, err := os.MkdirTemp(parent, "."+m.Name+".build-")
	if err != nil {
		return nil, storeError(m.Name, err)
	}
	defer os.RemoveAll(fresh)
	if err := os.Chmod(fresh, 0o755); err != nil {
		return nil, storeError(m.Name, err)
	}
	if _, err := datasets.Write(fresh, m, rows); err != nil {
		return nil, storeError(m.Name, err)
	}
	if same(fresh, place) {
		return datasets.Open(place)
	}
	old := fresh + ".old"
	defer os.RemoveAll(old)
	if err := os.Rename(place, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, storeError(m.Name, err)
	}
	if err := os.Rename(fresh, place); err != nil {
		return nil, storeError(m.Name, err)
	}
	if err := atomicfile.SyncDir(parent); err != nil {
		return nil, storeError(m.Name, err)
	}
	return datasets.Open(place)
}

// same says whether two folders hold the same data set, byte for byte.
func same(a, b string) bool {
	for _, name := range []string{"dataset.json", "train.jsonl", "val.jsonl", "test.jsonl"} {
		x, errX := os.ReadFile(filepath.Join(a, name))
		y, errY := os.ReadFile(filepath.Join(b, name))
		if errX != nil || errY != nil || string(x) != string(y) {
			return false
		}
	}
	return true
}

func (b *Builder) log() *slog.Logger {
	if b.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return b.Log
}

// overlaps notes how many rows of one split have a text that another one has
// too: the published splits were drawn without looking for repeats, and a
// reader of scores should know.
func overlaps(k datasets.Kind, rows map[datasets.Split][]datasets.Row) []string {
	train := map[string]bool{}
	for _, r := range rows[datasets.Train] {
		train[profile.Content(k, r)] = true
	}
	var notes []string
	for _, s := range []datasets.Split{datasets.Val, datasets.Test} {
		n := 0
		for _, r := range rows[s] {
			if train[profile.Content(k, r)] {
				n++
			}
		}
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d %s rows have a text that is in train too", n, len(rows[s]), s))
		}
	}
	return notes
}
