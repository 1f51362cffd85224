"""What PyTorch says to a few canvases, for a test of the engine's forward with the same weights.

    .venv-train/bin/python tools/train/golden.py models/tiny-causal fixtures/tiny/tiny-causal.jsonl

A line per task: a test prompt with its answer, and the logits that predict three of the answer's positions.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from model import load
from train import TASKS, Data, padded


@torch.no_grad()
def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=Path, help="the model's folder")
    p.add_argument("out", type=Path)
    p.add_argument("--cofill", default="target/release/cofill")
    args = p.parse_args()
    torch.set_num_threads(1)
    data, model = Data(args), load(args.dir)
    lines = []
    for task in TASKS:
        example = data.examples(task, "test", 1, seed=0)[0]
        canvas = data.canvas(example)
        whole = data.encode([example["answer"] if example["length"] == 0 else example["prompt"] + example["answer"]])[0]
        ids, valid = padded([whole], data.end)
        masked = [at for at, token in enumerate(canvas) if token == data.mask and at < len(whole)]
        rows = [masked[0], masked[len(masked) // 2], masked[-1]]
        logits = model.head(model.norm(model.stream(ids, valid)))[0, rows]
        lines.append({"task": task, "tokens": whole, "rows": rows, "logits": [[round(x, 6) for x in row] for row in logits.tolist()]})
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
