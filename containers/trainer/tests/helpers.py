"""What the tests share: rows written for them, tiny models, running the trainer, the metrics of the parity test."""

import json
import math
import os
import random
import re
import string
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(HERE, os.pardir, "src")
REPOSITORY = os.path.abspath(os.path.join(HERE, *[os.pardir] * 3))
SHARED = os.path.join(REPOSITORY, os.pardir, "shared")

try:
    from pytest import skip

    Skip = skip.Exception
except ImportError:

    class Skip(Exception):
        pass


def shared(*parts):
    """A path below the shared folder; skips when it is absent, unless BENCH_TEST_REQUIRE names it."""
    path = os.path.join(SHARED, *parts)
    if not os.path.exists(path):
        if "shared" in os.environ.get("BENCH_TEST_REQUIRE", "").split(","):
            raise AssertionError(f"{path} is missing")
        raise Skip(f"no {path}")
    return path


TAGS = ["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER", "B-MISC", "I-MISC"]
HEADS = {
    "ner": ("token-classification", TAGS),
    "sentiment": ("sequence-classification", ["negative", "neutral", "positive"]),
    "acceptability": ("sequence-classification", ["incorrect", "correct"]),
    "qa": ("question-answering", []),
}
NAMES, PLACES = ["Asta", "Bo", "Dagny", "Eskil", "Fie", "Gro"], ["Ribe", "Voss", "Lund", "Vik", "Mora"]
WORDS = {"negative": ["trist", "dårlig"], "neutral": ["stor", "grøn"], "positive": ["dejlig", "flot"]}


def rows(task, n, seed):
    """Rows of a small template grammar, different for each seed."""
    rng = random.Random(seed)
    out = []
    for i in range(n):
        who, where = rng.choice(NAMES), rng.choice(PLACES)
        row = {"id": f"{seed}-{i}"}
        if task == "ner":
            row |= {"tokens": [who, "bor", "i", where, "."], "labels": ["B-PER", "O", "O", "B-LOC", "O"]}
        elif task == "sentiment":
            label = rng.choice(HEADS["sentiment"][1])
            row |= {"text": f"{who} så en {rng.choice(WORDS[label])} by .", "label": label}
        elif task == "acceptability":
            good = rng.random() < 0.5
            row |= {"text": f"{who} bor i {where} ." if good else f"{who} i bor {where} .", "label": "correct" if good else "incorrect"}
        else:
            others = rng.sample([x for x in NAMES if x != who], 2)
            parts = [f"{x} bor i {rng.choice(PLACES)} ." for x in others] + [f"{who} bor i {where} ."]
            rng.shuffle(parts)
            context = " ".join(parts)
            start = context.index(f"{who} bor i {where}") + len(f"{who} bor i ")
            row |= {"question": f"Hvor bor {who} ?", "context": context, "answers": {"text": [where], "answer_start": [start]}}
        out.append(row)
    return out


def without_gold(row):
    return {k: v for k, v in row.items() if k not in ("labels", "label", "corruption_type", "answers")}


def write_jsonl(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(v, ensure_ascii=False) + "\n" for v in values), encoding="utf-8")


def small_splits(task):
    return {"train": rows(task, 96, 1), "val": rows(task, 32, 2), "test": rows(task, 40, 3)}


