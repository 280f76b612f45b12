package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"bench/datasets/mirror"
	"bench/datasets/recipes"

	"github.com/spf13/cobra"
)

func newDataMirror(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "mirror DIR [NAME…]", Short: "Fetch the sources of data sets into a folder, for sites without internet", Args: cobra.MinimumNArgs(1),
		Long: `Fetch the sources of data sets (of all, without names) into a folder that
--mirror DIR then serves them from.

What is in the folder already is read again, compared with its digest, and not
fetched. A source that cannot be had is named, with what to do; the others are
fetched nevertheless, and the command ends with exit code 3 (4 if there was
nothing that could be had). Run it again to get the rest.`,
		Example: `  bench data mirror /media/stick/sources
  bench data mirror sources dane scala-da`,
		RunE: func(c *cobra.Command, args []string) error { return a.dataMirror(c.Context(), args[0], args[1:]) },
	}
}

func (a *app) dataMirror(ctx context.Context, dir string, names []string) error {
	k, b, err := a.dataKit()
	if err != nil {
		return err
	}
	all := b.Recipes
	if len(names) > 0 {
		all = nil
		if names, err = k.resolve(ctx, b, names); err != nil {
			return err
		}
		for _, name := range names {
			r, err := b.Recipe(name)
			if err != nil {
				return &usageError{err: err}
			}
			all = append(all, r)
		}
	}
	var wanted []mirror.Wanted
	users := map[string][]string{} // of a URL
	for _, r := range all {
		for _, s := range r.Sources {
			wanted = append(wanted, mirror.Wanted{Source: s, Licence: licence(r)})
			users[s.URL] = append(users[s.URL], r.Name)
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	had := 0
	var lost []error
	err = mirror.Fill(ctx, dir, b, wanted, func(e mirror.Event) {
		switch e.State {
		case mirror.New, mirror.Kept:
			had++
		case mirror.Missing:
			lost = append(lost, fmt.Errorf("%s: %w", users[e.URL][0], e.Err))
		case mirror.Local:
			k.log("note: %s is a file of this machine and not copied", e.URL)
		}
		if a.json {
			line := map[string]any{"url": e.URL, "state": e.State, "bytes": e.Bytes, "datasets": users[e.URL]}
			if e.Err != nil {
				line["kind"], line["message"] = e.Err.Kind, e.Err.Detail
			}
			a.encode("source", line)
			return
		}
		fmt.Fprintf(a.stdout, "%-7s  %10d  %s\n", e.State, e.Bytes, e.URL)
	})
	if err != nil {
		return err
	}
	k.log("%s in %s; use it with --mirror %s", plural(had, "source file"), dir, dir)
	if len(lost) > 0 && had > 0 {
		explain(errors.Join(lost...), a.stderr)
		return codeError(exitSomeFailed)
	}
	return errors.Join(lost...)
}

// licence is a recipe's, fit for the index of a mirror.
func licence(r recipes.Recipe) string {
	if r.Licence == "" {
		return "none named"
	}
	return r.Licence
}
