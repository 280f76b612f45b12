package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"bench/containers"
	"bench/datasets/fetch"
	"bench/runner/docker"
	"bench/runner/process"

	"github.com/spf13/cobra"
)

func newDoctor(a *app) *cobra.Command {
	var hosts hostList
	var python string
	var cluster *kubernetesOptions
	var site slurmOptions
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is missing to run here, and the command that mends it",
		Long: `Say what is missing to run here, and the command that mends it.

The exit code is 0 if models can be trained here, in a container or a process,
and 4 if only the baselines can run.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), hosts, python, cluster, site) },
	}
	c.Flags().Var(&hosts, "host", hostUsage)
	addKubernetes(c.Flags(), &cluster)
	site.addSite(c.Flags())
	c.Flags().StringVar(&python, "python", "", "Python to look at (default python3)")
	return c
}

// finding is one line of the doctor, and one JSON line.
type finding struct {
	Type   string `json:"type"` // "finding"
	Part   string `json:"part"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// minFree is the space below which a disk is worth a warning: the trainer's
// environment or image takes about 6 GB.
const minFree = 12 << 30

func (a *app) doctor(ctx context.Context, hosts hostList, python string, cluster *kubernetesOptions, site slurmOptions) error {
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	k := &kit{app: a, home: home, hosts: hosts, python: python, kubernetesOptions: cluster, slurmOptions: site}
	defer k.close()
	findings := []finding{checkHome(home)}
	container := false
	if cluster != nil {
		f := k.checkCluster(ctx)
		findings, container = append(findings, f), f.OK
	}
	if f, ok := k.checkSlurm(ctx); ok {
		findings = append(findings, f)
		container = container || f.OK && site.Host != ""
	}
	hosts = k.engines()
	engines, ready := make([][]finding, len(hosts)), make([]bool, len(hosts))
	var looking sync.WaitGroup
	for i, h := range hosts { // at once: one that does not answer takes its time
		looking.Go(func() { engines[i], ready[i] = k.checkEngine(ctx, h) })
	}
	looking.Wait()
	for i := range hosts {
		findings, container = append(findings, engines[i]...), container || ready[i]
	}
	py, processes := checkPython(ctx, home, python)
	findings = append(findings, py, checkHub(ctx), a.checkMirror())
	for _, f := range findings {
		f.Type = "finding"
		if a.json {
			if err := json.NewEncoder(a.stdout).Encode(f); err != nil {
				return err
			}
			continue
		}
		mark := "ok     "
		if !f.OK {
			mark = "missing"
		}
		fmt.Fprintf(a.stdout, "%s  %-16s %s\n", mark, f.Part, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(a.stdout, "%s  %-16s → %s\n", strings.Repeat(" ", len(mark)), "", f.Remedy)
		}
	}
	if !container && !processes {
		return codeError(exitPrecondition)
	}
	return nil
}

func checkHome(home string) finding {
	f := finding{Part: "home", OK: true, Detail: home}
	probe, err := os.CreateTemp(home, ".doctor-*")
	if err != nil {
		return finding{Part: "home", Detail: err.Error(), Remedy: "give a folder you may write with --home DIR or $BENCH_HOME"}
	}
	probe.Close()
	os.Remove(probe.Name())
	var fs syscall.Statfs_t
	if err := syscall.Statfs(home, &fs); err == nil {
		free := int64(fs.Bavail) * int64(fs.Bsize)
		f.Detail += fmt.Sprintf(", %.0f GB free", float64(free)/1e9)
		if free < minFree {
			f.OK = false
			f.Remedy = "make room, or give another disk with --home DIR: environment or image of the trainer, models and results want 12 GB"
		}
	}
	return f
}

// reached says how a host is reached, and how files get there.
func reached(h host, e *containers.Engine) string {
	way := "folders of this machine are shown to containers"
	if e.Copies() {
		way = "files are sent through the engine"
	}
	return "at " + h.String() + "; " + way
}

// checkEngine looks at an engine, the trainer's image there and the GPUs.
func (k *kit) checkEngine(ctx context.Context, h host) (out []finding, ready bool) {
	e, err := k.engineAt(ctx, h)
	if err != nil {
		f := finding{Part: "docker", Detail: err.Error(), Remedy: "install and start Docker (https://docs.docker.com/engine/install/), or use --executor process"}
		if h := hints(err); len(h) > 0 {
			f.Remedy = h[0]
		}
		return []finding{f}, false
	}
	info := e.Info()
	out = append(out, finding{Part: "docker", OK: true, Detail: fmt.Sprintf("engine %s on %s, %d CPUs, %.0f GB, %s", info.Version, info.Name, info.CPUs, float64(info.MemoryBytes)/1e9, reached(h, e))})
	tag := containers.TrainerImage()
	image, err := e.Image(ctx, tag)
	if err != nil {
		f := finding{Part: "trainer's image", Detail: tag + " is not there", Remedy: "bench image build"}
		if local, lerr := k.engineAt(ctx, host{}); e.Copies() && lerr == nil {
			if _, lerr := local.Image(ctx, tag); lerr == nil {
				f.OK, f.Detail, f.Remedy = true, tag+" is not there yet; it is sent from this machine's engine when it is needed", ""
			}
		}
		return append(out, f), f.OK
	}
	out = append(out, finding{Part: "trainer's image", OK: true, Detail: fmt.Sprintf("%s, %.1f GB", tag, float64(image.Bytes)/1e9)})
	gpus, err := e.GPUs(ctx, image.ID)
	switch {
	case err != nil:
		out = append(out, finding{Part: "GPU", Detail: err.Error(), Remedy: "containers run on the CPU meanwhile"})
	case len(gpus) == 0:
		out = append(out, finding{Part: "GPU", Detail: "none that containers can be given; they run on the CPU",
			Remedy: "if there is one, install the NVIDIA Container Toolkit and restart the engine; a card in MIG mode needs slices (nvidia-smi mig -cgi … -C)"})
	default:
		users, err := docker.Users(ctx, e, gpus)
		if err != nil {
			out = append(out, finding{Part: "GPU", Detail: "who uses the GPUs cannot be told: " + err.Error()})
		}
		for _, g := range gpus {
			f := finding{Part: "GPU", OK: true, Detail: describe(g)}
			if by := users[g.UUID]; by != "" {
				f.Detail += "; in use by " + by
				if strings.Contains(by, "(not of bench)") {
					f.Remedy = "batches wait until that container ends; if they may run beside it: --gpus-beside NAME"
				}
			}
			out = append(out, f)
		}
		if !e.KeepsGPUs(gpus) {
			out = append(out, finding{Part: "GPU", Detail: "the engine's cgroups are managed by systemd and its GPUs do not come by CDI: running containers lose them whenever systemd loads its units anew (toolkit issue 48); their batches are then started again",
				Remedy: "on " + info.Name + ": nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml --device-name-strategy=uuid, and an engine from 28 on; or \"exec-opts\": [\"native.cgroupdriver=cgroupfs\"] in its daemon.json"})
		}
	}
	return out, true
}

// describe says of a GPU what there is to know.
func describe(g containers.GPU) string {
	s := fmt.Sprintf("%s, %s", g.Name, g.UUID)
	if g.MemoryMiB > 0 {
		s += fmt.Sprintf(", %.0f GiB", float64(g.MemoryMiB)/1024)
	}
	if g.UsedMiB > 0 {
		s += fmt.Sprintf(" (%d MiB in use)", g.UsedMiB)
	}
	if g.Compute != "" {
		s += ", capability " + g.Compute
	}
	if g.Driver != "" {
		s += ", driver " + g.Driver
	}
	return s
}

func checkPython(ctx context.Context, home, python string) (finding, bool) {
	if python != "" {
		p, err := process.Probe(ctx, python, "torch", "transformers", "safetensors")
		if err != nil {
			return finding{Part: "python", Detail: err.Error(), Remedy: strings.Join(hints(err), "; ")}, false
		}
		if len(p.Missing) > 0 {
			return finding{Part: "python", Detail: fmt.Sprintf("%s lacks %s", p.Path, strings.Join(p.Missing, ", ")),
				Remedy: fmt.Sprintf("%s -m pip install %s", p.Path, strings.Join(p.Missing, " "))}, false
		}
		return finding{Part: "python", OK: true, Detail: fmt.Sprintf("%s, Python %s", p.Path, p.Version)}, true
	}
	p, err := process.Probe(ctx, "python3", "venv", "ensurepip")
	if err != nil {
		return finding{Part: "python", Detail: err.Error(), Remedy: strings.Join(hints(err), "; ")}, false
	}
	if len(p.Missing) > 0 {
		return finding{Part: "python", Detail: fmt.Sprintf("%s lacks %s", p.Path, strings.Join(p.Missing, ", ")), Remedy: "apt-get install python3-venv"}, false
	}
	detail := fmt.Sprintf("%s, Python %s; the trainer's environment is made at the first --executor process", p.Path, p.Version)
	if made, err := filepath.Glob(filepath.Join(home, "venvs", "*", ".complete")); err == nil && len(made) > 0 {
		detail = fmt.Sprintf("%s, Python %s; %d environment made", p.Path, p.Version, len(made))
	}
	return finding{Part: "python", OK: true, Detail: detail}, true
}

func checkHub(ctx context.Context) finding {
	endpoint := os.Getenv("HF_ENDPOINT")
	if endpoint == "" {
		endpoint = "https://huggingface.co"
	}
	token := "no token"
	if os.Getenv("HF_TOKEN") != "" {
		token = "HF_TOKEN is set"
	}
	if v := os.Getenv("HF_HUB_OFFLINE"); v != "" && v != "0" {
		return finding{Part: "hub", OK: true, Detail: "HF_HUB_OFFLINE: only models in the cache"}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, endpoint, nil)
	if err == nil {
		var res *http.Response
		if res, err = http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			return finding{Part: "hub", OK: true, Detail: endpoint + " answers; " + token}
		}
	}
	return finding{Part: "hub", Detail: err.Error(), Remedy: "set HF_ENDPOINT to a hub that can be reached, or use a local folder: bench run ./my-model"}
}

func (a *app) checkMirror() finding {
	if a.mirror == "" {
		return finding{Part: "mirror", OK: true, Detail: "none; sources are fetched from where they are published"}
	}
	if _, err := fetch.OpenMirror(a.mirror); err != nil {
		return finding{Part: "mirror", Detail: err.Error(), Remedy: strings.Join(hints(err), "; ")}
	}
	return finding{Part: "mirror", OK: true, Detail: a.mirror}
}
