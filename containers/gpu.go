package containers

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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
	// Parent is the UUID of the card that a slice belongs to.
	Parent string `json:"parent,omitempty"`
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
	out, ok, err := e.smi(ctx, image, "--query-gpu=index,uuid,name,memory.total,mig.mode.current", "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	var gpus []GPU
	if ok {
		cards, sliced, err := parseCards(out)
		if err == nil && len(sliced) > 0 {
			if out, ok, err = e.smi(ctx, image, "-L"); err == nil && ok {
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

// smi runs nvidia-smi in a container with all GPUs. ok is false if there are
// none to be had.
func (e *Engine) smi(ctx context.Context, image string, args ...string) (stdout []byte, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.t.long)
	defer cancel()
	// The name differs each time: two programs may probe at once.
	name := fmt.Sprintf("bench-probe-%x", time.Now().UnixNano())
	c, err := e.Start(ctx, name, Spec{
		Image: image, Entrypoint: []string{"nvidia-smi"}, Args: args, GPUs: []string{allGPUs},
		UID: 65534, GID: 65534, MemoryBytes: 1 << 30, Pids: 64, TmpBytes: 16 << 20,
		Env:   map[string]string{"NVIDIA_DRIVER_CAPABILITIES": "utility"},
		Notes: map[string]string{LabelBatch: "probe"},
	})
	switch {
	case IsKind(err, GPURefused), IsKind(err, Refused):
		// An engine that refuses any container will say so to the next Start.
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	defer func() {
		// ctx may be over; the container must go all the same.
		removal, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.t.call)
		defer cancel()
		if removeErr := c.Remove(removal); err == nil && removeErr != nil {
			err = removeErr
		}
	}()
	exit, err := c.Wait(ctx)
	if err != nil {
		return nil, false, err
	}
	var printed, remarks bytes.Buffer
	if err := c.Logs(ctx, &printed, &remarks); err != nil {
		return nil, false, err
	}
	// 127: the toolkit put no nvidia-smi there.
	return printed.Bytes(), exit.Code == 0, nil
}

// parseCards reads nvidia-smi's answer to GPUs' query, one line per card. It
// returns the cards that can be given whole, and the UUIDs, in their order, of
// those that are in MIG mode and can only be given in slices.
//
//	0, GPU-5f…, NVIDIA H100 80GB HBM3, 81559, Disabled
//	1, GPU-77…, Tesla T4, 15360, [N/A]
func parseCards(out []byte) (cards []GPU, sliced []string, err error) {
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace, r.LazyQuotes, r.FieldsPerRecord = true, true, 5
	lines, err := r.ReadAll()
	if err != nil {
		return nil, nil, usage("nvidia-smi printed something else than was asked for: %w", err)
	}
	for _, l := range lines {
		index, err := strconv.Atoi(l[0])
		if err != nil || !strings.HasPrefix(l[1], "GPU-") {
			return nil, nil, usage("nvidia-smi printed a GPU without index or UUID: %q", l)
		}
		if l[4] == "Enabled" {
			sliced = append(sliced, l[1])
			continue
		}
		// "[N/A]" where the card shares the machine's memory.
		memory, _ := strconv.ParseInt(l[3], 10, 64)
		cards = append(cards, GPU{UUID: l[1], Index: index, Name: l[2], MemoryMiB: memory})
	}
	return cards, sliced, nil
}

var (
	smiCard  = regexp.MustCompile(`^GPU (\d+): (.*) \(UUID: (GPU-[^)\s]+)\)\s*$`)
	smiSlice = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)\s]+)\)\s*$`)
	smiSize  = regexp.MustCompile(`\.(\d+)gb`)
)

// parseSlices reads nvidia-smi -L and returns the slices of the cards sliced.
//
//	GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5f…)
//	  MIG 1g.5gb      Device  0: (UUID: MIG-2a…)
func parseSlices(out []byte, sliced []string) []GPU {
	var gpus []GPU
	var card GPU
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\r\n")
		if m := smiCard.FindStringSubmatch(line); m != nil {
			index, _ := strconv.Atoi(m[1]) // the expression says digits
			card = GPU{UUID: m[3], Index: index, Name: m[2]}
		} else if m := smiSlice.FindStringSubmatch(line); m != nil && slices.Contains(sliced, card.UUID) {
			g := GPU{UUID: m[2], Index: card.Index, Name: card.Name + " MIG " + m[1], Parent: card.UUID}
			if size := smiSize.FindStringSubmatch(m[1]); size != nil {
				gb, _ := strconv.ParseInt(size[1], 10, 64)
				g.MemoryMiB = gb * 1024
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

// requests asks for GPUs by UUID, through NVIDIA's runtime or hook, or through
// CDI where the engine has only that. A count would always mean the first
// cards, even if they are in use.
func (e *Engine) requests(gpus []string) []container.DeviceRequest {
	if len(gpus) == 0 {
		return nil
	}
	var names []string
	for _, g := range gpus {
		if slices.Contains(e.info.CDIDevices, cdiVendor+g) {
			names = append(names, cdiVendor+g)
		}
	}
	if !e.info.NvidiaRuntime && len(names) == len(gpus) {
		return []container.DeviceRequest{{Driver: "cdi", DeviceIDs: names}}
	}
	r := container.DeviceRequest{Driver: "nvidia", DeviceIDs: gpus, Capabilities: [][]string{{"gpu", "compute", "utility"}}}
	if slices.Contains(gpus, allGPUs) {
		r.DeviceIDs, r.Count = nil, -1
	}
	return []container.DeviceRequest{r}
}
