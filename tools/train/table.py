"""Scores a model on every mini task with many samplers, and prints the table of its card.

    python3 tools/train/table.py tiny-llada results/DATE-MACHINE/tiny-llada.jsonl
    python3 tools/train/table.py --print results/DATE-MACHINE/tiny-llada.jsonl

The file holds one line of `cofill eval --json` per (task, sampler); what is there already is not run again.
"""

import argparse
import json
import subprocess
from pathlib import Path

TASKS = ["chain", "sums", "code", "sudoku", "predicates"]
BASES = [f"topk:{k}" for k in (1, 2, 4, 8, 16)] + [f"fast:{f}" for f in (1, 2, 5, 12)] + [f"eb:{g}" for g in (0.3, 1, 3, 10)]
ALPHAS = ["", "+ad:1", "+ad:3", "+ad:10", "+ad:40"]


def run(args: argparse.Namespace) -> None:
    args.file.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["task"], r["sampler"]) for r in read(args.file)} if args.file.exists() else set()
    suffixes = args.suffixes.split(",")
    todo = [(t, b + s) for s in suffixes for b in BASES for t in TASKS if (t, b + s) not in done]
    with args.file.open("a", buffering=1) as out:
        for i, (task, sampler) in enumerate(todo):
            command = [args.cofill, "eval", "--task", task, "-m", args.model, "-s", sampler, "--limit", str(args.limit), "--json"]
            line = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            out.write(line)
            print(f"{i + 1}/{len(todo)}", line, end="", flush=True)


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(path: Path) -> None:
    found = {(r["task"], r["sampler"]): r for r in read(path)}
    for base in BASES:
        print(f"| `{base}` |" if base != BASES[0] else "| sampler | " + " | ".join(TASKS) + " |\n|---|" + "---|" * len(TASKS) + f"\n| `{base}` |", end="")
        cells(found, base)
        for alpha in ALPHAS[1:]:
            if (TASKS[0], base + alpha) in found:
                print(f"| `{base}{alpha}` |", end="")
                cells(found, base + alpha)


def cells(found: dict, sampler: str) -> None:
    for task in TASKS:
        r = found[task, sampler]
        print(f" {100 * r['score']:.1f} ± {100 * r['standard_error']:.1f} ({r['nfe']:.1f}) |", end="")
    print()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?")
    p.add_argument("file", type=Path)
    p.add_argument("--cofill", default="target/release/cofill")
    p.add_argument("--limit", type=int, default=500)
    p.add_argument("--suffixes", default=",".join(["", "+ad:40", "+ad:3", "+ad:1", "+ad:10"]))
    p.add_argument("--print", action="store_true")
    args = p.parse_args()
    table(args.file) if args.print else run(args)


if __name__ == "__main__":
    main()
