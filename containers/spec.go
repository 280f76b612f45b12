package containers

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// Labels that containers of this program carry.
const (
	LabelBatch    = "bench.batch"    // what runs in it
	LabelInstance = "bench.instance" // which home folder it belongs to
	LabelVersion  = "bench.version"  // of the program that started it
	LabelCreated  = "bench.created"  // RFC 3339; set by Start
)

// Spec describes a container. Every container is confined as docs/sandbox.md
// says; a Spec can tighten that, and nothing in it can loosen it: no network,
// a read-only root, no capabilities, no new privileges, not root, bounded
// processes and memory, an init process, a bounded /tmp as the only writable
// place beside the writable mounts.
type Spec struct {
	Image string
	// Entrypoint replaces the image's if it is not nil. Args are its arguments.
	Entrypoint []string
	Args       []string
	// Env is everything the program finds in its environment beside what the
	// image sets, and HOME, TMPDIR, cache folders and thread counts, which
	// Start sets and Env may replace. Nothing is taken over from this process.
	Env    map[string]string
	Mounts []Mount
	// UID and GID of the program, both > 0.
	UID, GID int

	CPUs        float64 // 0: all that the engine has
	MemoryBytes int64   // with swap; 0: nine tenths of what the engine has
	Pids        int64   // processes and threads; 0: 1024
	TmpBytes    int64   // size of /tmp, which counts as memory; 0: a quarter of the memory
	GPUs        []string

	// Prepare, if not nil, is called when the container is made and not
	// started: here files get into its volumes. It may be called again after a
	// failure, and for a container that an earlier process left there.
	Prepare func(context.Context, *Container) error

	// Labels identify the container: one of the same name whose labels differ
	// is something else. Notes are labels that make no difference.
	Labels, Notes map[string]string
}

// Mount shows a folder or file of the engine's machine in the container, or a
// volume.
type Mount struct {
	Source string // absolute, must exist; "": Volume
	// Volume is the name of a volume, which is made with Labels if there is none.
	Volume   string
	Labels   map[string]string
	Target   string // absolute
	Writable bool
}

// The size limits of the engine's copy of what a container prints; the oldest
// lines go first beyond that.
const (
	logFileSize  = "128m"
	logFileCount = "2"
)

// defaultPids is enough for torch on a machine with many cores, and stops a
// fork bomb at once.
const defaultPids = 1024

func (s Spec) check() error {
	switch {
	case s.Image == "":
		return usage("no image given")
	case s.UID <= 0 || s.GID <= 0:
		return usage("user %d:%d: containers never run as root", s.UID, s.GID)
	case s.CPUs < 0 || s.MemoryBytes < 0 || s.Pids < 0 || s.TmpBytes < 0:
		return usage("a limit is negative")
	}
	for k := range s.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return usage("environment variable with an impossible name")
		}
	}
	for _, m := range s.Mounts {
		if (m.Volume == "") == (m.Source == "") {
			return usage("mount at %s: it has a source or a volume", m.Target)
		}
		if m.Volume != "" && !volumeName(m.Volume) {
			return usage("mount at %s: %q is no name of a volume", m.Target, m.Volume)
		}
		if m.Source != "" && !filepath.IsAbs(m.Source) || !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
			return usage("mount of %s at %s: both must be clean absolute paths", m.Source, m.Target)
		}
		// A socket of an engine in the container would be the whole machine.
		if strings.HasSuffix(m.Source, ".sock") {
			return usage("mount of %s: sockets are never shown in a container", m.Source)
		}
	}
	return nil
}

// Threads is the number of CPU threads that make sense on so many CPUs.
func Threads(cpus float64) int { return max(1, int(cpus)) }

// docker translates s for the engine that i describes.
func (s Spec) docker(i Info, img Image, gpus []container.DeviceRequest, now time.Time) (*container.Config, *container.HostConfig) {
	cpus := float64(i.CPUs)
	if s.CPUs > 0 {
		cpus = min(s.CPUs, cpus) // the engine refuses more than it has
	}
	memory := s.MemoryBytes
	if memory == 0 {
		memory = i.MemoryBytes / 10 * 9
	}
	pids := s.Pids
	if pids == 0 {
		pids = defaultPids
	}
	tmp := s.TmpBytes
	if tmp == 0 {
		tmp = memory / 4
	}

	threads := strconv.Itoa(Threads(cpus))
	env := map[string]string{
		"HOME": "/tmp", "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache", "XDG_CONFIG_HOME": "/tmp/.config", "XDG_DATA_HOME": "/tmp/.local/share",
		// Libraries count the machine's CPUs, not the container's share of
		// them, and then fight over it.
		"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "NUMEXPR_NUM_THREADS": threads,
		"VECLIB_MAXIMUM_THREADS": threads, "RAYON_NUM_THREADS": threads,
	}
	if len(s.GPUs) == 0 && len(gpus) == 0 {
		// With NVIDIA's runtime as the engine's default, an image that says
		// "all" here would get every GPU without having asked.
		env["NVIDIA_VISIBLE_DEVICES"] = "void"
	}
	maps.Copy(env, s.Env)
	var environ []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		environ = append(environ, k+"="+env[k])
	}

	labels := maps.Clone(s.Notes)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, s.Labels)
	labels[LabelCreated] = now.UTC().Format(time.RFC3339)

	// exec: torch compiles kernels there and loads them. A program that may
	// run any Python gains nothing from it.
	tmpfs := map[string]string{"/tmp": fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", tmp)}
	for _, v := range img.Volumes {
		// Else the engine would make a writable volume without any limit.
		if v = path.Clean(v); v != "/tmp" && !slices.ContainsFunc(s.Mounts, func(m Mount) bool { return m.Target == v }) {
			tmpfs[v] = "rw,noexec,nosuid,nodev,mode=1777,size=16777216"
		}
	}
	var mounts []mount.Mount
	for _, m := range s.Mounts {
		if m.Volume != "" {
			// The image's files at Target are not copied into it.
			mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Source: m.Volume, Target: m.Target, ReadOnly: !m.Writable,
				VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: m.Labels}})
			continue
		}
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: !m.Writable,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate}})
	}
	init := true
	return &container.Config{
			Image: img.ID, Entrypoint: s.Entrypoint, Cmd: s.Args, Env: environ, Labels: labels,
			User: fmt.Sprintf("%d:%d", s.UID, s.GID), WorkingDir: "/", Hostname: "sandbox",
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, StopSignal: "SIGTERM",
		}, &container.HostConfig{
			NetworkMode: "none", IpcMode: container.IPCModePrivate,
			ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges:true"},
			Tmpfs: tmpfs, Mounts: mounts,
			// PID 1 without handlers ignores SIGTERM; and somebody must reap.
			Init: &init,
			// A machine that is short of memory shall lose this first.
			OomScoreAdj:   500,
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			// Not the engine's default, which may be one that cannot be read back.
			LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": logFileSize, "max-file": logFileCount}},
			Resources: container.Resources{
				Memory: memory, MemorySwap: memory, NanoCPUs: int64(cpus * 1e9), PidsLimit: &pids, DeviceRequests: gpus,
			},
		}
}
