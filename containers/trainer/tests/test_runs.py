"""The whole trainer, in a process of its own, on small data and tiny models."""

import json
import os
import shutil

from helpers import HEADS, TAGS, make_batch, outcome, predictions, rows, run_trainer, save_bert, small_splits

FIELDS = {
    "protocol", "job", "state", "failure", "message", "steps", "best_step", "validation_losses", "micro_batch", "accumulation", "precision",
    "max_length", "parameters", "vocabulary", "seconds", "peak_memory_mb", "device", "device_name", "threads", "energy", "versions",
}


def test_fresh_tiny_on_all_heads_and_again_alone(tmp_path):
    tasks = ["sentiment", "ner", "qa"]
    jobs = [(f"{t}-{s}", t, s) for t in tasks for s in (1, 2)]
    events = run_trainer(make_batch(tmp_path / "a", tasks, jobs), tmp_path / "a/out")
    for job, task, seed in jobs:
        o = outcome(tmp_path / "a/out", job)
        assert set(o) == FIELDS
        assert (o["state"], o["failure"], o["job"]) == ("ok", "", job)
        assert o["steps"] == 60 and [s for s, _ in o["validation_losses"]] == [30, 60]
        assert o["best_step"] == min(o["validation_losses"], key=lambda e: e[1])[0]
        assert o["energy"] == {"joules": 0, "source": "none"}
        assert o["seconds"]["train"] > 0 and o["peak_memory_mb"]["host"] > 100 and o["device"] == "cpu"
        mine = [e for e in events if e.get("job") == job]
        assert [e["event"] for e in mine[:1] + mine[-1:]] == ["start", "job-done"]
        assert (mine[0]["dataset"], mine[0]["seed"]) == (task, seed)
        assert sum(len(e["losses"]) for e in mine if e["event"] == "step") == 60
        assert [[e["step"], e["loss"]] for e in mine if e["event"] == "eval"] == o["validation_losses"]
        check_predictions(tmp_path / "a/out", job, task)
    assert not os.path.exists(tmp_path / "a/out/.scratch")
    # The second job of a task, alone, in another process: the same bytes.
    for task in tasks:
        run_trainer(make_batch(tmp_path / task, [task], [("x", task, 2)]), tmp_path / task / "out")
        alone = (tmp_path / task / "out/x/predictions.jsonl").read_bytes()
        assert alone == (tmp_path / f"a/out/{task}-2/predictions.jsonl").read_bytes()
        if task == "sentiment":  # labels alone may agree, logits do not
            assert alone != (tmp_path / f"a/out/{task}-1/predictions.jsonl").read_bytes()
    # What is done is not done again; what failed for its surroundings is.
    first = (tmp_path / "a/out/ner-1/outcome.json").stat().st_mtime_ns
    failed = outcome(tmp_path / "a/out", "ner-2") | {"state": "failed", "failure": "infra"}
    (tmp_path / "a/out/ner-2/outcome.json").write_text(json.dumps(failed))
    events = run_trainer(tmp_path / "a/batch.json", tmp_path / "a/out")
    assert {e["job"] for e in events} == {"ner-2"} and outcome(tmp_path / "a/out", "ner-2")["state"] == "ok"
    assert (tmp_path / "a/out/ner-1/outcome.json").stat().st_mtime_ns == first


def check_predictions(out, job, task, n=40):
    got = predictions(out, job)
    want = rows(task, n, 3)
    assert [p["id"] for p in got] == [r["id"] for r in want]
    for p, r in zip(got, want):
        if task == "ner":
            assert set(p) == {"id", "labels"} and len(p["labels"]) == len(r["tokens"]) and set(p["labels"]) <= set(TAGS)
        elif task == "qa":
            assert set(p) == {"id", "text", "score"} and p["text"] in r["context"]
        else:
            assert set(p) == {"id", "label", "scores"} and list(p["scores"]) == HEADS[task][1]
            assert p["scores"][p["label"]] == max(p["scores"].values())


def test_fresh_tiny_learns(tmp_path):
    batch = make_batch(tmp_path, ["sentiment"], hyperparameters={"max_steps": 300})
    run_trainer(batch, tmp_path / "out")
    right = sum(p["label"] == r["label"] for p, r in zip(predictions(tmp_path / "out", "sentiment"), rows("sentiment", 40, 3)))
    assert right >= 36, right


def test_snapshot_words_cut_off_are_null(tmp_path):
    save_bert(tmp_path / "model")
    splits = small_splits("ner")
    splits["test"][0]["tokens"] = splits["test"][0]["tokens"] * 30  # 150 words, 64 positions of which 1 is kept free
    batch = make_batch(tmp_path, ["ner"], model={"fresh": "", "path": "model"}, splits={"ner": splits}, hyperparameters={"max_steps": 5})
    run_trainer(batch, tmp_path / "out")
    o = outcome(tmp_path / "out", "ner")
    assert o["max_length"] == 63 and o["best_step"] == 5 and o["validation_losses"] == []
    labels = predictions(tmp_path / "out", "ner")[0]["labels"]
    assert len(labels) == 150 and None not in labels[:61] and set(labels[61:]) == {None}


