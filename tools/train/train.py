"""Trains a tiny model on the mini tasks and writes it in its family's checkpoint layout.

    python3 -m venv .venv-train && .venv-train/bin/pip install -r tools/train/requirements.txt
    cargo build --release
    .venv-train/bin/python tools/train/train.py --family dream models/tiny-dream
    .venv-train/bin/python tools/train/train.py --family llada models/tiny-llada
    .venv-train/bin/python tools/train/train.py --family llada models/tiny-llada \\
        --resume --steps 4500 --line 0.7 --suffix 0.8 --mix 0.7,0.7,2,0.9,0.8
    .venv-train/bin/python tools/train/train.py --family causal models/tiny-causal --hidden 96 --mlp 384 --steps 800

The corpus comes from `cofill mini corpus`, the verdicts on validation answers from `cofill mini check`: tasks are defined once, in
Rust. Objective: the prompt is kept, every answer token is masked with probability t, and the masked ones are predicted; t is
spread evenly over a batch. Cross entropy is the plain mean over masked tokens: LLaDA's weight 1/t makes the same minimum, but
noisier steps. Answers are padded with end-of-text to the task's generation length. Of predicates only integers are ever masked.

Some of the sequences (`--line`; none of sudoku) instead lose one number per line. With independent masks only one result in six has both of its
operands in sight, and arithmetic takes hours; this way every line is a fact to learn. A constant that a line of `code` repeats goes
with its copy, and half of the time so does a result that the next line begins with: otherwise copying is enough, and a model that
only copies writes `code` from its end, where the value is known, and meets the beginning with a wrong sum. `--suffix` turns a
share of those into what decoding is about to see: every number from some point on is gone. Without it tiny-llada read a result off
the line below wherever that was possible, chose free constants of `code` that cannot meet, and stayed at 68 %. Which tokens are
masked depends on where they stand, never on what they are, so the conditional distributions being learned are the same.

`--family causal` is the model that APD asks beside a diffusion model: nothing is masked, and every answer token is predicted from
what stands before it. It uses the tokenizer of the others, so that both speak of the same ids.

Every batch is a function of (seed, step), so `--resume` continues exactly the run that was cut.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer

from model import Model, Shape, config, describe, tensors
from muon import Muon

TASKS = ["chain", "sums", "code", "sudoku", "predicates"]
# One number gone from every row of a sudoku leaves nothing to think about: such sequences would only dilute the others.
NO_LINES = {"sudoku"}
# Which numbers are the same, counted within a line, and from a line to the next:
# ` x-=5 #13-5=8` has its constant first and third, and its result is the second number of the line below.
COPIES = {"code": ((0, 2), (3, 1)), "chain": (None, (2, 0))}


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=Path, help="where tokenizer.json is and the checkpoint goes")
    p.add_argument("--family", choices=["llada", "dream", "causal"], required=True)
    p.add_argument("--cofill", default="target/release/cofill")
    p.add_argument("--work", type=Path, help="corpus and resumable state (default: .train/NAME)")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=3000)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--mix", default="1,0.9,1.3,1.2,0.9", help=f"shares of {', '.join(TASKS)}")
    p.add_argument("--line", type=float, default=0.6, help="share of sequences that lose one number per line")
    p.add_argument("--suffix", type=float, default=0.0, help="share of those that lose all numbers from a random one on instead")
    p.add_argument("--examples", type=int, default=60_000, help="per task")
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--heads", type=int, default=4)
    # Dream-7B shares key heads. At this size, two for four heads never learned to carry a value from line to line.
    p.add_argument("--kv-heads", type=int, default=4)
    p.add_argument("--mlp", type=int, default=512)
    p.add_argument("--lr", type=float, default=4e-3, help="of Muon")
    p.add_argument("--lr-adam", type=float, default=3e-3)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--every", type=int, default=500, help="steps between evaluations")
    p.add_argument("--limit", type=int, default=100, help="validation prompts per task while training")
    p.add_argument("--final-limit", type=int, default=500, help="validation prompts per task at the end")
    p.add_argument("--stop-at", type=int, help="stop after this step, keeping the schedule of --steps")
    return p.parse_args()


class Corpus:
    """Sequences of one task: ids, which positions may be masked, and lengths. All padded to the task's longest."""

    def __init__(self, task: str, ids: list[list[int]], maskable: list[list[bool]], data: "Data"):
        longest = max(map(len, ids))
        self.length = np.array([len(row) for row in ids], dtype=np.int16)
        self.ids = np.full((len(ids), longest), data.end, dtype=np.int16)
        self.maskable = np.zeros((len(ids), longest), dtype=bool)
        for i, (row, may) in enumerate(zip(ids, maskable)):
            self.ids[i, : len(row)], self.maskable[i, : len(row)] = row, may
        self.line = np.cumsum(self.ids == data.newline, axis=1, dtype=np.int16)
        self.number = self.maskable & np.isin(self.ids, sorted(data.numbers))
        # Where the same number stands again: in its line, and in the line before or after. [rows, longest], itself if nowhere
        self.copy = np.tile(np.arange(longest, dtype=np.int16), (len(ids), 1))
        self.carried = self.copy.copy()
        in_line, next_line = COPIES.get(task, (None, None))
        for i, (number, line) in enumerate(zip(self.number, self.line)):
            at = np.flatnonzero(number)
            lines = np.split(at, np.flatnonzero(np.diff(line[at])) + 1)
            for here, below in zip(lines, [*lines[1:], []]):
                if in_line and len(here) > max(in_line):
                    self.copy[i, here[[*in_line]]] = here[[*in_line[::-1]]]
                if next_line and len(here) > next_line[0] and len(below) > next_line[1]:
                    pair = [here[next_line[0]], below[next_line[1]]]
                    self.carried[i, pair] = pair[::-1]


