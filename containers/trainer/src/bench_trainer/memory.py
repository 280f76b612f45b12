"""Telling "out of memory" from other errors without reading messages."""

import torch

from .failures import OutOfMemory

OUT_OF_MEMORY = tuple(
    t for t in (MemoryError, getattr(torch, "OutOfMemoryError", None), getattr(torch.cuda, "OutOfMemoryError", None)) if t is not None
)


def guarded(work, indices, longest):
    """work(indices), with OutOfMemory raised for every way of running out.

    Device allocators raise a type of their own. The CPU allocator (and a few device libraries) raise a bare RuntimeError,
    which may mean anything: then the longest row (its place in indices) is tried alone. If one row goes where many do
    not, the number of rows was the trouble; if it fails too, the error is not about memory that a smaller batch could
    save, and is raised as it is."""
    try:
        return work(indices)
    except OUT_OF_MEMORY as e:
        # The traceback keeps the frames, and with them the activations, alive.
        raise OutOfMemory(type(e).__name__) from e.with_traceback(None)
    except RuntimeError as e:
        if type(e) is not RuntimeError or len(indices) == 1:
            raise
        original = e.with_traceback(None)
    try:
        work([indices[longest]])
    except OUT_OF_MEMORY as e:
        raise OutOfMemory(type(e).__name__) from original
    except RuntimeError:
        raise original from None
    raise OutOfMemory("RuntimeError") from original
