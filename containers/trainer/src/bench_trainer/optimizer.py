"""AdamW over one flat buffer: all parameters, gradients and moments are views of four long vectors.

The same arithmetic as torch.optim.AdamW, element by element; the vectors make it a dozen calls a step, whatever the number
of parameters, and make copies of all weights a single memcpy."""

import math

import torch

# Long vectors are worked through in pieces that stay in the cache (elements; 1 MiB of float32).
PIECE = 1 << 18


def _decays(model):
    """Names of the parameters that weight decay applies to: all but biases and normalisation weights."""
    out = set()
    for module_name, module in model.named_modules():
        if "norm" in type(module).__name__.lower():
            continue
        for name, _ in module.named_parameters(recurse=False):
            if "bias" not in name:
                out.add(f"{module_name}.{name}" if module_name else name)
    return out


class FlatAdamW:
    def __init__(self, model, hp):
        self.hp = hp
        self.steps = 0
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        decaying = _decays(model)
        named.sort(key=lambda item: item[0] not in decaying)  # stable: those that decay first
        self.parameters = [p for _, p in named]
        sizes = [p.numel() for p in self.parameters]
        # Every view starts at a multiple of 16 elements (64 bytes), where vector instructions like it.
        starts, total = [], 0
        for size in sizes:
            starts.append(total)
            total += -(-size // 16) * 16
        self.decay_end = next((s for s, (n, _) in zip(starts, named) if n not in decaying), total)
        device = self.parameters[0].device
        self.weights = torch.zeros(total, dtype=torch.float32, device=device)
        self.gradient = torch.zeros(total, dtype=torch.float32, device=device)
        self.first = torch.zeros(total, dtype=torch.float32, device=device)
        self.second = torch.zeros(total, dtype=torch.float32, device=device)
        for p, start, size in zip(self.parameters, starts, sizes):
            view = self.weights[start : start + size].view(p.shape)
            view.copy_(p.data)
            p.data = view
            p.grad = self.gradient[start : start + size].view(p.shape)
        self.piece = PIECE if device.type == "cpu" else total
        self._scratch = torch.empty(min(self.piece, total), dtype=torch.float32, device=device)

    def zero_grad(self):
        self.gradient.zero_()

    def learning_rate(self, step):
        """Of the step-th update, counted from 0: linear warm-up, then linear decay to 0 at max_steps."""
        warmup = math.ceil(self.hp.max_steps * self.hp.warmup_ratio)
        if step < warmup:
            return self.hp.learning_rate * (step / max(1, warmup))
        return self.hp.learning_rate * max(0.0, (self.hp.max_steps - step) / max(1, self.hp.max_steps - warmup))

    def _clip_scale(self):
        """Factor that brings the gradient's norm to at most max_grad_norm; None when there is nothing to scale."""
        if not self.hp.max_grad_norm:
            return None
        scale = self.hp.max_grad_norm / (torch.linalg.vector_norm(self.gradient) + 1e-6)
        if self.weights.device.type == "cpu":
            return float(scale) if scale < 1 else None
        return torch.clamp(scale, max=1.0)  # not looked at: that would wait for the device

    def skip(self):
        """Leave an update out; the schedule goes on."""
        self.steps += 1

    @torch.no_grad()
    def step(self):
        hp = self.hp
        rate = self.learning_rate(self.steps)
        self.steps += 1
        scale = self._clip_scale()
        if hp.weight_decay and rate:
            self.weights[: self.decay_end].mul_(1 - rate * hp.weight_decay)
        step_size = rate / (1 - hp.adam_beta1**self.steps)
        root = math.sqrt(1 - hp.adam_beta2**self.steps)
        for at in range(0, len(self.weights), self.piece):
            to = min(at + self.piece, len(self.weights))
            g, m, v = self.gradient[at:to], self.first[at:to], self.second[at:to]
            if scale is not None:
                g.mul_(scale)
            m.lerp_(g, 1 - hp.adam_beta1)
            v.mul_(hp.adam_beta2).addcmul_(g, g, value=1 - hp.adam_beta2)
            denominator = torch.sqrt(v, out=self._scratch[: to - at])
            denominator.div_(root).add_(hp.adam_epsilon)
            self.weights[at:to].addcdiv_(m, denominator, value=-step_size)
