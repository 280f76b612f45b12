"""python -m bench_trainer --batch IN/batch.json --out OUT"""

import argparse
import json
import os
import shutil
import signal
import sys
import traceback

from . import runtime
from .batch import read_batch
from .events import Events, log
from .failures import BadBatch, Infrastructure

DONE, BAD_INPUT, FAULT, TRY_AGAIN = 0, 65, 70, 75


def remaining(batch, out):
    """Jobs without an outcome; one that failed for its surroundings counts as not done."""
    for job in batch.jobs:
        try:
            with open(os.path.join(out, job.id, "outcome.json"), encoding="utf-8") as f:
                if json.load(f).get("failure") != "infra":
                    continue
        except (FileNotFoundError, ValueError, AttributeError):
            pass
        yield job


def run(args, events):
    batch = read_batch(args.batch)
    os.makedirs(args.out, exist_ok=True)
    jobs = list(remaining(batch, args.out))
    if not jobs:
        return DONE
    threads, scratch = runtime.prepare_environment(args.out, batch.threads)
    try:
        # Imported here, after the environment is set and only when there is work: these imports take seconds.
        from . import model, session

        model.stay_eager()
        model.quiet()
        device = runtime.open_device(batch.device, threads, lambda message: events.warn(None, message))
        work = session.Session(batch, args.out, events, device, threads)
        for i, job in enumerate(jobs):
            work.run(job)
            if not any(later.dataset == job.dataset for later in jobs[i + 1 :]):
                work.forget(batch.datasets[job.dataset])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return DONE


def main():
    parser = argparse.ArgumentParser(prog="bench_trainer", description=__doc__)
    parser.add_argument("--batch", required=True, help="the batch file")
    parser.add_argument("--out", required=True, help="folder for outcomes and predictions")
    args = parser.parse_args()
    # As process 1 of a container this program would otherwise ignore SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    events = Events()
    try:
        return run(args, events)
    except BadBatch as e:
        log(f"bad batch: {e}")
        return BAD_INPUT
    except Infrastructure as e:
        events.warn(None, str(e))
        return TRY_AGAIN
    except Exception:
        traceback.print_exc()
        return FAULT


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Interpreter shutdown of the big libraries takes half a second and can do nothing useful any more.
    os._exit(code)
