"""Muon for the hidden matrices, AdamW for everything else.

`torch.optim.Muon` iterates in bf16, which halves the speed on CPUs without bf16 units; here it is f32, with all matrices of a shape
in one batch. Updates are scaled by 0.2 sqrt(larger side), so that their entries are about as large as AdamW's.
"""

import math

import torch
from torch import Tensor


def orthogonal(g: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz towards the nearest semi-orthogonal matrix. g: [n, rows, columns]"""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[1] > g.shape[2]
    x = g.transpose(1, 2) if tall else g
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.transpose(1, 2)
        x = a * x + (b * s + c * (s @ s)) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params: list[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for p in group["params"]:
                by_shape.setdefault(p.shape, []).append(p)
            for shape, params in by_shape.items():
                mixed = []
                for p in params:
                    state = self.state[p]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(p)
                    m = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                    mixed.append(p.grad.lerp(m, group["momentum"]))  # Nesterov
                update = orthogonal(torch.stack(mixed))
                scale = group["lr"] * 0.2 * math.sqrt(max(shape))
                for p, u in zip(params, update):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(u, alpha=-scale)
