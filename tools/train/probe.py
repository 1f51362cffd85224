"""What a model makes of `code` when its first two lines are known and the last two are open.

    .venv-train/bin/python tools/train/probe.py models/tiny-llada .train/tiny-llada/state.pt

The two free constants c3 and c4 must lead from the known value v2 to the asked one: v2 ± c3 = r3, r3 ± c4 = value. Printed are the
share of first choices that leave a way to meet, the probability of such middle values r3, and, with one of the three known, how often the
others are right. tiny-llada at 68 % knew r3 from the line below, but not from its own line.
"""

import argparse
import json
from pathlib import Path

import torch
from model import Model, Shape
from train import Data


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=Path, help="where tokenizer.json and config.json are; LLaDA's layout")
    p.add_argument("state", type=Path, help="state.pt of a training run")
    p.add_argument("--cofill", default="target/release/cofill")
    p.add_argument("-n", type=int, default=300, help="validation prompts")
    args = p.parse_args()
    data = Data(args)
    c = json.loads((args.dir / "config.json").read_text())
    model = Model(Shape("llada", c["d_model"], c["n_layers"], c["n_heads"], c["n_kv_heads"], c["mlp_hidden_size"], data.vocab, c["rms_norm_eps"]))
    model.load_state_dict(torch.load(args.state, weights_only=True)["model"])
    model.eval()
    value = {i: int(token.lstrip("Ġ")) for token, i in data.tokenizer.get_vocab().items() if i in data.numbers}

    found: dict[str, list[float]] = {}
    for example in data.examples("code", "validation", args.n, seed=7):
        for name, x in probe(model, data, value, example).items():
            found.setdefault(name, []).append(float(x))
    for name, xs in found.items():
        print(f"{sum(xs) / len(xs):.3f}  {name}")


@torch.no_grad()
def probe(model: Model, data: Data, value: dict[int, int], example: dict) -> dict[str, float]:
    prompt, answer = data.encode([example["prompt"], example["answer"]])
    ids = prompt + answer
    breaks = [i for i in range(len(prompt), len(ids)) if ids[i] == data.newline]
    # ` x-=5 #13-5=8` in lines 3 and 4: the constant, what it starts from, the constant again, the result.
    (c3, v2, c3_again, r3), (c4, r3_again, c4_again, end) = (
        [i for i in range(breaks[line - 1], breaks[line]) if ids[i] in data.numbers] for line in (3, 4)
    )
    sign = [1 if "+" in data.tokenizer.decode([ids[c - 1]]) else -1 for c in (c3, c4)]
    start, target = value[ids[v2]], value[ids[end]]
    ways = [(a, b) for a in range(1, 8) for b in range(1, 8) if start + sign[0] * a + sign[1] * b == target and 1 <= start + sign[0] * a <= 30]
    fits = {c3: {a for a, _ in ways}, c4: {b for _, b in ways}, r3: {start + sign[0] * a for a, _ in ways}}
    fits |= {c3_again: fits[c3], c4_again: fits[c4], r3_again: fits[r3]}

    def ask(hidden: list[int]) -> dict[int, torch.Tensor]:
        row = torch.tensor([ids])
        at = torch.zeros_like(row, dtype=torch.bool)
        at[0, hidden] = True
        logits = model(row.masked_fill(at, data.mask), torch.ones_like(at), at)
        return dict(zip(sorted(hidden), logits.double().softmax(-1)))

    def right(rows: dict[int, torch.Tensor], i: int) -> bool:
        return rows[i].argmax().item() == ids[i]

    rows = ask(list(fits))
    first = max(fits, key=lambda i: rows[i].max().item())
    c3_known, c4_known, r3_known = ask([r3, c4, r3_again, c4_again]), ask([c3, c3_again, r3, r3_again]), ask([c3, c3_again, c4, c4_again])
    return {
        "nothing known: the first choice leaves a way": value.get(rows[first].argmax().item()) in fits[first],
        "nothing known: probability of middle values that do": sum(rows[r3][i].item() for i, v in value.items() if v in fits[r3]),
        "c3 known: r3 right": right(c3_known, r3),
        "c4 known: r3 right": right(c4_known, r3_again),
        "r3 known: c3 right": right(r3_known, c3),
        "r3 known: c4 right": right(r3_known, c4),
    }


if __name__ == "__main__":
    main()
