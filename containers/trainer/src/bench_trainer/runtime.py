"""The process's surroundings: environment, threads, device, seeds, memory, versions."""

import os
import platform
import random
import resource
import sys
import tempfile

from . import energy
from .failures import Infrastructure


def available_threads():
    """CPUs that this process may use: its affinity, cut to the container's CPU quota."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as f:
            quota, period = f.read().split()
        if quota != "max":
            n = min(n, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return max(1, n)


def prepare_environment(out, threads):
    """Set what must be set before torch and transformers are imported. Returns the number of threads.

    No network, no telemetry, no prompt; caches and temporary files in a folder that can be written."""
    threads = threads or available_threads()
    env = os.environ
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        env[name] = str(threads)
    # A torch linked to pthread-OpenBLAS runs its threads against OpenMP's: one of the two must be alone.
    env["OPENBLAS_NUM_THREADS"] = "1"
    # Waiting threads sleep after a short look. Spinning ones take the processor from whoever has the work as soon as anything
    # else runs on the machine; ones that sleep at once must be woken for every operation. Measured with MiniLM on two cores,
    # alone and beside one busy process: 726 and 976 ms a step without spinning, 547 and 1,099 so, 494 and 2,338 at 10,000.
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    env.setdefault("GOMP_SPINCOUNT", "1000")
    env["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    env.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    env.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY",
                 "HF_HUB_DISABLE_PROGRESS_BARS", "TRANSFORMERS_NO_ADVISORY_WARNINGS", "DO_NOT_TRACK", "USE_TORCH"):
        env[name] = "1"
    for name in ("USE_TF", "USE_FLAX"):
        env[name] = "0"
    try:
        scratch = tempfile.mkdtemp(prefix="bench-trainer-")
    except (FileNotFoundError, OSError):
        scratch = os.path.join(out, ".scratch")
        os.makedirs(scratch, exist_ok=True)
        env["TMPDIR"] = tempfile.tempdir = scratch
    for name in ("HF_HOME", "HF_MODULES_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"):
        env[name] = os.path.join(scratch, name.lower())
    if not env.get("HOME") or not os.path.isdir(env["HOME"]):
        env["HOME"] = scratch
    env.setdefault("USER", "bench")  # getpass.getuser() of a user id without an account
    env.pop("HF_TOKEN", None)
    return threads, scratch


def peak_host_mb():
    """Highest resident memory of the process since reset_peak (or its start) in MiB."""
    try:
        with open("/proc/self/status") as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024 * 1024)


def reset_peak(device):
    """Start a new high-water mark, where the kernel allows it."""
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()


def peak_device_mb(device):
    if device.type != "cuda":
        return 0
    import torch

    return torch.cuda.max_memory_allocated() / 2**20


# Weights outside of the word embeddings below which a model's operations are so small that a second thread costs more
# than it brings (measured: a BERT of 2 × 64 trains 1.5 times as fast with one thread as with two).
ONE_THREAD_BELOW = 1_000_000


def use_threads(model, threads):
    """Sets how many of the threads torch uses for a model, by its size alone, and returns that number."""
    import torch

    try:
        words = model.get_input_embeddings().weight.numel()
    except (AttributeError, NotImplementedError):  # code from a repository need not say where they are
        words = 0
    if sum(p.numel() for p in model.parameters()) - words < ONE_THREAD_BELOW:
        threads = 1
    torch.set_num_threads(threads)
    return threads


# The device memory in MiB that the executor lets this process have of a GPU that it shares with others.
GPU_MEMORY = "BENCH_GPU_MEMORY_MIB"


def open_device(wanted, threads, warn):
    """The torch device, with threads and determinism set.

    Raises Infrastructure when CUDA is wanted, or a GPU was given to this process, and it cannot be used."""
    import torch

    torch.set_num_threads(threads)
    try:
        torch.set_num_interop_threads(1)
    except RuntimeError:
        pass  # set already
    if wanted == "cuda" and not torch.cuda.is_available():
        raise Infrastructure("CUDA is wanted and no CUDA device can be used here: " + cuda_error())
    if wanted == "auto" and not torch.cuda.is_available() and os.environ.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none"):
        if energy.driver_is_there() and torch.version.cuda:
            raise Infrastructure("the GPU that was given to this process cannot be used: " + cuda_error())
        warn("a GPU was given to this process, but its driver or a torch for it is missing: training on the processor")
    device = torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        # The paper's numbers are fp32: no TF32 in matrix products unless a lower precision is asked for.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.use_deterministic_algorithms(True, warn_only=True)
        if hasattr(torch.utils, "deterministic"):
            torch.utils.deterministic.fill_uninitialized_memory = False
        share = int(os.environ.get(GPU_MEMORY) or 0) * 2**20
        if share:
            torch.cuda.set_per_process_memory_fraction(min(1.0, share / torch.cuda.get_device_properties(device).total_memory))
    return device


def cuda_error():
    """Why CUDA does not start, in its own words."""
    import torch

    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as e:  # AssertionError: a torch without CUDA
        return " ".join(str(e).split())
    return "there is no device"


def energy_meter(device):
    """The meter of a torch device; of the processor, None: nothing measures that."""
    if device.type != "cuda":
        return None
    import torch

    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)  # torch 2.4 and later
    if uuid is not None:
        uuid = str(uuid) if str(uuid).startswith("GPU-") else f"GPU-{uuid}"
    return energy.Meter(energy.load(), uuid)


def device_name(device):
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name()
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.lower().startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def seed_everything(seed):
    """The generators that the reference system seeds: Python's, numpy's, torch's."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def versions():
    import safetensors
    import tokenizers
    import torch
    import transformers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "safetensors": safetensors.__version__,
    }
