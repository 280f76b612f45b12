package main

import (
	"context"
	"errors"
	"fmt"

	"bench/containers"
	"bench/runner"
	"bench/runner/docker"

	"github.com/spf13/cobra"
)

func newGC(a *app) *cobra.Command {
	var host string
	c := &cobra.Command{
		Use:   "gc",
		Short: "Stop and remove what interrupted runs left behind",
		Long: `Stop and remove what interrupted runs left behind in this home: batches that no
running bench watches over, and containers. What had finished is kept.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.gc(c.Context(), host) },
	}
	c.Flags().StringVar(&host, "host", "", "Docker engine (default $DOCKER_HOST, else the default socket)")
	return c
}

func (a *app) gc(ctx context.Context, host string) error {
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	kit := &kit{app: a, home: home, host: host}
	defer kit.close()
	swept, err := runner.Sweep(ctx, home, kit.executor)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%d batches stopped, %d seeds of them had finished and are kept\n", swept.Batches, swept.Kept)
	engine, err := kit.engine(ctx)
	if errors.As(err, new(*containers.Error)) {
		fmt.Fprintln(a.stderr, "bench: no Docker engine answers, so no containers were looked for")
		return nil
	}
	if err != nil {
		return err
	}
	names, err := docker.GC(ctx, engine, docker.Instance(home), swept.Busy == 0)
	for _, n := range names {
		fmt.Fprintln(a.stdout, "removed container", n)
	}
	return err
}
