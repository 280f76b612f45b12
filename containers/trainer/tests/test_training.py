"""The loop's parts, each against the plain way to say the same thing."""

import math

import numpy as np
import torch
from bench_trainer.batch import Hyperparameters
from bench_trainer.batching import Splitter
from bench_trainer.failures import NotFinite, OutOfMemory
from bench_trainer.memory import guarded
from bench_trainer.optimizer import FlatAdamW
from bench_trainer.probe import CutEmbedding
from bench_trainer.train import row_order


def test_row_order():
    # torch.Generator().manual_seed(4242), then randperm(512): torch 2.2.2 and 2.15 agree.
    assert row_order(512, 4242, 0)[:8] == [430, 249, 321, 398, 226, 429, 460, 192]
    g = torch.Generator()
    for epoch, offset in enumerate([0, 1, 3, 6, 10]):
        g.manual_seed(4242 + offset)
        assert row_order(100, 4242, epoch) == torch.randperm(100, generator=g).tolist()


def _network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(7, 33), torch.nn.LayerNorm(33), torch.nn.GELU(), torch.nn.Linear(33, 3))


def test_optimizer_is_adamw():
    for decay in (0.0, 0.1):
        hp = Hyperparameters(learning_rate=1e-2, max_steps=50, warmup_ratio=0.1, weight_decay=decay, max_grad_norm=0.5)
        ours, theirs = _network(), _network()
        flat = FlatAdamW(ours, hp)
        plain = [p for n, p in theirs.named_parameters() if n.endswith("bias") or n.startswith("1.")]
        decayed = [p for p in theirs.parameters() if not any(p is q for q in plain)]
        reference = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}], lr=hp.learning_rate
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            reference, lambda step: step / 5 if step < 5 else max(0.0, (50 - step) / 45)
        )
        x, y = torch.randn(16, 7), torch.arange(16) % 3
        for _ in range(30):
            torch.nn.functional.cross_entropy(ours(x), y).backward()
            flat.step()
            flat.zero_grad()
            torch.nn.functional.cross_entropy(theirs(x), y).backward()
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
            reference.step()
            schedule.step()
            reference.zero_grad()
        for a, b in zip(ours.parameters(), theirs.parameters()):
            assert torch.allclose(a, b, rtol=0, atol=1e-6), float((a - b).abs().max())


def test_learning_rate():
    flat = FlatAdamW(_network(), Hyperparameters())
    assert flat.learning_rate(0) == 0
    assert flat.learning_rate(50) == 1e-5
    assert flat.learning_rate(100) == 2e-5
    assert math.isclose(flat.learning_rate(5050), 1e-5)
    assert flat.learning_rate(10_000) == 0


def test_splitter():
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 120, 200)
    for micro_batch in (32, 8, 1):
        for overhead in (0.5, 50.0, 1e9):
            for _ in range(20):
                rows = rng.choice(200, 32, replace=False).tolist()
                parts = Splitter(lengths, micro_batch, overhead, True).split(rows)
                assert sorted(i for part in parts for i in part) == sorted(rows)
                assert max(map(len, parts)) <= micro_batch
                cost = sum(overhead + len(p) * lengths[p].max() for p in parts)
                if micro_batch == 32:
                    assert cost <= overhead + 32 * lengths[rows].max()
                in_order = Splitter(lengths, micro_batch, overhead, False).split(rows)
                assert [i for part in in_order for i in part] == rows


def test_guarded_tells_memory_from_faults():
    def needs_few(rows):
        if len(rows) > 2:
            raise RuntimeError("whatever it says")
        return rows

    assert guarded(needs_few, [1, 2], 0) == [1, 2]
    tried = []

    def faulty(rows):
        tried.append(rows)
        raise RuntimeError("CUDA out of memory, or so it says")

    def typed(rows):
        raise MemoryError

    for work, error in ((needs_few, OutOfMemory), (faulty, RuntimeError), (typed, OutOfMemory)):
        try:
            guarded(work, [1, 2, 3], 2)
        except error as e:
            assert type(e) is error
        else:
            raise AssertionError("no error")
    assert tried == [[1, 2, 3], [3]]


def test_cut_embedding_trains_the_same():
    torch.manual_seed(0)
    full = torch.nn.Embedding(50, 4, padding_idx=0)
    used = torch.tensor([0, 3, 7, 49])
    cut = CutEmbedding(full, used)
    ids = torch.tensor([[3, 7, 0], [49, 3, 0]])
    assert torch.equal(full(ids), cut(ids))
    full(ids).square().sum().backward()
    cut(ids).square().sum().backward()
    assert torch.equal(full.weight.grad[used], cut.weight.grad)
    assert not cut.weight.grad[0].any()


def test_not_finite_is_decided_by_value():
    from bench_trainer.predict import _finite

    assert _finite(np.ones(3)).all()
    for bad in (math.nan, math.inf):
        try:
            _finite(np.array([1.0, bad]))
        except NotFinite:
            pass
        else:
            raise AssertionError("no error")
