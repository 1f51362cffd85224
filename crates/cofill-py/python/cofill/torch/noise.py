"""Gumbel noise for sampled tokens, drawn on the logits' own device."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import torch

__all__ = ["gumbel_row", "gumbel_rows"]


def gumbel_row(seed: int, step: int, position: int, vocab: int, generator: torch.Generator) -> torch.Tensor:
    """Standard Gumbel noise for one row, drawn on the generator's device.

    A pure function of (seed, step, position): a sequence gets the same noise alone and in any batch, whichever rows are asked.
    It is not the noise of the Rust engine.
    """
    words = np.array([seed % (1 << 64), step, position], dtype=np.uint64)
    key = int.from_bytes(hashlib.blake2b(words.tobytes(), digest_size=8).digest(), "little") >> 1
    generator.manual_seed(key)
    device = generator.device
    wide = (
        torch.float32 if device.type == "mps" else torch.float64
    )  # f32 has too few numbers near 1, and sampling shows it
    u = torch.rand(vocab, generator=generator, dtype=wide, device=device)
    tiny = torch.finfo(wide).tiny
    return u.clamp_(min=tiny).log_().neg_().clamp_(min=tiny).log_().neg_()


def gumbel_rows(
    keys: Sequence[tuple[int, int, int]], vocab: int, device: torch.device
) -> Callable[[int, int], torch.Tensor]:
    """Noise for rows with these (seed, step, position), a chunk at a time."""
    generator = torch.Generator(device=device)

    def noise(first: int, last: int) -> torch.Tensor:
        return torch.stack([gumbel_row(*key, vocab, generator) for key in keys[first:last]])

    return noise
