#!/usr/bin/env python3
"""One selection of Algorithm 1 with +ad: cofill next to NumPy, in the same run.

    python3 -m venv .venv && .venv/bin/pip install numpy==2.3.4
    .venv/bin/python tools/bench_select.py [--out results/DIR] [--rounds 5]

Rounds alternate between the two, and each cell keeps its best time. Two NumPy versions: `printed` computes the utility as the
paper prints it, from the chosen set, at every pick; `incremental` keeps it up to date, as cofill does.
"""

import argparse
import json
import pathlib
import platform
import subprocess
import time

try:
    import numpy as np
except ImportError:
    raise SystemExit("this script needs NumPy: python3 -m venv .venv && .venv/bin/pip install numpy==2.3.4")

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALPHA = 40.0


def admits(rule, limit, c, h, chosen):
    if rule == "topk":
        return len(chosen) <= limit
    if rule == "fast":
        return len(chosen) * (1.0 - c[chosen].min()) < limit
    return h[chosen].sum() - h[chosen].max() < limit


def printed(c, h, a, rule, limit):
    chosen = []
    left = np.ones(len(c), dtype=bool)
    while left.any():
        u = c - ALPHA * (a[:, chosen] * (1.0 - c[chosen])).sum(axis=1)
        i = int(np.argmax(np.where(left, u, -np.inf)))
        if not admits(rule, limit, c, h, chosen + [i]):
            break
        chosen.append(i)
        left[i] = False
    return chosen


def incremental(c, h, a, rule, limit):
    chosen = []
    u = c.copy()
    while len(chosen) < len(c):
        i = int(np.argmax(u))
        if not admits(rule, limit, c, h, chosen + [i]):
            break
        chosen.append(i)
        u -= ALPHA * a[:, i] * (1.0 - c[i])
        u[i] = -np.inf
    return chosen


def limits(chosen):
    """As benches/workload sets them."""
    return {"topk": chosen, "fast": 0.5 * chosen + 0.25, "eb": chosen - 0.5}


def best_of(f, repeats):
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats):
            f()
        best = min(best, (time.perf_counter() - start) / repeats * 1e6)
    return best


def numpy_cell(masked, chosen, rule, rng):
    c = 0.5 + 1e-4 * rng.random(masked)
    h = np.ones(masked)
    a = np.asfortranarray(2.0 * rng.random((masked, masked)) / masked)  # a column is contiguous, as in cofill
    limit = limits(chosen)[rule]
    assert len(incremental(c, h, a, rule, limit)) == chosen
    assert printed(c, h, a, rule, limit) == incremental(c, h, a, rule, limit)
    repeats = max(1, 400_000 // (masked * chosen))
    run = lambda f: best_of(lambda: f(c, h, a, rule, limit), repeats)
    return {"printed": run(printed), "incremental": run(incremental)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, help="folder for the raw JSONL")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    build = ["cargo", "build", "--release", "--quiet", "-p", "cofill", "--example", "time_select"]
    subprocess.run(build, cwd=ROOT, check=True)
    binary = ROOT / "target/release/examples/time_select"

    best, raw = {}, []
    for round_ in range(args.rounds):
        lines = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()
        rng = np.random.default_rng(round_)
        for cell in map(json.loads, lines):
            key = (cell["rule"], cell["masked"], cell["chosen"])
            times = {"cofill": cell["us"], **numpy_cell(cell["masked"], cell["chosen"], cell["rule"], rng)}
            raw.append({"round": round_, **cell, **times})
            for name, us in times.items():
                best.setdefault(key, {})[name] = min(us, best.get(key, {}).get(name, float("inf")))

    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
    header = {
        "command": "tools/bench_select.py", "rounds": args.rounds, "commit": git("rev-parse", "--short", "HEAD"),
        "date": time.strftime("%Y-%m-%d"), "cpu": cpu, "python": platform.python_version(), "numpy": np.__version__,
    }
    print("| rule | M | S | cofill | ns per S*M | NumPy incremental | ratio | NumPy as printed | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (rule, masked, chosen), t in best.items():
        ours, inc, naive = t["cofill"], t["incremental"], t["printed"]
        print(f"| {rule}+ad | {masked} | {chosen} | {ours:.2f} us | {1e3 * ours / (masked * chosen):.2f} "
              f"| {inc:.0f} us | {inc / ours:.1f} | {naive:.0f} us | {naive / ours:.1f} |")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        with open(args.out / "select.jsonl", "w") as f:
            for record in [header, *raw]:
                f.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
