"""LLaDA's `generate.py`, by its signature: with `sampler=None` the official schedule, otherwise any sampler of cofill.

What differs from the official loop: confidences are f32 (there, the model's own type), the mask is never written, ties go to the left, and
guidance needs no attention mask.
"""

from __future__ import annotations

from typing import Any

import torch

from cofill import Error, adapters
from cofill.torch.checks import number, whole_number
from cofill.torch.generate import Output
from cofill.torch.generate import generate as _generate

__all__ = ["generate"]

EOS, EOT = 126081, 126348
"""`<|endoftext|>` and `<|eot_id|>` of LLaDA's tokenizer."""


@torch.no_grad()
def generate(
    model: torch.nn.Module,
    prompt: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    steps: int = 128,
    gen_length: int = 128,
    block_length: int = 128,
    temperature: float = 0.0,
    cfg_scale: float = 0.0,
    remasking: str = "low_confidence",
    mask_id: int = 126336,
    logits_eos_inf: bool = False,
    confidence_eos_eot_inf: bool = False,
    sampler: Any = None,
    *,
    return_output: bool = False,
    **options: Any,
) -> torch.Tensor | Output:
    """Writes `gen_length` tokens after every prompt.

    Parameters
    ----------
    model, prompt, attention_mask
        The model, prompts `[batch, length]`, padded on the left where `attention_mask` is 0.
    steps, gen_length, block_length
        The official schedule: `gen_length / block_length` blocks share `steps` forwards. A sampler of your own ignores `steps`.
    temperature, cfg_scale
        As there. Noise and whatever a sampler draws are seeded by torch's global generator, so that `torch.manual_seed` decides, unless `seed` is
        given. The official schedule draws nothing at temperature 0, unless `remasking` is `random`.
    remasking : {"low_confidence", "random"}
        What the official schedule orders positions by.
    mask_id : int
        The id of the mask.
    logits_eos_inf, confidence_eos_eot_inf : bool
        Never end the text; end it last.
    sampler : str, cofill.Sampler or object, optional
        In place of the official schedule, for example `eb:3+ad`.
    return_output : bool
        Give a `cofill.torch.Output`, with NFE and traces, instead of the tokens alone.
    **options
        As of `cofill.generate`.

    Returns
    -------
    torch.Tensor
        int64 `[batch, length + gen_length]`.
    """
    gen_length, block_length = whole_number("gen_length", gen_length), whole_number("block_length", block_length)
    temperature = number("temperature", temperature)
    if gen_length % block_length:
        raise Error(f"gen_length must be a multiple of block_length, but {gen_length} and {block_length} were given")
    blocks = gen_length // block_length
    # Only what is random draws: a script's later draws do not change because of an import. Whether a given sampler draws, nobody knows.
    is_random = temperature > 0 or sampler is not None or remasking == "random"
    if sampler is None:
        if remasking not in ("low_confidence", "random"):
            raise Error(f"remasking must be 'low_confidence' or 'random', but {remasking!r} was given")
        if whole_number("steps", steps) % blocks:
            raise Error(f"steps must be a multiple of the {blocks} blocks, but {steps} was given")
        sampler = f"llada:{steps}" + ("@random" if remasking == "random" else "")
    options.setdefault("adapter", None)
    if options["adapter"] is None:
        options["adapter"] = adapters.adapt(model, mask_id=mask_id, shift=options.pop("shift", None))
    if "seed" not in options and is_random:
        options["seed"] = torch.randint(1 << 62, (_batch(prompt),)).tolist()
    vocab = getattr(options["adapter"], "vocab", None) or EOT + 1
    of_text = [token for token in _eos(model) if token < vocab]
    ends = [*of_text, *(token for token in (EOT,) if token < vocab and token not in of_text)]
    out = _generate(
        model,
        prompt,
        sampler,
        max_new_tokens=gen_length,
        block=block_length if blocks > 1 else None,
        temperature=temperature,
        attention_mask=attention_mask,
        cfg_scale=cfg_scale,
        suppress=of_text if logits_eos_inf else (),
        demote=ends if confidence_eos_eot_inf else (),
        **options,
    )
    return out if return_output else out.sequences


def _eos(model: torch.nn.Module) -> list[int]:
    """What ends a text: by the configuration one token, several or none, where none leaves LLaDA's own."""
    eos = getattr(getattr(model, "config", None), "eos_token_id", None)
    several = list(eos) if isinstance(eos, (list, tuple)) else [] if eos is None else [eos]
    return several or [EOS]


def _batch(prompt: Any) -> int:
    if hasattr(prompt, "shape"):
        return prompt.shape[0] if len(prompt.shape) > 1 else 1
    return len(prompt) if prompt and not isinstance(prompt[0], int) else 1