class Data:
    """The tokenizer and what it makes of examples."""

    def __init__(self, args: argparse.Namespace):
        self.cofill = args.cofill
        self.tokenizer = Tokenizer.from_file(str(args.dir / "tokenizer.json"))
        named = json.loads((args.dir / "tokenizer_config.json").read_text())
        self.end = self.tokenizer.token_to_id(named["eos_token"])
        self.mask = self.tokenizer.token_to_id(named["mask_token"])
        self.vocab = self.tokenizer.get_vocab_size(with_added_tokens=True)
        vocab = self.tokenizer.get_vocab()
        self.numbers = {i for token, i in vocab.items() if token.lstrip("Ġ").isdecimal() and token.isprintable()}
        self.newline = vocab["Ċ"]

    def examples(self, task: str, split: str, n: int, seed: int) -> list[dict]:
        command = [self.cofill, "mini", "corpus", "--task", task, "--split", split, "-n", str(n), "--seed", str(seed)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [json.loads(line) for line in out.splitlines()]

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [e.ids for e in self.tokenizer.encode_batch(texts, add_special_tokens=False)]

    def corpus(self, task: str, n: int, seed: int) -> Corpus:
        examples = self.examples(task, "train", n, seed)
        answers = self.encode([e["answer"] for e in examples])
        if task == "predicates":
            return Corpus(task, answers, [[i in self.numbers for i in row] for row in answers], self)
        prompts = self.encode([e["prompt"] for e in examples])
        ids, maskable = [], []
        for e, prompt, answer in zip(examples, prompts, answers):
            pad = e["length"] - len(answer)
            assert pad >= 0, f"{task}: an answer of {len(answer)} tokens, but length is {e['length']}"
            ids.append(prompt + answer + [self.end] * pad)
            maskable.append([False] * len(prompt) + [True] * e["length"])
        return Corpus(task, ids, maskable, self)

    def canvas(self, example: dict) -> list[int]:
        """What a decode starts from."""
        if example["length"] > 0:
            return self.encode([example["prompt"]])[0] + [self.mask] * example["length"]
        parts = self.encode(example["prompt"].split("[MASK:1]"))
        return parts[0] + [i for part in parts[1:] for i in [self.mask, *part]]

    def answer(self, example: dict, ids: list[int]) -> str:
        """The text that a decode ended with, up to end-of-text."""
        start = len(self.encode([example["prompt"]])[0]) if example["length"] > 0 else 0
        ids = ids[start:]
        ids = ids[: ids.index(self.end)] if self.end in ids else ids
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def right(self, task: str, examples: list[dict], answers: list[str]) -> int:
        lines = "".join(json.dumps({"prompt": e["prompt"], "answer": a}) + "\n" for e, a in zip(examples, answers))
        command = [self.cofill, "mini", "check", "--task", task]
        out = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout
        return sum(json.loads(line)["right"] for line in out.splitlines())


def padded(rows: list[list[int]], fill: int) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), fill)
    valid = torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, row in enumerate(rows):
        ids[i, : len(row)], valid[i, : len(row)] = torch.tensor(row), True
    return ids, valid


