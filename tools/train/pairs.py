"""Trains the head that predicts who changes whom, and writes it beside a tiny model.

    .venv-train/bin/python tools/train/pairs.py models/tiny-llada
    .venv-train/bin/python tools/train/pairs.py models/tiny-dream

In the spirit of DEMASK (arXiv 2604.02560): a small head on the final hidden states that predicts, for every pair of masks, whether
revealing s changes i. It is one rotary attention head with a sigmoid,

    q_i = Wq h_i + bq,  k_s = Wk h_s + bk,  D[i, s] = sigmoid(rope(q_i, i) . rope(k_s, s) / sqrt(rank) + b)

where h is what the model's own head reads (after the final norm; under Dream's shift, of the row before), and only the first half of
q and k is rotated: what hangs on the distance, and what does not.

Data: *interventions*. Prompts of the train split are decoded by `topk:K`, K drawn for each; at some steps of each, some masks s are
revealed one at a time in a copy (the surest three and three others), and the label of (i, s) is whether the argmax of i is another token
afterwards (`--target flip`), or the total variation between before and after (`--target tv`, which is the paper's, with the proposed
token in the place of its expectation). Loss: binary cross entropy. The log has the AUC of a flip on validation prompts, beside that of
1 - c_i alone and of attention (last layer, head mean) times 1 - c_s, which is what ADAS discounts by.

`--leave-one-out DIR` asks how much of it is knowledge of the tasks: for every task a head that has never seen it.
"""

import argparse
import json
import math
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from model import Model, load, rotate
from train import TASKS, Data, padded

FILE = "pair_head.safetensors"
THETA = 10_000.0


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=Path, help="the model's folder; the head goes there")
    p.add_argument("--cofill", default="target/release/cofill")
    p.add_argument("--log", type=Path, help="where lines of JSON go (default: .train/NAME-pairs.jsonl)")
    p.add_argument("--golden", type=Path, help="where to write a state and the head's matrix, for tests")
    p.add_argument("--leave-one-out", type=Path, help="also trains a head without each task, and puts copies of the model with it here")
    p.add_argument("--target", choices=["flip", "tv"], default="flip")
    p.add_argument("--rank", type=int, default=32)
    p.add_argument("--seed", type=int, default=11, help="of the prompts and of everything drawn")
    p.add_argument("--prompts", type=int, default=160, help="train prompts per task; validation has a quarter of them")
    p.add_argument("--states", type=int, default=3, help="per prompt")
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--decay", type=float, default=0.05)
    p.add_argument("--threads", type=int, default=1)
    return p.parse_args()


class PairHead(nn.Module):
    def __init__(self, hidden: int, rank: int):
        super().__init__()
        self.rank = rank
        self.q, self.k = nn.Linear(hidden, rank), nn.Linear(hidden, rank)
        self.bias = nn.Parameter(torch.tensor([-2.0]))

    def forward(self, h: Tensor, position: Tensor, h_s: Tensor, position_s: Tensor) -> Tensor:
        """Logits of D. h: [..., n, hidden], position: [..., n]; of s: [..., m, hidden], [..., m] -> [..., n, m]"""
        q, k = self.turn(self.q(h), position), self.turn(self.k(h_s), position_s)
        return q @ k.transpose(-1, -2) / math.sqrt(self.rank) + self.bias

    def turn(self, x: Tensor, position: Tensor) -> Tensor:
        half = self.rank // 2
        frequency = THETA ** (-torch.arange(0, half, 2).float() / half)
        angle = position[..., None].float() * frequency
        angle = torch.cat((angle, angle), -1)
        return torch.cat((rotate(x[..., :half], angle.cos(), angle.sin()), x[..., half:]), -1)


def predict(model: Model, rows: list[list[int]], data: Data, size: int = 128) -> list[tuple[Tensor, Tensor]]:
    """For every canvas: what the head reads at each position, and probabilities without the mask. [n, hidden], [n, vocab]"""
    out = []
    for at in range(0, len(rows), size):
        some = rows[at : at + size]
        ids, valid = padded(some, data.end)
        h = model.norm(model.stream(ids, valid))
        p = model.head(h).softmax(-1)
        p[..., data.mask] = 0
        out += [(h[i, : len(row)], p[i, : len(row)]) for i, row in enumerate(some)]
    return out


