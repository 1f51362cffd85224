"""Prints the accuracy table of a model's card from the points of `experiments/cards.toml`.

    cofill sweep merge runs/cards --json > cards.jsonl
    python3 tools/train/table.py cards.jsonl tiny-llada
"""

import json
import sys
from pathlib import Path

TASKS = ["chain", "sums", "code", "sudoku", "predicates"]
BASES = [f"topk:{k}" for k in (1, 2, 4, 8, 16)] + [f"fast:{f}" for f in (1, 2, 5, 12)] + [f"eb:{g}" for g in (0.3, 1, 3, 10)]
STRENGTHS = ["", "+ad:1", "+ad:3", "+ad:10", "+ad:40"]


def cell(point: dict) -> str:
    return f"{100 * point['score']:.1f} ± {100 * point['standard_error']:.1f} ({point['nfe']:.1f})"


def main() -> None:
    path, model = sys.argv[1:]
    points = [json.loads(line) for line in Path(path).read_text().splitlines()]
    found = {(p["task"], p["sampler"]): p for p in points if p["model"] == model}
    rows = [base + strength for base in BASES for strength in STRENGTHS if (TASKS[0], base + strength) in found]
    print("| sampler | n | " + " | ".join(TASKS) + " |\n|---|---:|" + "---|" * len(TASKS))
    for row in rows:
        cells = [found[task, row] for task in TASKS]
        print(f"| `{row}` | {cells[0]['n']} | " + " | ".join(map(cell, cells)) + " |")


if __name__ == "__main__":
    main()
