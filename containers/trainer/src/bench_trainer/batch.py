"""Reading IN/batch.json and the rows of its data sets. Nothing here needs torch."""

import dataclasses
import json
import math
import os

from . import PROTOCOL
from .failures import BadBatch, BadInput

HEADS = ("token-classification", "sequence-classification", "question-answering", "speed")
FRESH = ("", "tiny", "xlmr-base", "electra-small")


@dataclasses.dataclass(frozen=True)
class Model:
    id: str = ""
    revision: str = ""
    path: str = ""
    fresh: str = ""
    allow_remote_code: bool = False


@dataclasses.dataclass(frozen=True)
class Dataset:
    name: str
    task: str
    head: str
    labels: tuple
    languages: tuple
    dir: str


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    learning_rate: float = 2e-5
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    warmup_ratio: float = 0.01
    max_steps: int = 10_000
    batch_size: int = 32
    eval_steps: int = 30
    patience_steps: int = 90
    max_length: int = 0
    precision: str = "fp32"
    dropout: float | None = None


@dataclasses.dataclass(frozen=True)
class Job:
    id: str
    dataset: str
    seed: int


@dataclasses.dataclass(frozen=True)
class Batch:
    id: str
    model: Model
    datasets: dict
    hyperparameters: Hyperparameters
    jobs: tuple
    device: str
    threads: int


def _pick(value, where, fields):
    """The members of a JSON object, checked: fields maps a name to (type or types, default or ...)."""
    if not isinstance(value, dict):
        raise BadBatch(f"{where} is not an object")
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise BadBatch(f"{where} has unknown fields: {', '.join(unknown)}")
    out = {}
    for name, (types, default) in fields.items():
        if name not in value:
            if default is ...:
                raise BadBatch(f"{where} lacks {name}")
            out[name] = default
            continue
        got = value[name]
        if not isinstance(got, types) or (isinstance(got, bool) and types is not bool):
            raise BadBatch(f"{where}.{name} has the wrong type: {json.dumps(got)[:80]}")
        out[name] = got
    return out


def _strings(values, where):
    if not all(isinstance(v, str) for v in values):
        raise BadBatch(f"{where} must hold strings")
    return tuple(values)


_NUMBER = (int, float)
_RANGES = {
    "learning_rate": lambda v: v >= 0,
    "adam_beta1": lambda v: 0 <= v < 1,
    "adam_beta2": lambda v: 0 <= v < 1,
    "adam_epsilon": lambda v: v > 0,
    "weight_decay": lambda v: v >= 0,
    "max_grad_norm": lambda v: v >= 0,
    "warmup_ratio": lambda v: 0 <= v <= 1,
    "max_steps": lambda v: v >= 1,
    "batch_size": lambda v: v >= 1,
    "eval_steps": lambda v: v >= 1,
    "patience_steps": lambda v: v >= 1,
    "max_length": lambda v: v >= 0,
    "precision": lambda v: v in ("fp32", "bf16", "fp16"),
    "dropout": lambda v: v is None or 0 <= v < 1,
}


def _hyperparameters(value):
    fields = {}
    for f in dataclasses.fields(Hyperparameters):
        if f.name == "dropout":
            types = (int, float, type(None))
        elif isinstance(f.default, float):
            types = _NUMBER
        else:
            types = type(f.default)
        fields[f.name] = (types, f.default)
    out = _pick(value, "hyperparameters", fields)
    for name, ok in _RANGES.items():
        v = out[name]
        if (isinstance(v, float) and not math.isfinite(v)) or not ok(v):
            raise BadBatch(f"hyperparameters.{name} is out of range: {v}")
    return Hyperparameters(**out)


def _name(value, where):
    """A name that is also a folder's name: no separators, not hidden."""
    if not value or value.startswith(".") or any(c in value for c in "/\\\0"):
        raise BadBatch(f"{where} is not usable as a folder name: {value!r}")
    return value


