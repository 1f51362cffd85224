"""The body of a bidirectional transformer in PyTorch, f32, as plainly as its users write it. Orders and answers are JSON lines."""

import json
import sys
import time

sys.path = [place for place in sys.path if place]  # the folder that we were started in may have a torch.py


def say(**answer):
    print(json.dumps(answer), flush=True)


try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    say(missing=f"torch ({error})")
    sys.exit(0)


class Body:
    """Blocks for all rows, without embedding and head; random weights."""

    def __init__(self, hidden, blocks, heads, mlp, positions):
        torch.manual_seed(0)
        self.hidden, self.heads, self.positions = hidden, heads, positions
        matrix = lambda out, width: torch.empty(out, width).uniform_(-1, 1) * (3 / width) ** 0.5
        self.blocks = [
            {
                **{name: matrix(hidden, hidden) for name in ("q", "k", "v", "o")},
                "gate": matrix(mlp, hidden),
                "up": matrix(mlp, hidden),
                "down": matrix(hidden, mlp),
            }
            for _ in range(blocks)
        ]
        self.norm = torch.ones(hidden)
        half = hidden // heads // 2
        angles = torch.arange(positions)[:, None] * 500000.0 ** (-torch.arange(half) / half)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.x = torch.randn(positions, hidden)

    def rotate(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], dim=-1)

    @torch.inference_mode()
    def forward(self):
        x = self.x
        split = lambda t: t.view(self.positions, self.heads, -1).transpose(0, 1)
        for block in self.blocks:
            h = F.rms_norm(x, (self.hidden,), self.norm, 1e-5)
            q, k, v = (split(h @ block[name].T) for name in "qkv")
            a = F.scaled_dot_product_attention(self.rotate(q)[None], self.rotate(k)[None], v[None])[0]
            x = x + a.transpose(0, 1).reshape(self.positions, self.hidden) @ block["o"].T
            h = F.rms_norm(x, (self.hidden,), self.norm, 1e-5)
            x = x + (F.silu(h @ block["gate"].T) * (h @ block["up"].T)) @ block["down"].T
        return x

    def time(self):
        begun = time.perf_counter()
        self.forward()
        return (time.perf_counter() - begun) * 1e3


torch.set_num_threads(int(sys.argv[1]))
say(package="torch", version=torch.__version__)
body = None
for line in sys.stdin:
    try:
        order = json.loads(line)
        if order["do"] == "body":
            body = Body(*(order[name] for name in ("hidden", "blocks", "heads", "mlp", "positions")))
            body.forward()
            say(kernels=torch.backends.cpu.get_cpu_capability())
        elif order["do"] == "time":
            say(ms={"": body.time()})
        else:
            say(error=f"unknown order {order['do']}")
    except Exception as error:
        say(error=f"{type(error).__name__}: {error}")
