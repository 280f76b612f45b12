package process

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// passed are the variables of the caller that a trainer may see: what programs,
// libraries and devices are found by. Everything else stays behind, tokens and
// proxies first of all.
var passed = []string{
	"PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ",
	"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
	"ROCM_PATH", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION",
}

// environment returns the variables of a trainer: those of caller that may
// pass, ours, and extra, later ones winning. The supervisor adds HOME and
// TMPDIR.
func environment(caller []string, threads int, cpuOnly bool, extra []string) []string {
	vars := map[string]string{
		"CUDA_DEVICE_ORDER": "PCI_BUS_ID", // the order of nvidia-smi, so that visibleGPUs names the right ones
	}
	set := func(kv string) {
		if k, v, ok := strings.Cut(kv, "="); ok {
			vars[k] = v
		}
	}
	for _, kv := range caller {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(passed, name) {
			set(kv)
		}
	}
	n := strconv.Itoa(threads)
	for _, name := range []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS"} {
		vars[name] = n
	}
	vars["TOKENIZERS_PARALLELISM"] = "false"
	vars["HF_HUB_OFFLINE"] = "1"
	vars["TRANSFORMERS_OFFLINE"] = "1"
	vars["HF_HUB_DISABLE_TELEMETRY"] = "1"
	vars["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
	if cpuOnly {
		vars["CUDA_VISIBLE_DEVICES"] = ""
	}
	for _, kv := range extra {
		set(kv)
	}
	out := make([]string, 0, len(vars))
	for k, v := range vars {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// pythonEnv makes Python run the trainer's package and nothing of the user's.
func pythonEnv(trainer string) []string {
	return []string{
		"PYTHONPATH=" + trainer,
		"PYTHONNOUSERSITE=1",        // ~/.local holds packages that no lock file knows
		"PYTHONDONTWRITEBYTECODE=1", // the trainer's folder is named after its content
		"PYTHONUNBUFFERED=1",
		"PYTHONHASHSEED=0",
		"PYTHONUTF8=1",
		"PYTHONFAULTHANDLER=1", // a segmentation fault leaves a traceback in the log
	}
}

// visibleGPUs returns the UUIDs of the NVIDIA devices that a trainer would see,
// given the caller's CUDA_VISIBLE_DEVICES; none if there is no driver.
func visibleGPUs(ctx context.Context) []string {
	visible, restricted := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	if restricted && visible == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader").Output()
	if err != nil {
		return nil
	}
	return chosen(strings.Fields(string(out)), visible)
}

// chosen picks from uuids, in the order of the driver, those that the value of
// CUDA_VISIBLE_DEVICES names by index or by the beginning of the UUID. As in
// CUDA, an entry that names none ends the list.
func chosen(uuids []string, visible string) []string {
	if visible == "" {
		return uuids
	}
	var out []string
	for entry := range strings.SplitSeq(visible, ",") {
		entry = strings.TrimSpace(entry)
		if strings.HasPrefix(entry, "MIG-") {
			out = append(out, entry) // not in the list of whole devices
			continue
		}
		if i, err := strconv.Atoi(entry); err == nil && i >= 0 && i < len(uuids) {
			out = append(out, uuids[i])
			continue
		}
		i := slices.IndexFunc(uuids, func(u string) bool { return strings.HasPrefix(entry, "GPU-") && strings.HasPrefix(u, entry) })
		if i < 0 {
			break
		}
		out = append(out, uuids[i])
	}
	return out
}
