"""The batch file and the rows: what is accepted and what is not."""

import json

from bench_trainer.batch import label_index, read_batch, read_rows
from bench_trainer.failures import BadBatch, BadInput
from helpers import make_batch, run_trainer, write_jsonl


def _broken(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    try:
        read_batch(str(path))
    except BadBatch as e:
        return str(e)
    raise AssertionError("no error")


def test_reads(tmp_path):
    batch = read_batch(str(make_batch(tmp_path, ["ner", "qa"], jobs=[("a", "ner", 1), ("b", "qa", 2)])))
    assert [j.id for j in batch.jobs] == ["a", "b"]
    assert batch.hyperparameters.batch_size == 32 and batch.hyperparameters.dropout is None
    assert batch.datasets["ner"].labels[0] == "O"


def test_refuses(tmp_path):
    changes = [
        (lambda v: v.update(protocol=2), "protocol"),
        (lambda v: v.update(surprise=1), "surprise"),
        (lambda v: v["model"].update(other=1), "other"),
        (lambda v: v["hyperparameters"].update(lr=1), "lr"),
        (lambda v: v["hyperparameters"].update(max_steps=0), "max_steps"),
        (lambda v: v["hyperparameters"].update(batch_size=True), "batch_size"),
        (lambda v: v["hyperparameters"].update(learning_rate="x"), "learning_rate"),
        (lambda v: v["hyperparameters"].update(precision="fp8"), "precision"),
        (lambda v: v["jobs"][0].update(dataset="none"), "none"),
        (lambda v: v["jobs"][0].update(id="../up"), "jobs[0].id"),
        (lambda v: v["jobs"].append(v["jobs"][0]), "same id"),
        (lambda v: v["datasets"][0].update(head="guess"), "guess"),
        (lambda v: v["datasets"][0].update(labels=["a"]), "labels"),
        (lambda v: v["model"].update(fresh="", path=""), "path"),
        (lambda v: v["model"].update(fresh="huge"), "huge"),
        (lambda v: v.update(device="tpu"), "tpu"),
        (lambda v: v.pop("jobs"), "jobs"),
    ]
    for change, word in changes:
        message = _broken(make_batch(tmp_path, ["sentiment"]), change)
        assert word in message, f"{word!r} is not in {message!r}"


def test_exit_code_of_a_bad_batch(tmp_path):
    (tmp_path / "batch.json").write_text("{")
    assert run_trainer(tmp_path / "batch.json", tmp_path / "out", code=65) == []


def test_rows_are_named_by_file_and_line(tmp_path):
    dataset = read_batch(str(make_batch(tmp_path, ["ner"]))).datasets["ner"]
    good = {"id": "1", "tokens": ["a"], "labels": ["O"]}
    for bad in ('{"id": "2"}', "{", '{"id": "2", "tokens": ["a", "b"], "labels": ["O"]}', '["a"]'):
        (tmp_path / "data/ner/train.jsonl").write_text(json.dumps(good) + "\n" + bad + "\n")
        try:
            read_rows(dataset, "train")
        except BadInput as e:
            assert "train.jsonl line 2" in str(e)
        else:
            raise AssertionError(f"no error for {bad}")
    write_jsonl(tmp_path / "data/ner/train.jsonl", [good])
    assert read_rows(dataset, "train") == [good]


def test_labels_are_compared_without_case(tmp_path):
    index = label_index(read_batch(str(make_batch(tmp_path, ["sentiment"]))).datasets["sentiment"])
    assert [index("negative"), index("POSITIVE"), index("Neutral")] == [0, 2, 1]
    try:
        index("mixed")
    except BadInput as e:
        assert "mixed" in str(e)
    else:
        raise AssertionError("no error")
