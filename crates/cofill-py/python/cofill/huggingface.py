"""`cofill.hf`: what `model.generate(..., custom_generate=cofill.hf)` of transformers 4.56 and later calls.

>>> out = model.generate(ids, custom_generate=cofill.hf, sampler="eb:3+ad", max_new_tokens=128)           # doctest: +SKIP

transformers passes on the keywords that are named in the signature below and refuses all others. Dream's class has no `generate`; call
`cofill.generate` or `cofill.compat.dream.diffusion_generate` for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import torch

from cofill import Error
from cofill.torch.generate import Output, generate

__all__ = ["hf"]


@torch.no_grad()
def hf(
    model: torch.nn.Module,
    input_ids: torch.Tensor,
    logits_processor: Any = None,
    stopping_criteria: Any = None,
    generation_config: Any = None,
    *,
    sampler: Any = "topk:2+ad",
    block: int | None = None,
    seed: int | Sequence[int] = 0,
    mask_id: int | None = None,
    shift: bool | None = None,
    suppress: Sequence[int] = (),
    max_nfe: int | None = None,
    cfg_scale: float = 0.0,
    adapter: Any = None,
    on_step: Callable[[int, Any], Any] | None = None,
    progress: bool = False,
    **model_kwargs: Any,
) -> torch.Tensor | Output:
    """Decodes by cofill what `model.generate` was asked for.

    Parameters
    ----------
    model, input_ids
        From transformers.
    logits_processor, stopping_criteria
        From transformers. A masked diffusion model writes anywhere, so that neither has a meaning; a warning says so if there are any
        but those that transformers makes by itself.
    generation_config : transformers.GenerationConfig
        `max_new_tokens` (or `max_length`), `temperature`, `top_p`, `top_k` (with `do_sample=True`), `num_return_sequences`,
        `return_dict_in_generate`.
    sampler, block, seed, mask_id, shift, suppress, max_nfe, cfg_scale, adapter, on_step, progress
        As of `cofill.generate`.
    **model_kwargs
        From transformers: `attention_mask` is used, caches are not. (`attention_mask` is not named above because transformers would then
        pass it twice.)

    Returns
    -------
    torch.Tensor or cofill.torch.Output
        int64 `[batch, length]`; the whole output with `return_dict_in_generate=True`.
    """
    new = _new_tokens(generation_config, input_ids.shape[-1])
    _warn_of_processors(logits_processor)
    sampled: dict[str, Any] = {}
    if getattr(generation_config, "do_sample", False):
        temperature = getattr(generation_config, "temperature", None)
        sampled["temperature"] = 1.0 if temperature is None else float(temperature)
        top_p, top_k = getattr(generation_config, "top_p", None), getattr(generation_config, "top_k", None)
        sampled["top_p"] = top_p if top_p is not None and top_p < 1 else None
        sampled["top_k"] = top_k or None
    copies = getattr(generation_config, "num_return_sequences", None) or 1
    if copies > 1 and isinstance(seed, Integral):
        # transformers has repeated each prompt; with one seed all repetitions would be the same text.
        seed = [seed + i % copies for i in range(input_ids.shape[0])]
    out = generate(
        model,
        input_ids,
        sampler,
        max_new_tokens=new,
        block=block,
        seed=seed,
        attention_mask=_padding(model_kwargs.get("attention_mask")),
        mask_id=mask_id,
        shift=shift,
        suppress=suppress,
        max_nfe=max_nfe,
        cfg_scale=cfg_scale,
        adapter=adapter,
        on_step=on_step,
        progress=progress,
        **sampled,
    )
    return out if getattr(generation_config, "return_dict_in_generate", False) else out.sequences


def _new_tokens(generation_config: Any, prompt: int) -> int:
    new = getattr(generation_config, "max_new_tokens", None)
    if new is None:
        longest = getattr(generation_config, "max_length", None)
        if longest is None or longest <= prompt:
            raise Error(
                f"max_length must be above the {prompt} tokens of the prompt, but {longest} was given; pass max_new_tokens="
            )
        new = longest - prompt
    return int(new)


def _padding(mask: torch.Tensor | None) -> torch.Tensor | None:
    """The mask, if it hides anything; transformers makes one of ones where none was given."""
    return None if mask is None or bool((mask != 0).all()) else mask


def _warn_of_processors(logits_processor: Any) -> None:
    own = {"TemperatureLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper", "InfNanRemoveLogitsProcessor"}
    others = [type(p).__name__ for p in logits_processor or [] if type(p).__name__ not in own]
    if others:
        warnings.warn(f"{', '.join(others)} expect(s) text from left to right and is not applied", stacklevel=3)
