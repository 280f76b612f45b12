"""Weights that a snapshot has in Flax's format only: msgpack of nested maps of arrays, under Flax's names."""

import struct

import numpy as np
import torch

_ARRAY = 1  # Flax's msgpack extension type of an array: (shape, dtype name, bytes)
_CHUNKED = "__msgpack_chunked_array__"


class _Reader:
    """The part of msgpack that Flax writes."""

    def __init__(self, data):
        self.data = memoryview(data)
        self.at = 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise ValueError("the file is truncated")
        part = self.data[self.at : self.at + n]
        self.at += n
        return part

    def number(self, format):
        return struct.unpack(">" + format, self.take(struct.calcsize(format)))[0]

    def value(self):
        b = self.number("B")
        if b < 0x80:
            return b
        if b >= 0xE0:
            return b - 0x100
        if b < 0x90:
            return self.map(b & 0x0F)
        if b < 0xA0:
            return self.list(b & 0x0F)
        if b < 0xC0:
            return str(self.take(b & 0x1F), "utf-8")
        if b in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[b]
        if 0xC4 <= b <= 0xC6:
            return self.take(self.number("BHI"[b - 0xC4]))
        if 0xC7 <= b <= 0xC9:
            return self.extension(self.number("BHI"[b - 0xC7]))
        if 0xCA <= b <= 0xD3:
            return self.number("fdBHIQbhiq"[b - 0xCA])
        if 0xD4 <= b <= 0xD8:
            return self.extension(1 << (b - 0xD4))
        if 0xD9 <= b <= 0xDB:
            return str(self.take(self.number("BHI"[b - 0xD9])), "utf-8")
        if b in (0xDC, 0xDD):
            return self.list(self.number("HI"[b - 0xDC]))
        if b in (0xDE, 0xDF):
            return self.map(self.number("HI"[b - 0xDE]))
        raise ValueError(f"byte {b:#x} starts nothing in msgpack")

    def list(self, n):
        return [self.value() for _ in range(n)]

    def map(self, n):
        out = {}
        for _ in range(n):
            key = self.value()
            out[key] = self.value()
        if out.get(_CHUNKED):
            chunks = out["chunks"]
            shape = [out["shape"][str(i)] for i in range(len(out["shape"]))]
            return np.concatenate([chunks[str(i)].ravel() for i in range(len(chunks))]).reshape(shape)
        return out

    def extension(self, n):
        kind, payload = self.number("b"), self.take(n)
        if kind != _ARRAY:
            raise ValueError(f"extension type {kind} is no array")
        shape, dtype, data = _Reader(payload).value()
        if dtype == "bfloat16":
            wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
            return wide.view(np.float32).reshape(shape)
        return np.frombuffer(data, np.dtype(str(dtype))).reshape(shape)


def _flatten(tree, path=()):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, (*path, key))
        else:
            yield (*path, key), value


def read_flax(path):
    """Tensors by torch's names: kernels are transposed to weights, scales and embeddings renamed."""
    with open(path, "rb") as f:
        tree = _Reader(f.read()).value()
    if not isinstance(tree, dict):
        raise ValueError("not a map of weights")
    out = {}
    for (*parents, name), value in _flatten(tree.get("params", tree)):
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{'.'.join(map(str, (*parents, name)))} is no array")
        if name == "kernel":
            name = "weight"
            # Dense (in, out) → (out, in); convolution (…, in, out) → (out, in, …).
            value = np.moveaxis(value, (-1, -2), (0, 1))
        elif name in ("scale", "embedding"):
            name = "weight"
        out[".".join(map(str, (*parents, name)))] = torch.from_numpy(np.array(value, dtype=np.float32, order="C"))
    return out
