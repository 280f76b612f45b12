package containers

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
)

// GPU is a device that one container can be given: a whole card, or a MIG
// slice of one.
type GPU struct {
	UUID  string `json:"uuid"` // GPU-… or MIG-…; what Spec.GPUs takes
	Index int    `json:"index"`
	Name  string `json:"name"`
	// MemoryMiB is 0 if unknown. Of a slice it is what its profile promises.
	MemoryMiB int64 `json:"memory_mib,omitempty"`
	// UsedMiB is what of it was in use when it was looked at; not known of a slice.
	UsedMiB int64  `json:"used_mib,omitempty"`
	Compute string `json:"compute,omitempty"` // compute capability: 9.0
	Driver  string `json:"driver,omitempty"`  // version
	// Parent is the UUID of the card that a slice belongs to, Slice its number
	// there, and Share which part of the card it is: by memory, in eighths, and of
	// that its part if several compute instances share it; 0: not a slice.
	Parent string  `json:"parent,omitempty"`
	Slice  int     `json:"slice,omitempty"`
	Share  float64 `json:"share,omitempty"`
}

// GPUs tells which GPUs the engine can give to containers. It starts a
// container of this image with all of them, where the engine's toolkit puts
// nvidia-smi, and reads what that says. No GPU, no toolkit or no nvidia-smi is
// an empty answer and no error. The answer is kept for the life of e.
//
// The engine's own information cannot say it: it lists runtimes and CDI
// devices, but neither the toolkit's hook nor how many GPUs there are.
func (e *Engine) GPUs(ctx context.Context, image string) ([]GPU, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.probed {
		return slices.Clone(e.gpus), nil
	}
	const basic, format = "--query-gpu=index,uuid,name,memory.total,mig.mode.current", "--format=csv,noheader,nounits"
	out, code, err := e.smi(ctx, image, basic+",memory.used,compute_cap,driver_version", format)
	if err == nil && code != 0 && code != noProgram { // old drivers do not know all of it
		out, code, err = e.smi(ctx, image, basic, format)
	}
	if err != nil {
		return nil, err
	}
	var gpus []GPU
	if code == 0 {
		cards, sliced, err := parseCards(out)
		if err == nil && len(sliced) > 0 {
			if out, code, err = e.smi(ctx, image, "-L"); err == nil && code == 0 {
				cards = append(cards, parseSlices(out, sliced)...)
			}
		}
		if err != nil {
			return nil, err
		}
		gpus = cards
	}
	e.gpus, e.probed = gpus, true
	return slices.Clone(gpus), nil
}

// smi runs nvidia-smi in a container with all GPUs. The code is noProgram if there
// are none to be had.
func (e *Engine) smi(ctx context.Context, image string, args ...string) (stdout []byte, code int, err error) {
	stdout, code, err = e.run(ctx, "bench-probe", Spec{
		Image: image, Entrypoint: []string{"nvidia-smi"}, Args: args, GPUs: []string{allGPUs},
		UID: holderID, GID: holderID, MemoryBytes: 1 << 30, Pids: 64, TmpBytes: 16 << 20,
		Env:   map[string]string{"NVIDIA_DRIVER_CAPABILITIES": "utility"},
		Notes: map[string]string{LabelBatch: "probe"},
	})
	if IsKind(err, GPURefused) || IsKind(err, Refused) {
		// An engine that refuses any container will say so to the next Start.
		return nil, noProgram, nil
	}
	return stdout, code, err
}

// parseCards reads nvidia-smi's answer to GPUs' query, one line per card. It
// returns the cards that can be given whole, and those that are in MIG mode and
// can only be given in slices. The last three columns may be missing.
//
//	0, GPU-5f…, NVIDIA H100 80GB HBM3, 81559, Disabled, 1, 9.0, 550.54.15
//	1, GPU-77…, Tesla T4, 15360, [N/A], 0, 7.5, 550.54.15
func parseCards(out []byte) (cards, sliced []GPU, err error) {
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace, r.LazyQuotes = true, true
	lines, err := r.ReadAll()
	if err != nil {
		return nil, nil, usage("nvidia-smi printed something else than was asked for: %w", err)
	}
	for _, l := range lines {
		index, err := strconv.Atoi(l[0])
		if err != nil || len(l) != 5 && len(l) != 8 || !strings.HasPrefix(l[1], "GPU-") {
			return nil, nil, usage("nvidia-smi printed a GPU without index or UUID: %q", l)
		}
		// "[N/A]" where the card shares the machine's memory.
		memory, _ := strconv.ParseInt(l[3], 10, 64)
		g := GPU{UUID: l[1], Index: index, Name: l[2], MemoryMiB: memory}
		if len(l) == 8 {
			g.UsedMiB, _ = strconv.ParseInt(l[5], 10, 64)
			g.Compute, g.Driver = l[6], l[7]
		}
		if l[4] == "Enabled" {
			sliced = append(sliced, g)
		} else {
			cards = append(cards, g)
		}
	}
	return cards, sliced, nil
}

