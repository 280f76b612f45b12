"""From encoded rows to padded tensors, and how an effective batch is cut into micro-batches."""

import numpy as np
import torch

from .encode import IGNORED


class Collator:
    """Pads features to the longest of a batch (or to a given length) on the side and with the values of the tokenizer."""

    def __init__(self, encoded, device):
        self.pad_values = encoded.pad_values
        self.pad_left = encoded.pad_left
        self.fixed = encoded.fixed_length
        self.device = device

    def _pad(self, arrays, length, value):
        out = np.full((len(arrays), length), value, dtype=np.int64)
        for row, a in zip(out, arrays):
            if self.pad_left:
                row[length - len(a) :] = a
            else:
                row[: len(a)] = a
        return self._tensor(out)

    def _tensor(self, array):
        tensor = torch.from_numpy(array)
        return tensor if self.device.type == "cpu" else tensor.pin_memory().to(self.device, non_blocking=True)

    def inputs(self, split, indices, length=0):
        """Model inputs of some sequences. length: pad to at least this (0: to the longest of them)."""
        features = [split.features[i] for i in indices]
        length = max(length, self.fixed, max(len(f["input_ids"]) for f in features))
        return {name: self._pad([f[name] for f in features], length, self.pad_values.get(name, 0)) for name in features[0]}

    def targets(self, split, indices, length):
        """What the loss needs: (n,) classes, (n, length) token labels or (n, 2) positions."""
        targets = [split.targets[i] for i in indices]
        if isinstance(targets[0], np.ndarray):
            return self._pad(targets, length, IGNORED)
        return self._tensor(np.asarray(targets, dtype=np.int64))


def chunks(indices, size):
    return [indices[at : at + size] for at in range(0, len(indices), size)]


class Splitter:
    """Cuts an effective batch into micro-batches of rows of like length, where that saves more than it costs.

    The cost of a micro-batch is taken as overhead + tokens (padding included), in units of one token's arithmetic. Both
    are constants of model and device, never measured, so that the same job is always cut in the same way."""

    def __init__(self, lengths, micro_batch, overhead_tokens, by_length):
        self.lengths = lengths
        self.micro_batch = micro_batch
        self.overhead = overhead_tokens
        self.by_length = by_length

    def split(self, indices):
        """Micro-batches of an effective batch (a list of row indices), as lists of row indices."""
        if not self.by_length:
            return chunks(indices, self.micro_batch)
        lengths = self.lengths[indices]
        waste = int(lengths.max()) * len(indices) - int(lengths.sum())
        if len(indices) <= self.micro_batch and waste <= self.overhead:
            return [indices]
        order = np.argsort(-lengths, kind="stable")
        lengths = lengths[order].tolist()
        n = len(lengths)
        # best[i]: cheapest way to cut the rows from i on; rows are sorted, so a micro-batch is as long as its first row.
        best, cut = [0.0] * (n + 1), [n] * n
        for i in range(n - 1, -1, -1):
            cheapest = None
            for j in range(i + 1, min(n, i + self.micro_batch) + 1):
                cost = self.overhead + lengths[i] * (j - i) + best[j]
                if cheapest is None or cost < cheapest:
                    cheapest, cut[i] = cost, j
            best[i] = cheapest
        out, at = [], 0
        while at < n:
            out.append([indices[k] for k in order[at : cut[at]]])
            at = cut[at]
        return out
