package main

import (
	"context"
	"os"
	"slices"
	"strings"

	"bench/datasets/build"
	"bench/datasets/hub"
	"bench/datasets/published"
	"bench/datasets/resplit"
)

// resolve turns names of data sets on the Hub (hub:org/name) into the names that
// b knows them by, and gets their files. Other names stay.
func (k *kit) resolve(ctx context.Context, b *build.Builder, names []string) ([]string, error) {
	names = slices.Clone(names)
	for i, name := range names {
		if !strings.HasPrefix(name, published.Prefix) {
			continue
		}
		division := ""
		if at := strings.LastIndexByte(name, '+'); at >= 0 {
			if _, err := resplit.Parse(name[at+1:]); err == nil {
				name, division = name[:at], name[at:]
			}
		}
		spec, err := published.Parse(name)
		if err != nil {
			return nil, &usageError{err: err}
		}
		home, _ := os.UserHomeDir()
		c := hub.FromEnv(os.Getenv, home)
		c.Notice = func(text string) { k.log("%s: %s", name, plain(text)) }
		var h published.Hub = c
		if b.Fetcher.Mirror != nil {
			h = published.Mirrored{Mirror: b.Fetcher.Mirror, Next: c, Notice: c.Notice}
		}
		found, err := published.Get(ctx, h, spec)
		if err != nil {
			return nil, err
		}
		names[i] = b.Add(found) + division
	}
	return names, nil
}

// resolveOne is resolve for one name.
func (k *kit) resolveOne(ctx context.Context, b *build.Builder, name string) (string, error) {
	names, err := k.resolve(ctx, b, []string{name})
	if err != nil {
		return "", err
	}
	return names[0], nil
}
