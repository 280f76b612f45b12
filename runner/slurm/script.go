package slurm

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"bench/runner"
	"bench/runner/kept"
)

// measureEvery is how often a node looks at what its trainer has written.
const measureEvery = 5 * time.Second

// Runtimes are the container programs that a node may have. Docker is none of them: its containers are not
// processes of the job, so neither Slurm's limits nor scancel reach them.
func Runtimes() []string {
	return []string{"apptainer", "singularity", "pyxis", "podman-hpc", "podman"}
}

// Where things are in a container.
const (
	insideIn    = "/bench/in"
	insideOut   = "/bench/out"
	insideModel = "/bench/model"
)

// program is everything that a batch script is made of. Paths are those on the
// node, which sees the batch's folder under the same name.
type program struct {
	batch   string   // for people
	run     string   // folder of this start
	in      string   // in folder of the batch; batch.json of run takes the place of its
	events  string   // gets stdout
	log     string   // gets stderr
	needs   []string // files and folders that must be visible on the node
	threads int      // 0: the CPUs that Slurm gave
	cpuOnly bool
	out     int64 // bytes that may lie in the out folder
	// Without a container:
	argv []string // the trainer, without --batch and --out
	env  []string // NAME=VALUE
	// In a container:
	runtimes []string // in order of preference; none: no container
	image    string   // as the runtime takes it
	model    string   // folder shown as insideModel; ""; none
}