@torch.no_grad()
def decode(model: Model, canvases: list[list[int]], mask: int, end: int, k: int = 1) -> list[list[int]]:
    """Top-k by confidence, temperature 0, all canvases at once; a quick stand-in for `cofill eval` while training. A causal model goes
    from left to right."""
    model.eval()
    ids, valid = padded(canvases, end)
    while True:
        masked = ids == mask
        live = masked.any(1)
        if not live.any():
            model.train()
            return [row[: len(canvas)] for row, canvas in zip(ids.tolist(), canvases)]
        # Finished canvases leave the batch, so what is left gets cheaper.
        logits = model(ids[live], valid[live], masked[live])
        p = logits.double().softmax(-1)
        p[:, mask] = 0  # never proposed, but confidence stays that of the full softmax
        confidence, token = p.max(-1)
        score = torch.full(ids.shape, -1.0, dtype=torch.float64)
        # The earlier, the better: in (0, 1], as a confidence is.
        score[masked] = 1.0 / (1.0 + masked.nonzero()[:, 1].double()) if model.s.causal else confidence
        best = torch.full_like(ids, end)
        best[masked] = token
        rows = torch.arange(len(ids))
        for _ in range(k):
            position = score.argmax(1)
            open_ = score[rows, position] >= 0
            r, p = rows[open_], position[open_]
            ids[r, p] = best[r, p]
            score[r, p] = -1.0


def evaluate(model: Model, data: Data, n: int, k: int = 1, split: str = "validation") -> dict[str, float]:
    accuracy = {}
    for task in TASKS:
        examples = data.examples(task, split, n, seed=7)
        answers = []
        for at in range(0, n, 100):
            some = examples[at : at + 100]
            done = decode(model, [data.canvas(e) for e in some], data.mask, data.end, k)
            answers += [data.answer(e, ids) for e, ids in zip(some, done)]
        accuracy[task] = data.right(task, examples, answers) / n
    return accuracy


