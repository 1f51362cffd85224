"""What the Python checks share: where the servers are, what to expect, one line for each check.

A check is a function that raises when something is wrong. tools/serve-clients sets the variables and reads the lines.
"""

import importlib.metadata
import json
import os
import sys
import time
import traceback
import urllib.request
from pathlib import Path
from types import SimpleNamespace

# Three servers: anybody may come in; a key is needed; one request runs and one waits.
OPEN = os.environ["COFILL_OPEN"]
KEYED = os.environ["COFILL_KEYED"]
KEY = os.environ["COFILL_KEY"]
BUSY = os.environ["COFILL_BUSY"]
EXPECT = json.loads((Path(__file__).parent / "expect.json").read_text(), object_hook=lambda fields: SimpleNamespace(**fields))
SCHEMA = json.loads((Path(__file__).parent / "expect.json").read_text())["schema"]
ASK = [{"role": "user", "content": EXPECT.question}]


class Skip(Exception):
    """The check does not apply to this version of the client."""


def version(package):
    return importlib.metadata.version(package)


def same(got, want, what="got"):
    assert got == want, f"{what} {got!r}, expected {want!r}"


def raises(kind, call):
    """The error that a call must end with."""
    try:
        got = call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, got {got!r}")


def valid(text):
    """A text that obeys the schema, checked by hand so that no package is needed."""
    value = json.loads(text) if isinstance(text, str) else text
    same(sorted(value), ["answer", "sure"], "keys")
    assert isinstance(value["answer"], int) and not isinstance(value["answer"], bool), value
    assert isinstance(value["sure"], bool), value
    return value


def get(url, path, key=None):
    request = urllib.request.Request(url + path, headers={"authorization": f"Bearer {key}"} if key else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def running(url):
    """How many requests run and wait, by the server's metrics."""
    total = 0.0
    for line in get(url, "/metrics").splitlines():
        if line.startswith(("cofill_requests_running", "cofill_requests_waiting")):
            total += float(line.rsplit(" ", 1)[1])
    return total


def quiet(url, within=10.0):
    """After a cancelled request: the server is well, and soon nothing runs any more."""
    same(json.loads(get(url, "/health"))["status"], "ok", "health")
    until = time.monotonic() + within
    while running(url) > 0:
        assert time.monotonic() < until, f"{running(url)} requests still run {within} s after their client left"
        time.sleep(0.05)


def run(client, checks):
    """Runs checks in order. A line each: `ok`, `FAIL` or `skip`, the client, the check, and why."""
    failed = 0
    for name, check in checks.items():
        try:
            check()
            word, why = "ok", ""
        except Skip as skip:
            word, why = "skip", str(skip)
        except Exception as error:  # a client's library may raise anything
            failed += 1
            word, why = "FAIL", f"{type(error).__name__}: {error}".replace("\n", " ")[:600]
            if os.environ.get("COFILL_VERBOSE"):
                traceback.print_exc()
        print(f"{word:4} {client}: {name}{': ' + why if why else ''}", flush=True)
    sys.exit(1 if failed else 0)


def checks():
    """A table of checks and the decorator that adds to it."""
    table = {}

    def check(name):
        def add(function):
            table[name] = function
            return function
        return add
    return table, check
