"""Fine-tuning: the reference system's loop (same order of rows, same stopping), without its framework."""

import dataclasses
import math
import time

import numpy as np
import torch

from .batching import Splitter, chunks
from .failures import NotFinite
from .loss import batch_loss, logits_of, row_losses
from .memory import guarded
from .optimizer import FlatAdamW

PADDED_TOGETHER = 1000  # rows that the reference system tokenises in one go
PROGRESS_SECONDS = 5.0  # at most so long between two step events


@dataclasses.dataclass
class Fit:
    """What a training came to. The model then holds the best weights."""

    steps: int
    best_step: int
    validation_losses: list


def row_order(n, seed, epoch):
    """Order of the training rows in an epoch (from 0): a permutation drawn from torch's generator seeded with
    seed + epoch·(epoch+1)/2.

    The reference system's sampler adds the epoch's number to the seed that the epoch before was drawn with: hence the sum."""
    generator = torch.Generator()
    generator.manual_seed(seed + epoch * (epoch + 1) // 2)
    return torch.randperm(n, generator=generator).tolist()


class LossScale:
    """Dynamic loss scale of fp16: halved when a gradient overflows, doubled after 2,000 steps without that."""

    def __init__(self):
        self.value = 65536.0
        self.clean = 0

    def undo(self, gradient):
        """Divide the gradient by the scale; False when it overflowed and the step must be left out."""
        gradient.mul_(1 / self.value)
        if bool(torch.isfinite(torch.linalg.vector_norm(gradient))):
            self.clean += 1
            if self.clean % 2000 == 0:
                self.value *= 2
            return True
        self.value /= 2
        self.clean = 0
        return False


class Runner:
    """One model on one encoded data set with one micro-batch size: forward passes for training and evaluation."""

    def __init__(self, model, encoded, collator, head, hp, micro_batch, precision, padding_free, overhead_tokens):
        self.model = model
        self.encoded = encoded
        self.collator = collator
        self.head = head
        self.hp = hp
        self.micro_batch = micro_batch
        self.device = collator.device
        self.precision = precision
        # padding_free: the outputs do not depend on how far a row is padded, so rows may be regrouped by length.
        self.by_length = padding_free and not encoded.fixed_length
        self.train_lengths = encoded.train.lengths()
        self.train_padding = self._reference_padding(encoded.train)
        self.splitter = Splitter(self.train_lengths, micro_batch, overhead_tokens, self.by_length)
        self.loss_scale = LossScale() if precision == "fp16" else None

    def _reference_padding(self, split):
        """Per row the length that the reference system pads to at least, for models whose outputs depend on it.

        Words (token classification) are padded in pieces of 1,000 rows when they are tokenised; other rows only when they
        are put into a batch."""
        lengths = split.lengths()
        if self.head != "token-classification":
            return lengths
        return np.concatenate([np.full(len(part), part.max()) for part in np.split(lengths, range(PADDED_TOGETHER, len(lengths), PADDED_TOGETHER))])

    def forward(self, inputs):
        if self.precision == "fp32":
            return logits_of(self.model(**inputs), self.head)
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float16
        with torch.autocast(self.device.type, dtype=dtype):
            output = self.model(**inputs)
        return logits_of(output, self.head)

    def _backward(self, indices, total, length):
        inputs = self.collator.inputs(self.encoded.train, indices, length)
        targets = self.collator.targets(self.encoded.train, indices, inputs["input_ids"].shape[1])
        loss, _ = batch_loss(self.forward(inputs), targets, self.head)
        loss = loss / total
        (loss * self.loss_scale.value if self.loss_scale else loss).backward()
        return loss.detach()

    def _count(self, indices):
        """Things that the loss of an effective batch is a mean over."""
        if self.head != "token-classification":
            return len(indices)
        return max(1, sum(self.label_counts[i] for i in indices))

    def accumulate(self, indices):
        """Gradients of the mean loss over an effective batch; the loss as a tensor on the device."""
        total = self._count(indices)
        length = 0 if self.by_length else int(self.train_padding[indices].max())
        losses = []
        for part in self.splitter.split(indices):
            longest = int(np.argmax(self.train_lengths[part]))
            losses.append(guarded(lambda rows: self._backward(rows, total, length), part, longest))
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def batches(self, split):
        """Batches for evaluation: of like length if that makes no difference, else as the reference has them."""
        n = len(split)
        if not self.by_length:
            # Cut from batches of the effective size, each padded to the longest of those.
            lengths = self._reference_padding(split)
            for whole in chunks(list(range(n)), self.hp.batch_size):
                for part in chunks(whole, self.micro_batch):
                    yield part, int(lengths[whole].max())
            return
        lengths = split.lengths()
        order = np.argsort(-lengths, kind="stable").tolist()
        # Without gradients more rows fit than in training; but not where memory has run out already.
        rows = 4 * self.micro_batch if self.micro_batch == self.hp.batch_size else self.micro_batch
        at = 0
        while at < n:
            room = max(1, min(rows, self.micro_batch * 128 // int(lengths[order[at]])))
            yield order[at : at + room], 0
            at += room

    @torch.no_grad()
    def outputs(self, split, use):
        """use(indices, inputs, logits) for each evaluation batch of a split."""
        self.model.eval()
        lengths = split.lengths()
        for indices, length in self.batches(split):

            def work(rows):
                inputs = self.collator.inputs(split, rows, length)
                return inputs, self.forward(inputs)

            use(indices, *guarded(work, indices, int(np.argmax(lengths[indices]))))

    def validation_loss(self):
        """Mean over validation rows of their batch's loss, in the reference's batches (batch_size rows in file order).

        For token classification a batch's loss is a mean over its labelled tokens, so the grouping matters."""
        val = self.encoded.val
        sums = np.zeros(len(val))
        counts = np.zeros(len(val))

        def use(indices, inputs, logits):
            targets = self.collator.targets(val, indices, inputs["input_ids"].shape[1])
            losses, n = row_losses(logits, targets, self.head)
            sums[indices] = losses.cpu().numpy()
            counts[indices] = n.cpu().numpy()

        self.outputs(val, use)
        total = 0.0
        for at in range(0, len(val), self.hp.batch_size):
            part = slice(at, at + self.hp.batch_size)
            count = counts[part].sum()
            total += (sums[part].sum() / count if count else 0.0) * len(sums[part])
        return float(total / len(val))

    def fit(self, seed, progress):
        """Train until patience or max_steps ends it; the model then holds the weights of the lowest validation loss.

        progress(kind, **fields) is told of steps and evaluations. Raises NotFinite when a loss is not finite."""
        hp = self.hp
        self.label_counts = None
        if self.head == "token-classification":
            self.label_counts = [int((t >= 0).sum()) for t in self.encoded.train.targets]
        optimizer = FlatAdamW(self.model, hp)
        buffers = [b for b in self.model.buffers() if b.is_floating_point()]
        best, best_loss, best_step = None, math.inf, 0
        best_buffers = []
        evaluations, pending = [], []
        started = reported = time.monotonic()
        step, epoch, batches = 0, 0, []
        self.model.train()
        while step < hp.max_steps:
            if not batches:
                batches = chunks(row_order(len(self.encoded.train), seed, epoch), hp.batch_size)[::-1]
                epoch += 1
            loss = self.accumulate(batches.pop())
            if self.loss_scale is None or self.loss_scale.undo(optimizer.gradient):
                optimizer.step()
            else:
                optimizer.skip()
            optimizer.zero_grad()
            step += 1
            pending.append(loss)
            evaluate = step % hp.eval_steps == 0
            if evaluate or step == hp.max_steps or time.monotonic() - reported > PROGRESS_SECONDS:
                losses = torch.stack(pending).tolist()
                pending = []
                if not all(map(math.isfinite, losses)):
                    raise NotFinite(f"the training loss is not finite at step {step}")
                reported = time.monotonic()
                progress("step", step=step, losses=losses, seconds=round(reported - started, 3))
            if not evaluate:
                continue
            loss = self.validation_loss()
            self.model.train()
            if not math.isfinite(loss):
                raise NotFinite(f"the validation loss is not finite at step {step}")
            progress("eval", step=step, loss=loss)
            evaluations.append([step, loss])
            if loss < best_loss:
                best_loss, best_step = loss, step
                best = optimizer.weights.clone() if best is None else best.copy_(optimizer.weights)
                best_buffers = [b.clone() for b in buffers]
            elif step - best_step >= hp.patience_steps:
                break
        if best is None:
            best_step = step  # too short a training for an evaluation: the last weights
        else:
            with torch.no_grad():
                optimizer.weights.copy_(best)
                for b, kept in zip(buffers, best_buffers):
                    b.copy_(kept)
        for p in self.model.parameters():
            p.grad = None
        return Fit(step, best_step, evaluations)
