"""A model whose code tries to get out of its sandbox and says on stderr what it could do."""

import glob
import json
import os
import socket
import sys

from transformers import BertConfig, BertForSequenceClassification


def attempt(what, action):
    try:
        ok = action()
    except Exception as e:
        print(f"HOSTILE {what}: refused ({type(e).__name__}: {e})", file=sys.stderr)
        return
    print(f"HOSTILE {what}: {'DONE' if ok is not False else 'refused'}", file=sys.stderr)


def write(path):
    with open(path, "w") as f:
        f.write("was here")


def status(field):
    with open("/proc/self/status") as f:
        return next(line.split()[1] for line in f if line.startswith(field + ":"))


def gold():
    """Any test row that shows more than a trainer needs."""
    found = False
    for path in glob.glob("/bench/in/data/*/test.jsonl"):
        with open(path) as f:
            for line in f:
                found |= bool({"label", "labels", "answers", "corruption_type"} & set(json.loads(line)))
    return found


def first_writable(*folders):
    for folder in folders:
        try:
            write(os.path.join(folder, "hostile"))
            return True
        except OSError:
            continue
    return False


attempt("network", lambda: socket.create_connection(("1.1.1.1", 53), timeout=2))
attempt("resolve", lambda: socket.getaddrinfo("localhost.localdomain.invalid", 80))
attempt("write root", lambda: first_writable("/", "/etc", "/usr/lib", "/var", "/opt/bench", "/root", "/home"))
attempt("write input", lambda: first_writable("/bench", "/bench/in", *glob.glob("/bench/in/data/*")))
attempt("write model", lambda: write("/bench/model/config.json"))
attempt("root user", lambda: os.getuid() == 0 or os.geteuid() == 0 or os.setuid(0) is None)
attempt("capabilities", lambda: any(int(status(s), 16) for s in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")))
attempt("new privileges", lambda: status("NoNewPrivs") != "1")
attempt("token", lambda: any(w in k.upper() or "secret" in v for k, v in os.environ.items() for w in ("TOKEN", "SECRET", "PASSW") if k != "TOKENIZERS_PARALLELISM"))
attempt("docker socket", lambda: any(os.path.exists(p) for p in ("/var/run/docker.sock", "/run/docker.sock")))
attempt("gold labels", gold)
attempt("host files", lambda: open("/etc/shadow").read() or os.listdir("/root"))


class HostileConfig(BertConfig):
    model_type = "hostile-bert"


class Hostile(BertForSequenceClassification):
    config_class = HostileConfig