def last_attention(model: Model, row: list[int]) -> Tensor:
    """Head mean of the last layer, as ADAS reads it. [n, n]"""
    ids, valid = padded([row], 0)
    x, n, s = model.embedding(ids), len(row), model.s
    for block in model.blocks[:-1]:
        x = block(x, model.cos[:n], model.sin[:n], None)
    block, h = model.blocks[-1], model.blocks[-1].attn_norm(x)
    q, k = (t.view(1, n, -1, s.hidden // s.heads).transpose(1, 2) for t in (block.q(h), block.k(h)))
    q, k = rotate(q, model.cos[:n], model.sin[:n]), rotate(k, model.cos[:n], model.sin[:n])
    k = k.repeat_interleave(s.heads // s.kv_heads, dim=1)
    return (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)[0].mean(0)


class State:
    """Masks of one moment of a decode, and what revealing some of them did."""

    def __init__(self, row: list[int], masks: list[int], h: Tensor, p: Tensor, after: list, revealed: list[int]):
        at = {position: i for i, position in enumerate(masks)}
        self.row, self.positions, self.revealed = row, torch.tensor(masks), torch.tensor([at[s] for s in revealed])
        self.h, self.confidence = h[masks], p[masks].max(-1).values
        before = p[masks]
        moved = torch.stack([q[masks] for _, q in after], 1)  # [masks, revealed, vocab]
        self.flip = (moved.argmax(-1) != before.argmax(-1)[:, None]).float()
        self.tv = 0.5 * (moved - before[:, None]).abs().sum(-1).clamp(0, 2)
        self.other = torch.arange(len(masks))[:, None] != self.revealed  # who is revealed is not asked about


@torch.no_grad()
def interventions(model: Model, data: Data, task: str, split: str, n: int, per_prompt: int, seed: int) -> list[State]:
    rng = np.random.default_rng([seed, TASKS.index(task), n])
    rows = [data.canvas(e) for e in data.examples(task, split, n, seed)]
    k = rng.choice([2, 3, 4, 6, 8, 12], size=n)
    rounds = [math.ceil(row.count(data.mask) / step) for row, step in zip(rows, k)]
    looked_at = [set(rng.choice(r, size=min(per_prompt, r), replace=False).tolist()) for r in rounds]
    states = []
    for step in range(max(rounds)):
        live = [i for i, row in enumerate(rows) if data.mask in row]
        answers = dict(zip(live, predict(model, [rows[i] for i in live], data)))
        asked = []
        for i, (h, p) in answers.items():
            masks = [at for at, token in enumerate(rows[i]) if token == data.mask]
            c, token = p[masks].max(-1)
            order = [masks[j] for j in torch.argsort(c, descending=True, stable=True).tolist()]
            best = dict(zip(masks, token.tolist()))
            if step in looked_at[i] and len(masks) > 1:
                others = rng.permutation(order[3:])[:3].tolist()
                revealed = sorted(order[:3] + others)
                copies = [[best[s] if at == s else t for at, t in enumerate(rows[i])] for s in revealed]
                asked.append((list(rows[i]), masks, h, p, copies, revealed))
            for position in order[: k[i]]:
                rows[i][position] = best[position]
        after = iter(predict(model, [copy for *_, copies, _ in asked for copy in copies], data))
        for row, masks, h, p, copies, revealed in asked:
            states.append(State(row, masks, h, p, [next(after) for _ in copies], revealed))
    return states


def auc(score: np.ndarray, positive: np.ndarray) -> float:
    """How often a pair that flips has the larger score, ties counting half."""
    if positive.all() or not positive.any():
        return float("nan")
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n = positive.sum()
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(score) - n)))


@torch.no_grad()
def judge(head: PairHead, model: Model, states: list[State]) -> dict:
    """AUC of a flip among candidates with c above .15, the mean of what is predicted and of what happens."""
    parts = {"head": [], "doubt": [], "adas": [], "flip": []}
    for s in states:
        d = head(s.h, s.positions, s.h[s.revealed], s.positions[s.revealed]).sigmoid()
        a = last_attention(model, s.row)[s.positions][:, s.positions[s.revealed]] * (1 - s.confidence[s.revealed])
        use = s.other & (s.confidence > 0.15)[:, None]
        doubt = (1 - s.confidence)[:, None].expand_as(d)
        for name, value in [("head", d), ("doubt", doubt), ("adas", a), ("flip", s.flip)]:
            parts[name].append(value[use].numpy())
    flat = {name: np.concatenate(values) for name, values in parts.items()}
    flip = flat.pop("flip") > 0.5
    numbers = {f"auc_{name}": round(auc(score, flip), 4) for name, score in flat.items()}
    return {"pairs": len(flip), "flips": round(float(flip.mean()), 4), "mean": round(float(flat["head"].mean()), 4), **numbers}


