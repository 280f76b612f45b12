package kubernetes

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"bench/runner/job"
)

// Labels of everything that bench makes in a cluster.
const (
	labelManaged  = "app.kubernetes.io/managed-by" // bench
	labelInstance = "bench.instance"               // the home folder
	labelBatch    = "bench.batch"                  // first digits of the batch's id
	labelRun      = "bench.run"                    // new for each start of a batch
	labelVersion  = "bench.version"
	// labelQueue is the only thing that Kueue wants of a Job.
	labelQueue = "kueue.x-k8s.io/queue-name"
)

// noteBatch is the annotation with the whole id.
const noteBatch = "bench.batch"

// trainerName is the container's name in its pod.
const trainerName = "trainer"

// Where things are in the container.
const (
	insideIn    = "/bench/in"
	insideOut   = "/bench/out"
	insideModel = "/bench/model"
)

// keepEnded is how long the cluster keeps an ended Job that no bench has come
// to see.
const keepEnded = 7 * 24 * time.Hour

// order is what one Job is made from.
type order struct {
	batch   job.ID
	name    string
	run     string
	in, out string // folders of the volume
	model   string // "": none
	jobs    []job.ID
	gpu     bool
	threads int
}

// supply is how the folders of a batch come into its pod.
type supply struct {
	data           podVolume   // is called "data"
	in, out, model string      // folders of data; model "": none
	more           []podVolume // and
	before         []container // run before the trainer, and beside it
	hosts          []hostAlias
	grace          time.Duration // that the pod needs at least to end
	// objects are made when the Job is there.
	objects []owned
}

// claimed is the supply of a batch whose folders are in a claim's volume.
func claimed(claim string, r order) supply {
	return supply{data: podVolume{Name: "data", Claim: &claimVolume{claim}}, in: r.in, out: r.out, model: r.model}
}

// labels of a Job and its pods.
func (o Options) labels(batch job.ID, run string) map[string]string {
	l := map[string]string{labelManaged: "bench", labelInstance: o.Instance, labelBatch: batch.Short(), labelRun: run}
	if v := labelValue(o.Version); v != "" {
		l[labelVersion] = v
	}
	return l
}

// labelValue makes a value that Kubernetes takes: up to 63 letters, digits,
// '-', '_', '.', with a letter or digit at both ends.
func labelValue(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, s)
	return strings.Trim(s[:min(63, len(s))], "-_.")
}

// manifest is the Job of a batch: confined as docs/sandbox.md says, as far as a
// pod can say it.
func (o Options) manifest(r order, s supply) batchJob {
	labels := o.labels(r.batch, r.run)
	all := maps.Clone(labels)
	if o.Queue != "" {
		all[labelQueue] = o.Queue
	}
	mounts := []volumeMount{
		{Name: "data", MountPath: insideIn, SubPath: s.in, ReadOnly: true},
		{Name: "data", MountPath: insideOut, SubPath: s.out},
	}
	if s.model != "" {
		mounts = append(mounts, volumeMount{Name: "data", MountPath: insideModel, SubPath: s.model, ReadOnly: true})
	}
	spec := o.podSpec(r, s.data, append(mounts, volumeMount{Name: "tmp", MountPath: "/tmp"}))
	spec.Volumes = append(spec.Volumes, s.more...)
	spec.InitContainers, spec.HostAliases = s.before, s.hosts
	spec.TerminationGracePeriodSeconds = seconds(max(o.Grace, s.grace))
	return batchJob{
		APIVersion: "batch/v1", Kind: "Job",
		Metadata: meta{Name: r.name, Namespace: o.Namespace, Labels: all, Annotations: map[string]string{noteBatch: string(r.batch)}},
		Spec: jobSpec{
			Parallelism: 1, Completions: 1,
			// The runner decides what is tried again, but for what the cluster
			// itself interrupts: there the next pod goes on where this one was.
			BackoffLimit:         0,
			PodReplacementPolicy: "Failed",
			PodFailurePolicy: &podFailurePolicy{Rules: []podFailureRule{
				{Action: "Ignore", OnPodConditions: []podFailurePattern{{Type: disrupted, Status: "True"}}},
			}},
			TTLSecondsAfterFinished: int(keepEnded / time.Second),
			Template:                podTemplate{Metadata: templateMeta{Labels: labels}, Spec: spec},
		},
	}
}

// seconds are rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// cutOff is the program that cuts off the trainer's network from inside, whatever
// the cluster's own network does.
//
//go:embed pod/guard.py
var cutOff string

// program is the command of a trainer's container; nil: the image's own.
func (o Options) program() []string {
	if len(o.Entrypoint) == 0 {
		return nil
	}
	return append([]string{"python3", "-I", "-c", cutOff}, o.Entrypoint...)
}

