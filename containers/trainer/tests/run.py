"""Runs the tests of this folder without pytest: python run.py [name part…]. pytest runs them too.

A test is a function test_* in a file test_*.py; its only fixture is tmp_path. Raising helpers.Skip skips it."""

import importlib
import inspect
import os
import pathlib
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, os.pardir, "src")]
sys.dont_write_bytecode = True


def main():
    from helpers import Skip

    wanted = sys.argv[1:]
    failed = 0
    for file in sorted(f for f in os.listdir(HERE) if f.startswith("test_") and f.endswith(".py")):
        module = importlib.import_module(file[:-3])
        for name, test in list(vars(module).items()):
            full = f"{file[:-3]}.{name}"
            if not name.startswith("test_") or not callable(test) or (wanted and not any(w in full for w in wanted)):
                continue
            started = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                try:
                    test(**({"tmp_path": pathlib.Path(folder)} if "tmp_path" in inspect.signature(test).parameters else {}))
                    result = "ok"
                except Skip as e:
                    result = f"skipped: {e}"
                except Exception:
                    traceback.print_exc()
                    result = "FAILED"
                    failed += 1
            print(f"{full}: {result} ({time.monotonic() - started:.1f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