def suffix(c: Corpus, r: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """All numbers from a random one of the last three lines on, or some of these; with their copies. [n]"""
    numbers = np.flatnonzero(c.number[r, :n])
    lines = np.unique(c.line[r, numbers])
    late = numbers[c.line[r, numbers] >= lines[-3:][0]]
    gone = late[rng.integers(len(late)) :]
    if rng.random() < 0.3:
        some = gone[rng.random(len(gone)) < rng.random()]
        gone = some if len(some) > 0 else gone
    below = c.carried[r, gone]  # not above: what the first of these lines starts from stays known
    at = np.zeros(n, dtype=bool)
    at[gone] = at[c.copy[r, gone]] = at[below[below > gone]] = True
    return at


def batch(corpora: list[Corpus], mix: np.ndarray, args: argparse.Namespace, data: Data, step: int):
    """The masked sequences of one step, in two halves by length so that little of them is padding."""
    rng, size = np.random.default_rng([args.seed, step]), args.batch
    task = rng.choice(len(corpora), size=size, p=mix)
    row = np.array([rng.integers(len(corpora[i].length)) for i in task])
    t = rng.permutation((np.arange(size) + rng.random()) / size)  # one in each of `size` strata of (0, 1)
    length = np.array([corpora[i].length[r] for i, r in zip(task, row)])
    order = np.argsort(length, kind="stable")
    total = 0
    halves = []
    for half in np.array_split(order, 2):
        longest = int(length[half].max())
        ids = np.full((len(half), longest), data.end, dtype=np.int64)
        at = np.zeros((len(half), longest), dtype=bool)
        valid = np.arange(longest)[None] < length[half][:, None]
        for j, b in enumerate(half):
            c, r, n = corpora[task[b]], row[b], length[b]
            ids[j, :n] = c.ids[r, :n]
            if args.family == "causal":
                at[j, :n] = c.maskable[r, :n]
                continue
            if TASKS[task[b]] not in NO_LINES and rng.random() < args.line:
                if args.suffix > 0 and rng.random() < args.suffix:
                    at[j, :n] = suffix(c, r, n, rng)
                    continue
                may = rng.permutation(np.flatnonzero(c.number[r, :n]))
                gone = may[np.unique(c.line[r, may], return_index=True)[1]]
                at[j, gone] = at[j, c.copy[r, gone]] = True
                if rng.random() < 0.5:
                    at[j, c.carried[r, gone]] = True
                continue
            may = np.flatnonzero(c.maskable[r, :n])
            drawn = rng.random(len(may)) < t[b]
            drawn[rng.integers(len(may))] |= not drawn.any()  # at least one, or there is nothing to learn
            at[j, may[drawn]] = True
        total += int(at.sum())
        halves.append((torch.from_numpy(ids), torch.from_numpy(valid), torch.from_numpy(at), task[half]))
    return halves, total


def save(model: Model, data: Data, directory: Path) -> None:
    save_file(tensors(model), directory / "model.safetensors", metadata={"format": "pt"})
    text = json.dumps(config(model.s, data.end, data.mask), indent=2)
    (directory / "config.json").write_text(text + "\n")
    # How cofill asks the model, wherever the folder is copied to: mini tasks, each with a length of its own.
    text = json.dumps({"cofill": {"tasks": "mini"}}, indent=2)
    (directory / "generation_config.json").write_text(text + "\n")


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(args.seed)
    work = args.work or Path(".train") / args.dir.name
    work.mkdir(parents=True, exist_ok=True)
    data = Data(args)
    corpora = [data.corpus(task, args.examples, args.seed) for task in TASKS]
    mix = np.array([float(x) for x in args.mix.split(",")])
    mix /= mix.sum()

    eps = 1e-5 if args.family == "llada" else 1e-6
    shape = Shape(args.family, args.hidden, args.layers, args.heads, args.kv_heads, args.mlp, data.vocab, eps)
    model = Model(shape)
    named = list(model.named_parameters())
    hidden = [p for name, p in named if name.startswith("blocks") and p.ndim == 2]
    other = [p for name, p in named if not (name.startswith("blocks") and p.ndim == 2)]
    muon = Muon(hidden, lr=args.lr, weight_decay=0.01)
    adam = torch.optim.AdamW(other, lr=args.lr_adam, betas=(0.9, 0.98), weight_decay=0.0, foreach=True)
    n_parameters = sum(p.numel() for p in model.parameters())

    state_file, log_file = work / "state.pt", work / "log.jsonl"
    done, spent = 0, 0.0
    if args.resume and state_file.exists():
        state = torch.load(state_file, weights_only=True)
        model.load_state_dict(state["model"])
        muon.load_state_dict(state["muon"])
        adam.load_state_dict(state["adam"])
        done, spent = state["step"], state["seconds"]
    log = log_file.open("a" if done else "w", buffering=1)

    def note(**fields) -> None:
        line = json.dumps(fields)
        print(line, flush=True)
        log.write(line + "\n")

    settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(args).items()}
    note(event="start", step=done, parameters=n_parameters, shape=describe(shape), torch=torch.__version__, **settings)
    start = time.time() - spent
    last = min(args.steps, args.stop_at or args.steps)
    sums, counts = np.zeros(len(TASKS)), np.zeros(len(TASKS))
    for step in range(done + 1, last + 1):
        # Warm up over 100 steps, then constant, then down to nothing over the second half.
        scale = min(1.0, step / 100, 2 * (1 - (step - 1) / args.steps))
        for optimizer, lr in [(muon, args.lr), (adam, args.lr_adam)]:
            optimizer.param_groups[0]["lr"] = lr * scale
        halves, total = batch(corpora, mix, args, data, step)
        for ids, valid, at, task in halves:
            seen = ids if shape.causal else ids.masked_fill(at, data.mask)
            logits = model(seen, valid, at)
            loss = F.cross_entropy(logits, ids[at], reduction="none")
            (loss.sum() / total).backward()
            which = np.repeat(task, at.sum(1).numpy())
            sums += np.bincount(which, weights=loss.detach().double().numpy(), minlength=len(TASKS))
            counts += np.bincount(which, minlength=len(TASKS))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in (muon, adam):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        if step % 50 == 0:
            by_task = dict(zip(TASKS, (sums / counts.clip(1)).round(4).tolist()))
            note(event="loss", step=step, seconds=round(time.time() - start, 1), lr=round(scale, 4), **by_task)
            sums[:], counts[:] = 0, 0
        if step % args.every == 0 or step == last:
            part = state_file.with_suffix(".part")
            state = {"model": model.state_dict(), "muon": muon.state_dict(), "adam": adam.state_dict()}
            torch.save({**state, "step": step, "seconds": time.time() - start}, part)
            os.replace(part, state_file)
            save(model, data, args.dir if step == args.steps else work)
            n = args.final_limit if step == args.steps else args.limit
            accuracy = evaluate(model, data, n)
            note(event="accuracy", step=step, sampler="topk:1", n=n, seconds=round(time.time() - start, 1), **accuracy)
    note(event="end", step=last, seconds=round(time.time() - start, 1))


if __name__ == "__main__":
    sys.exit(main())
