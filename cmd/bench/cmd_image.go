package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"bench/containers"
	"bench/containers/trainer"

	"github.com/spf13/cobra"
)

// imageOptions are the flags of bench image.
type imageOptions struct {
	hosts                    hostList
	base, indexURL, caBundle string
}

func newImage(a *app) *cobra.Command {
	var o imageOptions
	c := &cobra.Command{
		Use:   "image",
		Short: "Build and move the container image of the trainer",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().Var(&o.hosts, "host", strings.Replace(hostUsage, "engines", "engine", 1))
	build := &cobra.Command{
		Use: "build", Short: "Build the image from the trainer that is in bench", Args: cobra.NoArgs,
		Long: `Build the image from the trainer that is in bench. Its tag is the trainer's digest,
so an image always fits the bench that looks for it.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.imageBuild(c.Context(), o) },
	}
	f := build.Flags()
	f.StringVar(&o.base, "base", containers.DefaultBase, "base image: Debian-like, or with Python 3.11 or later and its venv module")
	f.StringVar(&o.indexURL, "index-url", "", "package index to install from (default PyPI)")
	f.StringVar(&o.caBundle, "ca-bundle", "", "file with the certificates to trust while installing, for sites with an authority of their own")
	simple := func(use, short string, args cobra.PositionalArgs, run func(context.Context, *containers.Engine, []string) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(c *cobra.Command, args []string) error {
			k := &kit{app: a, hosts: o.hosts}
			defer k.close()
			e, err := k.engine(c.Context())
			if err != nil {
				return err
			}
			return run(c.Context(), e, args)
		}}
	}
	c.AddCommand(build,
		simple("push REPOSITORY", "Upload the image to a registry, tagged with the trainer's digest", cobra.ExactArgs(1), func(ctx context.Context, e *containers.Engine, args []string) error {
			ref := args[0] + ":" + trainer.Digest()[:12]
			if err := e.Tag(ctx, containers.TrainerImage(), ref); err != nil {
				return err
			}
			return a.done(e.Push(ctx, ref, a.stderr), "pushed "+ref)
		}),
		simple("pull REPOSITORY", "Download the image from a registry", cobra.ExactArgs(1), func(ctx context.Context, e *containers.Engine, args []string) error {
			ref := args[0] + ":" + trainer.Digest()[:12]
			if err := e.Pull(ctx, ref, a.stderr); err != nil {
				return err
			}
			return a.done(e.Tag(ctx, ref, containers.TrainerImage()), containers.TrainerImage())
		}),
		simple("save FILE", "Write the image to a file, for machines without a registry", cobra.ExactArgs(1), func(ctx context.Context, e *containers.Engine, args []string) error {
			out, err := os.Create(args[0])
			if err != nil {
				return &usageError{err: err}
			}
			err = e.Save(ctx, []string{containers.TrainerImage()}, out)
			if cerr := out.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				os.Remove(args[0])
			}
			return a.done(err, "wrote "+args[0])
		}),
		simple("load FILE", "Take images from a file that save, or docker save, wrote", cobra.ExactArgs(1), func(ctx context.Context, e *containers.Engine, args []string) error {
			in, err := os.Open(args[0])
			if err != nil {
				return &usageError{err: err}
			}
			defer in.Close()
			names, err := e.Load(ctx, in)
			for _, n := range names {
				fmt.Fprintln(a.stdout, n)
			}
			return err
		}),
	)
	return c
}

// done prints what was done, unless it was not.
func (a *app) done(err error, what string) error {
	if err == nil {
		fmt.Fprintln(a.stdout, what)
	}
	return err
}

func (a *app) imageBuild(ctx context.Context, o imageOptions) error {
	k := &kit{app: a, hosts: o.hosts}
	defer k.close()
	e, err := k.engine(ctx)
	if err != nil {
		return err
	}
	image, err := e.BuildTrainer(ctx, containers.TrainerOptions{Base: o.base, IndexURL: o.indexURL, CABundle: o.caBundle, Progress: a.stderr})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s  %s  %.1f GB\n", containers.TrainerImage(), image.ID, float64(image.Bytes)/1e9)
	return nil
}
