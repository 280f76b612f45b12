package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"bench/runner/pool"
)

// lookEvery is how often a sweep's file is looked at while it runs.
const lookEvery = 2 * time.Second

// pool is that of the Docker hosts; nil: nothing runs there.
func (k *kit) pool() *pool.Pool {
	k.mu.Lock()
	defer k.mu.Unlock()
	hosts, _ := k.executors["docker"].(*pool.Pool)
	return hosts
}

// follow brings the hosts of a running sweep in line with its file, whenever
// that changes. Of the rest of the file nothing is read anew. A file that is
// wrong is told and changes nothing. The result ends it, and waits for that.
func (k *kit) follow(ctx context.Context, of *sweep) (stop func()) {
	if of == nil {
		return func() {}
	}
	path := of.path
	hosts := k.pool()
	if hosts == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	text, _ := os.ReadFile(path)
	seen, _ := os.Stat(path)
	following.Go(func() {
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		said := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			at, err := os.Stat(path)
			if err == nil && seen != nil && at.ModTime().Equal(seen.ModTime()) && at.Size() == seen.Size() {
				continue
			}
			seen = at
			changed, err := os.ReadFile(path)
			var s *sweep
			if err == nil {
				if bytes.Equal(changed, text) {
					continue
				}
				s, err = k.readSweep(path)
			}
			if err != nil {
				if what, _, _ := strings.Cut(err.Error(), "\n"); what != said {
					said = what
					k.say("the sweep's file has changed, and cannot be used as it is now, so the hosts stay: %s", what)
				}
				continue
			}
			text, said = changed, ""
			k.setHosts(ctx, hosts, s.options.hosts)
		}
	})
	return func() {
		cancel()
		following.Wait()
	}
}

// setHosts makes the pool one of the hosts that are wanted.
func (k *kit) setHosts(ctx context.Context, p *pool.Pool, wanted hostList) {
	old := map[string]host{}
	for _, h := range k.engines() {
		old[h.String()] = h
	}
	k.opening.Lock()
	k.hosts = wanted
	k.opening.Unlock()
	for _, h := range k.engines() {
		name := h.String()
		before, was := old[name]
		delete(old, name)
		if was && reflect.DeepEqual(before, h) {
			continue
		}
		k.opening.Lock()
		if e := k.opened[name]; e != nil {
			k.retired = append(k.retired, e)
			delete(k.opened, name)
		}
		k.opening.Unlock()
		p.Add(ctx, k.pooled(h))
		if was {
			k.say("host %s has changed", name)
		} else {
			k.say("host %s is new", name)
		}
	}
	for _, h := range slices.Sorted(maps.Keys(old)) {
		p.Remove(h)
		k.say("host %s is to be used no more; what runs there is finished", h)
	}
}
