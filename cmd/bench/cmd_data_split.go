package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"bench/datasets"
	"bench/datasets/build"
	"bench/datasets/resplit"
	"bench/internal/ui"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newDataSplit(a *app) *cobra.Command {
	var kind string
	var folds int
	var seed uint32
	var partial bool
	c := &cobra.Command{
		Use: "split NAME", Short: "Divide a data set anew: a part for picking models, or k folds", Args: cobra.ExactArgs(1),
		Long: `Divide a data set anew. Each division is a data set of its own, NAME+DIVISION,
that all commands take; its dataset.json says what it was made of and how.

  --kind standard  the data set's own splits (NAME+standard)
  --kind tune      four parts, train, tune, dev and test (van der Goot 2021): models
                   are picked on tune, versions compared on dev, and the last one
                   scored on test. NAME+tune-dev and NAME+tune-test keep train and
                   test, and make tune of the last third of val, dev of the rest.
                   NAME+resplit-dev and NAME+resplit-test leave the original test
                   out and cut all parts from train and val.
  --kind random    NAME+random5-1 to NAME+random5-5: k folds of all rows; one is
                   scored, the next one is for picking the model

Rows that belong together stay together: the two of a ScaLA sentence, questions
about one context, equal rows. bench run --pick-on tune uses NAME+tune-test
without this command.`,
		Example: `  bench data split scala-da --kind tune
  bench run baseline:ngram --dataset scala-da+tune-dev`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.dataSplit(c.Context(), args[0], kind, folds, seed, partial)
		},
	}
	c.Flags().StringVar(&kind, "kind", "tune", "standard, tune, random")
	c.Flags().IntVar(&folds, "k", 5, "number of random folds, at least 3")
	c.Flags().Uint32Var(&seed, "seed", resplit.DefaultSeed, "seed of random folds")
	c.Flags().BoolVar(&partial, "partial", false, "build also where a source cannot be had")
	return c
}

func (a *app) dataSplit(ctx context.Context, name, kind string, folds int, seed uint32, partial bool) error {
	specs, err := resplit.All(kind, folds, seed)
	if err != nil {
		return &usageError{err: err, hint: "bench data split --help"}
	}
	k, b, err := a.dataKit()
	if err != nil {
		return err
	}
	if name, err = k.resolveOne(ctx, b, name); err != nil {
		return err
	}
	r, err := b.Recipe(name)
	if err != nil {
		return &usageError{err: err}
	}
	if r.Kind == datasets.Speed {
		return usage("", "%s is one text to time models on: there is nothing to divide", name)
	}
	if r.Origin == build.Divided {
		return usage("divide the data set that it was made of", "%s is a division already", name)
	}
	var rows [][]string
	var errs []error
	for _, s := range specs {
		d, err := b.Build(ctx, name+"+"+s.String(), build.Options{Partial: partial})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			errs = append(errs, err)
			break // the others fail for the same reason
		}
		if a.json {
			if err := a.encode("dataset", d.Meta); err != nil {
				return err
			}
			continue
		}
		cells := []string{d.Name}
		for _, want := range datasets.Splits {
			for _, p := range d.Division.Parts {
				if p.Role == want {
					cells = append(cells, fmt.Sprintf("%s %d", p.Name, p.Rows))
				}
			}
		}
		rows = append(rows, append(cells, d.Digest[:16]))
	}
	if len(rows) > 0 {
		fmt.Fprint(a.stdout, ui.Table([]string{"data set", "trained on", "picked on", "scored on", "digest"}, rows))
	}
	return errors.Join(errs...)
}

// picking are the flags of bench run that say which rows a model is picked and
// scored on; "" is what the flags are by default.
type picking struct {
	pickOn, scoreOn string
}

func (p *picking) addFlags(f *pflag.FlagSet) {
	f.StringVar(&p.pickOn, "pick-on", "val", "rows that training is stopped by: val, or tune (the last third of val; see bench data split --help)")
	f.StringVar(&p.scoreOn, "score-on", "test", "rows that are scored: test, or dev (the rest of val; with --pick-on tune)")
}

func (p picking) validate() error {
	switch {
	case !slices.Contains([]string{"", "val", "tune"}, p.pickOn):
		return usage("bench run --help", "--pick-on %s: choose one of val, tune", p.pickOn)
	case !slices.Contains([]string{"", "test", "dev"}, p.scoreOn):
		return usage("bench run --help", "--score-on %s: choose one of test, dev", p.scoreOn)
	case p.pickOn != "tune" && p.scoreOn == "dev":
		return usage("add --pick-on tune", "--score-on dev: without tune, dev is what the model is picked on")
	}
	return nil
}

// apply replaces data sets by the divisions that are meant. Divisions that were
// named stay, and so does what has nothing to pick on.
func (p picking) apply(b *build.Builder, names []string) ([]string, error) {
	if p.pickOn != "tune" {
		return names, nil
	}
	var out []string
	for _, name := range names {
		r, err := b.Recipe(name)
		if err != nil {
			return nil, err
		}
		switch {
		case r.Origin == build.Divided:
			return nil, usage("leave --pick-on out: a division says itself what models are picked on", "--pick-on tune: %s is a division already", name)
		case r.Kind != datasets.Speed:
			name += "+" + resplit.Spec{Kind: resplit.Tune, ScoreOn: cmp.Or(p.scoreOn, "test")}.String()
		}
		out = append(out, name)
	}
	return out, nil
}