def read_batch(path):
    """The batch of a file. Raises BadBatch for anything that the protocol does not allow."""
    try:
        with open(path, encoding="utf-8") as f:
            value = json.load(f)
    except (OSError, ValueError) as e:
        raise BadBatch(f"cannot read {path}: {e}") from e
    if not isinstance(value, dict) or value.get("protocol") != PROTOCOL:
        found = value.get("protocol") if isinstance(value, dict) else None
        raise BadBatch(f"{path}: protocol {found!r}, this trainer speaks {PROTOCOL}")
    top = _pick(
        value,
        "batch",
        {
            "protocol": (int, ...),
            "id": (str, ""),
            "model": (dict, ...),
            "datasets": (list, ...),
            "hyperparameters": (dict, {}),
            "jobs": (list, ...),
            "device": (str, "auto"),
            "threads": (int, 0),
        },
    )
    model = Model(
        **_pick(
            top["model"],
            "model",
            {
                "id": (str, ""),
                "revision": (str, ""),
                "path": (str, ""),
                "fresh": (str, ""),
                "allow_remote_code": (bool, False),
            },
        )
    )
    if model.fresh not in FRESH:
        raise BadBatch(f"model.fresh {model.fresh!r} is none of {', '.join(FRESH[1:])}")
    root = os.path.dirname(os.path.abspath(path))
    if model.path:
        model = dataclasses.replace(model, path=os.path.join(root, model.path))
    elif model.fresh != "tiny":
        raise BadBatch("model.path is empty")
    datasets = {}
    for i, d in enumerate(top["datasets"]):
        where = f"datasets[{i}]"
        d = _pick(
            d,
            where,
            {
                "name": (str, ...),
                "task": (str, ""),
                "head": (str, ...),
                "labels": (list, []),
                "languages": (list, []),
                "dir": (str, ...),
            },
        )
        if d["head"] not in HEADS:
            raise BadBatch(f"{where}.head {d['head']!r} is none of {', '.join(HEADS)}")
        d["labels"] = _strings(d["labels"] or [], f"{where}.labels")
        d["languages"] = _strings(d["languages"] or [], f"{where}.languages")
        if d["head"] in HEADS[:2] and (len(d["labels"]) < 2 or len(set(d["labels"])) != len(d["labels"])):
            raise BadBatch(f"{where}.labels needs two or more different labels")
        if d["name"] in datasets:
            raise BadBatch(f"{where}: {d['name']!r} is there twice")
        datasets[d["name"]] = Dataset(**{**d, "dir": os.path.join(root, d["dir"])})
    jobs = []
    for i, j in enumerate(top["jobs"]):
        j = _pick(j, f"jobs[{i}]", {"id": (str, ...), "dataset": (str, ...), "seed": (int, ...)})
        _name(j["id"], f"jobs[{i}].id")
        if j["dataset"] not in datasets:
            raise BadBatch(f"jobs[{i}]: no data set {j['dataset']!r} in this batch")
        if not 0 <= j["seed"] < 2**32:
            raise BadBatch(f"jobs[{i}].seed is out of range: {j['seed']}")
        jobs.append(Job(**j))
    if len({j.id for j in jobs}) != len(jobs):
        raise BadBatch("two jobs have the same id")
    if top["device"] not in ("auto", "cpu", "cuda"):
        raise BadBatch(f"device {top['device']!r} is none of auto, cpu, cuda")
    if top["threads"] < 0:
        raise BadBatch("threads is negative")
    return Batch(top["id"], model, datasets, _hyperparameters(top["hyperparameters"]), tuple(jobs), top["device"], top["threads"])


def _check_row(row, head, gold):
    """What is wrong with a row, or None."""
    if not isinstance(row, dict):
        return "not an object"
    if not isinstance(row.get("id"), str):
        return "no id"
    if head == "token-classification":
        words = row.get("tokens")
        if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
            return "tokens is not a list of strings"
        if gold and (not isinstance(row.get("labels"), list) or len(row["labels"]) != len(words)):
            return "labels is not a list as long as tokens"
    elif head == "question-answering":
        if not isinstance(row.get("question"), str) or not isinstance(row.get("context"), str):
            return "no question or no context"
        if gold:
            a = row.get("answers")
            if not isinstance(a, dict) or not isinstance(a.get("text"), list) or not isinstance(a.get("answer_start"), list):
                return "answers is not {text, answer_start}"
            if len(a["text"]) != len(a["answer_start"]):
                return "answers has not as many texts as starts"
    else:
        if not isinstance(row.get("text"), str):
            return "no text"
        if gold and not isinstance(row.get("label"), str):
            return "no label"
    return None


def read_rows(dataset, split):
    """The rows of a split as a list of dicts. Raises BadInput naming file and line. Test rows need no gold."""
    path = os.path.join(dataset.dir, split + ".jsonl")
    rows = []
    try:
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError as e:
                    raise BadInput(f"{dataset.name}: {split}.jsonl line {number} is not JSON: {e}") from e
                wrong = _check_row(row, dataset.head, gold=split != "test")
                if wrong:
                    raise BadInput(f"{dataset.name}: {split}.jsonl line {number}: {wrong}")
                rows.append(row)
    except (OSError, UnicodeDecodeError) as e:
        raise BadInput(f"{dataset.name}: cannot read {split}.jsonl: {e}") from e
    if not rows:
        raise BadInput(f"{dataset.name}: {split}.jsonl holds no rows")
    return rows


def label_index(dataset):
    """Label → output of the head. Compared exactly, else without case, as the reference system does."""
    exact = {label: i for i, label in enumerate(dataset.labels)}
    folded = {label.upper(): i for i, label in enumerate(dataset.labels)}

    def index(label):
        i = exact.get(label, folded.get(label.upper()))
        if i is None:
            raise BadInput(f"{dataset.name}: label {label!r} is none of {', '.join(dataset.labels)}")
        return i

    return index
