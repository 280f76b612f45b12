package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"bench/runner/docker"

	"github.com/spf13/pflag"
)

// gpuPatience is how long a batch waits for a GPU that others have before it is
// tried on another host, if there is one.
const gpuPatience = 20 * time.Second

// gpuOptions are the flags about the GPUs of Docker hosts.
type gpuOptions struct {
	list   string
	slots  int
	memory string
	beside string
}

func (o *gpuOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.list, "gpus", "", "GPUs of Docker hosts that cannot be asked: how many, or UUIDs (GPU-…,MIG-…), each with its memory if it is to be shared (2=24g)")
	f.IntVar(&o.slots, "slots-per-gpu", 0, "batches that share a GPU of a Docker host, for small models (0: none share); needs --gpu-memory")
	f.StringVar(&o.beside, "gpus-beside", "", "names of containers, not of bench, that were given GPUs and beside which batches may use these all the same")
	f.StringVar(&o.memory, "gpu-memory", "", "what each batch may take of a GPU that it shares, such as 8g")
}

// sharing says what is known of all hosts' GPUs.
func (o runOptions) sharing() (g docker.GPUs, err error) {
	if o.gpus.list != "" {
		if g.List, err = docker.ParseGPUs(o.gpus.list); err != nil {
			return g, usage("", "--gpus: %w", err)
		}
	}
	g.Slots = o.gpus.slots
	g.Beside = strings.FieldsFunc(o.gpus.beside, func(r rune) bool { return r == ',' || r == ' ' })
	bytes, err := parseBytes(o.gpus.memory)
	if err != nil {
		return g, usage("such as 800m or 16g", "--gpu-memory: %w", err)
	}
	if o.gpus.memory != "" && bytes < 64<<20 {
		return g, usage("such as 8g", "--gpu-memory %s is less than any model takes", o.gpus.memory)
	}
	g.MemoryMiB = bytes >> 20
	if err := g.Validate(); err != nil && len(o.hosts) == 0 { // hosts may say the rest
		return g, usage("--slots-per-gpu 2 --gpu-memory 8g", "%w", err)
	}
	for _, h := range o.hosts {
		of := docker.GPUs{Slots: cmp.Or(h.gpus.Slots, g.Slots), MemoryMiB: cmp.Or(h.gpus.MemoryMiB, g.MemoryMiB)}
		if err := of.Validate(); err != nil {
			return g, usage("slots_per_gpu needs gpu_memory", "host %s: %w", h, err)
		}
	}
	return g, nil
}

// shared says whether batches share a GPU on any host.
func (o runOptions) shared() bool {
	return o.gpus.slots > 1 || slices.ContainsFunc(o.hosts, func(h host) bool { return h.gpus.Slots > 1 })
}
