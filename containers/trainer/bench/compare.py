"""Times the trainer against the reference system, in pairs on the same machine, and prints a Markdown table row for each pair.

    python compare.py --python VENV/bin/python --peer-python PEER/bin/python --rig run_scandeval.py \\
        --model DIR --rows DIR --task sentiment [--steps 600] [--seeds 2] [--pairs 3] [--threads 2] [--learning-rate 1e-3]

--rig    the script that runs the reference system on local data (PyPI package scandeval 7.1.1, torch 2.2.2)
--rows   a folder with train.jsonl, val.jsonl and test.jsonl in the uniform format

Reported of both: milliseconds a training step, its evaluations included (wall clock, the median over all seeds and pairs),
processor seconds of the whole process a step, and the highest resident memory (of the process, from the kernel).
Both train with dropout off and stop by themselves at the same step or at --steps. Pairs alternate, so that a
change in the machine's load falls on both."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

SRC = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "src")
TASKS = {
    "ner": ("dane", "token-classification", ["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER", "B-MISC", "I-MISC"]),
    "sentiment": ("angry-tweets", "sequence-classification", ["negative", "neutral", "positive"]),
    "acceptability": ("scala-da", "sequence-classification", ["incorrect", "correct"]),
    "qa": ("scandiqa-da", "question-answering", []),
}


def measured(command, env):
    """(processor seconds, peak MiB) of a command, from a shell-like parent that only waits for it."""
    code = (
        "import resource, subprocess, sys, json\n"
        "c = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n"
        "r = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "sys.stderr.buffer.write(c.stderr[-3000:]) if c.returncode else None\n"
        "print(json.dumps([c.returncode, r.ru_utime + r.ru_stime, r.ru_maxrss / 1024]))\n"
    )
    out = subprocess.run([sys.executable, "-c", code, *command], env=env, stdout=subprocess.PIPE, check=True)
    rc, cpu, peak = json.loads(out.stdout)
    if rc:
        raise SystemExit(f"{command[0]} ended with {rc}")
    return cpu, peak


def peer(a, folder, env):
    out = os.path.join(folder, "peer.json")
    command = [a.peer_python, "-W", "ignore", a.rig, "--model", a.model, "--dataset", TASKS[a.task][0], "--data", a.rows, "--iterations",
               str(a.seeds), "--max-steps", str(a.steps), "--no-dropout", "--learning-rate", str(a.learning_rate), "--out", out]
    cpu, peak = measured(command, env)
    with open(out) as f:
        runs = json.load(f)["runs"]
    return [r["train_seconds"] for r in runs], [r["steps"] for r in runs], [r["test_seconds"] for r in runs], cpu, peak


def ours(a, folder, env):
    data = os.path.join(folder, "data")
    os.makedirs(data)
    for split in ("train", "val", "test"):
        with open(os.path.join(a.rows, split + ".jsonl"), encoding="utf-8") as f, open(os.path.join(data, split + ".jsonl"), "w", encoding="utf-8") as g:
            for line in f:
                row = json.loads(line)
                if split == "test":
                    row = {k: v for k, v in row.items() if k not in ("label", "labels", "answers", "corruption_type")}
                g.write(json.dumps(row, ensure_ascii=False) + "\n")
    _, head, labels = TASKS[a.task]
    batch = {
        "protocol": 1, "id": "compare", "model": {"id": a.model, "path": os.path.abspath(a.model)},
        "datasets": [{"name": "d", "task": a.task, "head": head, "labels": labels, "languages": ["da"], "dir": "data"}],
        "hyperparameters": {"learning_rate": a.learning_rate, "max_steps": a.steps, "patience_steps": 60, "dropout": 0},
        "jobs": [{"id": str(i), "dataset": "d", "seed": 4242 + i} for i in range(a.seeds)], "device": "cpu", "threads": a.threads,
    }
    path = os.path.join(folder, "batch.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(batch, f)
    out = os.path.join(folder, "out")
    cpu, peak = measured([a.python, "-m", "bench_trainer", "--batch", path, "--out", out], {**env, "PYTHONPATH": SRC})
    outcomes = [json.load(open(os.path.join(out, str(i), "outcome.json"))) for i in range(a.seeds)]
    if any(o["state"] != "ok" for o in outcomes):
        raise SystemExit(f"failed: {outcomes}")
    return [o["seconds"]["train"] for o in outcomes], [o["steps"] for o in outcomes], [o["seconds"]["predict"] for o in outcomes], cpu, peak


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("python", "peer-python", "rig", "model", "rows"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--task", choices=TASKS, required=True)
    p.add_argument("--steps", type=int, default=600)
    p.add_argument("--seeds", type=int, default=2)
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--learning-rate", type=float, default=1e-3)
    a = p.parse_args()
    env = {**os.environ, "OMP_NUM_THREADS": str(a.threads)}
    results = {"reference": [], "bench": []}
    for _ in range(a.pairs):
        for name, run in (("reference", peer), ("bench", ours)):
            with tempfile.TemporaryDirectory() as folder:
                results[name].append(run(a, folder, env))
    print(f"load average {os.getloadavg()[0]:.1f}, {a.pairs} pairs × {a.seeds} seeds")
    print("| | ms a step | processor ms a step (whole process) | test s | peak MiB | steps |")
    print("|---|---|---|---|---|---|")
    for name, runs in results.items():
        step = statistics.median(1000 * t / n for train, steps, *_ in runs for t, n in zip(train, steps))
        cpu = statistics.median(1000 * r[3] / sum(r[1]) for r in runs)
        test = statistics.median(t for r in runs for t in r[2])
        peak = max(r[4] for r in runs)
        print(f"| {name} | {step:.2f} | {cpu:.1f} | {test:.2f} | {peak:.0f} | {runs[0][1]} |")


if __name__ == "__main__":
    main()
