"""What leaves the process: events on stdout, the log on stderr, result files renamed into place."""

import json
import os
import sys
import time


class Events:
    """One JSON object a line on the stdout that the process was started with; everything else goes to stderr."""

    def __init__(self):
        # Libraries print: give them stderr, and keep the real stdout for the events.
        sys.stdout.flush()
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
        os.dup2(2, 1)

    def emit(self, event, **fields):
        line = json.dumps({"event": event, **fields}, ensure_ascii=False, allow_nan=False)
        try:
            self._out.write(line + "\n")
        except BrokenPipeError:
            pass  # nobody listens any more; the files still count

    def warn(self, job, message):
        log(message)
        self.emit("warn", job=job, message=message)


def log(message):
    print(time.strftime("%H:%M:%S"), message, file=sys.stderr, flush=True)


def write_atomically(path, chunks):
    """Write text under another name, sync, rename: a reader sees all of it or nothing."""
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as f:
        for chunk in chunks:
            f.write(chunk)
        f.flush()
        os.fsync(f.fileno())
    os.replace(temporary, path)


def json_line(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"
