"""A torch model decoded by cofill's samplers: the loop that people copy for every sampler, once.

The sampler, the canvas and the trace live in Rust (`cofill.Decode`); the model stays where it is. A step asks every sequence's `Decode`
what it wants to know, answers all of them by one forward for each length (`forward.py`), and hands the numbers back. What a sampler wants beyond one
forward, such as canvases with tokens revealed, is just another question, and shares the next batch with everybody else's.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import cofill
from cofill import Error, adapters
from cofill.torch.canvases import Canvases, read_canvases
from cofill.torch.checks import integers, known_tokens, number, read_seeds, whole_number
from cofill.torch.forward import PARTS, Forward, Question
from cofill.torch.statistics import Proposal

__all__ = ["generate", "fill", "Output"]


@dataclass
class Output:
    """What `generate` and `fill` give back.

    Attributes
    ----------
    sequences : torch.Tensor
        int64 `[batch, length]` on the model's device: prompts and what was written, padded on the left as the input was.
    attention_mask : torch.Tensor
        int64 of the same shape, 0 where a position is padding.
    nfe : list of int
        Forwards of each sequence; guidance counts once, as LLaDA's code counts.
    finish : list of str
        `complete`, or `capped` where `max_nfe` left masks.
    traces : list of cofill.Trace
        Empty without `trace`.
    seconds : dict
        Where the time went, in all: forward, capture, statistics, copy, absorb, write_back, total.
    forwards : int
        How often the model was called: less than the sum of `nfe`, since sequences share forwards.
    """

    sequences: torch.Tensor
    attention_mask: torch.Tensor
    nfe: list[int]
    finish: list[str]
    traces: list[Any] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    forwards: int = 0

    def __repr__(self) -> str:
        shape = list(self.sequences.shape)
        return f"Output(sequences={shape}, nfe={self.nfe}, finish={self.finish}, seconds={self.seconds.get('total', 0.0):.3f})"


def generate(
    model: torch.nn.Module,
    input_ids: Any,
    sampler: Any = "topk:2+ad",
    max_new_tokens: int = 256,
    block: int | None = None,
    temperature: float = 0.0,
    seed: int | Sequence[int] = 0,
    attention_mask: Any = None,
    mask_id: int | None = None,
    shift: bool | None = None,
    suppress: Sequence[int] = (),
    max_nfe: int | None = None,
    trace: bool = True,
    on_step: Callable[[int, Any], Any] | None = None,
    **options: Any,
) -> Output:
    """Writes `max_new_tokens` tokens after every prompt.

    Parameters
    ----------
    model : torch.nn.Module
        LLaDA, Dream, an A2D conversion, or any other with `adapter`.
    input_ids : torch.Tensor or list
        Prompts: `[batch, length]`, `[length]`, or a list of sequences of unequal lengths.
    sampler : str, cofill.Sampler or object
        A specification such as `eb:3+ad` (`cofill.samplers()` lists them), or an object with `select(view)`.
    max_new_tokens : int
        How many masks stand after each prompt.
    block : int, optional
        Decode in blocks of this length, left to right; None decodes everything at once.
    temperature : float
        0 writes the likeliest token; above 0, tokens are sampled.
    seed : int or sequence of int
        The root of all randomness, for all sequences or for each. A sequence's result depends on its own seed alone, not on its batch.
    attention_mask : torch.Tensor, optional
        0 for padding, which must stand on the left of `input_ids`.
    mask_id, shift : optional
        In place of what the model's family says.
    suppress : sequence of int
        Tokens that are never written.
    max_nfe : int, optional
        The most forwards of a sequence; masks are left where it ends so.
    trace : bool
        Whether to keep a trace of every sequence.
    on_step : callable, optional
        Called with (sequence, step) after every step of every sequence.
    **options
        As of `fill`: demote, top_p, top_k, cfg_scale, attention_row, adapter, noise, padding, batch_size, progress, tokenizer, profile.

    Examples
    --------
    A published model is ready as it is:

    >>> out = cofill.generate(model, input_ids, sampler="eb:3+ad", max_new_tokens=128)                    # doctest: +SKIP
    >>> tokenizer.batch_decode(out.sequences[:, input_ids.shape[1]:], skip_special_tokens=True), out.nfe  # doctest: +SKIP

    Any other needs an adapter, which here has nothing to add. This one is a model that counts, and is surer of small numbers:

    >>> import torch, types, cofill
    >>> from cofill.adapters import Adapter
    >>> class Counts(torch.nn.Module):
    ...     def forward(self, input_ids, attention_mask=None):
    ...         position = torch.arange(input_ids.shape[1]).expand_as(input_ids)
    ...         logits = torch.nn.functional.one_hot(position, 10) * (12.0 - position[..., None])
    ...         return types.SimpleNamespace(logits=logits)
    >>> model = Counts().eval()
    >>> out = cofill.generate(model, [[0, 1]], sampler="topk:2", max_new_tokens=5, adapter=Adapter(model, mask_id=9))
    >>> out.sequences.tolist(), out.nfe, out.finish
    ([[0, 1, 2, 3, 4, 5, 6]], [3], ['complete'])
    >>> [step.positions.tolist() for step in out.traces[0].steps]
    [[2, 3], [4, 5], [6]]
    """
    max_new_tokens = whole_number("max_new_tokens", max_new_tokens)
    adapter = options.pop("adapter", None)
    _refuse_unknown(options)
    adapter = adapters.adapt(model, adapter, mask_id=mask_id, shift=shift)
    masks = [adapter.mask_id] * max_new_tokens
    canvases = _canvases(adapter, input_ids, attention_mask, "input_ids", masks)
    for row, tokens in enumerate(canvases.tokens):
        if (tokens[: -len(masks)] == adapter.mask_id).any():
            raise Error(
                f"input_ids holds the mask ({adapter.mask_id}) in row {row}, and a prompt is kept as it is; `cofill.fill` fills masks anywhere"
            )
    return _decode(
        adapter,
        canvases,
        sampler,
        block=block,
        temperature=temperature,
        seed=seed,
        suppress=suppress,
        max_nfe=max_nfe,
        trace=trace,
        on_step=on_step,
        **options,
    )


def fill(
    model: torch.nn.Module,
    tokens_with_masks: Any,
    sampler: Any = "topk:2+ad",
    *,
    attention_mask: Any = None,
    mask_id: int | None = None,
    shift: bool | None = None,
    adapter: Any = None,
    **options: Any,
) -> Output:
    """Writes a token for every mask of a canvas: gaps in a text, templates, anything.

    Parameters
    ----------
    model, sampler, attention_mask, mask_id, shift
        As of `generate`.
    tokens_with_masks : torch.Tensor or list
        `[batch, length]`, `[length]` or a list of sequences; what equals the model's mask id is written.
    adapter : object, optional
        For model classes that are not known; see `cofill.adapters`.
    block, temperature, seed, suppress, max_nfe, trace, on_step
        As of `generate`.
    demote : sequence of int
        Tokens that may be written but have no confidence, so that they are written last.
    top_p, top_k : float, int, optional
        Dream's filters, before the confidence is read, also at temperature 0.
    cfg_scale : float
        Classifier-free guidance, as in LLaDA's `generate`; what was given is hidden. Two passes a forward.
    attention_row : {"position", "source"}
        Whose attention stands for a position of a shifted model.
    noise : {"device", "exact"}
        `exact` takes the noise of the Rust engine: the same tokens as `cofill.Engine`, at the price of a copy of [rows, vocab] numbers a step.
    padding : bool
        True puts sequences of unequal lengths in one batch, padded on the left; not for LLaDA files that ignore the mask.
    batch_size : int, optional
        The most sequences in a forward.
    progress : bool
        A bar, if tqdm is installed.
    tokenizer : optional
        Anything with `decode(list of int)`, so that traces read as text.
    profile : bool
        Wait for the device after every part of a step, so that `seconds` is exact on a GPU.
    """
    _refuse_unknown(options)
    adapter = adapters.adapt(model, adapter, mask_id=mask_id, shift=shift)
    canvases = _canvases(adapter, tokens_with_masks, attention_mask, "tokens_with_masks", ())
    return _decode(adapter, canvases, sampler, **options)


def _canvases(adapter: Any, given: Any, attention_mask: Any, name: str, append: Sequence[int]) -> Canvases:
    device = getattr(adapter, "device", None) or next(adapter.model.parameters()).device
    canvases = read_canvases(
        given, attention_mask, name=name, device=device, vocab=known_tokens(adapter), append=append
    )
    for row, tokens in enumerate(canvases.tokens):
        if getattr(adapter, "shift", False) and tokens[0] == adapter.mask_id:
            raise Error(
                f"{name} begins with a mask in row {row}, and this model predicts a position from the one before it; put a token first, such as the "
                "beginning of text"
            )
    return canvases


def _decode(
    adapter: Any,
    canvases: Canvases,
    sampler: Any,
    *,
    block: int | None = None,
    temperature: float = 0.0,
    seed: int | Sequence[int] = 0,
    suppress: Sequence[int] = (),
    demote: Sequence[int] = (),
    top_p: float | None = None,
    top_k: int | None = None,
    max_nfe: int | None = None,
    trace: bool = True,
    on_step: Callable[[int, Any], Any] | None = None,
    cfg_scale: float = 0.0,
    attention_row: str = "position",
    noise: str = "device",
    padding: bool = False,
    batch_size: int | None = None,
    progress: bool = False,
    tokenizer: Any = None,
    profile: bool = False,
) -> Output:
    """Settings become one `Decode` for each canvas, and `_loop` runs them to the end."""
    begun = time.perf_counter()
    if noise not in ("device", "exact"):
        raise Error(f"noise must be 'device' or 'exact', but {noise!r} was given")
    never, last = (tuple(integers(*given).tolist()) for given in (("suppress", suppress), ("demote", demote)))
    proposal = Proposal(number("temperature", temperature), top_p, top_k, never, last)
    forward = Forward(
        adapter,
        proposal=proposal,
        cfg_scale=cfg_scale,
        attention_row=attention_row,
        padding=padding,
        batch_size=batch_size,
        profile=profile,
    )
    _warn_of_training(adapter)
    built = cofill.sampler(sampler)
    _refuse_needs(built)
    settings: dict[str, Any] = dict(
        block=block,
        temperature=temperature,
        max_nfe=max_nfe,
        suppress=proposal.suppress,
        demote=proposal.demote,
        top_p=top_p,
        top_k=top_k,
        model=str(getattr(adapter, "name", "")),
    )
    seeds = read_seeds(seed, len(canvases.tokens))
    decodes = [
        cofill.Decode(
            tokens.astype(np.uint32), adapter.mask_id, built, seed=seeds[i], **settings, **_pieces(tokenizer, tokens)
        )
        for i, tokens in enumerate(canvases.tokens)
    ]
    bar = _bar(progress, sum(decode.n_masked for decode in decodes))
    exact = noise == "exact" and proposal.noise_scale > 0
    try:
        _loop(forward, decodes, seeds, _vocab(adapter) if exact else None, bar, on_step)
    finally:
        if bar is not None:
            bar.close()
    tokens = [decode.tokens.astype(np.int64) for decode in decodes]
    sequences, mask = canvases.sequences(tokens, getattr(adapter, "pad_id", 0))
    return Output(
        sequences=torch.from_numpy(sequences).to(forward.device),
        attention_mask=torch.from_numpy(mask).to(forward.device),
        nfe=[decode.nfe for decode in decodes],
        finish=[str(decode.finish) for decode in decodes],  # none is None: the loop ends when all have ended
        traces=[decode.trace for decode in decodes] if trace else [],
        seconds={part: forward.seconds[part] for part in PARTS} | {"total": time.perf_counter() - begun},
        forwards=forward.calls,
    )


def _loop(
    forward: Forward,
    decodes: list[Any],
    seeds: list[int],
    exact_vocab: int | None,
    bar: Any,
    on_step: Callable[[int, Any], Any] | None,
) -> None:
    """Ask every decode, answer all, until none asks."""
    while pending := [(i, query) for i, decode in enumerate(decodes) if (query := decode.query()) is not None]:
        questions = []
        for i, q in pending:
            gumbel = None if exact_vocab is None else decodes[i].gumbel(exact_vocab)
            questions.append(Question(q.tokens, q.rows, q.free, q.attention, q.distributions, seeds[i], q.step, gumbel))
        for (i, _), answer in zip(pending, forward.ask(questions)):
            decode, before, begun = decodes[i], decodes[i].n_masked, time.perf_counter()
            step = decode.absorb(**answer.arrays())
            forward.seconds["absorb"] += time.perf_counter() - begun
            if step is None:  # the sampler looks ahead, and asks again
                continue
            if bar is not None:
                bar.update(before - decode.n_masked)
            if on_step is not None:
                on_step(i, step)


def _refuse_unknown(options: dict[str, Any]) -> None:
    """Refuses options that nobody knows, by name."""
    known = [name for name, p in inspect.signature(_decode).parameters.items() if p.kind is p.KEYWORD_ONLY]
    unknown = [name for name in options if name not in known]
    held = [name for name in unknown if name in ("schema", "regex", "choice")]
    if held:
        raise Error(f"{held[0]} needs what only the engine computes; use cofill.Engine(folder).generate(..., {held[0]}=...)")
    if unknown:
        raise Error(f"unknown option(s) {', '.join(unknown)}; known are adapter, {', '.join(known)}")


def _refuse_needs(sampler: Any) -> None:
    """Refuses samplers that a torch model cannot serve, before anything runs."""
    needs = sampler.needs
    if needs.companion:
        raise Error(
            f"{sampler} asks a second, autoregressive model, and torch models have no companion here; use "
            "cofill.Engine(..., companion=...), or another sampler"
        )
    if needs.attention == "learned":
        raise Error(
            f"{sampler} asks a trained head who changes whom, which torch models do not have; use cofill.Engine, or +ad@layer=last"
        )


def _pieces(tokenizer: Any, tokens: np.ndarray) -> dict[str, Any]:
    """What `Decode` needs so that its trace reads as text."""
    if tokenizer is None:
        return {}

    def piece(token: int) -> str:
        return tokenizer.decode([int(token)])

    return {"pieces": [piece(token) for token in tokens], "piece": piece}


def _vocab(adapter: Any) -> int:
    vocab = getattr(adapter, "vocab", None)
    if vocab is None:
        raise Error("noise='exact' must know the size of the vocabulary before a forward; give the adapter a `vocab`")
    return vocab


def _warn_of_training(adapter: Any) -> None:
    if getattr(getattr(adapter, "model", None), "training", False):
        warnings.warn(
            "the model is in training mode, in which dropout makes its answers random; call model.eval()", stacklevel=4
        )


def _bar(progress: bool, total: int) -> Any:
    if not progress:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        warnings.warn("progress=True needs tqdm: pip install tqdm", stacklevel=4)
        return None
    return tqdm(total=total, unit="token")