def make_batch(folder, tasks, jobs=None, model=None, hyperparameters=None, splits=None):
    """IN below folder. tasks: names; jobs: [(id, task, seed)]; splits: {task: {split: rows}}. Returns the path of batch.json."""
    datasets = []
    for task in tasks:
        head, labels = HEADS[task]
        for split, values in (splits or {}).get(task, small_splits(task)).items():
            write_jsonl(folder / "data" / task / f"{split}.jsonl", [without_gold(r) for r in values] if split == "test" else values)
        datasets.append({"name": task, "task": task, "head": head, "labels": labels, "languages": ["da"], "dir": f"data/{task}"})
    value = {
        "protocol": 1,
        "id": "b",
        "model": {"id": "test/model", "revision": "0", "path": "", "fresh": "tiny", "allow_remote_code": False, **(model or {})},
        "datasets": datasets,
        "hyperparameters": {"learning_rate": 1e-3, "max_steps": 60, "patience_steps": 90, **(hyperparameters or {})},
        "jobs": [{"id": i, "dataset": t, "seed": s} for i, t, s in (jobs or [(t, t, 4242) for t in tasks])],
        "device": "cpu",
        "threads": int(os.environ.get("BENCH_TEST_THREADS", "1")),
    }
    path = folder / "batch.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def run_trainer(batch, out, code=0, env=None, **kw):
    """Run the trainer in a process of its own. Returns its events; checks the exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "bench_trainer", "--batch", str(batch), "--out", str(out)],
        env={**os.environ, "PYTHONPATH": SRC, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}, capture_output=True, text=True, **kw,
    )
    assert done.returncode == code, f"exit {done.returncode}, want {code}\n{done.stderr[-4000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def outcome(out, job):
    return json.loads((out / job / "outcome.json").read_text(encoding="utf-8"))


def predictions(out, job):
    return [json.loads(line) for line in (out / job / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]


def save_bert(folder, slow=False, **config):
    """A two-layer BERT with random weights and a WordPiece vocabulary of the words above."""
    import torch
    from transformers import BertConfig, BertModel

    words = sorted({w for t in HEADS for r in rows(t, 64, 1) for v in (r.get("tokens") or r.get("text", "").split()) for w in [v]})
    words += ["Hvor", "?"]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(w + "\n" for w in vocabulary), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": False, "model_max_length": 64}), encoding="utf-8"
    )
    torch.manual_seed(0)
    options = {"vocab_size": len(vocabulary), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
               "max_position_embeddings": 64, **config}
    model = BertModel(BertConfig(**options))
    model.save_pretrained(folder)
    return model


# -- metrics, each the textbook one, for comparing with the reference system's scores ---------------------------------


def bootstrap_row(n, i):
    import numpy as np

    return np.random.default_rng(4242).integers(0, n, (10, n))[i].tolist()


def mcc(gold, pred):
    classes = sorted(set(gold) | set(pred))
    s, c = len(gold), sum(g == p for g, p in zip(gold, pred))
    t, p = [gold.count(k) for k in classes], [pred.count(k) for k in classes]
    d = math.sqrt((s * s - sum(x * x for x in p)) * (s * s - sum(x * x for x in t)))
    return (c * s - sum(x * y for x, y in zip(t, p))) / d if d else 0.0


def macro_f1(gold, pred):
    out = []
    for k in sorted(set(gold) | set(pred)):
        hits = sum(g == p == k for g, p in zip(gold, pred))
        out.append(2 * hits / (gold.count(k) + pred.count(k)))
    return sum(out) / len(out)


def entities(tags):
    """(type, start, end) by the lenient reading of conlleval: an I- of another type starts an entity."""
    out, kind, start = set(), None, 0
    for i, tag in enumerate([*tags, "O"]):
        head, _, this = tag.partition("-")
        if kind is not None and (head != "I" or this != kind):
            out.add((kind, start, i))
            kind = None
        if head != "O" and kind is None:
            kind, start = this, i
    return out


def micro_f1(gold, pred):
    hits = total = 0
    for g, p in zip(map(entities, gold), map(entities, pred)):
        hits, total = hits + len(g & p), total + len(g) + len(p)
    return 2 * hits / total if total else 0.0


def normalised(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_and_f1(gold, pred):
    """Per question: (exact match, token F1), the best over the gold answers."""
    best = (0.0, 0.0)
    for answer in gold or [""]:
        g, p = normalised(answer).split(), normalised(pred).split()
        rest, same = list(g), 0
        for token in p:
            if token in rest:
                rest.remove(token)
                same += 1
        f1 = float(g == p) if not g or not p else 2 * same / (len(g) + len(p))
        best = (max(best[0], float(normalised(answer) == normalised(pred))), max(best[1], f1))
    return best