def fit(head: PairHead, states: list[State], args: argparse.Namespace, note) -> None:
    # Every state is padded to the most masks and reveals of all, so that a batch is a few products.
    n, m = max(len(s.positions) for s in states), max(len(s.revealed) for s in states)

    def stack(of, *shape: int) -> Tensor:
        out = torch.zeros(len(states), *shape)
        for i, s in enumerate(states):
            value = of(s).float()
            out[(i, *(slice(k) for k in value.shape))] = value
        return out

    hidden = states[0].h.shape[-1]
    h, position = stack(lambda s: s.h, n, hidden), stack(lambda s: s.positions, n)
    h_s, position_s = stack(lambda s: s.h[s.revealed], m, hidden), stack(lambda s: s.positions[s.revealed], m)
    target, use = stack(lambda s: getattr(s, args.target), n, m).clamp(0, 1), stack(lambda s: s.other, n, m)
    optimizer = torch.optim.AdamW(head.parameters(), lr=args.lr, weight_decay=args.decay)
    steps, size = args.epochs * math.ceil(len(states) / 64), 64
    order = torch.Generator().manual_seed(args.seed)
    done = 0
    for epoch in range(args.epochs):
        total = 0.0
        for at in torch.randperm(len(states), generator=order).split(size):
            optimizer.param_groups[0]["lr"] = args.lr * min(1.0, 2 * (1 - done / steps))
            logits = head(h[at], position[at], h_s[at], position_s[at])
            loss = F.binary_cross_entropy_with_logits(logits, target[at], reduction="none")
            loss = (loss * use[at]).sum() / use[at].sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            done, total = done + 1, total + loss.item() * len(at)
        if (epoch + 1) % 5 == 0:
            note(event="loss", epoch=epoch + 1, loss=round(total / len(states), 5))


def trained(states: list[State], model: Model, args: argparse.Namespace, note) -> PairHead:
    head = PairHead(model.s.hidden, args.rank)
    fit(head, states, args, note)
    return head.half().float()  # as it is stored


def save(head: PairHead, folder: Path) -> None:
    state = {name: tensor.half().contiguous() for name, tensor in head.state_dict().items()}
    save_file(state, folder / FILE, metadata={"format": "pt"})
    (folder / FILE).chmod(0o644)


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(args.seed)
    log_file = args.log or Path(".train") / f"{args.dir.name}-pairs.jsonl"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    log, start = log_file.open("w", buffering=1), time.time()

    def note(**fields) -> None:
        line = json.dumps({**fields, "seconds": round(time.time() - start, 1)})
        print(line, flush=True)
        log.write(line + "\n")

    settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(args).items()}
    note(event="start", torch=torch.__version__, **settings)
    data, model = Data(args), load(args.dir)
    train: list[State] = []
    of_task: dict[str, list[State]] = {}
    for task in TASKS:
        some = interventions(model, data, task, "train", args.prompts, args.states, args.seed)
        flips = torch.cat([s.flip[s.other] for s in some])
        note(event="data", task=task, states=len(some), pairs=len(flips), flips=round(flips.mean().item(), 4))
        train += some
        of_task[task] = some
    head = trained(train, model, args, note)
    save(head, args.dir)
    golden = []
    for task in TASKS:
        some = interventions(model, data, task, "validation", args.prompts // 4, args.states, args.seed + 1)
        note(event="validation", task=task, **judge(head, model, some))
        if args.leave_one_out:
            other = trained([s for t in TASKS if t != task for s in of_task[t]], model, args, note)
            folder = args.leave_one_out / f"{args.dir.name}-without-{task}"
            shutil.copytree(args.dir, folder, dirs_exist_ok=True)
            save(other, folder)
            note(event="left out", task=task, **judge(other, model, some))
        golden.append(some[len(some) // 2])
    if args.golden:
        args.golden.parent.mkdir(parents=True, exist_ok=True)
        with torch.no_grad():
            cases = []
            for task, s in zip(TASKS, golden):
                d = head(s.h, s.positions, s.h, s.positions).sigmoid()  # [query x key]
                cases.append({"task": task, "tokens": s.row, "rows": s.positions.tolist(), "influence": d.tolist()})
        args.golden.write_text("".join(json.dumps(case) + "\n" for case in cases))
    note(event="end", bytes=(args.dir / FILE).stat().st_size)


if __name__ == "__main__":
    sys.exit(main())
