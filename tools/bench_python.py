"""Measures what cofill adds to a torch model's own time, and what a call into Rust costs. Prints one JSON object a line.

    PYTHONPATH=crates/cofill-py/python python tools/bench_python.py [--hidden 1024 --layers 8 --vocab 32000 --length 256 --prompt 64]

Two kinds of lines. `"what": "step"`: a LLaDA-like model with random weights decoded by each sampler for a few steps; milliseconds
of a step by part, and each part as a share of the forward. `"what": "call"`: microseconds of `Decode.absorb` and `Sampler.select` at about 256 candidates, with
and without attention. Medians; run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "crates" / "cofill-py" / "tests"))

import cofill  # noqa: E402
import tiny_torch  # noqa: E402
from cofill.torch.forward import PARTS  # noqa: E402

SAMPLERS = ["topk:1", "topk:1+ad", "eb:0.001+ad", "topk:1+paths"]
"""Rules that commit one token a step, so that every measured step has nearly all masks still open."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in [
        ("hidden", 1024),
        ("layers", 8),
        ("heads", 16),
        ("vocab", 32_000),
        ("length", 256),
        ("prompt", 64),
    ]:
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--steps", type=int, default=8, help="steps that are measured")
    parser.add_argument("--candidates", type=int, default=256, help="candidates of a call into Rust")
    parser.add_argument("--calls", type=int, default=400, help="calls into Rust that are measured")
    parser.add_argument("--threads", type=int, help="of torch; one for each core if not given")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--samplers", nargs="*", default=SAMPLERS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads or os.cpu_count() or 1)  # the doubles ask for one, being tiny
    machine = {
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cofill": cofill.__version__,
    }
    say(what="machine", **machine, date=time.strftime("%Y-%m-%d %H:%M"))
    model = random_model(args)
    for sampler in args.samplers:
        say(what="step", sampler=sampler, **steps(model, sampler, args))
    for call in calls(args):
        say(what="call", **call)


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def random_model(args: argparse.Namespace) -> torch.nn.Module:
    """A LLaDA-like model of this size. Its weights mean nothing, and its time is that of any other."""
    config = tiny_torch.Config(
        architectures=["LLaDAModelLM"],
        d_model=args.hidden,
        n_layers=args.layers,
        n_heads=args.heads,
        mlp_hidden_size=3 * args.hidden,
        vocab_size=args.vocab,
        rope_theta=5e5,
        rms_norm_eps=1e-5,
        mask_token_id=args.vocab - 1,
    )
    torch.manual_seed(0)
    return tiny_torch.LLaDAModelLM(config).to(getattr(torch, args.dtype)).eval()


def steps(model: torch.nn.Module, sampler: str, args: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of a step by part, medians over single steps, and shares of the forward."""
    prompt = torch.arange(args.prompt)[None]
    settings: dict[str, Any] = dict(sampler=sampler, max_new_tokens=args.length - args.prompt, trace=False)
    cofill.generate(model, prompt, max_nfe=1, **settings)
    # One decode a step: `seconds` are sums, and a median needs single steps. The first step has every mask open.
    taken = [cofill.generate(model, prompt, max_nfe=1, **settings).seconds for _ in range(args.steps)]
    parts = {part: 1e3 * statistics.median(t[part] for t in taken) for part in PARTS}
    beside = {part: parts[part] / parts["forward"] for part in PARTS if part != "forward"}
    shape = {name: getattr(args, name) for name in ("hidden", "layers", "vocab", "length", "dtype")}
    return {
        **shape,
        "masks": args.length - args.prompt,
        "milliseconds": {k: round(v, 4) for k, v in parts.items()},
        "share_of_forward": {k: round(v, 5) for k, v in beside.items()},
        "overhead": round(sum(beside.values()), 5),
    }


def calls(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Microseconds of calls into Rust."""
    n = args.candidates
    for spec in ["topk:8", "topk:8+ad", "topk:8+paths"]:
        yield line("Decode.absorb", spec, n, absorbs(spec, n, args.calls))
    # Rows behind each other, as people's own arrays have them; the torch loop sends columns.
    yield {**line("Decode.absorb", "topk:8+ad", n, absorbs("topk:8+ad", n, args.calls, order="C")), "order": "C"}
    numbers = answer(n, attention=True)
    for spec in ["topk:8", "eb:3", "topk:8+ad", "eb:3+ad", "topk:8+paths"]:
        sampler = cofill.sampler(spec)
        attention = numbers["attention"] if sampler.needs.attention else None
        took = []
        for _ in range(args.calls):
            begun = time.perf_counter_ns()
            sampler.select(numbers["confidence"], entropy=numbers["entropy"], attention=attention)
            took.append(time.perf_counter_ns() - begun)
        yield line("Sampler.select", spec, n, took)


def absorbs(spec: str, n: int, calls: int, order: str = "F") -> list[int]:
    """Nanoseconds of `absorb` in the middle of decodes that commit 8 a step, from 64 candidates more than n to 64 fewer."""
    sizes = range(n + 64, n - 64, -8)
    attention = cofill.sampler(spec).needs.attention is not None
    answers = [answer(size, attention, order) for size in sizes]
    took: list[int] = []
    while len(took) < calls:
        decode = cofill.Decode(np.array([1] + [9] * sizes[0], dtype=np.uint32), 9, spec)
        for i, numbers in enumerate(answers):
            decode.query()
            begun = time.perf_counter_ns()
            decode.absorb(**numbers)
            if i > 0:  # the first step of a decode also makes its buffers
                took.append(time.perf_counter_ns() - begun)
    return took


def answer(n: int, attention: bool, order: str = "F") -> dict[str, np.ndarray]:
    """What a model might say about n rows, in the types that the torch loop sends."""
    rng = np.random.default_rng(n)
    confidence = rng.random(n)
    numbers = dict(token=rng.integers(0, 8, n), confidence=confidence, uncertainty=1 - confidence)
    numbers |= dict(margin=rng.random(n), entropy=5 * rng.random(n))
    if attention:
        scores = rng.random((n, n)).astype(np.float32)
        numbers["attention"] = np.asarray(scores / scores.sum(1, keepdims=True), order=order)
    return numbers


def line(function: str, spec: str, n: int, took: list[int]) -> dict[str, Any]:
    """Median and best, in microseconds."""
    attention = cofill.sampler(spec).needs.attention is not None
    times = {"median_us": round(statistics.median(took) / 1e3, 2), "best_us": round(min(took) / 1e3, 2)}
    return {"function": function, "sampler": spec, "candidates": n, "attention": attention, **times}


if __name__ == "__main__":
    main()