def failure(tmp_path, task="sentiment", code=0, **kw):
    kw.setdefault("model", {"fresh": "", "path": "model"})
    kw.setdefault("hyperparameters", {"max_steps": 5})
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    events = run_trainer(make_batch(tmp_path, [task], **kw), tmp_path / "out", code=code)
    o = outcome(tmp_path / "out", task)
    assert set(o) == FIELDS and o["state"] == "failed" and o["message"] and events[-1]["failure"] == o["failure"]
    assert not (tmp_path / "out" / task / "predictions.jsonl").exists()
    return o["failure"], o["message"]


def test_what_is_wrong_with_a_snapshot_is_told_apart(tmp_path):
    model = tmp_path / "model"
    save_bert(model)
    weights = (model / "model.safetensors").read_bytes()
    config = (model / "config.json").read_text()
    (model / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert failure(tmp_path)[0] == "input"
    (model / "model.safetensors").unlink()
    assert failure(tmp_path)[0] == "input"
    (model / "pytorch_model.bin").write_bytes(b"\x80\x04 not a checkpoint")
    assert failure(tmp_path)[0] == "input"
    (model / "pytorch_model.bin").unlink()
    (model / "model.safetensors").write_bytes(weights)
    (model / "config.json").write_text("{")
    assert failure(tmp_path)[0] == "input"
    (model / "config.json").unlink()
    kind, message = failure(tmp_path)
    assert kind == "input" and "config.json" in message
    (model / "config.json").write_text(json.dumps(json.loads(config) | {"model_type": "no-such-type"}))
    kind, message = failure(tmp_path)
    assert kind == "unsupported" and "no-such-type" in message
    (model / "config.json").write_text(config)
    (model / "vocab.txt").unlink()
    assert failure(tmp_path)[0] == "input"


def test_code_of_the_repository_is_not_imported(tmp_path):
    model = tmp_path / "model"
    save_bert(model)
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "hostile", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForSequenceClassification": "evil.Model"}}
    (model / "config.json").write_text(json.dumps(config))
    (model / "evil.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    kind, message = failure(tmp_path)
    assert kind == "unsupported" and "allow" in message
    assert not (tmp_path / "imported").exists()
    # A type that transformers knows is loaded by its own class, whatever the repository brings.
    (model / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    run_trainer(make_batch(tmp_path, ["sentiment"], model={"fresh": "", "path": "model"}, hyperparameters={"max_steps": 5}), tmp_path / "out2")
    assert outcome(tmp_path / "out2", "sentiment")["state"] == "ok"
    assert not (tmp_path / "imported").exists()


def test_hostile_pickle_is_not_run(tmp_path):
    import torch

    save_bert(tmp_path / "model")
    (tmp_path / "model/model.safetensors").unlink()

    class Payload:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"a": Payload()}, tmp_path / "model/pytorch_model.bin")
    assert failure(tmp_path)[0] == "input"
    assert not (tmp_path / "ran").exists()


def test_pickled_and_safe_weights_train_alike(tmp_path):
    import torch

    model = save_bert(tmp_path / "model")
    for name in ("a", "b"):
        if name == "b":
            (tmp_path / "model/model.safetensors").unlink()
            torch.save(model.state_dict(), tmp_path / "model/pytorch_model.bin")
        batch = make_batch(tmp_path, ["sentiment"], model={"fresh": "", "path": "model"}, hyperparameters={"max_steps": 5})
        run_trainer(batch, tmp_path / name)
    assert (tmp_path / "a/sentiment/predictions.jsonl").read_bytes() == (tmp_path / "b/sentiment/predictions.jsonl").read_bytes()


def test_nan_weights(tmp_path):
    import torch
    from safetensors.torch import load_file, save_file

    save_bert(tmp_path / "model")
    state = load_file(tmp_path / "model/model.safetensors")
    name = next(n for n in state if n.endswith("word_embeddings.weight"))
    state = {k: v.clone() for k, v in state.items()}
    state[name][:] = torch.nan
    save_file(state, tmp_path / "model/model.safetensors", metadata={"format": "pt"})
    assert failure(tmp_path)[0] == "nan"
    # In bf16 the same training is first tried again in fp32.
    assert failure(tmp_path, hyperparameters={"max_steps": 5, "precision": "bf16"})[0] == "nan"


def test_bad_rows(tmp_path):
    splits = small_splits("sentiment")
    splits["val"][3]["label"] = "mixed"
    kind, message = failure(tmp_path, model={}, splits={"sentiment": splits})
    assert kind == "input" and "mixed" in message


def test_speed(tmp_path):
    save_bert(tmp_path / "model")
    batch = make_batch(tmp_path, ["sentiment"], model={"fresh": "", "path": "model"})
    value = json.loads(batch.read_text())
    value["datasets"] = [{"name": "speed", "task": "speed", "head": "speed", "labels": [], "languages": [], "dir": "data/speed"}]
    value["jobs"] = [{"id": "s", "dataset": "speed", "seed": 4242}]
    batch.write_text(json.dumps(value))
    (tmp_path / "data/speed").mkdir(parents=True)
    (tmp_path / "data/speed/test.jsonl").write_text(json.dumps({"id": "0", "text": "This is a dummy document. " * 100}) + "\n")
    run_trainer(batch, tmp_path / "out")
    (line,) = predictions(tmp_path / "out", "s")
    assert set(line) == {"id", "inferences_per_second", "tokens_per_second"}
    assert abs(line["tokens_per_second"] / line["inferences_per_second"] - 63) < 1e-3  # cut to the model's 63 tokens
    assert outcome(tmp_path / "out", "s")["steps"] == 0


def test_memory_that_runs_out_halves_the_micro_batch(tmp_path):
    """A model whose forward pass refuses more than 8 sequences, once by the allocator's type and once by a bare RuntimeError."""
    save_bert(tmp_path / "model")
    results = {}
    for error in ("", "MemoryError()", "RuntimeError('refused')", "torch.cuda.OutOfMemoryError('refused')"):
        (tmp_path / "sitecustomize").mkdir(exist_ok=True)
        (tmp_path / "sitecustomize/bench_oom.py").write_text(
            "import torch\nfrom bench_trainer import train\nforward = train.Runner.forward\n"
            f"def refuse(self, inputs):\n    if {bool(error)} and len(inputs['input_ids']) > 8:\n        raise {error or 'None'}\n    return forward(self, inputs)\n"
            "train.Runner.forward = refuse\nimport runpy\nrunpy.run_module('bench_trainer', run_name='__main__')\n"
        )
        name = str(len(results))
        batch = make_batch(tmp_path, ["sentiment"], model={"fresh": "", "path": "model"}, hyperparameters={"max_steps": 8, "dropout": 0})
        import subprocess
        import sys

        from helpers import SRC

        done = subprocess.run(
            [sys.executable, str(tmp_path / "sitecustomize/bench_oom.py"), "--batch", str(batch), "--out", str(tmp_path / name)],
            env={**os.environ, "PYTHONPATH": SRC, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        o = outcome(tmp_path / name, "sentiment")
        assert o["state"] == "ok", o["message"]
        assert (o["micro_batch"], o["accumulation"]) == ((8, 4) if error else (32, 1)), (error, o)
        results[error] = predictions(tmp_path / name, "sentiment")
    # The effective batch is the same, so the training is, but for rounding.
    for other in results.values():
        for a, b in zip(results[""], other):
            assert all(abs(a["scores"][k] - b["scores"][k]) < 1e-4 for k in a["scores"])


def test_a_full_disk_means_try_again(tmp_path):
    batch = make_batch(tmp_path, ["sentiment"], hyperparameters={"max_steps": 2})
    if os.path.exists("/dev/full"):
        (tmp_path / "out/sentiment").mkdir(parents=True)
        os.symlink("/dev/full", tmp_path / "out/sentiment/predictions.jsonl.tmp")
        run_trainer(batch, tmp_path / "out", code=75)
        assert not (tmp_path / "out/sentiment/outcome.json").exists()


def flax_bytes(value):
    """msgpack as Flax writes it, of nested dicts of float32 arrays; written from the format's definition."""
    import struct

    if isinstance(value, dict):
        return struct.pack(">BH", 0xDE, len(value)) + b"".join(flax_bytes(k) + flax_bytes(v) for k, v in value.items())
    if isinstance(value, str):
        return struct.pack(">BB", 0xD9, len(value.encode())) + value.encode()
    shape = bytes([0x90 | value.ndim]) + b"".join(struct.pack(">BI", 0xCE, n) for n in value.shape)
    data = value.tobytes()
    payload = bytes([0x93]) + shape + flax_bytes(str(value.dtype)) + struct.pack(">BI", 0xC6, len(data)) + data
    return struct.pack(">BIb", 0xC9, len(payload), 1) + payload


def test_flax_weights_train_like_the_same_in_torch(tmp_path):
    model = save_bert(tmp_path / "model")
    tree = {}
    for name, tensor in model.state_dict().items():
        *parents, last = name.split(".")
        value = tensor.numpy()
        if last == "weight" and "LayerNorm" in name:
            last = "scale"
        elif last == "weight" and "embeddings" in name:
            last = "embedding"
        elif last == "weight":
            last, value = "kernel", value.T.copy()
        elif last != "bias":
            continue
        node = tree
        for p in parents:
            node = node.setdefault(p, {})
        node[last] = value
    for name in ("torch", "flax"):
        if name == "flax":
            (tmp_path / "model/model.safetensors").unlink()
            (tmp_path / "model/flax_model.msgpack").write_bytes(flax_bytes(tree))
        batch = make_batch(tmp_path, ["sentiment"], model={"fresh": "", "path": "model"}, hyperparameters={"max_steps": 5})
        run_trainer(batch, tmp_path / name)
    assert (tmp_path / "torch/sentiment/predictions.jsonl").read_bytes() == (tmp_path / "flax/sentiment/predictions.jsonl").read_bytes()
    whole = (tmp_path / "model/flax_model.msgpack").read_bytes()
    (tmp_path / "model/flax_model.msgpack").write_bytes(whole[:-100])
    assert failure(tmp_path)[0] == "input"