func (o Options) podSpec(r order, data podVolume, mounts []volumeMount) podSpec {
	s := podSpec{
		RestartPolicy: "Never",
		// Of the pod and not of the Job: time in a queue does not count.
		ActiveDeadlineSeconds:         seconds(o.Limits.Time),
		TerminationGracePeriodSeconds: seconds(o.Grace),
		ShareProcessNamespace:         true, // the pause container is process 1: signals arrive, zombies are reaped
		// No names are looked up, whether or not the network is cut.
		DNSPolicy: "None", DNSConfig: &dnsConfig{Nameservers: []string{"127.0.0.1"}},
		ServiceAccountName: o.ServiceAccount, PriorityClassName: o.PriorityClass, RuntimeClassName: o.RuntimeClass,
		NodeSelector: o.NodeSelector, Tolerations: o.Tolerations,
		SecurityContext: o.security(),
		Containers: []container{{
			Name: trainerName, Image: o.Image, ImagePullPolicy: "IfNotPresent",
			Command: o.program(), Args: []string{"--batch", insideIn + "/batch.json", "--out", insideOut},
			Env: environment(r.threads, r.gpu), Resources: o.resources(r.gpu),
			SecurityContext: confined, VolumeMounts: mounts,
		}},
		Volumes: []podVolume{
			data,
			// In memory, and so within the memory limit.
			{Name: "tmp", EmptyDir: &emptyDir{Medium: "Memory", SizeLimit: bytesQuantity(o.Limits.MemoryBytes / 4)}},
		},
	}
	for _, name := range o.PullSecrets {
		s.ImagePullSecrets = append(s.ImagePullSecrets, localReference{name})
	}
	return s
}

// confined is the security context of every container.
var confined = containerSecurity{ReadOnlyRootFilesystem: true, Capabilities: capabilities{Drop: []string{"ALL"}}}

func (o Options) security() podSecurity {
	s := podSecurity{RunAsNonRoot: true, RunAsUser: o.User, RunAsGroup: o.Group, SeccompProfile: seccompProfile{"RuntimeDefault"}}
	if o.Path == "" { // the volume may be a disk that belongs to root as yet, or a folder
		s.FSGroup, s.FSGroupChangePolicy = &o.Group, "OnRootMismatch"
	}
	return s
}

// resources are requests and limits in one: what a pod has is its own.
func (o Options) resources(gpu bool) resources {
	r := map[string]string{"cpu": cpuQuantity(o.Limits.CPUs), "memory": bytesQuantity(o.Limits.MemoryBytes)}
	if gpu {
		r[o.GPUResource] = "1"
	}
	return resources{Limits: r, Requests: r}
}

// cpuQuantity is the number of CPUs, in thousandths if it is no whole one.
func cpuQuantity(n float64) string {
	if n == float64(int(n)) {
		return fmt.Sprint(int(n))
	}
	return fmt.Sprintf("%dm", int(n*1000+0.5))
}

func bytesQuantity(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%dMi", n>>20)
	}
	return fmt.Sprint(n)
}

// threadVariables are set to the batch's threads: libraries count the CPUs of
// the machine.
var threadVariables = strings.Fields("OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMEXPR_NUM_THREADS VECLIB_MAXIMUM_THREADS RAYON_NUM_THREADS")

// environment is what the trainer's libraries need to know of the sandbox.
func environment(threads int, gpu bool) []envVar {
	env := map[string]string{
		"HOME": "/tmp", "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache",
		"HF_HOME": "/tmp/.cache/huggingface", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
		"TORCH_HOME": "/tmp/.cache/torch", "TORCHINDUCTOR_CACHE_DIR": "/tmp/.cache/inductor", "TRITON_CACHE_DIR": "/tmp/.cache/triton", "CUDA_CACHE_PATH": "/tmp/.cache/cuda",
		"NUMBA_CACHE_DIR": "/tmp/.cache/numba", "MPLCONFIGDIR": "/tmp/.config/matplotlib",
		"TOKENIZERS_PARALLELISM": "false", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
		"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONFAULTHANDLER": "1",
	}
	for _, name := range threadVariables {
		env[name] = fmt.Sprint(threads)
	}
	if !gpu { // else an image that says "all" gets every GPU of the node, by NVIDIA's runtime
		env["NVIDIA_VISIBLE_DEVICES"] = "void"
	}
	var vars []envVar
	for _, name := range slices.Sorted(maps.Keys(env)) {
		vars = append(vars, envVar{name, env[name]})
	}
	return vars
}

// isolation is the NetworkPolicy that cuts the pods of this instance off. A
// cluster enforces it if its network plug-in does.
func (o Options) isolation() networkPolicy {
	return networkPolicy{
		APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy",
		Metadata: meta{Name: "bench-" + o.Instance, Namespace: o.Namespace, Labels: map[string]string{labelManaged: "bench", labelInstance: o.Instance}},
		Spec: networkPolicySpec{
			PodSelector: labelSelector{map[string]string{labelManaged: "bench", labelInstance: o.Instance}},
			PolicyTypes: []string{"Ingress", "Egress"}, // with no rule that allows anything
		},
	}
}

// jobName is the idempotency key of a batch: two homes may run the same batch
// in one namespace.
func (o Options) jobName(id job.ID) string {
	return "bench-" + string(id)[:min(16, len(id))] + "-" + o.Instance
}

// Folders of the volume.
func (o Options) root() string { return path.Join(cmp.Or(o.Folder, "bench"), o.Instance) }
func (o Options) runFolder(batch job.ID, run string) string {
	return path.Join(o.root(), "batches", batch.Short()+"-"+run)
}
func (o Options) modelFolder(key string) string { return path.Join(o.root(), "models", key) }
