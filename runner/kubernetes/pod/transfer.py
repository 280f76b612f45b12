"""Moves a batch between an object store and the folders of its pod. Python's own library is enough.

    python3 -c THIS fetch PLAN VOLUME      brings VOLUME/in, VOLUME/out and VOLUME/model
    python3 -c THIS deliver PLAN VOLUME    sends what the trainer finishes in VOLUME/out, until it is told to end

PLAN is JSON, compressed by gzip (Go: type plan). It has no credentials but URLs, each for one object, which expire. What lies
in VOLUME/out was written by a program that nobody trusts: only regular files are sent, of the two names that are asked for.
"""

import signal
import sys

told = False


def tell(*_):
    global told
    told = True
    if sys.argv[1] != "deliver":
        sys.exit(143)


# Before anything that takes time: the trainer may end at once.
signal.signal(signal.SIGTERM, tell)

import concurrent.futures
import gzip
import hashlib
import http.client
import json
import os
import stat
import time
import urllib.error
import urllib.request

TRIES, TIMEOUT, BLOCK = 6, 60, 1 << 20

class Refused(Exception):
    """The store does not want this: it is no use to try again."""


def ask(url, method="GET", body=None, size=0):
    """An open response. Errors that may pass are OSError or HTTPException."""
    headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"} if body is not None else {}
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as e:
        said = e.read(2000).decode("utf-8", "replace")
        if e.code in (408, 429) or e.code >= 500:
            raise OSError(f"{e.code} {e.reason}") from None
        raise Refused(f"{e.code} {e.reason}: {said}") from None


def persist(what, do):
    """Calls do until it succeeds."""
    for n in range(TRIES):
        try:
            return do()
        except (OSError, http.client.HTTPException) as e:
            if n == TRIES - 1:
                raise
            print(f"bench: {what}: {e}; trying again", file=sys.stderr)
            time.sleep(2**n / 4)


def fetch_part(path, offset, part):
    def do():
        digest, size = hashlib.sha256(), 0
        with ask(part["url"]) as answer, open(path, "r+b") as f:
            f.seek(offset)
            while block := answer.read(BLOCK):
                digest.update(block)
                size += len(block)
                f.write(block)
        if size != part["size"] or digest.hexdigest() != part["sha256"]:
            raise OSError(f"{size} of {part['size']} bytes came, or other ones")

    persist(path, do)


def fetch_outcome(path, url):
    """A job that an earlier pod of this Job finished is not done again."""
    try:
        with ask(url) as answer:
            text = answer.read(16 << 20)
    except Refused:
        return  # 404, or 403 where one may not know
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(text)


def fetch(plan, volume):
    os.umask(0o022)
    for folder in "in", "out", "model":
        os.makedirs(os.path.join(volume, folder), exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        work = []
        for file in plan["files"]:
            path, offset = os.path.join(volume, file["name"]), 0
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.truncate(sum(p["size"] for p in file["parts"]))
            for part in file["parts"]:
                work.append(pool.submit(fetch_part, path, offset, part))
                offset += part["size"]
        for job in plan["jobs"]:
            path = os.path.join(volume, "out", job["id"], "outcome.json")
            work.append(pool.submit(persist, path, lambda p=path, u=job["finished"]: fetch_outcome(p, u)))
        for w in work:
            w.result()
    out = os.path.join(volume, "out")
    os.chmod(out, 0o777)
    with open(os.path.join(volume, "fetched"), "w", encoding="utf-8") as f:
        json.dump([j["id"] for j in plan["jobs"] if os.path.exists(os.path.join(out, j["id"], "outcome.json"))], f)


def send(folder, name, limit, url):
    """Sends a file. One that is no plain file of a size that is allowed is told of instead: its reader refuses that."""
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        finally:
            os.close(at)
    except FileNotFoundError:
        return
    except OSError as e:
        return put(url, f"refused: {name} cannot be read: {e.strerror}".encode())
    with open(fd, "rb") as f:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return put(url, f"refused: {name} is no file".encode())
        if info.st_size > limit:
            return put(url, f"refused: {name} has {info.st_size} bytes".encode())
        ask(url, "PUT", f, info.st_size).close()


def put(url, text):
    ask(url, "PUT", text, len(text)).close()


def usage(folder, most):
    """Bytes and number of entries below folder, as far as they can be seen, up to most entries."""
    size = count = 0
    folders = [folder]
    while folders and count < most:
        try:
            with os.scandir(folders.pop()) as entries:
                for e in entries:
                    count += 1
                    size += e.stat(follow_symlinks=False).st_blocks * 512
                    if e.is_dir(follow_symlinks=False):
                        folders.append(e.path)
                    if count >= most:
                        break
        except OSError:
            pass
    return size, count


def deliver(plan, volume):
    out, limits = os.path.join(volume, "out"), plan["limits"]
    with open(os.path.join(volume, "fetched"), encoding="utf-8") as f:
        fetched = json.load(f)
    rest = {j["id"]: j for j in plan["jobs"] if j["id"] not in fetched}
    measured = excess = 0
    while True:
        last = told  # the trainer has ended: one look is enough
        for id, job in list(rest.items()):
            if not os.path.lexists(os.path.join(out, id, "outcome.json")):
                continue
            try:
                for name in "predictions.jsonl", "outcome.json":
                    persist(f"{id}/{name}", lambda: send(os.path.join(out, id), name, limits[name], job[name]))
                del rest[id]
            except (OSError, http.client.HTTPException) as e:
                print(f"bench: {id} cannot be sent: {e}", file=sys.stderr)
            except Refused as e:  # its URL has run out: the job is done again by whoever misses it
                print(f"bench: {id} cannot be sent: {e}", file=sys.stderr)
                del rest[id]
        if last:
            return
        if time.monotonic() - measured > 5:
            measured = time.monotonic()
            size, count = usage(out, limits["entries"])
            if not excess and (size > limits["bytes"] or count >= limits["entries"]):
                persist("excess", lambda: put(plan["excess"], json.dumps({"bytes": size, "entries": count}).encode()))
                excess = 1
        for _ in range(3):
            if not told:
                time.sleep(0.1)


def main():
    what, plan, volume = sys.argv[1:]
    with gzip.open(plan, "rt", encoding="utf-8") as f:
        plan = json.load(f)
    try:
        {"fetch": fetch, "deliver": deliver}[what](plan, volume)
    except (OSError, http.client.HTTPException, Refused) as e:
        print(f"bench: {e}", file=sys.stderr)
        sys.exit(75)


main()