var (
	smiCard  = regexp.MustCompile(`^GPU (\d+): (.*) \(UUID: (GPU-[^)\s]+)\)\s*$`)
	smiSlice = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)\s]+)\)\s*$`)
	smiSize  = regexp.MustCompile(`\.(\d+)gb`)
	smiPart  = regexp.MustCompile(`^(\d+)c\.(\d+)g\.`) // 1c.3g.20gb: one of three in a slice
)

// parseSlices reads nvidia-smi -L and returns the slices of the cards sliced.
//
//	GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5f…)
//	  MIG 1g.5gb      Device  0: (UUID: MIG-2a…)
func parseSlices(out []byte, sliced []GPU) []GPU {
	var gpus []GPU
	card := -1 // in sliced
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\r\n")
		if m := smiCard.FindStringSubmatch(line); m != nil {
			card = slices.IndexFunc(sliced, func(g GPU) bool { return g.UUID == m[3] })
		} else if m := smiSlice.FindStringSubmatch(line); m != nil && card >= 0 {
			c := sliced[card]
			number, _ := strconv.Atoi(m[2]) // the expression says digits
			g := GPU{UUID: m[3], Index: c.Index, Name: c.Name + " MIG " + m[1], Compute: c.Compute, Driver: c.Driver, Parent: c.UUID, Slice: number, Share: 1. / 8}
			if size := smiSize.FindStringSubmatch(m[1]); size != nil {
				gb, _ := strconv.ParseInt(size[1], 10, 64)
				g.MemoryMiB = gb * 1024
				if c.MemoryMiB > 0 { // cards are cut into eighths of their memory
					g.Share = min(8, max(1, math.Round(8*float64(g.MemoryMiB)/float64(c.MemoryMiB)))) / 8
				}
			}
			if part := smiPart.FindStringSubmatch(m[1]); part != nil {
				c, _ := strconv.ParseFloat(part[1], 64)
				of, _ := strconv.ParseFloat(part[2], 64)
				g.Share *= min(1, c/max(1, of))
			}
			gpus = append(gpus, g)
		}
	}
	return gpus
}

// allGPUs in Spec.GPUs stands for every GPU there is.
const allGPUs = "all"

// cdiVendor is the kind of NVIDIA's devices in CDI names: nvidia.com/gpu=0.
const cdiVendor = "nvidia.com/gpu="

// KeepsGPUs says whether containers keep these GPUs for sure; see Info.LosesGPUs.
func (e *Engine) KeepsGPUs(gpus []GPU) bool {
	return !e.info.LosesGPUs() || !slices.ContainsFunc(gpus, func(g GPU) bool { return e.cdiName(g) == "" })
}

// cdiName is the engine's CDI name of a GPU, by UUID or else by number; "": it has
// none. Which names there are the host's admin decides (nvidia-ctk cdi generate
// --device-name-strategy): by number is what older toolkits do unasked.
func (e *Engine) cdiName(g GPU) string {
	names := []string{g.UUID}
	switch {
	case g.Parent != "":
		names = append(names, fmt.Sprintf("%d:%d", g.Index, g.Slice))
	case g.Index >= 0:
		names = append(names, strconv.Itoa(g.Index))
	}
	for _, n := range names {
		if slices.Contains(e.info.CDIDevices, cdiVendor+n) {
			return cdiVendor + n
		}
	}
	return ""
}

// known is the GPU of this UUID as the last probe saw it.
func (e *Engine) known(uuid string) GPU {
	if uuid != allGPUs { // which the probe itself asks for, holding the lock
		e.mu.Lock()
		defer e.mu.Unlock()
		if i := slices.IndexFunc(e.gpus, func(g GPU) bool { return g.UUID == uuid }); i >= 0 {
			return e.gpus[i]
		}
	}
	return GPU{UUID: uuid, Index: -1}
}

// requests asks for GPUs by UUID, through NVIDIA's runtime or hook, or through
// CDI where the engine has only that, or would lose them otherwise. A count would always mean the first
// cards, even if they are in use.
func (e *Engine) requests(gpus []string) []container.DeviceRequest {
	if len(gpus) == 0 {
		return nil
	}
	var names []string
	for _, g := range gpus {
		if name := e.cdiName(e.known(g)); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == len(gpus) && (!e.info.NvidiaRuntime || e.info.LosesGPUs()) {
		return []container.DeviceRequest{{Driver: "cdi", DeviceIDs: names}}
	}
	r := container.DeviceRequest{Driver: "nvidia", DeviceIDs: gpus, Capabilities: [][]string{{"gpu", "compute", "utility"}}}
	if slices.Contains(gpus, allGPUs) {
		// The probe computes nothing: it holds no GPU, see Engine.Containers.
		r.DeviceIDs, r.Count, r.Capabilities = nil, -1, [][]string{{"gpu", "utility"}}
	}
	return []container.DeviceRequest{r}
}