// script renders the batch script: bash, which every node has. What it does in
// this order: leave if the batch was given up or was started before; look for
// everything it needs; run the trainer with a clean environment and, where it
// can be done, without a network; write down how that ended.
//
// While the trainer runs, its log and its events are cut to kept.MaxLog bytes
// every few seconds, and it is ended when it has written too much to its out
// folder: on the node, so that this holds whatever has become of bench.
//
// Slurm sends SIGTERM to the shell alone, which passes it on to the trainer's
// process group. Job control gives it one, and keeps SIGINT from being ignored
// as in other background commands.
func (p program) script() (string, error) {
	for _, s := range append([]string{p.run, p.in, p.events, p.log, p.image, p.model}, append(p.needs, p.argv...)...) {
		if strings.ContainsAny(s, "\n\x00") {
			return "", &runner.PreconditionError{What: fmt.Sprintf("the path %q has a line break in it", s), Hint: "choose another folder with --home"}
		}
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("#!/bin/bash")
	line("# bench: %s", strings.Map(printable, p.batch))
	line("run=%s", quote(p.run))
	line("in=%s", quote(p.in))
	// Where the folder is missing, nobody hears of it but by the exit code.
	line(`[ -d "$run" ] || exit %d`, exitNoFolder)
	line(`mkdir "$run/begun" 2>/dev/null || exit %d`, exitAgain)
	line(`exec </dev/null >>%s 2>>%s`, quote(p.events), quote(p.log))
	b.WriteString(prologue)
	for _, n := range p.needs {
		line("need %s", quote(n))
	}
	line("threads=%d", p.threads)
	line("events=%s log=%s", quote(p.events), quote(p.log))
	line("most=%d files=%d print=%d every=%d", p.out>>10, kept.MaxEntries, kept.MaxLog, int(measureEvery.Seconds()))
	b.WriteString(preparation)
	if len(p.runtimes) == 0 {
		p.plain(line)
	} else {
		p.contained(line)
	}
	b.WriteString(epilogue)
	return b.String(), nil
}

const prologue = `say() { printf 'bench: %s\n' "$*" >&2; }
lacks() { printf '%s\n' "$1" >"$run/lacks.part" && mv "$run/lacks.part" "$run/lacks"; exit 79; }
need() { [ -e "$1" ] || lacks "$1"; }
node=${SLURMD_NODENAME:-$(uname -n)}
began=$(date +%s)
term=false
trap 'term=true' TERM
runtime=none
network=open
size() { stat -c %s "$1" 2>/dev/null || echo 0; }
shorten() { [ "$(size "$1")" -le $(($2 + 64)) ] || { truncate -s "$2" "$1" && printf '\nbench: the rest is left out: it printed too much\n' >>"$1"; }; }
guard() {
  while sleep "$every"; do
    shorten "$events" "$event_end"; shorten "$log" "$log_end"
    used=$(du -sk "$run/out" 2>/dev/null | cut -f 1); n=$(find "$run/out" -mindepth 1 2>/dev/null | head -n "$files" | wc -l)
    if [ "${used:-0}" -gt "$most" ] || [ "$n" -ge "$files" ]; then
      echo "$used $n" >"$run/toomuch"
      kill -TERM -- "-$pid" 2>/dev/null; sleep 10; kill -KILL -- "-$pid" 2>/dev/null; return
    fi
  done
}
attend() {
  event_end=$(($(size "$events") + print)); log_end=$(($(size "$log") + print))
  set -m; "$@" & pid=$!; guard & guarding=$!; set +m
  trap 'term=true; kill -TERM -- "-$pid" 2>/dev/null' TERM
  ! $term || kill -TERM -- "-$pid" 2>/dev/null
  wait "$pid"; code=$?
  while kill -0 "$pid" 2>/dev/null; do wait "$pid"; code=$?; done # a signal ends wait too early
  if $term; then wait "$pid" 2>/dev/null; again=$?; [ "$again" = 127 ] || code=$again; fi
  kill -KILL -- "-$guarding"; wait "$guarding" 2>/dev/null # with its sleep, for which Slurm would wait
  shorten "$events" "$event_end"; shorten "$log" "$log_end"
}
`

const preparation = `[ "$threads" -gt 0 ] || threads=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}
scratch=$(mktemp -d "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/bench-trainer-XXXXXX") || lacks "room for temporary files in ${SLURM_TMPDIR:-${TMPDIR:-/tmp}} of $node"
trap 'rm -rf "$scratch"' EXIT
mkdir "$run/out" 2>/dev/null
say "Slurm job $SLURM_JOB_ID on node $node"
vars=()
for name in OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMEXPR_NUM_THREADS VECLIB_MAXIMUM_THREADS RAYON_NUM_THREADS; do vars+=("$name=$threads"); done
`

// The result file appears whole, by rename, and is the best witness of how the
// batch ended: Slurm may forget, be away, or run no accounting.
const epilogue = `used=0 n=0
[ ! -e "$run/toomuch" ] || read -r used n <"$run/toomuch"
printf '{"schema":1,"code":%d,"term":%s,"node":"%s","job":"%s","runtime":"%s","network":"%s","began":%d,"ended":%d,"used_kb":%d,"files":%d}\n' \
  "$code" "$term" "$node" "$SLURM_JOB_ID" "$runtime" "$network" "$began" "$(date +%s)" "$used" "$n" >"$run/exit.part" && sync "$run/exit.part" 2>/dev/null
mv "$run/exit.part" "$run/exit.json"
exit "$code"
`

// plain runs the trainer as a process of the job: no sandbox, but without a
// network where the kernel lets a user cut it.
func (p program) plain(line func(string, ...any)) {
	for _, kv := range p.env {
		line("vars+=(%s)", quote(kv))
	}
	if p.cpuOnly {
		line("vars+=(CUDA_VISIBLE_DEVICES=)")
	} else {
		line(`for name in CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES; do [ -z "${!name+x}" ] || vars+=("$name=${!name}"); done`)
	}
	line(`for name in PATH LANG LC_ALL TZ LD_LIBRARY_PATH CUDA_HOME CUDA_PATH ROCM_PATH; do [ -z "${!name+x}" ] || vars+=("$name=${!name}"); done`)
	line(`cut=()`)
	line(`for how in "unshare --net" "unshare --map-current-user --net"; do`)
	line(`  if $how true 2>/dev/null; then cut=($how); network=cut; break; fi`)
	line(`done`)
	line(`say "no container: this is no sandbox; network: $network"`)
	line(`cd "$scratch"`)
	line(`attend "${cut[@]}" env -i "${vars[@]}" HOME="$scratch" TMPDIR="$scratch" %s --batch "$in/batch.json" --out "$run/out"`, quoteAll(p.argv))
}

// contained runs the trainer in the first container program that the node has.
func (p program) contained(line func(string, ...any)) {
	for _, kv := range containerEnv {
		line("vars+=(%s)", quote(kv))
	}
	line("image=%s", quote(p.image))
	line(`has() { case $1 in pyxis) srun --help 2>/dev/null | grep -q -- --container-image;; *) command -v "$1" >/dev/null;; esac; }`)
	line(`for runtime in %s none; do has "$runtime" && break; done`, strings.Join(p.runtimes, " "))
	line(`[ "$runtime" != none ] || lacks "a container program (%s)"`, strings.Join(p.runtimes, ", "))
	// Links stand in for paths with characters that the programs split at.
	line(`ln -s "$in" "$scratch/in"; ln -s "$run/batch.json" "$scratch/batch.json"; ln -s "$run/out" "$scratch/out"; mkdir "$scratch/tmp"`)
	binds := []string{"$scratch/in:" + insideIn + ":ro", "$scratch/batch.json:" + insideIn + "/batch.json:ro", "$scratch/out:" + insideOut + ":rw"}
	if p.model != "" {
		line(`ln -s %s "$scratch/model"`, quote(p.model))
		binds = append(binds, "$scratch/model:"+insideModel+":ro")
	}
	line(`gpu=()`)
	line(`flags=(); for kv in "${vars[@]}"; do flags+=(--env "$kv"); done`)
	line(`say "container: $runtime"`)
	line(`network=cut`)
	args := "--batch " + insideIn + "/batch.json --out " + insideOut
	line(`case $runtime in`)
	line(`apptainer|singularity)`)
	if !p.cpuOnly {
		line(`  [ ! -e /dev/nvidiactl ] || gpu=(--nv); [ ! -e /dev/kfd ] || gpu+=(--rocm)`)
		line(`  [ -z "${CUDA_VISIBLE_DEVICES+x}" ] || flags+=(--env "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES")`)
	}
	// --workdir gives /tmp and the home folder the node's disk; else they are
	// 64 MiB of memory. --containall alone leaves the network open.
	line(`  attend "$runtime" --silent run "${gpu[@]}" --containall --no-home --cleanenv --no-privs --net --network none --workdir "$scratch/tmp" --pwd /tmp "${flags[@]}" \`)
	line(`    %s "$image" %s;;`, each("--bind", binds), args)
	line(`pyxis)`)
	// Pyxis has no option for the network, and does not start an image's own
	// program by itself.
	line(`  network=open`)
	line(`  attend srun --ntasks=1 --export="$(IFS=,; printf '%%s' "${vars[*]}"),PATH${CUDA_VISIBLE_DEVICES+,CUDA_VISIBLE_DEVICES}" --container-image="$image" --no-container-mount-home --container-readonly --no-container-remap-root \`)
	line(`    --container-mounts=%s /opt/bench/bin/python -m bench_trainer %s;;`, quoteExpanding(strings.Join(append(binds, "$scratch/tmp:/tmp"), ",")), args)
	line(`podman-hpc|podman)`)
	line(`  case $image in *.tar) loaded=$("$runtime" load --quiet --input "$image") && image=${loaded##*: } || lacks "the image $image, which $runtime cannot load";; esac`)
	if !p.cpuOnly {
		// All GPUs of the node would be given by "all": only those of the job.
		line(`  if [ -n "${CUDA_VISIBLE_DEVICES-}" ]; then`)
		line(`    if [ "$runtime" = podman-hpc ]; then gpu=(--gpu)`)
		line(`    else while read -r uuid; do gpu+=(--device "nvidia.com/gpu=$uuid"); done < <(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null); fi`)
		line(`  fi`)
	}
	line(`  attend "$runtime" run --rm "${gpu[@]}" --network none --read-only --cap-drop all --security-opt no-new-privileges --userns keep-id --init --volume "$scratch/tmp:/tmp:rw" "${flags[@]}" \`)
	line(`    %s "$image" %s;;`, each("--volume", binds), args)
	line(`esac`)
}

// containerEnv is what the trainer's libraries need to know in a container.
var containerEnv = append([]string{
	"HOME=/tmp", "HF_HOME=/tmp/.cache/huggingface", "TORCH_HOME=/tmp/.cache/torch", "TORCHINDUCTOR_CACHE_DIR=/tmp/.cache/inductor",
	"TRITON_CACHE_DIR=/tmp/.cache/triton", "CUDA_CACHE_PATH=/tmp/.cache/cuda", "MPLCONFIGDIR=/tmp/.config/matplotlib",
}, libraryEnv...)

// libraryEnv keeps libraries off the network and Python to itself.
var libraryEnv = []string{
	"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1", "TOKENIZERS_PARALLELISM=false",
	"CUDA_DEVICE_ORDER=PCI_BUS_ID", "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", "PYTHONHASHSEED=0", "PYTHONUTF8=1", "PYTHONFAULTHANDLER=1",
}

// quote makes one word of s for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

// quoteExpanding makes one word of a text of ours in which $scratch is replaced.
func quoteExpanding(s string) string { return `"` + s + `"` }

// each writes the option before every value.
func each(option string, values []string) string {
	var out []string
	for _, v := range values {
		out = append(out, option, quoteExpanding(v))
	}
	return strings.Join(out, " ")
}

// printable keeps a comment on its line.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// showModel says which folder to show for a model, and where its files are
// then. A snapshot in the cache of Hugging Face consists of links to
// ../../blobs: the repository's folder is shown, so that they lead somewhere.
func showModel(path string) (folder, inside string) {
	if parent := filepath.Dir(path); filepath.Base(parent) == "snapshots" {
		return filepath.Dir(parent), insideModel + "/snapshots/" + filepath.Base(path)
	}
	return path, insideModel
}
