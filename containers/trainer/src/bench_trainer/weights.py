"""Reading a snapshot's weights: safetensors, else pickles with weights_only, else Flax's msgpack.

Files are mapped, not copied, where the format allows it: the page cache keeps the initial weights for the next job."""

import json
import os

from .failures import BadInput, OutOfMemory

SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"
FLAX = "flax_model.msgpack"


def find(folder):
    """(format, files) of the snapshot's weights. Raises BadInput when there are none or a shard is missing."""
    for name, format in ((SAFETENSORS, "safetensors"), (PICKLE, "pickle")):
        if os.path.exists(os.path.join(folder, name)):
            return format, [name]
        index = name + ".index.json"
        if os.path.exists(os.path.join(folder, index)):
            try:
                with open(os.path.join(folder, index), encoding="utf-8") as f:
                    shards = sorted(set(json.load(f)["weight_map"].values()))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
                raise BadInput(f"{index} cannot be read: {type(e).__name__}: {e}") from e
            for shard in shards:
                if os.path.basename(shard) != shard or not os.path.exists(os.path.join(folder, shard)):
                    raise BadInput(f"weight file {shard} of {index} is missing")
            return format, shards
    if os.path.exists(os.path.join(folder, FLAX)):
        return "flax", [FLAX]
    raise BadInput(f"no weights: none of {SAFETENSORS}, {PICKLE}, {FLAX} in the snapshot")


def read(folder):
    """All tensors by name, on the CPU. Raises BadInput for files that cannot be read."""
    import torch

    format, files = find(folder)
    out = {}
    for name in files:
        path = os.path.join(folder, name)
        try:
            if format == "safetensors":
                from safetensors.torch import load_file

                out.update(load_file(path))
            elif format == "pickle":
                out.update(_read_pickle(torch, path))
            else:
                from .flax import read_flax

                out.update(read_flax(path))
        except MemoryError as e:
            raise OutOfMemory(f"no memory for the weights in {name}") from e
        except Exception as e:  # whatever a broken or hostile file raises, the fault is the file's
            raise BadInput(f"weights in {name} cannot be read (truncated, damaged, or not plain tensors): {type(e).__name__}: {str(e)[:200]}") from e
    if not all(isinstance(v, torch.Tensor) for v in out.values()):
        raise BadInput(f"weights in {', '.join(files)} hold other things than tensors")
    return out


def _read_pickle(torch, path):
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:  # the older format cannot be mapped
        return torch.load(path, map_location="cpu", weights_only=True)
