"""The heads' losses, from logits: cross-entropy in fp32, summed, with the number of things summed over."""

import torch
import torch.nn.functional as F

from .encode import IGNORED


def logits_of(output, head):
    """(n, classes), (n, length, classes) or, for question answering, (n, length, 2) logits in fp32."""
    if head == "question-answering":
        return torch.stack((output.start_logits, output.end_logits), dim=-1).float()
    return output.logits.float()


def batch_loss(logits, targets, head):
    """(sum of the losses, count): the mean over the effective batch is Σ sums / Σ counts.

    Counted are sequences, for token classification labelled tokens. A question's loss is the mean of start's and end's."""
    if head == "question-answering":
        # (n, length, 2) against (n, 2): two classifications over positions. Positions past the end are left out.
        targets = targets.clamp(0, logits.shape[1])
        return F.cross_entropy(logits, targets, ignore_index=logits.shape[1], reduction="sum") / 2, len(targets)
    if head == "token-classification":
        count = int((targets != IGNORED).sum())
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORED, reduction="sum"), count
    return F.cross_entropy(logits, targets, reduction="sum"), len(targets)


def row_losses(logits, targets, head):
    """Per sequence (sum of losses, count), as two tensors: to be regrouped into batches later."""
    if head == "question-answering":
        targets = targets.clamp(0, logits.shape[1])
        losses = F.cross_entropy(logits, targets, ignore_index=logits.shape[1], reduction="none").sum(1) / 2
        return losses, torch.ones_like(losses)
    if head == "token-classification":
        losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none").sum(1)
        return losses, (targets != IGNORED).sum(1).to(losses.dtype)
    losses = F.cross_entropy(logits, targets, reduction="none")
    return losses, torch.ones_like(losses)
