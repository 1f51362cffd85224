"""Times one decode step of `cofill bench forward` next to PyTorch, taking turns in one run; the fastest of N rounds counts.

    cargo build --release -p cofill-cli
    python -m venv .venv && .venv/bin/pip install torch numpy
    .venv/bin/python tools/bench_forward.py --rounds 5 --out results/DATE-MACHINE

PyTorch runs the same architecture with random weights: every block for every position (it has no reason to know which rows are
asked), the final norm and the head for the masked rows, softmax statistics not included. Both use every core.
"""

import argparse
import json
import pathlib
import subprocess
import time

import torch
import torch.nn.functional as F

HIDDEN, LAYERS, HEADS, MLP, VOCAB, POSITIONS, MASKED = 1024, 8, 16, 3072, 8192, 512, 256


class Peer:
    """A bidirectional pre-norm transformer, as plainly as PyTorch has it."""

    def __init__(self):
        torch.manual_seed(0)
        matrix = lambda out, width: torch.empty(out, width).uniform_(-1, 1) * (3 / width) ** 0.5
        self.blocks = [
            {
                **{name: matrix(HIDDEN, HIDDEN) for name in ("q", "k", "v", "o")},
                "gate": matrix(MLP, HIDDEN),
                "up": matrix(MLP, HIDDEN),
                "down": matrix(HIDDEN, MLP),
            }
            for _ in range(LAYERS)
        ]
        self.embedding, self.head = matrix(VOCAB, HIDDEN), matrix(VOCAB, HIDDEN)
        self.norm = torch.ones(HIDDEN)
        half = HIDDEN // HEADS // 2
        angles = torch.arange(POSITIONS)[:, None] * 500000.0 ** (-torch.arange(half) / half)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.tokens = torch.randint(VOCAB, (POSITIONS,))

    def rotate(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], dim=-1)

    @torch.no_grad()
    def forward(self):
        x = F.embedding(self.tokens, self.embedding)
        split = lambda t: t.view(POSITIONS, HEADS, -1).transpose(0, 1)
        for block in self.blocks:
            h = F.rms_norm(x, (HIDDEN,), self.norm, 1e-5)
            q, k, v = (split(h @ block[name].T) for name in "qkv")
            a = F.scaled_dot_product_attention(self.rotate(q)[None], self.rotate(k)[None], v[None])[0]
            x = x + a.transpose(0, 1).reshape(POSITIONS, HIDDEN) @ block["o"].T
            h = F.rms_norm(x, (HIDDEN,), self.norm, 1e-5)
            x = x + (F.silu(h @ block["gate"].T) * (h @ block["up"].T)) @ block["down"].T
        return F.rms_norm(x[-MASKED:], (HIDDEN,), self.norm, 1e-5) @ self.head.T


def cofill(binary, dtype):
    command = [binary, "bench", "forward", "--rounds", "2", "--plain", "--dtype", dtype, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/cofill")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtypes", default="f32,f16,q8_0,q6k,q4k")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    dtypes = args.dtypes.split(",")
    peer, runs = Peer(), []
    peer.forward()
    for i in range(args.rounds):
        for dtype in dtypes:
            runs.append({"round": i, **cofill(args.binary, dtype)})
        begun = time.perf_counter()
        peer.forward()
        runs.append({"round": i, "torch": torch.__version__, "total_ms": (time.perf_counter() - begun) * 1e3})
        print(f"round {i + 1} of {args.rounds}", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "forward.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))

    torch_ms = min(run["total_ms"] for run in runs if "torch" in run)
    lines = ["| | step with +ad, ms | without | plain candle | plain / step | PyTorch f32 / step | probe + select | peak - weights, MB |"]
    lines.append("|---|" + "---:|" * 7)
    for dtype in dtypes:
        of = [run for run in runs if run.get("dtype") == dtype]
        best = min(of, key=lambda run: run["total_ms"])
        without = min(run["without_ad"]["total_ms"] for run in of)
        plain = min(run["plain_ms"] for run in of)
        probe = min(run["probe_ms"] + run["select_ms"] for run in of) / best["total_ms"]
        memory = best["peak_rss_mb"] - best["weights_mb"]
        step = best["total_ms"]
        lines.append(
            f"| {dtype} | {step:.0f} | {without:.0f} | {plain:.0f} | {plain / step:.2f} | {torch_ms / step:.2f} "
            f"| {100 * probe:.2f} % | {memory:.0f} |"
        )
    lines.append(f"\nPyTorch {torch.__version__}, f32: {torch_ms:.0f} ms.")
    (args.out / "forward.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
