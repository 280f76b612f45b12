"""Writes vectors.json. Run with numpy 1.24.2, pandas 1.5.3, scikit-learn 1.2.1:

    python vectors.py > vectors.json

Without pandas and scikit-learn, "chain" and "stratified" stay empty; the rest was also made with numpy 2.4.6 and is
the same there.
"""
import json
import sys

import numpy as np

out = {"random_state": [], "generator": [], "bootstrap": [], "chain": [], "stratified": []}
for seed in (0, 1, 4242, 2**32 - 1):
    r = np.random.RandomState(seed)
    out["random_state"].append({
        "seed": seed,
        # the first 700 raw outputs go past the first refill at 624
        "raw": [int(v) for v in np.random.RandomState(seed).randint(0, 2**32, 700, dtype=np.uint32)][-20:],
        "permutations": {str(n): [int(v) for v in r.permutation(n)] for n in (1, 2, 10, 257)},
    })
for seed in (0, 1, 4242, 2**32 - 1, 2**32, 2**63 + 12345):
    g = np.random.default_rng(seed)
    v = {"seed": str(seed), "integers": []}
    # 3 and 3·10⁹ reject often or leave odd halves; the stream goes on from one to the next
    for n in (1, 2, 3, 10, 1000, 2048, 3_000_000_000):
        v["integers"].append({"n": n, "values": [int(x) for x in g.integers(0, n, 21)]})
    v["raw"] = [str(x) for x in g.bit_generator.random_raw(3)]
    v["permutations"] = {str(n): [int(x) for x in g.permutation(n)] for n in (1, 2, 11, 300)}
    out["generator"].append(v)
for seed, n, k in ((4242, 2048, 10), (4242, 1024, 10), (4242, 565, 10), (7, 3, 4)):
    rows = np.random.default_rng(seed).integers(0, n, (k, n))
    out["bootstrap"].append({
        "seed": seed, "n": n, "replicates": k,
        "first": [[int(x) for x in row[:10]] for row in rows],
        "last": [[int(x) for x in row[-3:]] for row in rows],
        "unique": [len(set(row.tolist())) for row in rows],
        "weighted": [int((row * np.arange(1, n + 1)).sum()) for row in rows],
    })
try:
    import pandas as pd
    from sklearn.model_selection import train_test_split
except ImportError:
    json.dump(out, sys.stdout)
    sys.exit()
for n, sizes in ((5512, (128, 1024, 512)), (20, (5, 5, 10)), (7, (7,))):
    frame, parts = pd.DataFrame({"x": range(n)}), []
    for k in sizes:
        drawn = frame.sample(k, random_state=4242)
        parts.append([int(x) for x in drawn.index])
        frame = frame.drop(drawn.index)
    out["chain"].append({"n": n, "sizes": sizes, "parts": parts, "rest": len(frame)})
cases = [
    (list("aab") * 10, 12, 9, 4242),
    (list("abcd") * 7, 13, 11, 1),  # equal remainders: which class gets one more is drawn
    (list("abcdefg") * 3, 9, 10, 99),
    (["pos"] * 40 + ["neg"] * 37 + ["neu"] * 11, 50, 30, 4242),
]
for labels, train, test, seed in cases:
    a, b = train_test_split(list(range(len(labels))), train_size=train, test_size=test, stratify=labels, random_state=seed)
    out["stratified"].append({"labels": labels, "train": train, "test": test, "seed": seed, "train_rows": a, "test_rows": b})
json.dump(out, sys.stdout)
