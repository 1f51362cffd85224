"""Starts and stops `cofill serve` for the tools that test it. Needs nothing but Python's own library."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

CLONE = Path(__file__).resolve().parent.parent.parent


def binary():
    """The program: $COFILL_BIN, or what cargo builds here."""
    named = os.environ.get("COFILL_BIN")
    if named:
        return named
    print("building cofill (COFILL_BIN names one that is there already)", file=sys.stderr)
    subprocess.run(["cargo", "build", "-q", "--bin", "cofill"], cwd=CLONE, check=True)
    return str(CLONE / "target/debug/cofill")


def commit():
    """What was tested: $COFILL_COMMIT where the program comes from somewhere else."""
    if os.environ.get("COFILL_COMMIT"):
        return os.environ["COFILL_COMMIT"]
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=CLONE, capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


class Server:
    """A server on a free port of the loopback. What it prints goes to a file; leaving the `with` ends it."""

    def __init__(self, log, *arguments, program=None):
        self.log = Path(log)
        self.arguments = [str(argument) for argument in arguments]
        self.program = program or binary()
        self.process = None
        self.port = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, within=20.0):
        with self.log.open("wb") as out:
            command = [self.program, "serve", "--listen", "127.0.0.1:0", *self.arguments]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        until = time.monotonic() + within
        while time.monotonic() < until:
            said = re.search(r"127\.0\.0\.1:([1-9]\d*)", self.printed())
            if said:
                self.port = int(said.group(1))
                if self.healthy():
                    return
            if self.process.poll() is not None:
                raise SystemExit(f"cofill serve ended with {self.process.returncode}:\n{self.printed()}")
            time.sleep(0.02)
        self.process.kill()
        raise SystemExit(f"cofill serve was not ready within {within} s:\n{self.printed()}")

    def healthy(self):
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def printed(self):
        return self.log.read_text(errors="replace")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def alive(self):
        return self.process.poll() is None

    def memory(self):
        """Resident memory in MB, or None when the process has ended or this is no Linux."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024
        except (OSError, AttributeError):
            return None

    def cpu(self):
        """Seconds of processors that it has used; 0 where that cannot be read."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return 0.0

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def stop(self, within=10.0):
        """A polite end, then a sure one. The exit code."""
        if self.process is None:
            return None
        if self.alive:
            self.terminate()
            try:
                self.process.wait(within)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()
