package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bench/containers"
	"bench/runner"
	"bench/runner/docker"

	"github.com/spf13/cobra"
)

// gcPatience is how long a host that does not answer is waited for.
const gcPatience = 5 * time.Second

func newGC(a *app) *cobra.Command {
	var hosts hostList
	var cluster *kubernetesOptions
	var site slurmOptions
	c := &cobra.Command{
		Use:   "gc",
		Short: "Stop and remove what interrupted runs left behind",
		Long: `Stop and remove what interrupted runs left behind in this home: batches that no
running bench watches over, containers, and on hosts that files are sent to,
models and data sets. What had finished is kept.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.gc(c.Context(), hosts, cluster, site) },
	}
	c.Flags().Var(&hosts, "host", hostUsage)
	addKubernetes(c.Flags(), &cluster)
	site.addSite(c.Flags())
	return c
}

func (a *app) gc(ctx context.Context, hosts hostList, cluster *kubernetesOptions, site slurmOptions) error {
	if errs := site.validateSite(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	kit := &kit{app: a, home: home, hosts: hosts, kubernetesOptions: cluster, slurmOptions: site, patience: gcPatience}
	defer kit.close()
	swept, err := runner.Sweep(ctx, home, kit.executor)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%d batches stopped, %d seeds of them had finished and are kept\n", swept.Batches, swept.Kept)
	errs := []error{kit.kubernetesGC(ctx, swept.Busy == 0)}
	if swept.Busy == 0 {
		errs = append(errs, kit.slurmGC(ctx))
	}
	for _, h := range kit.engines() {
		engine, err := kit.engineAt(ctx, h)
		if errors.As(err, new(*containers.Error)) {
			fmt.Fprintf(a.stderr, "bench: no Docker engine answers at %s, so no containers were looked for there\n", h)
			continue
		}
		if err == nil {
			var boxes, volumes []string
			boxes, volumes, err = docker.GC(ctx, engine, docker.Instance(home), swept.Busy == 0)
			for _, n := range boxes {
				fmt.Fprintln(a.stdout, "removed container", n)
			}
			for _, n := range volumes {
				fmt.Fprintln(a.stdout, "removed volume", n)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
